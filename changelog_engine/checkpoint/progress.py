"""How far each source has been read, split by split.

Invariant: a position moves only when the epoch that read up to it has succeeded.
"""

from __future__ import annotations

from typing import Any

from changelog_engine.graph.nodes import NodeKind
from changelog_engine.graph.plan import JobPlan, Stage

Positions = dict[str, dict[str, tuple[Any, bool]]]


class SourceProgress:
    """Positions of the job's sources.

    Args:
        plan: the job, with its source functions.
        restored: Checkpoint.sources to go on from; sources it doesn't name are planned anew.
    """

    def __init__(self, plan: JobPlan, restored: dict[str, dict[str, Any]]) -> None:
        self.positions: Positions = {}
        self._stage_sources: dict[int, list[str]] = {}
        nodes = {node.id: node for node in plan.graph.nodes}
        for stage in plan.stages:
            for node_id in stage.nodes:
                node = nodes[node_id]
                if node.kind is NodeKind.SOURCE:
                    uid = plan.uids[node_id]
                    self._stage_sources.setdefault(stage.id, []).append(uid)
                    known = restored.get(uid)
                    if known is None:
                        splits = node.function.splits(stage.parallelism)
                        self.positions[uid] = {split.id: (split.start, False) for split in splits}
                    else:
                        self.positions[uid] = {
                            split: (position, finished) for split, (position, finished) in known.items()
                        }

    def for_subtask(self, stage: Stage, subtask: int) -> dict[str, dict[str, Any]]:
        """Positions of the unfinished splits that a subtask reads: every n-th of each source."""
        mine: dict[str, dict[str, Any]] = {}
        for uid in self._stage_sources.get(stage.id, ()):
            splits = list(self.positions[uid].items())
            mine[uid] = {
                split: position
                for split, (position, finished) in splits[subtask :: stage.parallelism]
                if not finished
            }
        return mine

    def advance(self, reached: Positions) -> None:
        """Take over the positions of a successful epoch."""
        for uid, splits in reached.items():
            self.positions[uid].update(splits)

    @property
    def finished(self) -> bool:
        """Whether no source will have more."""
        return all(finished for splits in self.positions.values() for _, finished in splits.values())

    def to_json(self) -> dict[str, dict[str, Any]]:
        """For Checkpoint.sources."""
        return {
            uid: {split: list(state) for split, state in splits.items()}
            for uid, splits in self.positions.items()
        }
