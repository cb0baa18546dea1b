"""Formats of files: what is written comes back, value by value, from every position."""

from __future__ import annotations

import datetime
import json
import math
import os
import pickle
import time
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from support.written_files import read, write

from api.datastream.connectors.file_system import FileSink, FileSource
from api.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from api.datastream.formats.orc import OrcBulkWriters, OrcColumnarRowInputFormat
from api.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from api.table import DataTypes
from changelog_engine.connectors.files import AvroRecords, JsonLines, ParquetRecords
from changelog_engine.connectors.files import FileSource as EngineFileSource
from changelog_engine.errors import ConfigurationError, NotSupportedError, StorageError, TypeMismatchError
from changelog_engine.testing.conformance import check_source
from changelog_engine.types import Instant, Row, Types

ROW = DataTypes.ROW(
    [
        DataTypes.FIELD("id", DataTypes.INT()),
        DataTypes.FIELD("text", DataTypes.STRING()),
        DataTypes.FIELD("double", DataTypes.DOUBLE()),
        DataTypes.FIELD("bool", DataTypes.BOOLEAN()),
        DataTypes.FIELD("long", DataTypes.BIGINT()),
        DataTypes.FIELD("decimal", DataTypes.DECIMAL(10, 2)),
        DataTypes.FIELD("date", DataTypes.DATE()),
        DataTypes.FIELD("time", DataTypes.TIME()),
        DataTypes.FIELD("stamp", DataTypes.TIMESTAMP()),
        DataTypes.FIELD("instant", DataTypes.TIMESTAMP_LTZ()),
        DataTypes.FIELD("bytes", DataTypes.BYTES()),
        DataTypes.FIELD("list", DataTypes.ARRAY(DataTypes.INT())),
        DataTypes.FIELD("map", DataTypes.MAP(DataTypes.STRING(), DataTypes.ARRAY(DataTypes.INT()))),
        DataTypes.FIELD("row", DataTypes.ROW([DataTypes.FIELD("a", DataTypes.BIGINT())])),
    ]
)
VALUES = [
    1,
    "ü☂",
    1.5,
    True,
    2**62,
    Decimal("12.25"),
    datetime.date(2024, 2, 29),
    datetime.time(1, 2, 3),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 456789),
    Instant(1_700_000_000, 123_456_789),
    b"\x00\xff",
    [1, 2],
    {"k": [3]},
    Row(a=5),
]
AVRO = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "Event",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "name", "type": ["null", "string"]},
                {"name": "tags", "type": {"type": "map", "values": "int"}},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                {
                    "name": "inner",
                    "type": {
                        "type": "record",
                        "name": "I",
                        "fields": [{"name": "x", "type": {"type": "array", "items": "int"}}],
                    },
                },
            ],
        }
    )
)


def events(count):
    at = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    return [
        {
            "id": number,
            "name": None if number % 3 == 0 else f"n{number}",
            "tags": {f"t{number}": number},
            "at": at + datetime.timedelta(microseconds=number),
            "inner": {"x": list(range(number % 4))},
        }
        for number in range(count)
    ]


def row(**changes):
    values = dict(zip(ROW.get_field_names(), VALUES, strict=True))
    return Row(**(values | changes))


@pytest.mark.parametrize("writers", [ParquetBulkWriters, OrcBulkWriters])
@pytest.mark.parametrize(
    ("element", "message"),
    [((1, 2), "field 'b'"), (("x", "y"), "field 'a'"), ((1,), "1 fields, not 2"), (5, "5")],
)
def test_elements_that_do_not_fit(tmp_path, writers, element, message):
    row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    with pytest.raises(TypeMismatchError, match=message):
        write(tmp_path / "out", writers.for_row_type(row_type), [element])


@pytest.mark.parametrize(
    ("writers", "form"),
    [
        (ParquetBulkWriters, ParquetColumnarRowInputFormat),
        (OrcBulkWriters, OrcColumnarRowInputFormat),
    ],
)
def test_rows_are_written_by_their_names(tmp_path, writers, form):
    """Ada Lovelace was written as Lovelace Ada."""
    texts = [DataTypes.FIELD(name, DataTypes.STRING()) for name in ("first", "last")]
    row_type = DataTypes.ROW([*texts, DataTypes.FIELD("of", DataTypes.ROW(texts))])
    ada = Row(last="Lovelace", of=Row(last="Byron", first="George"), first="Ada")
    for number, others in enumerate(
        ([], [("Ada", "Lovelace", ("George", "Byron"))], [Row("Ada", "Lovelace", None)])
    ):
        write(tmp_path / str(number), writers.for_row_type(row_type), [ada, *others])
        source = FileSource.for_bulk_file_format(form(row_type), str(tmp_path / str(number))).build()
        found = read(source)[0]
        assert found == Row(first="Ada", last="Lovelace", of=Row(first="George", last="Byron"))


@pytest.mark.parametrize(
    ("writers", "form"),
    [
        (ParquetBulkWriters, ParquetColumnarRowInputFormat),
        (OrcBulkWriters, OrcColumnarRowInputFormat),
    ],
)
def test_whole_numbers_of_any_size_are_ints(tmp_path, writers, form):
    """They came back as decimals; a DECIMAL(38, 0) is one."""
    big = Types.BIG_INT()
    kinds = [
        big,
        Types.LIST(big),
        Types.MAP(Types.STRING(), big),
        Types.ROW_NAMED(["x"], [big]),
        DataTypes.DECIMAL(38, 0),
    ]
    row_type = Types.ROW_NAMED(["a", "list", "map", "row", "d"], kinds)
    rows = [
        Row(a=10**37, list=[-(10**37), None], map={"k": 2**70}, row=Row(x=1), d=Decimal(10**37)),
        Row(a=None, list=None, map=None, row=None, d=None),
    ]
    write(tmp_path, writers.for_row_type(row_type), rows)
    found = read(FileSource.for_bulk_file_format(form(row_type), str(tmp_path)).build())
    assert list(map(repr, found)) == list(map(repr, rows))


def _millis(moment):
    return (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(milliseconds=1)


_EAST = datetime.timezone(datetime.timedelta(hours=5))
_NOON = datetime.datetime(2024, 5, 6, 12)


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        (DataTypes.BIGINT(), [1, 2.0, Decimal(3)], [1.5, Decimal("1.5"), math.nan, 2**63]),
        (DataTypes.TINYINT(), [-128, 127.0], [128, 0.5]),
        (DataTypes.FLOAT(), [0.5, math.inf, 7], [1e300, -1e39]),
        (DataTypes.STRING(), ["ä"], [b"a", 1]),
        (DataTypes.BYTES(), [b"a", bytearray(b"a")], ["a", 1]),
        (
            DataTypes.DATE(),
            [_NOON.date(), datetime.datetime(2024, 5, 6)],
            [_NOON, 5, _NOON.replace(hour=0, tzinfo=_EAST)],
        ),
        (
            DataTypes.TIME(),
            [_NOON.time(), _NOON.time().replace(tzinfo=datetime.UTC)],
            [5, _NOON.time().replace(tzinfo=_EAST)],
        ),
        (
            DataTypes.TIMESTAMP(),
            [_NOON, pd.Timestamp(_NOON)],
            [5, _NOON.date(), pd.Timestamp(_NOON) + pd.Timedelta(1)],
        ),
        (DataTypes.TIMESTAMP_LTZ(), [Instant(5, 7)], [5]),
    ],
    ids=str,
)
def test_no_value_is_written_as_another_one(tmp_path, wanted, good, bad):
    """Arrow cuts off, and takes one class for another; inside of lists, maps and rows, too."""
    for number, (kind, wrapped) in enumerate(
        (
            (wanted, lambda value: value),
            (DataTypes.ARRAY(wanted), lambda value: [None, value]),
            (DataTypes.MAP(DataTypes.STRING(), wanted), lambda value: {"k": value}),
            (DataTypes.ROW([DataTypes.FIELD("x", wanted)]), lambda value: Row(x=value)),
        )
    ):
        factory = ParquetBulkWriters.for_row_type(DataTypes.ROW([DataTypes.FIELD("a", kind)]))
        write(tmp_path / str(number), factory, [Row(a=wrapped(value)) for value in [*good, None]])
        for value in bad:
            with pytest.raises(TypeMismatchError, match=r"field 'a' of Row\(a="):
                write(tmp_path / "bad", factory, [Row(a=wrapped(good[0])), Row(a=wrapped(value))])


class Shown(int):
    """A number that shows itself as another one."""

    def __str__(self):
        return "99"


@pytest.mark.parametrize("writers", [ParquetBulkWriters, OrcBulkWriters])
def test_numbers_of_a_class_of_their_own_and_what_is_not_a_list(tmp_path, writers):
    """Arrow wrote a BIG_INT as the number shows itself, and the fields of a row, or a bytearray's bytes, as elements."""
    read_back = {ParquetBulkWriters: pq.read_table, OrcBulkWriters: orc.read_table}[writers]
    for number, kind in enumerate(
        (Types.BIG_INT(), Types.LIST(Types.BIG_INT()), Types.BIG_DEC(), Types.LONG())
    ):
        factory = writers.for_row_type(Types.ROW_NAMED(["a"], [kind]))
        given = [Shown(5)] if kind.kind == "LIST" else Shown(5)
        path = write(tmp_path / str(number), factory, [Row(a=given), Row(a=None)])
        assert read_back(path)["a"].to_pylist() == [given, None]
    with pytest.raises(TypeMismatchError, match=r"field 'a' of .* is a length of time"):
        write(
            tmp_path / "time",
            writers.for_row_type(Types.ROW_NAMED(["a"], [Types.LONG()])),
            [Row(a=np.timedelta64(5, "ns"))],
        )
    factory = writers.for_row_type(Types.ROW_NAMED(["a"], [Types.LIST(Types.INT())]))
    for value in (Row(b=1), bytearray(b"a"), memoryview(b"a"), "ab", {1: 2}):
        with pytest.raises(TypeMismatchError, match=r"field 'a' of .* is not a list"):
            write(tmp_path / "bad", factory, [Row(a=value)])


@pytest.mark.parametrize(
    ("writers", "form", "schema_of"),
    [
        (ParquetBulkWriters, ParquetColumnarRowInputFormat, lambda path: pq.read_schema(path)),
        (OrcBulkWriters, OrcColumnarRowInputFormat, lambda path: orc.ORCFile(path).schema),
    ],
    ids=["parquet", "orc"],
)
class TestDecimals:
    """A column of a declared DECIMAL is one; it was (38, 18), whatever was declared."""

    ROW = DataTypes.ROW(
        [
            DataTypes.FIELD("a", DataTypes.DECIMAL(4, 1)),
            DataTypes.FIELD("list", DataTypes.ARRAY(DataTypes.DECIMAL(4, 1))),
            DataTypes.FIELD("row", DataTypes.ROW([DataTypes.FIELD("x", DataTypes.DECIMAL(4, 1))])),
        ]
    )

    @staticmethod
    def row(value):
        return Row(a=value, list=[value, None], row=Row(x=value))

    def test_are_rounded_as_in_csv_and_keep_their_scale(self, tmp_path, writers, form, schema_of):
        given = ["1.25", "-1.25", "1.2", "0", "999.9", "-0.04", 7, 2.35]
        rounded = [Decimal(text) for text in ("1.3", "-1.3", "1.2", "0.0", "999.9", "0.0", "7.0", "2.4")]
        values = [Decimal(each) if isinstance(each, str) else each for each in given]
        path = write(
            tmp_path / "out", writers.for_row_type(self.ROW), [self.row(each) for each in [*values, None]]
        )
        assert schema_of(path).field("a").type == pa.decimal128(4, 1)
        found = read(FileSource.for_bulk_file_format(form(self.ROW), str(tmp_path / "out")).build())
        assert [repr(row) for row in found] == [repr(self.row(each)) for each in [*rounded, None]]

    @pytest.mark.parametrize(("scale", "rounded"), [(18, "0.123456789012345679"), (0, "0")])
    def test_a_declared_one_of_38_digits_is_rounded_too(
        self, tmp_path, writers, form, schema_of, scale, rounded
    ):
        """They are Arrow's types of a BIG_DEC and a BIG_INT, of which all digits must fit."""
        fine = Decimal("0.1234567890123456785")
        fields = [DataTypes.FIELD("a", DataTypes.DECIMAL(38, scale))]
        write(tmp_path / "one", writers.for_row_type(DataTypes.ROW(fields)), [Row(a=fine)])
        (row,) = read(
            FileSource.for_bulk_file_format(form(DataTypes.ROW(fields)), str(tmp_path / "one")).build()
        )
        assert repr(row) == repr(Row(a=Decimal(rounded)))
        both = DataTypes.ROW(
            [*fields, DataTypes.FIELD("b", Types.LIST(Types.BIG_DEC() if scale else Types.BIG_INT()))]
        )
        with pytest.raises(TypeMismatchError, match="field 'a'"):
            write(tmp_path / "both", writers.for_row_type(both), [Row(a=fine, b=[])])

    @pytest.mark.parametrize("bad", ["1000", "999.95", "-1000", "NaN", "Infinity"])
    def test_too_many_digits_are_an_error(self, tmp_path, writers, form, schema_of, bad):
        for row in (Row(a=Decimal(bad), list=None, row=None), Row(a=None, list=[Decimal(bad)], row=None)):
            with pytest.raises(TypeMismatchError, match=r"field '(a|list)' of Row\(a="):
                write(tmp_path / "bad", writers.for_row_type(self.ROW), [row])

    def test_a_file_of_other_decimals(self, tmp_path, writers, form, schema_of):
        """Files of earlier versions have 18 digits behind the point: they are read as declared, rounded, or not at all."""
        wide = DataTypes.ROW([DataTypes.FIELD("a", Types.BIG_DEC())])
        write(tmp_path / "wide", writers.for_row_type(wide), [Row(a=Decimal("12.25")), Row(a=None)])
        narrow = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.DECIMAL(4, 1))])
        (first, second) = read(FileSource.for_bulk_file_format(form(narrow), str(tmp_path / "wide")).build())
        assert (repr(first), second) == (repr(Row(a=Decimal("12.3"))), Row(a=None))
        write(tmp_path / "long", writers.for_row_type(wide), [Row(a=Decimal("1234.5"))])
        with pytest.raises(TypeMismatchError, match=r"column 'a' of .* was declared decimal128\(4, 1\)"):
            read(FileSource.for_bulk_file_format(form(narrow), str(tmp_path / "long")).build())
        with pytest.raises(TypeMismatchError, match="field 'a'"):
            write(tmp_path / "lost", writers.for_row_type(wide), [Row(a=Decimal("0.1234567890123456789"))])


def test_a_column_that_files_do_not_have_is_told_once(tmp_path, caplog):
    for number in range(2):
        (tmp_path / f"day={number}").mkdir()
        pq.write_table(pa.table({"a": [number]}), tmp_path / f"day={number}" / "f.parquet")
    form = ParquetRecords(
        Types.ROW_NAMED(["a", "day", "other"], [Types.LONG(), Types.STRING(), Types.LONG()])
    )
    assert check_source(EngineFileSource([str(tmp_path)], form))[0] == Row(a=0, day=None, other=None)
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [message.split(" has ")[1] for message in messages] == [
        "no column 'day', which is None in its rows: names of folders are not read as values",
        "no column 'other', which is None in its rows",
    ]


class TestParquet:
    @pytest.mark.parametrize("zone", [None, "UTC"])
    def test_times_as_spark_and_hive_write_them(self, tmp_path, zone):
        """9999-12-31, which stands for no end in many tables, became 1816-03-30."""
        times = [datetime.datetime(9999, 12, 31, 23, 59, 59), datetime.datetime(1, 1, 1), _NOON, None]
        table = pa.table({"t": pa.array(times, pa.timestamp("us", zone))})
        pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
        for wanted, expected in (
            (Types.SQL_TIMESTAMP(), times),
            (Types.INSTANT(), [each and Instant.of_epoch_milli(_millis(each)) for each in times]),
        ):
            form = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["t"], [wanted]))
            source = FileSource.for_bulk_file_format(form, str(tmp_path)).build()
            assert [each.t for each in read(source)] == expected
        assert [
            each["t"] for each in check_source(EngineFileSource([str(tmp_path)], ParquetRecords()))
        ] == times

    def test_columns_of_one_name_are_refused(self, tmp_path):
        """Of two, one was lost."""
        for names, sensitive, row_type in (
            (["a", "a"], True, Types.ROW_NAMED(["a"], [Types.LONG()])),
            (["a", "a"], True, None),
            (["a", "A"], False, Types.ROW_NAMED(["a"], [Types.LONG()])),
        ):
            table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=names)
            pq.write_table(table, tmp_path / "f.parquet")
            form = ParquetRecords(row_type, case_sensitive=sensitive)
            with pytest.raises(StorageError, match="more than one column 'a'"):
                check_source(EngineFileSource([str(tmp_path)], form))
        pq.write_table(pa.table({"a": [1], "A": [2], "b": [3], "B": [4]}), tmp_path / "f.parquet")
        wanted = ParquetRecords(Types.ROW_NAMED(["a"], [Types.LONG()]))
        assert check_source(EngineFileSource([str(tmp_path)], wanted)) == [Row(a=1)]

    def test_rows_of_all_types(self, tmp_path):
        nulls = Row(**dict.fromkeys(ROW.get_field_names()))
        rows = [row(), nulls, row(double=math.inf, list=[], map={}), row(row=None)]
        write(tmp_path, ParquetBulkWriters.for_row_type(ROW), rows)
        source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(ROW), str(tmp_path)).build()
        assert source._source.output_type == ROW
        assert read(source) == rows
        assert [ROW.check(each) for each in rows] == rows

    def test_tuples_and_plain_rows(self, tmp_path):
        row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
        write(tmp_path, ParquetBulkWriters.for_row_type(row_type), [(1, "x"), Row(2, "y"), [3, None]])
        source = FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(row_type), str(tmp_path)
        ).build()
        assert read(source) == [Row(a=1, b="x"), Row(a=2, b="y"), Row(a=3, b=None)]

    @pytest.mark.parametrize("batch_size", [1, 3, 1000])
    def test_row_groups_are_read_on_from_every_position(self, tmp_path, batch_size):
        table = pa.table({"n": list(range(100)), "more": ["x"] * 100})
        pq.write_table(table, tmp_path / "f.parquet", row_group_size=17)
        row_type = Types.ROW_NAMED(["n"], [Types.INT()])
        read_format = ParquetColumnarRowInputFormat(row_type, batch_size=batch_size)
        source = FileSource.for_bulk_file_format(read_format, str(tmp_path)).build()
        assert read(source) == [Row(n=number) for number in range(100)]

    def test_parquet_columns_are_matched_by_name_and_missing_ones_are_none(self, tmp_path):
        pq.write_table(pa.table({"A": pa.array([1, 2], pa.int64())}), tmp_path / "f.parquet")
        row_type = Types.ROW_NAMED(["a", "missing"], [Types.INT(), Types.STRING()])
        inexact = ParquetColumnarRowInputFormat(row_type, is_case_sensitive=False)
        source = FileSource.for_bulk_file_format(inexact, str(tmp_path)).build()
        assert read(source) == [Row(a=1, missing=None), Row(a=2, missing=None)]
        source = FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(row_type), str(tmp_path)
        ).build()
        assert read(source) == [Row(a=None, missing=None)] * 2

    @pytest.mark.parametrize("unit", ["ms", "us"])
    def test_instants_that_nanoseconds_do_not_hold(self, tmp_path, unit):
        """Of other programs: 9999-12-31 is what many write for no end."""
        utc = datetime.UTC
        times = [
            datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=utc),
            None,
            datetime.datetime(1, 1, 1, tzinfo=utc),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=utc),
        ]
        pq.write_table(pa.table({"at": pa.array(times, pa.timestamp(unit, "UTC"))}), tmp_path / "f")
        form = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["at"], [Types.INSTANT()]))
        found = read(FileSource.for_bulk_file_format(form, str(tmp_path)).build())
        assert [each.at for each in found] == [
            Instant(253_402_300_799, 0),
            None,
            Instant(-62_135_596_800, 0),
            Instant(-1, 999_000_000),
        ]

    @pytest.mark.parametrize(
        ("value", "given", "wanted", "said"),
        [
            (2, pa.int8(), Types.BOOLEAN(), "not true or false"),
            (1e300, pa.float64(), Types.FLOAT(), "too large for 32 bits"),
            (
                datetime.datetime(2024, 1, 1, 5),
                pa.timestamp("us"),
                Types.SQL_DATE(),
                "a value has a time of day",
            ),
            (datetime.datetime(2024, 1, 1, 5), pa.timestamp("us"), Types.SQL_TIME(), "a value has a date"),
        ],
    )
    def test_what_a_cast_would_lose(self, tmp_path, value, given, wanted, said):
        """Also inside of lists, maps and structs."""
        inner = {
            "plain": (given, value, wanted),
            "list": (pa.list_(given), [None, value], Types.LIST(wanted)),
            "map": (pa.map_(pa.string(), given), [("k", value)], Types.MAP(Types.STRING(), wanted)),
            "struct": (
                pa.struct([("x", given), ("y", given)]),
                {"x": None, "y": value},
                Types.ROW_NAMED(["y"], [wanted]),
            ),
        }
        for name, (kind, held, declared) in inner.items():
            pq.write_table(pa.table({"a": pa.array([held], kind)}), tmp_path / name)
            form = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["a"], [declared]))
            with pytest.raises(TypeMismatchError, match=rf"column 'a' of .*{said}"):
                read(FileSource.for_bulk_file_format(form, str(tmp_path / name)).build())

    @pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
    def test_finer_timestamps_are_rounded_down(self, tmp_path, zone):
        """Those of a zone are in UTC, also in the hour that there is twice."""
        twice = 1_729_992_600_000_001_999
        times = pa.array([-1, -1000, 1999, None, twice], pa.timestamp("ns", zone))
        pq.write_table(pa.table({"at": times}), tmp_path / "f")
        form = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()]))
        found = read(FileSource.for_bulk_file_format(form, str(tmp_path)).build())
        before, after = (
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
            datetime.datetime(1970, 1, 1, 0, 0, 0, 1),
        )
        fold = datetime.datetime(2024, 10, 27, 1, 30, 0, 1)
        assert [each.at for each in found] == [before, before, after, None, fold]

    def test_a_timestamp_that_microseconds_do_not_hold(self, tmp_path):
        pq.write_table(pa.table({"at": pa.array([2**62], pa.timestamp("ms"))}), tmp_path / "f")
        form = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()]))
        with pytest.raises(TypeMismatchError, match=r"column 'at' of .*out of bounds"):
            read(FileSource.for_bulk_file_format(form, str(tmp_path)).build())

    def test_a_column_that_does_not_fit(self, tmp_path):
        pq.write_table(pa.table({"a": [2**40]}), tmp_path / "f.parquet")
        row_type = Types.ROW_NAMED(["a"], [Types.INT()])
        source = FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(row_type), str(tmp_path)
        ).build()
        with pytest.raises(TypeMismatchError, match=f"column 'a' of {tmp_path}/f.parquet is int64"):
            read(source)

    def test_no_value_becomes_another_one(self, tmp_path):
        noon = datetime.datetime(2024, 5, 6, 12)
        for wanted, fits, other in (
            (Types.FLOAT(), [1.5, None, math.inf, -math.inf], 1e300),
            (Types.BOOLEAN(), [None], 5),
            (Types.BOOLEAN(), [None], "true"),
            (Types.SQL_DATE(), [datetime.datetime(2024, 5, 6), None], noon),
        ):
            form = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["a"], [wanted]))
            pq.write_table(pa.table({"a": fits}), tmp_path / "f.parquet")
            source = FileSource.for_bulk_file_format(form, str(tmp_path)).build()
            expected = [each.date() if isinstance(each, datetime.datetime) else each for each in fits]
            assert [each.a for each in read(source)] == expected
            pq.write_table(pa.table({"a": [*fits, other]}), tmp_path / "f.parquet")
            with pytest.raises(TypeMismatchError, match=f"column 'a' of {tmp_path}/f.parquet"):
                read(source)

    def test_an_empty_file_and_no_file(self, tmp_path):
        pq.write_table(pa.table({"a": pa.array([], pa.int32())}), tmp_path / "f.parquet")
        row_type = Types.ROW_NAMED(["a"], [Types.INT()])
        source = FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(row_type), str(tmp_path)
        ).build()
        assert read(source) == []
        (tmp_path / "f.parquet").write_bytes(b"PAR1 no parquet")
        with pytest.raises(StorageError, match=r"cannot read the input file .*f\.parquet"):
            read(source)

    def test_avro_records_in_parquet_come_back(self, tmp_path):
        write(tmp_path, AvroParquetWriters.for_generic_record(AVRO), events(50))
        source = FileSource.for_record_stream_format(
            AvroParquetReaders.for_generic_record(AVRO), str(tmp_path)
        ).build()
        assert read(source) == events(50)

    def test_types_that_columns_cannot_hold(self):
        with pytest.raises(NotSupportedError, match="PICKLED"):
            ParquetBulkWriters.for_row_type(Types.ROW([Types.PICKLED_BYTE_ARRAY()]))
        with pytest.raises(ConfigurationError, match="must be a type of rows"):
            ParquetBulkWriters.for_row_type(Types.INT())
        with pytest.raises(ConfigurationError, match="AvroSchema"):
            AvroParquetWriters.for_generic_record("{}")


def orc_source(folder, row_type, **options):
    return FileSource.for_bulk_file_format(
        OrcColumnarRowInputFormat(row_type, **options), str(folder)
    ).build()


class TestOrc:
    # ORC has no times of day.
    ROW = DataTypes.ROW(
        [
            DataTypes.FIELD(name, field_type)
            for name, field_type in zip(ROW.get_field_names(), ROW.get_field_types(), strict=True)
            if name != "time"
        ]
    )

    def row(self, **changes):
        values = row(**changes).as_dict()
        del values["time"]
        return Row(**values)

    def test_orc_files_hold_what_was_written(self, tmp_path):
        row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.STRING())])
        path = write(tmp_path, OrcBulkWriters.for_row_type(row_type), [Row(1, ["x"]), Row(2, None)] * 5)
        assert orc.read_table(path).to_pylist() == [{"a": 1, "b": ["x"]}, {"a": 2, "b": None}] * 5

    def test_rows_of_all_types(self, tmp_path):
        nulls = Row(**dict.fromkeys(self.ROW.get_field_names()))
        rows = [self.row(), nulls, self.row(double=math.inf, list=[], map={})]
        rows += [self.row(row=None), self.row(date=datetime.date(1899, 12, 31))]
        rows.append(self.row(stamp=datetime.datetime(1901, 1, 1, 0, 0, 0, 1)))
        write(tmp_path, OrcBulkWriters.for_row_type(self.ROW), rows)
        source = orc_source(tmp_path, self.ROW)
        assert source._source.output_type == self.ROW
        assert read(source) == rows
        assert [self.ROW.check(each) for each in rows] == rows

    def test_tuples_and_plain_rows(self, tmp_path):
        row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
        write(tmp_path, OrcBulkWriters.for_row_type(row_type), [(1, "x"), Row(2, "y"), [3, None]])
        assert read(orc_source(tmp_path, row_type)) == [Row(a=1, b="x"), Row(a=2, b="y"), Row(a=3, b=None)]

    @pytest.mark.parametrize("batch_size", [1, 3, 1000])
    def test_stripes_are_read_on_from_every_position(self, tmp_path, batch_size):
        table = pa.table({"more": ["x" * 50] * 100, "n": list(range(100))})
        orc.write_table(table, tmp_path / "f.orc", stripe_size=64, batch_size=17)
        assert orc.ORCFile(tmp_path / "f.orc").nstripes > 1
        row_type = Types.ROW_NAMED(["n"], [Types.INT()])
        source = orc_source(tmp_path, row_type, batch_size=batch_size)
        assert read(source) == [Row(n=number) for number in range(100)]

    def test_orc_columns_are_matched_by_name_and_missing_ones_are_none(self, tmp_path):
        orc.write_table(pa.table({"A": pa.array([1, 2], pa.int64())}), tmp_path / "f.orc")
        row_type = Types.ROW_NAMED(["a", "missing"], [Types.INT(), Types.STRING()])
        inexact = orc_source(tmp_path, row_type, is_case_sensitive=False)
        assert read(inexact) == [Row(a=1, missing=None), Row(a=2, missing=None)]
        assert read(orc_source(tmp_path, row_type)) == [Row(a=None, missing=None)] * 2

    def test_a_column_that_does_not_fit(self, tmp_path):
        orc.write_table(pa.table({"a": [2**40]}), tmp_path / "f.orc")
        with pytest.raises(TypeMismatchError, match=f"column 'a' of {tmp_path}/f.orc is int64"):
            read(orc_source(tmp_path, Types.ROW_NAMED(["a"], [Types.INT()])))

    def test_an_empty_file_and_no_file(self, tmp_path):
        orc.write_table(pa.table({"a": pa.array([], pa.int32())}), tmp_path / "f.orc")
        source = orc_source(tmp_path, Types.ROW_NAMED(["a"], [Types.INT()]))
        assert read(source) == []
        (tmp_path / "f.orc").write_bytes(b"ORC no orc")
        with pytest.raises(StorageError, match=r"cannot read the input file .*f\.orc"):
            read(source)

    def test_what_cannot_be_read_says_so(self, tmp_path):
        """pyarrow reads ORC's timestamps as nanoseconds, from 1677 to 2262; others are written all the same."""
        row_type = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])
        write(tmp_path, OrcBulkWriters.for_row_type(row_type), [Row(at=datetime.datetime(2300, 1, 1))])
        with pytest.raises(
            StorageError, match=r"cannot read the input file .*: ORC timestamp .* out of range"
        ):
            read(orc_source(tmp_path, row_type))

    def test_a_cut_file(self, tmp_path):
        table = pa.table({"n": list(range(1000)), "more": [str(number) * 9 for number in range(1000)]})
        orc.write_table(table, tmp_path / "f.orc", stripe_size=64, batch_size=100)
        whole = (tmp_path / "f.orc").read_bytes()
        for kept in (10, len(whole) // 2, len(whole) - 1):
            (tmp_path / "f.orc").write_bytes(whole[:kept])
            with pytest.raises(StorageError, match="cannot read the input file"):
                read(orc_source(tmp_path, Types.ROW_NAMED(["n"], [Types.LONG()])))

    def test_types_that_it_cannot_hold(self):
        for use in (OrcBulkWriters.for_row_type, OrcColumnarRowInputFormat):
            with pytest.raises(NotSupportedError, match="PICKLED"):
                use(Types.ROW([Types.PICKLED_BYTE_ARRAY()]))
            with pytest.raises(NotSupportedError, match="times of day, as in field 'time'"):
                use(ROW)
            nested = Types.ROW_NAMED(["m"], [Types.MAP(Types.STRING(), Types.LIST(Types.SQL_TIME()))])
            with pytest.raises(NotSupportedError, match="times of day, as in field 'm'"):
                use(nested)
            with pytest.raises(ConfigurationError, match="must be a type of rows"):
                use(Types.INT())


class TestAvro:
    def test_avro_records_come_back(self, tmp_path):
        write(tmp_path, AvroBulkWriters.for_generic_record(AVRO), events(2_000))
        source = FileSource.for_record_stream_format(
            AvroInputFormat(str(tmp_path), AVRO), str(tmp_path)
        ).build()
        assert read(source) == events(2_000)

    def test_many_small_avro_blocks_are_read(self, tmp_path):
        import fastavro

        with (tmp_path / "f.avro").open("wb") as stream:
            fastavro.writer(stream, json.loads(str(AVRO)), events(300), sync_interval=200, codec="deflate")
        source = FileSource.for_record_stream_format(
            AvroInputFormat(str(tmp_path), AVRO), str(tmp_path)
        ).build()
        assert read(source) == events(300)

    def test_a_file_that_is_cut_between_two_blocks_while_it_is_read(self, tmp_path):
        import fastavro

        path = tmp_path / "f.avro"
        with path.open("wb") as stream:
            fastavro.writer(stream, json.loads(str(AVRO)), events(20_000), sync_interval=200)
        with path.open("rb") as stream:
            ends = [block.offset for block in fastavro.block_reader(stream)]
        source = EngineFileSource([str(path)], AvroRecords(str(AVRO)))
        (split,) = source.splits(1)
        reader = source.reader(split)
        position = reader.read(split.start, 2).next
        os.truncate(path, ends[-2])
        with pytest.raises(StorageError, match="it was cut while it was read"):
            reader.read(position, 10**6)

    def test_an_avro_file_without_records_is_empty(self, tmp_path):
        import fastavro

        with (tmp_path / "f.avro").open("wb") as stream:
            fastavro.writer(stream, json.loads(str(AVRO)), [])
        source = FileSource.for_record_stream_format(
            AvroInputFormat(str(tmp_path), AVRO), str(tmp_path)
        ).build()
        assert read(source) == []

    def test_misfits_and_damaged_avro_files_are_named(self, tmp_path):
        with pytest.raises(TypeMismatchError, match="does not fit the Avro schema"):
            write(tmp_path / "out", AvroBulkWriters.for_generic_record(AVRO), [{"id": "x"}])
        (tmp_path / "bad.avro").write_bytes(b"no avro")
        source = FileSource.for_record_stream_format(
            AvroInputFormat(str(tmp_path), AVRO), str(tmp_path / "bad.avro")
        ).build()
        with pytest.raises(StorageError, match=r"bad\.avro as Avro"):
            read(source)
        with pytest.raises(ConfigurationError, match="is not JSON"):
            AvroSchema.parse_string("{")
        with pytest.raises(ConfigurationError, match="is not an Avro schema"):
            AvroInputFormat("x", AvroSchema.parse_string('{"type": "nonsense"}'))

    def test_schemas_come_from_files_and_name_those_that_are_not_there(self, tmp_path):
        (tmp_path / "schema.avsc").write_text(str(AVRO))
        assert str(AvroSchema.parse_file(str(tmp_path / "schema.avsc"))) == str(AVRO)
        with pytest.raises(ConfigurationError, match="cannot read"):
            AvroSchema.parse_file(str(tmp_path / "none"))
        assert GenericRecordAvroTypeInfo(AVRO) == Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize("writers", [AvroBulkWriters, AvroParquetWriters])
def test_a_field_that_the_schema_does_not_have_is_refused(tmp_path, writers):
    """It was left out."""
    factory = {
        AvroBulkWriters: AvroBulkWriters.for_generic_record,
        AvroParquetWriters: AvroParquetWriters.for_generic_record,
    }
    schema = AvroSchema.parse_string(
        json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"]}]})
    )
    write(tmp_path / "good", factory[writers](schema), [{"a": 1}, {}])
    with pytest.raises(TypeMismatchError, match="b"):
        write(tmp_path / "bad", factory[writers](schema), [{"a": 1, "b": 2}])


def _of_field(kind, **more):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind, **more}]}
    return AvroSchema.parse_string(json.dumps(schema))


_INNER = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "boolean"}]}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int", [5, 2.0, np.int64(7)], [1.5, 2**31, "1", None]),
        ("long", [2**62], [1.5, 2**63, None]),
        ("boolean", [True, np.bool_(False)], [None, "no", 5]),
        ("double", [0.5, 3], [Decimal("0.1234567890123456789"), 2**53 + 1]),
        ("float", [0.5], [1e300]),
        ("string", ["ä"], [b"a", 1]),
        ("bytes", [b"a", bytearray(b"b")], ["a", 1]),
        (
            {"type": "array", "items": "string"},
            [["ab"], ("a", "b"), np.array(["x"])],
            ["ab", {"a": 1}, [None]],
        ),
        ({"type": "map", "values": "int"}, [{"k": 1}], [{1: 1}, [("k", 1)], {"k": 1.5}]),
        (_INNER, [{"x": True}], [{}, {"x": True, "y": 1}, {"x": None}, 5]),
        (["null", _INNER], [None, {"x": False}], [{"x": 1.5}]),
        (
            {"type": "int", "logicalType": "date"},
            [datetime.date(2024, 2, 29), 5],
            [datetime.datetime(2024, 2, 29, 1)],
        ),
        (
            {"type": "long", "logicalType": "time-micros"},
            [datetime.time(1), datetime.time(1, tzinfo=datetime.UTC)],
            [datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))],
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            [Decimal("1.25")],
            [Decimal("1.255")],
        ),
    ],
    ids=str,
)
def test_avro_writes_no_value_as_another_one(tmp_path, kind, good, bad):
    """fastavro cuts numbers off, takes a str for an array, and any object for a boolean."""
    factory = AvroBulkWriters.for_generic_record(_of_field(kind))
    write(tmp_path / "good", factory, [{"a": value} for value in good])
    source = EngineFileSource([str(tmp_path / "good")], AvroRecords())
    assert len(check_source(source)) == len(good)
    for number, value in enumerate(bad):
        with pytest.raises(TypeMismatchError, match=r"does not fit the Avro schema.*(field 'a'|decimal)"):
            write(tmp_path / str(number), factory, [{"a": value}])


def test_a_datetime_without_a_zone_is_utc_in_avro_files_too(tmp_path, monkeypatch):
    """It was one of the machine's zone: hours away from what Parquet has of it."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        noon = datetime.datetime(2024, 5, 6, 12)
        for kind in ("timestamp-millis", "timestamp-micros"):
            for union in (lambda one: one, lambda one: ["null", one], lambda one: ["null", "string", one]):
                schema = _of_field(union({"type": "long", "logicalType": kind}))
                folder = tmp_path / str(len(list(tmp_path.iterdir())))
                write(folder, AvroBulkWriters.for_generic_record(schema), [{"a": noon}])
                (found,) = check_source(EngineFileSource([str(folder)], AvroRecords()))
                assert found == {"a": noon.replace(tzinfo=datetime.UTC)}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_fields_with_defaults_named_records_and_unions(tmp_path):
    tree = {
        "type": "record",
        "name": "Tree",
        "namespace": "n",
        "fields": [
            {"name": "size", "type": "int", "default": 7},
            {"name": "left", "type": ["null", "n.Tree"]},
            {
                "name": "color",
                "type": {"type": "enum", "name": "Color", "symbols": ["RED"]},
                "default": "RED",
            },
            {"name": "again", "type": ["null", "Color"], "default": None},
            {"name": "either", "type": ["null", "long", "string"], "default": None},
        ],
    }
    factory = AvroBulkWriters.for_generic_record(AvroSchema.parse_string(json.dumps(tree)))
    leaf = {"size": 7, "left": None, "color": "RED", "again": None, "either": None}
    given = [{}, {"left": {"size": 1, "again": "RED"}, "either": "x"}]
    write(tmp_path / "good", factory, given)
    assert check_source(EngineFileSource([str(tmp_path / "good")], AvroRecords())) == [
        leaf,
        {**leaf, "left": {**leaf, "size": 1, "again": "RED"}, "either": "x"},
    ]
    for bad in ({"left": {"size": 1.5}}, {"left": {"huge": 1}}, {"color": "BLUE"}):
        with pytest.raises(TypeMismatchError, match="does not fit the Avro schema"):
            write(tmp_path / "bad", factory, [bad])


def test_avro_records_in_parquet_have_what_their_schema_asks_for(tmp_path):
    """A field that lacks a value was null, whatever the schema says, and its default was not looked at."""
    symbols = {"type": "enum", "name": "Color", "symbols": ["RED"]}
    fields = [
        {"name": "id", "type": "long"},
        {"name": "size", "type": "int", "default": 7},
        {"name": "name", "type": ["null", "string"]},
        {"name": "color", "type": symbols, "default": "RED"},
        {"name": "again", "type": ["null", "Color"], "default": None},
    ]
    schema = AvroSchema.parse_string(json.dumps({"type": "record", "name": "r", "fields": fields}))
    factory = pickle.loads(pickle.dumps(AvroParquetWriters.for_generic_record(schema)))
    path = write(tmp_path / "good", factory, [{"id": 1}, {"id": 2, "size": 3, "name": "x", "again": "RED"}])
    assert pq.read_table(path).to_pylist() == [
        {"id": 1, "size": 7, "name": None, "color": "RED", "again": None},
        {"id": 2, "size": 3, "name": "x", "color": "RED", "again": "RED"},
    ]
    for bad in ({}, {"id": None}, {"id": 1, "size": None}, {"id": 1, "color": "BLUE"}, {"id": 1.5}):
        for writers in (AvroParquetWriters, AvroBulkWriters):
            with pytest.raises(
                TypeMismatchError, match=r"does not fit the Avro schema.*field '(id|size|color)'"
            ):
                write(tmp_path / "bad", writers.for_generic_record(schema), [bad])


def test_lines_of_json_with_long_numbers(tmp_path):
    """They became floats, and their digits others."""
    text = '{"i": 123456789012345678901, "d": 0.12345678901234567890, "n": [{"x": -9223372036854775809}], "f": 1e30}\n'
    (tmp_path / "f.json").write_text(text)
    (plain,) = check_source(EngineFileSource([str(tmp_path)], JsonLines()))
    assert repr(plain) == repr(json.loads(text))
    row_type = Types.ROW_NAMED(["i", "d", "f"], [Types.BIG_INT(), Types.BIG_DEC(), Types.DOUBLE()])
    (row,) = check_source(EngineFileSource([str(tmp_path)], JsonLines(row_type)))
    assert row == Row(i=123456789012345678901, d=Decimal("0.12345678901234567890"), f=1e30)


def test_sinks_refuse_what_is_no_factory(tmp_path):
    with pytest.raises(ConfigurationError, match="must be a BulkWriterFactory"):
        FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters)
