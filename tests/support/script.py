"""How a run of a job shall go: its epochs, its checkpoints and its failures, decided beforehand."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Fault(enum.Enum):
    """What goes wrong, and at which step of the epoch (driver.attempt numbers them)."""

    WORKER = "all worker processes are lost while a subtask runs (step 1)"
    SUBTASK = "the process of one subtask is lost while it runs (step 1)"
    GONE = "all worker processes are gone after the epoch"
    DRIVER = "the driver dies while a subtask runs (step 1)"
    PARTS = "the driver dies between parts and commit (step 2)"
    COMMIT_FAILS = "the commit fails (step 3)"
    COMMIT_LIES = "the commit succeeds and is reported as failed (step 3)"
    COMMITTED = "the driver dies between commit and hand-out of output (step 3)"
    HANDED_OUT = "the driver dies after the hand-out (step 4)"


KILLS_DRIVER = frozenset({Fault.DRIVER, Fault.PARTS, Fault.COMMITTED, Fault.HANDED_OUT})


class DriverKilled(BaseException):
    """Stands for SIGKILL: nothing in the engine catches it."""


@dataclass(frozen=True)
class Failure:
    """One failure: in which epoch of the job (counted over all drivers, from 1) and where."""

    epoch: int
    fault: Fault
    stage: int = 0
    subtask: int = 0


@dataclass(frozen=True)
class Script:
    """Epoch sizes and barriers repeat from their beginning when they are used up.

    Args:
        sizes: how many records each source subtask may read in an epoch.
        barriers: which epochs end with a checkpoint.
        failures: what goes wrong; each happens once.
    """

    sizes: tuple[int, ...] = (5,)
    barriers: tuple[bool, ...] = (True,)
    failures: tuple[Failure, ...] = ()


@dataclass
class Progress:
    """Where a script stands; shared by all drivers of a job."""

    script: Script
    epoch: int = 0
    sizes_used: int = 0
    barriers_used: int = 0
    waiting: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = list(self.script.failures)

    def size(self) -> int:
        """The size of the next epoch."""
        self.sizes_used += 1
        return self.script.sizes[(self.sizes_used - 1) % len(self.script.sizes)]

    def barrier(self) -> bool:
        """Whether the next epoch ends with a checkpoint."""
        self.barriers_used += 1
        return self.script.barriers[(self.barriers_used - 1) % len(self.script.barriers)]

    def strikes(
        self, faults: set[Fault], stage: int | None = None, subtask: int | None = None
    ) -> Fault | None:
        """The failure that is due now at this place, taken off the list.

        Stages and subtasks that the job doesn't have are taken modulo by whoever asks; ``None`` matches any.
        """
        for failure in self.waiting:
            due = failure.epoch <= self.epoch and failure.fault in faults
            if due and (stage is None or (failure.stage, failure.subtask) == (stage, subtask)):
                self.waiting.remove(failure)
                return failure.fault
        return None


class ScriptedSizer:
    """Stands in for pacing.EpochSizer."""

    def __init__(self, progress: Progress, *ignored: Any) -> None:
        self._progress = progress
        self.records = progress.size()

    def observe(self, records: int, seconds: float, work_s: float, overlaps: bool = False) -> None:
        """The next epoch's size comes from the script."""
        self.records = self._progress.size()


class ScriptedBarriers:
    """Stands in for pacing.BarrierClock."""

    def __init__(self, progress: Progress, *ignored: Any) -> None:
        self._progress = progress

    def due(self, now_ms: int, expected_ms: float) -> bool:
        """As the script says."""
        return self._progress.barrier()

    def due_behind(self, now_ms: int, expected_ms: float, barrier: bool) -> bool:
        """As the script says."""
        return self._progress.barrier()

    def left_ms(self, now_ms: int, expected_ms: float) -> float:
        """As soon as there is another epoch."""
        return 0.0

    def completed(self, *ignored: Any) -> None:
        """Nothing to do: the script does not depend on time."""
