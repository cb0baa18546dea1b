"""From plan to runtime: the operators of one subtask, linked."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

from changelog_engine.clock import WallClock
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.connectors.iterable import IterableSource
from changelog_engine.connectors.protocols import CommittingSink, SinkContext
from changelog_engine.connectors.sinks import CollectSink, PrintSink
from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.graph.nodes import TWO_INPUTS, JobSettings, Node, NodeKind, StateSpec
from changelog_engine.graph.plan import Edge, JobPlan, Stage
from changelog_engine.operators import keyed, stateless
from changelog_engine.operators.async_io import AsyncOperator
from changelog_engine.operators.base import UNCHECKED, Operator, Receiver, Union, side_output_text
from changelog_engine.operators.broadcast import (
    BroadcastOperator,
    BroadcastStates,
    KeyedBroadcastOperator,
)
from changelog_engine.operators.context import KeyedTimerService, TaskContext, TaskInfo
from changelog_engine.operators.driver_output import DriverOutput
from changelog_engine.operators.exchange import Exchange
from changelog_engine.operators.failures import OperatorName
from changelog_engine.operators.inputs import Inputs
from changelog_engine.operators.sink import CommittingSinkOperator, SinkOperator
from changelog_engine.operators.source import SourceHead, SourceStart
from changelog_engine.operators.stage import StageRuntime
from changelog_engine.operators.standing_still import StandingStill
from changelog_engine.operators.store import KeyedStore
from changelog_engine.operators.store_config import StoreConfig
from changelog_engine.operators.two_inputs import Head, KeyedTwoInputs, TwoInputs
from changelog_engine.operators.windows_build import build_window_operator
from changelog_engine.state.backend import EVENT_TIMERS, PROCESSING_TIMERS
from changelog_engine.state.backends import open_backend
from changelog_engine.state.cursor import NamespaceScope
from changelog_engine.types import RowTypeInfo

_STATELESS: dict[NodeKind, Any] = {
    NodeKind.MAP: stateless.MapOperator,
    NodeKind.FLAT_MAP: stateless.FlatMapOperator,
    NodeKind.FILTER: stateless.FilterOperator,
}
_KEYED: dict[NodeKind, type[keyed.KeyedOperator]] = {
    NodeKind.MAP: keyed.KeyedMapOperator,
    NodeKind.FLAT_MAP: keyed.KeyedFlatMapOperator,
    NodeKind.FILTER: keyed.KeyedFilterOperator,
}


# What these pass on has left a chain of PyFlink's.
_PASSING_ON = frozenset({NodeKind.TIMESTAMPS, NodeKind.UNION, NodeKind.SIDE_OUTPUT})


class StageBuilder:
    """Builds the runtime of one subtask.

    Args:
        functions: node id to this process's own copy of its function.
        folder: where parts go, or None.
        clock: wall clock in ms.
    """

    def __init__(
        self,
        plan: JobPlan,
        functions: dict[int, Any],
        settings: JobSettings,
        stage: Stage,
        subtask: int,
        folder: str | None,
        restarts: int,
        clock: WallClock,
    ) -> None:
        self.plan = plan
        self.functions = functions
        self.settings = settings
        self.stage = stage
        self.subtask = subtask
        self.restarts = restarts
        self.clock = clock
        self.nodes = plan.graph.by_id()
        self.contexts: dict[int, TaskContext] = {}
        self.sources: list[SourceHead] = []
        self.outputs: dict[int, DriverOutput] = {}
        self.keys = key_codec_for(stage.key_type) if stage.keyed else None
        self.head_nodes = {node for edge in stage.inputs for node in edge.to_nodes}
        self.store = self._store(folder) if stage.keyed else None
        self.still = StandingStill(folder)

    def _store(self, folder: str | None) -> KeyedStore:
        stage, job = self.stage, self.plan.graph.name
        config = StoreConfig(
            folder=folder,
            changelog=self.settings.changelog,
            stage=stage.id,
            subtask=self.subtask,
            key_groups=key_group_range(self.subtask, stage.max_parallelism, stage.parallelism),
            key_type=stage.key_type,
            timed=stage.timed,
            max_parallelism=stage.max_parallelism,
            part_max_bytes=self.settings.part_max_bytes,
            operators=frozenset(self.plan.uids[node] for node in stage.nodes),
            max_state_bytes=self.settings.max_state_bytes,
            local_recovery=self.settings.local_recovery,
            packs=self.settings.packs and stage.parallelism > 1,
        )
        return KeyedStore(config, self.clock, open_backend(self.settings, job, stage.id, self.subtask))

    def build(self) -> StageRuntime:
        """The runtime, not opened yet."""
        stage, plan = self.stage, self.plan
        parallelism = plan.parallelism_of
        operators = {node: self._chained(node) for node in stage.nodes}
        exchanges = [self._exchange(edge) for edge in stage.outputs]
        self._link(operators, exchanges)
        channels = [
            (edge.id, channel) for edge in stage.inputs for channel in range(parallelism[edge.from_stage])
        ]
        return StageRuntime(
            stage=stage.id,
            subtask=self.subtask,
            operators=operators,
            uids={node: plan.uids[node] for node in stage.nodes},
            contexts=self.contexts,
            sources=self.sources,
            heads={
                edge.id: [self._head(operators[node], edge.input) for node in edge.to_nodes]
                for edge in stage.inputs
            },
            exchanges=exchanges,
            offsets=stage.partitions(parallelism),
            outputs=self.outputs,
            store=self.store,
            still=self.still,
            inputs=Inputs(channels),
            keys=self.keys,
            clock=self.clock,
            exchange_context=TaskContext(self._info("key selector"), None),
            batch=self.settings.batch,
            periodic=self.settings.periodic_watermarks and not self.settings.batch,
            copies=not self.settings.object_reuse,
        )

    def _chained(self, node: int) -> Operator:
        operator = self._operator(self.nodes[node])
        if self.settings.object_reuse:
            operator.reuse_objects()
        if self.nodes[node].kind is not NodeKind.SIDE_OUTPUT and not self._gets_what_was_given(node):
            operator.takes_none = not (operator.typed or self.nodes[node].begins_chain)
            operator.typed, operator.as_given = True, False
        if operator.output_type is not UNCHECKED:
            operator.output_type.what += _named(self.nodes[node]).place
        return operator

    def _exchange(self, edge: Edge) -> Exchange:
        to_stage = self.plan.stages[edge.to_stage]
        return Exchange(
            edge,
            self.subtask,
            self.plan.parallelism_of[edge.to_stage],
            to_stage.max_parallelism,
            None if edge.route is None else self.functions[edge.route.id],
            self.stage.parallelism,
            self._way(edge),
        )

    def _link(self, operators: dict[int, Operator], exchanges: list[Exchange]) -> None:
        """Have each operator push what it gives to the operators behind it in the stage, then to other stages."""
        inputs = self._chained_inputs(operators)
        for node, operator in operators.items():
            for receiver in self.stage.links[node]:
                aside = self.nodes[receiver].kind is NodeKind.SIDE_OUTPUT
                operator.link(inputs[receiver].pop(), self.functions[receiver] if aside else None)
            for exchange in exchanges:
                if exchange.edge.from_node == node:
                    operator.link(exchange)

    def _way(self, edge: Edge) -> str:
        ends = " and ".join([repr(self.nodes[node].label) for node in edge.to_nodes])
        route = "" if edge.route is None else _named(self.nodes[edge.route.id]).place
        return f" from {self.nodes[edge.from_node].label!r} to {ends}{route}"

    def _chained_inputs(self, operators: dict[int, Operator]) -> dict[int, list[Receiver]]:
        """What to push to, for each chained input of each operator."""
        counts = Counter(receiver for node in self.stage.nodes for receiver in self.stage.links[node])
        inputs: dict[int, list[Receiver]] = {}
        for node, count in counts.items():
            inputs[node] = [operators[node]] if count == 1 else [*Union(operators[node], count).inputs]
        return inputs

    def _head(self, operator: Operator, position: int) -> Head:
        port: Head = operator.ports[position] if operator.ports else operator
        return port

    def _info(self, name: str) -> TaskInfo:
        return TaskInfo(
            name,
            self.subtask,
            self.stage.parallelism,
            self.stage.max_parallelism,
            self.restarts,
            self.settings.parameters,
        )

    def _context(self, node: Node) -> TaskContext:
        def refuse(spec: StateSpec, scope: NamespaceScope | None) -> Any:
            raise InvalidJobError(
                f"operator {node.label!r} asks for keyed state {spec.name!r}, but an async function has none: put a "
                "process() with the state before or behind it"
            )

        states: Callable[[StateSpec, NamespaceScope | None], Any] | None = None
        if (
            node.kind is NodeKind.ASYNC
        ):  # when an answer is there, another key's element may be the current one
            states = refuse
        elif self.store is not None and node.id in self.head_nodes:
            states = functools.partial(self.store.state, self.plan.uids[node.id])
        context = self.contexts[node.id] = TaskContext(self._info(node.name), states)
        return context

    def _operator(self, node: Node) -> Operator:
        function: Any = self.functions.get(node.id)
        if node.kind is NodeKind.SOURCE:
            head = SourceStart(_named(node), node.output_type)
            if not isinstance(function, IterableSource):  # the others give what they declare
                head.output_type = UNCHECKED
            uid = self.plan.uids[node.id]
            # Where the stage branches, the steps show in the order of what its branches give.
            linear = all(len(receivers) <= 1 for receivers in self.stage.links.values())
            self.sources.append(SourceHead(uid, _named(node), function, head, one_first=linear))
            return head
        if node.kind is NodeKind.SINK:
            return self._sink(node, function)
        if node.kind is NodeKind.SIDE_OUTPUT:
            producer = self.nodes[node.inputs[0]].label
            what = f"{side_output_text(function, producer)}{_named(node).place}"
            return stateless.SideOutputOperator(producer, what, node.output_type)
        if node.kind is NodeKind.TIMESTAMPS:
            timestamps = stateless.TimestampsOperator(_named(node), node.output_type, function)
            if self._has_its_type(node):
                timestamps.output_type = UNCHECKED
            return timestamps
        if node.kind is NodeKind.ASYNC:
            return AsyncOperator(_named(node), node.output_type, function, self._context(node))
        if self.stage.keyed and node.id in self.head_nodes:
            return self._keyed_operator(node, function)
        if node.kind in TWO_INPUTS:
            return self._two_inputs(node, function)
        context = self._context(node)
        if node.kind is NodeKind.PROCESS:
            return stateless.ProcessOperator(_named(node), node.output_type, function, context, self.clock)
        operator: Operator = _STATELESS[node.kind](_named(node), node.output_type, function, context)
        return operator

    def _has_its_type(self, node: Node) -> bool:
        """Whether what reaches an operator left a chain, or came from a source, and so has its declared type already."""
        origin = self.nodes[node.inputs[0]]
        if origin.kind is NodeKind.SOURCE:
            return not isinstance(origin.function, IterableSource)
        return node.id in self.head_nodes or not self._gets_what_was_given(node.id)

    def _keyed_operator(self, node: Node, function: Any) -> Operator:
        assert self.store is not None and self.keys is not None
        store, uid, kind = self.store, self.plan.uids[node.id], node.kind
        called = function.function if kind in (NodeKind.WINDOW, NodeKind.BROADCAST_PROCESS) else function
        parts = keyed.KeyedParts(
            _named(node), node.output_type, called, self._context(node), store.cursor, self.keys
        )
        if kind is NodeKind.WINDOW:
            return build_window_operator(parts, function, store, uid, self.clock)
        if kind is NodeKind.REDUCE:
            return keyed.ReduceOperator(parts, self.settings.batch)
        if kind in _KEYED:
            return _KEYED[kind](parts)
        timers = KeyedTimerService(
            store.timers(uid, EVENT_TIMERS), store.timers(uid, PROCESSING_TIMERS), self.clock
        )
        if kind is NodeKind.PROCESS:
            return keyed.KeyedProcessOperator(parts, timers)
        if kind is NodeKind.BROADCAST_PROCESS:
            return KeyedBroadcastOperator(parts, timers, BroadcastStates(_named(node), function.states))
        return KeyedTwoInputs(parts, timers, kind)

    def _gets_what_was_given(self, node: int) -> bool:
        """Whether what reaches a node stayed in the chain since a function gave it, and nothing else reads it."""
        if self.nodes[node].begins_chain:
            return False
        if node in self.stage.apart or sum(node in stage.nodes for stage in self.plan.stages) > 1:
            return False  # what comes over a union has its type
        senders = [sender for sender, receivers in self.stage.links.items() if node in receivers]
        if not senders:
            return True
        sender = senders[0]
        edges = sum(edge.from_node == sender for edge in self.stage.outputs)
        if len(senders) > 1 or len(self.stage.links[sender]) + edges > 1:
            return False
        return self.nodes[sender].kind not in _PASSING_ON

    def _two_inputs(self, node: Node, function: Any) -> Operator:
        context, name = self._context(node), _named(node)
        if node.kind is NodeKind.BROADCAST_PROCESS:
            states, batch = BroadcastStates(name, function.states), self.settings.batch
            return BroadcastOperator(
                name, node.output_type, function.function, context, states, self.clock, batch
            )
        return TwoInputs(name, node.output_type, function, context, node.kind, self.clock)

    def _sink(self, node: Node, sink: Any) -> Operator:
        if isinstance(sink, CollectSink):
            output = DriverOutput(_named(node), None)
        elif isinstance(sink, PrintSink):
            # Behind a union it is in the stage of each stream, and one of them may have been rescaled.
            widest = max(stage.parallelism for stage in self.plan.stages if node.id in stage.nodes)
            render = functools.partial(sink.lines, subtask=self.subtask, parallelism=widest)
            # As in PyFlink a row is shown as the function gave it, 1 in a DOUBLE as 1, as long as nothing else reads it.
            output = DriverOutput(_named(node), render, as_given=isinstance(sink.type_info, RowTypeInfo))
        elif isinstance(sink, CommittingSink):
            job, uid = self.plan.graph.name, self.plan.uids[node.id]
            place = SinkContext(job, uid, self.subtask, self.stage.parallelism, "", 0, False, ())
            return CommittingSinkOperator(_named(node), sink, place, self.still)
        else:
            return SinkOperator(_named(node), sink, self.subtask, self.stage.parallelism, self.still)
        self.outputs[node.id] = output
        return output


def _named(node: Node) -> OperatorName:
    return OperatorName(node.label, node.made_at)
