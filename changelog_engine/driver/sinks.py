"""What checkpoints keep of committing sinks, and the commits that the driver makes for them.

Invariant: what a sink prepared is found by the sink's uid, whatever stage and subtask its writer ran in.
"""

from __future__ import annotations

from dataclasses import replace

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.small_state import SmallState, StageState
from changelog_engine.connectors.protocols import CommittingSink, Prepared, RestoredSink, SinkContext
from changelog_engine.errors import RestoreError
from changelog_engine.graph.nodes import Node, NodeKind
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.failures import UsersCode


class CommittingSinks:
    """The committing sinks of a job."""

    def __init__(self, plan: JobPlan) -> None:
        self._job = plan.graph.name
        self._nodes: dict[str, Node] = {}
        self._parallelism: dict[str, int] = {}
        self._of_stage: dict[int, list[str]] = {}
        for stage in plan.stages:
            for node in plan.nodes_of(stage):
                if node.kind is NodeKind.SINK and isinstance(node.function, CommittingSink):
                    uid = plan.uids[node.id]
                    self._nodes[uid] = node
                    self._parallelism[uid] = stage.parallelism
                    self._of_stage.setdefault(stage.id, []).append(uid)
        self.any = bool(self._nodes)
        self.stages = tuple(self._of_stage)

    def restored(
        self, checkpoint: Checkpoint, stage: Stage, subtask: int
    ) -> tuple[dict[str, list[RestoredSink]], dict[str, list[RestoredSink]]]:
        """What a subtask's writers take over, and what those beside it do: everything is taken over by exactly one.

        Args:
            checkpoint: that the subtask restores, if it has to.
        """
        mine: dict[str, list[RestoredSink]] = {}
        beside: dict[str, list[RestoredSink]] = {}
        for uid in self._of_stage.get(stage.id, ()):
            mine[uid], beside[uid] = [], []
            for sink in kept_of(checkpoint, uid):
                (mine if sink.subtask % stage.parallelism == subtask else beside)[uid].append(sink)
        return mine, beside

    def has_committables(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint keeps anything that is to be committed."""
        return any(kept.prepared.committables for uid in self._nodes for kept in kept_of(checkpoint, uid))

    def commit_all(self, checkpoint: Checkpoint, run: str, attempt: int, anew: bool = False) -> None:
        """Make the commits that stand for all subtasks.

        Args:
            anew: the attempt was restored from the checkpoint.

        Raises:
            UserFunctionError: one failed; a restore tries it again.
        """
        for uid, node in self._nodes.items():
            prepared = kept_of(checkpoint, uid)
            committables = [c for kept in prepared for c in kept.prepared.committables]
            if committables:
                restored = tuple(prepared) if anew else ()
                context = SinkContext(
                    self._job, uid, -1, self._parallelism[uid], run, attempt, True, restored
                )
                with UsersCode(node.label, "committing"):
                    node.function.commit_all(context, committables)


def check_sinks(plan: JobPlan, checkpoint: Checkpoint, committed: bool) -> None:
    """Refuse to go on without a sink that may have prepared output: nobody would commit it.

    Args:
        committed: its attempt has ended, and had its sinks commit; after that a sink may be taken away.

    Raises:
        RestoreError: names the sink.
    """
    if committed:
        return
    nodes = {plan.uids[node.id]: node for node in plan.graph.nodes}
    for uid in prepared_sinks(checkpoint):
        node = nodes.get(uid)
        if node is None or not isinstance(node.function, CommittingSink):
            name = next((op.name for op in checkpoint.operators if op.uid == uid), uid)
            raise RestoreError(
                f"checkpoint {checkpoint.id} holds output that sink {name!r} (uid {uid!r}) has prepared and perhaps not yet "
                "committed, and this job has no such sink. Stop the job with that sink (Ctrl-C, or with a savepoint) before "
                "you take it away; or start from a savepoint with execution.state-recovery.ignore-unclaimed-state=true: "
                "that output is not committed then"
            )


def prepared_sinks(checkpoint: Checkpoint) -> list[str]:
    """Uids of the sinks of which a checkpoint keeps something to commit."""
    found = {
        uid
        for _, _, state in checkpoint.small_states()
        for uid, kept in state.sinks.items()
        if kept["committables"]
    }
    return sorted(found)


def with_sinks(
    operator_state: dict[str, StageState], uids: set[str], stages: set[str]
) -> dict[str, StageState]:
    """The state of some stages, and of the other stages what some sinks have prepared; other sinks' is left out."""
    kept: dict[str, StageState] = {}
    for uid, stage in operator_state.items():
        subtasks = {}
        for subtask, state in stage.subtasks.items():
            sinks = {sink: prepared for sink, prepared in state.sinks.items() if sink in uids}
            subtasks[subtask] = replace(state if uid in stages else SmallState(), sinks=sinks)
        left = StageState(
            {subtask: state for subtask, state in subtasks.items() if state},
            stage.shared if uid in stages else {},
        )
        if left:
            kept[uid] = left
    return kept


def kept_of(checkpoint: Checkpoint, uid: str) -> list[RestoredSink]:
    """What a checkpoint keeps of a sink, by subtask."""
    found = []
    for _, subtask, state in checkpoint.small_states():
        kept = state.sinks.get(uid)
        if kept is not None:
            found.append(RestoredSink(subtask, Prepared(kept["committables"], kept["state"])))
    return sorted(found, key=lambda sink: sink.subtask)
