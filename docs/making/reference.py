"""The API reference out of the docstrings: ``python docs/making/reference.py FOLDER MODULE...``.

What a public class has from a base class whose name begins with ``_`` is shown as its own: the base has no page to link to.
Names that a module gives when they are asked for are asked for first, as pdoc leaves out those that do not lie in it.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import pdoc
from pdoc import doc, render

_declared = doc.Class._taken_from


def _taken_from(self: doc.Class, member_name: str, obj: Any) -> tuple[str, str]:
    module, qualified = _declared(self, member_name, obj)
    owner = qualified.rpartition(".")[0].rpartition(".")[2]
    return (
        (self.modulename, f"{self.qualname}.{member_name}") if owner.startswith("_") else (module, qualified)
    )


doc.Class._taken_from = _taken_from  # type: ignore[method-assign]
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", ()):
        setattr(module, public, getattr(module, public))
warnings.filterwarnings("error", ".*but it does not resolve")  # what is left out is missed by nobody
render.configure(docformat="google", show_source=False)
pdoc.pdoc(*sys.argv[2:], output_directory=Path(sys.argv[1]))
