"""CSV files: what is written comes back, value by value, from every position; what does not fit is named."""

from __future__ import annotations

import datetime
import gzip
import math
from contextlib import closing
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.written_files import read, write

from api.datastream import OutputTag
from api.datastream.connectors.file_system import FileSource, StreamFormat
from api.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from api.datastream.formats.json import JsonRowDeserializationSchema
from api.datastream.formats.parquet import ParquetColumnarRowInputFormat
from api.table import DataTypes
from changelog_engine.connectors import files
from changelog_engine.connectors.files import CsvFiles, CsvRecords
from changelog_engine.connectors.files import FileSource as EngineSource
from changelog_engine.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from changelog_engine.testing.conformance import check_source
from changelog_engine.types import Instant, Row, Types


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


def two_columns():
    return CsvSchema.builder().add_string_column("name").add_boolean_column("flag").set_use_header().build()


def csv_source(path, schema):
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path)).build()


class TestCsv:
    def test_rows_of_every_type_come_back(self, tmp_path):
        schema = csv_schema()
        rows = [
            Row(id=1, name='a, "b"', list=[1, 2], flag=True, x=1.5),
            Row(id=-2, name="two\nlines\r\n", list=[], flag=False, x=None),
            Row(id=None, name="", list=[7], flag=None, x=-0.0),
        ]
        path = write(tmp_path, CsvBulkWriters.for_schema(schema), [*rows[:2], (None, "", [7], None, -0.0)])
        assert path.read_bytes() == (b'1,"a, ""b""","1#2",true,1.5\n-2,"two\nlines\r\n",,false,\n,,7,,-0.0\n')
        source = csv_source(tmp_path, schema)
        assert source._source.output_type == schema.get_type_info()
        assert read(source) == rows

    def test_a_long_cell_comes_back(self, tmp_path):
        row = Row(id=1, name='x"' * 100_000, list=[], flag=True, x=0.5)
        write(tmp_path, CsvBulkWriters.for_schema(csv_schema()), [row])
        assert read(csv_source(tmp_path, csv_schema())) == [row]

    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    def test_all_line_ends(self, tmp_path, ending):
        lines = [f"{number},n{number},{number}#1,true,0.5" for number in range(100)]
        (tmp_path / "f").write_bytes(ending.join(lines).encode())
        assert [each.id for each in read(csv_source(tmp_path, csv_schema()))] == list(range(100))

    def test_a_header_says_the_order_of_columns(self, tmp_path):
        (tmp_path / "f.csv").write_text("\ufeffflag,name,more,id,x,list\ntrue,a,?,1,2,3\nfalse,b,?,2,,\n")
        source = csv_source(tmp_path, csv_schema(set_use_header=None))
        assert read(source) == [
            Row(id=1, name="a", list=[3], flag=True, x=2.0),
            Row(id=2, name="b", list=[], flag=False, x=None),
        ]
        with pytest.raises(TypeMismatchError, match=r"the header of .* names the columns flag, name"):
            read(csv_source(tmp_path, csv_schema(set_use_header=None, set_strict_headers=None)))

    @pytest.mark.parametrize("ending", ["", ".gz"])
    @pytest.mark.parametrize("first", ["1,a,,,", '1,"a",,,', ""])
    def test_a_byte_order_mark_is_no_part_of_the_first_cell(self, tmp_path, first, ending):
        lines = [*([first] if first else []), *["2,b,,,"] * 600]
        data = "\ufeff".encode() + "\n".join(lines).encode()
        (tmp_path / f"f.csv{ending}").write_bytes(gzip.compress(data) if ending else data)
        source = csv_source(tmp_path, csv_schema())._source
        (split,) = source.splits(1)
        found, position, finished = [], split.start, False
        while not finished:
            with closing(source.reader(split)) as reader:  # each from its own beginning
                values, position, finished, *_ = reader.read(position, 250)
            found += values
        assert [(row.id, row.name) for row in found] == [
            (int(line[0]), "ab"[int(line[0]) - 1]) for line in lines
        ]

    def test_nothing_but_a_byte_order_mark(self, tmp_path):
        (tmp_path / "f.csv").write_bytes("\ufeff".encode())
        assert read(csv_source(tmp_path, csv_schema())) == []

    @pytest.mark.parametrize("header", ["label,on", "name,on", "label,flag"])
    def test_a_header_with_other_names_is_read_by_place(self, tmp_path, header):
        (tmp_path / "in.csv").write_text(f"{header}\nx,true\n")
        assert read(csv_source(tmp_path, two_columns())) == [Row(name="x", flag=True)]

    @pytest.mark.parametrize("header", ["flag,on", "on,name", "name", "label,on,more", "name,name"])
    def test_a_header_that_may_mean_other_places_is_refused(self, tmp_path, header):
        (tmp_path / "in.csv").write_text(f"{header}\nx,true\n")
        with pytest.raises(TypeMismatchError, match=f"names the columns {header.replace(',', ', ')}, and"):
            read(csv_source(tmp_path, two_columns()))

    def test_a_header_that_names_a_column_twice(self, tmp_path):
        (tmp_path / "f.csv").write_text("flag,name,id,x,list,name\ntrue,a,1,2,3,b\n")
        with pytest.raises(TypeMismatchError, match=r"the header of .* names the columns flag, name"):
            read(csv_source(tmp_path, csv_schema(set_use_header=None)))

    def test_rows_are_written_by_their_names(self, tmp_path):
        row = Row(x=0.5, flag=None, list=None, name="a", id=1)
        for number, rows in enumerate(([row], [row, (1, "a", None, None, 0.5)])):
            path = write(tmp_path / str(number), CsvBulkWriters.for_schema(csv_schema()), rows)
            assert set(path.read_text().split()) == {"1,a,,,0.5"}

    def test_a_header_is_written_where_it_is_asked_for(self, tmp_path):
        schema = csv_schema(set_use_header=None, set_strict_headers=None)
        path = write(tmp_path, CsvBulkWriters.for_schema(schema), [(1, "a", None, None, None)])
        assert path.read_text() == "id,name,list,flag,x\n1,a,,,\n"
        assert read(csv_source(tmp_path, schema)) == [Row(id=1, name="a", list=[], flag=None, x=None)]

    def test_comments_first_row_and_empty_lines(self, tmp_path):
        (tmp_path / "f.csv").write_text('#c, "\nskipped\n\n1,"#\n#",,,\n#2,x,,,\n\n2,b,,,\n#end')
        schema = csv_schema(set_allow_comments=None, set_skip_first_data_row=None)
        assert [(each.id, each.name) for each in read(csv_source(tmp_path, schema))] == [
            (1, "#\n#"),
            (2, "b"),
        ]

    def test_every_sign_can_be_another(self, tmp_path):
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
        assert path.read_bytes() == b"1|'a|b'|'1'|true|1.0\r\n2|NULL|NULL|NULL|NULL\r\n"
        assert read(csv_source(tmp_path, schema))[1] == Row(id=2, name=None, list=None, flag=None, x=None)

    def test_cells_are_written_as_flink_writes_them(self, tmp_path):
        """What PyFlink 2.3.0 wrote."""
        builder = (
            CsvSchema.builder().add_number_column("i", number_type=DataTypes.INT()).add_string_column("s")
        )
        schema = (
            builder.add_number_column("d", number_type=DataTypes.DOUBLE()).add_boolean_column("b").build()
        )
        rows = [(1, "a,b", 1.5, True), (2, 'x"y', 1e10, False), (3, None, None, None), (4, "", 0.1, True)]
        rows += [
            (6, "it's", 1.0, True),
            (7, "a\\b", 1.0, True),
            (8, "a\nb", 1.0, True),
            (9, " s ", 1e-5, True),
        ]
        written = write(tmp_path, CsvBulkWriters.for_schema(schema), rows).read_bytes()
        assert written.split(b"\n", 4) == [
            b'1,"a,b",1.5,true',
            b'2,"x""y",1.0E10,false',
            b"3,,,",
            b"4,,0.1,true",
            b'6,"it\'s",1.0,true\n7,"a\\b",1.0,true\n8,"a\nb",1.0,true\n9," s ",1.0E-5,true\n',
        ]

    @pytest.mark.parametrize("signs", [{}, {"disable_quote_char": None}])
    @pytest.mark.parametrize(
        ("digits", "given", "cells"),
        [  # as PyFlink 2.3 writes them, but for its 1E+1
            ((6, 1), ["1.55", "10.250", "-0.05", "10", None], ["1.6", "10.3", "-0.1", "10.0", ""]),
            ((6, 0), ["1.5", "2.5", "-0.4", "999998.5"], ["2", "3", "0", "999999"]),
            ((10, 2), ["1.005", "12345678.994"], ["1.01", "12345678.99"]),
            ((38, 10), ["1E-10", "1E+2"], ["0.0000000001", "100.0000000000"]),
        ],
    )
    def test_decimals_are_rounded_to_their_columns(self, tmp_path, digits, given, cells, signs):
        builder = CsvSchema.builder().add_number_column("n", DataTypes.DECIMAL(*digits))
        builder.add_array_column("list", "#", DataTypes.DECIMAL(*digits)).set_null_value("")
        for name, value in signs.items():
            getattr(builder, name)(*([] if value is None else [value]))
        schema = builder.build()
        values = [None if text is None else Decimal(text) for text in given]
        path = write(
            tmp_path, CsvBulkWriters.for_schema(schema), [Row(n=v, list=[v or 0, 1]) for v in values]
        )
        lines = path.read_text().splitlines()
        assert [line.partition(",")[0] for line in lines] == cells
        expected = [None if cell == "" else Decimal(cell) for cell in cells]
        assert [row.n for row in read(csv_source(path, schema))] == expected
        path.write_text("".join(f"{'' if text is None else text},\n" for text in given))
        found = [row.n for row in read(csv_source(path, schema))]
        assert list(map(str, found)) == list(map(str, expected))
        whole = CsvRowSerializationSchema.Builder(Types.ROW([DataTypes.DECIMAL(*digits)])).build()
        assert [whole.serialize((value,)).decode().strip() for value in values] == cells

    @pytest.mark.parametrize(("digits", "number"), [((6, 1), "123456"), ((2, 1), "9.95"), ((6, 6), "1")])
    def test_decimals_that_are_too_long(self, tmp_path, digits, number):
        schema = CsvSchema.builder().add_number_column("n", DataTypes.DECIMAL(*digits)).build()
        message = rf"more digits than DECIMAL\({digits[0]}, {digits[1]}\)"
        with pytest.raises(TypeMismatchError, match=f"CSV column 'n'.*{message}"):
            write(tmp_path, CsvBulkWriters.for_schema(schema), [Row(n=Decimal(number))])
        path = tmp_path / "in.csv"
        path.write_text(number + "\n")
        with pytest.raises(TypeMismatchError, match=f"line 1.*{message}"):
            read(csv_source(path, schema))

    @pytest.mark.parametrize("number", ["NaN", "Infinity"])
    def test_decimals_that_are_no_numbers(self, tmp_path, number):
        schema = CsvSchema.builder().add_number_column("n", DataTypes.DECIMAL(6, 1)).build()
        with pytest.raises(TypeMismatchError, match=f"CSV column 'n'.*{number}.* is not a number"):
            write(tmp_path, CsvBulkWriters.for_schema(schema), [Row(n=Decimal(number))])

    def test_separator_that_arrow_takes_for_none(self, tmp_path):
        schema = csv_schema(set_column_separator="\0")
        rows = [Row(id=number, name="n", list=[1], flag=True, x=0.5) for number in range(600)]
        write(tmp_path, CsvBulkWriters.for_schema(schema), rows)
        assert read(csv_source(tmp_path, schema)) == rows

    @pytest.mark.parametrize("signs", [{}, {"disable_quote_char": None, "set_escape_char": "\\"}])
    def test_what_is_written_is_no_comment(self, tmp_path, signs):
        schema = CsvSchema.builder().add_string_column("#a").add_string_column("b").set_use_header()
        schema.set_allow_comments()
        for name, value in signs.items():
            getattr(schema, name)(*([] if value is None else [value]))
        rows = [Row(**{"#a": "#1", "b": "#"}), Row(**{"#a": "1#", "b": "x"})]
        write(tmp_path, CsvBulkWriters.for_schema(schema.build()), rows)
        assert read(csv_source(tmp_path, schema.build())) == rows

    def test_compressed_files_are_read(self, tmp_path):
        with gzip.open(tmp_path / "f.csv.gz", "wt") as stream:
            stream.write("id,name,list,flag,x\n" + "".join(f"{n},n,,,\n" for n in range(100)))
        source = csv_source(tmp_path, csv_schema(set_use_header=None))
        assert [each.id for each in read(source)] == list(range(100))

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("x,a,,,", "line 2 after byte 9: field 'id' is 'x', which is not of type INT"),
            ("3000000000,a,,,", "needs more than 32 bits"),
            ("1,a,1#y,,", "field 'list' is '1#y'"),
            ("1,a,,perhaps,", "neither true nor false"),
            ("1,a", "2 cells, not 5"),
            ('1,"a', "is not CSV near byte"),
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
        assert "field 'id' is 'x', which is not of type INT" in found.aside[0][1].error
        reader.close()
        plain = files.JsonLines()
        assert (plain.with_bad_records_tag("bad").bad_tag, plain.bad_tag) == ("bad", None), (
            "others may use it"
        )
        with pytest.raises(NotSupportedError, match="only CSV and JSON lines"):
            FileSource.for_bulk_file_format(
                ParquetColumnarRowInputFormat(Types.ROW([Types.INT()])), "/x"
            ).set_bad_records_tag(tag)

    def test_schemas_that_cannot_be_are_refused(self):
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


def _aside(folder, schema, reads=(10,)):
    """What read() calls of so many rows put aside: (line, record, error)."""
    tag = OutputTag("bad")
    builder = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(folder))
    source = builder.set_bad_records_tag(tag).build()._source
    (split,) = source.splits(1)
    reader, position, found = source.reader(split), split.start, []
    for count in reads:
        part = reader.read(position, count)
        position = part.next
        found += [(bad.line, bad.record, bad.error) for _, bad in part.aside or ()]
    reader.close()
    return found


@pytest.mark.parametrize("quoted", ["", '"'])
def test_a_number_that_32_bits_do_not_hold_goes_aside(tmp_path, quoted):
    (tmp_path / "f.csv").write_text(f"1.5\n{quoted}1e39{quoted}\n3.4e38\n")
    schema = CsvSchema.builder().add_number_column("f", Types.FLOAT()).build()
    ((line, record, error),) = _aside(tmp_path, schema)
    assert (line, record) == (2, ["1e39"])
    assert "is too large for FLOAT" in error


class TestLineNumbers:
    """Lines in errors are lines of the file: empty ones, comments, headers and records of several lines count."""

    def test_empty_lines_and_records_of_several_lines_count(self, tmp_path):
        (tmp_path / "f.csv").write_text('1,a,,,\n\n\n2,"two\nlines\n",,,\n\nx,bad,,,\n')
        assert [line for line, _, _ in _aside(tmp_path, csv_schema())] == [8]

    def test_comments_and_the_header_count(self, tmp_path):
        (tmp_path / "f.csv").write_text(
            '#one\nid,name,list,flag,x\n#two\n\n1,"a\nb",,,\n#three\nx,bad,,,\n\n#four\ny,bad,,,\n'
        )
        schema = csv_schema(set_allow_comments=None, set_use_header=None)
        assert [line for line, _, _ in _aside(tmp_path, schema)] == [8, 11]

    @pytest.mark.parametrize("options", [{}, {"set_allow_comments": None}])
    def test_they_count_from_the_position_of_the_read(self, tmp_path, options):
        (tmp_path / "f.csv").write_text("1,a,,,\n\n2,b,,,\n\nx,bad,,,\n")
        assert [line for line, _, _ in _aside(tmp_path, csv_schema(**options), reads=(1, 1, 10))] == [2]


class TestBytesThatAreNotUtf8:
    """They are never replaced in silence: the line does not fit the schema."""

    def test_it_is_an_error_that_names_the_line(self, tmp_path):
        (tmp_path / "f.csv").write_bytes(b"1,a,,,\n\n2,b\xff\xfe,,,\n")
        source = csv_source(tmp_path, csv_schema())._source
        (split,) = source.splits(1)
        reader = source.reader(split)
        reader = source.reader(split)
        with pytest.raises(TypeMismatchError, match=r"f\.csv .* line 3 after byte 0: cell 2 is not UTF-8"):
            reader.read(split.start, 10)
        reader.close()

    def test_it_goes_aside_and_the_rest_is_read(self, tmp_path):
        (tmp_path / "f.csv").write_bytes("1,ä,,,\n".encode() + b"2,b\xff,,,\n" + "3,ö,,,\n".encode())
        ((line, record, error),) = _aside(tmp_path, csv_schema())
        assert (line, record) == (2, ["2", "b\ufffd", "", "", ""])
        assert "not UTF-8" in error

    @pytest.mark.parametrize("name", ["f.json", "f.json.gz"])
    def test_lines_of_json_that_are_not_utf_8_are_named(self, tmp_path, name):
        data = '{"a": "ä"}\n'.encode() + b'{"a": "\xff"}\n'
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        source = FileSource.for_record_stream_format(StreamFormat.json_line_format(), str(tmp_path))
        plain = source.build()._source
        (split,) = plain.splits(1)
        reader = plain.reader(split)
        with pytest.raises(TypeMismatchError, match=r"line 2 after position 0: .* not valid UTF-8"):
            reader.read(split.start, 10)
        reader.close()
        made = source.set_bad_records_tag(OutputTag("bad")).build()._source
        (split,) = made.splits(1)
        reader = made.reader(split)
        found = reader.read(split.start, 10)
        reader.close()
        assert found.values == [{"a": "ä"}]
        assert [(bad.line, bad.record) for _, bad in found.aside] == [(2, '{"a": "\ufffd"}')]


def test_an_instant_keeps_its_nanoseconds(tmp_path):
    """They were cut off."""
    schema = files.CsvSchema((files.CsvColumn("c", Types.INSTANT(), None),))
    rows = [Row(c=Instant(-3, nanos)) for nanos in (0, 120_000_000, 123_456_000, 123_456_789, 1)]
    path = write(tmp_path, SimpleNamespace(_factory=files.CsvFiles(schema)), rows)
    fractions = [line.rstrip().partition(".")[2] for line in path.read_text().replace('"', "").splitlines()]
    assert fractions == ["", "120000Z", "123456Z", "123456789Z", "000000001Z"]
    assert check_source(EngineSource([str(path)], CsvRecords(schema))) == rows


class TestBothReaders:
    """A cell means the same in a file and in a line that comes by itself, as from a topic."""

    CELLS = (
        "1| 1|1.5|-3000000000|99999999999999999999|1e3|nan|x|true|TRUE|a|ab|\xfc|2024-02-29|2023-02-29|10:00:00|"
        "10:00:00.5+02:00|2024-01-01 00:00:00|2024-01-01T00:00:00Z|2024-01-01T00:00:00.25+02:00|1969-12-31T23:59:59.5Z"
    )
    TYPES = "STRING CHAR BOOLEAN BYTE INT LONG BIG_INT FLOAT DOUBLE BIG_DEC SQL_DATE SQL_TIME SQL_TIMESTAMP INSTANT"

    @pytest.mark.parametrize(
        "wanted", [*(getattr(Types, name)() for name in TYPES.split()), Types.LIST(Types.INT())]
    )
    def test_a_cell_is_read_alike(self, tmp_path, wanted):
        of_line = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["c"], [wanted])).build()
        separator = ";" if wanted == Types.LIST(Types.INT()) else None
        schema = files.CsvSchema((files.CsvColumn("c", wanted, separator),))
        read = 0
        for number, cell in enumerate(self.CELLS.split("|")):
            path = tmp_path / f"{number}.csv"
            path.write_text(f"{cell}\n", encoding="utf-8")
            source = files.FileSource([str(path)], files.CsvRecords(schema))
            (split,) = source.splits(1)
            reader = source.reader(split)
            try:
                expected = [of_line.deserialize(cell.encode())]
            except ValueError:
                with pytest.raises(TypeMismatchError, match=r"line 1 after byte 0: .*'c'"):
                    reader.read(split.start, 1)
            else:
                read += 1
                assert repr(reader.read(split.start, 1).values) == repr(expected)
            reader.close()
        assert read > 0

    def test_bytes_that_are_not_utf_8_are_an_error(self, tmp_path):
        of_line = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["c"], [Types.STRING()])).build()
        with pytest.raises(ValueError, match="utf-8"):
            of_line.deserialize(b"a\xff")
        (tmp_path / "f.csv").write_bytes(b"\n\nb\na\xff\n")
        source = files.FileSource(
            [str(tmp_path)], files.CsvRecords(files.CsvSchema((files.CsvColumn("c", Types.STRING()),)))
        )
        (split,) = source.splits(1)
        reader = source.reader(split)
        with pytest.raises(TypeMismatchError, match="line 4 after byte 0: cell 1 is not UTF-8"):
            reader.read(split.start, 10)
        reader.close()


class TestNothingIsLost:
    """What is written into a CSV file is what is read from it, or an error."""

    @staticmethod
    def schema(*columns, **options):
        return files.CsvSchema(tuple(files.CsvColumn(*column) for column in columns), **options)

    def written(self, folder, schema, rows):
        return write(folder, SimpleNamespace(_factory=files.CsvFiles(schema)), rows)

    def back(self, folder, schema, rows):
        return check_source(EngineSource([str(self.written(folder, schema, rows))], CsvRecords(schema)))

    @pytest.mark.parametrize("kind", [Types.STRING(), Types.INT(), Types.LIST(Types.INT())])
    def test_rows_of_one_empty_cell(self, tmp_path, kind):
        """An empty line is no row: they were gone."""
        schema = self.schema(("a", kind, ";"))
        empty = {Types.STRING(): "", Types.INT(): None}.get(kind, [])
        assert self.back(tmp_path, schema, [Row(a=empty), Row(a=empty)]) == [Row(a=empty)] * 2

    def test_a_text_that_begins_with_a_byte_order_mark(self, tmp_path):
        rows = [Row(a="\ufeffx", b="\ufeffy"), Row(a="\ufeff", b="")]
        assert self.back(tmp_path, self.schema(("a", Types.STRING()), ("b", Types.STRING())), rows) == rows
        row_type = Types.ROW_NAMED(["a", "b"], [Types.STRING()] * 2)
        writer = CsvRowSerializationSchema.Builder(row_type).build()
        reader = CsvRowDeserializationSchema.Builder(row_type).build()
        assert [reader.deserialize(writer.serialize(row)) for row in rows] == rows

    @pytest.mark.parametrize("quote", ['"', None])
    @pytest.mark.parametrize(
        ("kind", "bad"),
        [
            (Types.INT(), ["x", 1.5, 2**31]),
            (Types.LONG(), [2**63, "1"]),
            (Types.BOOLEAN(), ["true", 5]),
            (Types.DOUBLE(), ["1.5", 2**53 + 1]),
            (Types.FLOAT(), [1e300]),
            (Types.STRING(), [5, b"a"]),
            (Types.SQL_DATE(), ["2024-02-29", datetime.datetime(2024, 2, 29, 1)]),
            (Types.SQL_TIME(), [datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))]),
            (Types.SQL_TIMESTAMP(), [datetime.date(2024, 2, 29), 5]),
            (Types.LIST(Types.INT()), ["12", [1, "x"], 5]),
            (Types.LIST(Types.STRING()), [["a;b"], [""], [None]]),
            (Types.LIST(Types.BOOLEAN()), [[None]]),
        ],
        ids=str,
    )
    def test_what_is_not_of_the_column_s_type(self, tmp_path, kind, bad, quote):
        """It was written as it was: as a text that nobody reads, or reads as something else."""
        schema = self.schema(("id", Types.INT()), ("a", kind, ";"), quote=quote)
        for value in bad:
            with pytest.raises(TypeMismatchError, match="CSV column 'a'"):
                self.written(tmp_path / "bad", schema, [(1, None), (2, value)])

    @pytest.mark.parametrize("quote", ['"', None])
    def test_what_stands_for_a_value_of_the_type(self, tmp_path, quote):
        kinds = [Types.INT(), Types.DOUBLE(), Types.BOOLEAN(), Types.FLOAT(), Types.BIG_DEC()]
        schema = self.schema(*((f"c{n}", kind) for n, kind in enumerate(kinds)), quote=quote)
        path = self.written(
            tmp_path, schema, [(2.0, 5, 1, 0.1, -0.0), (True, 1e20, 0, None, Decimal("-0.00"))]
        )
        assert path.read_text() == "2,5.0,true,0.1,0.0\n1,1.0E20,false,,0.00\n"

    @pytest.mark.parametrize("null", [None, "NULL"])
    def test_elements_that_are_none(self, tmp_path, null):
        """They were the text None."""
        kinds = (("i", Types.LIST(Types.INT()), ";"), ("s", Types.LIST(Types.STRING()), ";"))
        schema = self.schema(*kinds, null_text=null)
        rows = [Row(i=[1, None], s=["a", "b"]), Row(i=[None, 2], s=["a"])]
        assert self.back(tmp_path / "i", schema, rows) == rows
        texts = self.back(tmp_path / "s", schema, [Row(i=[], s=["a", None])])
        assert texts == [Row(i=[], s=["a", None if null else ""])]

    def test_bytes(self, tmp_path):
        """They were the digits of their numbers, and read as a list of one."""
        schema = self.schema(("a", Types.PRIMITIVE_ARRAY(Types.BYTE())), ("b", Types.INT()))
        rows = [Row(a=b"\x01\x02\xff", b=1), Row(a=None, b=2)]
        assert self.back(tmp_path, schema, rows) == rows

    def test_years_of_less_than_four_digits(self, tmp_path):
        schema = self.schema(("a", Types.INSTANT()))
        rows = [Row(a=Instant(-62_000_000_000, 5))]
        assert self.back(tmp_path, schema, rows) == rows


@pytest.mark.parametrize("text", ["1e400", "-1E400", "9" * 400])
@pytest.mark.parametrize("kind", [Types.DOUBLE(), Types.FLOAT()])
def test_a_number_that_64_bits_do_not_hold(tmp_path, text, kind):
    """It was infinity."""
    row_type = Types.ROW_NAMED(["a"], [kind])
    reader = CsvRowDeserializationSchema.Builder(row_type).build()
    with pytest.raises(ValueError, match="too large for 64 bits"):
        reader.deserialize(text.encode())
    with pytest.raises(ValueError, match="too large for 64 bits"):
        reader.deserialize_all([b"1.5", text.encode()])
    with pytest.raises(ValueError, match="too large for 64 bits"):
        JsonRowDeserializationSchema.builder().type_info(row_type).build().deserialize(
            b'{"a": "%s"}' % text.encode()
        )
    (tmp_path / "f.csv").write_text(f"{text}\n")
    schema = files.CsvSchema((files.CsvColumn("a", kind),))
    with pytest.raises(TypeMismatchError, match="too large for 64 bits"):
        check_source(EngineSource([str(tmp_path)], CsvRecords(schema)))
    assert [row.a for row in reader.deserialize_all([b"Infinity", b"-inf", b"1e3"])] == [
        math.inf,
        -math.inf,
        1e3,
    ]
