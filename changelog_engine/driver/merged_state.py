"""The subtasks' small state of a checkpoint, where there are more or fewer subtasks now.

Keyed state moves with its key groups and positions with their splits. What remains is time: the watermarks of a stage's
inputs, and how far watermark generators have come.

Invariant: event time begins nowhere ahead of where one of the subtasks had it. What holds it back is known by its channel or
split, so behind a key_by, where all subtasks have one time, what was late stays late.
"""

from __future__ import annotations

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.small_state import INPUTS, SmallState, small_name
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.graph.plan import JobPlan
from changelog_engine.ledger.described import parallelism_of
from changelog_engine.operators.inputs import merged_inputs
from changelog_engine.operators.stateless import merged_times


def merged_state(plan: JobPlan, checkpoint: Checkpoint) -> dict[str, SmallState]:
    """What every subtask of a stage takes over whose parallelism is not that of the checkpoint.

    Returns:
        Stage uid -> the state, of those stages only.
    """
    before = parallelism_of(checkpoint)
    found: dict[str, SmallState] = {}
    for stage in plan.stages:
        if before.get(stage.uid, stage.parallelism) == stage.parallelism:
            continue
        subtasks = [state for uid, _, state in checkpoint.small_states() if uid == stage.uid]
        merged = found[stage.uid] = {}
        inputs = [state[INPUTS] for state in subtasks if INPUTS in state]
        if inputs:
            merged[INPUTS] = merged_inputs(inputs)
        for node in [node for node in plan.nodes_of(stage) if node.kind is NodeKind.TIMESTAMPS]:
            name = small_name(plan.uids[node.id])
            times = merged_times([state.get(name) for state in subtasks])
            if times is not None:
                merged[name] = times
    return found
