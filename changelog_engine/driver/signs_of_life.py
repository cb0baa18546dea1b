"""A driver's signs of life: from them others see that it lives, where no lock or process can be looked at, and what it does.

Invariants:
    * They come from a thread of their own: an epoch, a restore or a request that takes long holds none up.
    * A sign that cannot be written costs a warning, once: the job does not need it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from changelog_engine.driver.interval_thread import IntervalThread
from changelog_engine.errors import StorageError
from changelog_engine.ledger.ownership import SIGN_EVERY_S, DriverLock

log = logging.getLogger("changelog_engine")

_PATIENCE_S = 5.0  # with a store that does not answer


class SignsOfLife(IntervalThread):
    """Gives a sign of life at intervals while a job runs; the last one stays until the lock is given back.

    Args:
        lock: the job's, which is held; the first sign was given with it.
        doing: what the job does now, for people.
    """

    def __init__(
        self, lock: DriverLock, doing: Callable[[], str] = str, every_s: float = SIGN_EVERY_S
    ) -> None:
        super().__init__("signs of life", every_s, _PATIENCE_S)
        self._lock = lock
        self._doing = doing
        self._warned = False

    def _look(self) -> None:
        try:
            self._lock.sign(self._doing())
        except StorageError as failure:
            if not self._warned:
                self._warned = True
                log.warning("others cannot see that this driver runs: %s", failure)
