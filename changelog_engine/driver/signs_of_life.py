"""A driver's signs of life: others see by them that it is there, where no lock or process can be looked at.

Invariants:
    * They come from a thread of their own: an epoch, a restore or a request that takes long holds none up.
    * A sign that cannot be written costs a warning, once: the job does not need it.
"""

from __future__ import annotations

import logging

from changelog_engine.driver.interval_thread import IntervalThread
from changelog_engine.errors import StorageError
from changelog_engine.ledger.ownership import SIGN_EVERY_S, DriverLock

log = logging.getLogger("changelog_engine")

_PATIENCE_S = 5.0  # with a store that does not answer


class SignsOfLife(IntervalThread):
    """Gives a sign of life at intervals while a job runs; the last one stays until the lock is given back.

    Args:
        lock: the job's, which is held; the first sign was given with it.
    """

    def __init__(self, lock: DriverLock, every_s: float = SIGN_EVERY_S) -> None:
        super().__init__("signs of life", every_s, _PATIENCE_S)
        self._lock = lock
        self._warned = False

    def _look(self) -> None:
        try:
            self._lock.sign()
        except StorageError as failure:
            if not self._warned:
                self._warned = True
                log.warning("others cannot see that this driver runs: %s", failure)
