"""One operator cut out of a job: between empty sources, its key selectors, and a sink."""

from __future__ import annotations

from dataclasses import replace

from changelog_engine.connectors.collection import CollectionSource
from changelog_engine.connectors.sinks import CollectSink
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import TWO_INPUTS, JobGraph, Node, NodeKind, Partitioner, PartitionSpec


def empty_source(number: int) -> Node:
    """A source that has nothing to give."""
    return Node(number, NodeKind.SOURCE, f"input {number + 1}", (), CollectionSource([]))


def find_operator(graph: JobGraph, operator: str) -> Node:
    """The operator with this uid or, where none has it, this name.

    Raises:
        ConfigurationError: there is none or more than one, or it is a source, a sink or a side output.
    """
    wanted = [node for node in graph.nodes if node.uid == operator]
    wanted = wanted or [node for node in graph.nodes if node.name == operator and node.inputs]
    if len(wanted) != 1:
        names = ", ".join(repr(node.uid or node.name) for node in graph.nodes if node.inputs)
        count = "no operator has" if not wanted else f"{len(wanted)} operators have"
        raise ConfigurationError(f"OperatorHarness: {count} the uid or name {operator!r}; there are {names}")
    if wanted[0].kind in (NodeKind.SINK, NodeKind.SOURCE, NodeKind.SIDE_OUTPUT):
        raise ConfigurationError(
            f"OperatorHarness: {operator!r} is a {wanted[0].kind.value}; choose an operator"
        )
    return wanted[0]


def cut_out(graph: JobGraph, wanted: Node) -> tuple[tuple[Node, ...], int]:
    """The operator between empty sources, what partitions its inputs, and a sink; and its id there."""
    nodes: list[Node] = []
    inputs = []
    for position, number in enumerate(wanted.inputs if wanted.kind in TWO_INPUTS else wanted.inputs[:1]):
        before = graph.nodes[number]
        nodes.append(replace(empty_source(len(nodes)), name=f"input {position + 1}"))
        if before.kind not in (NodeKind.KEY_BY, NodeKind.PARTITION):
            before = Node(0, NodeKind.PARTITION, "input", (), PartitionSpec(Partitioner.GLOBAL))
        nodes.append(replace(before, id=len(nodes), inputs=(len(nodes) - 1,), uid=None, parallelism=None))
        inputs.append(len(nodes) - 1)
    uid = wanted.uid or wanted.name
    nodes.append(replace(wanted, id=len(nodes), inputs=tuple(inputs), uid=uid, parallelism=1))
    nodes.append(Node(len(nodes), NodeKind.SINK, "output", (len(nodes) - 1,), CollectSink()))
    return tuple(nodes), len(nodes) - 2
