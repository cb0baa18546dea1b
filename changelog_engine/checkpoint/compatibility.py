"""What a checkpoint keeps of the job's operators, and whether a job may go on from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import RestoreError
from changelog_engine.graph.plan import JobPlan


def fitted(plan: JobPlan, checkpoint: Checkpoint) -> JobPlan:
    """The plan with the checkpoint's max parallelism, in stages for which the program sets none.

    The default follows the parallelism, and key groups cannot be moved: a job that only changes its parallelism keeps the
    number of key groups it was started with.
    """
    kept = {op["uid"]: op["max_parallelism"] for op in checkpoint.operators if "states" in op}
    nodes = {node.id: node for node in plan.graph.nodes}
    stages = []
    for stage in plan.stages:
        known = [kept[plan.uids[node]] for node in stage.nodes if plan.uids[node] in kept]
        explicit = plan.graph.max_parallelism or any(nodes[node].max_parallelism for node in stage.nodes)
        if known and not explicit and known[0] >= stage.parallelism:
            stage = replace(stage, max_parallelism=known[0])
        stages.append(stage)
    return replace(plan, stages=tuple(stages))


def describe_operators(plan: JobPlan, states: dict[str, dict[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The job's operators as a checkpoint row keeps them."""
    nodes = {node.id: node for node in plan.graph.nodes}
    described = []
    for stage in plan.stages:
        for node in stage.nodes:
            uid = plan.uids[node]
            entry: dict[str, Any] = {
                "uid": uid,
                "name": nodes[node].name,
                "kind": nodes[node].kind.value,
                "parallelism": stage.parallelism,
                "max_parallelism": stage.max_parallelism,
            }
            if uid in states:
                entry["key_type"] = None if stage.key_type is None else stage.key_type.spec()
                entry["states"] = list(states[uid].values())
            described.append(entry)
    return described


def check_restorable(plan: JobPlan, checkpoint: Checkpoint) -> None:
    """Refuse to restore into a job that doesn't fit, before anything is changed.

    Raises:
        RestoreError: an operator with state is gone, or its max parallelism changed.
    """
    stages = {plan.uids[node]: stage for stage in plan.stages for node in stage.nodes}
    remedy = (
        "Give operators a uid() to keep their identity, start empty with changelog.restore=none, or leave that state behind "
        "by starting from a savepoint with execution.state-recovery.ignore-unclaimed-state=true"
    )
    for operator in checkpoint.operators:
        if "states" not in operator:
            continue
        uid = operator["uid"]
        stage = stages.get(uid)
        if stage is None:
            raise RestoreError(
                f"checkpoint {checkpoint.id} holds state of operator {operator['name']!r} (uid {uid!r}), "
                f"which this job doesn't have. {remedy}"
            )
        if stage.max_parallelism != operator["max_parallelism"]:
            raise RestoreError(
                f"operator {operator['name']!r} (uid {uid!r}) has max parallelism {stage.max_parallelism}, but checkpoint "
                f"{checkpoint.id} was made with {operator['max_parallelism']}; key groups can't be moved between them. "
                f"Call set_max_parallelism({operator['max_parallelism']}), or start empty with changelog.restore=none"
            )
    missing = set(checkpoint.sources) - set(plan.uids.values())
    if missing:
        raise RestoreError(
            f"checkpoint {checkpoint.id} holds positions of sources {sorted(missing)}, which this job doesn't have. {remedy}"
        )
