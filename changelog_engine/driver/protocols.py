"""What the coordinator asks of the parts round it, and what it tells about a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from changelog_engine.graph.plan import JobPlan
from changelog_engine.operators.messages import Durable, EpochOrder, EpochReport

Orders = Callable[[int, int], EpochOrder]
"""Of an epoch: (stage, subtask) to what it is asked to do."""


class Following(NamedTuple):
    """The epoch behind the one that runs, for stages that run it while others still run this one.

    Args:
        stages: those that may; whatever sends to one of them is one of them.
        orders: gives the epoch's orders, or None when all of it must wait. It may be called once, from another thread,
            between the moment when all stages without inputs have run this epoch and the end of this one.
    """

    stages: frozenset[int]
    orders: Callable[[], Orders | None]


class EpochRunner(Protocol):
    """Runs one epoch: on Spark, or in this process for tests."""

    def run(self, orders: Orders, timeout_s: float, following: Following | None = None) -> list[EpochReport]:
        """Run an epoch; see spark.epoch_job.

        Args:
            orders: (stage, subtask) to what it is asked to do.
            timeout_s: the epoch is cancelled after this time.
            following: the epoch behind it. When it gives orders, its stages may run them meanwhile, each when it has run
                this epoch; the next call is of that epoch, and takes what they sent. A call of another epoch lets go of it.
        """

    def tell(self, durable: Durable, stages: Iterable[int]) -> None:
        """Have sinks commit between two epochs what a checkpoint has made durable.

        It may reach them at any time until the next epoch has ended, or not at all: they commit in the next epoch then. What
        they raise fails the next epoch.
        """

    def prepare(self, plan: JobPlan, over: Callable[[], bool]) -> None:
        """Make ready what a plan with another parallelism needs, while epochs run; called in a thread of its own.

        Args:
            plan: the job as it will be, perhaps.
            over: says whether the job has ended, so that there is nothing to wait for.
        """

    def rescale(self, plan: JobPlan) -> None:
        """Run the next attempt's epochs with another parallelism; when it raises, all stays as it was.

        Args:
            plan: the job, with the stages that it has.
        """

    def slots(self) -> int | None:
        """How many tasks run at a time, executors that may still come by themselves included; None when not known."""


class Outputs(Protocol):
    """Where output that comes to the driver goes."""

    def printed(self, lines: list[str]) -> None:
        """Lines of print sinks, at the end of each epoch."""

    def collected(self, node: int, elements: list[Any]) -> None:
        """Elements of collect sinks, once they are final."""


class JobOutcome(NamedTuple):
    """How a job ended."""

    job_id: str
    net_runtime_ms: int
    cancelled: bool
    last_checkpoint: int | None
    restarts: int
