"""Formats of files: what is written comes back, value by value, from every position."""

from __future__ import annotations

import datetime
import gzip
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.datastream import OutputTag
from api.datastream.connectors.file_system import FileSink, FileSource
from api.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from api.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from api.datastream.formats.orc import OrcBulkWriters
from api.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from api.table import DataTypes
from changelog_engine.connectors import SinkContext
from changelog_engine.connectors.files import BasePathBuckets, CsvFiles, CsvRecords
from changelog_engine.connectors.files import FileSink as EngineSink
from changelog_engine.connectors.files import FileSource as EngineSource
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


def write(folder, factory, elements):
    """Write elements by a bulk sink; returns the one file."""
    sink = EngineSink(str(folder), factory._factory, BasePathBuckets())
    writer = sink.committing_writer(SinkContext("job", "sink", 0, 1, "run", 1, True, ()))
    try:
        for start in range(0, len(elements), 7):
            writer.write(elements[start : start + 7])
        writer.commit(writer.prepare(False).committables)
    finally:
        writer.close()
    (path,) = folder.iterdir()
    return path


def read(source):
    return check_source(source._source)


class TestParquet:
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
    def test_row_groups(self, tmp_path, batch_size):
        table = pa.table({"n": list(range(100)), "more": ["x"] * 100})
        pq.write_table(table, tmp_path / "f.parquet", row_group_size=17)
        row_type = Types.ROW_NAMED(["n"], [Types.INT()])
        read_format = ParquetColumnarRowInputFormat(row_type, batch_size=batch_size)
        source = FileSource.for_bulk_file_format(read_format, str(tmp_path)).build()
        assert read(source) == [Row(n=number) for number in range(100)]

    def test_other_columns(self, tmp_path):
        pq.write_table(pa.table({"A": pa.array([1, 2], pa.int64())}), tmp_path / "f.parquet")
        row_type = Types.ROW_NAMED(["a", "missing"], [Types.INT(), Types.STRING()])
        inexact = ParquetColumnarRowInputFormat(row_type, is_case_sensitive=False)
        source = FileSource.for_bulk_file_format(inexact, str(tmp_path)).build()
        assert read(source) == [Row(a=1, missing=None), Row(a=2, missing=None)]
        source = FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(row_type), str(tmp_path)
        ).build()
        assert read(source) == [Row(a=None, missing=None)] * 2

    def test_a_column_that_does_not_fit(self, tmp_path):
        pq.write_table(pa.table({"a": [2**40]}), tmp_path / "f.parquet")
        row_type = Types.ROW_NAMED(["a"], [Types.INT()])
        source = FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(row_type), str(tmp_path)
        ).build()
        with pytest.raises(TypeMismatchError, match=f"column 'a' of {tmp_path}/f.parquet is int64"):
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

    def test_elements_that_do_not_fit(self, tmp_path):
        row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
        for element, message in [
            ((1, 2), "field 'b'"),
            (("x", "y"), "field 'a'"),
            ((1,), "1 fields, not 2"),
            (5, "5"),
        ]:
            with pytest.raises(TypeMismatchError, match=message):
                write(tmp_path / "out", ParquetBulkWriters.for_row_type(row_type), [element])

    def test_records(self, tmp_path):
        write(tmp_path, AvroParquetWriters.for_generic_record(AVRO), events(50))
        source = FileSource.for_record_stream_format(
            AvroParquetReaders.for_generic_record(AVRO), str(tmp_path)
        ).build()
        assert read(source) == events(50)

    def test_types_that_columns_cannot_hold(self):
        with pytest.raises(NotSupportedError, match="PICKLED"):
            ParquetBulkWriters.for_row_type(Types.ROW([Types.PICKLED_BYTE_ARRAY()]))
        with pytest.raises(ConfigurationError, match="must be a ROW type"):
            ParquetBulkWriters.for_row_type(Types.INT())
        with pytest.raises(ConfigurationError, match="AvroSchema"):
            AvroParquetWriters.for_generic_record("{}")


class TestOrc:
    def test_written(self, tmp_path):
        row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.STRING())])
        path = write(tmp_path, OrcBulkWriters.for_row_type(row_type), [Row(1, ["x"]), Row(2, None)] * 5)
        assert orc.read_table(path).to_pylist() == [{"a": 1, "b": ["x"]}, {"a": 2, "b": None}] * 5


class TestAvro:
    def test_records(self, tmp_path):
        write(tmp_path, AvroBulkWriters.for_generic_record(AVRO), events(2_000))
        source = FileSource.for_record_stream_format(
            AvroInputFormat(str(tmp_path), AVRO), str(tmp_path)
        ).build()
        assert read(source) == events(2_000)

    def test_small_blocks(self, tmp_path):
        import fastavro

        with (tmp_path / "f.avro").open("wb") as stream:
            fastavro.writer(stream, json.loads(str(AVRO)), events(300), sync_interval=200, codec="deflate")
        source = FileSource.for_record_stream_format(
            AvroInputFormat(str(tmp_path), AVRO), str(tmp_path)
        ).build()
        assert read(source) == events(300)

    def test_no_records(self, tmp_path):
        import fastavro

        with (tmp_path / "f.avro").open("wb") as stream:
            fastavro.writer(stream, json.loads(str(AVRO)), [])
        source = FileSource.for_record_stream_format(
            AvroInputFormat(str(tmp_path), AVRO), str(tmp_path)
        ).build()
        assert read(source) == []

    def test_errors(self, tmp_path):
        with pytest.raises(TypeMismatchError, match="does not fit the Avro schema"):
            write(tmp_path / "out", AvroBulkWriters.for_generic_record(AVRO), [{"id": "x"}])
        (tmp_path / "bad.avro").write_bytes(b"no avro")
        source = FileSource.for_record_stream_format(
            AvroInputFormat(str(tmp_path), AVRO), str(tmp_path / "bad.avro")
        ).build()
        with pytest.raises(StorageError, match=r"bad\.avro as Avro"):
            read(source)
        with pytest.raises(ConfigurationError, match="no JSON"):
            AvroSchema.parse_string("{")
        with pytest.raises(ConfigurationError, match="no Avro schema"):
            AvroInputFormat("x", AvroSchema.parse_string('{"type": "nonsense"}'))

    def test_schemas(self, tmp_path):
        (tmp_path / "schema.avsc").write_text(str(AVRO))
        assert str(AvroSchema.parse_file(str(tmp_path / "schema.avsc"))) == str(AVRO)
        with pytest.raises(ConfigurationError, match="cannot read"):
            AvroSchema.parse_file(str(tmp_path / "none"))
        assert GenericRecordAvroTypeInfo(AVRO) == Types.PICKLED_BYTE_ARRAY()


def csv_schema(**options):
    builder = (
        CsvSchema.builder()
        .add_number_column("id", DataTypes.INT())
        .add_string_column("name")
        .add_array_column("list", "#", DataTypes.INT())
        .add_boolean_column("flag")
        .add_number_column("x", DataTypes.DOUBLE())
    )
    for name, value in options.items():
        getattr(builder, name)(*([] if value is None else [value]))
    return builder.build()


def csv_source(path, schema):
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()


class TestCsv:
    def test_rows(self, tmp_path):
        schema = csv_schema()
        rows = [
            Row(id=1, name='a, "b"', list=[1, 2], flag=True, x=1.5),
            Row(id=-2, name="two\nlines\r\n", list=[], flag=False, x=None),
            Row(id=None, name="", list=[7], flag=None, x=-0.0),
        ]
        path = write(tmp_path, CsvBulkWriters.for_schema(schema), [*rows[:2], (None, "", [7], None, -0.0)])
        assert path.read_bytes() == (b'1,"a, ""b""",1#2,true,1.5\n-2,"two\nlines\r\n",,false,\n,,7,,-0.0\n')
        source = csv_source(tmp_path, schema)
        assert source._source.output_type == schema.get_type_info()
        found = read(source)
        assert found[0] == rows[0]
        assert found[1] == Row(id=-2, name="two\nlines\r\n", list=None, flag=False, x=None)
        assert found[2] == rows[2]

    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    def test_all_line_ends(self, tmp_path, ending):
        lines = [f"{number},n{number},{number}#1,true,0.5" for number in range(100)]
        (tmp_path / "f").write_bytes(ending.join(lines).encode())
        assert [each.id for each in read(csv_source(tmp_path, csv_schema()))] == list(range(100))

    def test_header(self, tmp_path):
        (tmp_path / "f.csv").write_text("\ufeffflag,name,more,id,x,list\ntrue,a,?,1,2,3\nfalse,b,?,2,,\n")
        source = csv_source(tmp_path, csv_schema(set_use_header=None))
        assert read(source) == [
            Row(id=1, name="a", list=[3], flag=True, x=2.0),
            Row(id=2, name="b", list=None, flag=False, x=None),
        ]
        with pytest.raises(TypeMismatchError, match=r"the header of .* names the columns flag, name"):
            read(csv_source(tmp_path, csv_schema(set_use_header=None, set_strict_headers=None)))

    def test_written_header(self, tmp_path):
        schema = csv_schema(set_use_header=None, set_strict_headers=None)
        path = write(tmp_path, CsvBulkWriters.for_schema(schema), [(1, "a", None, None, None)])
        assert path.read_text() == "id,name,list,flag,x\n1,a,,,\n"
        assert read(csv_source(tmp_path, schema)) == [Row(id=1, name="a", list=None, flag=None, x=None)]

    def test_comments_first_row_and_empty_lines(self, tmp_path):
        (tmp_path / "f.csv").write_text('#c, "\nskipped\n\n1,"#\n#",,,\n#2,x,,,\n\n2,b,,,\n#end')
        schema = csv_schema(set_allow_comments=None, set_skip_first_data_row=None)
        assert [(each.id, each.name) for each in read(csv_source(tmp_path, schema))] == [
            (1, "#\n#"),
            (2, "b"),
        ]

    def test_signs(self, tmp_path):
        schema = csv_schema(
            set_column_separator="|",
            set_quote_char="'",
            set_escape_char="\\",
            set_null_value="NULL",
            set_line_separator="\r\n",
        )
        path = write(
            tmp_path,
            CsvBulkWriters.for_schema(schema),
            [(1, "a|b", [1], True, 1.0), (2, None, None, None, None)],
        )
        assert path.read_bytes() == b"1|'a|b'|1|true|1.0\r\n2|NULL|NULL|NULL|NULL\r\n"
        assert read(csv_source(tmp_path, schema))[1] == Row(id=2, name=None, list=None, flag=None, x=None)

    def test_compressed(self, tmp_path):
        with gzip.open(tmp_path / "f.csv.gz", "wt") as stream:
            stream.write("id,name,list,flag,x\n" + "".join(f"{n},n,,,\n" for n in range(100)))
        source = csv_source(tmp_path, csv_schema(set_use_header=None))
        assert [each.id for each in read(source)] == list(range(100))

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("x,a,,,", "line 2 after byte 9: field 'id' is 'x', which is no INT"),
            ("3000000000,a,,,", "needs more than 32 bits"),
            ("1,a,1#y,,", "field 'list' is '1#y'"),
            ("1,a,,perhaps,", "neither true nor false"),
            ("1,a", "2 cells, not 5"),
            ('1,"a', "is no CSV near byte"),
        ],
    )
    def test_lines_that_do_not_fit(self, tmp_path, line, message):
        (tmp_path / "f.csv").write_text(f"1,first,,,\n2,b,,,\n{line}\n".replace("1,first,,,", "1,fir,,,"))
        source = csv_source(tmp_path, csv_schema())._source
        (split,) = source.splits(1)
        reader = source.reader(split)
        position = reader.read(split.start, 1).next
        with pytest.raises(TypeMismatchError, match=message):
            reader.read(position, 10)
        reader.close()

    def test_lines_that_do_not_fit_go_aside(self, tmp_path):
        (tmp_path / "f.csv").write_text("1,a,,,\nx,b,,,\n3\n4,d,,,\n")
        tag = OutputTag("bad")
        builder = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(csv_schema()), str(tmp_path))
        source = builder.set_bad_records_tag(tag).build()._source
        (split,) = source.splits(1)
        reader = source.reader(split)
        found = reader.read(split.start, 10)
        assert [each.id for each in found.values] == [1, 4]
        assert [(bad.position, bad.line, bad.record) for _, bad in found.aside] == [
            (0, 2, ["x", "b", "", "", ""]),
            (0, 3, ["3"]),
        ]
        assert found.aside[0][0] == "bad"
        assert "field 'id' is 'x', which is no INT" in found.aside[0][1].error
        reader.close()
        with pytest.raises(NotSupportedError, match="only CSV and JSON lines"):
            FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(ROW), "/x").set_bad_records_tag(tag)

    def test_bad_schemas(self):
        with pytest.raises(ConfigurationError, match="at least one column"):
            CsvSchema.builder().build()
        with pytest.raises(ConfigurationError, match="different names"):
            CsvSchema.builder().add_string_column("a").add_string_column("a").build()
        with pytest.raises(ConfigurationError, match="char must be one character"):
            CsvSchema.builder().set_column_separator("||")
        with pytest.raises(NotSupportedError, match="cannot hold a value of type MAP"):
            CsvSchema.builder().add_column("m", Types.MAP(Types.INT(), Types.INT())).build()
        with pytest.raises(ConfigurationError, match="build"):
            CsvReaderFormat.for_schema(CsvSchema.builder())

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.text(st.sampled_from('ab,"\r\n#\\;ü☂ ')),
                st.none() | st.integers(-(2**63), 2**63 - 1),
                st.none() | st.floats(allow_nan=False),
                st.none() | st.datetimes(),
            ),
            max_size=12,
        ),
        st.sampled_from(["\n", "\r\n"]),
        st.integers(1, 4),
    )
    def test_what_is_written_comes_back_from_every_row(self, tmp_path_factory, rows, line_end, step):
        schema = (
            CsvSchema.builder()
            .add_string_column("s")
            .add_number_column("n")
            .add_column("f", Types.DOUBLE())
            .add_column("t", Types.SQL_TIMESTAMP())
            .set_line_separator(line_end)
            .build()
        )._schema
        path = tmp_path_factory.mktemp("csv") / "f"
        with path.open("wb") as stream:
            writer = CsvFiles(schema).open(stream)
            writer.write(rows)
            writer.finish()
        source = EngineSource([str(path)], CsvRecords(schema))
        (split,) = source.splits(1)
        position, done, finished = split.start, 0, False
        while not finished:
            again = source.reader(split)
            rest = again.read(position, 10**6).values
            again.close()
            assert [tuple(each) for each in rest] == rows[done:]
            reader = source.reader(split)
            values, position, finished, *_ = reader.read(position, step)
            reader.close()
            done += len(values)


def test_sinks_refuse_what_is_no_factory(tmp_path):
    with pytest.raises(ConfigurationError, match="needs a BulkWriterFactory"):
        FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters)
