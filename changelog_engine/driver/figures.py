"""What a job does, in figures: one immutable snapshot after each epoch, which all who show them read.

The driver's loop writes; the progress display, the metrics' endpoint and others take the newest snapshot whenever they like.

Invariants:
    * Whoever looks can neither fail the job nor slow it: they are never called, and hold no lock of the loop's.
    * What the row of a checkpoint says of the time since its parent and what the snapshots say comes from one count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from changelog_engine.changelog.figures import Figures
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.clock import MonotonicMs, monotonic_ms
from changelog_engine.driver.rescaling import Rescaled
from changelog_engine.event_time import MIN_WATERMARK
from changelog_engine.graph.plan import JobPlan
from changelog_engine.ledger.reading import RestoreSize
from changelog_engine.operators.messages import EpochReport, SourceReport
from changelog_engine.operators.metrics import MetricFigure
from changelog_engine.state.sizes import TableSize

PARTS = ("read", "process", "encode", "write", "commit", "wait")
"""Of the time of an epoch; the first four are those of the busiest subtask of each stage."""

BUCKETS_MS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)


@dataclass(frozen=True)
class Histogram:
    """How often something took how long.

    Args:
        counts: for each bound of BUCKETS_MS how often it took no longer, and how often it came at all.
    """

    counts: tuple[int, ...] = (0,) * (len(BUCKETS_MS) + 1)
    sum_ms: float = 0.0

    def observed(self, ms: float) -> Histogram:
        """With one more."""
        bounds = (*BUCKETS_MS, float("inf"))
        counts = tuple(count + (ms <= bound) for count, bound in zip(self.counts, bounds, strict=True))
        return Histogram(counts, self.sum_ms + ms)

    @property
    def count(self) -> int:
        """How often it came."""
        return self.counts[-1]


class SourceFigures(NamedTuple):
    """A source."""

    name: str
    records: int
    behind: int | None  # elements that are known to wait; None when not known
    watermark: int | None  # the smallest of its subtasks, in ms; None before the first

    def after(self, before: SourceFigures | None) -> SourceFigures:
        """With what was counted before."""
        return self if before is None else self._replace(records=before.records + self.records)


class StageFigures(NamedTuple):
    """A stage.

    Args:
        busy_ms: of its busiest subtask, in this run.
        share: of the last epoch's work, 0 to 1. The largest is the stage that the others wait for.
        watermark: the smallest of its subtasks'; None before the first, and of stages without inputs.
    """

    operators: tuple[str, ...]
    busy_ms: float
    share: float
    watermark: int | None

    def after(self, before: StageFigures | None) -> StageFigures:
        """With what was counted before."""
        return self if before is None else self._replace(busy_ms=before.busy_ms + self.busy_ms)


class CheckpointFigures(NamedTuple):
    """A checkpoint."""

    id: int
    time_ms: int  # when its barrier was, wall clock
    acknowledged_ms: float  # from the barrier to the end of the commit
    rows: int
    bytes: int


class UpkeepFigures(NamedTuple):
    """The snapshots that are made beside a job in this run."""

    done: int = 0
    failed: int = 0
    failed_in_a_row: int = 0  # of those, since the last one that was made
    checkpoint: int | None = None  # of the newest; None for none yet
    seconds: float | None = None


NO_UPKEEP = UpkeepFigures()


@dataclass(frozen=True, kw_only=True)
class JobFigures:
    """What a job has done in this run, up to its last epoch.

    Args:
        folder: where it keeps its checkpoints; None for a job without.
        status: CREATED, STARTING (Spark), RESTORING, RUNNING, RESCALING, RESTARTING, FINISHED, FAILED or CANCELED.
        status_ms: since when, on the monotonic clock.
        began_ms: when the run began, and
        at_ms: when this was so, on the same clock.
        restored_from: the checkpoint that the run, or its newest attempt, began with.
        records_in: read from sources, again after a restart what is read again; records_out: given to sinks.
        uncovered: records that were read since the last checkpoint: a failure now has them read again.
        records_again: of records_in, those that an attempt had read before that failed.
        mutations: rows of the changelog, by operator and state; None for a job that has none.
        epoch_ms: how long the last epoch took.
        times_ms: the parts of all epochs' time; see PARTS.
        restored_ms: the longest time in which a subtask took its state, of the newest attempt.
        sources, stages: by uid.
        sizes: of state, by operator's uid and state, as at the last barrier.
        rescaled: how the job was last rescaled in this run; None: it was not.
    """

    job: str
    folder: str | None = None
    status: str = "CREATED"
    status_ms: float = 0.0
    began_ms: float = 0.0
    at_ms: float = 0.0
    restored_from: int | None = None
    attempt: int = 0
    epoch: int = 0
    restarts: int = 0
    records_in: int = 0
    records_out: int = 0
    uncovered: int = 0
    records_again: int = 0
    mutations: Mapping[str, Mapping[str, int]] | None = field(default_factory=dict)
    epoch_ms: float = 0.0
    times_ms: Mapping[str, float] = field(default_factory=dict)
    checkpoint: CheckpointFigures | None = None
    checkpoints: int = 0
    failed_checkpoints: int = 0
    acknowledgements: Histogram = field(default_factory=Histogram)
    commits: Histogram = field(default_factory=Histogram)
    restored_ms: float | None = None
    sources: Mapping[str, SourceFigures] = field(default_factory=dict)
    stages: Mapping[str, StageFigures] = field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, TableSize]] = field(default_factory=dict)
    metrics: tuple[MetricFigure, ...] = ()
    rescaled: Rescaled | None = None
    upkeep: UpkeepFigures = NO_UPKEEP

    @property
    def all_mutations(self) -> int | None:
        """Rows of the changelog in this run; None for a job that has none."""
        return None if self.mutations is None else sum(sum(s.values()) for s in self.mutations.values())

    @property
    def slowest(self) -> StageFigures | None:
        """The stage that the others waited for in the last epoch."""
        busiest = max(self.stages.values(), key=lambda stage: stage.share, default=None)
        return busiest if busiest is not None and busiest.share > 0 else None


class JobMonitor:
    """Counts what a job does. Written by the thread that runs the job, ``upkeep`` by the schedule's; read by any.

    Args:
        logs: whether it has a changelog; else its mutations are not known.

    Attributes:
        restoring: how much the restore reads that goes on; None when not known.
        empty_because: of a job that ran before and begins empty: why; else "".
        starting: what a job waits for that is STARTING, in words.
        failure: what the newest attempt that failed failed with, in words.
        watched: somebody shows people what a start and a restore do.
        upkeep: the snapshots beside the job; the next snapshot of figures has it.
        splits: how many each source read in the last epoch, by uid.
    """

    def __init__(self, job: str = "", logs: bool = True) -> None:
        now_ms = monotonic_ms()
        mutations: dict[str, dict[str, int]] | None = {} if logs else None
        self.latest = JobFigures(
            job=job, began_ms=now_ms, status_ms=now_ms, at_ms=now_ms, mutations=mutations
        )
        self.restoring: RestoreSize | None = None
        self.empty_because = ""
        self.starting = "starting"
        self.failure = ""
        self.watched = False
        self.upkeep = NO_UPKEEP
        self.splits: Mapping[str, int] = {}
        self._plan: JobPlan | None = None
        self._since = _Since(now_ms)
        self._row_ms = now_ms

    def status(self, status: str, **facts: Any) -> None:
        """What the job does now."""
        now_ms = monotonic_ms()
        since_ms = self.latest.status_ms if status == self.latest.status else now_ms
        self.latest = replace(
            self.latest, status=status, status_ms=since_ms, at_ms=now_ms, upkeep=self.upkeep, **facts
        )

    @property
    def subtasks(self) -> int:
        """How many the newest attempt has; 0 before the first."""
        return 0 if self._plan is None else sum(stage.parallelism for stage in self._plan.stages)

    def begin_attempt(self, plan: JobPlan, attempt: int, restarts: int, start: Checkpoint | None) -> None:
        """An attempt begins."""
        self._plan = plan
        self._since = _Since(monotonic_ms())
        self.status(
            "RUNNING" if start is None else "RESTORING",
            attempt=attempt,
            restarts=restarts,
            restored_from=None if start is None else start.id,
            records_again=self.latest.records_again + self.latest.uncovered,
            uncovered=0,
        )

    def rescaled(self, made: Rescaled) -> None:
        """The job goes on with another parallelism."""
        self.latest = replace(self.latest, rescaled=made)

    def take(self, epoch: int, waited_ms: float, reports: list[EpochReport]) -> None:
        """The reports of an epoch have come.

        Args:
            waited_ms: from its beginning until they came.
        """
        if self._plan is None:
            return
        plan, before = self._plan, self.latest
        names = {plan.uids[node.id]: node.label for node in plan.graph.nodes}
        work = _work(reports)
        times_ms = _summed(work.values())
        times_ms["wait"] = max(0.0, waited_ms - sum(times_ms.values()))
        busy_ms = {stage.uid: sum(work[stage.id].values()) for stage in plan.stages if stage.id in work}
        sources = _sources(reports, names)
        restored = [report.restored_ms for report in reports if report.restored_ms is not None]
        self._since.take(reports, times_ms, busy_ms)
        self.splits = {uid: sum(len(report.sources.get(uid, ())) for report in reports) for uid in sources}
        self.latest = replace(
            before,
            status="RUNNING",
            status_ms=before.status_ms if before.status == "RUNNING" else monotonic_ms(),
            at_ms=monotonic_ms(),
            epoch=epoch,
            records_in=before.records_in + sum(source.records for source in sources.values()),
            records_out=before.records_out + sum(report.records_out for report in reports),
            uncovered=self._since.records_in,
            mutations=None
            if before.mutations is None
            else _added(before.mutations, (report.logged for report in reports)),
            times_ms=_summed((before.times_ms, times_ms)),
            restored_ms=max(restored, default=before.restored_ms),
            sources={uid: source.after(before.sources.get(uid)) for uid, source in sources.items()},
            stages={
                uid: stage.after(before.stages.get(uid))
                for uid, stage in _stages(plan, names, busy_ms, reports).items()
            },
            sizes=_sizes(reports) or before.sizes,
            metrics=tuple(figure for report in reports for figure in report.metrics),
        )

    def row(self) -> Figures:
        """What was done since the checkpoint before, or since the attempt began."""
        since, figures = self._since, self.latest
        self._row_ms = monotonic_ms()
        return {
            "elapsed_ms": round(self._row_ms - since.began_ms),
            "epochs": since.epochs,
            "records_in": since.records_in,
            "records_out": since.records_out,
            "times_ms": {part: round(ms, 1) for part, ms in since.times_ms.items()},
            "mutations": since.mutations,
            "sizes": {
                uid: {state: (size.entries, size.bytes) for state, size in states.items()}
                for uid, states in figures.sizes.items()
            },
            "sources": {
                uid: (since.sources.get(uid, 0), source.behind, source.watermark)
                for uid, source in figures.sources.items()
            },
            "stages": {
                uid: (round(busy_ms, 1), figures.stages[uid].watermark)
                for uid, busy_ms in since.busy_ms.items()
                if uid in figures.stages
            },
            "restarts": figures.restarts,
        }

    def checkpointed(self, checkpoint: Checkpoint, acknowledged_ms: float, commit_ms: float) -> None:
        """A checkpoint with ``row()`` was committed, this many ms after its barrier."""
        before = self.latest
        self._since = _Since(self._row_ms)  # the commit is a part of the time until the next row
        self._since.times_ms["commit"] = commit_ms
        self.latest = replace(
            before,
            uncovered=0,
            checkpoint=CheckpointFigures(
                checkpoint.id, checkpoint.time_ms, acknowledged_ms, checkpoint.rows, checkpoint.bytes
            ),
            checkpoints=before.checkpoints + 1,
            acknowledgements=before.acknowledgements.observed(acknowledged_ms),
            commits=before.commits.observed(commit_ms),
            times_ms=_summed((before.times_ms, {"commit": commit_ms})),
        )

    def failed_checkpoint(self) -> None:
        """A commit failed, and the job tolerates it."""
        self.latest = replace(self.latest, failed_checkpoints=self.latest.failed_checkpoints + 1)

    def end_epoch(self, duration_ms: float) -> None:
        """An epoch has ended, with all that belongs to it."""
        self.latest = replace(self.latest, epoch_ms=duration_ms, at_ms=monotonic_ms(), upkeep=self.upkeep)


class _Since:
    """What was done since the last checkpoint."""

    def __init__(self, now_ms: MonotonicMs) -> None:
        self.began_ms = now_ms
        self.epochs = 0
        self.records_in = 0
        self.records_out = 0
        self.times_ms = dict.fromkeys(PARTS, 0.0)
        self.mutations: dict[str, dict[str, int]] = {}
        self.sources: dict[str, int] = {}
        self.busy_ms: dict[str, float] = {}

    def take(
        self, reports: list[EpochReport], times_ms: Mapping[str, float], busy_ms: Mapping[str, float]
    ) -> None:
        """One epoch more.

        Args:
            busy_ms: how long the stages were busy in it, by uid.
        """
        self.epochs += 1
        for report in reports:
            self.records_out += report.records_out
            for uid, source in report.read.items():
                self.records_in += source.records
                self.sources[uid] = self.sources.get(uid, 0) + source.records
        self.mutations = _added(self.mutations, (report.logged for report in reports))
        for part, ms in times_ms.items():
            self.times_ms[part] += ms
        for uid, ms in busy_ms.items():
            self.busy_ms[uid] = self.busy_ms.get(uid, 0.0) + ms


def _work(reports: list[EpochReport]) -> dict[int, dict[str, float]]:
    """The parts of the busiest subtask's time, by stage: stages run one after the other, their subtasks side by side."""
    busiest: dict[int, dict[str, float]] = {}
    for report in reports:
        if sum(report.times_ms.values()) >= sum(busiest.get(report.stage, {}).values()):
            busiest[report.stage] = report.times_ms
    return busiest


def _summed(times: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total = dict.fromkeys(PARTS, 0.0)
    for parts in times:
        for part, ms in parts.items():
            total[part] += ms
    return total


def _added(
    before: Mapping[str, Mapping[str, int]], more: Iterable[Mapping[str, Mapping[str, int]]]
) -> dict[str, dict[str, int]]:
    total = {uid: dict(states) for uid, states in before.items()}
    for operators in more:
        for uid, states in operators.items():
            known = total.setdefault(uid, {})
            for state, count in states.items():
                known[state] = known.get(state, 0) + count
    return total


def _lowest(watermarks: Iterable[int]) -> int | None:
    lowest = min(watermarks, default=MIN_WATERMARK)
    return None if lowest == MIN_WATERMARK else lowest


def _sources(reports: list[EpochReport], names: Mapping[str, str]) -> dict[str, SourceFigures]:
    """Each source over its subtasks, in an epoch."""
    found: dict[str, list[SourceReport]] = {}
    for report in reports:
        for uid, source in report.read.items():
            found.setdefault(uid, []).append(source)
    return {
        uid: SourceFigures(
            names[uid],
            sum(source.records for source in each),
            _sum_of_known(source.behind for source in each),
            _lowest(source.watermark for source in each if source.watermark is not None),
        )
        for uid, each in found.items()
    }


def _stages(
    plan: JobPlan, names: Mapping[str, str], busy_ms: Mapping[str, float], reports: list[EpochReport]
) -> dict[str, StageFigures]:
    """Each stage over its subtasks, in an epoch."""
    total_ms = sum(busy_ms.values())
    return {
        stage.uid: StageFigures(
            tuple(names[plan.uids[node]] for node in stage.nodes),
            busy_ms.get(stage.uid, 0.0),
            busy_ms.get(stage.uid, 0.0) / total_ms if total_ms else 0.0,
            _lowest(r.watermark for r in reports if r.stage == stage.id and r.watermark is not None),
        )
        for stage in plan.stages
    }


def _sizes(reports: list[EpochReport]) -> dict[str, dict[str, TableSize]]:
    found: dict[str, dict[str, list[TableSize]]] = {}
    for report in reports:
        for uid, states in report.sizes.items():
            for state, size in states.items():
                found.setdefault(uid, {}).setdefault(state, []).append(size)
    return {
        uid: {
            state: TableSize(*[_sum_of_known(each) for each in zip(*sizes, strict=True)])
            for state, sizes in states.items()
        }
        for uid, states in found.items()
    }


def _sum_of_known(counts: Iterable[int | None]) -> int | None:
    """None where one of them is not known."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))
