"""Ctrl-C and SIGTERM while a job runs: the first asks it to stop after a checkpoint, the second ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, Protocol

from changelog_engine.errors import JobCancelledError, JobInterruptedError
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.launcher.standard_streams import tell


class Stoppable(Protocol):
    """A job as a signal's handler sees it."""

    @property
    def makes_checkpoints(self) -> bool: ...

    def stop(self) -> None: ...


@contextlib.contextmanager
def interruptible(job: Stoppable, stopping: list[int]) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks the job to stop, and is noted; the next one does what it did before.

    SIGINT stays ignored where the parent process had it ignored, as a shell does for ``job &`` in a script, and
    SIGTERM is left to a program that handles it. Processes that a function forks have both as they were.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [signal.SIGINT] if before[signal.SIGINT] is not signal.SIG_IGN else []
    if before[signal.SIGTERM] is signal.SIG_DFL:
        ours.append(signal.SIGTERM)

    def as_before() -> None:
        _handled.clear()
        for number in ours:
            signal.signal(number, before[number])

    def on_signal(number: int, frame: Any) -> None:
        as_before()
        after = "the next checkpoint" if job.makes_checkpoints else "what is being read"
        press = "interrupt" if in_ipython() else "press Ctrl-C"  # a notebook has a button
        again = f"{press} again" if number == signal.SIGINT else "send SIGTERM again"
        stopping.append(number)
        job.stop()
        tell(f"stopping after {after}; {again} to stop at once")

    _handled.update((number, before[number]) for number in ours)
    for number in ours:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        as_before()


_handled: dict[int, Any] = {}  # signals that stop the job, with their handlers of before
_masks = threading.local()


def _before_fork() -> None:
    """Python forgets what comes for a child before it is set up; blocked until then, it is not lost."""
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _handled) if _handled else None


def _after_fork() -> None:
    if _masks.before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _after_fork_in_child() -> None:
    for number, handler in _handled.items():
        signal.signal(number, handler)
    _handled.clear()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


def interrupted(
    name: str, settings: JobSettings, last: int | None, number: int = signal.SIGINT, started: bool = True
) -> JobCancelledError:
    """Say once how a job ended that Ctrl-C or another signal stopped.

    Args:
        last: its newest checkpoint; None where there is none, or it had not started.
        started: it had come to where it runs.
    """
    if not started:
        message = (
            f"job {name!r} stopped while it started: run again, it begins where this run would have begun"
        )
    elif settings.checkpoint_interval_ms is None:
        message = (
            f"job {name!r} stopped; it makes no checkpoints, so nothing is kept: run again, it begins anew"
        )
    elif last is None:
        message = f"job {name!r} stopped before its first checkpoint: run again, it begins anew"
    else:
        message = f"job {name!r} stopped after checkpoint {last}; run it again to go on from there"
    if in_ipython():
        return _InterruptedCellError(message)
    tell(message)
    return JobInterruptedError(message, number)


class _InterruptedCellError(JobCancelledError):
    """The same in IPython and notebooks, where a SystemExit ends nothing and comes with advice how to leave IPython."""

    def _render_traceback_(self) -> list[str]:
        return [f"{JobCancelledError.__name__}: {self}"]


def in_ipython() -> bool:
    """Whether IPython or a notebook's kernel runs this program."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None
