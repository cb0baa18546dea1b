"""What the driver's loop wants to know about a plan."""

from __future__ import annotations

from typing import Any

from changelog_engine.connectors.protocols import CommittingSink, Sink
from changelog_engine.graph.hooks import hook_of
from changelog_engine.graph.nodes import JobSettings, Node, NodeKind
from changelog_engine.graph.plan import JobPlan


def acknowledges(plan: JobPlan) -> bool:
    """Whether any source wants to know what is durable."""
    return any(node.kind is NodeKind.SOURCE and node.function.acknowledges for node in plan.graph.nodes)


def closes(plan: JobPlan, settings: JobSettings) -> bool:
    """Whether the workers have something to close, or files to remove, so that the job's end must reach them."""
    return settings.state_backend != "hashmap" or any(_closes(node) for node in plan.graph.nodes)


def _closes(node: Node) -> bool:
    if node.kind is NodeKind.ASYNC:  # its event loop is closed
        return True
    if node.kind is NodeKind.SINK:
        return isinstance(node.function, (Sink, CommittingSink))
    return node.kind is not NodeKind.SOURCE and any(
        hook_of(function, "close") is not None for function in _functions(node)
    )


def _functions(node: Node) -> list[Any]:
    """The user's functions in a node."""
    if node.kind is NodeKind.BROADCAST_PROCESS:
        return [node.function.function]
    if node.kind is NodeKind.WINDOW:
        return [node.function.function, node.function.contents.function]
    return [node.function]
