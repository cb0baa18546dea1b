"""Loops over rows and tuples in C: LOOPS, else None; see changelog_engine/extension.py."""

from __future__ import annotations

from pathlib import Path

from changelog_engine.extension import NOT_BUILT, why_not

try:
    from changelog_engine.types import _row_loops
except ImportError:
    LOOPS = None
    WHY_NOT: str | None = NOT_BUILT
else:
    WHY_NOT = why_not(_row_loops, Path(__file__).with_name("_row_loops.c"))
    LOOPS = _row_loops if WHY_NOT is None else None
