"""The PyFlink-compatible API: what users write.

``changelog_engine.api.datastream`` and ``changelog_engine.api.common`` mirror ``pyflink.datastream`` and ``pyflink.common``;
``api`` is a shorter name for the same modules, where no other package is called so. A job moves by replacing the word
``pyflink`` in its imports, or as it is with ``changelog-engine run``. Importing and building run nothing; ``execute()``
loads the engine.

PyFlink documents what is here under the paths that it is imported from, with ``pyflink`` for ``changelog_engine.api``.
Where a docstring has a line ``Source:``, something else was the model, or nothing.
"""

import importlib
import sys

if __name__ == "changelog_engine.api":
    from . import version as version

    __all__: list[str] = []
else:
    # Found on the import path under the short name: the modules exist once, under the long one.
    sys.modules[__name__] = importlib.import_module("changelog_engine.api")
