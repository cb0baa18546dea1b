"""Small things that an epoch need not wait for, done in a thread of their own, one after the other.

Invariants:
    * What is asked for is done in the order in which it was asked for, each of it once, or at the end not at all.
    * An errand that fails is nobody's failure: it is for what does itself in another way when it is not done.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger("changelog_engine")

_ENDING_S = 10.0


class Errands:
    """Runs errands; the thread begins with the first one."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, errand: Callable[[], None]) -> None:
        """Have something done soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="errands", daemon=True)
            self._thread.start()
        self._asked.put(errand)

    def close(self) -> None:
        """Wait for what was asked for, but not for a JVM that does not answer."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join(_ENDING_S)
            self._thread = None

    def _serve(self) -> None:
        while (errand := self._asked.get()) is not None:
            try:
                errand()
            except Exception as error:
                log.debug("beside the epochs: %s", error)
