"""A stage in a task: its operators, its state, and one epoch of both.

Invariants:
    * The runtime lives in one pinned process from epoch to epoch; it holds exactly the state after epoch ``done``.
    * An epoch that was begun and not ended leaves ``done`` unset: nothing but a restore makes the runtime usable again.
    * Blocks are processed by edge and channel, so equal input gives equal mutations.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from changelog_engine.changelog.small_state import KeptBroadcast, KeptSink, SmallState
from changelog_engine.clock import WallClock, monotonic_ms
from changelog_engine.codec.keys import KeyCodec
from changelog_engine.event_time import MAX_WATERMARK
from changelog_engine.operators.async_io import AsyncOperator
from changelog_engine.operators.base import Operator
from changelog_engine.operators.batch import KeyedBatch
from changelog_engine.operators.blocks import Block, decode, elements
from changelog_engine.operators.context import TaskContext
from changelog_engine.operators.driver_output import DriverOutput
from changelog_engine.operators.exchange import Exchange
from changelog_engine.operators.inputs import Inputs
from changelog_engine.operators.kept_state import KeptState, is_doubtful
from changelog_engine.operators.keyed import KeyedOperator
from changelog_engine.operators.messages import EpochKind, EpochOrder, EpochReport, SourceReport
from changelog_engine.operators.sink import CommittingSinkOperator, WritingOperator
from changelog_engine.operators.source import SourceHead
from changelog_engine.operators.standing_still import StandingStill
from changelog_engine.operators.state_types import describe
from changelog_engine.operators.stateless import TimestampsOperator
from changelog_engine.operators.store import KeyedStore
from changelog_engine.operators.two_inputs import Head, operator_of
from changelog_engine.types.copies import separate

log = logging.getLogger("changelog_engine")

_STEP = 16_384
_PACE_MS = 200


@dataclass(kw_only=True, eq=False)
class StageRuntime:
    """One subtask of one stage."""

    stage: int
    subtask: int
    operators: dict[int, Operator]  # node id to operator, in topological order
    uids: dict[int, str]  # node id to uid
    contexts: dict[int, TaskContext]  # node id to the runtime context its function got
    sources: list[SourceHead]
    heads: dict[int, list[Head]]  # edge id to the operators that read it, or their input ports
    exchanges: list[Exchange]
    offsets: list[int]  # first partition of each outgoing edge
    outputs: dict[int, DriverOutput]  # operators whose output goes to the driver, by node id
    store: KeyedStore | None  # keyed state and its log; None for a stage that is not keyed
    still: StandingStill
    inputs: Inputs  # channels of the incoming edges
    keys: KeyCodec | None
    clock: WallClock  # wall clock in ms
    exchange_context: TaskContext
    batch: bool  # BATCH mode: a keyed stage processes key by key, at the end of the input
    periodic: bool  # watermarks come before the end of the input too
    copies: bool  # operators that read one edge have elements of their own

    def __post_init__(self) -> None:
        self.done: int | None = None
        self.kept = False  # whether it began with state that was in memory
        self._doubtful = False
        self._not_committed: BaseException | None = None  # what a sink raised between two epochs
        self._busy_ms = 0.0
        self._assigners = [op for op in self.operators.values() if isinstance(op, TimestampsOperator)]
        self._async = [op for op in self.operators.values() if isinstance(op, AsyncOperator)]
        self._logged: set[str] = set()  # uids with mutations: timers may come and go between two barriers
        self._writing = [op for op in self.operators.values() if isinstance(op, WritingOperator)]
        self._sinks = {
            self.uids[node]: op
            for node, op in self.operators.items()
            if isinstance(op, CommittingSinkOperator)
        }
        self._idle = False  # whether all inputs are idle, as the heads were told
        self._heads = list(
            dict.fromkeys(operator_of(head) for group in self.heads.values() for head in group)
        )
        self._keyed = [op for op in self._heads if isinstance(op, KeyedOperator)]
        self._batch = (
            KeyedBatch(
                list(dict.fromkeys(head for group in self.heads.values() for head in group)), self.keys
            )
            if self.batch and self.keys is not None
            else None
        )

    def start(
        self,
        order: EpochOrder,
        tell: Callable[[int, int], None] | None = None,
        kept: KeptState | None = None,
    ) -> None:
        """Open the functions and take the state of the order's restore point (or none, for an empty start).

        Args:
            tell: is told how many rows and bytes of the state have been read, as they are.
            kept: what the subtask's keyed state was in the attempt before, if this process has it.
        """
        self.still.attempt = order.attempt
        if self.store is not None:
            self.kept = self.store.load(order.restore, order.restored_operators, tell, kept)
        for operator in self.operators.values():
            operator.open()
        for exchange in self.exchanges:
            exchange.open(self.exchange_context)
        state = order.operator_state
        if state:
            self.inputs.restore(state.inputs)
            for head in self._heads:
                head.resume(self.inputs.current)
            for node, operator in self.operators.items():
                if self.uids[node] in state.operators:
                    operator.restore(state.operators[self.uids[node]])
        for node, operator in self.operators.items():
            if self.uids[node] in order.shared_state:
                operator.restore_shared(order.shared_state[self.uids[node]])
        for uid, sink in self._sinks.items():
            beside = None if order.sinks_beside is None else order.sinks_beside.get(uid, [])
            sink.begin(order, order.sinks.get(uid, []), beside)
        if self.store is not None:
            self.store.begin(order)
        self.done = order.committed_epoch

    def run(self, order: EpochOrder, data: Iterable[bytes]) -> tuple[list[tuple[int, bytes]], EpochReport]:
        """Run one epoch.

        Returns:
            (partition, block) pairs to send on, and the report. Reports of upstream subtasks are passed on as blocks to the
            first partition, or to the driver by a stage that sends nothing.
        """
        try:
            return self._run(order, data)
        except BaseException as error:
            self._doubtful = is_doubtful(error)
            for operator in self.operators.values():
                operator.abandon()
            raise

    def commit(self, epoch: int) -> None:
        """Between two epochs: the sinks commit what they had prepared up to an epoch whose checkpoint is durable.

        It is what the next epoch would begin with. What a sink raises here, that epoch raises; should that one fail of
        something else first, or never be, a line in the log has said it.
        """
        if self.done is None or self._not_committed is not None:
            return
        try:
            for sink in self._sinks.values():
                sink.commit(epoch)
        except BaseException as error:
            self._not_committed = error
            log.warning("the next epoch fails, as a commit between two epochs did: %s", error)

    def _run(self, order: EpochOrder, data: Iterable[bytes]) -> tuple[list[tuple[int, bytes]], EpochReport]:
        report = EpochReport(self.stage, self.subtask)
        self.done = None
        blocks, passed_on = self._sorted(data)
        self._acknowledge(order)
        if order.kind is EpochKind.CONFIRM:
            return self._passed_on(passed_on), report
        began_ms = monotonic_ms()
        self._begin(order)
        for source in self.sources:
            self._read(source, order, report)
        behind = sum([len(block.values) for block in blocks]) if order.kind.barrier else None
        for block in blocks:
            if behind is not None:
                behind -= len(block.values)
            self._process(block, order, report, behind)
        self._end(order, report, began_ms)
        report.barrier_ms, report.work_ms = self.clock(), monotonic_ms() - began_ms
        for waiting in self._async:  # waiting for last answers takes as long however few records there are
            report.work_ms -= waiting.waited_s * 1000
            waiting.waited_s = 0.0
        times = self._times(report.work_ms)
        self._finish(order, report, times)
        began_ms = monotonic_ms()
        sent = self._collect_blocks() + self._passed_on(passed_on)
        times["encode"] += monotonic_ms() - began_ms
        report.times_ms = times
        self.done = order.epoch
        return sent, report

    def _begin(self, order: EpochOrder) -> None:
        """Fire the timers of processing time that are due before the epoch's elements come."""
        if self.store is not None:
            self.store.begin_epoch(order)
        now = self.clock()
        for keyed in self._keyed:
            due = keyed.next_processing_timer()
            if due is not None and due <= now:
                self.inputs.moved = True  # without a changelog nothing else says that state has changed
                keyed.fire_processing_timers(now)

    def _end(self, order: EpochOrder, report: EpochReport, began_ms: float) -> None:
        """All elements of the epoch were processed: periodic watermarks, and what operators do at its end."""
        self._tell_idleness()
        for assigner in self._assigners:
            assigner.periodic = self._watermarks_due(order, monotonic_ms() - began_ms)
        now = self.clock()
        for operator in self.operators.values():
            operator.end_epoch(now)
        for source in self.sources:  # the assigners behind them have given their watermarks now
            mark = None if source.idle else source.watermark
            report.read[source.uid] = report.read[source.uid]._replace(watermark=mark)
        if order.kind is EpochKind.END:
            for sink in self._sinks.values():
                sink.commit_without_checkpoint(order.epoch)

    def _times(self, work_ms: float) -> dict[str, float]:
        """What the work on elements was, in ms; see EpochReport.times_ms."""
        read_ms = 0.0
        for source in self.sources:
            read_ms += source.read_s * 1000
            source.read_s = 0.0
        encode_ms, write_ms = (0.0, 0.0) if self.store is None else self.store.parts.take_times()
        process_ms = max(0.0, work_ms - read_ms - encode_ms - write_ms)
        return {"read": read_ms, "process": process_ms, "encode": encode_ms, "write": write_ms}

    def _passed_on(self, reports: list[bytes]) -> list[tuple[int, bytes]]:
        target = 0 if self.exchanges else -1
        return [(target, encoded) for encoded in reports]

    def _acknowledge(self, order: EpochOrder) -> None:
        """Commit, and tell sources, what became durable since the epoch before."""
        if self._not_committed is not None:
            raise self._not_committed
        for sink in self._sinks.values():
            sink.commit(order.committed_epoch)
        if order.checkpoint_id and order.committed_epoch == order.epoch - 1:
            for source in self.sources:
                source.acknowledge()

    def _read(self, source: SourceHead, order: EpochOrder, report: EpochReport) -> None:
        before = source.records
        positions = source.unfinished if order.goes_on else order.positions.get(source.uid)
        source.unfinished = {}
        if positions:
            self._has_splits(source, True)
            durable = order.kind.barrier or not order.checkpoint_id
            reached = source.read(positions, order.max_records, order.budget_ms, durable)
            if order.checkpoint_id:
                source.head.note(order.epoch, order.committed_epoch, positions, reached)
            if order.kind.barrier:
                source.at_barrier(reached)
            report.sources[source.uid] = reached
            source.unfinished = {split: end.position for split, end in reached.items() if not end.finished}
        else:
            reached = {}
            if order.checkpoint_id:
                # Or what was read in an epoch before would pass for the last one's.
                source.head.note(order.epoch, order.committed_epoch, {}, {})
        records = source.records - before
        report.records_in += records
        behind = source.behind(split for split, (_, finished) in reached.items() if not finished)
        report.read[source.uid] = SourceReport(records, behind, source.watermark)
        if source.more_may_come(positions):
            pass  # it waits for them, and time waits with it
        elif source.endless and not order.drains:
            self._has_splits(source, bool(positions))
        elif (
            all(finished for _, finished in reached.values())
            and source.head.current_watermark != MAX_WATERMARK
        ):
            source.head.watermark(MAX_WATERMARK)

    def _process(self, block: Block, order: EpochOrder, report: EpochReport, behind: int | None) -> None:
        """One block; behind it as many elements come before a barrier, where one ends the epoch."""
        count = len(block.values)
        report.records_in += count
        heads = self.heads[block.edge]
        for step in self._steps(count, behind):
            values = elements(block.values, step)
            times = None if block.times is None else elements(block.times, step)
            own = [values, *[separate(values) if self.copies else values for _ in heads[1:]]]
            identities = None  # the sender checked them
            if block.keys is not None:
                identities = values if block.keys is block.values else elements(block.keys, step)
            if self._batch is None or identities is None:
                self._process_step(heads, identities, own, times)
                if behind is not None and identities is not None and self.store is not None:
                    self.store.parts.flush_ahead(behind + count - step.stop)
                continue
            for head, given in zip(heads, own, strict=True):
                self._batch.add(head, identities, given, times)
        watermark = self.inputs.advance(block)
        if watermark is None or (self._batch is not None and watermark != MAX_WATERMARK):
            return
        if self._batch is not None:
            self._batch.run(self._keyed)
        for head in self._heads:
            head.watermark(watermark)

    def _steps(self, count: int, behind: int | None) -> Iterator[slice]:
        """The pieces in which a block of this many elements is processed; see _process."""
        start = 0
        while start < count:
            if self._batch is not None:
                length = count
            elif self.store is None:
                length = _STEP
            else:
                length = self.store.parts.step(_STEP, None if behind is None else behind + count - start)
            yield slice(start, min(start + length, count))
            start += length

    def _process_step(
        self,
        heads: list[Head],
        identities: list[Any] | None,
        own: list[Sequence[Any]],
        times: Sequence[int] | None,
    ) -> None:
        if identities is None:
            for head, values in zip(heads, own, strict=True):
                head.process(values, times)
            return
        assert self.store is not None
        for head, values in zip(heads, own, strict=True):
            head.process_keyed(identities, values, times)
        self.store.expiring.after_records(len(identities))
        self.store.parts.flush_when_full()
        for keyed in self._keyed:
            due = keyed.next_processing_timer()
            if due is not None and due <= (now := self.clock()):
                keyed.fire_processing_timers(now)

    def _has_splits(self, source: SourceHead, some: bool) -> None:
        """A source that may get splits later is idle while it has none."""
        if source.endless and source.idle is some:
            source.idle = not some
            source.head.idleness(source.idle)

    def _watermarks_due(self, order: EpochOrder, busy_ms: float) -> bool:
        """Whether periodic watermarks are made at the end of this epoch; see EpochOrder.paced."""
        if order.paced:
            self._busy_ms += busy_ms
            if self._busy_ms < _PACE_MS:
                return False
            self._busy_ms = 0.0
        return self.periodic

    def _tell_idleness(self) -> None:
        """Pass on that all inputs are idle, or no longer."""
        if self.inputs.all_idle != self._idle:
            self._idle = not self._idle
            for head in self._heads:
                head.idleness(self._idle)

    def _finish(self, order: EpochOrder, report: EpochReport, times: dict[str, float]) -> None:
        """All that the report says beside what sources read."""
        if self.store is not None:
            self._end_log(self.store, order, report, times)
        report.moved, self.inputs.moved = self.inputs.moved, False
        if self.inputs.watermarks:
            report.watermark = self.inputs.current
        for writing in self._writing:
            report.records_out += writing.records
            writing.records = 0
        for node, output in self.outputs.items():
            collected = output.take()
            if collected:
                report.records_out += len(collected)
                report.driver_output[node] = collected
        for node, context in self.contexts.items():
            if context.metrics is not None:
                report.metrics += context.metrics.figures(self.uids[node])
        if order.kind.barrier:
            self._at_barrier(order, report, times)

    def _end_log(
        self, store: KeyedStore, order: EpochOrder, report: EpochReport, times: dict[str, float]
    ) -> None:
        """The epoch's mutations are written, and counted."""
        report.parts = store.end_epoch(order)
        encode_ms, write_ms = store.parts.take_times()
        times["encode"] += encode_ms
        times["write"] += write_ms
        report.logged = store.parts.take_counts()
        self._logged.update(report.logged)
        report.mutations = sum(sum(states.values()) for states in report.logged.values())
        if order.kind.barrier or not order.checkpoint_id:
            report.sizes = store.sizes()
        due = [t for t in (keyed.next_processing_timer() for keyed in self._keyed) if t is not None]
        report.next_timer_ms = min(due, default=None)

    def _at_barrier(self, order: EpochOrder, report: EpochReport, times: dict[str, float]) -> None:
        """What the checkpoint's row has of this subtask beside its log."""
        small = self._snapshot()
        began_ms = monotonic_ms()
        report.operator_state = replace(small, sinks=self._prepared(order))
        report.moved = report.moved or any(sink.moved for sink in self._sinks.values())
        times["write"] += monotonic_ms() - began_ms
        if self.subtask == 0:
            report.shared_state = self._snapshot_shared()
        report.states = {
            self.uids[node]: [describe(spec) for spec in context.declared]
            for node, context in self.contexts.items()
            if context.declared or self.uids[node] in self._logged or self.operators[node].has_timers()
        }

    def _prepared(self, order: EpochOrder) -> dict[str, KeptSink]:
        kept = {uid: sink.prepare(order.epoch, order.kind.ends) for uid, sink in self._sinks.items()}
        return {uid: sink for uid, sink in kept.items() if sink is not None}

    def _snapshot(self) -> SmallState:
        operators = {self.uids[node]: operator.snapshot() for node, operator in self.operators.items()}
        return SmallState(
            log=None if self.store is None else self.store.parts.position(),
            inputs=self.inputs.snapshot() if self.inputs.watermarks else None,
            operators={uid: state for uid, state in operators.items() if state is not None},
        )

    def _sorted(self, data: Iterable[bytes]) -> tuple[list[Block], list[bytes]]:
        """Blocks by edge and channel, and the reports that travel with them."""
        blocks: list[Block] = []
        reports: list[bytes] = []
        to = f" to {' or '.join([repr(head.name) for head in self._heads])}"
        for encoded in data:
            item = decode(encoded, to)
            if isinstance(item, EpochReport):
                reports.append(bytes(encoded))
            else:
                blocks.append(item)
        blocks.sort(key=lambda block: (block.edge, block.channel))
        return blocks, reports

    def _snapshot_shared(self) -> dict[str, KeptBroadcast]:
        shared = {self.uids[node]: operator.snapshot_shared() for node, operator in self.operators.items()}
        return {uid: state for uid, state in shared.items() if state is not None}

    def _collect_blocks(self) -> list[tuple[int, bytes]]:
        sent: list[tuple[int, bytes]] = []
        for exchange, offset in zip(self.exchanges, self.offsets, strict=False):
            sent.extend((offset + target, block) for target, block in exchange.blocks())
        return sent

    def leave(self) -> KeptState | None:
        """What of its keyed state the next attempt may use, once this runtime is closed; None for nothing."""
        return None if self.store is None or self._doubtful else self.store.leave()

    def close(self) -> None:
        """Close the functions, readers and state: all of them, whichever fails.

        Raises:
            Exception: the first that one of them raised.
        """
        everything: list[Any] = [*self.operators.values(), *self.exchanges, *self.sources]
        if self.store is not None:
            everything.append(self.store)
        failures: list[Exception] = []
        for each in everything:
            try:
                each.close()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]
