"""The one place where handles are made: on the tables of any backend, with a log or without one.

Invariants:
    * The backend is asked once for each table, and each table is empty then and nobody else's.
    * Time to live and namespaces are the same on every backend: TTL handles stand round ordinary ones, and a namespace is
      half of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.errors import ChangelogEngineError, ConfigurationError
from changelog_engine.graph.nodes import StateId, StateKind, StateSpec
from changelog_engine.state.backend import PAGE, BufferedTable, StateBackend, StateTable
from changelog_engine.state.compiled_handles import compiled
from changelog_engine.state.cursor import Cursor, NamespaceScope
from changelog_engine.state.guarded import FailureGuard, GuardedTable, GuardedTimers
from changelog_engine.state.handles import (
    Admission,
    AggregatingHandle,
    CellHandle,
    CopyingCell,
    ListHandle,
    MapHandle,
    NetMapHandle,
    ReducingHandle,
    function_of,
)
from changelog_engine.state.mutation_log import MutationLog
from changelog_engine.state.timer_table import HeapTimers, TimerTable
from changelog_engine.state.timers import NetTimerQueue, TimerQueue
from changelog_engine.state.ttl import TtlStates, stored_spec
from changelog_engine.windowing.reserved import state_words


class Logs(Protocol):
    """Makes logs; the changelog's buffer does."""

    def log_of(self, operator: str, spec: StateSpec, namespaces: NamespaceCodec | None) -> MutationLog:
        """A log for a state."""

    def timer_log(
        self, operator: str, domain: str, namespaces: NamespaceCodec | None, net: bool
    ) -> MutationLog:
        """A log for an operator's timers; of net changes if that is wanted."""


class OpenState(NamedTuple):
    """A state whose table is there.

    Args:
        operator: uid.
        spec: the state as the user declares it.
        stored: the state as it is kept.
        log: of its mutations, or None.
        guard: remembers what came in the middle of a change; None for one that nobody asks.
    """

    operator: str
    spec: StateSpec
    stored: StateSpec
    table: StateTable
    cursor: Cursor
    log: MutationLog | None
    guard: FailureGuard | None = None


class HandleFactory:
    """Makes the handles of one subtask's states and timers.

    Args:
        logs: make the logs; None logs nothing.
        expiring: the subtask's states with a time to live.
    """

    def __init__(self, backend: StateBackend, cursor: Cursor, logs: Logs | None, expiring: TtlStates) -> None:
        self.backend = backend
        self._cursor = cursor
        self._logs = logs
        self._expiring = expiring
        self.tables: dict[StateId, StateTable] = {}
        self.timer_tables: dict[StateId, TimerTable] = {}
        self._given: list[Any] = []  # by the backend
        self._guards: dict[StateId, FailureGuard] = {}

    def opened(
        self,
        operator: str,
        spec: StateSpec,
        scope: NamespaceScope | None = None,
        kept: StateTable | None = None,
    ) -> OpenState:
        """A state and its table; with a scope, of namespaced state.

        Args:
            operator: uid.
            kept: its table, from an attempt before; None for an empty one of the backend.

        Raises:
            ConfigurationError: the backend gives no such table.
        """
        stored = stored_spec(spec)
        table = self.tables[operator, spec.name] = self._table(operator, stored) if kept is None else kept
        cursor, namespaces = (self._cursor, None) if scope is None else scope
        log = None if self._logs is None else self._logs.log_of(operator, stored, namespaces)
        return OpenState(operator, spec, stored, table, cursor, log, self._guard(operator, spec.name))

    def stored(self, state: OpenState) -> Any:
        """The handle of the stored state."""
        return compiled(_handle(state))

    def handle(self, state: OpenState) -> Any:
        """The handle of a state. What of its table has expired is removed now."""
        stored = self.stored(state)
        if state.spec.ttl is None:
            return stored
        return compiled(self._expiring.handle(state.operator, state.spec, stored, state.table, state.cursor))

    def timers(
        self, operator: str, domain: str, scope: NamespaceScope | None = None, net: bool = False
    ) -> TimerQueue:
        """The timers of an operator in a time domain, none; with a scope, of timers by key and namespace.

        With ``net``, their log is one of net changes.

        Raises:
            ConfigurationError: the backend gives no such table.
        """
        table = self.timer_tables[operator, domain] = self._timer_table(operator, domain)
        cursor, namespaces = (self._cursor, None) if scope is None else scope
        log = None if self._logs is None else self._logs.timer_log(operator, domain, namespaces, net)
        guard = self._guard(operator, domain)
        if log is not None and log.fresh is not None:
            return NetTimerQueue(table, cursor, log, guard)
        return TimerQueue(table, cursor, log, guard)

    def _guard(self, operator: str, name: str) -> FailureGuard:
        return self._guards.setdefault((operator, name), FailureGuard())

    def close(self) -> None:
        """Let go of the tables."""
        self.tables.clear()
        self.timer_tables.clear()
        self._given.clear()

    def _table(self, operator: str, spec: StateSpec) -> StateTable:
        what = f"a table for {state_words(spec.name)} of operator {operator!r}"
        table = self._made(what, lambda: self.backend.table(operator, spec.name, spec.kind))
        if not isinstance(table, StateTable):
            raise self._refused(
                f"gave {table!r} as {what}, which has not all of get, pop, __setitem__ and items"
            )
        self._take(table, "the table of another state", what, table.items)
        if type(table) is dict or isinstance(table, BufferedTable):
            return table
        return GuardedTable(table, self._guard(operator, spec.name))

    def _timer_table(self, operator: str, domain: str) -> TimerTable:
        what = f"a table for the timers {domain!r} of operator {operator!r}"
        table = self._made(what, lambda: self.backend.timer_table(operator, domain))
        if not isinstance(table, TimerTable):
            raise self._refused(f"gave {table!r} as {what}, which does not derive from TimerTable")
        self._take(table, "another table of timers", what, table.__iter__)
        return table if type(table) is HeapTimers else GuardedTimers(table, self._guard(operator, domain))

    def _made(self, what: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except ChangelogEngineError:
            raise
        except Exception as error:
            raise self._refused(f"failed to make {what}: {error!r}") from error

    def _take(self, table: Any, other: str, what: str, entries: Callable[[], Iterable[Any]]) -> None:
        """Refuse a table that is in use, or not empty."""
        if any(table is each for each in self._given):
            raise self._refused(f"gave {other} as {what}")
        if next(iter(entries()), None) is not None:
            raise self._refused(
                f"gave {what} that is not empty; the engine fills it itself, from the checkpoint"
            )
        self._given.append(table)

    def failed(self) -> tuple[str, str, BaseException] | None:
        """Operator and state whose table has raised, and what; None for none. A function may have caught it."""
        for (operator, state), guard in self._guards.items():
            if guard.failure is not None:
                return operator, state, guard.failure
        return None

    def unfinished(self) -> tuple[str, str, BaseException] | None:
        """Operator and state of a change that was begun and not finished, and what was raised in it; None for none."""
        for (operator, state), guard in self._guards.items():
            if guard.unfinished is not None:
                return operator, state, guard.unfinished
        return None

    def _refused(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"the state backend {type(self.backend).__qualname__} {what}: see {PAGE}")


def _handle(state: OpenState) -> Any:
    """The handle of the stored state."""
    spec, table, cursor, log = state.stored, state.table, state.cursor, state.log
    admission = Admission(state.operator, spec, cursor, state.guard)
    if isinstance(table, BufferedTable):
        test = admission.type.class_or_bounds()
        grows = spec.kind in (StateKind.LIST, StateKind.MAP)
        table.of_fixed_size(not grows and (isinstance(test, tuple) or test in (float, bool)))
    if spec.kind is StateKind.LIST:
        return ListHandle(table, cursor, admission, log)
    if spec.kind is StateKind.MAP:
        if log is not None and log.fresh is not None:
            return NetMapHandle(table, cursor, admission, log)
        return MapHandle(table, cursor, admission, log)
    cell = (CopyingCell if admission.mutable else CellHandle)(table, cursor, admission, log)
    if spec.kind is StateKind.REDUCING:
        return ReducingHandle(cell, function_of(spec), admission)
    if spec.kind is StateKind.AGGREGATING:
        return AggregatingHandle(cell, function_of(spec))
    return cell
