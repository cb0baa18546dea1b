"""Several sources, one after the other, such as files and then the topic that goes on from them.

Invariants:
    * A split's id begins with the number of its source, so positions say which source is being read.
    * A source begins when all splits of the one before have ended, in all subtasks.
    * Where it begins is decided then, once, and part of a checkpoint before anything of it is read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Self

from changelog_engine.connectors.inherits import check_inherits
from changelog_engine.connectors.protocols import (
    DiscoveringSource,
    Position,
    Range,
    Source,
    SourceOfParts,
    Split,
    SplitReader,
)
from changelog_engine.errors import ConfigurationError, RestoreError
from changelog_engine.types import TypeInformation

_NOTHING = ""  # id of the split that stands for a source without splits


class HybridSource(SourceOfParts):
    """Reads sources one after the other; see SourceOfParts. A hybrid source among them counts as its sources.

    Args:
        sources: at least one; all but the last are bounded.

    Raises:
        ConfigurationError: no source, one that is not a Source, one before the last that isn't bounded, or elements of
            different types.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.parts: tuple[Source, ...] = tuple(_flat(sources))
        if not self.parts:
            raise ConfigurationError("HybridSource needs at least one source")
        for number, part in enumerate(self.parts[:-1], 1):
            if not part.bounded:
                raise ConfigurationError(
                    f"HybridSource: source {number} of {len(self.parts)}, a {_name(part)}, is not bounded, so the one after "
                    "it would never begin. Give it an end (KafkaSource: set_bounded(); FileSource: without "
                    "monitor_continuously()), or put it last"
                )
        self.bounded = self.parts[-1].bounded
        self.parallel = all(part.parallel for part in self.parts)
        self.timed = any(part.timed for part in self.parts)
        self.replayable = all(part.replayable for part in self.parts)
        self.acknowledges = any(part.acknowledges for part in self.parts)
        self.output_type = _output_type(self.parts)
        self.bad_tag = _bad_tag(self.parts)

    def with_options(self, options: Mapping[str, str]) -> Self:
        return type(self)([part.with_options(options) for part in self.parts])

    def check_before_start(self) -> None:
        for part in self.parts:
            part.check_before_start()

    def job_ended(self) -> None:
        with contextlib.ExitStack() as parts:  # all of them, whichever fails
            for part in reversed(self.parts):
                parts.callback(part.job_ended)

    def begin(self, part: int, parallelism: int) -> list[Split]:
        splits = self.parts[part].splits(parallelism) or [Split(_NOTHING, None)]
        return [Split(f"{part}:{split.id}", split.start) for split in splits]

    def discover_in(self, part: int, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        source = self.parts[part]
        if not isinstance(source, DiscoveringSource):
            return []
        own = (
            (self._taken_apart(split), state) for split, state in known.items() if self.part_of(split) == part
        )
        found = source.discover({name: state for (_, name), state in own if name != _NOTHING})
        return [Split(f"{part}:{split.id}", split.start) for split in found]

    def part_of(self, split: str) -> int:
        """See SourceOfParts.

        Raises:
            RestoreError: the split is of another list of sources.
        """
        return self._taken_apart(split)[0]

    def _taken_apart(self, split: str) -> tuple[int, str]:
        number, colon, name = split.partition(":")
        if not colon or not number.isdecimal() or int(number) >= len(self.parts):
            raise RestoreError(
                f"the split {split!r} of the checkpoint is not of this HybridSource, which has {len(self.parts)} sources. "
                "After a checkpoint, sources may be added at the end of the list only: give the list back, or start empty "
                "with changelog.restore=none"
            )
        return int(number), name

    def reader(self, split: Split) -> SplitReader:
        """A reader of the part's own; positions are the part's."""
        part, name = self._taken_apart(split.id)
        return NothingReader() if name == _NOTHING else self.parts[part].reader(Split(name, split.start))


class NothingReader(SplitReader):
    """Reads the split of a source that has none: it ends at once."""

    def read(self, position: Position, max_records: int) -> Range:
        return Range((), position, True)


def _flat(sources: Sequence[Source]) -> list[Source]:
    flat: list[Source] = []
    for source in sources:
        check_inherits(source, "HybridSource needs", Source)
        if isinstance(source, SourceOfParts) and not isinstance(source, HybridSource):
            raise ConfigurationError(
                f"HybridSource: a {_name(source)} decides itself how its parts begin, and cannot be one of several: give "
                "its parts"
            )
        flat += source.parts if isinstance(source, HybridSource) else (source,)
    return flat


def _name(source: Source) -> str:
    return type(source).__name__


def _output_type(parts: Sequence[Source]) -> TypeInformation | None:
    """The type of all elements; None where a part doesn't declare its own."""
    first = parts[0].output_type
    for number, part in enumerate(parts[1:], 2):
        known = part.output_type
        if first is not None and known is not None and known.spec() != first.spec():
            raise ConfigurationError(
                f"HybridSource: source 1, a {_name(parts[0])}, gives elements of type {first.name}, and source {number}, a "
                f"{_name(part)}, of type {known.name}: give both a format or schema of one type"
            )
        if known is None or first is None:
            return None
    return first


def _bad_tag(parts: Sequence[Source]) -> str | None:
    tags = {part.bad_tag for part in parts if part.bad_tag is not None}
    if len(tags) > 1:
        raise ConfigurationError(
            f"HybridSource: its sources send bad records to different side outputs, {sorted(tags)}: give them one tag"
        )
    return next(iter(tags), None)
