"""When a worker looks for garbage in cycles: after its tasks, of what each has made, and seldom within one.

Invariants:
    * PySpark's daemon and ours collect when a task's answer has gone out. They see what that task made and what it left;
      what lived before it is frozen.
    * Once a minute they see everything, and less often where that takes long: a third of a percent of the time at most goes
      into it, however many objects the state has.
    * A program that set a threshold of its own, or switched the automatic collection off, keeps it.
"""

from __future__ import annotations

import gc
from typing import Any

from changelog_engine.clock import monotonic_s

_PYTHONS_THRESHOLDS = (700, 2_000)  # up to 3.12, since 3.13
_NEW_OBJECTS = 250_000  # some 25 MB
_COLLECT_SECONDS = 60
_TIMES_AS_LONG = 300  # as a look at everything took, until the next
_looked_at_all_s = monotonic_s()
_began_s: float | None = None  # a look at everything; None while there is none
_took_s = 0.0


def collect_rarely() -> None:
    """Look for garbage in cycles less often: only after this many more new objects.

    The rows and tuples of an epoch live until its end: at Python's own threshold they were looked at again and again.
    """
    if gc.get_threshold()[0] in _PYTHONS_THRESHOLDS:
        gc.set_threshold(_NEW_OBJECTS)


def before_task() -> None:
    """What lives now is not looked at during the task and after it."""
    collect_rarely()
    gc.freeze()


def after_task() -> None:
    """Let the collection that follows look at everything, when a minute has gone by since it last did."""
    global _looked_at_all_s
    if monotonic_s() - _looked_at_all_s > max(_COLLECT_SECONDS, _TIMES_AS_LONG * _took_s):
        if _time not in gc.callbacks:
            gc.callbacks.append(_time)
        gc.unfreeze()
        _looked_at_all_s = monotonic_s()


def _time(phase: str, info: dict[str, Any]) -> None:
    """Keep how long a look at everything takes, which the daemon begins."""
    global _began_s, _took_s
    if info["generation"] < 2:
        return
    if phase == "start":
        _began_s = monotonic_s()
    elif _began_s is not None:
        _took_s, _began_s = monotonic_s() - _began_s, None
        gc.callbacks.remove(_time)
