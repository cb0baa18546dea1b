"""Rates of reading and writing files, against a plain Python loop over the same file: one process, CPU time.

A plain loop makes the same elements, one after the other, and lets go of them as the engine does. Garbage in
cycles is looked for as in workers, for both.

``python files.py [RECORDS]`` prints them as JSON.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.connectors import SinkContext
from changelog_engine.connectors.delta import DeltaSink
from changelog_engine.connectors.files import (
    ON_CHECKPOINT,
    BasePathBuckets,
    ColumnarFiles,
    CsvColumn,
    CsvFiles,
    CsvRecords,
    CsvSchema,
    FileFormat,
    FileSink,
    FileSource,
    JsonLines,
    ParquetRecords,
    StringEncoder,
    TextLines,
    arrow_schema,
)
from changelog_engine.spark.garbage import collect_rarely
from changelog_engine.types import Row, Types
from changelog_engine.types.row import rows_of_columns

RECORDS = 500_000
_RUNS = 3
_STEP = 32_768  # what the engine asks for
_ROW = Types.ROW_NAMED(["id", "name", "x"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
_CSV = CsvSchema(
    tuple(
        CsvColumn(name, each)
        for name, each in zip(_ROW.get_field_names(), _ROW.get_field_types(), strict=True)
    )
)


class FilesBench:
    """Reads and writes files of so many records below a folder."""

    def __init__(self, work: Path, records: int = RECORDS) -> None:
        self._folder = work / "files"
        self._records = records

    def rates(self) -> dict[str, Any]:
        """Records a second: ours, of the plain loop, and ours as a part of it."""
        collect_rarely()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        rows = [(number, f"name {number % 1000}", number / 8) for number in range(self._records)]
        try:
            return {name: _compared(len(rows), *pair) for name, pair in self._measured(rows)}
        finally:
            shutil.rmtree(self._folder)

    def _measured(self, rows: list[Any]) -> Iterator[tuple[str, tuple[Callable[[], int], Callable[[], int]]]]:
        text, table, columns, lines = (self._folder / name for name in ("text", "csv", "parquet", "json"))
        quoted = self._folder / "quoted"
        text.write_text("".join(f"{row[1]}\n" for row in rows))
        objects = (dict(zip(_ROW.get_field_names(), row, strict=True)) for row in rows)
        lines.write_text("".join(json.dumps(each) + "\n" for each in objects))
        for path, quoting in ((table, csv.QUOTE_MINIMAL), (quoted, csv.QUOTE_NONNUMERIC)):
            with path.open("w", newline="") as stream:
                csv.writer(stream, quoting=quoting).writerows(rows)
        by_column = dict(zip(_ROW.get_field_names(), map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(by_column), columns)
        yield "read text", (lambda: _read(text, TextLines()), lambda: _text_loop(text))
        yield "read JSON", (lambda: _read(lines, JsonLines()), lambda: _json_loop(lines))
        yield "read JSON rows", (lambda: _read(lines, JsonLines(_ROW)), lambda: _json_rows_loop(lines))
        yield "read CSV", (lambda: _read(table, CsvRecords(_CSV)), lambda: _csv_loop(table))
        yield "read quoted CSV", (lambda: _read(quoted, CsvRecords(_CSV)), lambda: _csv_loop(quoted))
        yield "read Parquet", (lambda: _read(columns, ParquetRecords(_ROW)), lambda: _parquet_loop(columns))
        names = [row[1] for row in rows]
        strings = StringEncoder().for_type(Types.STRING())
        yield (
            "write text",
            (lambda: self._write(names, strings), lambda: _write_loop(names, self._folder / "out")),
        )
        yield (
            "write CSV",
            (lambda: self._write(rows, CsvFiles(_CSV)), lambda: _csv_write_loop(rows, self._folder / "out")),
        )
        parquet = ColumnarFiles("parquet", arrow_schema(_ROW))
        yield (
            "write Parquet",
            (lambda: self._write(rows, parquet), lambda: _parquet_write_loop(rows, self._folder / "out")),
        )
        made = rows_of_columns(_ROW.get_field_names(), list(zip(*rows, strict=True)))
        yield (
            "write Delta",
            (lambda: self._write_table(made), lambda: _delta_write_loop(made, self._folder / "plain")),
        )

    def _write_table(self, values: list[Any]) -> int:
        shutil.rmtree(self._folder / "table", ignore_errors=True)
        sink = DeltaSink(str(self._folder / "table"), _ROW)
        context = SinkContext("bench", "sink", 0, 1, "run", 1, True, ())
        writer = sink.committing_writer(context)
        for start in range(0, len(values), _STEP):
            writer.write(values[start : start + _STEP])
        sink.commit_all(context, writer.prepare(True).committables)
        writer.close()
        return len(values)

    def _write(self, values: list[Any], encoder: Any) -> int:
        sink = FileSink(str(self._folder / "sink"), encoder, BasePathBuckets(), ON_CHECKPOINT)
        writer = sink.committing_writer(SinkContext("bench", "sink", 0, 1, "run", 1, True, ()))
        for start in range(0, len(values), _STEP):
            writer.write(values[start : start + _STEP])
        writer.commit(writer.prepare(True).committables)
        writer.close()
        return len(values)


def _compared(records: int, ours: Callable[[], int], plain: Callable[[], int]) -> dict[str, float]:
    seconds = {"ours": _best(ours, records), "plain": _best(plain, records)}
    return {
        "records_per_s": round(records / seconds["ours"]),
        "plain_records_per_s": round(records / seconds["plain"]),
        "of_plain": round(seconds["plain"] / seconds["ours"], 2),
    }


def _best(run: Callable[[], int], records: int) -> float:
    best = float("inf")
    for _ in range(_RUNS):
        began = time.process_time()
        found = run()
        best = min(best, time.process_time() - began)
        assert found == records, f"{found} records, not {records}"
    return best


def _read(path: Path, file_format: FileFormat) -> int:
    source = FileSource([str(path)], file_format)
    (split,) = source.splits(1)
    reader, position, count, finished = source.reader(split), split.start, 0, False
    while not finished:
        values, position, finished, *_ = reader.read(position, _STEP)
        count += len(values)
    reader.close()
    return count


def _text_loop(path: Path) -> int:
    with path.open(encoding="utf-8") as stream:
        return _count(line.rstrip("\n") for line in stream)


def _json_loop(path: Path) -> int:
    with path.open(encoding="utf-8") as stream:
        return _count(orjson.loads(line) for line in stream)


def _json_rows_loop(path: Path) -> int:
    with path.open(encoding="utf-8") as stream:
        return _count(Row(**orjson.loads(line)) for line in stream)


def _csv_loop(path: Path) -> int:
    with path.open(encoding="utf-8", newline="") as stream:
        return _count(Row(id=int(a), name=b, x=float(c)) for a, b, c in csv.reader(stream))


def _parquet_loop(path: Path) -> int:
    return _count(Row(**fields) for fields in pq.read_table(path).to_pylist())


def _count(values: Iterator[Any]) -> int:
    count = 0
    for _ in values:
        count += 1
    return count


def _write_loop(values: list[str], path: Path) -> int:
    with path.open("w", encoding="utf-8") as stream:
        for value in values:
            stream.write(f"{value}\n")
    return len(values)


def _csv_write_loop(rows: list[Any], path: Path) -> int:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return len(rows)


def _parquet_write_loop(rows: list[Any], path: Path) -> int:
    names = _ROW.get_field_names()
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), path)
    return len(rows)


def _delta_write_loop(rows: list[Row], path: Path) -> int:
    shutil.rmtree(path, ignore_errors=True)
    columns = {
        "id": [row.id for row in rows],
        "name": [row.name for row in rows],
        "x": [row.x for row in rows],
    }
    deltalake.write_deltalake(str(path), pa.table(columns))
    return len(rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        bench = FilesBench(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
        print(json.dumps(bench.rates(), indent=2))
