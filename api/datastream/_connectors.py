"""What users pass as a source or a sink, as the engine runs it: the one way for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from changelog_engine import connectors as engine
from changelog_engine.config.options import CHECKPOINT_INTERVAL
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.graph.hooks import hook_of, refuse_async, refuse_deferred
from changelog_engine.graph.nodes import JobGraph, Node, NodeKind
from changelog_engine.types import TypeInformation

from .._arguments import refuse_java
from .connectors.base import Sink, Source, engine_sink, engine_source
from .functions import SinkFunction, SourceFunction

_CONNECTORS = (NodeKind.SOURCE, NodeKind.SINK)


def as_source(source: Any, what: str) -> engine.Source:
    """A Source, or an object that inherits the engine's Source, as a source of the engine.

    Raises:
        NotSupportedError: the name of a Java class.
    """
    if isinstance(source, SourceFunction):
        raise ArgumentTypeError(f"{what} takes a Source; give this SourceFunction to add_source()")
    inner = source._source if isinstance(source, Source) else source
    refuse_java(inner, what)
    return engine_source(inner, what)


def as_source_function(source_func: Any, type_info: TypeInformation | None, what: str) -> engine.Source:
    """A SourceFunction, or what one would be made of, as a source of the engine.

    Raises:
        NotSupportedError: the name of a Java class.
    """
    if isinstance(source_func, Source):
        raise ArgumentTypeError(
            f"{what} takes a SourceFunction; give this {type(source_func).__name__} to from_source()"
        )
    function = source_func._function if isinstance(source_func, SourceFunction) else source_func
    refuse_java(function, what)
    if isinstance(function, engine.Source):
        return function
    refuse_async(function, "the source function", what)
    return engine.IterableSource(function, type_info)


def as_sink(sink: Any, what: str) -> engine.Sink | engine.CommittingSink:
    """A Sink, or an object that inherits the engine's Sink or CommittingSink, as a sink of the engine.

    Raises:
        NotSupportedError: the name of a Java class.
    """
    if isinstance(sink, SinkFunction):
        raise ArgumentTypeError(f"{what} takes a Sink; give this SinkFunction to add_sink()")
    inner = sink._sink if isinstance(sink, Sink) else sink
    refuse_java(inner, what)
    return engine_sink(inner, what)


def as_sink_function(sink_func: Any, what: str) -> engine.Sink | engine.CommittingSink:
    """A SinkFunction, or what one would be made of, as a sink of the engine.

    Raises:
        NotSupportedError: the name of a Java class.
    """
    if isinstance(sink_func, Sink):
        raise ArgumentTypeError(
            f"{what} takes a SinkFunction; give this {type(sink_func).__name__} to sink_to()"
        )
    function = sink_func._function if isinstance(sink_func, SinkFunction) else sink_func
    refuse_java(function, what)
    if isinstance(function, (engine.Sink, engine.CommittingSink)):
        return function
    refuse_deferred(function, "the sink function", what)
    for name in ("invoke", "flush", "close"):
        refuse_deferred(hook_of(function, name), f"{name} of {type(function).__name__}", what)
    return engine.FunctionSink(function)


def with_options(graph: JobGraph, entries: Mapping[str, str], checkpoint_interval_ms: int | None) -> JobGraph:
    """The graph with connectors that know the configuration, each of which was asked whether it can work.

    Args:
        entries: all keys and texts of the configuration.
        checkpoint_interval_ms: what the engine makes of them; connectors find it in their place, or no such entry.

    Raises:
        ConfigurationError: a source or a sink cannot work.
    """
    known = {key: text for key, text in entries.items() if key != CHECKPOINT_INTERVAL.key}
    if checkpoint_interval_ms is not None:
        known[CHECKPOINT_INTERVAL.key] = f"{checkpoint_interval_ms} ms"
    return replace(graph, nodes=tuple(_with_options(node, known) for node in graph.nodes))


def _with_options(node: Node, entries: Mapping[str, str]) -> Node:
    if node.kind not in _CONNECTORS:
        return node
    function = node.function.with_options(entries)
    function.check_before_start()
    return node if function is node.function else replace(node, function=function)
