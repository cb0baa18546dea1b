"""Tables of a backend of the user's, and what they raise: an epoch in which one raised does not end well.

A handle logs a mutation before the table changes. A function that catches what the table raises would go on without the
change that the log has, and a restore would bring it back.

Invariant: once a table or a table of timers has raised, `FailureGuard.check` raises the same, even if the error was caught.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from changelog_engine.state.backend import KeyIdentity, StateTable
from changelog_engine.state.timer_table import Timer, TimerTable


class FailureGuard:
    """Remembers the first failure of a subtask's tables.

    Attributes:
        failure: what was raised; None: nothing.
    """

    def __init__(self) -> None:
        self.failure: BaseException | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if (
            error is not None and self.failure is None and kind is not GeneratorExit
        ):  # the reader stopped early, or is gone
            self.failure = error

    def check(self) -> None:
        """Raise what a table has raised.

        Raises:
            BaseException: it, whatever the backend raised.
        """
        if self.failure is not None:
            raise self.failure


class GuardedTable:
    """A state table under a guard."""

    def __init__(self, table: StateTable, guard: FailureGuard) -> None:
        self._table = table
        self._guard = guard

    def get(self, key: KeyIdentity, default: Any = None, /) -> Any:
        """See StateTable."""
        with self._guard:
            return self._table.get(key, default)

    def pop(self, key: KeyIdentity, default: Any, /) -> Any:
        """See StateTable."""
        with self._guard:
            return self._table.pop(key, default)

    def __setitem__(self, key: KeyIdentity, entry: Any, /) -> None:
        with self._guard:
            self._table[key] = entry

    def items(self) -> Iterable[tuple[KeyIdentity, Any]]:
        """See StateTable."""
        with self._guard:
            yield from self._table.items()


class GuardedTimers(TimerTable):
    """A table of timers under a guard."""

    __slots__ = ("_guard", "_table")

    def __init__(self, table: TimerTable, guard: FailureGuard) -> None:
        self._table = table
        self._guard = guard

    def __contains__(self, timer: object, /) -> bool:
        with self._guard:
            return timer in self._table

    def __iter__(self) -> Iterator[Timer]:
        with self._guard:
            yield from self._table

    def add(self, timer: Timer) -> None:
        with self._guard:
            self._table.add(timer)

    def remove(self, timer: Timer) -> None:
        with self._guard:
            self._table.remove(timer)

    def first(self) -> Timer | None:
        with self._guard:
            return self._table.first()

    def due(self, until: int) -> list[Timer]:
        with self._guard:
            return self._table.due(until)

    def remove_due(self, timers: list[Timer]) -> None:
        with self._guard:
            self._table.remove_due(timers)

    def fill(self, timers: list[Timer]) -> None:
        with self._guard:
            self._table.fill(timers)
