"""What came between a mutation's line in the log and the change of the table: an epoch in which it did does not end well.

A handle logs a mutation before the table changes. A table of a user's backend may raise then. So may a signal handler of a
program, as for a time limit, or the interpreter, where the stack or the memory is used up. A function that catches it
would go on without the change that the log has, and a restore would bring it back.

Invariants:
    * Once a table or a table of timers has raised, the guard has it as its `failure`, even if the error was caught.
    * Once a handle or a queue of timers was left in the middle of a change, the guard has what was raised as `unfinished`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from changelog_engine.state.backend import KeyIdentity, StateTable
from changelog_engine.state.timer_table import Timer, TimerTable


class FailureGuard:
    """Remembers the failures of one state, or of an operator's timers in one time domain.

    Attributes:
        failure: what the table raised first; None: nothing.
        unfinished: what was raised last in the middle of a change; None: nothing. Who changes the state sets it in an
            ``except`` block, without a call, for which the stack may have no room.
    """

    __slots__ = ("failure", "unfinished")

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self.unfinished: BaseException | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        # GeneratorExit: the reader stopped early, or is gone.
        if error is not None and self.failure is None and kind is not GeneratorExit:
            self.failure = error


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
