"""A plan with another parallelism: the same stages and edges, so that state and positions find their operators.

Invariants:
    * Operators, stages, edges and max parallelism stay as they are: only numbers of subtasks change.
    * What cannot have the parallelism is refused by name, before anything is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from changelog_engine.errors import ConfigurationError, InvalidJobError
from changelog_engine.graph.nodes import Node, NodeKind, Partitioner
from changelog_engine.graph.plan import Edge, JobPlan, Stage, plan_job, unasked_partitioner

Parallelism = int | Mapping[str, int]
"""The job's, as ``set_parallelism`` of the environment would set it; or that of some operators, by uid."""


class ParallelismChange(NamedTuple):
    """One stage that gets another parallelism."""

    operator: str  # uid of its first operator
    name: str
    before: int
    after: int


def rescaled(plan: JobPlan, wanted: Parallelism) -> JobPlan:
    """The plan with another parallelism.

    Args:
        wanted: a number for all operators for which the program sets no parallelism of their own; or uid -> number, for
            the operators named and those chained to them.

    Raises:
        ConfigurationError: a number below 1 or above a max parallelism, an unknown uid, two numbers for one chain, a source
            that reads with one subtask only, or no operator that could change.
        InvalidJobError: ``forward()`` would connect operators of different parallelism.
    """
    parallelism = _by_uid(plan, wanted) if isinstance(wanted, Mapping) else _of_all(plan, wanted)
    for stage in plan.stages:
        _check_limit(plan, stage, parallelism[stage.id])
    edges = {edge.id: _moved(plan, edge, parallelism) for stage in plan.stages for edge in stage.outputs}
    stages = tuple(
        replace(
            stage,
            parallelism=parallelism[stage.id],
            inputs=tuple(edges[edge.id] for edge in stage.inputs),
            outputs=tuple(edges[edge.id] for edge in stage.outputs),
        )
        for stage in plan.stages
    )
    return replace(plan, stages=stages)


def following(plan: JobPlan) -> frozenset[str]:
    """The uids of the stages that have the job's parallelism: the program sets none of their own.

    Raises:
        ConfigurationError: the program sets the parallelism of every stage.
    """
    one, two = _of_all(plan, 1), _of_all(plan, 2)
    return frozenset(stage.uid for stage in plan.stages if (one[stage.id], two[stage.id]) == (1, 2))


def changes(before: JobPlan, after: JobPlan) -> tuple[ParallelismChange, ...]:
    """The stages whose parallelism differs, in the order of the flow of data."""
    return tuple(
        ParallelismChange(old.uid, before.nodes_of(old)[0].label, old.parallelism, new.parallelism)
        for old, new in zip(before.stages, after.stages, strict=True)
        if old.parallelism != new.parallelism
    )


def in_words(made: tuple[ParallelismChange, ...]) -> str:
    """Such as "2 -> 4" where all stages change alike, else "'count' 2 -> 4, 'sum' 1 -> 4"."""
    steps = {(change.before, change.after) for change in made}
    if len(steps) == 1:
        before, after = steps.pop()
        return f"{before} -> {after}"
    return ", ".join(f"{change.name!r} {change.before} -> {change.after}" for change in made)


def _of_all(plan: JobPlan, wanted: int) -> dict[int, int]:
    _check_number(wanted, "the job")
    # What set_parallelism would mean, by the planner's own rules; the stages stay those that hold the state.
    nodes = tuple(replace(node, max_parallelism=None) for node in plan.graph.nodes)
    planned = plan_job(replace(plan.graph, nodes=nodes, parallelism=wanted, max_parallelism=None))
    of_node = {node: stage.parallelism for stage in planned.stages for node in stage.nodes}
    found = {stage.id: of_node[stage.nodes[0]] for stage in plan.stages}
    if wanted not in found.values():
        raise ConfigurationError(
            f"no operator of job {plan.graph.name!r} can have parallelism {wanted}: the program sets one on each of them, "
            "or their source reads with one subtask only. Name the operators that are to change: {uid: parallelism}"
        )
    return found


def _by_uid(plan: JobPlan, wanted: Mapping[str, int]) -> dict[int, int]:
    stages_of: dict[str, list[Stage]] = {}  # a sink may be in several
    for stage in plan.stages:
        for each in stage.nodes:
            stages_of.setdefault(plan.uids[each], []).append(stage)
    if not wanted:
        raise ConfigurationError("no operator is named: give {uid: parallelism}, or one number for the job")
    found = {stage.id: stage.parallelism for stage in plan.stages}
    asked: dict[int, str] = {}
    for uid, number in wanted.items():
        if uid not in stages_of:
            there = ", ".join([repr(known) for known in stages_of])
            raise ConfigurationError(
                f"job {plan.graph.name!r} has no operator with uid {uid!r}; it has {there}"
            )
        _check_number(number, f"operator {uid!r}")
        for stage in stages_of[uid]:
            other = asked.setdefault(stage.id, uid)
            if wanted[other] != number:
                raise ConfigurationError(
                    f"operators {other!r} and {uid!r} are chained, so they have one parallelism: give both the same"
                )
            for node in plan.nodes_of(stage):
                if node.kind is NodeKind.SOURCE and not node.function.parallel and number != 1:
                    raise ConfigurationError(
                        f"operator {uid!r} runs in the subtask of source {node.label!r}, which reads with one subtask only. "
                        "Call rebalance() behind the source, so that what follows can have another parallelism"
                    )
            found[stage.id] = number
    return found


def _check_number(wanted: object, of: str) -> None:
    if type(wanted) is not int or wanted < 1:
        raise ConfigurationError(
            f"the parallelism of {of} must be a whole number, at least 1; got {wanted!r}"
        )


def _check_limit(plan: JobPlan, stage: Stage, wanted: int) -> None:
    nodes = plan.nodes_of(stage)
    own = [node for node in nodes if node.max_parallelism is not None]
    least: Node | None = min(own, key=lambda node: node.max_parallelism or 0, default=None)
    limit, name = stage.max_parallelism, nodes[0].name
    if least is not None and least.max_parallelism is not None and least.max_parallelism < limit:
        limit, name = least.max_parallelism, least.name
    if wanted > limit:
        raise ConfigurationError(
            f"operator {name!r} has max parallelism {limit}, so it cannot have parallelism {wanted}: its key groups cannot "
            "be split further. Ask for less. Another set_max_parallelism() counts only for a job that "
            "starts with empty state"
        )


def _moved(plan: JobPlan, edge: Edge, parallelism: dict[int, int]) -> Edge:
    before, after = parallelism[edge.from_stage], parallelism[edge.to_stage]
    if edge.route is None:
        return replace(edge, partitioner=unasked_partitioner(before, after))
    if edge.partitioner is Partitioner.FORWARD and before != after:
        nodes = plan.graph.by_id()
        raise InvalidJobError(
            f"forward() connects {nodes[edge.from_node].label!r} (parallelism {before}) with "
            f"{nodes[edge.to_nodes[0]].label!r} (parallelism {after}): both must have the same parallelism; name both"
        )
    return edge
