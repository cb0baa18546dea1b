"""What is looked at or done at intervals while a job runs, beside its loop."""

from __future__ import annotations

import threading
from collections.abc import Callable


class IntervalThread:
    """Calls a function at intervals, in a thread of its own, until it is stopped.

    Args:
        every_s: how long it waits before each call, the first one too.
        call: raises nothing: what it raised would end the thread.
    """

    def __init__(self, name: str, every_s: float, call: Callable[[], None]) -> None:
        self._every_s = every_s
        self._call = call
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, patience_s: float) -> bool:
        """Make no more calls, and wait for one that is under way.

        Returns:
            Whether the thread ran, and has ended.
        """
        self._stopping.set()
        if self._thread.ident is None:
            return False
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stopping.is_set()

    def _loop(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._call()
