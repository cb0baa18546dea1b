"""A source of consecutive whole numbers, for tests, demos and benchmarks."""

from __future__ import annotations

import itertools

from changelog_engine.config.numbers import whole_number
from changelog_engine.connectors.protocols import Position, Range, Source, Split, SplitReader
from changelog_engine.errors import ConfigurationError
from changelog_engine.types import Types

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


class NumberSequenceSource(Source):
    """The numbers from start to end, both included, cut into one contiguous piece per subtask.

    The position is the next number. Elements come as ``range`` objects: no list is ever made.

    Args:
        end: last number; equal to start for one element.

    Raises:
        ConfigurationError: a bound is not a 64-bit whole number, or start is above end.
    """

    bounded = True
    parallel = True

    def __init__(self, start: int, end: int) -> None:
        for name, bound in (("start", start), ("end", end)):
            whole_number(bound, f"NumberSequenceSource: {name}", _LONG_MIN, _LONG_MAX)
        if start > end:
            raise ConfigurationError(f"NumberSequenceSource: start {start} is above end {end}; swap them")
        self.start = start
        self.end = end
        self.output_type = Types.LONG()

    def splits(self, parallelism: int) -> list[Split]:
        """Contiguous pieces of nearly equal length.

        They are fewer than the parallelism when there are fewer numbers.
        """
        total = self.end - self.start + 1
        pieces = min(parallelism, total)
        bounds = [self.start + total * piece // pieces for piece in range(pieces + 1)]
        return [Split(f"{low}..{high - 1}", low) for low, high in itertools.pairwise(bounds)]

    def reader(self, split: Split) -> NumberSequenceReader:
        return NumberSequenceReader(int(split.id.split("..")[1]))


class NumberSequenceReader(SplitReader):
    """Gives out ranges up to the last number of its piece."""

    def __init__(self, last: int) -> None:
        self._end = last + 1

    def read(self, position: Position, max_records: int) -> Range:
        end = min(position + max_records, self._end)
        return Range(range(position, end), end, end >= self._end)
