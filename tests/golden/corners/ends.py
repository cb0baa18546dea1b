"""Where a program begins and ends: sources of collections, print, execute, execute_and_collect."""

from __future__ import annotations

import datetime
import glob
import os
import tempfile
from decimal import Decimal

from pyflink.common import Encoder, Row, RowKind, Types, WatermarkStrategy
from pyflink.datastream import MapFunction, SourceFunction
from pyflink.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

from corners.how import unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.INT()])


def collection_of_tuples(env):
    """Tuples with a type."""
    return env.from_collection([("a", 1), ("b", 2)], _PAIRS)


def collection_of_anything(env):
    """Elements of all classes without a type."""
    return env.from_collection([1, "a", 2.5, None, (1, "x"), [1], {"k": 1}, Row(1, "y"), b"z", True])


def collection_of_basic_types(env):
    """A row of basic types, from the collection to the result."""
    kinds = [
        Types.BYTE(),
        Types.SHORT(),
        Types.INT(),
        Types.LONG(),
        Types.FLOAT(),
        Types.DOUBLE(),
        Types.BOOLEAN(),
        Types.STRING(),
    ]
    return env.from_collection([(1, 2, 3, 4, 0.5, 1.5, True, "s")], Types.TUPLE(kinds))


def collection_of_dates(env):
    """Dates, times and timestamps, from the collection to a function."""
    kinds = [Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()]
    elements = [
        (
            datetime.date(2020, 2, 29),
            datetime.time(1, 2, 3),
            datetime.datetime(2020, 1, 2, 3, 4, 5, 678000),
            Decimal("1.25"),
        )
    ]
    found = env.from_collection(elements, Types.TUPLE(kinds))
    return found.map(lambda v: repr(v[:3]), Types.STRING())


def collection_of_maps(env):
    """Dicts with a MAP type."""
    return env.from_collection([{"a": 1}, {}], Types.MAP(Types.STRING(), Types.INT()))


def collection_of_a_generator(env):
    """A generator in place of a list."""
    return env.from_collection((n for n in range(3)), Types.INT())


def collection_of_a_range(env):
    """A range, a tuple and a set of one in place of a list."""
    return env.from_collection(range(3), Types.INT())


def collection_of_a_tuple(env):
    """A tuple in place of a list."""
    return env.from_collection((1, 2), Types.INT())


def empty_collection(env):
    """A collection without elements."""
    return env.from_collection([], Types.INT()).map(lambda n: n, Types.INT())


def collection_of_wrong_classes(env):
    """An element that its type can't carry is refused where the collection is given."""
    return env.from_collection([1, "a"], Types.INT())


def ints_in_a_collection_of_doubles(env):
    """Whole numbers in a collection of DOUBLE."""
    return env.from_collection([1, 2.5], Types.DOUBLE())


def number_sequence(env):
    """A NumberSequenceSource, mapped."""
    from pyflink.common import WatermarkStrategy

    numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "n")
    return numbers.map(lambda n: n + 0.5, Types.DOUBLE())


def text_file(env):
    """read_text_file keeps lines, also empty ones, and drops line ends."""
    with open("lines.txt", "w", encoding="utf-8", newline="") as file:
        file.write("one\n\nzwölf\r\nlast")
    return env.read_text_file(os.path.abspath("lines.txt"))


def folder_of_text_files(env):
    """read_text_file reads no folders within a folder, FileSource does; neither reads hidden files."""
    folder = tempfile.mkdtemp()
    os.mkdir(f"{folder}/sub")
    texts = {
        "a.txt": "x\r\ny\r\n",
        "_b.txt": "hidden\n",
        ".c": "hidden\n",
        "d.csv": "\n\nq",
        "sub/e.txt": "deep\n",
    }
    for name, text in texts.items():
        with open(f"{folder}/{name}", "w", newline="") as file:
            file.write(text)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
    seen = []
    for lines in (
        env.read_text_file(folder),
        env.from_source(source, WatermarkStrategy.no_watermarks(), "f"),
    ):
        with lines.execute_and_collect() as results:
            seen.append(str(sorted(results)))
    return seen


def printed_values(env):
    """What print() makes of values."""
    kinds = Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.LIST(Types.INT())])
    ints = env.from_collection([1, 2], Types.INT())
    ints.map(lambda n: ("a", n * 1e10, n == 1, [n, n]), kinds).print()
    env.execute("printed_values")


def printed_with_an_identifier(env):
    """print() with an identifier."""
    env.from_collection([1, 2], Types.INT()).print("numbers")
    env.execute("printed_with_an_identifier")


def printed_without_types(env):
    """print() of elements without a type."""
    env.from_collection([1, "a", (1, "b"), [1, None], {"k": 1.0}, None, True]).print()
    env.execute("printed_without_types")


def printed_dates(env):
    """print() of dates, decimals and floats."""
    kinds = [Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.FLOAT(), Types.DOUBLE()]
    day = datetime.date(2020, 2, 29)
    at = datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)
    env.from_collection([(day, datetime.time(1, 2, 3), at, 0.1, 1e-5)], Types.TUPLE(kinds)).print()
    env.execute("printed_dates")


def printed_arrays_and_maps(env):
    """print() of maps and byte arrays in rows."""
    row = Types.ROW_NAMED(["m", "t"], [Types.MAP(Types.STRING(), Types.INT()), _PAIRS])
    env.from_collection([1], Types.INT()).map(lambda n: Row(m={"k": n}, t=("x", n)), row).print()
    env.execute("printed_arrays_and_maps")


def collected_twice(env):
    """execute_and_collect() of one stream twice is two jobs."""
    ints = env.from_collection([1, 2], Types.INT()).map(lambda n: n + 1, Types.INT())
    found = []
    for _ in range(2):
        with ints.execute_and_collect() as results:
            found.extend(results)
    return found


def collected_with_a_limit(env):
    """execute_and_collect(limit=...) is a list."""
    found = env.from_collection([1, 2, 3], Types.INT()).execute_and_collect(limit=2)
    return [type(found).__name__, *found]


def limit_larger_than_the_stream(env):
    """A limit that isn't reached."""
    return env.from_collection([1], Types.INT()).execute_and_collect("limited", 10)


def next_and_close(env):
    """The iterator's own methods."""
    results = env.from_collection([1, 2], Types.INT()).execute_and_collect()
    found = [results.next(), next(results)]
    results.close()
    return found


def after_the_last_element(env):
    """next() at the end."""
    results = env.from_collection([1], Types.INT()).execute_and_collect()
    next(results)
    try:
        results.next()
    except StopIteration:
        return ["StopIteration"]
    finally:
        results.close()


def executed_twice(env):
    """The second execute() runs what was added since the first."""
    env.from_collection([1], Types.INT()).print()
    env.execute("first")
    env.from_collection([2], Types.INT()).print()
    env.execute("second")


def executed_with_nothing(env):
    """execute() without operators."""
    env.execute("nothing")


def source_without_a_sink(env):
    """A stream that is mapped and goes nowhere runs."""
    env.from_collection([1], Types.INT()).map(lambda n: 1 // 0, Types.INT())
    env.execute("source_without_a_sink")


def result_of_execute(env):
    """What execute() returns."""
    env.from_collection([1], Types.INT()).print()
    result = env.execute("result_of_execute")
    return [result.get_net_runtime() > 0, len(str(result.get_job_id()))]


def failing_map(env):
    """An exception of a function fails the job."""
    return env.from_collection([0], Types.INT()).map(lambda n: 1 // n, Types.INT())


def failing_open(env):
    """An exception in open()."""

    class Fails(MapFunction):
        def open(self, runtime_context):
            raise ValueError("no")

        def map(self, value):
            return value

    return env.from_collection([1], Types.INT()).map(Fails(), Types.INT())


def failing_close(env):
    """An exception in close()."""

    class Fails(MapFunction):
        def map(self, value):
            return value

        def close(self):
            raise ValueError("no")

    return env.from_collection([1], Types.INT()).map(Fails(), Types.INT())


def function_that_cannot_be_pickled(env):
    """A lock in a closure."""
    import threading

    lock = threading.Lock()
    return env.from_collection([1], Types.INT()).map(lambda n: lock.locked())


def sources_function_is_java(env):
    """A Python class is no source function."""

    class Mine(SourceFunction):
        def __init__(self):
            pass

        def run(self, ctx):
            ctx.collect(1)

    return env.add_source(Mine(), "mine", Types.INT())


def names_of_streams(env):
    """name(), set_parallelism() and others give the stream back."""
    ints = env.from_collection([1], Types.INT()).map(lambda n: n, Types.INT())
    named = ints.name("mine").uid("mine").set_parallelism(1).set_description("described")
    return [named.get_name(), str(named.get_type()), ints is named]


@unordered("two sinks have no order between them")
def two_sinks(env):
    """Two sinks of one stream."""
    ints = env.from_collection([1, 2], Types.INT())
    ints.print("first")
    ints.map(lambda n: n * 10, Types.INT()).print("second")
    env.execute("two_sinks")


def types_of_streams(env):
    """get_type() of what functions give."""
    ints = env.from_collection([1], Types.INT())
    return [
        str(ints.get_type()),
        str(ints.map(lambda n: n).get_type()),
        str(ints.map(lambda n: n, Types.STRING()).get_type()),
        str(ints.filter(lambda n: True).get_type()),
    ]


def types_of_rows(env):
    """get_type() of rows without names, within other types, and of a keyed stream."""
    row = Types.ROW([Types.INT(), Types.STRING()])
    ints = env.from_collection([1], Types.INT())
    kinds = [
        row,
        Types.TUPLE([row]),
        Types.MAP(Types.STRING(), Types.ROW([row])),
        Types.ROW_NAMED(["f0"], [row]),
    ]
    streams = [ints.map(lambda n: n, kind) for kind in kinds]
    told = [f"{kind} | {stream.get_type()}" for kind, stream in zip(kinds, streams, strict=True)]
    same = [stream.get_type() == kind for kind, stream in zip(kinds, streams, strict=True)]
    return [*told, same, str(ints.key_by(lambda n: n, Types.INT()).get_type()), str(row)]


def keyed_stream_collected(env):
    """execute_and_collect() of a keyed stream."""
    return env.from_collection([("a", 1)], _PAIRS).key_by(lambda v: v[0])


def keyed_stream_collected_with_a_key_type(env):
    """execute_and_collect() of a keyed stream whose keys have a type; the key's own type is another one than its field's."""
    pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)], _PAIRS)
    return pairs.key_by(lambda v: v[1] % 2 == 1, Types.BOOLEAN())


def collection_of_characters(env):
    """A str gives its characters, a dict its keys."""
    letters = env.from_collection("ab", Types.STRING())
    return letters.map(lambda v: [v, *{"k": 1}], Types.LIST(Types.STRING()))


def collection_of_keys(env):
    """A dict gives its keys."""
    return env.from_collection({"k": 1, "l": 2}, Types.STRING())


def parallelism_by_default(env):
    """-1 forgets a parallelism, -2 leaves it."""
    config = env.set_parallelism(3).get_config()
    config.set_parallelism(config.PARALLELISM_UNKNOWN)
    kept = env.get_parallelism()
    env.set_parallelism(config.PARALLELISM_DEFAULT)
    mapped = env.set_parallelism(2).from_collection([1], Types.INT()).map(lambda v: v, Types.INT())
    return [kept, mapped.set_parallelism(1).set_parallelism(config.PARALLELISM_DEFAULT) is mapped]


def files_of_typed_elements(env):
    """What FileSink writes of rows, tuples, maps and lists: Java's texts, not those of print()."""
    folder = os.path.abspath("typed")
    inner = Types.ROW_NAMED(["n", "m"], [Types.INT(), Types.MAP(Types.STRING(), Types.BOOLEAN())])
    fields = [Types.STRING(), Types.DOUBLE(), Types.LIST(Types.DOUBLE()), Types.BOOLEAN(), inner]
    row = Types.ROW_NAMED(["a", "b", "c", "d", "e"], fields)
    rows = [Row("x", 1.0, [1e-7, 2.0], True, Row(1, {"k": False})), Row("é", 1e-7, [], None, None)]
    deleted = Row("gone", 0.5, None, False, None)
    deleted.set_row_kind(RowKind.DELETE)
    pair = Types.TUPLE([Types.STRING(), Types.ROW([Types.INT()])])
    _to_file(env.from_collection([*rows, deleted], row), f"{folder}/rows")
    _to_file(env.from_collection([("a", Row(1))], pair), f"{folder}/pairs")
    _to_file(env.from_collection([1.0, 1e20], Types.DOUBLE()), f"{folder}/doubles")
    _to_file(
        env.from_collection([{"k": [True]}], Types.MAP(Types.STRING(), Types.LIST(Types.BOOLEAN()))),
        f"{folder}/maps",
    )
    env.execute("files_of_typed_elements")
    found = []
    for path in sorted(glob.glob(f"{folder}/**", recursive=True)):
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                found += file.read().splitlines()
    return found


def _to_file(stream, path):
    builder = FileSink.for_row_format(path, Encoder.simple_string_encoder())
    stream.sink_to(builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
