"""What a function gave is as it was when it was given, and each receiver has its own. Reliability 49."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from unittest import mock

import pytest
from support.jobs import NO_RESTART, TestJob

from api.common import Row, Types
from api.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from api.datastream import OutputTag, StreamExecutionEnvironment
from api.datastream.functions import (
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from changelog_engine.connectors import Range, Sink, SinkWriter, Source, Split, SplitReader
from changelog_engine.errors import JobExecutionError, TypeMismatchError
from changelog_engine.operators.base import OutputType
from changelog_engine.operators.keyed import KeyedFilterOperator
from changelog_engine.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from changelog_engine.state.cursor import Cursor
from changelog_engine.types import copies
from changelog_engine.types.copies import IMMUTABLE, copied, own, take_each

COUNT = 6
TAG = OutputTag("aside")


def environment():
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)


def results(tmp_path, *streams, **settings):
    """What the streams give: the printed lines of each."""
    for number, stream in enumerate(streams):
        stream.print(str(number))
    job = TestJob(tmp_path, restart=NO_RESTART, checkpoint_interval_ms=None, **settings)
    job.run_driver(streams[0].get_execution_environment().generate_stream_graph())
    found = [[] for _ in streams]
    for line in job.lines:
        number, _, text = line.partition("> ")
        found[int(number)].append(text)
    return found


def _buffer(kept, number):
    buffer = kept.setdefault("buffer", bytearray(1))
    buffer[0] = number
    return buffer


def _list(kept, number):
    total = kept.setdefault("total", [0, "a"])
    total[0] = number
    return total


PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])
CHANGED = {  # what is filled again each time, though nobody can change what the type makes of it
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), _buffer, lambda number: repr(bytes([number]))),
    "a list as a tuple": (PAIR, _list, lambda number: repr((number, "a"))),
    "bytes in a tuple": (
        Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.BYTE())]),
        lambda kept, number: (_buffer(kept, number),),
        lambda number: repr((bytes([number]),)),
    ),
    "a list in a tuple": (
        Types.TUPLE([PAIR]),
        lambda kept, number: (_list(kept, number),),
        lambda number: repr(((number, "a"),)),
    ),
}


@pytest.mark.parametrize("case", CHANGED)
@pytest.mark.parametrize("call", ["map", "flat_map", "keyed", "chained"])
def test_case_49_what_the_type_makes_of_it_cannot_be_changed(tmp_path, call, case):
    """All elements of a batch were the last one."""
    kind, made, expected = CHANGED[case]
    kept = {}
    stream = environment().from_collection([*range(COUNT)], Types.LONG())
    if call == "keyed":
        stream = stream.key_by(lambda number: 0, Types.LONG())
    if call == "flat_map":
        given = stream.flat_map(lambda number: [made(kept, number)], kind)
    else:
        given = stream.map(lambda number: made(kept, number), kind)
    if call == "chained":
        seen = given.map(lambda value: bytes(value[0] if type(value) is tuple else value).hex()
                         if "bytes" in case else str(value), Types.STRING())  # fmt: skip
        (found,) = results(tmp_path, seen)
        assert len(set(found)) == COUNT
        return
    (found,) = results(tmp_path, given.key_by(lambda value: 0, Types.LONG()).map(repr, Types.STRING()))
    assert found == [expected(number) for number in range(COUNT)]


class Received:
    """Takes elements as their type wants them."""

    typed, as_given, takes_none, passive = True, False, False, True

    def __init__(self):
        self.values = []

    def process(self, values, times):
        self.values += values


def test_case_49_a_list_among_tuples_that_something_holds_is_refused():
    """Where a function gave tuples, lists are no longer copied."""
    held = [2, "held"]
    give = {0: lambda: (0, "a"), 1: lambda: [1, "fresh"], 2: lambda: held}
    operator = MapOperator("name", PAIR, SimpleNamespace(map=lambda number: give[number]()), None)
    received = Received()
    operator.link(received)
    operator.process([2, 0], None)
    assert operator.copies
    operator.process([0, 0], None)
    assert not operator.copies
    operator.process([0, 1, 1], None)
    with pytest.raises(TypeMismatchError, match=r"'held'.* is a list, which something else holds"):
        operator.process([0, 2], None)
    assert received.values == [(2, "held"), *[(0, "a")] * 4, (1, "fresh"), (1, "fresh")]


def _kept_by_a_generator():
    kept = [1, "kept"]
    yield kept
    yield kept


def _kept_by_a_variable(keep):
    kept = [1, "kept"]
    keep(lambda: kept)
    return kept


KEPT = {
    "an attribute": lambda keep: keep(SimpleNamespace(kept=[1, "kept"])).kept,
    "a list": lambda keep: keep([[1, "kept"]])[0],
    "a dict": lambda keep: keep({"x": [1, "kept"]})["x"],
    "a tuple": lambda keep: keep(([1, "kept"],))[0],
    "a generator's variable": lambda keep: next(keep(_kept_by_a_generator())),
    "a generator's argument": lambda keep: next(keep((lambda kept: (kept for _ in "ab"))([1, "kept"]))),
    "a function's variable": lambda keep: _kept_by_a_variable(keep),
    "a default": lambda keep: keep(lambda kept=[1, "kept"]: kept)(),
}


@pytest.mark.parametrize("kept", KEPT)
def test_case_49_one_holder_more_is_seen_wherever_it_is(kept):
    """Versions of Python count what their own frames hold differently: what the program holds counts in all of them."""
    checked = OutputType("name", PAIR)
    checked.frozen = tuple
    held = []
    for place in range(3):
        values = [[number, "fresh"] for number in range(3)]
        assert checked.check(values) == [(number, "fresh") for number in range(3)]
        values[place] = KEPT[kept](lambda thing: held.append(thing) or thing)
        with pytest.raises(TypeMismatchError, match="something else holds"):
            checked.check(values)


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("how", ["map", "flat_map"])
def test_case_49_what_the_program_holds_is_copied_and_nothing_else(kept, how):
    held = []

    def give(number):
        return KEPT[kept](lambda thing: held.append(thing) or thing) if number else [0, "fresh"]

    function = SimpleNamespace(map=give, flat_map=lambda number: (give(number) for _ in "a"))
    operator = {"map": MapOperator, "flat_map": FlatMapOperator}[how]("name", None, function, None)
    received = Received()
    operator.link(received)
    fresh, given = [], []
    take = copies.copied

    def copied(value):
        (given if value == [1, "kept"] else fresh).append(value)
        return take(value)

    with mock.patch.object(copies, "copied", copied):
        operator.process([0, 1, 0, 1], None)
    assert received.values == [[0, "fresh"], [1, "kept"]] * 2
    assert len(given) == 2
    assert all(one is not other for one, other in zip(received.values[1::2], given, strict=True))
    assert fresh == [], "a list that nobody else holds was copied"


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("main", [Types.LONG(), Types.STRING(), PAIR], ids=str)
def test_case_49_what_goes_aside_beside_elements_that_cannot_be_changed(tmp_path, main, keyed):
    """It was the last one each time."""

    class Aside(KeyedProcessFunction if keyed else ProcessFunction):
        def open(self, runtime_context):
            self.kept = {}

        def process_element(self, value, ctx):
            self.kept["x"] = value
            yield TAG, self.kept
            yield {"Long": value, "String": str(value)}.get(str(main), (value, "a"))

    stream = environment().from_collection([*range(COUNT)], Types.LONG())
    given = (stream.key_by(lambda value: 0, Types.LONG()) if keyed else stream).process(Aside(), main)
    aside, _ = results(tmp_path, given.get_side_output(TAG), given)
    assert aside == [str({"x": number}) for number in range(COUNT)]


MADE = {
    "dict": lambda number: {"x": number},
    "list": lambda number: [number, [number]],
    "tuple": lambda number: (number, {"x": number}),
    "Row": lambda number: Row(x=number, inner=[number]),
    "object": lambda number: Box(number),
}


class Box:
    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"Box({self.x})"


def spoil(value):
    """Change a value in place."""
    if isinstance(value, dict):
        value["x"] = "spoiled"
    elif isinstance(value, list):
        value[0] = "spoiled"
    elif isinstance(value, tuple):
        value[1]["x"] = "spoiled"
    elif isinstance(value, Row):
        value["x"] = "spoiled"
    else:
        value.x = "spoiled"
    return value


def shown(kind):
    return [str(MADE[kind](number)) for number in range(COUNT)]


@pytest.mark.parametrize("kind", MADE)
def test_case_49_siblings_have_their_own(tmp_path, kind):
    """A map that changes what it is given in place changes it for itself: in its task, and behind an exchange."""
    made = environment().from_collection(list(range(COUNT)), Types.LONG()).map(MADE[kind])
    before, spoiled, after, keyed, timed = results(
        tmp_path,
        made.map(str),
        made.map(spoil).map(str),
        made.map(str),
        made.key_by(lambda value: 1).map(str),
        made.filter(lambda value: bool(spoil(value))).map(lambda value: "spoiled" in str(value)),
    )
    assert before == after == keyed == shown(kind)
    assert all("spoiled" in line for line in spoiled)
    assert set(timed) == {"True"}


@pytest.mark.parametrize("kind", MADE)
def test_case_49_readers_of_one_exchange_have_their_own(tmp_path, kind):
    made = environment().from_collection(list(range(COUNT)), Types.LONG()).map(MADE[kind])
    keyed = made.key_by(lambda value: 1)
    spoiled, own = results(tmp_path, keyed.map(spoil).map(str), keyed.map(str))
    assert own == shown(kind)
    assert all("spoiled" in line for line in spoiled)


def test_case_49_a_key_selector_that_changes_elements(tmp_path):
    made = environment().from_collection(list(range(COUNT)), Types.LONG()).map(MADE["dict"])
    by_key, own = results(tmp_path, made.key_by(lambda value: value.pop("x")).map(str), made.map(str))
    assert by_key == ["{}"] * COUNT
    assert own == shown("dict")


class Refills(MapFunction):
    """Gives one object again and again."""

    def __init__(self, keyed=False):
        self.buffer = {"x": None, "inner": []}

    def map(self, value):
        self.buffer["x"] = value
        self.buffer["inner"].append(value)
        return self.buffer


class Clears(FlatMapFunction):
    def __init__(self):
        self.buffer = []

    def flat_map(self, value):
        self.buffer.append(value)
        yield self.buffer
        self.buffer.clear()


class ClearsAside(ProcessFunction):
    def __init__(self):
        self.buffer = []

    def process_element(self, value, ctx):
        self.buffer.append(value)
        yield TAG, self.buffer
        yield self.buffer
        self.buffer.clear()


class KeyedClears(KeyedProcessFunction):
    def __init__(self):
        self.buffer = []

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)
        self.buffer.append(value)
        yield self.buffer
        self.buffer.clear()

    def on_timer(self, timestamp, ctx):
        self.buffer.append(-timestamp)
        yield self.buffer
        self.buffer.clear()


REFILLED = [f"{{'x': {n}, 'inner': {list(range(n + 1))}}}" for n in range(COUNT)]
CLEARED = [f"[{n}]" for n in range(COUNT)]


class Same(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("behind", ["chained", "exchanged", "printed"])
def test_case_49_what_was_given_does_not_change_any_more(tmp_path, keyed, behind):
    source = environment().from_collection(list(range(COUNT)), Types.LONG())
    stream = source.key_by(lambda value: 1) if keyed else source
    refilled, cleared = stream.map(Refills()), stream.flat_map(Clears())
    if behind != "printed":
        refilled = (refilled if behind == "chained" else refilled.key_by(lambda value: 1)).map(str)
        cleared = (cleared if behind == "chained" else cleared.rebalance()).map(str)
    assert results(tmp_path, refilled, cleared) == [REFILLED, CLEARED]


class RefillsRows(FlatMapFunction):
    """Gives a new Row, and two that it keeps: one is the same Row again, the other has the same buffer in it."""

    def __init__(self):
        self.row, self.buffer = Row(x=None, data=None), bytearray(1)

    def flat_map(self, value):
        self.row["x"] = self.buffer[0] = value
        self.row["data"] = bytes(self.buffer)
        yield Row(x=value, data=bytes(self.buffer))
        yield self.row
        yield Row(x=value, data=self.buffer)


@pytest.mark.parametrize("data", [Types.PRIMITIVE_ARRAY(Types.BYTE()), None], ids=["converted", "refused"])
def test_case_49_rows_that_are_tested_before_they_are_seen(tmp_path, data):
    """A declared type that converts what can be changed gets it as it was; one that refuses it may look later."""
    kinds = [Types.LONG(), data or Types.STRING()]
    stream = environment().from_collection(list(range(COUNT)), Types.LONG())
    stream = stream.flat_map(RefillsRows(), Types.ROW_NAMED(["x", "data"], kinds)).key_by(lambda row: 1)
    if data is None:
        with pytest.raises(JobExecutionError, match="field 'data' of value is declared STRING but got b'"):
            results(tmp_path, stream.map(str))
    else:
        rows = [f"Row(x={n}, data={bytes([n])})" for n in range(COUNT) for _ in range(3)]
        assert results(tmp_path, stream.map(str)) == [rows]


def test_case_49_rows_of_plain_fields(tmp_path):
    """The same Row again and again, of a type whose fields cannot be changed; and one that the sender changes later."""
    row = Row(x=None)

    def refilled(number):
        row["x"] = number
        return row

    plain = Types.ROW_NAMED(["x"], [Types.LONG()])
    stream = environment().from_collection(list(range(COUNT)), Types.LONG()).map(refilled, plain)
    keyed = stream.key_by(lambda row: 1).map(str)
    both = results(tmp_path, keyed, stream.rebalance().map(str))
    assert both == [[f"Row(x={n})" for n in range(COUNT)]] * 2


def test_case_49_side_outputs_and_timers(tmp_path):
    source = environment().from_collection(list(range(COUNT)), Types.LONG())
    aside = source.process(ClearsAside())
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Same())
    timed = source.assign_timestamps_and_watermarks(strategy).key_by(lambda value: 1).process(KeyedClears())
    main, side, fired = results(tmp_path, aside.map(str), aside.get_side_output(TAG).map(str), timed.map(str))
    assert main == side == CLEARED
    assert fired == CLEARED + [f"[{-n}]" for n in range(COUNT)]


def test_case_49_a_source_that_fills_one_object(tmp_path):
    def numbers():
        buffer = {}
        for number in range(COUNT):
            buffer["x"] = number
            yield buffer

    (found,) = results(tmp_path, environment().add_source(numbers, "numbers").map(str))
    assert found == shown("dict")


class OwnSource(Source):
    """A reader of somebody's own, which fills what it gave before, or changes what it keeps of it."""

    bounded = True

    def __init__(self, how):
        self.how = how

    def splits(self, parallelism):
        return [Split("only", 0)]

    def reader(self, split):
        return OwnReader(self.how)


class OwnReader(SplitReader):
    def __init__(self, how):
        self.how = how
        self.kept, self.batch = {}, []

    def read(self, position, max_records):
        if self.how == "one element":
            self.kept["x"] = position
            return Range([self.kept], position + 1, position + 1 == COUNT)
        if self.how == "its list":
            self.batch.clear()
            self.batch.append({"x": position})
            return Range(self.batch, position + 1, position + 1 == COUNT)
        for given in self.batch:  # each list is new, and the elements are changed once they were given
            given["x"] = "changed"
        self.batch = [{"x": position}]
        return Range(self.batch, position + 1, position + 1 == COUNT)


@pytest.mark.parametrize("behind", ["chained", "exchanged", "printed"])
@pytest.mark.parametrize("how", ["one element", "its list", "what it gave"])
def test_case_49_a_reader_of_ones_own(tmp_path, how, behind):
    stream = environment().from_source(OwnSource(how), WatermarkStrategy.no_watermarks(), "own")
    if behind == "exchanged":
        stream = stream.key_by(lambda value: 1)
    (found,) = results(tmp_path, stream if behind == "printed" else stream.map(str))
    assert found == shown("dict")


class OwnSink(Sink):
    """A sink whose writers treat the lists that they get as theirs."""

    def __init__(self, path, how):
        self.path = path
        self.how = how

    def writer(self, subtask, parallelism):
        return OwnWriter(self.path, self.how)


class OwnWriter(SinkWriter):
    def __init__(self, path, how):
        self.path = path
        self.how = how

    def write_timed(self, values, timestamps, watermark):
        with self.path.open("a") as file:
            file.writelines(f"{value} {time}\n" for value, time in zip(values, timestamps, strict=True))
        for given in (values, timestamps):
            given.clear() if self.how == "clears" else given.reverse()

    def write(self, values):
        raise NotImplementedError

    def flush(self):
        pass


@pytest.mark.parametrize("how", ["clears", "reverses"])
def test_case_49_a_sink_that_changes_its_list(tmp_path, how):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Same())
    numbers = environment().from_collection(list(range(COUNT)), Types.LONG())
    stream = numbers.assign_timestamps_and_watermarks(strategy)
    for name in ("first", "second"):
        stream.sink_to(OwnSink(tmp_path / name, how))
    (found,) = results(tmp_path / "job", stream.map(str))
    assert found == [str(number) for number in range(COUNT)]
    lines = [f"{number} {number}" for number in range(COUNT)]
    assert (tmp_path / "first").read_text().splitlines() == lines
    assert (tmp_path / "second").read_text().splitlines() == lines


def test_case_49_a_filter_that_changes_what_it_let_through(tmp_path):
    class Spoils:
        def __init__(self):
            self.kept = None

        def __call__(self, value):
            if self.kept is not None:
                spoil(self.kept)
            self.kept = value
            return True

    made = environment().from_collection(list(range(COUNT)), Types.LONG()).map(MADE["dict"])
    (found,) = results(tmp_path, made.filter(Spoils()).map(str))
    assert found == shown("dict")


def test_case_49_a_reduce_that_keeps_and_changes_its_argument(tmp_path):
    def add(one, other):
        one["x"] += other["x"]
        return one

    made = environment().from_collection(list(range(1, 4)), Types.LONG()).map(MADE["dict"])
    reduced, own = results(tmp_path, made.key_by(lambda value: 1).reduce(add).map(str), made.map(str))
    assert reduced == ["{'x': 1}", "{'x': 3}", "{'x': 6}"]
    assert own == ["{'x': 1}", "{'x': 2}", "{'x': 3}"]


def test_with_object_reuse_nothing_is_copied(tmp_path):
    made = environment().from_collection(list(range(COUNT)), Types.LONG()).map(MADE["dict"])
    found, _ = results(tmp_path, made.map(spoil).map(str), made.map(str), object_reuse=True)
    assert all("spoiled" in line for line in found)
    _, seen = results(tmp_path, made.map(spoil).map(str), made.map(str), object_reuse=True)
    assert all("spoiled" in line for line in seen)


@pytest.mark.parametrize("kind", ["map", "flat_map", "filter"])
def test_declared_immutable_types_are_never_looked_at(kind):
    from changelog_engine.operators import stateless

    operator = {
        "map": stateless.MapOperator,
        "flat_map": stateless.FlatMapOperator,
        "filter": stateless.FilterOperator,
    }[kind]
    assert not operator("name", Types.LONG(), None, None).copies
    pairs = operator("name", PAIR, None, None)
    assert pairs.copies, "a function may give lists"
    pairs.trust([(1, "a"), (2, "b")])
    assert not pairs.copies
    assert operator("name", Types.ROW([Types.LONG()]), None, None).copies
    assert operator("name", None, None, None).copies


def given(make):
    """What own() makes of what a function gives."""
    result = make()
    return own(result)


INNER = [1]


class TestOwn:
    """Objects that somebody still holds are copied, and others are not: on this Python, counted as it counts."""

    @pytest.mark.parametrize(
        "make", [dict, list, lambda: {"a": 1}, lambda: [1, "a"], lambda: Row(a=1), lambda: (1, 2)]
    )
    def test_what_nobody_holds_is_not_copied(self, make):
        made = []

        def remembered():
            value = make()
            made.append(id(value))
            return value

        assert id(given(remembered)) == made[0]

    @pytest.mark.parametrize("held", [{"a": 1}, [1], Row(a=1), {1}, Box(1), [[1]], bytearray(b"a")])
    def test_what_somebody_holds_is_copied(self, held):
        assert given(lambda: held) is not held

    def test_what_is_inside_and_held_is_copied(self):
        assert given(lambda: {"inner": INNER})["inner"] is not INNER
        assert given(lambda: (1, INNER))[1] is not INNER
        assert given(lambda: Row(a=INNER)).a is not INNER

    def test_case_49_a_debugger_that_holds_variables_while_the_engine_is_imported(self):
        """Then all seems to be held more often than it is, and what a user holds would seem to be nobody's."""
        program = """
import sys

held = []


def seen(frame, event, argument):
    if frame.f_code.co_name in ("count", "take_each"):
        held.append(dict(frame.f_locals))
        return seen


sys.settrace(seen)
from changelog_engine.types import copies

sys.settrace(None)
assert held
kept = [1]
taken = []
copies.take_each(taken, (kept for _ in range(40)))
assert all(one == kept and one is not kept for one in taken)
"""
        subprocess.run([sys.executable, "-c", program], check=True)

    @pytest.mark.parametrize("keyed", [False, True])
    def test_case_49_a_filter_of_elements_that_are_made_when_they_are_asked_for(self, keyed):
        """Their batch does not hold them, so that what the function holds would stand for it."""

        class Made(Sequence):
            def __len__(self):
                return COUNT

            def __getitem__(self, place):
                return {"x": place}

            def __iter__(self):
                return map(self.__getitem__, range(COUNT))

        held = []
        function = SimpleNamespace(filter=lambda value: held.append(value) or True)
        received = Received()
        if keyed:
            parts = SimpleNamespace(
                name="name", output=None, function=function, context=None, cursor=Cursor(), keys=None
            )
            operator = KeyedFilterOperator(parts)
            operator.link(received)
            operator.process_keyed([*range(COUNT)], Made(), None)
        else:
            operator = FilterOperator("name", None, function, None)
            operator.link(received)
            operator.process(Made(), None)
        assert received.values == held == [{"x": place} for place in range(COUNT)]
        assert all(one is not other for one, other in zip(received.values, held, strict=True))

    def test_what_a_generator_still_holds_is_copied(self):
        def gives():
            for number in range(3):
                buffer = [number]
                yield buffer
                buffer.clear()

        taken = []
        take_each(taken, gives())
        assert taken == [[0], [1], [2]]

    def test_what_cannot_be_copied_is_passed_on(self):
        import threading

        lock = threading.Lock()
        assert given(lambda: lock) is lock
        assert given(lambda: [lock])[0] is lock

    def test_what_holds_itself(self):
        knot = []
        knot.append(knot)
        again = copied(knot)
        assert again is not knot
        assert again[0] is again

    def test_copies_are_equal(self):
        choose = random.Random(7)

        def value(depth):
            kind = choose.randrange(8 if depth else 3)
            inner = [value(depth - 1) for _ in range(choose.randrange(3))] if kind > 2 else []
            return [1, "a", None, inner, tuple(inner), dict(enumerate(inner)), Row(*inner), {1, 2}][kind]

        for _ in range(300):
            made = value(4)
            again = copied(made)
            assert type(again) is type(made)
            assert again == made
            assert repr(again) == repr(copy.deepcopy(made))

    def test_immutable_classes_are_kept(self):
        for value in (1, "a", b"a", 1.5, None, (1, "a"), True):
            assert copied(value) is value
            assert type(value) in IMMUTABLE or type(value) is tuple
