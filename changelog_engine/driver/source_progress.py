"""How far each source has been read.

Invariants:
    * A position moves only when the epoch that read up to it has succeeded.
    * A part of a source of parts is read when a checkpoint has its first splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from changelog_engine.changelog.split_ends import SplitEnds
from changelog_engine.clock import MonotonicMs
from changelog_engine.connectors.protocols import is_endless
from changelog_engine.driver.source_splits import SourceSplits
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.failures import OperatorName
from changelog_engine.operators.messages import Positions


class SourceProgress:
    """Positions of the job's sources.

    Args:
        restored: Checkpoint.sources to go on from; sources it doesn't name are planned anew.
    """

    def __init__(self, plan: JobPlan, restored: Mapping[str, SplitEnds]) -> None:
        self._sources: dict[str, SourceSplits] = {}  # by uid
        self._of_stage: dict[int, list[str]] = {}
        self._endless = False  # whether new splits may come for ever
        for stage in plan.stages:
            for node in plan.nodes_of(stage):
                if node.kind is NodeKind.SOURCE:
                    uid = plan.uids[node.id]
                    self._of_stage.setdefault(stage.id, []).append(uid)
                    self._endless = self._endless or is_endless(node.function)
                    self._sources[uid] = SourceSplits(
                        OperatorName(node.label, node.made_at),
                        node.function,
                        stage.parallelism,
                        restored.get(uid),
                    )
        self.positions: dict[str, SplitEnds] = {uid: each.all for uid, each in self._sources.items()}

    @property
    def unsettled(self) -> bool:
        """Whether a part of a source has begun whose first splits no checkpoint has yet."""
        return any(each.unsettled for each in self._sources.values())

    def for_subtask(self, stage: Stage, subtask: int, reads: bool = False) -> dict[str, Positions]:
        """Positions of the unfinished splits that a subtask reads: every n-th of each source.

        A source of parts without any is named when a later part may bring some.

        Args:
            reads: in an epoch that reads; splits that no checkpoint has yet are left out.
        """
        mine: dict[str, Positions] = {}
        for uid in self._of_stage.get(stage.id, ()):
            source = self._sources[uid]
            positions = {} if reads and source.unsettled else source.of_subtask(subtask)
            if positions is not None:
                mine[uid] = positions
        return mine

    def discover(self, now_ms: MonotonicMs) -> bool:
        """Ask the sources whose interval is over for new splits; the first time at once after a restore.

        The next part of a source begins where the part before has ended.

        Returns:
            Whether there are any.

        Raises:
            EpochFailedError: a source couldn't tell.
        """
        found = [each.discover(now_ms) for each in self._sources.values()]
        return any(found)

    def discovery_due(self, now_ms: MonotonicMs) -> bool:
        """Whether ``discover`` would ask a source."""
        return any(each.discovery_due(now_ms) for each in self._sources.values())

    def begins_part(self, uid: str, splits: Iterable[str]) -> bool:
        """Whether these are the splits with which the next part of a source begins."""
        return uid in self._sources and self._sources[uid].begins_part(splits)

    def settled(self) -> None:
        """A checkpoint has the first splits of the part that has begun, or the job takes none."""
        for each in self._sources.values():
            each.unsettled = False

    def advance(self, reached: dict[str, SplitEnds]) -> None:
        """Take over the positions of a successful epoch."""
        for uid, splits in reached.items():
            self._sources[uid].take(splits)

    @property
    def finished(self) -> bool:
        """Whether no source will have more."""
        return not self._endless and all(each.finished for each in self._sources.values())

    def reached(self) -> dict[str, SplitEnds]:
        """For Checkpoint.sources: what does not change any more."""
        return {uid: dict(splits) for uid, splits in self.positions.items()}
