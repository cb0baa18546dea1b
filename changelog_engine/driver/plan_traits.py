"""What the driver's loop wants to know about a plan."""

from __future__ import annotations

from typing import Any

from changelog_engine.connectors.protocols import CommittingSink, Sink, SourceOfParts
from changelog_engine.graph.hooks import hook_of
from changelog_engine.graph.nodes import JobSettings, Node, NodeKind
from changelog_engine.graph.plan import JobPlan


def acknowledges(plan: JobPlan) -> bool:
    """Whether any source wants to know what is durable."""
    return any(node.kind is NodeKind.SOURCE and node.function.acknowledges for node in plan.graph.nodes)


def closes(plan: JobPlan, settings: JobSettings) -> bool:
    """Whether the workers have something to close, or files to remove, so that the job's end must reach them."""
    return settings.state_backend != "hashmap" or any(_closes(node) for node in plan.graph.nodes)


def can_read_ahead(plan: JobPlan, settings: JobSettings) -> bool:
    """Whether sources may read an epoch while the stages behind them run the one before.

    Not where what they read then depends on what that epoch makes durable (messages are acknowledged, a sink in their stage
    commits), or on a decision of the driver after it (the next part of a source). In BATCH mode there is nothing to win.
    """
    nodes = {node.id: node for node in plan.graph.nodes}
    sources = [stage for stage in plan.stages if not stage.inputs]
    return (
        settings.read_ahead
        and not settings.batch
        and all(stage.outputs for stage in sources)
        and all(_may_run_ahead(nodes[node]) for stage in sources for node in stage.nodes)
    )


def _may_run_ahead(node: Node) -> bool:
    if node.kind is NodeKind.SOURCE:
        source = node.function
        return source.replayable and not source.acknowledges and not isinstance(source, SourceOfParts)
    return not (node.kind is NodeKind.SINK and isinstance(node.function, CommittingSink))


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
