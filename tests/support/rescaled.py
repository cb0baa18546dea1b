"""A job that is asked for other parallelisms while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from changelog_engine.driver.rescaling import Rescaled
from changelog_engine.errors import ChangelogEngineError
from support.epochs import EpochStats
from support.jobs import TestJob


class RescaledJob(TestJob):
    """A job that is asked for other parallelisms between its epochs.

    Args:
        wanted: what is asked for after which epoch of the job, counted over all drivers.
    """

    def __init__(self, *given: Any, wanted: Mapping[int, Any], **more: Any) -> None:
        super().__init__(*given, **more)
        self.wanted = dict(wanted)
        self.answers: list[Rescaled | ChangelogEngineError] = []
        self.askers: list[threading.Thread] = []

    def _observe(self, stats: EpochStats) -> None:
        due = sorted(epoch for epoch in self.wanted if epoch <= self.progress.epoch)  # type: ignore[union-attr]
        requests = self.coordinator.control.rescales
        for wanted in [self.wanted.pop(epoch) for epoch in due]:
            self.settle(requests)
            self.askers.append(threading.Thread(target=self.ask, args=(requests, wanted)))
            self.askers[-1].start()
        self.settle(requests)
        super()._observe(stats)

    def settle(self, requests: Any) -> None:
        """The job goes on when a request waits for it, or all had their answers: none is late on a busy machine."""
        while requests.waiting is None and any(asker.is_alive() for asker in self.askers):
            time.sleep(0.001)

    def ask(self, requests: Any, wanted: Any) -> None:
        try:
            self.answers.append(requests.take(wanted))
        except ChangelogEngineError as refused:
            self.answers.append(refused)

    def answered(self) -> list[Rescaled]:
        """The requests that were done, once the job has ended; each has had its answer."""
        for asker in self.askers:
            asker.join(30)
            assert not asker.is_alive(), "a request was never answered"
        return [each for each in self.answers if isinstance(each, Rescaled) and each.checkpoint is not None]
