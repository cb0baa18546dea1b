"""The API reference out of the docstrings: ``python docs/making/reference.py FOLDER MODULE...``.

What a public class has from a base class whose name begins with ``_`` is shown as its own: the base has no page to link to.
What it has from another one is listed, with links to a page that shows that one.
Names that a module gives when they are asked for are asked for first, as pdoc leaves out those that do not lie in it.
pdoc takes what a ``Generic`` class overrides from its bases, since it looks there before it looks into the class; here the
order is Python's.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pdoc
from pdoc import doc, render

_declared = doc.Class._taken_from
_bases_of = doc.Class.bases.func


def _taken_from(self: doc.Class, member_name: str, obj: Any) -> tuple[str, str]:
    module, qualified = _declared(self, member_name, obj)
    owner = qualified.rpartition(".")[0]
    if owner.rpartition(".")[2].startswith("_"):
        return self.modulename, f"{self.qualname}.{member_name}"
    if (module, owner) == self.taken_from:
        return module, qualified
    shown = pages.get((module, owner.partition(".")[0]), [module])
    return self.modulename if self.modulename in shown else shown[0], qualified


doc.Class._taken_from = _taken_from  # type: ignore[method-assign]
doc.Class.bases = property(lambda self: [base for base in _bases_of(self) if not base[1].startswith("_")])  # type: ignore[assignment]
doc.Class._bases = property(lambda self: self.obj.__mro__)  # type: ignore[assignment]
pages: dict[tuple[str, str], list[str]] = {}
"""On which pages a class is, by the module that defines it and its name."""
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", ()):
        setattr(module, public, found := getattr(module, public))
        pages.setdefault((getattr(found, "__module__", name), public), []).append(name)
warnings.filterwarnings("error", ".*but it does not resolve")  # what is left out is missed by nobody
render.configure(docformat="google", show_source=False)
pdoc.pdoc(*sys.argv[2:], output_directory=Path(sys.argv[1]))

anchors = {
    page.resolve(): re.findall(r' id="([^"]+)"', page.read_text())
    for page in Path(sys.argv[1]).rglob("*.html")
}
dead = [
    f"{page}: {path}#{anchor}"
    for page in anchors
    for path, anchor in re.findall(r' href="([\w./]*)#([\w.]+)"', page.read_text())
    if anchor not in anchors[(page.parent / path).resolve() if path else page]
]
if dead:
    sys.exit("links to places that are not there:\n" + "\n".join(dead))
