"""Small job graphs, in the form in which the API hands them over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from api.datastream.functions import KeyedProcessFunction
from changelog_engine.connectors.collection import CollectionSource
from changelog_engine.connectors.sinks import CollectSink
from changelog_engine.graph.nodes import JobGraph, Node, NodeKind, WatermarkSpec
from changelog_engine.types import TypeInformation


def nodes_of(stream: Any) -> list[Node]:
    """The nodes that lead to a stream of the API, without the sink that is put behind it."""
    stream.print()
    nodes: tuple[Node, ...] = stream.get_execution_environment()._take_job("job")[0].nodes
    return list(nodes[:-1])


class GraphBuilder:
    """Adds nodes one after another; every method returns the new node's id.

    Example:
        >>> build = GraphBuilder(parallelism=2)
        >>> keyed = build.key_by(build.source([1, 2, 3]), lambda value: value % 2)
    """

    def __init__(self, name: str = "job", parallelism: int = 1, max_parallelism: int | None = None) -> None:
        self.name = name
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.nodes: list[Node] = []

    def add(self, kind: NodeKind, name: str, *inputs: int, **more: Any) -> int:
        """Add any node."""
        self.nodes.append(Node(len(self.nodes), kind, name, tuple(inputs), **more))
        return len(self.nodes) - 1

    def source(self, elements: Iterable[Any] | Any, **more: Any) -> int:
        """A source over a collection, or a source as it is."""
        function = elements if hasattr(elements, "splits") else CollectionSource(elements)
        return self.add(NodeKind.SOURCE, more.pop("name", "source"), function=function, **more)

    def timestamps(
        self, before: int, extract: Callable[[Any], int], lag_ms: int | None = 0, **more: Any
    ) -> int:
        """Timestamps, and watermarks that lag behind by ``lag_ms``."""
        return self.add(
            NodeKind.TIMESTAMPS,
            "timestamps",
            before,
            function=WatermarkSpec(Assigner(extract), lag_ms, **more),
        )

    def key_by(self, before: int, key: Callable[[Any], Any], key_type: TypeInformation | None = None) -> int:
        """Keys."""
        return self.add(NodeKind.KEY_BY, "key", before, function=key, key_type=key_type)

    def process(self, before: int, function: Any, name: str = "process", **more: Any) -> int:
        """A process function."""
        return self.add(NodeKind.PROCESS, name, before, function=function, **more)

    def collect(self, before: int, **more: Any) -> int:
        """A sink that collects."""
        return self.add(NodeKind.SINK, "collect", before, function=CollectSink(), **more)

    def sink(self, before: int, function: Any, **more: Any) -> int:
        """Any other sink."""
        return self.add(NodeKind.SINK, "sink", before, function=function, **{"uid": "sink", **more})

    def graph(self) -> JobGraph:
        """The job."""
        return JobGraph(self.name, tuple(self.nodes), self.parallelism, self.max_parallelism)


class Assigner:
    """A timestamp assigner round a function."""

    def __init__(self, extract: Callable[[Any], int]) -> None:
        self.extract = extract

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """See TimestampAssigner."""
        return self.extract(value)


def sink_job(sink: Any, elements: Iterable[Any] | Any, parallelism: int = 1) -> JobGraph:
    """source -> sink."""
    build = GraphBuilder(parallelism=parallelism, max_parallelism=16)
    build.sink(build.source(elements, uid="elements"), sink)
    return build.graph()


def keyed_job(
    elements: Iterable[Any] | Any,
    function: KeyedProcessFunction,
    *,
    key: Callable[[Any], Any] = lambda element: element[0],
    key_type: TypeInformation | None = None,
    parallelism: int = 1,
    max_parallelism: int | None = None,
    timestamp: Callable[[Any], int] | None = None,
    lag_ms: int | None = 0,
    uid: str = "process",
    name: str = "job",
    output_type: TypeInformation | None = None,
) -> JobGraph:
    """source -> (timestamps) -> key_by -> process -> collect."""
    build = GraphBuilder(name, parallelism, max_parallelism)
    stream = build.source(elements, uid="source")
    if timestamp is not None:
        stream = build.timestamps(stream, timestamp, lag_ms)
    keyed = build.key_by(stream, key, key_type)
    build.collect(build.process(keyed, function, uid=uid, output_type=output_type))
    return build.graph()
