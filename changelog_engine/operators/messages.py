"""What the driver tells a subtask at the start of an epoch, and what the subtask tells it at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from changelog_engine.changelog.model import Part, RestorePoint
from changelog_engine.connectors.protocols import RestoredSink

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


class EpochOrder(NamedTuple):
    """One epoch, as one subtask is asked to run it.

    Args:
        run: unique id of this run of the job; a worker process drops what it holds of any other.
        attempt: the attempt; state of an older one is dropped.
        restarts: how often this run was restarted (RuntimeContext.get_attempt_number()).
        epoch: number of the epoch in the attempt, from 1.
        committed_epoch: newest epoch whose effects are in the restore point. A subtask that does not hold the state of
            ``epoch - 1`` may restore only if this is it; else the job must rewind.
        restore: where the state is found.
        restored_operators: Checkpoint.operators there, to compare declared states with.
        operator_state: small non-keyed state of this subtask at the restore point.
        shared_state: uid -> state at the restore point that all subtasks have alike (broadcast state).
        checkpoint_id: the number that the next checkpoint will have.
        barrier: a checkpoint barrier ends the epoch: make every mutation durable.
        positions: source uid -> split id -> position, for the splits this subtask reads.
        max_records: how many elements each source of this subtask may read.
        budget_ms: stop reading after this time, whatever max_records says.
        final: the job ends after this epoch: close the functions.
        paced: watermarks keep to real time: one comes when 200 ms of work lie behind the last.
        sinks: uid of a committing sink -> what the writers whose place this subtask takes had prepared in the restore point.
        commits_only: the checkpoint before was the last: commit what was prepared for it, and nothing else.
        ends: the checkpoint at the end of this epoch is the job's last.
        drains: the input ends here although the sources have more.
        folder, branches: see SinkContext; empty for a job without committing sinks.
    """

    run: str
    attempt: int
    restarts: int
    epoch: int
    committed_epoch: int
    restore: RestorePoint | None
    restored_operators: list[dict[str, Any]]
    operator_state: dict[str, Any]
    shared_state: dict[str, Any]
    checkpoint_id: int
    barrier: bool
    positions: dict[str, dict[str, Any]]
    max_records: int
    budget_ms: int
    final: bool
    paced: bool = False
    sinks: dict[str, list[RestoredSink]] = {}  # noqa: RUF012 # one for all orders without any; nobody changes it
    commits_only: bool = False
    ends: bool = False
    drains: bool = False
    folder: str = ""
    branches: frozenset[int] = frozenset()


@dataclass
class EpochReport:
    """What one subtask did in one epoch.

    Args:
        stage, subtask: who reports.
        parts: parts made durable, in order.
        records_in, records_out: elements read and elements sent on.
        mutations: rows of the changelog.
        sources: source uid -> split id -> (position, finished).
        operator_state: small non-keyed state at a barrier.
        shared_state: uid -> state that all subtasks have alike, at a barrier, of the first subtask.
        driver_output: sink node id -> what goes to the driver.
        next_timer_ms: the earliest processing-time timer, or None.
        barrier_ms: wall clock when the last element was processed.
        work_ms: how long it worked on elements, up to the barrier, waiting for the last answers of async functions left out.
        moved: a watermark or the idleness of an input changed; that is state too.
        metrics: figures of the functions' metrics, by full name.
        restored_ms: how long the subtask took to build its operators and take its state first; None when it held them.
    """

    stage: int
    subtask: int
    parts: list[Part] = field(default_factory=list)
    records_in: int = 0
    records_out: int = 0
    mutations: int = 0
    sources: dict[str, dict[str, tuple[Any, bool]]] = field(default_factory=dict)
    operator_state: dict[str, Any] = field(default_factory=dict)
    shared_state: dict[str, Any] = field(default_factory=dict)
    driver_output: dict[int, list[Any]] = field(default_factory=dict)
    states: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    next_timer_ms: int | None = None
    barrier_ms: float = 0.0
    work_ms: float = 0.0
    moved: bool = False
    restored_ms: float | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
