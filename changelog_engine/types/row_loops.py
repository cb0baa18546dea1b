"""Loops over rows and tuples in C: LOOPS, else None; see changelog_engine/extension.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from changelog_engine.extension import NOT_BUILT, why_not

try:
    from changelog_engine.types import _row_loops
except ImportError:
    LOOPS = None
    WHY_NOT: str | None = NOT_BUILT
else:
    WHY_NOT = why_not(_row_loops, Path(__file__).with_name("_row_loops.c"))
    LOOPS = _row_loops if WHY_NOT is None else None


def _classes_of(values: Iterable[Any]) -> set[type]:
    """The classes of some values."""
    return set(map(type, values))


classes_of: Callable[[Iterable[Any]], set[type]] = _classes_of if LOOPS is None else LOOPS.classes_of
