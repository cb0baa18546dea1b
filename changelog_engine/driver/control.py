"""What others ask of a running job, from their threads: to stop, to fail, for a savepoint or another parallelism.

The driver's loop looks here.
"""

from __future__ import annotations

import contextlib
import queue

from changelog_engine.clock import LONGEST_WAIT_S, Deadline
from changelog_engine.driver.rescaling import Prepare, RescaleRequests
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.plan import JobPlan
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.savepoints.requests import SavepointRequests

_LOOK_S = 0.1


class JobControl:
    """The requests to one run of a job. Safe from any thread; ``stop`` from signal handlers too.

    Args:
        folder: the job's folder; None when the job makes no checkpoints.
        prepare: see ``EpochRunner.prepare``.

    Attributes:
        draining: the input is to end before the last checkpoint, so that event time ends.
        keeps_result: stopped with a savepoint, which is not a cancellation.
    """

    def __init__(self, folder: JobFolder | None, plan: JobPlan, prepare: Prepare) -> None:
        self.savepoints = SavepointRequests(folder)
        self.rescales = RescaleRequests(plan, folder is not None, prepare)
        self.draining = False
        self.keeps_result = False
        self._stopping = False
        # No threading.Event: a thread that begins to wait holds its lock for a moment, and a signal handler of the same
        # thread would wait for it forever. This queue may be put into in the middle of a get().
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._failure: ChangelogEngineError | None = None

    @property
    def stopping(self) -> bool:
        """Whether the job is to stop."""
        return self._stopping

    def stop(self) -> None:
        """Ask the job to stop after a checkpoint."""
        self._stopping = True
        self._woken.put(None)

    def stop_for_savepoint(self, drain: bool) -> None:
        """Stop after a checkpoint that a savepoint is made of.

        Args:
            drain: let event time end first, so that all its timers and windows fire.
        """
        self.draining, self.keeps_result = drain, True
        self.stop()

    def wait(self, wait_ms: float) -> None:
        """Wait; a job that is to stop waits no longer."""
        self._wait_s(wait_ms / 1000)

    def _wait_s(self, wait_s: float) -> None:
        if not self._stopping:
            with contextlib.suppress(queue.Empty):
                self._woken.get(timeout=min(max(0.0, wait_s), LONGEST_WAIT_S))
                self._woken.put(None)  # for others that wait

    def rest(self, rest_ms: float) -> None:
        """Wait between two epochs; a job of which anything is asked rests a tenth of a second at most."""
        deadline = Deadline(rest_ms / 1000)
        while left_s := deadline.left_s:
            self._wait_s(min(left_s, _LOOK_S))
            if self._asked:
                return

    @property
    def _asked(self) -> bool:
        others = self.savepoints.waiting or self.rescales.waiting is not None
        return self.stopping or others or self._failure is not None

    def fail(self, failure: ChangelogEngineError) -> None:
        """Fail the attempt at its next epoch: something beside the job failed for good."""
        self._failure = failure

    def check(self) -> None:
        """Raise what ``fail`` was given, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
