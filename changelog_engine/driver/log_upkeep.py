"""Keeps the Delta logs of a job short, between its epochs or beside them.

On a local disk a Delta checkpoint is there within a few epochs' pauses, and is made in the job's thread. In an object store
it takes many requests, in which epochs run on: a thread makes it, with a handle of its own on the table.

Invariants:
    * At most one thread at a time. ``close`` waits for it, but not for a store that is down: what is left then ends with the
      process, and does no harm but to a folder that is deleted.
    * What failed is raised in the job's thread, by the call that comes after it.
"""

from __future__ import annotations

import logging
import threading

from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage

log = logging.getLogger("changelog_engine")

_ENDING_S = 10.0


class LogUpkeep:
    """Has Delta checkpoints made where they are due. Threads: the job's."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._waited = False  # in vain

    def keep_short(self, delta: DeltaLog) -> None:
        """Call it after an acknowledgement.

        Raises:
            StorageError, CorruptChangelogError: as ``DeltaLog.maintain``, also where a thread failed since.
        """
        if delta.storage.local is not None:
            delta.maintain()
            return
        if self._thread is not None:
            if self._thread.is_alive():
                return
            self._thread = None
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
        if delta.is_due():
            self._thread = threading.Thread(
                target=self._maintain, args=(delta.storage,), name="delta-log", daemon=True
            )
            self._thread.start()

    def close(self, wait_s: float = _ENDING_S) -> bool:
        """Wait for what is under way; returns whether nothing is left.

        Args:
            wait_s: for this long at most. A store that did not answer in that time is not waited for again.
        """
        if self._thread is not None:
            self._thread.join(0 if self._waited else wait_s)
            if self._thread.is_alive():
                if self._waited:
                    return False
                self._waited = True
                log.warning(
                    "the store did not answer within %.0f s while the Delta log was kept short, and the job's end waits no "
                    "longer: the next run does it",
                    wait_s,
                )
                return False
            self._thread = None
        if self._failure is not None:
            log.warning("the Delta log could not be kept short, and the job has ended: %s", self._failure)
            self._failure = None
        return True

    def _maintain(self, storage: Storage) -> None:
        try:
            DeltaLog(storage).maintain()
        except Exception as failure:
            self._failure = failure
