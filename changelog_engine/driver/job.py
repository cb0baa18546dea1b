"""What a run of a job is made of, and where an attempt of it starts: nothing in either changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.clock import Clock, SystemClock
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.driver.journal import JobJournal
from changelog_engine.driver.protocols import EpochRunner, Outputs
from changelog_engine.driver.sinks import CommittingSinks
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.graph.plan import JobPlan


@dataclass(frozen=True)
class Job:
    """One run of a job."""

    id: str
    plan: JobPlan
    settings: JobSettings
    runner: EpochRunner
    journal: JobJournal | None  # the durable side; None when checkpointing is off
    outputs: Outputs
    clock: Clock = field(default_factory=SystemClock)
    monitor: JobMonitor = field(default_factory=JobMonitor)
    warned_of: set[str] = field(default_factory=set)  # what subtasks' warnings were about

    @property
    def name(self) -> str:
        """The job's name."""
        return self.plan.graph.name

    @cached_property
    def sinks(self) -> CommittingSinks:
        """Its committing sinks."""
        return CommittingSinks(self.plan)


@dataclass(frozen=True)
class AttemptStart:
    """Where an attempt starts.

    Args:
        checkpoint: it goes on from; None starts empty.
        prepared: whose prepared output the sinks commit first: the checkpoint, or, of an empty start, the last one of a run
            that ended before.
        lost_state: workers of an attempt before it no longer held what was newer than its last checkpoint.
    """

    checkpoint: Checkpoint | None
    prepared: Checkpoint | None
    restarts: int
    lost_state: bool
