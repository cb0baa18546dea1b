"""The engine's extensions in C, which are there if there was a compiler when it was installed.

Invariants:
    * Without them all is the same but slower: each function stands for one in Python, and leaves to it what it does not
      expect. Tests compare them.
    * An extension that was built of another source than the one beside it is not used.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from types import ModuleType

NOT_BUILT = "it was not built"  # a wheel without it, or no compiler


def why_not(module: ModuleType, source: Path) -> str | None:
    """What keeps an extension from being used; None if it may be used."""
    built = getattr(module, "SOURCE", None)
    try:
        there = f"{zlib.crc32(source.read_bytes()):08x}"
    except OSError as error:
        return f"its source cannot be read ({error.strerror or error}): {source}"
    return None if built == there else "it was built of another source than the one beside it"
