"""What checkpoints keep of committing sinks, and the commits that the driver makes for them.

Invariant: what a sink prepared is found by the sink's uid, whatever stage and subtask its writer ran in.
"""

from __future__ import annotations

from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.connectors.protocols import CommittingSink, Prepared, RestoredSink, SinkContext
from changelog_engine.graph.nodes import Node, NodeKind
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.failures import user_failure

_KEPT = "sinks"  # in a subtask's operator state


class CommittingSinks:
    """The committing sinks of a job.

    Args:
        plan: the job.
    """

    def __init__(self, plan: JobPlan) -> None:
        self._job = plan.graph.name
        self._nodes: dict[str, Node] = {}
        self._parallelism: dict[str, int] = {}
        self._of_stage: dict[int, list[str]] = {}
        nodes = {node.id: node for node in plan.graph.nodes}
        for stage in plan.stages:
            for node in stage.nodes:
                if nodes[node].kind is NodeKind.SINK and isinstance(nodes[node].function, CommittingSink):
                    uid = plan.uids[node]
                    self._nodes[uid] = nodes[node]
                    self._parallelism[uid] = stage.parallelism
                    self._of_stage.setdefault(stage.id, []).append(uid)
        self.any = bool(self._nodes)

    def restored(self, checkpoint: Checkpoint, stage: Stage, subtask: int) -> dict[str, list[RestoredSink]]:
        """What a subtask's writers take over: everything is taken over by exactly one.

        Args:
            checkpoint: that the subtask restores, if it has to.
            stage: the stage.
            subtask: the subtask.
        """
        mine = {}
        for uid in self._of_stage.get(stage.id, ()):
            kept = kept_of(checkpoint, uid)
            mine[uid] = [sink for sink in kept if sink.subtask % stage.parallelism == subtask]
        return mine

    def has_committables(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint keeps anything that is to be committed."""
        return any(kept.prepared.committables for uid in self._nodes for kept in kept_of(checkpoint, uid))

    def commit_all(self, checkpoint: Checkpoint, run: str, attempt: int) -> None:
        """Make the commits that stand for all subtasks.

        Raises:
            UserFunctionError: one failed; a restore tries it again.
        """
        for uid, node in self._nodes.items():
            commit = getattr(node.function, "commit_all", None)
            if commit is None:
                continue
            committables = [c for kept in kept_of(checkpoint, uid) for c in kept.prepared.committables]
            if committables:
                context = SinkContext(self._job, uid, -1, self._parallelism[uid], run, attempt, True, ())
                try:
                    commit(context, committables)
                except Exception as error:
                    raise user_failure(error, node.name, "committing") from error


def kept_of(checkpoint: Checkpoint, uid: str) -> list[RestoredSink]:
    """What a checkpoint keeps of a sink, by subtask."""
    found = []
    for subtasks in checkpoint.operator_state.values():
        for subtask, state in subtasks.items():
            kept: dict[str, Any] | None = state.get(_KEPT, {}).get(uid) if subtask.isdigit() else None
            if kept is not None:
                found.append(RestoredSink(int(subtask), Prepared(kept["committables"], kept["state"])))
    return sorted(found, key=lambda sink: sink.subtask)
