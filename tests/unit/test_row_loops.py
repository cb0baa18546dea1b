"""The loops in C (types/row_loops.py) do what the functions in Python do; they are built anew of their source."""

from __future__ import annotations

import contextlib
import datetime
import enum
import gc
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.extensions import loaded
from support.same import same

from changelog_engine.changelog import logged_keys
from changelog_engine.codec import columns
from changelog_engine.errors import UnknownFieldError
from changelog_engine.extension import why_not
from changelog_engine.graph import key_groups
from changelog_engine.operators import blocks
from changelog_engine.types import Row, RowKind, Types, composite, copies, row, row_loops
from changelog_engine.types.row import (
    columns_of_rows,
    dicts_of_rows,
    field_names_of,
    make_row,
    rows_of_columns,
)

SOURCE = Path(row_loops.__file__).with_name("_row_loops.c")
NAMES = ["a", "b", "c"]
DECLARED = [
    Types.ROW_NAMED(NAMES, [Types.LONG(), Types.STRING(), Types.DOUBLE()]),
    Types.ROW_NAMED(NAMES, [Types.BYTE(), Types.BIG_INT(), Types.BOOLEAN()]),
    Types.ROW([Types.LONG(), Types.LONG(), Types.LONG()]),
    Types.ROW_NAMED(["a"], [Types.LONG()]),
    Types.TUPLE([Types.LONG(), Types.STRING(), Types.DOUBLE()]),
]


class _Int(int):
    pass


class _Text(str):
    pass


class _Row(Row):
    pass


def _half_made() -> Row:
    return Row.__new__(Row)


PARTS = st.one_of(
    st.sampled_from(
        [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 127, 128, -129, 10**30, _Int(1), _Text("x"), True]
    ),
    st.none(),
    st.integers(-5, 5),
    st.floats(allow_nan=False),
    st.text(max_size=2),
    st.lists(st.integers(0, 1), max_size=1),
)
FITTING = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=2), st.none() | st.floats()
)
FIELDS = st.one_of(FITTING, st.lists(PARTS, min_size=1, max_size=4))
SHAPES = st.sampled_from(
    [NAMES, NAMES, ["b", "a", "c"], ["f0", "f1", "f2"], ["a"], [_Text("a"), "b", "c"], ["a", "b", "c", "d"]]
)


@st.composite
def rows(draw: st.DrawFn) -> Any:
    """Rows of every form, and what isn't one."""
    values = list(draw(FIELDS))
    names = draw(SHAPES)[: len(values)]
    form = draw(
        st.sampled_from(
            ["spread", "spread", "compact", "compact", "unnamed", "tuple", "derived", "half", "value"]
        )
    )
    if form == "spread":
        return Row(**dict(zip(names, values, strict=False)))
    if form == "compact":  # as state keeps them; some have too few values
        return make_row(
            [*names], values, draw(st.sampled_from([RowKind.INSERT, RowKind.INSERT, RowKind.DELETE]))
        )
    if form == "derived":
        return _Row(**dict(zip(names, values, strict=False)))
    others = {"unnamed": Row(*values), "tuple": tuple(values), "half": _half_made(), "value": values[0]}
    return others[form]


@pytest.fixture(scope="module")
def loops(extensions: Path) -> ModuleType:
    """The extension as its source is now."""
    module = loaded("changelog_engine.types._row_loops", extensions)
    module.bind(Row, RowKind.INSERT, row._TAKEN | {"self"})
    module.bind_immutable(copies.IMMUTABLE)
    return module


def _in_python(make: Any, *arguments: Any) -> Any:
    with contextlib.ExitStack() as stack:
        for module in (blocks, composite, copies, row):
            stack.enter_context(mock.patch.object(module, "LOOPS", None))
        stack.enter_context(mock.patch.object(copies, "_is_flat_row", None))
        return make(*arguments)


def _outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """What it gives, with the form and the names of rows; or how it fails."""
    try:
        result = function(*arguments)
    except Exception as error:
        return type(error)
    return result, [
        _parts(each) for each in (result if type(result) is list else [result]) if isinstance(each, Row)
    ]


def _parts(each: Row) -> tuple[Any, ...]:
    return each._list is None, field_names_of(each), each.get_row_kind(), [*each]


@given(st.sampled_from(DECLARED), rows())
def test_tests_and_copies(loops: ModuleType, declared: Any, value: Any) -> None:
    tests = composite._field_tests(declared)
    names = declared.get_field_names() if declared.kind == "ROW" else None
    kinds = {composite._test_of: "test"}
    if names is not None:
        kinds |= {composite._copier_of: "copy", composite._reader_of: "read"}
    for make, kind in kinds.items():
        reference = _in_python(make.__wrapped__, declared)
        compiled = loops.loop_of(kind, names, () if kind == "read" else tests, reference)
        before = _outcome(repr, value)
        assert same(_outcome(compiled, value), _outcome(reference, value))
        assert _outcome(repr, value) == before


@given(st.lists(rows(), max_size=4), SHAPES)
def test_columns_and_dicts(loops: ModuleType, values: list[Any], names: list[str]) -> None:
    found = loops.columns_of(values)
    assert found is None or same(found, _in_python(columns_of_rows, values))
    dicts = loops.dicts_of(values, names)
    assert dicts is None or same(dicts, _in_python(dicts_of_rows, values, names))
    assert dicts is None or [[*each] for each in dicts] == [names] * len(values)


@given(st.lists(st.lists(PARTS, min_size=2, max_size=3), min_size=1, max_size=4), SHAPES)
def test_rows_of_columns(loops: ModuleType, columns: list[list[Any]], names: list[str]) -> None:
    make = _in_python(row._maker_of.__wrapped__, tuple(map(str, names)))
    compiled = loops.loop_of("make", [*map(str, names)], (), make)
    assert same(_outcome(compiled, columns), _outcome(make, columns))


class _Meta(type):
    """Classes whose own hash is an error, as that of an immutable class could be."""

    def __hash__(cls) -> int:
        raise AssertionError("the hash of a class was asked for")


class _Odd(metaclass=_Meta):
    pass


class _Colour(enum.Enum):
    RED = 1


MIXED = st.one_of(
    PARTS,
    st.sampled_from(
        [RowKind.INSERT, b"x", np.int64(1), datetime.date(2026, 1, 1), _Colour.RED, {}, (1, []), Row(a=1)]
    ),
)
ROWS_OF_ALL = st.one_of(
    rows(), st.builds(Row, a=MIXED, b=MIXED), st.builds(lambda *values: make_row([*"ab"], [*values]), MIXED)
)


@given(ROWS_OF_ALL)
def test_flat_rows(loops: ModuleType, value: Any) -> None:
    flat = loops.is_flat(value)
    assert flat is False or (type(value) is Row and copies.IMMUTABLE.issuperset(map(type, value)))
    plain = _outcome(lambda: {int, str, float}.issuperset(map(type, value)))
    if type(value) is Row and plain == (True, []):
        assert flat is True


@given(st.lists(ROWS_OF_ALL, max_size=4))
def test_copies(loops: ModuleType, values: list[Any]) -> None:
    found = loops.copies_of(values)
    if found is None:
        return
    assert same(_outcome(list, found), _outcome(_in_python, copies.separate, values))
    for new, old in zip(found, values, strict=True):
        assert new is not old
        assert new._list is None
        assert all(one is other for one, other in zip(new, old, strict=True))
        before = _parts(old)
        new[0] = "another"
        assert same(_parts(old), before)


@given(st.one_of(st.lists(MIXED), st.lists(st.integers(-(2**64), 2**64)), st.lists(st.floats())))
def test_words(loops: ModuleType, values: list[Any]) -> None:
    found = loops.words_of(values)
    if found is None:
        assert not values or not {int, str, float, type(None)}.issuperset(map(type, values))
        return
    column = _in_python(blocks.column_of, values)
    if found is True:
        assert column is values
        assert copies.IMMUTABLE.issuperset(map(type, values))
        return
    with mock.patch.object(blocks, "LOOPS", loops):
        again = blocks.column_of(values)
    assert isinstance(column, np.ndarray)
    assert isinstance(again, np.ndarray)
    assert again.dtype.char == column.dtype.char
    assert again.flags.writeable
    assert again.tobytes() == column.tobytes()


NAMED = st.builds(
    lambda values: Row(**dict(zip(NAMES, values, strict=True))), FITTING | st.tuples(*[PARTS] * 3)
)


@given(st.lists(NAMED | rows(), min_size=1, max_size=3), st.sets(st.integers(0, 31), min_size=1, max_size=4))
def test_columns_of_elements(loops: ModuleType, some: list[Any], chosen: set[int]) -> None:
    """What moves to other tasks is the same, however it was made."""
    values = [*some * 32][:32]
    places = np.array(sorted(chosen), np.int64)

    def packed() -> Any:
        column = blocks.column_of(values)
        return blocks._pack(column, {}), blocks._pack(blocks.select(column, places), {})

    with mock.patch.object(blocks, "LOOPS", loops), mock.patch.object(row, "LOOPS", loops):
        compiled = _outcome(packed)
    with mock.patch.object(Row, "__repr__", object.__repr__):  # half a row has none of its own
        assert same(compiled, _outcome(_in_python, packed))


def test_classes_with_a_hash_of_their_own_are_not_asked(loops: ModuleType) -> None:
    odd = _Odd()
    assert loops.is_flat(Row(a=odd)) is False
    assert loops.copies_of([Row(a=1), Row(a=odd)]) is None
    assert loops.words_of([1, odd]) is None
    with pytest.raises(TypeError, match="a frozenset"):
        loops.bind_immutable({int})


def test_an_extension_of_another_source_is_not_used(loops: ModuleType, tmp_path: Path) -> None:
    assert why_not(loops, SOURCE) is None
    for other in (SimpleNamespace(SOURCE="00000000"), SimpleNamespace(VERSION=1)):
        assert why_not(other, SOURCE) == "it was built of another source than the one beside it"  # type: ignore[arg-type]
    changed = tmp_path / "_row_loops.c"
    changed.write_bytes(SOURCE.read_bytes() + b"\n")
    assert why_not(loops, changed) == "it was built of another source than the one beside it"
    changed.unlink()
    assert "cannot be read" in str(why_not(loops, changed))


def test_ordinary_rows_never_reach_the_reference(loops: ModuleType) -> None:
    """Else all comparisons above could be of the reference with itself."""
    declared = DECLARED[0]
    tests = composite._field_tests(declared)
    spread = Row(a=1, b=None, c=0.5)
    named = "".join(["a", ""]), "b", "c"  # names need not be the same objects
    compact = make_row([*named], [1, None, 0.5])

    def never(value: Any) -> Any:
        raise AssertionError(f"the reference was asked for {value!r}")

    for each in (spread, compact):
        assert loops.loop_of("test", NAMES, tests, never)(each) is True
        assert loops.loop_of("copy", NAMES, tests, never)(each) == spread
    assert loops.loop_of("test", None, tests, never)((1, "x", 0.5)) is True
    assert loops.loop_of("read", NAMES, (), never)(compact) == spread
    assert loops.loop_of("make", NAMES, (), never)([[1], [None], [0.5]]) == [spread]
    assert loops.columns_of([spread, spread]) == (NAMES, [[1, 1], [None, None], [0.5, 0.5]])
    assert loops.dicts_of([compact], NAMES) == [{"a": 1, "b": None, "c": 0.5}]
    assert loops.is_flat(spread) is True
    assert loops.is_flat(compact) is True
    for _ in range(2):
        assert loops.made_row(a=1, b=None, c=0.5) == spread
    assert loops.made_row(1, "a") == _initialized(1, "a")
    assert loops.made_row() == _initialized()
    assert loops.copies_of([spread, spread]) == [spread, spread]
    assert loops.words_of([1, -(2**63), 2**63 - 1])[0] is int
    assert loops.words_of([0.5, float("nan")])[0] is float
    assert loops.words_of([1, 2**63]) is True
    assert loops.words_of(["a", None]) is True
    with pytest.raises(AssertionError, match="asked for 7"):
        loops.loop_of("read", NAMES, (), never)(7)


@given(
    st.lists(MIXED),
    st.sampled_from([list, tuple, iter, lambda values: dict.fromkeys(range(2), values).values()]),
)
def test_classes(loops: ModuleType, values: list[Any], given_as: Callable[[list[Any]], Any]) -> None:
    assert loops.classes_of(given_as(values)) == set(map(type, given_as(values)))


def test_classes_with_a_hash_of_their_own(loops: ModuleType) -> None:
    with pytest.raises(AssertionError, match="the hash of a class"):
        loops.classes_of([1, _Odd()])
    with pytest.raises(TypeError, match="classes are those"):
        loops.classes_of(1)
    values: list[Any] = []

    class _Emptying(type):
        def __hash__(cls) -> int:
            values.clear()
            return 1

    class _Emptied(metaclass=_Emptying):
        pass

    values += [_Emptied(), 1, _Emptied()]
    assert loops.classes_of(values) == {_Emptied}


NAMES_OF_ATTRIBUTES = [
    *NAMES,
    "d",
    "_a",
    "\u20ac",
    "_list",
    "_names",
    "_own",
    "_row_kind",
    "_fields",
    "__class__",
    "__dict__",
]


@given(ROWS_OF_ALL | st.builds(lambda value: Row(**{"\u20ac": value, "_a": 1, "d": 2}), MIXED))
def test_attributes_are_those_that_python_finds(value: Any) -> None:
    """Where Rows are made in C, their fields are found there, too."""

    def found_by_python(name: str) -> Any:
        try:
            return object.__getattribute__(value, name)
        except AttributeError:
            return Row.__getattr__(value, name)

    if not isinstance(value, Row):
        return
    for name in NAMES_OF_ATTRIBUTES:
        assert same(_outcome(getattr, value, name), _outcome(found_by_python, name))


def test_attributes_of_classes_derived_from_row() -> None:
    class Named(Row):
        @property
        def a(self) -> str:
            return "mine"

    assert (Named(a=1).a, Named(b=2).b) == ("mine", 2)


def test_fields_are_held_as_often_as_before() -> None:
    value = object()
    made = Row(a=value)
    before, fields = sys.getrefcount(value), sys.getrefcount(made._own)
    for _ in range(50):
        assert made.a is value
        assert made.as_dict() == {"a": value}
        with pytest.raises(UnknownFieldError, match="there is no field 'b': the row has the fields a"):
            _ = made.b
    assert (sys.getrefcount(value), sys.getrefcount(made._own)) == (before, fields)


def _initialized(*values: Any, **fields: Any) -> Row:
    """What Row.__init__ makes."""
    made = Row.__new__(Row)
    made.__init__(*values, **fields)  # type: ignore[misc]
    return made


NAMES_OF_FIELDS = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "_a",
        "\u20ac",
        "",
        "\ud800",
        "get_row_kind",
        "_values",
        "_list",
        "__class__",
        "__copy__",
        "self",
    ]
)


@given(
    st.lists(PARTS, max_size=3) | st.just([]),
    st.dictionaries(NAMES_OF_FIELDS | st.just(_Text("a")), PARTS, max_size=4),
)
def test_rows_that_a_program_makes(loops: ModuleType, values: list[Any], fields: dict[str, Any]) -> None:
    wanted = _outcome(lambda: _initialized(*values, **fields))
    assert same(_outcome(lambda: Row(*values, **fields)), wanted)
    found = loops.made_row(*values, **fields)
    if found is not None:
        assert same(_outcome(lambda: found), wanted)
        assert [*map(type, field_names_of(found) or ())] == [str] * len(fields)
    else:
        assert fields
        assert values or not {*row._TAKEN, "self"}.isdisjoint(fields) or {*map(type, fields)} != {str}


def test_a_field_called_self_is_refused_as_python_does() -> None:
    fields = {"self": 1}
    with pytest.raises(TypeError, match="multiple values for argument 'self'"):
        Row(**fields)
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)


def test_classes_derived_from_row_make_their_own() -> None:
    class Named(Row):
        def __init__(self, *values: Any, **fields: Any) -> None:
            super().__init__(*values, **fields)
            self.note = "mine"

    made = Named(a=1)
    assert type(made) is Named
    assert made.note == "mine"
    assert type(_Row(1)) is _Row
    assert made.a == 1


class _Maker:
    """In a cycle of its own; makes rows of many shapes when it is collected, and the next of its kind."""

    def __init__(self, loops: ModuleType, left: int) -> None:
        self.itself, self.loops, self.left = self, loops, left

    def __del__(self) -> None:
        for index in range(200):
            self.loops.made_row(**{f"other{index}": index})
        if self.left:
            _Maker(self.loops, self.left - 1)


def test_rows_of_other_shapes_that_are_made_meanwhile(loops: ModuleType, collecting: None) -> None:
    """What was remembered of a shape is forgotten for another's, also by a finalizer while it is copied."""
    _Maker(loops, 30)
    value = object()
    before = sys.getrefcount(value)
    for _ in range(50):
        for made in (loops.made_row(a=value, b=value), loops.made_row(c=value, d=[value], e=value)):
            assert all(each is value or each == [value] for each in made)
    del made
    assert sys.getrefcount(value) == before


def test_rows_are_held_as_often_as_they_are_used(loops: ModuleType, collecting: None) -> None:
    """No reference is lost or kept, while garbage is collected at each step."""
    value, count = object(), 0
    names = ["a", "b"]
    objects = loops.loop_of("copy", names, (object, object), len)
    read, make = loops.loop_of("read", names, (), len), loops.loop_of("make", names, (), len)
    before = sys.getrefcount(value)
    for _ in range(100):
        spread = make([[value] * 5, [value] * 5])
        compact = [objects(each) for each in spread]
        again = [read(each) for each in compact]
        assert again == spread
        assert loops.columns_of(again) == (names, [[value] * 5] * 2)
        assert loops.columns_of([*again, 7]) is None
        assert loops.dicts_of([*compact, 7], names) is None
        assert loops.dicts_of(compact, names) == [dict.fromkeys(names, value)] * 5
        count += len(again)
    del spread, compact, again
    assert count == 500
    assert sys.getrefcount(value) == before


class _Garbage:
    """In a cycle of its own; the n-th that is collected empties a list."""

    def __init__(self, victim: list[Any], after: int) -> None:
        self.itself, self.victim, self.after = self, victim, after

    def __del__(self) -> None:
        if self.after:
            _Garbage(self.victim, self.after - 1)
        else:
            self.victim.clear()


@pytest.mark.parametrize("after", range(24))
def test_a_list_that_is_emptied_while_it_is_read(
    loops: ModuleType, little_to_collect: None, after: int
) -> None:
    """What allocates may collect garbage, whose finalizers are Python code: it ended the process."""
    compact = [make_row([*NAMES], [object()] * 3) for _ in range(6)]
    expected = [dict(zip(NAMES, each, strict=True)) for each in compact]
    gc.disable()
    _Garbage(compact, after)
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    gc.enable()
    try:
        found = loops.dicts_of(compact, NAMES)
    finally:
        gc.set_threshold(*thresholds)
        gc.collect()
    assert found is None or found == expected


@pytest.fixture
def collecting(little_to_collect: None) -> Iterator[None]:
    """Garbage is collected at each allocation."""
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    yield
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize("after", range(24))
def test_a_list_that_is_emptied_while_it_is_copied(
    loops: ModuleType, little_to_collect: None, after: int
) -> None:
    spread = [Row(a=index, b="b", c=0.5) for index in range(6)]
    expected = [Row(a=index, b="b", c=0.5) for index in range(6)]
    gc.disable()
    _Garbage(spread, after)
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    gc.enable()
    try:
        found = loops.copies_of(spread)
    finally:
        gc.set_threshold(*thresholds)
        gc.collect()
    assert found is None or found == expected


def test_values_are_held_as_often_as_they_are_copied(loops: ModuleType, collecting: None) -> None:
    value, number = "".join(["a", "value"]), 10**15 + 1
    values, mixed = [number] * 5, [number, value, []]
    before = sys.getrefcount(value), sys.getrefcount(number), sys.getrefcount(int)
    for _ in range(100):
        spread = [Row(a=value, b=number) for _ in range(5)]
        assert loops.copies_of(spread) == spread
        assert loops.copies_of([*spread, Row(a=[value])]) is None
        assert loops.copies_of([*spread, 7]) is None
        assert all(map(loops.is_flat, spread))
        assert not loops.is_flat(Row(a=value, b=[number]))
        assert len(loops.words_of(values)[1]) == 40
        assert loops.words_of(mixed) is None
        assert loops.words_of(mixed[:2]) is True
    del spread
    assert (sys.getrefcount(value), sys.getrefcount(number), sys.getrefcount(int)) == before


_SOME = [10**15 + 1, "ab", "a" + "b" * 2, "".join(["a", "bb"]), 1, True, 1.0, None, (1, 2), b"x"]


@given(st.lists(st.sampled_from(_SOME), max_size=200), st.integers(0, 400))
def test_values_are_numbered_by_their_object(loops: ModuleType, values: list[Any], more: int) -> None:
    values = [*values, *(object() for _ in range(more)), *values]
    with mock.patch.object(columns, "LOOPS", loops):
        numbers, firsts = columns.same_objects(values)
    with mock.patch.object(columns, "LOOPS", None):
        expected, expected_firsts = columns.same_objects(values)
    assert firsts == expected_firsts
    assert numbers.to_pylist() == expected.to_pylist()
    assert loops.same_objects(tuple(values)) is None


@given(st.lists(st.lists(st.sampled_from(_SOME), max_size=50), min_size=1, max_size=3))
def test_keys_are_numbered_by_what_they_equal(loops: ModuleType, lists: list[list[Any]]) -> None:
    with mock.patch.object(logged_keys, "LOOPS", loops):
        codes, distinct = logged_keys._numbered(lists)
    with mock.patch.object(logged_keys, "LOOPS", None):
        expected, expected_distinct = logged_keys._numbered(lists)
    assert list(codes) == list(expected)
    assert repr(distinct) == repr(expected_distinct)
    assert loops.equal_values([()], {}) is None


def test_keys_that_cannot_be_numbered_are_an_error(loops: ModuleType) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        loops.equal_values([[1], [[]]], {})
    with pytest.raises(TypeError):
        loops.equal_values([[1]], {1: "x"})


@given(st.lists(st.sampled_from(["put", "clear", "".join(["pu", "t"])]), max_size=20))
def test_constant_texts_are_as_arrow_makes_them(loops: ModuleType, texts: list[str]) -> None:
    with mock.patch.object(columns, "LOOPS", loops):
        found = columns.constant_texts(texts)
    with mock.patch.object(columns, "LOOPS", None):
        assert found.equals(columns.constant_texts(texts))


@given(
    st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**63, 0.5, True, "x", _Int(5)])))
)
def test_ints_are_the_same_words(loops: ModuleType, values: list[Any]) -> None:
    found = []
    for way in (loops, None):
        with mock.patch.object(columns, "LOOPS", way):
            try:
                found.append(columns.int_array(values).to_pylist())
                np.frombuffer(columns.int_words(values), np.int64)[:1] = 7  # it can be written to
            except (TypeError, OverflowError) as error:
                found.append([type(error), str(error)])
    assert found[0] == found[1]


_WHOLE = st.integers(-(2**63), 2**63 - 1)
_WRITTEN = st.recursive(
    st.one_of(st.none(), st.booleans(), _WHOLE, st.text(), st.text(st.characters(max_codepoint=0x7F))),
    lambda inside: st.lists(inside, max_size=3) | st.lists(inside, max_size=3).map(tuple),
    max_leaves=6,
)
_OTHERS = st.sampled_from(
    [2**63, -(2**63) - 1, 0.5, b"x", "\ud800", "é\udfff", {}, _Int(5), _Text("x"), Row(a=1)]
)


def _pieces(found: tuple[bytearray, bytearray]) -> list[bytes]:
    offsets, data = found
    ends = np.frombuffer(offsets, np.int32).tolist()
    assert ends[0] == 0
    assert ends[-1] == len(data)
    return [bytes(data[start:end]) for start, end in pairwise(ends)]


@given(st.lists(_WRITTEN, max_size=6), _OTHERS, st.integers(0, 6))
def test_texts_are_those_of_the_json_writer(
    loops: ModuleType, values: list[Any], other: Any, place: int
) -> None:
    assert _pieces(loops.json_texts(values, None)) == list(map(orjson.dumps, values))
    values.insert(place, other)
    assert loops.json_texts(values, None) is None
    assert loops.json_texts([[1, (other,)]], None) is None
    assert loops.json_texts(tuple(values), None) is None


def test_each_character_is_written_as_json_has_it(loops: ModuleType) -> None:
    characters = [chr(code) for code in (*range(0x900), 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)]
    for texts in (characters, [f"a{character}b" for character in characters], ["".join(characters)]):
        assert _pieces(loops.json_texts(texts, None)) == list(map(orjson.dumps, texts))


def test_values_that_hold_themselves_have_an_end(loops: ModuleType) -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert loops.json_texts([endless], None) is None


@given(st.lists(rows(), min_size=1, max_size=4), SHAPES)
def test_texts_of_rows_are_those_of_their_dicts(loops: ModuleType, some: list[Any], names: list[str]) -> None:
    found = loops.json_texts(some, names)
    dicts = loops.dicts_of(some, names)
    if found is not None:
        assert _pieces(found) == list(map(orjson.dumps, dicts))
    elif dicts is not None:
        assert any(loops.json_texts(list(each.values()), None) is None for each in dicts)


def test_names_of_fields_are_written_as_json_has_them(loops: ModuleType) -> None:
    names = ['"', "é\n", ""]
    compact = [
        make_row(names, [1, "x", None], RowKind.INSERT),
        make_row([*names], [2, "y", [3]], RowKind.INSERT),
    ]
    assert _pieces(loops.json_texts(compact, names)) == [
        orjson.dumps(dict(zip(names, each, strict=True))) for each in compact
    ]
    assert loops.json_texts([make_row(["\ud800"], [1], RowKind.INSERT)], ["\ud800"]) is None


@given(st.lists(_WHOLE, max_size=6), st.sampled_from([2**63, True, 0.5, None, _Int(5)]))
def test_digits_are_those_of_ints(loops: ModuleType, values: list[Any], other: Any) -> None:
    assert _pieces(loops.int_texts(values)) == [b"%d" % value for value in values]
    assert loops.int_texts([*values, other]) is None


_STRINGS = st.lists(
    st.text(max_size=3) | st.sampled_from(["ab", "".join(["a", "b"]), "é", "\ud800"]), max_size=40
)


@given(_STRINGS, st.integers(0, 8), st.sampled_from([_Text("ab"), b"ab", None, []]), st.integers(0, 40))
def test_strings_are_numbered_by_what_they_equal(
    loops: ModuleType, values: list[Any], most: int, other: Any, place: int
) -> None:
    first = list(dict.fromkeys(values))
    found = loops.different_strings(values, most)
    if len(first) > most:
        assert found is None
    else:
        different, words = found
        assert different == first
        numbers = np.frombuffer(words, np.int32) if words else np.empty(0, np.int32)
        assert numbers.tolist() == list(map(first.index, values))
        for kind in (np.uint8, np.uint16, np.uint32):
            back = loops.objects_at(different, numbers.astype(kind).tobytes(), kind().itemsize)
            assert back == values
            assert {id(each) for each in back} <= {id(each) for each in different}
    values.insert(place, other)
    assert loops.different_strings(values, 99) is None
    assert loops.different_strings(tuple(values), 99) is None


def test_many_different_strings_are_numbered(loops: ModuleType) -> None:
    values = [f"{number % 20_000}" for number in range(30_000)]
    different, words = loops.different_strings(values, 20_000)
    assert different == values[:20_000]
    assert np.frombuffer(words, np.int32).tolist() == [number % 20_000 for number in range(30_000)]
    assert loops.different_strings(values, 19_999) is None


@pytest.mark.parametrize(("places", "width"), [(b"\2", 1), (b"\0\1", 2), (b"\xff" * 4, 4)])
def test_a_place_that_is_not_there_is_an_error(loops: ModuleType, places: bytes, width: int) -> None:
    with pytest.raises(IndexError, match="is not one of 2"):
        loops.objects_at(["a", "b"], places, width)
    for odd in (3, 8):
        with pytest.raises(ValueError, match="1, 2 or 4 bytes"):
            loops.objects_at(["a", "b"], bytes(24), odd)
    with pytest.raises(ValueError, match="1, 2 or 4 bytes"):
        loops.objects_at(["a", "b"], bytes(3), 2)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=6),
    _OTHERS.filter(lambda each: each != "x"),
)
def test_checksums_are_those_of_the_texts(loops: ModuleType, values: list[Any], other: Any) -> None:
    expected = [zlib.crc32(orjson.dumps(value)) for value in values]
    assert [*memoryview(loops.string_sums(values)).cast("I")] == expected
    for way in (loops, None):
        with mock.patch.object(key_groups, "LOOPS", way):
            groups = key_groups.key_groups(values, 1000)
        assert groups.dtype == np.int32
        assert groups.tolist() == [key_groups.key_group(value, 1000) for value in values]
    assert loops.string_sums([*values, other]) is None


def test_strings_are_held_as_often_as_before(loops: ModuleType) -> None:
    values = [f"string {number}" for number in range(3000)]
    before = list(map(sys.getrefcount, values))
    for _ in range(5):
        different, words = loops.different_strings(values * 2, 3000)
        assert loops.objects_at(different, bytes(words), 4) == values * 2
        assert loops.different_strings(values, 2000) is None
        assert loops.different_strings([*values, 1], 3000) is None
        with pytest.raises(IndexError):
            loops.objects_at(values, b"\1\0\xff\xff", 2)
        assert loops.string_sums([*values, 1]) is None
        assert len(loops.string_sums(values)) == 12_000
        del different, words
    assert list(map(sys.getrefcount, values)) == before


def test_values_are_held_as_often_as_they_are_written(loops: ModuleType) -> None:
    inside = [10**15, "a" * 100, (1, "b" * 50)]
    values: list[Any] = [*inside, (inside[0], inside[1]), *inside]
    compact = [make_row(NAMES, [*inside], RowKind.INSERT) for _ in range(300)]
    before = list(map(sys.getrefcount, [*inside, *NAMES, NAMES, None]))
    for _ in range(20):
        assert len(loops.json_texts(compact, NAMES)[0]) == 1204
        assert len(loops.json_texts(values, None)[0]) == 32
        assert loops.json_texts([*values, 0.5], None) is None
        assert loops.json_texts([*compact, 1], NAMES) is None
        assert loops.int_texts([inside[0], "x"]) is None
    after = list(map(sys.getrefcount, [*inside, *NAMES, NAMES, None]))
    assert before[:-1] == after[:-1]
    assert abs(before[-1] - after[-1]) < 20  # of None, others may hold a few more


def test_numbered_values_are_held_as_often_as_before(loops: ModuleType, collecting: None) -> None:
    values = [10**15 + number for number in range(300)] * 2
    before = list(map(sys.getrefcount, values))
    for _ in range(20):
        numbers, firsts = loops.same_objects(values)
        assert (len(numbers), firsts) == (2400, list(range(300)))
        assert len(loops.equal_values([values, values[:5]], {})) == 2420
        with pytest.raises(TypeError):
            loops.equal_values([values, [[]]], {})
    assert list(map(sys.getrefcount, values)) == before


def test_more_fields_than_there_is_room_for(loops: ModuleType) -> None:
    names = [f"n{index}" for index in range(65)]
    assert loops.loop_of("make", names, (), len) is len
    many = Row(**dict.fromkeys(names, 1))
    assert loops.columns_of([many]) is None
    assert columns_of_rows([many]) == (names, [[1]] * 65)
    assert loops.made_row(**dict.fromkeys(names, 1)) is None
    assert many == _initialized(**dict.fromkeys(names, 1))
    assert rows_of_columns(names, [[1]] * 65) == [many]
