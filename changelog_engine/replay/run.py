"""A piece of a job's history once more: from the state of one checkpoint, over the source ranges of those after it.

Invariants:
    * Nothing is written but parts in a scratch folder; the job's own folder is only read.
    * Every recorded epoch is one epoch here, with the recorded parallelism, so what depends on epochs comes out alike.
    * The wall clock stands at the time of the checkpoint that is being replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from changelog_engine.changelog.log_files import parse_part
from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.small_state import SmallState
from changelog_engine.changelog.split_ends import SplitEnd, SplitEnds, ends_of
from changelog_engine.clock import WallClock
from changelog_engine.connectors.protocols import DiscoveringSource
from changelog_engine.driver.compatibility import check_restorable
from changelog_engine.driver.merged_state import merged_state
from changelog_engine.driver.source_progress import SourceProgress
from changelog_engine.errors import RestoreError
from changelog_engine.graph.nodes import JobGraph, JobSettings, Node, NodeKind
from changelog_engine.graph.plan import JobPlan, Stage, plan_job
from changelog_engine.operators.messages import EpochKind, EpochOrder, EpochReport, Positions
from changelog_engine.operators.store import KeyedStore
from changelog_engine.replay.compare import StateTypes
from changelog_engine.replay.log_rows import table_of
from changelog_engine.replay.source import NoSink, replayed, same
from changelog_engine.storage.opening import open_storage

_ALL = 1 << 62

Ends = dict[str, SplitEnds]  # by source's uid


class ReplayRun:
    """Replays one checkpoint after the other.

    Args:
        graph: the job as it is now.
        point: where the state of the first checkpoint is read; of none for a replay from the start.
        start: the first checkpoint, or None.
        recorded: the checkpoint whose parallelism is taken.
        scratch: an empty folder.
        runner: makes what runs the epochs, of a shipped job and a wall clock; None for an ordinary runner in this process.

    Raises:
        RestoreError: the job does not fit the checkpoint.
    """

    def __init__(
        self,
        graph: JobGraph,
        settings: JobSettings,
        point: RestorePoint,
        start: Checkpoint | None,
        recorded: Checkpoint,
        scratch: str,
        runner: Callable[[Any, WallClock], Any] | None = None,
    ) -> None:
        from changelog_engine.in_process.runner import InProcessRunner
        from changelog_engine.spark.shipping import ship

        self.plan = plan = plan_of(graph, recorded)
        if start is not None:
            check_restorable(plan, start)
        self._start, self._point = start, point
        self._merged = {} if start is None else merged_state(plan, start)
        self._progress = SourceProgress(plan, {} if start is None else start.sources)
        self._ends: Ends = self._progress.positions
        self._discovering: dict[str, DiscoveringSource] = {
            plan.uids[node.id]: node.function
            for stage in plan.stages
            for node in plan.nodes_of(stage)
            if isinstance(node.function, DiscoveringSource)
        }
        self._scratch = open_storage(scratch)
        self._epoch, self._attempt = 0, recorded.attempt + 1
        self._now = 0 if start is None else start.wall_clock_ms
        settings = replace(settings, changelog=True, checkpoint_interval_ms=1)
        make = InProcessRunner if runner is None else runner
        self._runner = make(ship("replay", plan, settings, scratch), lambda: self._now)
        self._parts: list[Any] = []

    def run(self, checkpoint: Checkpoint) -> list[pa.Table]:
        """Replay up to the next checkpoint; returns its mutations, in log order.

        Raises:
            RestoreError: a source does not have what it had.
            UserFunctionError: the job's code raised.
        """
        self._now = checkpoint.wall_clock_ms
        self._begin_discovered(checkpoint)
        targets = list(self._targets(checkpoint))
        for ends in targets:
            last = ends is targets[-1]
            if last:
                self._begin_parts(checkpoint, ends)
            while self._run_epoch(checkpoint, ends, last):
                pass
        parts, self._parts = self._parts, []
        return [self._read(part) for part in parts]

    def _targets(self, checkpoint: Checkpoint) -> Iterator[Ends]:
        """Where each epoch since the checkpoint before ended."""
        ends = self._ends
        for moved in _epoch_ends(checkpoint):
            ends = {uid: {**splits, **moved.get(uid, {})} for uid, splits in ends.items()}
            yield ends
        missing = set(ends) - set(checkpoint.sources)
        if missing:
            raise RestoreError(
                f"checkpoint {checkpoint.id} has no positions of the sources {sorted(missing)}, which this job has: give "
                "sources the uid() that they had"
            )
        yield {uid: checkpoint.sources[uid] for uid in ends}

    def _begin_discovered(self, checkpoint: Checkpoint) -> None:
        """Take the splits that came up before the checkpoint, where their source knows how they began.

        They are known earlier than they were, unread until the epoch in which they came.
        """
        for uid, source in self._discovering.items():
            for split, end in checkpoint.sources.get(uid, {}).items():
                if (
                    split not in self._ends[uid]
                    and (start := source.start_of(split, end.position)) is not None
                ):
                    self._progress.advance({uid: {split: SplitEnd(start)}})

    def _begin_parts(self, checkpoint: Checkpoint, ends: Ends) -> None:
        """Take the splits that came up for the checkpoint: those with which a part of a source began, still unread."""
        for uid, splits in ends.items():
            new = {split: end for split, end in splits.items() if split not in self._ends[uid]}
            if new and not self._progress.begins_part(uid, new):
                raise RestoreError(
                    f"the split {next(iter(new))!r} of a source came up while the job ran, and the log does not have where "
                    f"it began: replay from checkpoint {checkpoint.id} on"
                )
            self._progress.advance({uid: new})

    def _run_epoch(self, checkpoint: Checkpoint, ends: Ends, barrier: bool) -> bool:
        """Run an epoch; returns whether a source asks for another to come to its end."""
        self._epoch += 1
        reports = self._runner.run(
            lambda stage, subtask: self._order(self.plan.stages[stage], subtask, checkpoint, ends, barrier),
            0.0,
        )
        for report in reports:
            self._parts.extend(report.parts)
            self._take_positions(report)
        return any(
            not same(self._ends[uid][split], end)
            for uid, splits in ends.items()
            for split, end in splits.items()
        )

    def _take_positions(self, report: EpochReport) -> None:
        self._progress.advance(
            {
                uid: {split: SplitEnd(at, finished) for split, ((at, _, _), finished) in splits.items()}
                for uid, splits in report.sources.items()
            }
        )

    def _order(
        self, stage: Stage, subtask: int, checkpoint: Checkpoint, ends: Ends, barrier: bool
    ) -> EpochOrder:
        start, first = self._start, self._epoch == 1
        small = SmallState() if start is None else start.small_state(stage.uid, subtask)
        return EpochOrder(
            run="replay",
            attempt=self._attempt,
            restarts=0,
            epoch=self._epoch,
            kind=EpochKind.CHECKPOINT if barrier else EpochKind.READ,
            committed_epoch=0,
            restore=self._point,
            restored_operators=start.operators if first and start is not None else [],
            operator_state=self._merged.get(stage.uid, small),
            shared_state={} if start is None else start.shared_state(stage.uid),
            checkpoint_id=checkpoint.id,
            positions=self._positions(stage, subtask, ends),
            max_records=_ALL,
            budget_ms=_ALL,
        )

    def _positions(self, stage: Stage, subtask: int, ends: Ends) -> dict[str, Positions]:
        """What a subtask reads, and up to where."""
        mine = self._progress.for_subtask(stage, subtask)
        return {
            uid: {split: (at, *ends[uid][split]) for split, at in splits.items()}
            for uid, splits in mine.items()
        }

    def _read(self, part: Any) -> pa.Table:
        return read_part(self._scratch, PartFile(part.path, parse_part(part.path), part.size, part.rows))

    def types(self) -> StateTypes:
        """The types that the job declares."""
        types = StateTypes({}, {})
        for store in self._stores():
            types.specs.update(store.specs)
            types.keys.update(dict.fromkeys(store.config.operators, store.key_type))
        return types

    def live_rows(self) -> list[pa.Table]:
        """What the subtasks hold, as log rows."""
        return [table_of(*live) for store in self._stores() for live in store.live_columns()]

    def _stores(self) -> list[KeyedStore]:
        runtimes = [held.runtime for held in self._runner.runtimes.held.values()]
        return [runtime.store for runtime in runtimes if runtime.store is not None]

    def close(self) -> None:
        """Close the functions and forget all state."""
        self._runner.close()


def plan_of(graph: JobGraph, recorded: Checkpoint) -> JobPlan:
    """The job's plan with the recorded parallelism, sources that read ranges, and no sinks."""
    uids = plan_job(graph).uids
    known = {operator.uid: operator for operator in recorded.operators}
    nodes: list[Node] = []
    for node in graph.nodes:
        operator = known.get(uids[node.id])
        if operator is not None and node.kind is not NodeKind.SIDE_OUTPUT:
            node = replace(node, parallelism=operator.parallelism)
            if operator.keyed:
                node = replace(node, max_parallelism=operator.max_parallelism)
        if node.kind is NodeKind.SOURCE:
            node = replace(node, function=replayed(node.function, node.name))
        if node.kind is NodeKind.SINK:
            node = replace(node, function=NoSink())
        nodes.append(node)
    return plan_job(replace(graph, nodes=tuple(nodes)))


def _epoch_ends(checkpoint: Checkpoint) -> Iterator[Ends]:
    """Where the epochs before the checkpoint's last one ended: splits that moved, by source."""
    epochs: dict[int, Ends] = {}
    for _, _, states in checkpoint.small_states():
        for uid in checkpoint.sources:
            for number, moved in ends_of(states.operators.get(uid)):
                epochs.setdefault(number, {}).setdefault(uid, {}).update(moved)
    for number in sorted(epochs):
        yield epochs[number]
