"""Loops over rows and tuples in C, where there was a compiler when the engine was installed: LOOPS, else None.

Invariants:
    * Without them all is the same but slower: each is made with the function in Python that it stands for, and gives what it
      does not expect to that function. A test compares them.
    * An extension whose VERSION is another is not used: one that was built before its functions took or gave something else.
"""

from __future__ import annotations

_VERSION = 1  # of what the extension's functions take and give, which it has as VERSION

try:
    from changelog_engine.types import _row_loops
except ImportError:  # a wheel without it, or no compiler
    LOOPS = None
else:
    LOOPS = _row_loops if _row_loops.VERSION == _VERSION else None
