"""Loops over rows and tuples in C, where there was a compiler when the engine was installed: LOOPS, else None.

Invariants:
    * Without them all is the same but slower: each stands for code in Python, and leaves to it what it does not expect.
      A test compares them.
    * An extension that was built of another source than the one beside this file is not used, and ``WHY_NOT`` says so.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from types import ModuleType

_SOURCE = Path(__file__).with_name("_row_loops.c")


def _why_not(loops: ModuleType) -> str | None:
    """What keeps an extension from being used; None if it may be used."""
    built = getattr(loops, "SOURCE", None)
    try:
        there = f"{zlib.crc32(_SOURCE.read_bytes()):08x}"
    except OSError as error:
        return f"its source cannot be read ({error.strerror or error}): {_SOURCE}"
    return None if built == there else "it was built of another source than the one beside it"


try:
    from changelog_engine.types import _row_loops
except ImportError:  # a wheel without it, or no compiler
    LOOPS = None
    WHY_NOT: str | None = "it was not built"
else:
    WHY_NOT = _why_not(_row_loops)
    LOOPS = _row_loops if WHY_NOT is None else None
