"""The subtasks' small state of a checkpoint, where there are more or fewer subtasks now.

Keyed state moves with its key groups and positions with their splits. What remains is time: the watermarks of a stage's
inputs, and how far watermark generators have come.

Invariant: event time begins nowhere ahead of where one of the subtasks had it. What holds it back is known by its channel or
split, so behind a key_by, where all subtasks have one time, what was late stays late.
"""

from __future__ import annotations

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.small_state import SmallState
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
        inputs = [state.inputs for state in subtasks if state.inputs is not None]
        times = {
            uid: merged_times([state.operators.get(uid) for state in subtasks])
            for uid in (plan.uids[n.id] for n in plan.nodes_of(stage) if n.kind is NodeKind.TIMESTAMPS)
        }
        found[stage.uid] = SmallState(
            inputs=merged_inputs(inputs) if inputs else None,
            operators={uid: merged for uid, merged in times.items() if merged is not None},
        )
    return found
