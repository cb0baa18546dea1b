"""Handles compiled for one state: what a handle of ``handles.py`` asks itself at each call is decided once.

Is there a log? Do elements have timestamps? Which class do the values have? The methods that run once per record are written
anew for the answers, with the state's table, cursor and log as constants, in a class of its own that is derived from the
handle's. All other methods are the handle's. Where there is the extension in C (handles_in_c.py), it does what the code does
for handles on the heap, with the code as its reference.

Invariants:
    * A compiled handle gives, logs and raises what the handle of its class would, in Python and in C; a test runs all three
      side by side.
    * The code's file lies in the engine's folder by its name, and ``linecache`` has its lines: tracebacks of users'
      functions leave it out as they do the engine's own, and profilers show it.
"""

from __future__ import annotations

import itertools
import linecache
import os
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeVar

from changelog_engine.clock import wall_ms
from changelog_engine.codec.values import CLEARED
from changelog_engine.state.backend import BufferedTable, StateTable
from changelog_engine.state.handles import (
    Admission,
    AggregatingHandle,
    CellHandle,
    CopyingCell,
    ListHandle,
    LoggingCell,
    MapHandle,
    ReducingHandle,
)
from changelog_engine.state.handles_in_c import CALLS
from changelog_engine.state.mutation_log import APPEND, CLEAR, PUT, REPLACE, MutationLog
from changelog_engine.state.ttl import TtlCell

_Handle = TypeVar("_Handle")
_Names = dict[str, Any]
_Calls = dict[str, tuple[str, _Names]]


class _Written(NamedTuple):
    """A handle's methods.

    Args:
        source: their code.
        names: the constants in it.
        calls: by method, which call in C does the same, and what constants that has besides.
        admission: of the values.
    """

    source: str
    names: _Names
    calls: _Calls
    admission: Admission


def compiled(handle: _Handle) -> _Handle:
    """The handle, of a class compiled for it.

    Args:
        handle: one of ``handles.py``, as it was made; it is not to be used any more.
    """
    write = _WRITERS.get(type(handle))
    if write is not None:
        written, general = write(handle), type(handle)
        names = written.names
        exec(_code(general.__name__, written.source), names)  # of lines made here
        methods = {name: names[name] for name in _METHODS if name in names}
        methods |= _in_c(general, methods, written)
        about = {"__module__": general.__module__, "__doc__": general.__doc__}
        made: Any = object.__new__(type(_SHOWN[general], (general,), {**about, **methods}))
        # One by one: Python finds a method 17 ns sooner on an object that has no dict of its own, as one has whose
        # __dict__ was asked for, or whose class was set.
        for name, part in vars(handle).items():
            setattr(made, name, part)
        handle = made
    return handle


def _in_c(general: type, methods: _Names, written: _Written) -> _Names:
    """The calls in C that stand for methods of a class; those it has no code for here have its own as their reference."""
    if CALLS is None:
        return {}
    test = written.admission.type.class_or_bounds()
    return {
        name: CALLS.call_of(
            kind, methods.get(name) or general.__dict__[name], _parts({**written.names, **more}), test
        )
        for name, (kind, more) in written.calls.items()
    }


def _parts(names: _Names) -> _Names:
    """The constants of a call in C, which knows dicts alone: of a table that buffers, that of its changed entries."""
    table = names.get("table")
    return {**names, "table": table.changed, "buffered": table} if isinstance(table, BufferedTable) else names


def has_own_class(handle: Any) -> bool:
    """Whether no other handle has its class."""
    own = type(handle)
    return own.__base__ is not None and _SHOWN.get(own.__base__) == own.__name__


def general(handle: Any) -> None:
    """Make a compiled handle an ordinary one again, which calls its own methods and those of its cell."""
    handle.__class__ = next((base for base in type(handle).__mro__ if base in _WRITERS), type(handle))


_FOLDER = os.path.dirname(os.path.abspath(__file__))
_NUMBERS = itertools.count(1)
_METHODS = ("value", "update", "get", "add", "begins", "put", "clear", "__getitem__", "__setitem__")


@lru_cache(maxsize=1024)
def _code(name: str, source: str) -> CodeType:
    file = os.path.join(_FOLDER, f"<{name} {next(_NUMBERS)}>")
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    return compile(source, file, "exec")


def _lines(depth: int, lines: list[str]) -> str:
    return "".join([f"{'    ' * depth}{line}\n" for line in lines])


def _method(head: str, lines: list[str]) -> str:
    return _lines(0, [f"def {head}:"]) + _lines(1, lines)


def _guarded(lines: list[str]) -> list[str]:
    """The lines that log a change and make it, of which the state's guard hears when they are left half-way."""
    return [
        "try:",
        *[f"    {line}" for line in lines],
        "except BaseException as error:",
        "    guard.unfinished = error",
        "    raise",
    ]


def _logged(log: MutationLog | None, names: _Names, value: str, operation: str | None = None) -> list[str]:
    """The lines that log a value at ``key``."""
    if log is None:
        return []
    names["log_keys"], names["log_values"] = log.keys, log.values
    lines = ["log_keys.append(key)"]  # of a list itself, Python has an instruction for it
    if log.map_keys is not None:
        names["log_map_keys"] = log.map_keys
        lines.append("log_map_keys.append(map_key)")
    lines.append(f"log_values.append({value})")
    if log.operations is not None:
        names["log_operations"], names[f"OPERATION_{operation}"] = log.operations, operation
        lines.append(f"log_operations.append(OPERATION_{operation})")
    if log.times is not None:
        names["log_times"] = log.times
        lines.append("log_times.append(cursor.timestamp)")
    return lines


def _all_logged(log: MutationLog | None, names: _Names, values: str) -> list[str]:
    """The lines that log a list that replaces the one at ``key``, as ``MutationLog.record_list`` does."""
    if log is None:
        return []
    lines = [
        "if len(values) == 1:",
        *[f"    {line}" for line in _logged(log, names, f"{values}[0]", REPLACE)],
        "else:",
        "    more = len(values) - 1",
        "    log_keys.extend([key] * (more + 1))",
        f"    log_values.extend({values})",
        f"    log_operations.append(OPERATION_{REPLACE})",
        f"    log_operations.extend([OPERATION_{APPEND}] * more)",
    ]
    names[f"OPERATION_{APPEND}"] = APPEND
    if log.times is not None:
        lines.append("    log_times.extend([cursor.timestamp] * (more + 1))")
    return lines


def _changed(table: StateTable) -> list[str]:
    """The lines that tell a table of a changed list or map, which a dict of Python knows by itself."""
    return [] if type(table) is dict else ["table[key] = entry"]


def _cell_names(cell: CellHandle) -> _Names:
    admission = cell._admission
    return {
        "cursor": cell._cursor,
        "table": cell._table,
        "guard": admission.guard,
        "get_entry": cell._get,
        "exact": admission.exact,
        "plain": admission.plain,
        "admit": admission.admit,
    }


def _admitted(cell: CellHandle, of_none: str) -> list[str]:
    """The lines that check ``value``."""
    test = "not plain(value)" if cell._plain is not None else "True"
    fitting = [f"if {test}:", "    value = admit(value)"]
    if cell._exact is None:
        return ["if value is None:", f"    return {of_none}", *fitting]
    inner = ["if value is None:", f"    return {of_none}", *fitting]
    return ["if type(value) is not exact:", *[f"    {line}" for line in inner]]


def _cell(cell: CellHandle) -> _Written:
    names = _cell_names(cell)
    log = cell._log if isinstance(cell, LoggingCell) else None
    update = [
        *_admitted(cell, "self.clear()"),
        "key = cursor.key",
        *_guarded([*_logged(log, names, "value"), "table[key] = value"]),
    ]
    source = _method("value(self)", ["return get_entry(cursor.key)"])
    source += _method("update(self, value)", update)
    source += _clear(log, names)
    calls: _Calls = {"value": ("cell_value", {}), "update": ("cell_update", {}), "clear": ("clear_entry", {})}
    return _Written(source, names, calls, cell._admission)


def _clear(log: MutationLog | None, names: _Names, operation: str | None = None) -> str:
    """The lines of ``clear`` of a table without maps."""
    names["CLEARED"] = CLEARED
    clear = ["key = cursor.key"]
    if log is not None:
        clear += ["if get_entry(key) is None:", "    return"]
    clear += _guarded([*_logged(log, names, "CLEARED", operation), "table.pop(key, None)"])
    return _method("clear(self)", clear)


def _expiring_cell(cell: TtlCell) -> _Written:
    """In C alone, where the calls of the cell under it are: what it asks itself in Python is its class's to do."""
    inner = cell._inner
    beneath = [vars(type(inner)).get(name) for name in ("value", "update")]
    in_c = CALLS is not None and not any(call is None or isinstance(call, FunctionType) for call in beneath)
    if CALLS is None or not in_c or isinstance(inner, CopyingCell):
        return _Written("", {}, {}, cell._admission)
    names = _cell_names(inner)
    if isinstance(inner, LoggingCell):
        _logged(inner._log, names, "value")
    names |= {
        "fits": cell._fits,
        "clock": CALLS.wall_ms if cell._clock is wall_ms else cell._clock,
        "ttl_ms": cell._ttl_ms,
        "renew": cell._renew or None,
        "sweep": cell._sweep if cell._per_access else None,
    }
    calls: _Calls = {"value": ("expiring_value", {}), "update": ("expiring_update", {})}
    return _Written("", names, calls, cell._admission)


def _copying_cell(cell: CopyingCell) -> _Written:
    names = _cell_names(cell) | {"fits": cell._fits, "copy": cell._copy, "freeze": cell._freeze}
    names["copy_out"] = cell._copy_out
    frozen = [] if cell._freeze is None else ["frozen = freeze(value)"]
    copied = [
        "if value is None:",
        "    return self.clear()",
        "if not fits(value):",
        "    value = admit(value)",
        *frozen,
        "value = copy(value)",
    ]
    names["quick_copy"] = quick_copy = cell._admission.quick_copy
    if quick_copy is not None and not frozen:
        copied = [
            "given, value = value, quick_copy(value)",
            "if value is None:",
            "    if given is None:",
            "        return self.clear()",
            "    value = copy(admit(given))",
        ]
    update = [
        *copied,
        "key = cursor.key",
        *_guarded([*_logged(cell._log, names, "frozen" if frozen else "value"), "table[key] = value"]),
    ]
    value = ["value = get_entry(cursor.key)", "return None if value is None else copy_out(value)"]
    source = _method("value(self)", value)
    source += _method("update(self, value)", update)
    source += _clear(cell._log, names)
    calls: _Calls = {"value": ("cell_value", {}), "clear": ("clear_entry", {})}
    if not frozen:
        calls["update"] = ("copying_update", {})
    return _Written(source, names, calls, cell._admission)


def _reducing(handle: ReducingHandle) -> _Written:
    cell = handle._cell = compiled(handle._cell)
    handle._value = cell.value
    names: _Names = {"reduce": handle._reduce}
    names["present"], names["fits"] = handle._admission.present, handle._fits
    test = "value is None" if handle._fits is None else "value is None or not fits(value)"
    add = ["before = cell_value()", "if before is not None:", "    value = reduce(before, value)"]
    add += [f"if {test}:", "    value = present(value)"]
    if isinstance(cell, CopyingCell):
        names |= _cell_calls(cell)
        add.append("cell_update(value)")
    else:  # a value that fits needs no second look
        names |= _cell_names(cell)
        add[0] = "before = get_entry(cursor.key)"
        log = cell._log if isinstance(cell, LoggingCell) else None
        if handle._fits is None:
            add[-2:] = [*_admitted(cell, "present(value)")]
        add += ["key = cursor.key", *_guarded([*_logged(log, names, "value"), "table[key] = value"])]
    source = _method("add(self, value)", add)
    source += _method("begins(self, value)", [*add, "return before is None"])
    cell_names = {"cursor": cell._cursor, "table": cell._table, "guard": handle._admission.guard}
    calls: _Calls = {"add": ("reducing_add", cell_names), "begins": ("reducing_begins", cell_names)}
    return _Written(source, names, calls, handle._admission)


def _cell_calls(cell: CopyingCell) -> _Names:
    """The methods of the cell under a handle that has no shorter way."""
    return {"cell_value": cell.value, "cell_update": cell.update}


def _aggregating(handle: AggregatingHandle) -> _Written:
    cell = handle._cell = compiled(handle._cell)
    names: _Names = {"function": handle._function}
    add = [
        "before = cell_value()",
        "first = before is None",
        "if first:",
        "    before = function.create_accumulator()",
        "value = function.add(value, before)",
    ]
    names["accumulated"], of_none = handle.accumulated, "accumulated(before, value, 'add')"
    if isinstance(cell, CopyingCell):
        names |= _cell_calls(cell)
        add += ["if value is None:", f"    {of_none}", "cell_update(value)"]
    else:
        names |= _cell_names(cell) | {"clear": cell.clear}
        of_none += " or clear()"
        add[0] = "before = get_entry(cursor.key)"
        log = cell._log if isinstance(cell, LoggingCell) else None
        add += [*_admitted(cell, f"{of_none} or first"), "key = cursor.key"]
        add += _guarded([*_logged(log, names, "value"), "table[key] = value"])
    source = _method("begins(self, value)", [*add, "return first"])
    add = [line.replace(f"{of_none} or first", of_none) for line in add]
    source += _method("add(self, value)", add)
    cell_names = {"cursor": cell._cursor, "table": cell._table, "guard": cell._admission.guard}
    calls: _Calls = {"add": ("aggregating_add", cell_names), "begins": ("aggregating_begins", cell_names)}
    return _Written(source, names, calls, cell._admission)


def _list(handle: ListHandle) -> _Written:
    names: _Names = {
        "cursor": handle._cursor,
        "table": handle._table,
        "guard": handle._admission.guard,
        "get_entry": handle._table.get,
        "fits": handle._fits,
        "present": handle._admission.present,
        "quick_copy": handle._admission.quick_copy,
        "copy": handle._copy,
        "copy_out": handle._copy_out,
        "freeze": handle._freeze,
    }
    out = "[copy_out(value) for value in entry]" if handle._mutable else "entry.copy()"
    get = ["entry = get_entry(cursor.key)", "if entry is None:", "    return []", f"return {out}"]
    source = _method("add(self, value)", _list_add(handle, names))
    source += _method("begins(self, value)", [*_list_add(handle, names, begins=" True"), "return False"])
    source += _method("update(self, values)", _list_update(handle, names))
    source += _clear(handle._log, names, CLEAR) + _method("get(self)", get)
    return _Written(source, names, _list_calls(handle), handle._admission)


def _list_add(handle: ListHandle, names: _Names, begins: str = "") -> list[str]:
    """The lines of ``add``.

    Args:
        begins: what is returned where the list begins.
    """
    frozen = "value" if handle._freeze is None else "frozen"
    return [
        *_admitted_element(handle),
        *([] if handle._freeze is None else ["frozen = freeze(value)"]),
        "key = cursor.key",
        *_guarded(
            [
                *_logged(handle._log, names, frozen, APPEND),
                "entry = get_entry(key)",
                "if entry is None:",
                "    table[key] = [value]",
                f"    return{begins}",
                "entry.append(value)",
                *_changed(handle._table),
            ]
        ),
    ]


def _admitted_element(handle: ListHandle) -> list[str]:
    """The lines that check ``value``, and make it the list's own."""
    if handle._mutable and handle._freeze is None and handle._admission.quick_copy is not None:
        return [
            "given, value = value, quick_copy(value)",
            "if value is None:",
            "    value = copy(present(given))",
        ]
    copied = ["value = copy(value)"] if handle._mutable else []
    return ["if not fits(value):", "    value = present(value)", *copied]


def _list_update(handle: ListHandle, names: _Names) -> list[str]:
    frozen = "values" if handle._freeze is None else "frozen"
    return [
        "values = [*values]",
        "for value in values:",
        "    if not fits(value):",
        "        values = [value if fits(value) else present(value) for value in values]",
        "        break",
        *(["values = [copy(value) for value in values]"] if handle._mutable else []),
        "if not values:",
        "    return self.clear()",
        *([] if handle._freeze is None else ["frozen = [freeze(value) for value in values]"]),
        "key = cursor.key",
        *_guarded([*_all_logged(handle._log, names, frozen), "table[key] = values"]),
    ]


def _list_calls(handle: ListHandle) -> _Calls:
    copies: _Names = {} if handle._mutable else {"copy": None, "copy_out": None}
    adds = {**copies, "first_operation": APPEND, "next_operation": APPEND}
    calls: _Calls = {
        "get": ("list_get", copies),
        "clear": ("clear_entry", {"first_operation": CLEAR, "next_operation": CLEAR}),
    }
    if handle._freeze is None:
        calls |= {"add": ("list_add", adds), "begins": ("list_begins", adds)}
        calls["update"] = ("list_update", {**copies, "first_operation": REPLACE, "next_operation": APPEND})
    return calls


def _map(handle: MapHandle) -> _Written:
    names: _Names = {
        "cursor": handle._cursor,
        "table": handle._table,
        "guard": handle._admission.guard,
        "get_entry": handle._table.get,
        "exact_key": handle._exact_key,
        "identity": handle._identity,
        "copy_out": handle._copy_out,
        "put_general": MapHandle.put,
    }
    identity = "identity(map_key)"
    if handle._exact_key is not None:
        identity = f"map_key if type(map_key) is exact_key else {identity}"
    get = ["entry = get_entry(cursor.key)", "if entry is None:", "    return None"]
    get += (
        [f"value = entry.get({identity})", "return copy_out(value)"]
        if handle._mutable
        else [f"return entry.get({identity})"]
    )
    source = _method("get(self, map_key)", get)
    source += _lines(0, ["__getitem__ = get"])
    if handle._exact_key is not None and handle._exact_value is not None:
        names["exact_value"] = handle._exact_value
        source += _method("put(self, map_key, value)", _map_put(handle, names))
        source += _lines(0, ["__setitem__ = put"])
    return _Written(source, names, _map_calls(handle), handle._admission)


def _map_put(handle: MapHandle, names: _Names) -> list[str]:
    return [
        "if type(value) is not exact_value or type(map_key) is not exact_key:",
        "    return put_general(self, map_key, value)",
        "key = cursor.key",
        *_guarded(
            [
                *_logged(handle._log, names, "value", PUT),
                "entry = get_entry(key)",
                "if entry is None:",
                "    table[key] = {map_key: value}",
                "    return",
                "entry[map_key] = value",
                *_changed(handle._table),
            ]
        ),
    ]


def _map_calls(handle: MapHandle) -> _Calls:
    log, mutable = handle._log, handle._mutable
    values: _Names = {
        "fits": handle._fits,
        "copy": handle._copy if mutable else None,
        "quick_copy": handle._admission.quick_copy,
        "first_operation": PUT,
        "next_operation": PUT,
    }
    if log is not None:
        values |= {
            "log_keys": log.keys,
            "log_map_keys": log.map_keys,
            "log_values": log.values,
            "log_operations": log.operations,
            "log_times": log.times,
        }
    reads: _Names = {} if mutable else {"copy_out": None}
    calls: _Calls = {
        "get": ("map_get", reads),
        "__getitem__": ("map_get", reads),
        "contains": ("map_contains", reads),
        "__contains__": ("map_contains", reads),
    }
    if handle._freeze is None:
        calls |= {"put": ("map_put", values), "__setitem__": ("map_put", values)}
    return calls


# What Python's own errors call a handle: "'ValueState' object has no attribute 'get'".
_SHOWN: dict[type, str] = {
    CellHandle: "ValueState",
    LoggingCell: "ValueState",
    CopyingCell: "ValueState",
    ReducingHandle: "ReducingState",
    AggregatingHandle: "AggregatingState",
    ListHandle: "ListState",
    MapHandle: "MapState",
    TtlCell: "ValueState",
}
_WRITERS: dict[type, Callable[[Any], _Written]] = {
    CellHandle: _cell,
    LoggingCell: _cell,
    CopyingCell: _copying_cell,
    ReducingHandle: _reducing,
    AggregatingHandle: _aggregating,
    ListHandle: _list,
    MapHandle: _map,
    TtlCell: _expiring_cell,
}
