"""The driver's side of requests from other processes (``ledger.requests``): another parallelism.

Invariants:
    * The job's loop never waits for it; a folder that cannot be read or written costs a warning, once.
    * Each request is taken once, and answered while the driver runs.
"""

from __future__ import annotations

import contextlib
import logging

from changelog_engine.driver.interval_thread import IntervalThread
from changelog_engine.driver.rescaling import RescaleRequests
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.rescaling import Parallelism
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ownership import DriverIdentity
from changelog_engine.ledger.requests import DriverAnswer, clear_requests, give_answer, take_requests

log = logging.getLogger("changelog_engine")

_PATIENCE_S = 30.0  # with Spark, which may be starting workers for a request
_LOOK_S, _LOOK_FAR_S = 1.0, 10.0  # on a local disk, and on an object store, where each look is paid for


class RequestInbox(IntervalThread):
    """Looks for requests while a job runs, in a thread of its own.

    Args:
        me: this driver, as others see it.
    """

    def __init__(self, folder: JobFolder, me: DriverIdentity, rescales: RescaleRequests) -> None:
        super().__init__("requests", _LOOK_FAR_S if folder.storage.local is None else _LOOK_S, _PATIENCE_S)
        self._folder = folder
        self._me = me
        self._rescales = rescales
        self._taken: set[str] = set()
        self._warned = False

    def start(self) -> None:
        """Begin; what was asked of earlier drivers, and their answers, are removed."""
        with contextlib.suppress(ChangelogEngineError):
            clear_requests(self._folder)
        super().start()

    def stop(self) -> None:
        """End: the job has ended, so that each request that was taken has its answer."""
        super().stop()
        if self.ended:
            self._look()  # what came last is answered too: the job has ended

    def _look(self) -> None:
        try:
            taken = take_requests(self._folder, self._me, self._taken)
        except ChangelogEngineError as failure:
            self._warn("taken", failure)
            return
        for request in taken:
            answer = self._answer(request.parallelism)
            try:
                give_answer(self._folder, request.id, answer)
            except ChangelogEngineError as failure:  # the others are taken too
                self._warn("answered", failure)

    def _warn(self, what: str, failure: ChangelogEngineError) -> None:
        if not self._warned:
            self._warned = True
            log.warning("requests to %s cannot be %s: %s", self._folder.storage.root, what, failure)

    def _answer(self, wanted: Parallelism | None) -> DriverAnswer:
        if wanted is None:
            return DriverAnswer(
                False,
                "this driver does not understand the request: ask with the changelog-engine of the driver's version",
            )
        try:
            return DriverAnswer(True, str(self._rescales.take(wanted)))
        except ChangelogEngineError as refused:
            return DriverAnswer(False, str(refused))
        except Exception as error:  # the requester gets the error, and the next request is still taken
            log.warning("a request to %s failed", self._folder.storage.root, exc_info=True)
            return DriverAnswer(False, f"the driver could not do it: {type(error).__name__}: {error}")
