"""What the driver's loop wants to know about a plan."""

from __future__ import annotations

from typing import Any

from changelog_engine.connectors.protocols import CommittingSink, Sink, SourceOfParts
from changelog_engine.connectors.scripted import ScriptedSource
from changelog_engine.graph.hooks import hook_of
from changelog_engine.graph.nodes import JobSettings, Node, NodeKind
from changelog_engine.graph.plan import JobPlan, Stage


def acknowledges(plan: JobPlan) -> bool:
    """Whether any source wants to know what is durable."""
    return any(node.kind is NodeKind.SOURCE and node.function.acknowledges for node in plan.graph.nodes)


def closes(plan: JobPlan, settings: JobSettings) -> bool:
    """Whether the workers have something to close, or files to remove, so that the job's end must reach them."""
    return settings.state_backend != "hashmap" or any(_closes(node) for node in plan.graph.nodes)


def stages_ahead(plan: JobPlan, settings: JobSettings) -> frozenset[int]:
    """The stages that may run an epoch while others still run the one before: those with sources, and others behind them.

    None where what sources read then depends on what that epoch makes durable (messages are acknowledged, a script waits for
    a checkpoint, a sink in their stage commits), or on a decision of the driver after it (the next part of a source). In
    BATCH mode there is nothing to win. A stage behind them waits where a sink in it commits, as do the stages behind it. All
    of them wait where they can't tell the number of the next checkpoint: a failed one is tolerated.
    """
    sources = [stage for stage in plan.stages if not stage.inputs]
    if not settings.read_ahead or settings.batch:
        return frozenset()
    if not all(stage.outputs and _may_run_ahead(plan, stage) for stage in sources):
        return frozenset()
    ahead = {stage.id for stage in sources}
    if settings.tolerable_failures:
        return frozenset(ahead)
    for stage in plan.stages:
        fed = all(edge.from_stage in ahead for edge in stage.inputs)
        if fed and stage.outputs and _may_run_ahead(plan, stage):
            ahead.add(stage.id)
    return frozenset(ahead)


def _may_run_ahead(plan: JobPlan, stage: Stage) -> bool:
    """Whether what a stage does in an epoch depends on nothing that is decided after the epoch before."""
    return all(_needs_no_end(node) for node in plan.nodes_of(stage))


def _needs_no_end(node: Node) -> bool:
    if node.kind is NodeKind.SOURCE:
        source = node.function
        waits = source.acknowledges or isinstance(source, (SourceOfParts, ScriptedSource))
        return source.replayable and not waits
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
