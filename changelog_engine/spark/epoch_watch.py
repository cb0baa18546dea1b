"""The end of an epoch that would not end by itself, or that nobody waits for any more."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from changelog_engine.clock import Deadline
from changelog_engine.spark.jvm import LOST
from changelog_engine.storage.locks import stopped_below

_LOOK_S = 1.0  # from one look to the next whether an epoch's executors are there
_LONG_S = 30.0  # how long an epoch may take before it is asked whether a process is stopped
_STANDS_STILL = (
    ". Look whether what its functions and sinks call stands still, as a service that does not answer; if it is only slow, "
    "set execution.checkpointing.timeout longer"
)
log = logging.getLogger("changelog_engine")


class EpochWatch:
    """Cancels epochs that take too long or whose executors are lost: Spark would have tasks wait for these.

    Args:
        cancel: has Spark cancel what runs of the epoch.
        lost: the executors with subtasks that are gone; None where there are none to lose.
        unfinished: what of the epoch has not ended, in words; "" where that is not known.

    Attributes:
        reason: why the epoch was cancelled; None as long as it was not.
    """

    def __init__(
        self,
        cancel: Callable[[], None],
        lost: Callable[[], list[str]] | None,
        unfinished: Callable[[], str] = str,
    ) -> None:
        self.reason: str | None = None
        self._cancel = cancel
        self._lost = lost
        self._unfinished = unfinished
        self._lock = threading.Lock()

    def cancel(self, reason: str) -> None:
        """Cancel the epoch that is running."""
        with self._lock:
            self.reason = reason
        with contextlib.suppress(*LOST):  # the epoch's own failure says more
            self._cancel()

    @contextlib.contextmanager
    def over(self, timeout_s: float) -> Iterator[None]:
        """Within it, watch an epoch, which is cancelled after this time."""
        ended = threading.Event()
        threading.Thread(target=self._watch, args=(ended, timeout_s), name="epoch", daemon=True).start()
        try:
            yield
        finally:  # after a Ctrl-C the epoch may still run
            with self._lock:
                ended.set()

    def _watch(self, ended: threading.Event, timeout_s: float) -> None:
        """Again and again until the epoch has ended: Spark cancels what has begun, and the epoch may still be about to."""
        deadline, long = Deadline(timeout_s), Deadline(_LONG_S)
        told = False
        while not ended.wait(min(deadline.left_s or _LOOK_S, _LONG_S if self._lost is None else _LOOK_S)):
            if long.passed and not told:
                long, stopped = Deadline(_LONG_S), stopped_below()
                if stopped:
                    told = True
                    log.warning("the epoch does not end%s", stopped)
            lost: list[str] = []
            with contextlib.suppress(*LOST):
                lost = [] if self._lost is None else self._lost()
            if not lost and not deadline.passed:
                continue
            unfinished = ""
            if not lost and self.reason is None:
                with contextlib.suppress(*LOST):
                    unfinished = self._unfinished()
            with self._lock:  # not the next epoch
                if ended.is_set():
                    return
                if self.reason is None:
                    self.reason = (
                        lost_words(lost)
                        if lost
                        else f"the epoch took longer than {timeout_s:.0f} s{unfinished}{stopped_below() or _STANDS_STILL}"
                    )
                with contextlib.suppress(*LOST):
                    self._cancel()


def lost_words(lost: list[str]) -> str:
    """What to say of executors that are gone."""
    return f"executors were lost: {', '.join(lost)}"
