"""What handles and timers do for each record in C: CALLS, else None; see changelog_engine/extension.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from changelog_engine.extension import NOT_BUILT, why_not
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.mutation_log import MutationLog
from changelog_engine.state.timer_table import HeapTimers

try:
    from changelog_engine.state import _handles
except ImportError:
    CALLS = None
    WHY_NOT: str | None = NOT_BUILT
else:
    WHY_NOT = why_not(_handles, Path(__file__).with_name("_handles.c"))
    CALLS = _handles if WHY_NOT is None else None

if CALLS is not None:
    CALLS.bind(Cursor, HeapTimers)


def parts_of_log(log: MutationLog | None) -> dict[str, Any]:
    """What a call in C has of a log, by the names that C knows."""
    if log is None:
        return {}
    return {
        "log_keys": log.keys,
        "log_map_keys": log.map_keys,
        "log_values": log.values,
        "log_operations": log.operations,
        "log_times": log.times,
    }
