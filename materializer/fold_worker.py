"""The program of a fold process: ``python fold_worker.py NICENESS``, started by ``processes.py``.

It runs as a script, so that it can refuse pandas before anything else is imported. Arrow imports pandas wherever it is
installed, only to know its types when it sees them; that takes longer than all other imports here, and 50 MB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class WithoutPandas(MetaPathFinder):
    """Makes the import of pandas fail, as if it was not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Refuse pandas; leave all else to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("a fold process does without pandas", name=name)


if __name__ == "__main__":
    sys.meta_path.insert(0, WithoutPandas())
    from changelog_engine.memory import keep_memory

    keep_memory(os.environ)
    from materializer.processes import serve

    serve(int(sys.argv[1]))
