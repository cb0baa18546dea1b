"""A job's sources and sinks as a replay has them: sources read exactly to given positions, sinks write nothing.

A position of a replayed source is (where it stands, where the epoch ended, whether the split ended there).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from changelog_engine.clock import Deadline, monotonic_s
from changelog_engine.connectors.protocols import (
    DiscoveringSource,
    Position,
    Range,
    Sink,
    SinkWriter,
    Source,
    SourceOfParts,
    Split,
    SplitReader,
)
from changelog_engine.connectors.scripted import ScriptedReader
from changelog_engine.errors import RestoreError

_PATIENCE_S = 30.0  # for a source that has nothing to give for a while


class ReplaySource(Source):
    """A source that reads ranges of the job's own."""

    def __init__(self, source: Source, name: str) -> None:
        self.source = source
        self.name = name
        self.bounded = source.bounded
        self.parallel = source.parallel
        self.output_type = source.output_type
        self.timed = source.timed
        self.watermarks_by_split = source.watermarks_by_split

    def splits(self, parallelism: int) -> list[Split]:
        return self.source.splits(parallelism)

    def reader(self, split: Split) -> ReplayReader:
        return ReplayReader(self.source.reader(split), f"split {split.id!r} of source {self.name!r}")


class ReplayDiscovering(ReplaySource, DiscoveringSource):
    """A source that discovers splits, and reads ranges; the log says which splits came."""

    source: DiscoveringSource

    def discover(self, known: Any) -> list[Split]:
        """A replay reads the splits of the log."""
        return []

    def start_of(self, split: str, position: Position) -> Position | None:
        return self.source.start_of(split, position)


class ReplayOfParts(ReplaySource, SourceOfParts):
    """A source of parts that reads ranges; the log says when each part began."""

    source: SourceOfParts

    def __init__(self, source: SourceOfParts, name: str) -> None:
        super().__init__(source, name)
        self.parts = [replayed(part, name) for part in source.parts]

    def part_of(self, split: str) -> int:
        return self.source.part_of(split)

    def begin(self, part: int, parallelism: int) -> list[Split]:
        return self.source.begin(part, parallelism)

    def discover_in(self, part: int, known: Any) -> list[Split]:
        """A replay reads the splits of the log."""
        return []


def replayed(source: Source, name: str) -> ReplaySource:
    """The source as a replay has it.

    Args:
        source: the job's own.

    Raises:
        RestoreError: what it gave may be gone.
    """
    if not source.replayable:
        raise RestoreError(
            f"the history of this job cannot be replayed: its source {name!r}, a {type(source).__name__}, gives each "
            "element only once, and the log has what the elements did to the state, not the elements"
        )
    if isinstance(source, SourceOfParts):
        return ReplayOfParts(source, name)
    return (
        ReplayDiscovering(source, name)
        if isinstance(source, DiscoveringSource)
        else ReplaySource(source, name)
    )


class ReplayReader(SplitReader):
    """Reads with a source's reader up to the position where an epoch ended, and not further."""

    def __init__(self, reader: SplitReader, what: str, clock: Callable[[], float] = monotonic_s) -> None:
        self._reader = reader
        self._clock = clock
        self._what = what
        self.watermark = reader.watermark
        if isinstance(reader, ScriptedReader):
            reader.replays = True

    def begin_epoch(self, durable: bool) -> None:
        """What was read is durable, as it is in the log."""
        self._reader.begin_epoch(True)

    def read(self, position: Position, max_records: int) -> Range:
        """The next elements before the end of the epoch.

        Raises:
            RestoreError: the source does not come to where the epoch ended: its data are gone or others.
        """
        at, end, ended = position
        deadline = Deadline(_PATIENCE_S, self._clock)
        finished = False
        while not same(at, end) or (ended and not finished):
            before, watermark = deepcopy(at), self.watermark  # a reader may change it in place
            values, at, finished, times, aside = self._read(at, end, max_records)
            self.watermark = self._reader.watermark
            if finished and not same(at, end):
                raise self._lost(f"it ends at {at}")
            if len(values) and same(before, end):
                raise self._lost(f"it goes on to {at}")
            if len(values) or aside or self.watermark != watermark:
                done = finished and ended and same(at, end)
                return Range(values, (at, end, ended), done, times, aside)
            if same(before, at) and not finished:
                if deadline.passed:
                    raise self._lost(f"for {_PATIENCE_S:.0f} s it gives nothing after {at}")
                time.sleep(0.001)
        return Range([], (at, end, ended), ended)

    def _read(self, at: Any, end: Any, most: int) -> Range:
        """A read that does not pass the end. Only positions that are numbers tell how far that is."""
        if type(at) is not int or type(end) is not int:
            return self._reader.read(at, 1)
        if at > end:
            raise self._lost(f"it stands at {at}")
        most = max(1, min(most, end - at))
        while True:
            found = self._reader.read(at, most)
            if found.next <= end or same(at, end):
                return found
            if most == 1:
                raise self._lost(f"it goes from {at} to {found.next}")
            most //= 2

    def _lost(self, why: str) -> RestoreError:
        return RestoreError(
            f"{self._what} does not come to the position where the recorded epoch ended: {why}. A replay needs the source's "
            "data as they were"
        )

    def close(self) -> None:
        self._reader.close()


class NoSink(Sink, SinkWriter):
    """A sink that writes nothing."""

    def writer(self, subtask: int, parallelism: int) -> NoSink:
        return self

    def write(self, values: Sequence[Any]) -> None:
        """Forget the elements."""

    def flush(self) -> None:
        """Nothing to flush."""


def same(one: Any, other: Any) -> bool:
    """Whether two positions are the same, one of which may have been JSON in between."""
    return one == other or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
