"""How far each source has been read, split by split.

Invariants:
    * A position moves only when the epoch that read up to it has succeeded.
    * Of a source of parts, the next part begins when all splits of the one before have ended, and is read when a checkpoint
      has its first splits.
    * A split keeps its number, by which it is dealt to a subtask; what an epoch costs here goes by the splits that are not
      finished, not by all that there ever were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from changelog_engine.clock import MonotonicMs
from changelog_engine.connectors.protocols import DiscoveringSource, SourceOfParts, Split, is_endless
from changelog_engine.errors import EpochFailedError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.messages import Positions, SplitEnds


class SourceProgress:
    """Positions of the job's sources.

    Args:
        plan: the job, with its source functions.
        restored: Checkpoint.sources to go on from; sources it doesn't name are planned anew.
    """

    def __init__(self, plan: JobPlan, restored: dict[str, dict[str, list[Any]]]) -> None:
        self.positions: dict[str, SplitEnds] = {}
        self._unfinished: dict[str, dict[str, int]] = {}  # uid -> split -> its number
        # uid -> subtask -> its splits' positions; none: not dealt yet.
        self._dealt: dict[str, list[Positions]] = {}
        self._stage_sources: dict[int, list[str]] = {}
        self._names: dict[str, str] = {}
        self._endless = False  # whether new splits may come for ever
        self._discovering: dict[str, DiscoveringSource] = {}  # uid -> source
        self._of_parts: dict[str, tuple[SourceOfParts, int]] = {}  # uid -> source, parallelism
        self._discovered_ms: dict[tuple[str, int], MonotonicMs] = {}  # uid, part -> when somebody looked last
        # Uids of sources that began a part whose first splits no checkpoint has yet.
        self._unsettled: set[str] = set()
        for stage in plan.stages:
            for node in plan.nodes_of(stage):
                if node.kind is NodeKind.SOURCE:
                    uid = plan.uids[node.id]
                    self._names[uid] = node.label
                    self._stage_sources.setdefault(stage.id, []).append(uid)
                    self._endless = self._endless or is_endless(node.function)
                    if isinstance(node.function, SourceOfParts):
                        self._of_parts[uid] = (node.function, stage.parallelism)
                    elif isinstance(node.function, DiscoveringSource):
                        self._discovering[uid] = node.function
                    known = restored.get(uid)
                    if known is None or (not known and uid in self._of_parts):
                        splits = node.function.splits(stage.parallelism)
                        self._take(uid, {split.id: (split.start, False) for split in splits})
                    else:
                        self._take(uid, {split: (at, finished) for split, (at, finished) in known.items()})

    def _take(self, uid: str, splits: SplitEnds) -> None:
        """Where splits of a source are now, new ones among them."""
        known, unfinished = self.positions.setdefault(uid, {}), self._unfinished.setdefault(uid, {})
        for split, state in splits.items():
            if split not in known:
                unfinished[split] = len(known)
            known[split] = state
            if state[1]:
                unfinished.pop(split, None)
        self._dealt.pop(uid, None)

    def _deal(self, uid: str, parallelism: int) -> list[Positions]:
        """The positions of a source's unfinished splits, by subtask."""
        dealt = self._dealt.get(uid)
        if dealt is None:
            dealt = self._dealt[uid] = [{} for _ in range(parallelism)]
            known = self.positions[uid]
            for split, number in self._unfinished[uid].items():
                dealt[number % parallelism][split] = known[split][0]
        return dealt

    @property
    def unsettled(self) -> bool:
        """Whether a part of a source has begun whose first splits no checkpoint has yet."""
        return bool(self._unsettled)

    def for_subtask(self, stage: Stage, subtask: int, reads: bool = False) -> dict[str, Positions]:
        """Positions of the unfinished splits that a subtask reads: every n-th of each source.

        A source of parts without any is named when a later part may bring some.

        Args:
            reads: in an epoch that reads; splits that no checkpoint has yet are left out.
        """
        mine: dict[str, Positions] = {}
        for uid in self._stage_sources.get(stage.id, ()):
            if reads and uid in self._unsettled:
                mine[uid] = {}
                continue
            mine[uid] = dict(self._deal(uid, stage.parallelism)[subtask])
            if not mine[uid] and uid in self._of_parts and self._in_last_part(uid):
                del mine[uid]
        return mine

    def _part(self, uid: str) -> int:
        """Which part of a source of parts is being read."""
        return self._of_parts[uid][0].part_of(next(reversed(self.positions[uid])))

    def _in_last_part(self, uid: str) -> bool:
        return self._part(uid) == len(self._of_parts[uid][0].parts) - 1

    def discover(self, now_ms: MonotonicMs) -> bool:
        """Ask the sources whose interval is over for new splits; the first time at once after a restore.

        The next part of a source begins where the part before has ended.

        Args:
            now_ms: on the monotonic clock.

        Returns:
            Whether there are any.

        Raises:
            EpochFailedError: a source couldn't tell.
        """
        found = False
        for uid in self._of_parts:
            found = self._begin_next_part(uid) or found
            source, part = self._of_parts[uid][0], self._part(uid)
            each = source.parts[part]
            if isinstance(each, DiscoveringSource):
                found = self._discover(uid, part, each, partial(source.discover_in, part), now_ms) or found
        for uid, each in self._discovering.items():
            found = self._discover(uid, 0, each, each.discover, now_ms) or found
        return found

    def discovery_due(self, now_ms: MonotonicMs) -> bool:
        """Whether ``discover`` would ask a source.

        Args:
            now_ms: on the monotonic clock.
        """
        return bool(self._of_parts) or any(
            self._is_due((uid, 0), each, now_ms) for uid, each in self._discovering.items()
        )

    def _is_due(self, whose: tuple[str, int], source: DiscoveringSource, now_ms: MonotonicMs) -> bool:
        interval_ms, looked_ms = source.discovery_interval_ms, self._discovered_ms.get(whose)
        return interval_ms is not None and (looked_ms is None or now_ms - looked_ms >= interval_ms)

    def begins_part(self, uid: str, splits: Iterable[str]) -> bool:
        """Whether these are the splits with which the next part of a source begins."""
        if uid not in self._of_parts:
            return False
        part_of, following = self._of_parts[uid][0].part_of, self._part(uid) + 1
        return all(part_of(split) == following for split in splits)

    def _begin_next_part(self, uid: str) -> bool:
        """Begin the next part of a source if the part before was read to its end; returns whether it was."""
        source, parallelism = self._of_parts[uid]
        if self._in_last_part(uid) or self._unfinished[uid]:
            return False
        part = self._part(uid) + 1
        try:
            splits = source.begin(part, parallelism)
        except Exception as error:
            raise EpochFailedError(
                f"source {self._names[uid]!r} can't begin with source {part + 1} of its {len(source.parts)}: {error}"
            ) from error
        self._take(uid, {split.id: (split.start, False) for split in splits})
        self._unsettled.add(uid)
        return True

    def _discover(
        self,
        uid: str,
        part: int,
        source: DiscoveringSource,
        look: Callable[[SplitEnds], list[Split]],
        now_ms: MonotonicMs,
    ) -> bool:
        if not self._is_due((uid, part), source, now_ms):
            return False
        self._discovered_ms[uid, part] = now_ms
        known = self.positions[uid]
        try:
            splits = look(dict(known))
        except Exception as error:
            raise EpochFailedError(
                f"source {self._names[uid]!r} can't look for new splits: {error}"
            ) from error
        new: SplitEnds = {}
        for split in splits:
            if split.id not in known:
                new.setdefault(split.id, (split.start, False))
        self._take(uid, new)
        return bool(new)

    def settled(self) -> None:
        """A checkpoint has the first splits of the part that has begun, or the job takes none."""
        self._unsettled.clear()

    def advance(self, reached: dict[str, SplitEnds]) -> None:
        """Take over the positions of a successful epoch."""
        for uid, splits in reached.items():
            self._take(uid, splits)

    @property
    def finished(self) -> bool:
        """Whether no source will have more."""
        return (
            not self._endless
            and not any(self._unfinished.values())
            and all(self._in_last_part(each) for each in self._of_parts)
        )

    def to_json(self) -> dict[str, dict[str, list[Any]]]:
        """For Checkpoint.sources."""
        return {
            uid: {split: list(state) for split, state in splits.items()}
            for uid, splits in self.positions.items()
        }
