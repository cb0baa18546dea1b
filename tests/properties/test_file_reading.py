"""Files read by columns are what is read row by row: values, positions, what goes aside, errors, from the same bytes.

CSV by Arrow's columns is compared with Python's csv module, rows of JSON with a decoder of single lines.
"""

from __future__ import annotations

import gzip
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from changelog_engine.connectors.files import (
    CsvColumn,
    CsvRecords,
    CsvSchema,
    FileSource,
    JsonLines,
    csv_files,
    line_chunks,
)
from changelog_engine.connectors.files.json_lines import _row_decoder
from changelog_engine.errors import TypeMismatchError
from changelog_engine.types import Types

TYPES = [
    Types.LONG(),
    Types.INT(),
    Types.BYTE(),
    Types.DOUBLE(),
    Types.FLOAT(),
    Types.STRING(),
    Types.CHAR(),
    Types.BOOLEAN(),
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(),
    Types.LIST(Types.INT()),
]
NUMBERS = ["1", "-1", "007", "5", "42", "0", "-0", "127"]
ODD = (
    "+1|1_0|0x1F|-0X2|128|3000000000|9223372036854775807|9223372036854775808|\u0663|"
    "1.5|.5|5.|1e5|1e400|1e-400|5e-324|nan|NaN|-nan|inf|Infinity|nan(1)|0.1|123456789.123456789|"
    "| |a|b c|\u00e4|\u2028|\x0b|\x1c|\x00|\ufeff|\ufeff1|#|#1|NULL|null|NA|N/A|true|TRUE|False|t|"
    "2024-02-29|2024-01-01 00:00:00| 5|5 |\t5|5\t|1;2|x;1|"
    '"q"|"a""b"|"x\ny"|"x\r\ny"|"#"|"open|a"b|"q"z|\\,|\\|\'|"|1,2|1\r2|1\n2|,|""|"5"|"5\n"|"a,b"'
)
CELLS = [cell.encode() for cell in [*NUMBERS, *ODD.split("|")]]
CELLS += [b"\xff", b"\xc3", b"\xed\xa0\x80"]
ENDS = [b"\n", b"\r\n", b"\r"]


@st.composite
def schemas(draw):
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    columns = [
        CsvColumn(f"c{index}", each, ";" if each.kind == "LIST" else None) for index, each in enumerate(types)
    ]
    return CsvSchema(
        tuple(columns),
        separator=draw(st.sampled_from([",", ",", ",", "\t", " ", "\u00e4"])),
        quote=draw(st.sampled_from(['"', '"', "'", None])),
        escape=draw(st.sampled_from([None, None, "\\"])),
        null_text=draw(st.sampled_from([None, "", "NULL", "0"])),
        header=draw(st.booleans()),
        skip_first=draw(st.booleans()),
        comments=draw(st.booleans()),
    )


@st.composite
def contents(draw, schema):
    between, width = schema.separator.encode(), len(schema.columns)
    end = draw(st.sampled_from(ENDS))
    # Most files are plain, or Arrow would seldom be asked.
    fitting = [
        NUMBERS if each.type_info.kind not in ("SQL_DATE", "SQL_TIMESTAMP") else [""]
        for each in schema.columns
    ]
    cells = [[cell.encode() for cell in each] for each in fitting]
    odd = draw(st.lists(st.sampled_from(CELLS), max_size=3))
    lines = []
    if schema.header:
        names = [*schema.names, "more"] if draw(st.booleans()) else schema.names[:]
        order = draw(st.permutations(range(len(names))))
        lines.append(between.join(names[at].encode() for at in order))
        cells = [[*cells, [b"?"]][at] for at in order]
        width = len(order)
    for _ in range(draw(st.integers(0, 12))):
        line = [draw(st.sampled_from(cells[at] + odd)) for at in range(width)]
        lines.append(between.join(line))
        if draw(st.integers(0, 9)) == 0:
            lines.append(draw(st.sampled_from([b"", b"", b" ", b"#x", between, *odd])))
    data = b"".join(
        line + (end if draw(st.integers(0, 19)) else draw(st.sampled_from(ENDS))) for line in lines
    )
    return (
        draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"])) + data[: len(data) - draw(st.integers(0, 1))]
    )


def read_all(path, schema, steps, tag, least, chunk):
    """What each read() gives until the end or an error; then the same from where each began, with readers of their own."""
    before = csv_files._LEAST_PLAIN, line_chunks.CHUNK_BYTES
    csv_files._LEAST_PLAIN, line_chunks.CHUNK_BYTES = least, chunk
    try:
        records = CsvRecords(schema)
        source = FileSource([str(path)], records if tag is None else records.with_bad_records_tag(tag))
        (split,) = source.splits(1)
        reader, position, found, finished = source.reader(split), split.start, [], False
        while not finished:
            count = steps[len(found) % len(steps)]
            try:
                values, after, finished, _, aside = reader.read(position, count)
            except TypeMismatchError as error:
                found.append(str(error))
                break
            found.append((repr(values), after, finished, repr(aside)))
            again = source.reader(split)
            fresh = again.read(position, count)
            again.close()
            assert (repr(fresh.values), fresh.next, fresh.finished) == (repr(values), after, finished)
            assert len(fresh.aside or ()) == len(aside or ())
            position = after
        reader.close()
        return found
    finally:
        csv_files._LEAST_PLAIN, line_chunks.CHUNK_BYTES = before


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_columns_are_what_the_csv_module_reads(tmp_path_factory, data):
    schema = data.draw(schemas())
    content = data.draw(contents(schema))
    path = tmp_path_factory.getbasetemp() / ("f.csv.gz" if data.draw(st.booleans()) else "f.csv")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    steps = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    tag = data.draw(st.sampled_from([None, "bad"]))
    chunk = data.draw(st.sampled_from([1, 3, 16, 1 << 20]))
    by_module = read_all(path, schema, steps, tag, 1 << 60, 1 << 20)
    by_columns = read_all(path, schema, steps, tag, 1, chunk)
    assert by_columns == by_module


VALUES = [
    None,
    0,
    1,
    -1,
    127,
    128,
    2**53 + 1,
    2**63 - 1,
    2**63,
    1.0,
    1.5,
    1e300,
    True,
    "",
    "a",
    "\u00e4",
    [1],
    {"a": 1},
]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_rows_of_json_are_what_single_lines_are_decoded_to(tmp_path_factory, data):
    types = data.draw(st.lists(st.sampled_from([*TYPES, Types.ROW_NAMED(["a"], [Types.INT()])]), max_size=3))
    row_type = Types.ROW_NAMED([f"c{index}" for index in range(len(types))], types)
    few = data.draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    fields = st.dictionaries(st.sampled_from(["c0", "c1", "c2", "more"]), st.sampled_from(few))
    odd = st.sampled_from(["", " ", "[]", "1,2", "null", "{", "\ufeff{}"])
    lines = data.draw(st.lists(st.one_of(fields.map(json.dumps), fields.map(json.dumps), odd), max_size=8))
    path = tmp_path_factory.getbasetemp() / "f.json"
    path.write_text("\n".join(lines), encoding="utf-8")
    source = FileSource([str(path)], JsonLines(row_type).with_bad_records_tag("bad"))
    (split,) = source.splits(1)
    reader = source.reader(split)
    found = reader.read(split.start, 100)
    reader.close()
    decode, values, bad = _row_decoder(row_type), [], []
    for number, line in enumerate(lines, 1):
        if line and not line.isspace():
            try:
                values.append(decode(line))
            except (ValueError, TypeError) as error:
                bad.append((number, line, str(error)))
    assert repr(found.values) == repr(values)
    assert [(each.line, each.record, each.error) for _, each in found.aside or ()] == bad
