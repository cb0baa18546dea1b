"""Notes of processes at work, for those who find what such a process has begun: whether it may still finish it.

Invariant: a process is taken for ended when it is gone from this machine, or noted itself a day ago, wherever it runs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from changelog_engine.clock import wall_s
from changelog_engine.readable import iso

LONGEST_HOURS = 24
_LATEST_S = 1 << 37  # of the year 6325: clocks say nothing later, whatever a damaged note does


def process_note(clock: Callable[[], float] = wall_s) -> dict[str, Any]:
    """What this process notes of itself."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "time": clock()}


def has_ended(note: Mapping[str, Any], now: float) -> bool:
    """Whether the process that made a note has ended, as far as can be told."""
    since, pid = _time_in(note), note.get("pid")
    if since is not None and is_over(since, now):
        return True
    return note.get("host") == socket.gethostname() and isinstance(pid, int) and pid > 0 and not is_there(pid)


def is_over(since: float, now: float) -> bool:
    """Whether a process that began at this time, in seconds since 1970, is no longer waited for."""
    return now - since > LONGEST_HOURS * 3600


def who_noted(note: Mapping[str, Any]) -> str:
    """Such as "process 71 on host-b, since 2026-11-27 09:00:00 UTC"."""
    since = _time_in(note)
    at = "" if since is None else f", since {iso(since * 1000, 'seconds')} UTC"
    return f"process {note.get('pid', '?')} on {note.get('host', '?')}{at}"


def _time_in(note: Mapping[str, Any]) -> float | None:
    """When a process made its note, in seconds since 1970; None where it does not say so."""
    since = note.get("time")
    return since if isinstance(since, int | float) and abs(since) < _LATEST_S else None


def is_there(pid: int) -> bool:
    """Whether this machine has a process of that number; in a container, whether that has."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
