"""How far each source has been read, split by split.

Invariant: a position moves only when the epoch that read up to it has succeeded.
"""

from __future__ import annotations

from typing import Any

from changelog_engine.clock import MonotonicMs
from changelog_engine.errors import EpochFailedError
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
        self._names: dict[str, str] = {}
        self._endless = False  # whether new splits may come for ever
        self._discovering: dict[str, Any] = {}  # uid -> source
        self._discovered_ms: dict[str, MonotonicMs] = {}  # uid -> when somebody looked last
        for stage in plan.stages:
            for node_id in stage.nodes:
                node = nodes[node_id]
                if node.kind is NodeKind.SOURCE:
                    uid = plan.uids[node_id]
                    self._names[uid] = node.name
                    self._stage_sources.setdefault(stage.id, []).append(uid)
                    if hasattr(node.function, "discover"):
                        self._endless = self._endless or not node.function.bounded
                        self._discovering[uid] = node.function
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

    def discover(self, now_ms: MonotonicMs) -> bool:
        """Ask the sources whose interval is over for new splits; the first time at once after a restore.

        Args:
            now_ms: on the monotonic clock.

        Returns:
            Whether there are any.

        Raises:
            EpochFailedError: a source couldn't tell.
        """
        found = False
        for uid, source in self._discovering.items():
            interval_ms = source.discovery_interval_ms
            looked_ms = self._discovered_ms.get(uid)
            if interval_ms is None or (looked_ms is not None and now_ms - looked_ms < interval_ms):
                continue
            self._discovered_ms[uid] = now_ms
            known = self.positions[uid]
            try:
                splits = source.discover(dict(known))
            except Exception as error:
                raise EpochFailedError(
                    f"source {self._names[uid]!r} can't look for new splits: {error}"
                ) from error
            for split in splits:
                found = found or split.id not in known
                known.setdefault(split.id, (split.start, False))
        return found

    def advance(self, reached: Positions) -> None:
        """Take over the positions of a successful epoch."""
        for uid, splits in reached.items():
            self.positions[uid].update(splits)

    @property
    def finished(self) -> bool:
        """Whether no source will have more."""
        return not self._endless and all(
            finished for splits in self.positions.values() for _, finished in splits.values()
        )

    def to_json(self) -> dict[str, dict[str, Any]]:
        """For Checkpoint.sources."""
        return {
            uid: {split: list(state) for split, state in splits.items()}
            for uid, splits in self.positions.items()
        }
