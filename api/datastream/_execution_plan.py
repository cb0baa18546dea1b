"""The plan of a program as JSON, in Flink's form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from changelog_engine.graph.nodes import TWO_INPUTS, JobGraph, Node, NodeKind
from changelog_engine.graph.plan import plan_job

from ._graph import WAYS

_PACTS = {NodeKind.SOURCE: "Data Source", NodeKind.SINK: "Data Sink"}
_PREFIXES = {NodeKind.SOURCE: "Source: ", NodeKind.SINK: "Sink: "}


def execution_plan(graph: JobGraph, descriptions: Mapping[int, str]) -> str:
    """The operators and how elements reach them.

    Args:
        descriptions: of nodes that have one, by id.

    Returns:
        JSON: ``{"nodes": [{"id", "type", "pact", "contents", "parallelism", "predecessors": [{"id",
        "ship_strategy", "side"}]}]}``. Sources have no predecessors.

    Raises:
        InvalidJobError: the program cannot run.
    """
    plan = plan_job(graph)
    parallelism = {node: stage.parallelism for stage in plan.stages for node in stage.nodes}
    nodes = graph.by_id()
    listed = []
    for node in graph.nodes:
        if node.kind in WAYS:
            continue
        title = _title(node)
        entry: dict[str, Any] = {
            "id": node.id + 1,  # Flink counts from 1
            "type": title,
            "pact": _PACTS.get(node.kind, "Operator"),
            "contents": descriptions.get(node.id, title),
            "parallelism": parallelism[node.id],
        }
        if node.inputs:
            entry["predecessors"] = [
                {
                    "id": origin + 1,
                    "ship_strategy": strategy
                    or ("FORWARD" if parallelism[origin] == parallelism[node.id] else "REBALANCE"),
                    "side": "first" if node.kind in TWO_INPUTS and position == 0 else "second",
                }
                for position, i in enumerate(node.inputs)
                for origin, strategy in _origins(nodes[i], nodes, None)
            ]
        listed.append(entry)
    return json.dumps({"nodes": listed}, indent=2)


def _title(node: Node) -> str:
    prefix = _PREFIXES.get(node.kind, "")
    return node.name if node.name.startswith(prefix) else prefix + node.name


def _origins(node: Node, nodes: Mapping[int, Node], strategy: str | None) -> Iterator[tuple[int, str | None]]:
    """The operators behind an input, each with the way its elements take; None for the plain way."""
    if node.kind not in WAYS:
        yield node.id, strategy
        return
    if strategy is None and node.kind is NodeKind.KEY_BY:
        strategy = "HASH"
    elif strategy is None and node.kind is NodeKind.PARTITION:
        strategy = node.function.partitioner.name
    for i in node.inputs:
        yield from _origins(nodes[i], nodes, strategy)
