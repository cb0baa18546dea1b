"""Hands the configuration to connectors that want it, and asks sinks whether they can work, before a job starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from changelog_engine.graph.nodes import JobGraph, Node, NodeKind

_CONNECTORS = (NodeKind.SOURCE, NodeKind.SINK)


def with_options(graph: JobGraph, entries: Mapping[str, str]) -> JobGraph:
    """The graph with connectors that have the configuration's entries.

    Args:
        graph: the job.
        entries: all keys and texts of the configuration.

    Raises:
        ConfigurationError: a sink cannot work.
    """
    return replace(graph, nodes=tuple(_with_options(node, entries) for node in graph.nodes))


def _with_options(node: Node, entries: Mapping[str, str]) -> Node:
    if node.kind not in _CONNECTORS:
        return node
    function = node.function
    if hasattr(function, "with_options"):
        function = function.with_options(entries)
    if hasattr(function, "check_before_start"):
        function.check_before_start()
    return node if function is node.function else replace(node, function=function)
