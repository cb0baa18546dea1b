"""One operator by itself, without Spark: elements, watermarks and timers in, output, state and mutations out.

The operator, its state and its log are the engine's own, built as a worker builds them; every call is an epoch of a stage
with one subtask.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

import pyarrow as pa

from changelog_engine.changelog.small_state import KeptBroadcast, SmallState
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind, StateKind
from changelog_engine.graph.plan import plan_job
from changelog_engine.graph.tags import OutputTag
from changelog_engine.operators.base import UNCHECKED, OutputType, side_output_text
from changelog_engine.operators.build import StageBuilder
from changelog_engine.operators.exchange import Exchange
from changelog_engine.operators.messages import EpochKind, EpochOrder
from changelog_engine.operators.state_types import describe
from changelog_engine.replay.log_rows import Mutation, mutations_of, table_of, user_value
from changelog_engine.state.backend import EVENT_TIMERS, PROCESSING_TIMERS
from changelog_engine.testing.harness_graph import cut_out, find_operator

_Kept = TypeVar("_Kept")
_NOWHERE = "harness"  # mutations are taken from the buffer before any would be written


@dataclass(frozen=True)
class HarnessSnapshot:
    """All state of an operator, as a harness's `OperatorHarness.snapshot` gives it; it can be pickled."""

    rows: pa.Table
    described: list[DescribedOperator]
    operator_state: SmallState
    shared_state: dict[str, KeptBroadcast]
    processing_time: int
    watermarks: tuple[int, ...]

    def __getstate__(self) -> dict[str, Any]:
        """Descriptions as a checkpoint's row has them, which later versions of the engine read, too."""
        shared = {uid: kept.to_json() for uid, kept in self.shared_state.items()}
        return vars(self) | {"described": [each.to_json() for each in self.described], "shared_state": shared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        described = [DescribedOperator.from_json(each) for each in state["described"]]
        shared = {uid: KeptBroadcast.from_json(kept) for uid, kept in state["shared_state"].items()}
        vars(self).update(state | {"described": described, "shared_state": shared})


class _Collector:
    """Keeps what an operator gives, with timestamps."""

    passive = True
    typed = True
    as_given = takes_none = False

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.times: list[int | None] = []

    def process(self, values: Any, times: Any) -> None:
        self.elements.extend(values)
        self.times.extend([None] * len(values) if times is None else map(int, times))

    def watermark(self, watermark: int) -> None:
        """Nothing waits for it."""

    resume = watermark

    def idleness(self, idle: bool) -> None:
        """Nobody waits for it."""


class _SideCollector(_Collector):
    """Keeps what goes to one side output, which has a type of its own."""

    typed = False

    def __init__(self, output_type: OutputType) -> None:
        super().__init__()
        self._output_type = output_type

    def process(self, values: Any, times: Any) -> None:
        super().process(self._output_type.check(values), times)


class _SideOutputs(dict[str, list[Any]]):
    """A collector for whatever tag there is."""

    def __init__(self, types: dict[str, OutputType]) -> None:
        super().__init__()
        self._types = types

    def __missing__(self, tag: str) -> list[Any]:
        collectors: list[Any] = [_SideCollector(self._types.get(tag, UNCHECKED))]
        self[tag] = collectors
        return collectors

    def get(self, tag: str, default: Any = None) -> list[Any]:
        return self[tag]


class OperatorHarness:
    """Any operator of a job by itself: keyed or not, with one input or two, windows included.

    Args:
        graph: the job that has it, as ``env.generate_stream_graph()`` gives it. Only the operator and the key selectors
            before it are used.
        operator: its uid or name.
        max_parallelism: number of key groups; the operator's own by default, else 128.

    Raises:
        ConfigurationError: no operator has that uid or name, or several have.
        UserFunctionError: the function's ``open()`` raised.

    Source: no counterpart in PyFlink; Flink's AbstractStreamOperatorTestHarness
    """

    def __init__(self, graph: JobGraph, operator: str, max_parallelism: int | None = None) -> None:
        wanted = find_operator(graph, operator)
        nodes, self._node = cut_out(graph, wanted)
        self._plan = plan_job(JobGraph(graph.name, nodes, 1, max_parallelism or graph.max_parallelism))
        self._functions = {node.id: node.function for node in nodes}
        self._settings = JobSettings(changelog=True)
        self._now = 0
        self._uid = self._plan.uids[self._node]
        self.mutations: list[Mutation] = []
        self._output = _Collector()
        self._aside = _SideOutputs(
            {
                str(node.function): OutputType(
                    side_output_text(str(node.function), wanted.label), node.output_type
                )
                for node in graph.nodes
                if node.kind is NodeKind.SIDE_OUTPUT and wanted.id in node.inputs
            }
        )
        self._build()

    def _build(self, snapshot: HarnessSnapshot | None = None) -> None:
        plan = self._plan
        stage = next(stage for stage in plan.stages if self._node in stage.nodes)
        builder = StageBuilder(
            plan, self._functions, self._settings, stage, 0, _NOWHERE, 0, lambda: self._now
        )
        self._runtime = builder.build()
        self._store = self._runtime.store
        edges = sorted(stage.inputs, key=lambda edge: edge.input)
        self._exchanges = [
            Exchange(
                edge,
                0,
                1,
                stage.max_parallelism,
                None if edge.route is None else self._functions[edge.route.id],
            )
            for edge in edges
        ]
        operator = self._runtime.operators[self._node]
        operator.link(self._output)
        operator.side_outputs = self._aside
        self._epoch = 0
        if snapshot is not None:
            self._now = snapshot.processing_time
            for exchange, watermark in zip(self._exchanges, snapshot.watermarks, strict=True):
                exchange.resume(watermark)
            if self._store is not None:
                self._store.take([snapshot.rows], snapshot.described)
        for exchange in self._exchanges:
            exchange.open(self._runtime.exchange_context)
        self._runtime.start(self._order(snapshot))

    def _order(self, snapshot: HarnessSnapshot | None = None) -> EpochOrder:
        return EpochOrder(
            run="harness",
            attempt=1,
            restarts=0,
            epoch=self._epoch,
            kind=EpochKind.READ,
            committed_epoch=0,
            restore=None,
            restored_operators=[],
            operator_state=SmallState() if snapshot is None else snapshot.operator_state,
            shared_state={} if snapshot is None else snapshot.shared_state,
            checkpoint_id=1,
            positions={},
            max_records=0,
            budget_ms=0,
        )

    def process_element(self, value: Any, timestamp: int | None = None, input: int = 1) -> None:
        """Give the operator an element.

        Args:
            timestamp: ms; None, the default, for none.
            input: 1, the default, or 2: which input of an operator with two.

        Raises:
            ConfigurationError: the operator has no such input.
            UserFunctionError: the function raised; the message has operator, key and traceback.
        """
        exchange = self._input(input)
        exchange.process([value], None if timestamp is None else [timestamp])
        self._run([exchange])

    def process_watermark(self, timestamp: int, input: int | None = None) -> None:
        """Give the operator a watermark; event-time timers up to it fire.

        Args:
            timestamp: ms; one that is not larger than the one before does nothing.
            input: 1 or 2; None, the default, for all.
        """
        exchanges = self._exchanges if input is None else [self._input(input)]
        for exchange in exchanges:
            exchange.watermark(timestamp)
        self._run(exchanges)

    def set_processing_time(self, timestamp: int) -> None:
        """Set the wall clock, which begins at 0; processing-time timers up to it fire.

        Args:
            timestamp: ms.
        """
        self._now = timestamp
        self._run([])

    def _input(self, number: int) -> Exchange:
        if not 1 <= number <= len(self._exchanges):
            raise ConfigurationError(
                f"process_element: there is no input {number}; the operator has {len(self._exchanges)}"
            )
        return self._exchanges[number - 1]

    def _run(self, exchanges: list[Exchange]) -> None:
        self._epoch += 1
        blocks = [block for exchange in exchanges for _, block in exchange.blocks()]
        try:
            self._runtime.run(self._order(), blocks)
        finally:
            self._take_mutations()

    def _take_mutations(self) -> None:
        store = self._store
        if store is not None:
            for count, columns in store.buffer.drain():
                self.mutations.extend(mutations_of(table_of(count, columns), store.specs, store.key_type))

    @property
    def output(self) -> list[Any]:
        """What the operator gave, in order."""
        return list(self._output.elements)

    @property
    def output_with_timestamps(self) -> list[tuple[Any, int | None]]:
        """What the operator gave, each with its timestamp in ms (the smallest long or None for none)."""
        return list(zip(self._output.elements, self._output.times, strict=True))

    def side_output(self, tag: Any) -> list[Any]:
        """What the operator gave to a side output, in order.

        Args:
            tag: an OutputTag, or its id.
        """
        return [*self._aside[tag.tag_id if isinstance(tag, OutputTag) else tag][0].elements]

    def clear(self) -> None:
        """Forget output, side outputs and mutations so far; state and timers stay."""
        self.mutations.clear()
        for collector in (self._output, *(collectors[0] for collectors in self._aside.values())):
            collector.elements.clear()
            collector.times.clear()

    def state(self, name: str) -> dict[Any, Any]:
        """A state's entries now.

        Args:
            name: as its descriptor says.

        Returns:
            Key to value; to a list for a list state, to a dict for a map state, to the accumulator for reducing and
            aggregating state. In state of windows a key is a pair of the key and the window's text.

        Raises:
            ConfigurationError: the operator has declared no such state so far.
        """
        store = self._store
        spec = None if store is None else store.specs.get((self._uid, name))
        if store is None or spec is None:
            known = [] if store is None else sorted(state for _, state in store.specs)
            raise ConfigurationError(
                f"state: the operator has declared no state {name!r}; it has {', '.join(known) or 'none'}"
            )
        found: dict[Any, Any] = {}
        for identity, entry in store.tables[self._uid, name].items():
            key = self._key(name, identity)
            if spec.kind is StateKind.LIST:
                found[key] = [user_value(spec, value) for value in entry]
            elif spec.kind is StateKind.MAP:
                map_key_of = key_codec_for(spec.map_key_type).key_of
                found[key] = {map_key_of(k): user_value(spec, value) for k, value in entry.items()}
            else:
                found[key] = user_value(spec, entry)
        return found

    def _key(self, name: str, identity: Any) -> Any:
        assert self._store is not None
        codec, keys = self._store.namespaces.get((self._uid, name)), key_codec_for(self._store.key_type)
        if codec is None:
            return keys.key_of(identity)
        return keys.key_of(identity[0]), codec.texts([identity[1]])[0].as_py()

    @property
    def event_time_timers(self) -> list[tuple[int, Any]]:
        """Pending event-time timers as (timestamp in ms, key), in the order in which they will fire."""
        return self._timers(EVENT_TIMERS)

    @property
    def processing_time_timers(self) -> list[tuple[int, Any]]:
        """Pending processing-time timers as (timestamp in ms, key), in the order in which they will fire."""
        return self._timers(PROCESSING_TIMERS)

    def _timers(self, domain: str) -> list[tuple[int, Any]]:
        table = None if self._store is None else self._store.timer_tables.get((self._uid, domain))
        if table is None:
            return []
        return [(timestamp, self._key(domain, key)) for timestamp, key in sorted(table, key=itemgetter(0))]

    def snapshot(self) -> HarnessSnapshot:
        """All state, timers, broadcast state, watermarks and the clock, as a checkpoint would keep them."""
        runtime, store = self._runtime, self._store
        tables = [] if store is None else [table_of(*live) for live in store.live_columns()]
        context = runtime.contexts.get(self._node)
        states = tuple([describe(spec) for spec in (() if context is None else context.declared)])
        key_type = None if store is None or store.key_type is None else store.key_type.spec()
        described = DescribedOperator(self._uid, self._uid, "harness", 1, 1, True, key_type, states)
        small = {runtime.uids[node]: operator.snapshot() for node, operator in runtime.operators.items()}
        shared = {
            runtime.uids[node]: operator.snapshot_shared() for node, operator in runtime.operators.items()
        }
        return HarnessSnapshot(
            pa.concat_tables(tables) if tables else table_of(0, {}),
            [described],
            SmallState(inputs=runtime.inputs.snapshot(), operators=_present(small)),
            _present(shared),
            self._now,
            tuple(exchange.current_watermark for exchange in self._exchanges),
        )

    def restore(self, snapshot: HarnessSnapshot) -> None:
        """Begin anew from a snapshot, of this harness or of one with another version of the function.

        The function is closed and opened again; output and mutations so far stay.

        Args:
            snapshot: what `snapshot` gave.

        Raises:
            RestoreError: a state is declared with other types than the snapshot has.
        """
        self.close()
        self._build(snapshot)

    def close(self) -> None:
        """Close the function and let go of the state."""
        for exchange in self._exchanges:
            exchange.close()
        self._runtime.close()

    def __enter__(self) -> OperatorHarness:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _present(states: dict[str, _Kept | None]) -> dict[str, _Kept]:
    return {uid: state for uid, state in states.items() if state is not None}
