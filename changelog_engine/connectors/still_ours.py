"""Whether this process may still write: another driver may have taken the job over while it stood still.

The engine looks before it hands elements to a writer. A writer that sends them by many requests, or tries again after a
failure, asks before each: else a process that was stopped in the middle would go on to write old values over newer ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

ASKS_EVERY = 200  # elements of a block, at least, where they are handed over one by one: one may take long

_check: ContextVar[Callable[[], None] | None] = ContextVar("still_ours", default=None)


def ask_by(check: Callable[[], None] | None) -> None:
    """What `check_still_ours` calls in this thread from now on; None for nothing."""
    _check.set(check)


def check_still_ours() -> None:
    """Called by a writer whenever it is about to send something that others see.

    Raises:
        FencedError: another driver runs the job.
    """
    check = _check.get()
    if check is not None:
        check()
