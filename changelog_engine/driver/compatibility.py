"""Whether a job may go on from a checkpoint, and what of the checkpoint it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.small_state import KeptBroadcast, StageState
from changelog_engine.connectors.protocols import SourceOfParts
from changelog_engine.driver.sinks import with_sinks
from changelog_engine.errors import RestoreError
from changelog_engine.graph.descriptions import DescribedOperator, keyed_operators, states_of
from changelog_engine.graph.nodes import Node, NodeKind, StateKind, StateSpec
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.state_types import restored_versions, same_type, type_name
from changelog_engine.types import Types
from changelog_engine.windowing.namespaces import window_codec
from changelog_engine.windowing.reserved import REDUCED, RESERVED


def fitted(plan: JobPlan, checkpoint: Checkpoint) -> JobPlan:
    """The plan with the checkpoint's max parallelism, in stages for which the program sets none.

    The default follows the parallelism, and key groups cannot be moved: a job that only changes its parallelism keeps the
    number of key groups it was started with.
    """
    kept = {op.uid: op.max_parallelism for op in keyed_operators(checkpoint.operators)}
    stages = []
    for stage in plan.stages:
        known = [kept[plan.uids[node]] for node in stage.nodes if plan.uids[node] in kept]
        explicit = plan.graph.max_parallelism or any(node.max_parallelism for node in plan.nodes_of(stage))
        if known and not explicit and known[0] >= stage.parallelism:
            stage = replace(stage, max_parallelism=known[0])
        stages.append(stage)
    return replace(plan, stages=tuple(stages))


def placed(plan: JobPlan, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint, with broadcast state at the stages that its operators are in now.

    A stage is known by its first operator, and that may be another one in a changed program.
    """
    stage_of = {plan.uids[node]: stage.uid for stage in plan.stages for node in stage.nodes}
    found = {uid: replace(stage, shared={}) for uid, stage in checkpoint.operator_state.items()}
    for stage_uid, stage in checkpoint.operator_state.items():
        for uid, kept in stage.shared.items():
            at = stage_of.get(uid, stage_uid)
            there = found.get(at, StageState())
            found[at] = replace(there, shared={**there.shared, uid: kept})
    return replace(checkpoint, operator_state={uid: stage for uid, stage in found.items() if stage})


def check_restorable(plan: JobPlan, checkpoint: Checkpoint) -> None:
    """Refuse to restore into a job that doesn't fit, before anything is changed.

    Raises:
        RestoreError: an operator with state is gone, its max parallelism or the type of its keys changed, or the type of a
            state that the graph tells; or positions are not of the source that has their uid now. What functions declare
            when they are opened, only subtasks can check.
    """
    stages = {plan.uids[node]: stage for stage in plan.stages for node in stage.nodes}
    remedy = (
        "start empty with changelog.restore=none, or leave that state behind by starting from a savepoint with "
        "execution.state-recovery.ignore-unclaimed-state=true"
    )
    broadcast = {uid for stage in checkpoint.operator_state for uid in checkpoint.shared_state(stage)}
    for operator in checkpoint.operators:
        if operator.keyed or operator.uid in broadcast:
            stage = stages.get(operator.uid)
            if stage is None:
                raise RestoreError(
                    f"checkpoint {checkpoint.id} holds state of operator {operator.name!r} (uid {operator.uid!r}), "
                    f"which this job doesn't have. {_renamed(plan, checkpoint, operator)}{remedy}"
                )
            if operator.keyed:
                _check_keys(operator, stage, checkpoint)
    _check_states(plan, checkpoint)
    missing = set(checkpoint.sources) - set(plan.uids.values())
    if missing:
        raise RestoreError(
            f"checkpoint {checkpoint.id} holds positions of sources {sorted(missing)}, which this job doesn't have. Give "
            f"these sources the uid() that they had, {remedy}"
        )
    for node in plan.graph.nodes:
        if node.kind is NodeKind.SOURCE and isinstance(node.function, SourceOfParts):
            for split in checkpoint.sources.get(plan.uids[node.id], ()):
                node.function.part_of(split)


def _check_keys(operator: DescribedOperator, stage: Stage, checkpoint: Checkpoint) -> None:
    """Refuse another max parallelism, and other keys."""
    if stage.max_parallelism != operator.max_parallelism:
        raise RestoreError(
            f"operator {operator.name!r} (uid {operator.uid!r}) has max parallelism {stage.max_parallelism}, but checkpoint "
            f"{checkpoint.id} was made with {operator.max_parallelism}; key groups can't be moved between them. "
            f"Call set_max_parallelism({operator.max_parallelism}), or start empty with changelog.restore=none"
        )
    key_type = None if stage.key_type is None else stage.key_type.spec()
    if not same_type(operator.key_type, key_type):
        raise RestoreError(
            f"operator {operator.name!r} (uid {operator.uid!r}) has keys of type {type_name(key_type)}, but in "
            f"checkpoint {checkpoint.id} they are {type_name(operator.key_type)}; keys can't be converted. "
            "Give key_by() the type that it had, or start empty with changelog.restore=none. From a savepoint, another "
            "uid() and execution.state-recovery.ignore-unclaimed-state=true leave this operator's state behind"
        )


def _renamed(plan: JobPlan, checkpoint: Checkpoint, operator: DescribedOperator) -> str:
    """The beginning of the remedy for an operator that is gone: which operators of its kind may be it."""
    known = {each.uid for each in checkpoint.operators}
    new = [
        f"{node.label!r}" + ("" if node.uid else " (without a uid)")
        for node in plan.graph.nodes
        if node.kind.value == operator.kind and plan.uids[node.id] not in known
    ]
    if not new:
        return "Put the operator back, "
    which = ", ".join(new)
    return f"Is it one of those that the checkpoint doesn't know ({which})? Then give it uid({operator.uid!r}); else "


def _check_states(plan: JobPlan, checkpoint: Checkpoint) -> None:
    described = states_of(checkpoint.operators)
    for stage, uid, spec in _known_states(plan):
        if (uid, spec.name) in described:
            operator, state = described[uid, spec.name]
            restored_versions(uid, state, operator.key_type, spec, stage.key_type)
    for stage, node, spec in _broadcast_states(plan):
        kept = checkpoint.shared_state(stage.uid).get(plan.uids[node.id], KeptBroadcast())
        if spec.name in kept.types:
            restored_versions(node.label, kept.types[spec.name], None, replace(spec, ttl=None), None)


def _broadcast_states(plan: JobPlan) -> Iterator[tuple[Stage, Node, StateSpec]]:
    for stage in plan.stages:
        for node in plan.nodes_of(stage):
            if node.kind is NodeKind.BROADCAST_PROCESS:
                for spec in node.function.states:
                    yield stage, node, spec


def _known_states(plan: JobPlan) -> Iterator[tuple[Stage, str, StateSpec]]:
    """The states that the engine's own operators have; what functions declare is not known here."""
    nodes = plan.graph.by_id()
    for stage in plan.stages:
        heads = {node for edge in stage.inputs for node in edge.to_nodes} if stage.keyed else set()
        for node in (nodes[head] for head in sorted(heads)):
            if node.kind is NodeKind.REDUCE:
                result = node.output_type or Types.PICKLED_BYTE_ARRAY()
                yield stage, plan.uids[node.id], StateSpec(REDUCED, StateKind.VALUE, result)
            elif node.kind is NodeKind.WINDOW:
                codec = window_codec(node.function.assigner.get_window_serializer())
                yield stage, plan.uids[node.id], replace(node.function.contents, namespace=codec.name)


def without_removed(plan: JobPlan, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint, with its states marked to go unless they are declared when the functions are opened.

    Windows declare theirs as elements come: those stay. Broadcast states are known here, and go at once.
    """
    operators = [
        operator
        if operator.kind == NodeKind.WINDOW.value
        else operator._replace(states=tuple([state._replace(removed=True) for state in operator.states]))
        for operator in checkpoint.operators
    ]
    known: dict[tuple[str, str], set[str]] = {}
    for stage, node, spec in _broadcast_states(plan):
        known.setdefault((stage.uid, plan.uids[node.id]), set()).add(spec.name)
    small = dict(checkpoint.operator_state)
    for (stage_uid, uid), names in known.items():
        shared = checkpoint.shared_state(stage_uid)
        if uid in shared:
            small[stage_uid] = replace(
                small[stage_uid], shared={**small[stage_uid].shared, uid: shared[uid].only(names)}
            )
    return replace(checkpoint, operators=operators, operator_state=small)


def claimed_state(plan: JobPlan, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint without what belongs to operators that the job no longer has.

    Args:
        checkpoint: of a savepoint, its state at the job's stages.
    """
    uids = set(plan.uids.values())
    stages = {stage.uid for stage in plan.stages}
    small = {
        stage_uid: replace(stage, shared={uid: kept for uid, kept in stage.shared.items() if uid in uids})
        for stage_uid, stage in with_sinks(checkpoint.operator_state, uids, stages).items()
    }
    return replace(
        checkpoint,
        operators=[operator for operator in checkpoint.operators if operator.uid in uids],
        operator_state=small,
        sources={uid: splits for uid, splits in checkpoint.sources.items() if uid in uids},
    )


def perhaps_renamed(checkpoint: Checkpoint, declared: Mapping[str, Collection[str]]) -> Iterator[str]:
    """What to tell of operators that declare states the checkpoint does not have, and not all that it has.

    Nothing is lost by that, but a state that was renamed begins empty.

    Args:
        declared: uid to the names of states that any of its subtasks has declared since.
    """
    for operator in keyed_operators(checkpoint.operators):
        kept = _of_the_user([state.name for state in operator.states if not state.removed])
        names = _of_the_user(declared.get(operator.uid, ()))
        new, left = sorted(names - kept), sorted(kept - names)
        if new and left:
            yield (
                f"operator {operator.name!r} (uid {operator.uid!r}) has states that checkpoint {checkpoint.id} does "
                f"not have, so they begin empty: {', '.join(new)}. It no longer declares others that are there: "
                f"{', '.join(left)}. If one was renamed, stop the job, give it its earlier name and begin at that "
                f"checkpoint, with changelog.restore={checkpoint.id}. Else all is well: what nobody declares is kept"
            )


def _of_the_user(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith(RESERVED)}
