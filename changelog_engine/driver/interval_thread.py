"""What is looked at or done at intervals while a job runs, beside its loop."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class IntervalThread(ABC):
    """Looks at intervals, in a thread of its own, until it is stopped.

    Args:
        every_s: how long it waits before each look, the first one too.
        patience_s: how long ``stop`` waits for a look that is under way.
    """

    def __init__(self, name: str, every_s: float, patience_s: float) -> None:
        self._every_s = every_s
        self._patience_s = patience_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    @abstractmethod
    def _look(self) -> None:
        """Called at intervals. It raises nothing: what it raised would end the thread."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more, and wait for a look that is under way."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(self._patience_s)

    @property
    def ended(self) -> bool:
        """Whether the thread ran, and has ended."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def _loop(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._look()
