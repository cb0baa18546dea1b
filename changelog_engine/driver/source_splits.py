"""The splits of one source and how far each has been read.

Invariants:
    * Of a source of parts, the next part begins when all splits of the one before have ended.
    * A split keeps its number, by which it is dealt to a subtask; what an epoch costs here goes by the splits that are not
      finished, not by all that there ever were.
"""

from __future__ import annotations

from collections.abc import Iterable

from changelog_engine.changelog.split_ends import SplitEnd, SplitEnds
from changelog_engine.clock import MonotonicMs
from changelog_engine.connectors.kept_values import kept_copy
from changelog_engine.connectors.protocols import DiscoveringSource, Source, SourceOfParts, Split
from changelog_engine.errors import ConfigurationError
from changelog_engine.operators.failures import OperatorName, UsersCode
from changelog_engine.operators.messages import Positions
from changelog_engine.types.typeinfo import shown


class SourceSplits:
    """The splits of one source.

    Args:
        restored: its splits in the checkpoint to go on from; None: they are planned anew.

    Attributes:
        unsettled: a part began whose first splits no checkpoint has yet.
    """

    def __init__(
        self, name: OperatorName, source: Source, parallelism: int, restored: SplitEnds | None
    ) -> None:
        self.all: SplitEnds = {}
        self.unsettled = False
        self._name = name
        self._source = source
        self._parts = source if isinstance(source, SourceOfParts) else None
        self._parallelism = parallelism
        self._unfinished: dict[str, int] = {}  # split -> its number
        self._dealt: list[Positions] | None = None  # by subtask
        self._discovered_ms: dict[int, MonotonicMs] = {}  # part -> when somebody looked last
        if restored is None or (not restored and self._parts is not None):
            with UsersCode(name, "looking for the splits"):
                begun = self._begun(source.splits(parallelism))
            self.take(begun)
        else:
            self.take(restored)

    def _begun(self, splits: Iterable[Split], repeated: bool = False) -> SplitEnds:
        """Where new splits begin.

        Args:
            repeated: one may come twice, as that of a file which two looks find.

        Raises:
            ConfigurationError: an id is not a str, or two splits have it: one of them would not be read.
            NotSerializableError: a checkpoint cannot keep where one begins.
        """
        found: SplitEnds = {}
        for split in splits:
            if not isinstance(split.id, str):
                raise ConfigurationError(
                    f"source {self._name!r}: the id of a split must be a str, got {shown(split.id)}"
                )
            if split.id in found and not (repeated and found[split.id].position == split.start):
                raise ConfigurationError(
                    f"source {self._name!r} has two splits with the id {shown(split.id)}: each needs one of its own"
                )
            kept_copy(split.start, f"the start of split {split.id!r} of source {self._name!r}")
            found[split.id] = SplitEnd(split.start)
        return found

    def take(self, splits: SplitEnds) -> None:
        """Where splits are now, new ones among them."""
        for split, end in splits.items():
            if split not in self.all:
                self._unfinished[split] = len(self.all)
            self.all[split] = end
            if end.finished:
                self._unfinished.pop(split, None)
        self._dealt = None

    def of_subtask(self, subtask: int) -> Positions | None:
        """The positions of the unfinished splits that a subtask reads; None when a source of parts will have no more."""
        if self._dealt is None:
            self._dealt = [{} for _ in range(self._parallelism)]
            for split, number in self._unfinished.items():
                self._dealt[number % self._parallelism][split] = self.all[split].position
        dealt = self._dealt[subtask]
        return None if not dealt and self._parts is not None and self._in_last_part else dict(dealt)

    @property
    def finished(self) -> bool:
        """Whether all splits that are known were read to their ends, of the last part where there are several."""
        return not self._unfinished and self._in_last_part

    @property
    def _part(self) -> int:
        """Which part is being read; 0 of a source without parts."""
        return 0 if self._parts is None else self._parts.part_of(next(reversed(self.all)))

    @property
    def _in_last_part(self) -> bool:
        return self._parts is None or self._part == len(self._parts.parts) - 1

    def begins_part(self, splits: Iterable[str]) -> bool:
        """Whether these are the splits with which the next part begins."""
        if self._parts is None:
            return False
        following = self._part + 1
        return all(self._parts.part_of(split) == following for split in splits)

    def discover(self, now_ms: MonotonicMs) -> bool:
        """Begin the next part where one has ended, and ask for new splits when the interval for that is over.

        Returns:
            Whether there are new splits.

        Raises:
            ChangelogEngineError: the source couldn't tell.
        """
        begun = self._begin_next_part()
        part = self._part
        source = self._source if self._parts is None else self._parts.parts[part]
        if not isinstance(source, DiscoveringSource) or not self._is_due(part, source, now_ms):
            return begun
        self._discovered_ms[part] = now_ms
        known = dict(self.all)
        with UsersCode(self._name, "looking for new splits"):
            splits = source.discover(known) if self._parts is None else self._parts.discover_in(part, known)
            new = self._begun((split for split in splits if split.id not in known), repeated=True)
        self.take(new)
        return bool(new) or begun

    def discovery_due(self, now_ms: MonotonicMs) -> bool:
        """Whether ``discover`` would ask the source; it always may of one of parts."""
        source = self._source
        return self._parts is not None or (
            isinstance(source, DiscoveringSource) and self._is_due(0, source, now_ms)
        )

    def _is_due(self, part: int, source: DiscoveringSource, now_ms: MonotonicMs) -> bool:
        interval_ms, looked_ms = source.discovery_interval_ms, self._discovered_ms.get(part)
        return interval_ms is not None and (looked_ms is None or now_ms - looked_ms >= interval_ms)

    def _begin_next_part(self) -> bool:
        """Begin the next part if the part before was read to its end; returns whether it was."""
        if self._parts is None or self._in_last_part or self._unfinished:
            return False
        part = self._part + 1
        with UsersCode(self._name, f"beginning with source {part + 1} of {len(self._parts.parts)}"):
            begun = self._begun(self._parts.begin(part, self._parallelism))
        self.take(begun)
        self.unsettled = True
        return True
