"""Checks that a state backend keeps its promises, for whoever writes one: docs/state-backends.md."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from changelog_engine.state import StateBackend, StateKind, StateTable, TimerTable

_KEYS = [1, -5, 2**70, "a", "", "\0", b"a", b"", ("a", (0, 10)), ("a", (10, 20)), (1, ("w", None)), (b"a", 3)]
_KINDS = (StateKind.VALUE, StateKind.LIST, StateKind.MAP)


def check_state_backend(factory: Callable[[], StateBackend], operations: int = 2_000, seed: int = 0) -> None:
    """Do with a state backend what the engine does, and compare it with dicts.

    Checked are: tables of several states in turns, with all that may be a key; lists and maps that are changed and set
    again; the order in a map; all entries of a table while it changes; the orders of timers; that epochs may end at any
    time, and that what another backend object kept is not there.

    Args:
        factory: makes a backend, as CustomStateBackend takes it.
        operations: how many on each table.
        seed: of the operations.

    Raises:
        AssertionError: a promise is broken; says which.

    Example:
        >>> from changelog_engine.state.heap import HeapBackend
        >>> check_state_backend(HeapBackend)
    """
    for number in range(2):  # the second one begins empty
        randomly = random.Random(seed + number)
        backend = factory()
        tables = [(kind, backend.table("operator", kind.value, kind)) for kind in (*_KINDS, *_KINDS)]
        timers = [backend.timer_table("operator", domain) for domain in ("event", "processing")]
        models: list[dict[Any, Any]] = [{} for _ in tables]
        pending: list[list[tuple[int, Any]]] = [[] for _ in timers]
        for made in (*(table.items() for _, table in tables), *timers):
            if list(made):
                raise AssertionError("a table is not empty when it is made")
        for step in range(operations):
            for (kind, table), model in zip(tables, models, strict=True):
                _operate(kind, table, model, randomly)
            for waiting, model_of_timers in zip(timers, pending, strict=True):
                _operate_on_timers(waiting, model_of_timers, randomly)
            if randomly.random() < 0.02:
                backend.end_epoch()
                backend.begin_epoch()
            if randomly.random() < 0.02 or step == operations - 1:
                for (kind, table), model in zip(tables, models, strict=True):
                    _compare(kind, table, model)
                for waiting, model_of_timers in zip(timers, pending, strict=True):
                    if list(waiting) != model_of_timers:
                        raise AssertionError("timers do not come in the order of their addition")
        for (kind, table), model in zip(tables, models, strict=True):
            _change_while_reading(kind, table, model)
        backend.close()


def _operate(kind: StateKind, table: StateTable, model: dict[Any, Any], randomly: random.Random) -> None:
    """One operation as a handle does it."""
    key, number = randomly.choice(_KEYS), randomly.randrange(1_000)
    if randomly.random() < 0.1:
        table.pop(key, None)
        model.pop(key, None)
    elif kind is StateKind.VALUE:
        table[key] = model[key] = (number, "text")
    elif kind is StateKind.LIST:
        entry = table.get(key)
        if entry is None:
            entry = []
        entry.append(number)
        table[key] = entry
        model[key] = [*model.get(key, []), number]
    else:
        entry = table.get(key)
        if entry is None:
            entry = {}
        entry[number % 7] = number
        table[key] = entry
        model.setdefault(key, {})[number % 7] = number
    key = randomly.choice(_KEYS)
    found, expected = table.get(key), model.get(key)
    if _shown(kind, found) != _shown(kind, expected):
        raise AssertionError(f"key {key!r}: expected {expected!r}, got {found!r}")


def _operate_on_timers(table: TimerTable, model: list[tuple[int, Any]], randomly: random.Random) -> None:
    timer = randomly.randrange(-5, 40), randomly.choice(_KEYS)
    if (timer in table) != (timer in model):
        raise AssertionError(f"whether {timer!r} is set")
    if timer in model:
        table.remove(timer)
        model.remove(timer)
    else:
        table.add(timer)
        model.append(timer)
    in_order = sorted(model, key=lambda timer: timer[0])
    expected = in_order[0] if in_order else None
    if table.first() != expected:
        raise AssertionError(f"expected {expected!r} first, got {table.first()!r}")
    if randomly.random() < 0.05:
        until = randomly.randrange(-5, 40)
        due = [timer for timer in in_order if timer[0] <= until]
        if table.due(until) != due:
            raise AssertionError(f"due until {until}: expected {due!r}")
        if randomly.random() < 0.5:
            table.remove_due(table.due(until))
            for timer in due:
                model.remove(timer)


def _compare(kind: StateKind, table: StateTable, model: dict[Any, Any]) -> None:
    items = list(table.items())
    found = {key: _shown(kind, entry) for key, entry in items}
    if len(found) != len(items):
        raise AssertionError("items() gives a key twice")
    expected = {key: _shown(kind, entry) for key, entry in model.items()}
    if found != expected:
        raise AssertionError(f"items() of a {kind.value} table: expected {expected!r}, got {found!r}")


def _change_while_reading(kind: StateKind, table: StateTable, model: dict[Any, Any]) -> None:
    """A table that is not a dict may change while all of it is read."""
    if isinstance(table, dict):
        return
    seen = {}
    for key, entry in table.items():
        seen[key] = _shown(kind, entry)
        for other in _KEYS[:4]:
            table.pop(other, None)
    expected = {key: _shown(kind, entry) for key, entry in model.items()}
    if seen != expected:
        raise AssertionError(f"items() while the table changes: expected {expected!r}, got {seen!r}")


def _shown(kind: StateKind, entry: Any) -> Any:
    """An entry by its contents, of a map with their order."""
    return list(entry.items()) if kind is StateKind.MAP and entry is not None else entry
