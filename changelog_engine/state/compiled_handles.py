"""Handles whose calls are in C: what a handle does for each record is decided once, for its one state.

Each handle gets a class of its own that is derived from one of ``handles.py``. Where there is the extension in C
(handles_in_c.py), calls of it stand there in place of methods, made of the state's table, cursor and log; they leave to the
methods what is not ordinary. All else, and all of it without the extension, is the handle's own class's to do.

Invariant: a compiled handle gives, logs and raises what the handle of its class would; a test runs both side by side.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from changelog_engine.clock import wall_ms
from changelog_engine.codec.values import CLEARED
from changelog_engine.state.backend import BufferedTable
from changelog_engine.state.handles import (
    Admission,
    AggregatingHandle,
    CellHandle,
    CopyingCell,
    ListHandle,
    MapHandle,
    ReducingHandle,
)
from changelog_engine.state.handles_in_c import CALLS, parts_of_log
from changelog_engine.state.mutation_log import APPEND, CLEAR, PUT, REPLACE
from changelog_engine.state.ttl import TtlCell

_Handle = TypeVar("_Handle")
_Parts = dict[str, Any]
_CallsOf = dict[str, tuple[str, _Parts]]


class _Calls(NamedTuple):
    """The calls in C of one handle."""

    parts: _Parts  # what all of them are made of, by the names that C knows
    calls: _CallsOf  # by method, which call it is, and what parts that has besides
    admission: Admission


def compiled(handle: _Handle) -> _Handle:
    """The handle, of a class of its own.

    Args:
        handle: one of ``handles.py``, as it was made; it is not to be used any more.
    """
    general = type(handle)
    if general not in _COMPILED:
        return handle
    shown, calls_of = _COMPILED[general]
    about = {"__module__": general.__module__, "__doc__": general.__doc__}
    methods = _in_c(general, calls_of(handle))
    made: Any = object.__new__(type(shown, (general,), {**about, **methods}))
    # One by one: Python finds a method 17 ns sooner on an object that has no dict of its own, as one has whose
    # __dict__ was asked for, or whose class was set.
    for name, part in vars(handle).items():
        setattr(made, name, part)
    found: _Handle = made
    return found


def _in_c(general: type, of: _Calls) -> _Parts:
    """The calls in C that stand for methods of a class: of those that C can do with these parts."""
    if CALLS is None:
        return {}
    test = of.admission.type.class_or_bounds()
    methods = ChainMap(*[dict(vars(base)) for base in general.__mro__])
    found = {}
    for name, (kind, more) in of.calls.items():
        method = methods[name]
        call = CALLS.call_of(kind, method, _as_dicts({**of.parts, **more}), test)
        if call is not method:
            found[name] = call
    return found


def _as_dicts(parts: _Parts) -> _Parts:
    """The parts of a call in C, which knows dicts alone: of a table that buffers, that of its changed entries."""
    table = parts.get("table")
    return {**parts, "table": table.changed, "buffered": table} if isinstance(table, BufferedTable) else parts


def has_own_class(handle: Any) -> bool:
    """Whether no other handle has its class."""
    own = type(handle)
    known = _COMPILED.get(own.__base__ or own)
    return known is not None and known[0] == own.__name__


def general(handle: Any) -> None:
    """Make a compiled handle an ordinary one again, which calls its own methods and those of its cell."""
    handle.__class__ = next((base for base in type(handle).__mro__ if base in _COMPILED), type(handle))


def _of_cell(cell: CellHandle) -> _Parts:
    admission = cell._admission
    return {
        "cursor": cell._cursor,
        "table": cell._table,
        "guard": admission.guard,
        "get_entry": cell._get,
        "exact": admission.exact,
        "plain": admission.plain,
        "admit": admission.admit,
        **parts_of_log(cell._log),
    }


def _cell(cell: CellHandle) -> _Calls:
    parts = _of_cell(cell) | {"CLEARED": CLEARED}
    calls: _CallsOf = {"value": ("cell_value", {}), "clear": ("clear_entry", {})}
    if not isinstance(cell, CopyingCell):
        calls["update"] = ("cell_update", {})
        return _Calls(parts, calls, cell._admission)
    parts |= {"fits": cell._fits, "copy": cell._copy, "copy_out": cell._copy_out}
    parts["quick_copy"] = cell._admission.quick_copy
    if cell._freeze is None:
        calls["update"] = ("copying_update", {})
    return _Calls(parts, calls, cell._admission)


def _expiring_cell(cell: TtlCell) -> _Calls:
    inner = cell._inner
    in_c = CALLS is not None and {"value", "update"} <= vars(type(inner)).keys()
    if CALLS is None or not in_c or isinstance(inner, CopyingCell):
        return _Calls({}, {}, cell._admission)
    parts = _of_cell(inner) | {
        "fits": cell._fits,
        "clock": CALLS.wall_ms if cell._clock is wall_ms else cell._clock,
        "ttl_ms": cell._ttl_ms,
        "renew": cell._renew or None,
        "sweep": cell._sweep if cell._per_access else None,
    }
    calls: _CallsOf = {
        "value": ("expiring_value", {}),
        "update": ("expiring_update", {}),
    }
    return _Calls(parts, calls, cell._admission)


def _over_cell(cell: CellHandle) -> _Parts:
    """What a handle has of the cell under it: its entry, or the calls of one that copies."""
    if not isinstance(cell, CopyingCell):
        return _of_cell(cell)
    parts = {"cell_value": cell.value, "cell_update": cell.update}
    return parts | {"cursor": cell._cursor, "table": cell._table, "guard": cell._admission.guard}


def _reducing(handle: ReducingHandle) -> _Calls:
    cell = handle._cell = compiled(handle._cell)
    handle._value = cell.value
    parts = _over_cell(cell) | {"reduce": handle._reduce, "fits": handle._fits}
    parts["present"] = handle._admission.present
    calls: _CallsOf = {"add": ("reducing_add", {}), "begins": ("reducing_begins", {})}
    return _Calls(parts, calls, handle._admission)


def _aggregating(handle: AggregatingHandle) -> _Calls:
    cell = handle._cell = compiled(handle._cell)
    parts = _over_cell(cell) | {"function": handle._function, "accumulated": handle.accumulated}
    if not isinstance(cell, CopyingCell):
        parts["clear"] = cell.clear
    calls = {"add": ("aggregating_add", _Parts()), "begins": ("aggregating_begins", _Parts())}
    return _Calls(parts, calls, cell._admission)


def _collection(handle: ListHandle | MapHandle) -> _Parts:
    """What the handles of lists and maps have alike."""
    copies = {"copy": handle._copy, "copy_out": handle._copy_out} if handle._mutable else {}
    return {
        "cursor": handle._cursor,
        "table": handle._table,
        "guard": handle._admission.guard,
        "get_entry": handle._table.get,
        "fits": handle._fits,
        "quick_copy": handle._admission.quick_copy,
        **copies,
        **parts_of_log(handle._log),
    }


def _list(handle: ListHandle) -> _Calls:
    parts = _collection(handle) | {"present": handle._admission.present, "CLEARED": CLEARED}
    calls: _CallsOf = {"get": ("list_get", {}), "clear": ("clear_entry", _logs(CLEAR))}
    if handle._freeze is None:
        calls |= {"add": ("list_add", _logs(APPEND)), "begins": ("list_begins", _logs(APPEND))}
        calls["update"] = ("list_update", _logs(REPLACE, APPEND))
    return _Calls(parts, calls, handle._admission)


def _logs(first: str, others: str | None = None) -> _Parts:
    """The operations that a call logs: of its first row, and of those that follow."""
    return {"first_operation": first, "next_operation": others or first}


def _map(handle: MapHandle) -> _Calls:
    parts = _collection(handle) | {"exact_key": handle._exact_key}
    calls: _CallsOf = dict.fromkeys(("get", "__getitem__"), ("map_get", {}))
    if handle._freeze is None:
        calls |= dict.fromkeys(("put", "__setitem__"), ("map_put", _logs(PUT)))
    return _Calls(parts, calls, handle._admission)


# By class: what Python's own errors call a handle ("'ValueState' object has no attribute 'get'"), and what gives its calls.
_COMPILED: dict[type, tuple[str, Callable[[Any], _Calls]]] = {
    CellHandle: ("ValueState", _cell),
    CopyingCell: ("ValueState", _cell),
    ReducingHandle: ("ReducingState", _reducing),
    AggregatingHandle: ("AggregatingState", _aggregating),
    ListHandle: ("ListState", _list),
    MapHandle: ("MapState", _map),
    TtlCell: ("ValueState", _expiring_cell),
}
