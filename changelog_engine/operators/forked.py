"""A process that a user's function forks must not go on as if it were the one that forked it.

``os.fork()`` in a function copies the process with the engine at work in it. Where the copy returns from the function, it
would go on: write the same output, parts and commits again, and close what both share.

Invariants:
    * A forked child ends, without output, as soon as it is back in the engine's code: at the first instruction.
    * The parent pays nothing: no check per element, call or epoch.
    * A child that never comes back, as those of ``multiprocessing`` and ``subprocess``, is left alone.

How: the child looks at the calls that it is in the middle of, and puts a trace on those of the engine. Python calls a trace
at the next instruction of its frame, whether a function returned there or raised.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from changelog_engine.whose_code import is_ours


class _Working(threading.local):
    """How many of this thread's calls are within `ends_in_forked_children`."""

    depth = 0


_working = _Working()


@contextlib.contextmanager
def ends_in_forked_children() -> Iterator[None]:
    """Within it, a child that this thread forks ends where it would come back to."""
    before = _working.depth
    _working.depth = before + 1
    try:
        yield
    finally:
        _working.depth = before


def in_task() -> bool:
    """Whether this thread is at a subtask's work, of which users' functions are a part."""
    return _working.depth > 0


def _in_child() -> None:
    if not _working.depth:
        return
    frame: FrameType | None = sys._getframe()
    found = False
    while frame is not None:
        if is_ours(frame.f_code.co_filename) and frame.f_code is not _in_child.__code__:
            frame.f_trace = _end
            frame.f_trace_opcodes = True
            found = True
        frame = frame.f_back
    if found:
        sys.settrace(_of_new_calls)


def _of_new_calls(frame: FrameType, event: str, argument: Any) -> None:
    """What the child calls by itself is its own affair; a process of multiprocessing never comes back."""
    if frame.f_code.co_name == "_bootstrap" and frame.f_globals.get("__name__") == "multiprocessing.process":
        sys.settrace(None)


def _end(frame: FrameType, event: str, argument: Any) -> None:
    os._exit(0)


os.register_at_fork(after_in_child=_in_child)
