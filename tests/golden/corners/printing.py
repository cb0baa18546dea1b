"""print() of typed values."""

from __future__ import annotations

import datetime
import decimal
import tempfile
from pathlib import Path

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream.connectors.file_system import FileSource
from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pyflink.table import DataTypes

from corners.how import unordered


def _values():
    return [
        ("string", "a b", Types.STRING()),
        ("empty", "", Types.STRING()),
        ("true", True, Types.BOOLEAN()),
        ("byte", 5, Types.BYTE()),
        ("long", 2**40, Types.LONG()),
        ("double", 1.0, Types.DOUBLE()),
        ("tiny", 1e-7, Types.DOUBLE()),
        ("thousandth", 0.001, Types.DOUBLE()),
        ("below", 0.0009, Types.DOUBLE()),
        ("large", 1e7, Types.DOUBLE()),
        ("below_large", 9999999.0, Types.DOUBLE()),
        ("nan", float("nan"), Types.DOUBLE()),
        ("inf", float("-inf"), Types.DOUBLE()),
        ("minus_zero", -0.0, Types.DOUBLE()),
        ("float", 0.1, Types.FLOAT()),
        ("float_large", 16777216.0, Types.FLOAT()),
        ("third", 1 / 3, Types.DOUBLE()),
        ("third_float", 1 / 3, Types.FLOAT()),
        ("sum", 0.1 + 0.2, Types.DOUBLE()),
        ("digits", 123456789.123, Types.DOUBLE()),
        ("smallest", 5e-324, Types.DOUBLE()),
        ("half", 2e-3, Types.DOUBLE()),
        ("bigdec", decimal.Decimal("1.50"), Types.BIG_DEC()),
        ("bigdec_small", decimal.Decimal("0.0000001"), Types.BIG_DEC()),
        ("date", datetime.date(2024, 2, 29), Types.SQL_DATE()),
        ("date_early", datetime.date(1900, 1, 1), Types.SQL_DATE()),
        ("time", datetime.time(1, 2, 3), Types.SQL_TIME()),
        ("time_ms", datetime.time(1, 2, 3, 400000), Types.SQL_TIME()),
        ("timestamp", datetime.datetime(2024, 2, 29, 1, 2, 3), Types.SQL_TIMESTAMP()),
        ("timestamp_ms", datetime.datetime(2024, 2, 29, 1, 2, 3, 40000), Types.SQL_TIMESTAMP()),
        ("list", [1, 2], Types.LIST(Types.INT())),
        ("list_empty", [], Types.LIST(Types.INT())),
        ("list_strings", ["a", "b c"], Types.LIST(Types.STRING())),
        ("list_doubles", [1.0, 1e20], Types.LIST(Types.DOUBLE())),
        ("list_of_lists", [[1], []], Types.LIST(Types.LIST(Types.INT()))),
        ("map", {"a": 1}, Types.MAP(Types.STRING(), Types.INT())),
        ("map_empty", {}, Types.MAP(Types.STRING(), Types.INT())),
        ("map_list", {"a": [1.0]}, Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE()))),
        ("tuple", (1, "a"), Types.TUPLE([Types.INT(), Types.STRING()])),
        (
            "tuple_nested",
            (1, (2.0, "b")),
            Types.TUPLE([Types.INT(), Types.TUPLE([Types.DOUBLE(), Types.STRING()])]),
        ),
        ("tuple_list", (1, [1, 2]), Types.TUPLE([Types.INT(), Types.LIST(Types.INT())])),
        ("tuple_map", ({"a": True},), Types.TUPLE([Types.MAP(Types.STRING(), Types.BOOLEAN())])),
        ("tuple_row", (Row(1),), Types.TUPLE([Types.ROW([Types.INT()])])),
        ("row", Row(1, "a"), Types.ROW([Types.INT(), Types.STRING()])),
        ("row_null", Row(None, None), Types.ROW([Types.INT(), Types.STRING()])),
        ("row_named", Row(a=1, b="x"), Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])),
        (
            "row_nested",
            Row(1, Row("x", None)),
            Types.ROW([Types.INT(), Types.ROW([Types.STRING(), Types.INT()])]),
        ),
        (
            "row_list",
            Row([1, 2], {"k": 1.0}),
            Types.ROW([Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.DOUBLE())]),
        ),
        (
            "row_tuple",
            Row((1, "a"), True),
            Types.ROW([Types.TUPLE([Types.INT(), Types.STRING()]), Types.BOOLEAN()]),
        ),
        (
            "row_array",
            Row(["a"], [1]),
            Types.ROW([Types.OBJECT_ARRAY(Types.STRING()), Types.PRIMITIVE_ARRAY(Types.INT())]),
        ),
        ("row_bytes", Row(b"ab", 1), Types.ROW([Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.INT()])),
        (
            "row_date",
            Row(datetime.date(2024, 1, 1), decimal.Decimal("1.10")),
            Types.ROW([Types.SQL_DATE(), Types.BIG_DEC()]),
        ),
        (
            "row_ts",
            Row(datetime.datetime(2024, 1, 1, 1, 2, 3), datetime.time(1, 2)),
            Types.ROW([Types.SQL_TIMESTAMP(), Types.SQL_TIME()]),
        ),
        ("row_pickled", Row({"a": (1, None)}, 1), Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.INT()])),
    ]


_WITH_DOUBLE = Types.ROW([Types.STRING(), Types.DOUBLE()])


def _printed(env, names):
    some = env.from_collection([0], Types.INT())
    for name, value, kind in _values():
        if name in names:
            some.map(lambda _, value=value: value, kind).print(name)
    env.execute()


@unordered("several sinks")
def numbers(env):
    """print() of numbers."""
    _printed(
        env,
        [
            "true",
            "byte",
            "long",
            "double",
            "tiny",
            "thousandth",
            "below",
            "large",
            "below_large",
            "nan",
            "inf",
            "minus_zero",
            "float",
            "float_large",
            "third",
            "third_float",
            "sum",
            "digits",
            "smallest",
            "half",
        ],
    )


@unordered("several sinks")
def decimals_and_dates(env):
    """print() of decimals and dates."""
    _printed(
        env,
        [
            "bigdec",
            "bigdec_small",
            "date",
            "date_early",
            "time",
            "time_ms",
            "timestamp",
            "timestamp_ms",
        ],
    )


@unordered("several sinks")
def collections(env):
    """print() of collections."""
    _printed(
        env,
        [
            "list",
            "list_empty",
            "list_strings",
            "list_doubles",
            "list_of_lists",
            "map",
            "map_empty",
            "map_list",
        ],
    )


@unordered("several sinks")
def tuples(env):
    """print() of tuples."""
    _printed(env, ["tuple", "tuple_nested", "tuple_list", "tuple_map", "tuple_row"])


@unordered("several sinks")
def rows(env):
    """print() of rows."""
    _printed(env, ["row", "row_null", "row_named", "row_nested", "row_list", "row_tuple", "row_array"])


@unordered("several sinks")
def rows_of_bytes_and_dates(env):
    """print() of rows of bytes and dates."""
    _printed(env, ["row_bytes", "row_date", "row_ts", "row_pickled"])


@unordered("several sinks")
def rows_as_they_were_given(env):
    """print() of a row that a function gave shows that; behind a shuffle it is what its type made of it."""
    numbers = env.from_collection([1], Types.INT())
    whole = numbers.map(lambda n: Row("a", n), _WITH_DOUBLE)
    whole.print("whole")
    whole.rebalance().map(lambda row: row, _WITH_DOUBLE).print("shuffled")
    whole.flat_map(lambda row: [Row("b", True)], _WITH_DOUBLE).print("flat")
    whole.filter(lambda row: True).print("filtered")
    whole.union(whole.map(lambda row: Row("c", 2), _WITH_DOUBLE)).print("union")
    whole.key_by(lambda row: row[0]).reduce(lambda left, right: left).print("reduced")
    named = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.ROW_NAMED(["c"], [Types.FLOAT()])])
    numbers.map(lambda n: Row(b=Row(0.1), a=n), named).print("named")
    numbers.map(lambda n: Row(n, Row(c=0.1)), named).print("inner")
    numbers.map(lambda n: Row(n, Row(0.1)), named).map(lambda row: row, named).print("chained")
    env.execute()


_NAMES = [
    "zeta",
    "alpha",
    "m",
    "price",
    "volume",
    "user_id",
    "count",
    "Total",
    "b",
    "a",
    "name",
    "id",
    "ts",
    "ü",
]
_BY_NAME = Types.MAP(Types.STRING(), Types.INT())


def _map(size):
    return {name: place for place, name in enumerate(_NAMES[:size])}


def maps(env):
    """print() of maps of up to 14 strings: their entries are in the order of Java's HashMap."""
    env.from_collection(list(range(15)), Types.INT()).map(_map, _BY_NAME).print()
    env.execute()


@unordered("several sinks")
def maps_within(env):
    """print() of maps in tuples and lists."""
    sizes = env.from_collection([2, 3, 6, 13], Types.INT())
    sizes.map(lambda size: (size, _map(size)), Types.TUPLE([Types.INT(), _BY_NAME])).print("tuple")
    sizes.map(lambda size: [_map(size)], Types.LIST(_BY_NAME)).print("list")
    env.execute()


@unordered("several sinks")
def maps_of_other_keys(env):
    """print() of maps whose keys are numbers or booleans."""
    some = env.from_collection([1], Types.INT())
    for name, kind, keys in [
        ("int", Types.INT(), [100, 3, -1, 17, 2**31 - 1, 65536, 0]),
        ("long", Types.LONG(), [100, 3, -1, 17, 2**40, 2**63 - 1, 0, -(2**63)]),
        ("double", Types.DOUBLE(), [1.5, -0.0, 100.0, 1e300, float("inf"), 0.1, float("nan")]),
        ("float", Types.FLOAT(), [1.5, -0.0, 100.0, 0.1]),
        ("boolean", Types.BOOLEAN(), [True, False]),
        ("byte", Types.BYTE(), [5, -3, 100, 0, -128]),
    ]:
        some.map(lambda _, keys=keys: dict.fromkeys(keys, 1), Types.MAP(kind, Types.INT())).print(name)
    env.execute()


def rows_of_a_csv_file(env):
    """print() directly behind the reader of CSV files, which has rows of another kind."""
    folder = tempfile.mkdtemp()
    Path(folder, "numbers.csv").write_text(
        '1,2,3.5,12.50,true,x\n-1,40000000000,1e-3,0.1,FALSE,"y ""z, é"\n2,0,1e7,-3,true,\n'
    )
    schema = (
        CsvSchema.builder()
        .add_number_column("a", DataTypes.SMALLINT())
        .add_number_column("b", DataTypes.BIGINT())
    )
    schema = schema.add_number_column("c", DataTypes.DOUBLE()).add_number_column("d", DataTypes.DECIMAL(6, 2))
    schema = schema.add_boolean_column("e").add_string_column("f").build()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), folder).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "csv").print()
    env.execute()


def _of_every_type():
    """A value of each type with its type."""
    pair = Types.TUPLE([Types.INT(), Types.FLOAT()])
    return [
        (Types.STRING(), "é"),
        (Types.INT(), 5),
        (Types.FLOAT(), 1.1),
        (Types.DOUBLE(), 1e21),
        (Types.BOOLEAN(), True),
        (Types.BIG_DEC(), decimal.Decimal("1E+3")),
        (Types.SQL_DATE(), datetime.date(2021, 1, 9)),
        (Types.SQL_TIME(), datetime.time(1, 2, 3)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12, 0, 0, 11000)),
        (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [1.1, 1.2]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab"),
        (Types.BASIC_ARRAY(Types.STRING()), ["a", "b"]),
        (Types.LIST(Types.FLOAT()), [1.1]),
        (Types.MAP(Types.INT(), Types.FLOAT()), {1: 1.1}),
        (Types.ROW([Types.INT(), Types.FLOAT()]), Row(1, 1.1)),
        (Types.ROW_NAMED(["a"], [Types.DOUBLE()]), Row(a=2.5)),
        (pair, (1, 1.1)),
        (Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), [Row(1)]),
        (Types.OBJECT_ARRAY(pair), [(1, 1.1)]),
    ]


def _print_all(env, type_of, value_of, keyed=False):
    every = _of_every_type()
    kind, value = type_of([each for each, _ in every]), value_of([each for _, each in every])
    stream = env.from_collection([1], Types.INT()).map(lambda n: value, kind)
    if keyed:
        stream = stream.key_by(lambda v: 1, Types.INT()).map(lambda v: v, kind)
    stream.print()
    env.execute()


def every_type_in_a_row(env):
    """A row is shown as Python shows its fields."""
    _print_all(env, Types.ROW, lambda values: Row(*values))


def every_type_in_a_row_behind_an_exchange(env):
    """A float has its 24 bits then."""
    _print_all(env, Types.ROW, lambda values: Row(*values), keyed=True)


def every_type_in_a_tuple(env):
    """A tuple as Java shows its fields."""
    _print_all(env, Types.TUPLE, tuple)


def every_type_in_a_tuple_behind_an_exchange(env):
    """A float of a tuple is the same there."""
    _print_all(env, Types.TUPLE, tuple, keyed=True)


def every_type_in_a_row_in_a_tuple(env):
    """A row within a tuple is shown by Java."""
    _print_all(env, lambda types: Types.TUPLE([Types.ROW(types)]), lambda values: (Row(*values),))


def every_type_in_a_row_in_a_map(env):
    """And one within a map."""
    _print_all(
        env, lambda types: Types.MAP(Types.STRING(), Types.ROW(types)), lambda values: {"k": Row(*values)}
    )


@unordered("two sinks")
def large_whole_numbers(env):
    """Of whole numbers beyond 2^53, and beyond 2^24 in a FLOAT, Java writes more digits than they need."""
    doubles = [2.0**60, 1.7e18, 1700000000123456789.0, -(2.0**54) - 4, 2.0**62 + 2048, 2.0**63, 1e19]
    env.from_collection(doubles, Types.DOUBLE()).print("double")
    env.from_collection([123456789.0, 3e10, 2.0**24 + 2, 146514032.0, 1e19], Types.FLOAT()).print("float")
    env.execute()
