"""A compiled handle gives, logs and raises what the handle of its class does: both are driven side by side."""

from __future__ import annotations

import copy
import enum
import linecache
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import NoCurrentKeyError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.operators.failures import user_traceback
from changelog_engine.state import factory
from changelog_engine.state.compiled_handles import compiled, general
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.handles import ReducingHandle
from changelog_engine.types import Row, RowKind, Types

LONGS = Types.TUPLE([Types.LONG(), Types.LONG()])
ROWS = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
TYPES = [
    Types.LONG(),
    Types.INT(),
    Types.STRING(),
    Types.FLOAT(),
    LONGS,
    ROWS,
    Types.LIST(Types.LONG()),
    Types.PICKLED_BYTE_ARRAY(),
]
VALUES = st.sampled_from(
    [
        None,
        0,
        1,
        -5,
        2**31,
        2**63,
        1.5,
        0.1,
        True,
        "x",
        (1, 2),
        (1, "x"),
        [1, 2],
        ["x"],
        Row(a=1, b="x"),
        Row(1, "y"),
        Row(a=1.5, b="x"),
        Row.of_kind(RowKind.DELETE, a=1, b="x"),
    ]
)
MAP_KEYS = st.sampled_from([None, 1, True, "x", 2**70, 1.0])


class Last:
    """Keeps the newest value; of some it gives none, at others it fails."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        if value == -5:
            raise ValueError(f"{value} after {accumulator}")
        return None if value == "x" else value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def reduce(self, before: Any, value: Any) -> Any:
        return self.add(value, before)


CALLS = {
    StateKind.VALUE: [("value",), ("update", VALUES), ("update", VALUES), ("clear",)],
    StateKind.REDUCING: [("get",), ("add", VALUES), ("begins", VALUES), ("clear",)],
    StateKind.AGGREGATING: [("get",), ("add", VALUES), ("begins", VALUES), ("clear",)],
    StateKind.LIST: [
        ("get",),
        ("add", VALUES),
        ("begins", VALUES),
        ("update", st.lists(VALUES, max_size=3)),
        ("clear",),
    ],
    StateKind.MAP: [
        ("get", MAP_KEYS),
        ("put", MAP_KEYS, VALUES),
        ("put", MAP_KEYS, VALUES),
        ("__setitem__", MAP_KEYS, VALUES),
        ("__getitem__", MAP_KEYS),
        ("remove", MAP_KEYS),
        ("clear",),
    ],
}


class Side:
    """One handle with its own table, log and cursor."""

    def __init__(self, spec: StateSpec, logged: bool, timed: bool, compile_it: bool) -> None:
        self.cursor, self.table = Cursor(), dict[Any, Any]()
        self.log = ChangelogBuffer(Types.STRING(), timed, 128).log_of("op", spec) if logged else None
        self.handle = factory._handle(factory.OpenState("op", spec, spec, self.table, self.cursor, self.log))
        if compile_it:
            self.kind = type(self.handle)
            compiled(self.handle)
            assert type(self.handle) is not self.kind

    def call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.handle, name)(*arguments)
        except Exception as error:
            return type(error), str(error)

    def seen(self) -> Any:
        log = self.log
        if log is None:
            return repr(self.table)
        return repr((self.table, log.keys, log.values, log.map_keys, log.operations, log.times))


@pytest.mark.parametrize("kind", list(CALLS))
@pytest.mark.parametrize("logged", [True, False], ids=["log", "no log"])
@given(data=st.data())
def test_a_compiled_handle_does_what_its_class_does(
    kind: StateKind, logged: bool, data: st.DataObject
) -> None:
    function = Last() if kind in (StateKind.REDUCING, StateKind.AGGREGATING) else None
    key_type = data.draw(st.sampled_from([Types.LONG(), Types.STRING(), Types.DOUBLE()]))
    spec = StateSpec(
        "s",
        kind,
        data.draw(st.sampled_from(TYPES)),
        map_key_type=key_type if kind is StateKind.MAP else None,
        function=function,
    )
    timed = data.draw(st.booleans())
    sides = [Side(spec, logged, timed, compile_it) for compile_it in (False, True)]
    for key in data.draw(st.lists(st.sampled_from([None, "k", "l"]), max_size=12)):
        name, *strategies = data.draw(st.sampled_from(CALLS[kind]))
        arguments = [data.draw(strategy) for strategy in strategies]
        answers = []
        for side in sides:
            if key is None:
                side.cursor.leave()
            else:
                side.cursor.key, side.cursor.timestamp = key, 7
            answers.append(side.call(name, *arguments))
        assert repr(answers[0]) == repr(answers[1]), (name, arguments)
        assert sides[0].seen() == sides[1].seen(), (name, arguments)


def test_what_a_compiled_handle_gives_is_the_callers_own() -> None:
    side = Side(StateSpec("s", StateKind.VALUE, ROWS), True, False, True)
    side.cursor.key = "k"
    row = Row(a=1, b="x")
    side.handle.update(row)
    row["a"] = 2
    side.handle.value()["a"] = 3
    assert side.handle.value() == side.log.values[0] == Row(a=1, b="x")


@pytest.mark.parametrize(
    "row",
    [
        Row(a=1, b="x"),
        Row(a=None, b=None),
        copy.copy(Row(a=1, b="x")),
        Row.of_kind(RowKind.DELETE, a=1, b="x"),
        Row(1, "x"),
        Row(a=1),
        Row(a=1, b=2),
        Row(a=2**63, b="x"),
        (1, "x"),
        None,
    ],
)
def test_a_quick_copy_is_the_copy_of_what_fits(row: Any) -> None:
    quick_copy, fits = ROWS.quick_copy(), ROWS.quick_test()
    assert quick_copy is not None
    assert fits is not None
    found = quick_copy(row)
    assert found == (ROWS.copy(row) if fits(row) else None)  # rows of other kinds differ
    if found is not None:
        found["a"] = 7
        assert row["a"] != 7
        assert quick_copy(Row(a=1, b="x"))["a"] == 1


def test_a_quick_copy_has_its_fields_in_the_types_order() -> None:
    row, unnamed = Row(b="x", a=1), Types.ROW([Types.LONG(), Types.LONG()])
    assert ROWS.quick_copy()(row) == ROWS.check(row) == Row(a=1, b="x")
    assert unnamed.quick_copy()(Row(f1=1, f0=2)) is None  # such a type goes by places
    assert unnamed.quick_copy()(Row(f0=2, f1=1)) == unnamed.check(Row(f1=2, f0=1)) == Row(f0=2, f1=1)


class Field(enum.StrEnum):
    """Names as an enum has them, which Python shows as ``<Field.A: 'a'>``."""

    A = "a"
    B = "b"


def test_names_of_fields_may_be_of_a_class_derived_from_text() -> None:
    rows, other = Types.ROW_NAMED([*Field], [Types.LONG(), Types.STRING()]), Row(a=1, b="x")
    assert rows.quick_copy()(other) == rows.copy_out()(rows.copy(other)) == other
    assert list(map(type, rows.get_field_names())) == [str, str]
    texts, _ = codec_for(rows).encode_many([rows.copy(other)] * 2, admitted=True)
    assert texts.to_pylist() == ['{"a":1,"b":"x"}'] * 2


@pytest.mark.parametrize("names", [["a", "b"], ["keys", "b"], ["__dict__", "_list"]])
def test_what_is_copied_out_of_state_is_another_row_of_the_same_fields(names: list[str]) -> None:
    rows = Types.ROW_NAMED(names, [Types.LONG(), Types.STRING()])
    read = rows.copy_out()
    assert read(None) is None
    for kind in RowKind:
        given = Row(1, "x")
        given.set_field_names(names)
        given.set_row_kind(kind)
        kept = rows.copy(given)
        found = read(kept)
        assert found == given == read(found)
        assert found.get_row_kind() is kind
        found[names[0]], found[1] = 2, None
        assert kept == given != found
        assert [found[name] for name in names] == [2, None]


def test_types_whose_copies_share_something_have_no_quick_copy() -> None:
    assert Types.ROW([Types.PICKLED_BYTE_ARRAY()]).quick_copy() is None
    assert Types.ROW([Types.LIST(Types.LONG())]).quick_copy() is None
    assert Types.LIST(Types.LONG()).quick_copy() is None


def test_tracebacks_leave_the_compiled_code_out_and_profilers_see_it() -> None:
    side = Side(StateSpec("s", StateKind.REDUCING, Types.LONG(), function=Last()), True, False, True)
    side.cursor.key = "k"
    side.handle.add(1)
    with pytest.raises(ValueError, match="-5 after 1") as failed:
        side.handle.add(-5)
    assert "reduce" in user_traceback(failed.value)
    assert "reduce(before, value)" not in user_traceback(failed.value)
    [line] = [
        frame for frame in traceback.extract_tb(failed.tb) if frame.name == "add" and "<" in frame.filename
    ]
    assert line.line == "value = reduce(before, value)"
    assert linecache.getline(line.filename, 1).startswith("def add")
    assert isinstance(side.handle, ReducingHandle)
    general(side.handle)
    assert type(side.handle) is ReducingHandle
    side.cursor.leave()
    with pytest.raises(NoCurrentKeyError):
        side.handle.add(1)
