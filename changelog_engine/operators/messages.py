"""What the driver tells a subtask at the start of an epoch, and what the subtask tells it at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from changelog_engine.changelog.model import Part, RestorePoint
from changelog_engine.changelog.small_state import KeptBroadcast, SmallState
from changelog_engine.changelog.split_ends import SplitEnds
from changelog_engine.connectors.protocols import Position, RestoredSink
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.operators.metrics import MetricFigure
from changelog_engine.state.sizes import TableSize

Positions = dict[str, Position]
"""Split id -> where it is read from."""


class EpochKind(Enum):
    """What an epoch is for.

    Attributes:
        barrier: a checkpoint barrier ends it: every mutation becomes durable.
        ends: the input ends with it, or the job is stopped; its checkpoint is the job's last.
        closes: the functions are closed after it.
        hands_over: the next attempt goes on from its checkpoint, with another parallelism.
    """

    READ = True, False, False, False
    CHECKPOINT = True, True, False, False
    # A checkpoint of the first splits of a part, before anything of them is read.
    SETTLE = False, True, False, False
    END = False, False, True, True  # of a job that makes no checkpoints
    LAST = False, True, True, True
    LAST_TO_CONFIRM = False, True, True, False  # CONFIRM follows
    HAND_OVER = False, True, False, True, True
    HAND_OVER_TO_CONFIRM = False, True, False, False, True  # CONFIRM follows
    # What the last checkpoint made durable is committed, and nothing else is done.
    CONFIRM = False, False, False, True

    def __init__(
        self, reads: bool, barrier: bool, ends: bool, closes: bool, hands_over: bool = False
    ) -> None:
        self.reads = reads
        self.barrier = barrier
        self.ends = ends
        self.closes = closes
        self.hands_over = hands_over


class EpochOrder(NamedTuple):
    """One epoch, as one subtask is asked to run it.

    Args:
        run: unique id of this run of the job; a worker process drops what it holds of any other.
        attempt: the attempt; state of an older one is dropped.
        restarts: how often this run was restarted (RuntimeContext.get_attempt_number()).
        epoch: number of the epoch in the attempt, from 1.
        committed_epoch: newest epoch whose effects are in the restore point. A subtask that does not hold the state of
            ``epoch - 1`` may restore only if this is it; else the job must rewind.
        restored_operators: Checkpoint.operators there, to compare declared states with.
        operator_state: small non-keyed state of this subtask at the restore point; empty where it may not restore.
        shared_state: uid -> broadcast state at the restore point, which all subtasks have alike; as operator_state.
        checkpoint_id: the number that the next checkpoint will have.
        positions: source uid -> split id -> position, for the splits this subtask reads.
        max_records: how many elements each source of this subtask may read.
        budget_ms: stop reading after this time, whatever max_records says.
        paced: watermarks keep to real time: one comes when 200 ms of work lie behind the last.
        sinks: uid of a committing sink -> what the writers whose place this subtask takes had prepared in the restore point.
        sinks_beside: the same of the subtasks beside this one; None in an attempt's later epochs.
        drains: the input ends here although the sources have more.
        folder, branches: see SinkContext; empty for a job without committing sinks.
        goes_on: each source reads on from where this subtask's epoch before ended, which the driver does not know yet;
            ``positions`` is empty. A subtask that does not hold the state of ``epoch - 1`` can't run it.
    """

    run: str
    attempt: int
    restarts: int
    epoch: int
    kind: EpochKind
    committed_epoch: int
    restore: RestorePoint | None
    restored_operators: list[DescribedOperator]
    operator_state: SmallState
    shared_state: Mapping[str, KeptBroadcast]
    checkpoint_id: int
    positions: dict[str, Positions]
    max_records: int
    budget_ms: int
    paced: bool = False
    sinks: dict[str, list[RestoredSink]] = {}  # noqa: RUF012 # one for all orders without any; nobody changes it
    sinks_beside: dict[str, list[RestoredSink]] | None = None
    drains: bool = False
    folder: str = ""
    branches: frozenset[int] = frozenset()
    goes_on: bool = False

    @property
    def of_epoch(self) -> tuple[str, int, int]:
        """Run, attempt and number of the epoch."""
        return self.run, self.attempt, self.epoch


class Durable(NamedTuple):
    """What subtasks are told between two epochs: the checkpoint that an epoch ended with is durable.

    Whoever does not hear of it learns it from its next order, by ``EpochOrder.committed_epoch``.
    """

    run: str
    attempt: int
    epoch: int


class SourceReport(NamedTuple):
    """What a subtask read of one source in an epoch."""

    records: int
    behind: int | None  # how many are known to wait behind them; None when not known
    watermark: int | None  # of what it sends on; None while it has nothing to read, and holds nothing back


@dataclass
class EpochReport:
    """What one subtask did in one epoch.

    Args:
        parts: parts made durable, in order.
        mutations: rows of the changelog; 0 for a job without one.
        sources: by the sources' uids.
        operator_state: small non-keyed state at a barrier.
        shared_state: uid -> broadcast state, which all subtasks have alike, at a barrier, of the first subtask.
        driver_output: sink node id -> what goes to the driver.
        next_timer_ms: the earliest processing-time timer, or None.
        barrier_ms: wall clock when the last element was processed.
        work_ms: how long it worked on elements, up to the barrier, waiting for the last answers of async functions left out.
        moved: a watermark or the idleness of an input changed, or a processing-time timer fired; that is state too.
        logged: of the mutations: uid -> state -> how many.
        sizes: uid -> state -> (entries, bytes), when asked for; see state.sizes.
        read: source uid -> what was read of it.
        watermark: of a stage that has inputs.
        times_ms: how long it took to "read" from sources, to "process" elements, to "encode" changes and blocks, and to
            "write" parts and what sinks prepare.
        restored_ms: how long the subtask took to build its operators and take its state first; None when it held them.
        warnings: of those that others may give alike: see graph.subtask_warnings.
        kept: its keyed state was in memory from the attempt before, and only what changed since the checkpoint was read.
    """

    stage: int
    subtask: int
    parts: list[Part] = field(default_factory=list)
    records_in: int = 0
    mutations: int = 0
    sources: dict[str, SplitEnds] = field(default_factory=dict)
    operator_state: SmallState = field(default_factory=SmallState)
    shared_state: Mapping[str, KeptBroadcast] = field(default_factory=dict)
    driver_output: dict[int, list[Any]] = field(default_factory=dict)
    states: dict[str, list[DescribedState]] = field(default_factory=dict)
    next_timer_ms: int | None = None
    barrier_ms: float = 0.0
    work_ms: float = 0.0
    moved: bool = False
    restored_ms: float | None = None
    kept: bool = False
    warnings: dict[str, str] = field(default_factory=dict)
    metrics: list[MetricFigure] = field(default_factory=list)
    records_out: int = 0
    logged: dict[str, dict[str, int]] = field(default_factory=dict)
    sizes: dict[str, dict[str, TableSize]] = field(default_factory=dict)
    read: dict[str, SourceReport] = field(default_factory=dict)
    watermark: int | None = None
    times_ms: dict[str, float] = field(default_factory=dict)
