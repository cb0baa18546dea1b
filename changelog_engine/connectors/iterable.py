"""A source over a Python function that returns an iterable, such as a generator function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.protocols import Position, Range, Source, Split, SplitReader
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types import TypeInformation
from changelog_engine.types.copies import take_each

# A slow iterable is cut off after this time, so that what it gave is processed instead of waiting for a full
# range.
READ_BUDGET_S = 0.5


class IterableSource(Source):
    """The elements of what a function returns, from one subtask.

    The position is the number of elements given.

    After a restore the function is called again and the first elements are skipped, so it must give the same
    elements in the same order each time it is called; that is what makes the result exact.

    Args:
        function: takes nothing, returns an iterable; called in the worker.

    Raises:
        ConfigurationError: function cannot be called.
    """

    bounded = True  # it ends when the iterable ends, if ever
    parallel = False

    def __init__(
        self, function: Callable[[], Iterable[Any]], output_type: TypeInformation | None = None
    ) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                "a source function must be callable without arguments and return an iterable, got "
                f"{function!r}; for a fixed list use from_collection"
            )
        self.output_type = output_type
        self._function = function

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("iterable", 0)]

    def reader(self, split: Split) -> IterableReader:
        return IterableReader(self._function)


class IterableReader(SplitReader):
    """Reads on where it stands; a position behind it starts the iteration again."""

    def __init__(
        self, function: Callable[[], Iterable[Any]], monotonic: Callable[[], float] = monotonic_s
    ) -> None:
        self._function = function
        self._monotonic = monotonic  # the clock in seconds that cuts a read off
        self._iterator: Iterator[Any] | None = None
        self._given = 0

    def read(self, position: Position, max_records: int) -> Range:
        """The elements from a count on, as many as come within the time budget.

        Raises:
            ConfigurationError: the function returns no iterable, or fewer elements than it gave before.
        """
        iterator = self._at(position)
        values: list[Any] = []
        deadline = self._monotonic() + READ_BUDGET_S
        step = 1
        while len(values) < max_records:
            wanted = min(step, max_records - len(values))
            before = len(values)
            take_each(values, itertools.islice(iterator, wanted))  # it may give one object again and again
            count = len(values) - before
            self._given += count
            if count < wanted:
                return Range(values, self._given, True)
            now = self._monotonic()
            if now >= deadline:
                break
            # Few clock readings for a fast iterable, and one per element for a slow one.
            step = min(step * 2, 4096) if deadline - now > READ_BUDGET_S / 2 else max(1, step // 2)
        return Range(values, self._given, False)

    def _at(self, position: int) -> Iterator[Any]:
        iterator = self._iterator
        if iterator is None or position < self._given:
            self.close()
            returned = self._function()
            if not isinstance(returned, Iterable):
                raise ArgumentTypeError(
                    f"the source function must return an iterable, it returned {type(returned).__name__}"
                )
            iterator = self._iterator = iter(returned)
            self._given = 0
        if position > self._given:
            skipped = sum(1 for _ in itertools.islice(iterator, position - self._given))
            self._given += skipped
            if self._given < position:
                raise ConfigurationError(
                    f"the source function gave {self._given} elements this time and at least {position} "
                    "before; it must give the same elements every time it is called, or the job cannot "
                    "go on where it was"
                )
        return iterator

    def close(self) -> None:
        """End the iteration; a generator's ``finally`` blocks run."""
        close = hook_of(self._iterator, "close")
        self._iterator = None
        if close is not None:
            close()
