"""Sources of files: every format gives back what was written, from every position, however the files lie."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import json
import lzma
import os
import random
import zlib
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.chance import chosen_seed
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import DriverKilled, Failure, Fault, Script
from support.unprivileged import nobodys_copy

from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.clock import MonotonicMs
from changelog_engine.connectors import DiscoveringSource, Source
from changelog_engine.connectors.files import (
    AvroRecords,
    BasePathBuckets,
    CsvRecords,
    FileSink,
    FileSource,
    JsonLines,
    MonitoringFileSource,
    ParquetRecords,
    StringEncoder,
    TextLines,
    input_files,
)
from changelog_engine.connectors.files.csv_values import CsvColumn, CsvSchema
from changelog_engine.connectors.files.input_files import InputFolder
from changelog_engine.connectors.files.text_lines import ByteLineReader
from changelog_engine.driver.mistakes import is_final, is_mistake
from changelog_engine.driver.source_splits import SourceSplits
from changelog_engine.errors import (
    ChangelogEngineError,
    ConfigurationError,
    DamagedInputError,
    JobExecutionError,
    NotSupportedError,
    StorageError,
    TypeMismatchError,
)
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.operators.failures import OperatorName
from changelog_engine.replay.job import replay_graph
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.testing.conformance import check_source
from changelog_engine.types import Row, Types


def read_all(source, step=3):
    """All elements, split by split."""
    found = []
    for split in source.splits(1):
        found += read_split(source, split, step)
    return found


def read_split(source, split, step=3):
    reader, position, finished, found = source.reader(split), split.start, False, []
    while not finished:
        values, position, finished, *_ = reader.read(position, step)
        assert len(values) <= step
        found += values
    reader.close()
    return found


def input_file(path):
    return InputFolder(str(path), FileSystems()).file(str(path), None, None)


class deflate_open:
    def __init__(self, path, mode):
        self.path = path

    def __enter__(self):
        return self

    def write(self, data):
        self.path.write_bytes(zlib.compress(data))

    def __exit__(self, *_):
        pass


def zstd_open(path, mode):
    return pa.CompressedOutputStream(str(path), "zstd")


TEXTS = [
    "",
    "\n",
    "one",
    "one\n",
    "one\n\nthree  \n last",
    "windows\r\n\r\nlines\r\n",
    "old\rmac\r\rlines",
    "mixed\r\r\n\n\rend\r",
    "übung\nmächt ☂ 𝄞\n",
]


class TestTextFile:
    @pytest.mark.parametrize("text", TEXTS)
    @pytest.mark.parametrize("step", [1, 2, 100])
    def test_lines_are_pythons_from_every_position(self, tmp_path, text, step):
        path = tmp_path / "f.txt"
        path.write_bytes(text.encode())
        source = FileSource([str(path)])
        expected = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
        assert read_all(source, step=step) == expected
        check_source(source)

    @pytest.mark.parametrize("chunk", [1, 2, 3, 5, 64])
    def test_chunks_of_any_size(self, tmp_path, chunk):
        seed = chosen_seed()
        rng = random.Random(seed)
        text = "".join(rng.choice(["a", "bb", "ü", "\n", "\r\n", "\r"]) for _ in range(300))
        path = tmp_path / "f.txt"
        path.write_bytes(text.encode())
        expected = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
        reader = ByteLineReader(input_file(path), "utf-8", chunk)
        lines, position, finished = [], 0, False
        while not finished:
            values, position, finished, *_ = reader.read(position, 7)
            lines += values
            again = ByteLineReader(input_file(path), "utf-8", chunk + 1)
            assert list(again.read(position, 10**6).values) == expected[len(lines) :], f"seed {seed}"
            again.close()
        reader.close()
        assert lines == expected, f"seed {seed}"

    @pytest.mark.parametrize(
        ("ending", "opened"),
        [
            (".gz", gzip.open),
            (".GZIP", gzip.open),
            (".bz2", bz2.open),
            (".xz", lzma.open),
            (".deflate", deflate_open),
            (".zst", zstd_open),
        ],
    )
    def test_compressed_files_are_read_by_their_ending(self, tmp_path, ending, opened):
        path = tmp_path / f"f.txt{ending}"
        with opened(path, "wb") as stream:
            stream.write("eins\r\n\nzwei ü\nende".encode())
        source = FileSource([str(path)])
        assert read_all(source) == ["eins", "", "zwei ü", "ende"]
        check_source(source)
        packed = path.read_bytes()
        path.write_bytes(packed * 3)  # several, one after the other, are as one
        assert read_all(source, 10**6) == ["eins", "", "zwei ü", *["endeeins", "", "zwei ü"] * 2, "ende"]
        path.write_bytes(packed * 2 + bytes(8))
        if ending == ".xz":  # its padding
            assert len(read_all(source, 10**6)) == 7
        for damaged in (
            b"",
            packed + b"x",
            packed + bytes(3),
            packed + b"damaged" + packed,
            packed * 2 + packed[:-3],
        ):
            path.write_bytes(damaged)
            if damaged[len(packed) :] != bytes(3) or ending.lower() not in (".gz", ".gzip"):
                with pytest.raises(StorageError, match=f"cannot read the input file {path}: "):
                    read_all(source, 10**6)

    @pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "latin-1", "cp1252", "utf-8-sig", "gb18030"])
    def test_lines_of_every_charset(self, tmp_path, charset):
        text = "grün\n\nlast ü"
        path = tmp_path / "f.txt"
        path.write_bytes(text.encode(charset))
        source = FileSource([str(path)], TextLines(charset))
        assert read_all(source, step=1) == ["grün", "", "last ü"]

    def test_undecodable_bytes_are_replaced(self, tmp_path):
        (tmp_path / "f").write_bytes(b"a\xff\nb\n")
        assert read_all(FileSource([str(tmp_path / "f")])) == ["a�", "b"]

    @pytest.mark.parametrize(
        ("charset", "damaged"),
        [("gb18030", b"a\x81\x30"), ("euc_jp", b"a\x8f"), ("iso2022_jp", b"a\x1b$B!"), ("utf-7", b"a+")],
    )
    @pytest.mark.parametrize("step", [1, 2, 9])
    @pytest.mark.parametrize("end", [b"\n", b"\r\n"])
    def test_no_line_is_lost_where_half_a_character_stands_before_its_end(
        self, tmp_path, charset, damaged, step, end
    ):
        (tmp_path / "f").write_bytes(end.join([b"one", damaged, b"three", damaged, b""]))
        found = read_all(FileSource([str(tmp_path / "f")], TextLines(charset)), step)
        half = damaged.decode(charset, "replace")
        assert found == ["one", half, "three", half]

    def test_folders_are_read_in_order_without_hidden_files(self, tmp_path):
        for name in ["b.txt", "a.txt", ".hidden", "_meta", "sub/c.txt", "sub/_x", ".git/d.txt", "_tmp/e.txt"]:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(name)
        source = FileSource([f"file://{tmp_path}", str(tmp_path / "a.txt")])
        splits = source.splits(2)
        assert [split.id for split in splits] == [
            str(tmp_path / name) for name in ["a.txt", "b.txt", "sub/c.txt"]
        ]
        assert read_all(source) == ["a.txt", "b.txt", "sub/c.txt"]
        assert read_all(FileSource([str(tmp_path / "_meta")])) == ["_meta"]

    def test_a_folder_below_that_this_user_may_not_read_is_named(self, tmp_path):
        (tmp_path / "in" / "closed").mkdir(parents=True)
        with nobodys_copy(tmp_path / "in") as copy:
            (copy / "closed").chmod(0)
            with pytest.raises(ConfigurationError) as failed:
                FileSource([str(copy)]).splits(1)
            (copy / "closed").chmod(0o755)
        assert str(failed.value) == f"cannot list the input path {copy}: {copy}/closed: Permission denied"

    @pytest.mark.parametrize("end", ["", "/"])
    def test_linked_folders_are_read_and_loops_of_them_end(self, tmp_path, end):
        for name in ["in/a.txt", "in/sub/b.txt", "out/c.txt"]:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(name)
        links = {
            "in/link": "out",
            "in/sub/up": "in",
            "in/sub/self": "in/sub",
            "out/back": "in",
            "in/f": "out/c.txt",
        }
        for name, to in links.items():
            (tmp_path / name).symlink_to(tmp_path / to)
        (tmp_path / "in/gone").symlink_to(tmp_path / "nowhere")
        found = [split.id for split in FileSource([f"{tmp_path}/in{end}"]).splits(1)]
        assert [name.removeprefix(f"{tmp_path}/in/") for name in found] == [
            "a.txt",
            "f",
            "link/c.txt",
            "sub/b.txt",
        ]
        assert read_all(FileSource([f"{tmp_path}/in{end}"])) == [
            "in/a.txt",
            "out/c.txt",
            "out/c.txt",
            "in/sub/b.txt",
        ]

    @pytest.mark.parametrize("source", [FileSource, MonitoringFileSource])
    def test_a_pipe_among_files_is_an_error(self, tmp_path, source):
        """Who opened it would wait for somebody to write, for ever."""
        (tmp_path / "a.txt").write_text("a")
        os.mkfifo(tmp_path / "pipe")
        made = source([str(tmp_path)])
        with pytest.raises(ConfigurationError, match=r"pipe under the input path .* not a file: take it"):
            made.discover({}) if source is MonitoringFileSource else made.splits(1)

    @pytest.mark.parametrize("end", ["", "/"])
    @pytest.mark.parametrize("scheme", ["", "file://"])
    def test_folders_within_a_folder_can_be_left_out(self, tmp_path, caplog, scheme, end):
        for name in ["a.txt", "sub/b.txt", "sub/more/c.txt"]:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(name)
        with caplog.at_level("WARNING", "changelog_engine"):
            assert read_all(FileSource([f"{scheme}{tmp_path}{end}"], subfolders=False)) == ["a.txt"]
            assert "has folders with 2 more files, which are not read" in caplog.text
            caplog.clear()
            assert read_all(FileSource([f"{tmp_path}/sub/b.txt"], subfolders=False)) == ["sub/b.txt"]
            assert not caplog.text

    @pytest.mark.parametrize("name", ["_delta_log", ".hoodie"])
    @pytest.mark.parametrize("scheme", ["", "file://"])
    def test_a_table_is_refused(self, tmp_path, scheme, name):
        """Of its files some have rows that it no longer has: they came, too."""
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "0.json").touch()
        (tmp_path / "t" / "part.txt").write_text("deleted\n")
        for path in (tmp_path, tmp_path / "t"):
            with pytest.raises(ConfigurationError, match=r"is a (Delta|Hudi) table: "):
                FileSource([f"{scheme}{path}"]).splits(1)

    @pytest.mark.parametrize("name", ["f.txt", "f.gz"])
    def test_a_file_that_was_cut(self, tmp_path, name):
        opened = gzip.open if name.endswith("gz") else open
        with opened(tmp_path / name, "wb") as stream:
            stream.write(b"1\n2\n3\n")
        source = FileSource([str(tmp_path)])
        (split,) = source.splits(1)
        reader = source.reader(split)
        position = reader.read(split.start, 2).next
        reader.close()
        with opened(tmp_path / name, "wb") as stream:
            stream.write(b"1\n")
        with pytest.raises(StorageError, match="cut or replaced"):
            source.reader(split).read(position, 10)

    @pytest.mark.parametrize(
        "records", [TextLines(), CsvRecords(CsvSchema((CsvColumn("n", Types.INT()),)))], ids=["lines", "csv"]
    )
    def test_a_file_that_is_cut_while_it_is_read(self, tmp_path, records):
        path = tmp_path / "f"
        path.write_bytes(b"1234567\n" * 1_000_000)
        source = FileSource([str(path)], records)
        (split,) = source.splits(1)
        reader = source.reader(split)
        position = reader.read(split.start, 2).next
        os.truncate(path, 10)
        with pytest.raises(StorageError, match="it was cut while it was read"):
            reader.read(position, 10**6)

    def test_a_file_of_the_same_size_and_another_time(self, tmp_path):
        path = tmp_path / "f"
        path.write_text("1\n2\n")
        source = FileSource([str(path)])
        (split,) = source.splits(1)
        os.utime(path, (1_000, 1_000))
        with pytest.raises(StorageError, match="1970-01-01T00:16:40"):
            source.reader(split).read(split.start, 10)

    def test_what_is_appended_while_it_is_read_is_not_read(self, tmp_path):
        path = tmp_path / "f"
        path.write_text("1\n2\n3")
        source = FileSource([str(path)])
        (split,) = source.splits(1)
        reader = source.reader(split)
        first = reader.read(split.start, 1)
        with path.open("a") as stream:
            stream.write("4\n5\n")
        second = reader.read(first.next, 10)
        assert (list(second.values), second.finished) == (["2", "3"], True)
        reader.close()

    @pytest.mark.parametrize("name", ["f", "f.gz", "f.csv", "f.parquet"])
    def test_a_file_that_is_written_over_while_it_is_read(self, tmp_path, name):
        path = tmp_path / name
        table = pa.table({"n": [1, 2, 3]})
        opened = gzip.open if name.endswith("gz") else open
        with opened(path, "wb") as stream:
            pq.write_table(table, stream) if name == "f.parquet" else stream.write(b"1\n2\n3\n")
        row = Types.ROW_NAMED(["n"], [Types.LONG()])
        schema = CsvSchema((CsvColumn("n", Types.LONG()),))
        formats = {"f.csv": CsvRecords(schema), "f.parquet": ParquetRecords(row)}
        source = FileSource([str(path)], formats.get(name))
        (split,) = source.splits(1)
        reader = source.reader(split)
        first = reader.read(split.start, 1)
        octets = path.read_bytes()
        with path.open("r+b") as stream:
            stream.write(octets)
        os.utime(path, (1_000, 1_000))
        with pytest.raises(DamagedInputError, match=r"cut or replaced: .* when the job began to read it"):
            reader.read(first.next, 10)
        reader.close()

    def test_a_file_whose_name_another_gets_while_it_is_read(self, tmp_path):
        """The one that was opened is there as long as it is open."""
        path = tmp_path / "f"
        path.write_text("1\n2\n3\n")
        source = FileSource([str(path)])
        (split,) = source.splits(1)
        reader = source.reader(split)
        first = reader.read(split.start, 1)
        (tmp_path / "g").write_text("4\n")
        os.replace(tmp_path / "g", path)
        second = reader.read(first.next, 10)
        assert (list(second.values), second.finished) == (["2", "3"], True)
        reader.close()

    def test_a_file_that_is_gone(self, tmp_path):
        path = tmp_path / "f"
        path.write_text("1\n")
        source = FileSource([str(path)])
        (split,) = source.splits(1)
        path.unlink()
        with pytest.raises(StorageError, match=f"cannot read the input file {path}"):
            source.reader(split).read(split.start, 10)

    def test_a_large_deflated_file(self, tmp_path):
        lines = [f"line {number} {'x' * (number % 50)}" for number in range(80_000)]
        (tmp_path / "f.deflate").write_bytes(zlib.compress("\n".join(lines).encode()))
        source = FileSource([str(tmp_path / "f.deflate")])
        assert read_all(source, step=7_000) == lines
        whole = (tmp_path / "f.deflate").read_bytes()
        (tmp_path / "f.deflate").write_bytes(whole[:-100])
        with pytest.raises(StorageError, match="end too early"):
            read_all(source, step=7_000)
        two = [zlib.compress("\n".join(part).encode()) for part in (["", *lines[:5]], ["", *lines[5:]])]
        (tmp_path / "f.deflate").write_bytes(b"".join(two))
        assert read_all(source, step=7_000) == ["", *lines]
        (tmp_path / "f.deflate").write_bytes(whole + b"something else")
        with pytest.raises(StorageError, match=r"f\.deflate"):
            read_all(source, step=7_000)

    def test_a_broken_archive(self, tmp_path):
        (tmp_path / "g.gz").write_bytes(b"no gzip")
        source = FileSource([str(tmp_path / "g.gz")])
        (split,) = source.splits(1)
        with pytest.raises(StorageError, match=r"g\.gz"):
            source.reader(split).read(split.start, 10)

    @pytest.mark.parametrize("damage", ["g.gz", "g.parquet", "g.avro", "cut", "replaced", "forbidden"])
    def test_what_no_restart_mends_ends_the_job(self, tmp_path, monkeypatch, damage):
        """It was restarted for ever."""
        path = tmp_path / (damage if damage.startswith("g.") else "f")
        path.write_bytes(b"1\n2\n3\n")
        records = {"g.parquet": ParquetRecords(), "g.avro": AvroRecords()}.get(damage, TextLines())
        build = GraphBuilder("job", 1, 16)
        build.collect(build.source(FileSource([str(path)], records), uid="files"))

        class Mends(TestJob):
            def on_commit(self, checkpoint):
                if damage == "cut":
                    os.truncate(path, 3)
                elif damage == "replaced":
                    os.utime(path, (1_000, 1_000))

        if damage == "forbidden":
            monkeypatch.setattr(
                input_files, "open", Mock(side_effect=PermissionError(13, "denied")), raising=False
            )
        job = Mends(tmp_path / "base", Script((1,), (True,), (Failure(2, Fault.WORKER),)))
        with pytest.raises(
            JobExecutionError, match=r"the input file .*(damaged|Avro|cut or replaced|denied)"
        ) as failed:
            job.run_driver(build.graph())
        assert failed.value.seen == 3

    def test_errors_name_the_path(self, tmp_path):
        with pytest.raises(ConfigurationError, match="does not exist"):
            FileSource([str(tmp_path / "none")]).splits(1)
        with pytest.raises(ConfigurationError, match="nosuch://x"):
            FileSource(["nosuch://key:geheim@x?a=b"]).splits(1)
        with pytest.raises(ConfigurationError, match="unknown charset"):
            TextLines("utf-9")
        with pytest.raises(ConfigurationError, match="at least one path"):
            FileSource([])
        (tmp_path / "f.zip").write_bytes(b"")
        source = FileSource([str(tmp_path / "f.zip")])
        (split,) = source.splits(1)
        with pytest.raises(NotSupportedError, match="decompress"):
            source.reader(split).read(split.start, 1)


class TestJsonLines:
    def test_each_line_of_json_is_a_value(self, tmp_path):
        lines = [{"a": 1, "b": [None, "x"]}, [1, 2], "text", 1.5, None]
        (tmp_path / "f").write_text("\n\n".join(json.dumps(line) for line in lines) + "\n \n\n")
        source = FileSource([str(tmp_path / "f")], JsonLines())
        assert read_all(source, step=2) == lines
        check_source(source)

    def test_objects_of_json_become_typed_rows(self, tmp_path):
        (tmp_path / "f").write_text('{"id": 1, "x": 2, "more": 3}\n{"x": 4.5}\n')
        row = Types.ROW_NAMED(["id", "x"], [Types.INT(), Types.DOUBLE()])
        source = FileSource([str(tmp_path / "f")], JsonLines(row))
        assert source.output_type == row
        assert read_all(source) == [Row(id=1, x=2.0), Row(id=None, x=4.5)]

    @pytest.mark.parametrize("line", ['{"a": 1', "1,2", "nonsense"])
    def test_errors_name_file_and_position(self, tmp_path, line):
        (tmp_path / "f").write_text(f"1\n2\n{line}\n")
        source = FileSource([str(tmp_path / "f")], JsonLines())
        (split,) = source.splits(1)
        reader = source.reader(split)
        position = reader.read(split.start, 1).next
        with pytest.raises(
            TypeMismatchError,
            match=f"{tmp_path}/f has a line that cannot be decoded, line 2 after position 2",
        ):
            reader.read(position, 10)
        reader.close()

    def test_bad_lines_go_aside(self, tmp_path):
        (tmp_path / "f").write_text('{"id": 1}\nbad\n\n{"id": "x"}\n[]\n{"id": 2}\n')
        row = Types.ROW_NAMED(["id"], [Types.INT()])
        source = FileSource([str(tmp_path / "f")], JsonLines(row).with_bad_records_tag("bad"))
        (split,) = source.splits(1)
        reader = source.reader(split)
        first = reader.read(split.start, 2)
        second = reader.read(first.next, 10)
        assert (list(first.values), list(second.values)) == ([Row(id=1)], [Row(id=2)])
        found = [
            (tag, bad.file, bad.position, bad.line, bad.record) for tag, bad in [*first.aside, *second.aside]
        ]
        file = str(tmp_path / "f")
        assert found == [
            ("bad", file, 0, 2, "bad"),
            ("bad", file, 14, 2, '{"id": "x"}'),
            ("bad", file, 14, 3, "[]"),
        ]
        assert "declared INT but got 'x'" in second.aside[0][1].error
        reader.close()


class TestMonitoring:
    def test_each_file_is_found_once(self, tmp_path, caplog):
        folder = tmp_path / "in"
        source = MonitoringFileSource([str(folder)], interval_ms=5)
        assert isinstance(source, Source)
        assert isinstance(source, DiscoveringSource)
        assert (source.bounded, source.discovery_interval_ms, source.splits(2)) == (False, 5, [])
        assert source.discover({}) == source.discover({}) == []
        assert [record.message for record in caplog.records] == [
            f"the input path {folder} does not exist yet: the job waits for it"
        ]
        folder.mkdir()
        for name, time in [("b", 10), ("a", 30), ("c", 20), (".hidden", 5)]:
            (folder / name).write_text(name)
            os.utime(folder / name, (time, time))
        found = source.discover({})
        assert [os.path.basename(split.id) for split in found] == ["b", "c", "a"]
        known = {split.id: (split.start, True) for split in found}
        assert source.discover(known) == []
        (folder / "d").write_text("d")
        assert [split.id for split in source.discover(known)] == [str(folder / "d")]

    def test_a_changed_file_is_told_of_once(self, tmp_path, caplog):
        (tmp_path / "a").write_text("1\n")
        source = MonitoringFileSource([str(tmp_path)])
        (split,) = source.discover({})
        (tmp_path / "a").write_text("1\n2\n")
        for _ in range(3):
            assert source.discover({split.id: (split.start, True)}) == []
        assert [record.message for record in caplog.records] == [
            f"the input file {tmp_path}/a has changed; it is not read again"
        ]

    @pytest.mark.parametrize(
        ("error", "counts"),
        [
            (OSError(errno.EIO, "Input/output error"), False),
            (OSError("AWS Error ACCESS_DENIED during ListObjectsV2"), True),
            (PermissionError(13, "Permission denied"), True),
        ],
    )
    def test_a_store_that_is_away_does_not_end_a_job_that_watches_it(self, monkeypatch, error, counts):
        """And what no restart mends ends it when it came three times."""
        monkeypatch.setattr(input_files, "_find_local", Mock(side_effect=error))
        source = MonitoringFileSource(["/in"])
        splits = SourceSplits(OperatorName("in", None), source, 1, None)
        with pytest.raises(ChangelogEngineError, match="cannot list the input path /in: ") as failed:
            splits.discover(MonotonicMs(0))
        assert "in looking for new splits of operator 'in'" in str(failed.value)
        assert not is_final(failed.value)
        assert is_mistake(failed.value) == counts

    def test_a_store_that_is_away_at_a_restart_does_not_end_a_job_without_a_checkpoint(
        self, tmp_path, monkeypatch
    ):
        """It could be listed before, so the job goes on when it is there again; at a first start it is told at once."""
        (tmp_path / "a").write_text("1\n2\n3\n")
        build = GraphBuilder("job", 1, 16)
        build.collect(build.source(FileSource([str(tmp_path / "a")]), uid="files"))
        away, there = OSError(errno.EIO, "Input/output error"), input_files._find_local(str(tmp_path / "a"))
        found = Mock(side_effect=[there, away, away, there])
        monkeypatch.setattr(input_files, "_find_local", found)
        job = TestJob(tmp_path / "base", Script((1,), (False, True), (Failure(1, Fault.WORKER),)))
        job.run(build.graph())
        assert (job.output, found.call_count) == (["1", "2", "3"], 4)
        found.side_effect = away
        build = GraphBuilder("job", 1, 16)
        build.collect(build.source(FileSource([str(tmp_path / "a")]), uid="files"))
        with pytest.raises(JobExecutionError, match="cannot list the input path") as failed:
            TestJob(tmp_path / "other", Script((1,))).run(build.graph())
        assert is_final(failed.value.__cause__)

    def test_a_bounded_source_discovers_nothing(self, tmp_path):
        assert not hasattr(FileSource([str(tmp_path)]), "discover")


class Watching(TestJob):
    """Puts a file there after each commit, and stops when all are read."""

    def __init__(self, base, folder, files, script):
        super().__init__(base, script)
        self.folder = folder
        self.files = files

    def put(self, name, text):
        (self.folder / f".{name}").write_text(text)
        (self.folder / f".{name}").rename(self.folder / name)

    def on_commit(self, checkpoint):
        if self.files:
            self.put(*self.files.pop(0))

    def _observe(self, stats):
        super()._observe(stats)
        splits = (
            [split for source in self.commits[-1].sources.values() for split in source.values()]
            if self.commits
            else []
        )
        if (
            not self.files
            and len(splits) == len(list(self.folder.iterdir()))
            and all(split[1] for split in splits)
        ):
            self.coordinator.control.stop()


# Files of processes that are lost are never closed.
@pytest.mark.filterwarnings("ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(12))
def test_a_watched_folder_whatever_dies(tmp_path, seed):
    """Files come while the job runs and fails; each line is written once."""
    rng = random.Random(seed)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    texts = [(f"{rng.random()}", "".join(f"{n}-{m}\n" for m in range(rng.randint(0, 9)))) for n in range(6)]
    failures = tuple(
        Failure(rng.randint(1, 12), rng.choice(list(Fault)), 0, rng.randint(0, 1)) for _ in range(4)
    )
    job = Watching(
        tmp_path / "log", folder, texts[1:], Script((3, 1, 5), (True, rng.random() < 0.5), failures)
    )
    job.put(*texts[0])

    def graph(driver):
        build = GraphBuilder(parallelism=1 + (seed + driver) % 3, max_parallelism=16)
        stream = build.source(MonitoringFileSource([str(folder)], interval_ms=1), uid="source")
        sink = FileSink(str(out), StringEncoder(), BasePathBuckets())
        build.add(NodeKind.SINK, "sink", stream, function=sink, uid="sink")
        return build.graph()

    ended = False
    while not ended:
        with contextlib.suppress(DriverKilled, JobExecutionError):  # the latter when it fails while it stops
            job.run_driver(graph(job.drivers))
            ended = True
    written = [line for path in out.glob("part-*") for line in path.read_text().splitlines()]
    assert sorted(written) == sorted(line for _, text in texts for line in text.splitlines()), f"seed {seed}"


class Last(KeyedProcessFunction):
    """Keeps the line before."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))

    def process_element(self, value, ctx):
        self.last.update(value)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_came_into_a_watched_folder_is_replayed(tmp_path, parallelism):
    """Files come between epochs and between checkpoints; a replay begins before any of them."""
    folder = tmp_path / "in"
    folder.mkdir()
    texts = [(f"{n}", "".join(f"{n}-{m}\n" for m in range(n % 3))) for n in range(6)]
    failures = (Failure(4, Fault.WORKER), Failure(7, Fault.COMMIT_FAILS))
    job = Watching(tmp_path / "log", folder, texts[2:], Script((1, 2), (False, True), failures))
    for name, text in texts[:2]:
        job.put(name, text)
    build = GraphBuilder(parallelism=parallelism, max_parallelism=16)
    lines = build.source(MonitoringFileSource([str(folder)], interval_ms=0), uid="source")
    keyed = build.key_by(lines, lambda line: line[-1], Types.STRING())
    build.collect(build.process(keyed, Last(), uid="last"))
    job.run(build.graph())
    assert len(job.commits) > 3
    for start in (None, *(checkpoint.id for checkpoint in job.commits[:-1])):
        report = replay_graph(build.graph(), job.settings, start, None)
        assert report.equal, report.text()
    assert sum(checkpoint.rows for checkpoint in job.commits) == len(
        [*"".join(text for _, text in texts).split()]
    )
