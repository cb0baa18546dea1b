"""Declared types: what a value of each becomes behind an exchange, a sink, a collection."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy
from pyflink.common import Instant, Row, Types
from pyflink.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import OutputTag, ProcessFunction

from corners.how import unordered


def _through(env, type_info, *values):
    """Values that a map gives with a declared type, as they come out of the job."""
    given = list(values)
    return env.from_collection(list(range(len(given))), Types.INT()).map(lambda n: given[n], type_info)


def _shuffled(env, type_info, *values):
    """The same behind a shuffle, as a function sees them: PyFlink can't collect all of them."""
    return (
        _through(env, type_info, *values)
        .key_by(lambda value: 0)
        .map(lambda value: repr(value), Types.STRING())
    )


def ints_as_double(env):
    """Whole numbers where a DOUBLE is declared, as from JSON."""
    return _through(env, Types.DOUBLE(), 10, -3, 2.5, True)


def ints_as_float(env):
    """Whole numbers where a FLOAT is declared."""
    return _through(env, Types.FLOAT(), 1, 0.5, True)


def float_collected(env):
    """A FLOAT that is collected."""
    return _through(env, Types.FLOAT(), 0.1, 0.5)


def float_is_single(env):
    """A FLOAT has 24 bits."""
    return _shuffled(env, Types.FLOAT(), 0.1, 16777217.0)


def bools_as_int(env):
    """True and False where numbers are declared."""
    return _through(env, Types.INT(), True, False, 3)


def bools_as_long(env):
    """True where a LONG is declared."""
    return _through(env, Types.LONG(), True, 2**40)


def numbers_as_boolean(env):
    """0 and 1 where a BOOLEAN is declared."""
    return _through(env, Types.BOOLEAN(), 0, 1, True)


def text_as_boolean(env):
    """A text where a BOOLEAN is declared."""
    return _through(env, Types.BOOLEAN(), "yes")


def whole_floats_as_long(env):
    """3.0 where a LONG is declared."""
    return _through(env, Types.LONG(), 3.0, -1.0)


def fraction_as_long(env):
    """1.5 where a LONG is declared: cut off in PyFlink."""
    return _through(env, Types.LONG(), 1.5)


def text_as_int(env):
    """A text where an INT is declared."""
    return _through(env, Types.INT(), "5")


def int_as_text(env):
    """A number where a STRING is declared."""
    return _through(env, Types.STRING(), 5)


def int_out_of_range(env):
    """2**31 where an INT is declared."""
    return _through(env, Types.INT(), 2**31)


def long_out_of_range(env):
    """2**63 where a LONG is declared."""
    return _through(env, Types.LONG(), 2**63)


def short_and_byte(env):
    """The smallest and largest of the small types."""
    pair = Types.TUPLE([Types.SHORT(), Types.BYTE()])
    return _through(env, pair, (-(2**15), -128), (2**15 - 1, 127))


def special_floats(env):
    """Infinities, NaN, minus zero and the smallest number."""
    return _through(env, Types.DOUBLE(), float("inf"), float("-inf"), float("nan"), -0.0, 5e-324)


def texts_of_all_planes(env):
    """Text beyond ASCII and beyond the basic plane, the empty one, one with a zero."""
    return _through(env, Types.STRING(), "Zürich", "日本", "🙂", "", "a\0b", "two\nlines")


def numpy_scalars_as_declared(env):
    """numpy's scalars where Python's are declared."""
    row = Types.ROW_NAMED(["i", "d", "b"], [Types.LONG(), Types.DOUBLE(), Types.BOOLEAN()])
    return _through(env, row, Row(i=numpy.int64(5), d=numpy.float64(0.5), b=numpy.bool_(True)))


def numpy_scalars_undeclared(env):
    """numpy's scalars without a type keep their class."""
    return (
        env.from_collection([1]).map(lambda n: numpy.int32(n)).map(lambda n: type(n).__name__, Types.STRING())
    )


def numpy_array_undeclared(env):
    """An array without a type is pickled."""
    return (
        env.from_collection([3])
        .map(lambda n: numpy.arange(n))
        .key_by(lambda a: len(a))
        .map(lambda a: a.tolist())
    )


def dates_and_times(env):
    """SQL_DATE, SQL_TIME and SQL_TIMESTAMP, with milliseconds."""
    types = Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()])
    return _shuffled(
        env,
        types,
        (
            datetime.date(2024, 2, 29),
            datetime.time(23, 59, 59, 999000),
            datetime.datetime(2024, 2, 29, 1, 2, 3, 4000),
        ),
        (datetime.date(1969, 12, 31), datetime.time(0, 0), datetime.datetime(1969, 12, 31, 23, 59, 59)),
    )


def microseconds_of_a_timestamp(env):
    """A SQL_TIMESTAMP has microseconds."""
    return _shuffled(env, Types.SQL_TIMESTAMP(), datetime.datetime(2024, 1, 1, 0, 0, 0, 123456))


def instants(env):
    """INSTANT, as seconds and nanoseconds, before 1970 too."""
    found = _through(env, Types.INSTANT(), Instant.of_epoch_milli(1500), Instant(12, 345))
    return found.map(lambda i: f"{i.seconds} {i.nanos}", Types.STRING())


def decimals(env):
    """BIG_DEC behind a shuffle keeps its value; its scale is Java's."""
    found = _through(env, Types.BIG_DEC(), Decimal("1.50"), Decimal("-123456789.987654321"))
    return found.key_by(lambda d: 0).map(lambda d: d + 0)


def decimals_with_exponents(env):
    """A function sees them as they were given; collected they have been Java's."""
    texts = ("1E+3", "12E+5", "1.50", "1E-7", "0.000001", "-0")
    return env.from_collection([Decimal(text) for text in texts], Types.BIG_DEC())


def decimals_in_functions(env):
    """A function has the digits that were given."""
    numbers = [Decimal(text) for text in ("1E+3", "12E+5", "1.50", "1E-7", "0.000001")]
    return env.from_collection(numbers, Types.BIG_DEC()).map(repr, Types.STRING())


def big_integers(env):
    """BIG_INT of more than 64 bits."""
    return _through(env, Types.BIG_INT(), 2**100, -(2**100), 0)


def decimal_as_double(env):
    """A Decimal where a DOUBLE is declared."""
    return _through(env, Types.DOUBLE(), Decimal("2.5"))


def chars(env):
    """A CHAR is one character."""
    return _through(env, Types.CHAR(), "x", "é")


def byte_arrays(env):
    """PRIMITIVE_ARRAY(BYTE) is bytes in functions."""
    found = _through(env, Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\x7f\xff", b"")
    return found.map(lambda b: f"{type(b).__name__} {len(b)}", Types.STRING())


def primitive_arrays(env):
    """Arrays of numbers come back as lists."""
    arrays = Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.INT()), Types.PRIMITIVE_ARRAY(Types.DOUBLE())])
    return _through(env, arrays, ([1, 2], [0.5]), ([], []))


def basic_arrays(env):
    """BASIC_ARRAY of texts, and of numbers, in one tuple."""
    arrays = Types.TUPLE([Types.BASIC_ARRAY(Types.STRING()), Types.BASIC_ARRAY(Types.LONG())])
    return _through(env, arrays, (["a", ""], [1]), ([], [2, 3]))


def object_arrays(env):
    """OBJECT_ARRAY of tuples, read in a function."""
    pairs = Types.OBJECT_ARRAY(Types.TUPLE([Types.STRING(), Types.INT()]))
    found = _through(env, pairs, [("a", 1), ("b", 2)], [])
    return found.key_by(lambda a: 0).map(lambda array: [pair[1] for pair in array])


def tuples_as_basic_array(env):
    """A tuple where an array is declared."""
    return _through(env, Types.BASIC_ARRAY(Types.INT()), (1, 2))


def lists_behind_a_shuffle(env):
    """LIST of texts, read in a function."""
    found = _through(env, Types.LIST(Types.STRING()), ["a", "b"], [])
    return found.key_by(lambda held: len(held)).map(lambda held: ",".join(held), Types.STRING())


def maps_behind_a_shuffle(env):
    """MAP of numbers by texts, read in a function; lists as values."""
    held = Types.MAP(Types.STRING(), Types.LIST(Types.INT()))
    found = _through(env, held, {"a": [1, 2]}, {})
    return found.key_by(lambda m: len(m)).map(lambda m: sorted(m.items()))


def map_with_int_keys(env):
    """MAP with numbers as keys, collected."""
    return _through(env, Types.MAP(Types.INT(), Types.STRING()), {1: "a", 2: "b"})


def nested_tuples(env):
    """Tuples in tuples stay tuples."""
    inner = Types.TUPLE([Types.INT(), Types.TUPLE([Types.STRING(), Types.BOOLEAN()])])
    return _through(env, inner, (1, ("a", True)), (2, ("b", False)))


def list_as_tuple(env):
    """A list where a TUPLE is declared."""
    return _through(env, Types.TUPLE([Types.INT(), Types.STRING()]), [1, "a"])


def tuple_too_long(env):
    """A tuple of three where two are declared."""
    return _through(env, Types.TUPLE([Types.INT(), Types.INT()]), (1, 2, 3))


def int_fields_as_double(env):
    """Whole numbers in a row's DOUBLE, in a list of FLOAT, in a map's values, in a tuple."""
    row = Types.ROW_NAMED(
        ["amount", "list", "map", "pair"],
        [
            Types.DOUBLE(),
            Types.LIST(Types.DOUBLE()),
            Types.MAP(Types.STRING(), Types.DOUBLE()),
            Types.TUPLE([Types.DOUBLE(), Types.INT()]),
        ],
    )
    found = _through(env, row, Row(amount=10, list=[1, 2], map={"a": 3}, pair=(4, 5)))
    return found.key_by(lambda r: 0).map(lambda r: (r.amount, list(r.list), dict(r.map), r.pair))


def pickled_classes(env):
    """Objects of a class of the program's own, behind a shuffle."""

    class Point:
        def __init__(self, x):
            self.x = x

    points = env.from_collection([1, 2]).map(lambda n: Point(n))
    return points.key_by(lambda p: p.x % 2).map(lambda p: (type(p).__name__, p.x))


def sets_and_complex_numbers(env):
    """Whatever can be pickled goes without a type."""
    return env.from_collection([{1, 2}, frozenset([3]), 1 + 2j, range(3), ...]).map(lambda v: repr(v))


def pickled_byte_array_declared(env):
    """PICKLED_BYTE_ARRAY is what an undeclared type is."""
    return _through(env, Types.PICKLED_BYTE_ARRAY(), {"a": [1]}, (1,))


def bytes_undeclared(env):
    """bytes and bytearray without a type keep their class."""
    return env.from_collection([b"ab", bytearray(b"c")]).map(lambda b: type(b).__name__, Types.STRING())


def bool_keys_and_int_keys(env):
    """With LONG declared as the key's type, True and 1 are one key."""
    mixed = env.from_collection([True, 1, 2])
    return mixed.key_by(lambda v: v, Types.LONG()).reduce(lambda left, right: left + right)


def type_infos_made_by_their_classes(env):
    """Classes of types, with their arguments by name."""
    single = Types.INT()
    return [
        str(each)
        for each in (
            ListTypeInfo(element_type=single),
            BasicArrayTypeInfo(element_type=single),
            PrimitiveArrayTypeInfo(element_type=single),
            ObjectArrayTypeInfo(element_type=single),
            MapTypeInfo(key_type_info=single, value_type_info=Types.STRING()),
            TupleTypeInfo(field_types=[single]),
            RowTypeInfo(field_types=[single], field_names=["a"]),
            RowTypeInfo(field_types=[single]).get_field_names(),
        )
    ]


def type_infos_are_equal(env):
    """Types compare by what they are made of."""
    return [
        Types.INT() == Types.INT(),
        Types.INT() == Types.LONG(),
        Types.ROW([Types.INT()]) == Types.ROW([Types.INT()]),
        Types.ROW_NAMED(["a"], [Types.INT()]) == Types.ROW_NAMED(["b"], [Types.INT()]),
        Types.LIST(Types.INT()) == Types.LIST(Types.INT()),
        Types.TUPLE([Types.INT()]) == Types.TUPLE([Types.STRING()]),
    ]


def names_of_row_types(env):
    """What a ROW type says of its fields."""
    row = Types.ROW([Types.INT(), Types.STRING()])
    named = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    return [row.get_field_names(), named.get_field_names(), named.get_field_index("b"), str(named)]


def map_behind_an_exchange(env):
    """The order of a map's entries in a function behind key_by."""
    maps = env.from_collection(
        [{"zz": 1, "b": 2, "a": 3, "k9": 4}, {"4": 1, "30": 2}], Types.MAP(Types.STRING(), Types.INT())
    )
    keyed = maps.key_by(lambda entries: len(entries), Types.INT())
    return keyed.map(lambda entries: ", ".join(entries), Types.STRING())


def numbers_where_strings_are_declared(env):
    """from_collection makes texts of numbers and bools where STRING is declared."""
    string = Types.STRING()
    declared = Types.ROW(
        [string, string, string, string, Types.MAP(string, string), Types.BASIC_ARRAY(string)]
    )
    rows = env.from_collection([(1, 2.5, True, 1e20, {1: 2.5}, [3, False])], declared)
    return rows.map(repr, string)


def _people(env):
    """Rows without names, of a whole number in a DOUBLE, as a map gives them."""
    row_type = Types.ROW_NAMED(["name", "weight"], [Types.STRING(), Types.DOUBLE()])
    return _through(env, row_type, Row("ada", 60), Row("bob", 80.5))


class _First(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return len(value[0])


class _Aside(ProcessFunction):
    def __init__(self, tag):
        self.tag = tag

    def process_element(self, value, ctx):
        yield value
        yield self.tag, value[0]


@unordered("several sinks")
def rows_that_several_read(env):
    """What several read has the declared type's names and numbers; a function that reads alone gets what was given."""
    both, alone, filtered = _people(env), _people(env), _people(env).filter(lambda row: row[1] > 70)
    both.map(lambda row: f"{row.name} {row.weight}", Types.STRING()).print("both")
    both.filter(lambda row: row["weight"] > 70).print("heavy")
    alone.map(repr, Types.STRING()).print("alone")
    filtered.map(lambda row: row.name, Types.STRING()).print("names")
    filtered.map(lambda row: row.weight, Types.DOUBLE()).print("weights")
    tag = OutputTag("aside", Types.STRING())
    main = _people(env).process(_Aside(tag), both.get_type())
    main.map(lambda row: repr(row), Types.STRING()).print("main")
    main.get_side_output(tag).print("aside")
    env.execute()


@unordered("a union")
def rows_behind_timestamps_and_unions(env):
    """Timestamps end a chain, and so does a union; the assigner itself gets what was given."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_First())
    timed = _people(env).assign_timestamps_and_watermarks(strategy)
    timed.map(lambda row: f"{row.name} {row.weight}", Types.STRING()).print("timed")
    united = _people(env).union(_people(env))
    united.map(lambda row: f"{row.name} {row.weight}", Types.STRING()).print("united")
    env.execute()


@unordered("two sinks")
def none_that_several_read(env):
    """None where an INT is declared, which a chain takes, passes where two functions read it, too."""
    given = _through(env, Types.INT(), 1, None)
    given.map(lambda value: value or 0, Types.INT()).print("a")
    given.filter(lambda value: value is not None).print("b")
    env.execute()


@unordered("a union")
def rows_of_a_union_that_is_collected(env):
    """PyFlink chains no functions before a union that is collected: each sees the declared type."""
    row_type = Types.ROW_NAMED(["name", "weight"], [Types.STRING(), Types.DOUBLE()])
    told = _people(env).map(lambda row: Row(row[0], int(row[1])), row_type)
    halves = _through(env, Types.FLOAT(), 0.1, 1).map(lambda value: f"{value}", Types.STRING())
    keyed = _through(env, Types.FLOAT(), 0.1, 0.2, 0.3).key_by(lambda value: 0, Types.INT())
    sums = keyed.reduce(lambda a, b: a + b).map(lambda value: f"{value}", Types.STRING())
    return told.map(lambda row: f"{row[0]} {row[1]}", Types.STRING()).union(halves, sums)
