"""Delta tables as sources and sinks: versions, change data, restores, and faults at every step of a commit."""

from __future__ import annotations

import datetime
import errno
import json
import os
import random
import shutil
import threading
import time
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from unittest import mock

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from support.chance import chosen_seed
from support.functions import Count, counted, rounds
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.memory_disk import MemoryDisk
from support.script import Failure, Fault, Script

from api.common import Row, Types
from api.common.types import RowKind
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import DeltaSink, DeltaSource
from api.datastream.connectors.file_system import FileSink
from changelog_engine.connectors import delta as engine
from changelog_engine.connectors.delta.reader import Columns, splits_of
from changelog_engine.connectors.protocols import Prepared, RestoredSink, SinkContext, Source, Split
from changelog_engine.connectors.spark_frames import StagedVersions, name_of
from changelog_engine.errors import (
    ConfigurationError,
    ConnectorError,
    EnvironmentNotReadyError,
    NotSupportedError,
    StorageError,
    TypeMismatchError,
)
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.storage.delta_commits import CommitLog, Layout, NewFile
from changelog_engine.storage.delta_tables import UserTable
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.opening import open_storage
from changelog_engine.testing.conformance import check_committing_sink, check_source
from changelog_engine.types import Instant

ROW = Types.ROW_NAMED(["k", "c"], [Types.LONG(), Types.LONG()])
RECORDS = 40
ELEMENTS = rounds(4, RECORDS)
EXPECTED = sorted(counted(ELEMENTS))
CONTEXT = SinkContext("job", "sink", 0, 1, "run", 1, True, ())


def table_rows(path):
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def write_version(path, rows, **options):
    """Append rows as somebody else would."""
    deltalake.write_deltalake(str(path), pa.Table.from_pylist(rows), mode="append", **options)


def read_all(source, parallelism=2, step=3):
    """All that a bounded source gives, split by split."""
    found = []
    for split in source.splits(parallelism):
        reader, position, finished = source.reader(Split(split.id, None)), split.start, False
        while not finished:
            values, position, finished, *_ = reader.read(json.loads(json.dumps(position)), step)
            found += values
        reader.close()
    return found


def pairs(rows):
    return sorted(tuple(row._values[:2]) for row in rows)


class TestSink:
    def test_the_sink_shows_each_row_once_whatever_crashes(self, tmp_path):
        path = tmp_path / "t"
        kind = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
        check_committing_sink(
            engine.DeltaSink(str(path), kind, ["s"]),
            lambda: table_rows(path) if (path / "_delta_log").exists() else [],
            lambda number: (number, f"s{number % 2}"),
            runs=4,
        )

    def test_instants_are_rounded_down_to_microseconds(self, tmp_path):
        """Before 1970 a cut is a step up; and nanoseconds of 64 bits hold only the years 1677 to 2262."""
        kind = Types.ROW_NAMED(["at", "all"], [Types.INSTANT(), Types.LIST(Types.INSTANT())])
        given = [
            Instant(-1, 999_999_999),
            Instant(0, 1_999),
            Instant(253_402_300_799, 0),
            Instant(-(10**11) // 2, 1),
        ]
        sink = engine.DeltaSink(str(tmp_path), kind)
        writer = sink.committing_writer(CONTEXT)
        writer.write([Row(at=each, all=[each]) for each in given])
        sink.commit_all(CONTEXT, writer.prepare(True).committables)
        found = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
        micros = [each.seconds * 1_000_000 + each.nanos // 1000 for each in given]
        assert found["at"].cast(pa.int64()).to_pylist() == micros
        assert pa.compute.list_flatten(found["all"]).cast(pa.int64()).to_pylist() == micros

    def test_values_of_every_type_come_back(self, tmp_path):
        names = "i s d stamp at dec l m r b f x".split()  # noqa: SIM905
        kind = Types.ROW_NAMED(
            names,
            [
                Types.INT(),
                Types.STRING(),
                Types.SQL_DATE(),
                Types.SQL_TIMESTAMP(),
                Types.INSTANT(),
                Types.BIG_DEC(),
                Types.LIST(Types.INSTANT()),
                Types.MAP(Types.STRING(), Types.DOUBLE()),
                Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.STRING())]),
                Types.PRIMITIVE_ARRAY(Types.BYTE()),
                Types.FLOAT(),
                Types.BOOLEAN(),
            ],
        )
        values = [
            7,
            "ü",
            datetime.date(2024, 2, 29),
            datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
            Instant(1, 5000),
            Decimal("1.5"),
            [Instant(2, 0), None],
            {"k": 1.5},
            Row(a=1, b=["x", None]),
            b"\x00\xff",
            0.5,
            True,
        ]
        sink = engine.DeltaSink(str(tmp_path), kind, ["s", "d", "x", "i"])
        writer = sink.committing_writer(CONTEXT)
        writer.write([Row(**dict(zip(names, values, strict=True))), tuple([None] * 12)])
        sink.commit_all(CONTEXT, writer.prepare(True).committables)
        source = engine.DeltaSource(str(tmp_path))
        assert source.output_type == kind
        full, empty = sorted(read_all(source), key=lambda row: row.i is None)
        assert full._values == values
        assert empty._values == [None] * 12

    @pytest.mark.parametrize("partition_by", [[], ["b"]])
    def test_rows_of_any_form_and_kind_are_written(self, tmp_path, partition_by):
        kind = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
        alike = [Row(a=number, b="x") for number in range(3)]
        batches = [
            alike,
            [*alike, Row.of_kind(RowKind.DELETE, a=3, b="x"), Row(4, "y"), (5, "y"), {"b": "y", "a": 6}],
            [Row(b="z", a=7)],
        ]
        sink = engine.DeltaSink(str(tmp_path / "table"), kind, partition_by)
        context = SinkContext("job", "sink", 0, 1, "run", 1, True, ())
        writer = sink.committing_writer(context)
        for batch in batches:
            writer.write(batch)
        sink.commit_all(context, writer.prepare(True).committables)
        written = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
        expected = [*[(n, "x") for n in (0, 1, 2, 0, 1, 2, 3)], (4, "y"), (5, "y"), (6, "y"), (7, "z")]
        assert sorted((row["a"], row["b"]) for row in written) == sorted(expected)

    def test_a_checkpoint_is_one_commit(self, tmp_path):
        sink = engine.DeltaSink(str(tmp_path), ROW)
        writers = [sink.committing_writer(CONTEXT._replace(subtask=n, parallelism=3)) for n in range(3)]
        for number, writer in enumerate(writers):
            writer.write([(number, 1)])
        committables = [one for writer in writers for one in writer.prepare(False).committables]
        before = deltalake.DeltaTable(str(tmp_path)).version()
        sink.commit_all(CONTEXT, committables)
        sink.commit_all(CONTEXT, committables)
        assert deltalake.DeltaTable(str(tmp_path)).version() == before + 1
        assert table_rows(tmp_path) == [(0, 1), (1, 1), (2, 1)]

    def test_a_commit_made_again_after_compaction_adds_nothing(self, tmp_path):
        sink = engine.DeltaSink(str(tmp_path), ROW)
        writer = sink.committing_writer(CONTEXT)
        committables = []
        for number in range(3):
            writer.write([(number, 1)])
            committables += writer.prepare(False).committables
            sink.commit_all(CONTEXT, committables)
        table = deltalake.DeltaTable(str(tmp_path))
        table.optimize.compact()
        table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        sink.commit_all(CONTEXT, committables)
        assert table_rows(tmp_path) == [(0, 1), (1, 1), (2, 1)]

    def test_others_may_write_meanwhile(self, tmp_path):
        sink = engine.DeltaSink(str(tmp_path), ROW)
        writer = sink.committing_writer(CONTEXT)
        writer.write([(1, 1)])
        committables = writer.prepare(False).committables
        table = sink.table()
        write_version(tmp_path, [{"k": 9, "c": 9}])
        files = {"changelog-engine/x": {1: [engine.sink.NewFile(*_file(committables[0]))]}}
        assert table.append(files) == 1, "the table was opened before the other's commit"
        assert table_rows(tmp_path) == [(1, 1), (9, 9)]

    def test_many_writers_commit_at_once(self, tmp_path):
        """Without checkpoints each writer commits for itself."""
        sink = engine.DeltaSink(str(tmp_path), ROW)
        writers = [sink.committing_writer(CONTEXT._replace(subtask=n, checkpoints=False)) for n in range(8)]
        start, failed = threading.Barrier(8), []

        def commit(number, writer):
            writer.write([(number, 1)])
            committables = writer.prepare(True).committables
            start.wait()
            try:
                writer.commit(committables)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=commit, args=pair) for pair in enumerate(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert table_rows(tmp_path) == [(number, 1) for number in range(8)]

    def test_closing_deletes_what_was_not_prepared(self, tmp_path, monkeypatch):
        monkeypatch.setattr("changelog_engine.connectors.delta.sink._ALL_BYTES", 1)
        monkeypatch.setattr("changelog_engine.connectors.delta.sink._BATCH_ROWS", 2)
        writer = engine.DeltaSink(str(tmp_path), ROW).committing_writer(CONTEXT)
        writer.write([(1, 1), (2, 2)])
        prepared = writer.prepare(False)
        writer.write([(3, 3), (4, 4)])
        assert len(list(tmp_path.glob("*.parquet"))) == 2
        writer.close()
        assert [file.name for file in tmp_path.glob("*.parquet")] == [prepared.committables[0]["path"]]

    @pytest.mark.parametrize("method", ["read", "read_stream"])
    def test_a_session_without_delta_is_told_how_to_have_it(self, method, tmp_path):
        spark = mock.Mock()
        for reader in (spark.read, spark.readStream):
            reader.format.return_value.load.side_effect = RuntimeError(
                "o1.load: [DATA_SOURCE_NOT_FOUND] delta"
            )
        env = StreamExecutionEnvironment.get_execution_environment()
        table = env.from_collection([Row(1, 2)], ROW).to_spark(str(tmp_path / "t"))
        with pytest.raises(
            EnvironmentNotReadyError, match=r"no Delta.*/t\. Build it with configure_spark_with_d"
        ):
            getattr(table, method)(spark)

    def test_tables_that_do_not_fit(self, tmp_path):
        write_version(tmp_path / "t", [{"k": 1, "c": "text"}])
        told = r"other columns than the stream: it has c string, where the stream has c int64\. Give the rows"
        with pytest.raises(ConfigurationError, match=told):
            engine.DeltaSink(str(tmp_path / "t"), ROW).committing_writer(CONTEXT)
        (tmp_path / "file").touch()
        with pytest.raises(ConfigurationError, match="/file is a file: name a folder"):
            engine.DeltaSink(str(tmp_path / "file"), ROW).check_before_start()
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([Row(1, 2)], ROW).to_spark(str(tmp_path / "t"))
        with pytest.raises(ConfigurationError, match="other columns"):
            env.execute("refused before Spark starts")
        write_version(tmp_path / "p", [{"k": 1, "c": 1}], partition_by=["k"])
        with pytest.raises(ConfigurationError, match="partitioned by"):
            engine.DeltaSink(str(tmp_path / "p"), ROW, ["c"]).committing_writer(CONTEXT)
        sink = engine.DeltaSink(str(tmp_path / "p"), ROW)  # takes the table's partitions
        writer = sink.committing_writer(CONTEXT)
        writer.write([(5, 6)])
        sink.commit_all(CONTEXT, writer.prepare(True).committables)
        assert table_rows(tmp_path / "p") == [(1, 1), (5, 6)]

    @pytest.mark.parametrize(
        ("kind", "columns", "error", "match"),
        [
            (Types.LONG(), [], ConfigurationError, "rows with named fields"),
            (None, [], ConfigurationError, "rows with named fields"),
            (ROW, ["x"], ConfigurationError, "no field 'x'"),
            (ROW, ["k", "c"], ConfigurationError, "leave a column"),
            (
                Types.ROW_NAMED(["a", "t"], [Types.INT(), Types.SQL_TIME()]),
                [],
                NotSupportedError,
                "field 't'",
            ),
            (Types.ROW_NAMED(["a", "f"], [Types.INT(), Types.DOUBLE()]), ["f"], ConfigurationError, "DOUBLE"),
        ],
    )
    def test_sinks_that_cannot_be(self, tmp_path, kind, columns, error, match):
        with pytest.raises(error, match=match):
            DeltaSink.for_row_data(str(tmp_path), kind).with_partition_columns(*columns).build()

    def test_a_table_that_was_deleted_since_the_checkpoint(self, tmp_path):
        """The next run commits again what its checkpoint names: then nobody could read the new table."""
        path = str(tmp_path / "t")
        writer = engine.DeltaSink(path, ROW).committing_writer(CONTEXT)
        writer.write([(1, 2)])
        committables = writer.prepare(True).committables
        engine.DeltaSink(path, ROW).commit_all(CONTEXT, committables)
        engine.DeltaSink(path, ROW).commit_all(CONTEXT, committables)  # it finds them there
        shutil.rmtree(path)
        with pytest.raises(
            ConnectorError, match=r"1 files .* are gone or cut, such as part-.*another uid\(\)"
        ):
            engine.DeltaSink(path, ROW).commit_all(CONTEXT, committables)
        assert table_rows(path) == []

    def committed(self, sink, writer, *numbers):
        for number in numbers:
            writer.write([(number, 0)])
            sink.commit_all(CONTEXT, writer.prepare(False).committables)

    @pytest.mark.parametrize("put_back", [False, True], ids=["made again", "put back"])
    def test_a_table_that_lost_what_was_committed(self, tmp_path, put_back):
        """The job went on, and only what came later was there."""
        sink = engine.DeltaSink(str(tmp_path / "t"), ROW)
        writer = sink.committing_writer(CONTEXT)
        self.committed(sink, writer, 1)
        if put_back:
            shutil.copytree(tmp_path / "t", tmp_path / "old")
        self.committed(sink, writer, 2, 3)
        shutil.rmtree(tmp_path / "t")
        if put_back:
            (tmp_path / "old").rename(tmp_path / "t")
        else:
            sink.table()
        with pytest.raises(
            ConnectorError, match=f"portion {int(put_back)} is its newest, and portion 3 was com"
        ):
            self.committed(sink, writer, 4)

    @pytest.mark.parametrize(
        ("happened", "match"),
        [
            ("deleted", "to which this job has committed, is gone. Put it back"),
            ("made again", "portion 0 is its newest, and portion 2 was committed"),
            ("put back", "portion 1 is its newest, and portion 2 was committed"),
            ("nothing", None),
            ("another path", None),
        ],
    )
    def test_a_table_that_lost_rows_between_two_runs(self, tmp_path, happened, match):
        """With nothing left to commit, the next run went on without a word; an empty table was made where it was gone."""
        path = tmp_path / "t"
        sink = engine.DeltaSink(str(path), ROW)
        writer = sink.committing_writer(CONTEXT)
        self.committed(sink, writer, 1)
        if happened == "put back":
            shutil.copytree(path, tmp_path / "old")
        self.committed(sink, writer, 2)
        kept = json.loads(json.dumps(writer.prepare(True)))
        later = CONTEXT._replace(restored=[RestoredSink(0, Prepared([], kept[1]))])
        # A run without rows hands on what it took over
        state = sink.committing_writer(later).prepare(True).state
        later = CONTEXT._replace(restored=[RestoredSink(0, Prepared([], state))])
        if happened not in ("nothing", "another path"):
            shutil.rmtree(path)
        if happened == "made again":
            sink.table()
        elif happened == "put back":
            (tmp_path / "old").rename(path)
        elif happened == "another path":
            sink = engine.DeltaSink(str(tmp_path / "other"), ROW)
        if match is None:
            sink.committing_writer(later)
            return
        with pytest.raises(ConnectorError, match=match):
            sink.committing_writer(later)
        beside = CONTEXT._replace(beside=later.restored)
        if happened == "deleted":
            with pytest.raises(ConnectorError, match=match):
                sink.committing_writer(beside)  # nor does a writer beside it make the table anew
            assert not path.exists()

    @staticmethod
    def forget(path, days):
        """As Spark forgets transactions: in its next checkpoint, those that are old or have no time."""
        DeltaTable(path).create_checkpoint()
        (checkpoint,) = (path / "_delta_log").glob("*.parquet")
        rows = pq.read_table(checkpoint)
        oldest = time.time() * 1000 - days * 86_400_000
        kept = [row["txn"] is None or (row["txn"]["lastUpdated"] or 0) > oldest for row in rows.to_pylist()]
        pq.write_table(rows.filter(pa.array(kept)), checkpoint)

    @pytest.fixture
    def forgetful(self, tmp_path, monkeypatch):
        """A table that forgets transactions after two days, a writer, its first portion, and how to be a day later."""
        properties = {"delta.setTransactionRetentionDuration": "interval 2 days"}
        sink = engine.DeltaSink(str(tmp_path), ROW, (), properties)
        clock = mock.Mock(return_value=int(time.time() * 1000))
        for module in ("storage.delta_tables", "connectors.delta.sink"):
            monkeypatch.setattr(f"changelog_engine.{module}.wall_ms", clock)
        return sink, sink.committing_writer(CONTEXT), clock

    def test_spark_remembers_commits_for_as_long_as_the_table_says(self, tmp_path, forgetful):
        """Transactions without a time were forgotten at once, and the next portion was refused."""
        sink, writer, _ = forgetful
        self.committed(sink, writer, 1)
        self.forget(tmp_path, days=2)
        assert UserTable(str(tmp_path)).transaction(f"changelog-engine/{writer._id}") == 1

    @pytest.mark.parametrize("compacted", [False, True])
    def test_a_portion_of_a_writer_that_the_table_has_forgotten(self, tmp_path, forgetful, compacted):
        sink, writer, clock = forgetful
        clock.return_value -= 3 * 86_400_000
        writer.write([(1, 0)])
        first = writer.prepare(False).committables
        sink.commit_all(CONTEXT, first)
        state = writer.prepare(False).state
        if compacted:
            self.committed(sink, writer, 2)
            DeltaTable(tmp_path).optimize.compact()
        self.forget(tmp_path, days=2)
        clock.return_value += 3 * 86_400_000
        assert UserTable(str(tmp_path)).transaction(f"changelog-engine/{writer._id}") is None
        sink.committing_writer(CONTEXT._replace(restored=[RestoredSink(0, Prepared([], state))]))
        before = table_rows(tmp_path)
        if compacted:  # it would come twice
            with pytest.raises(
                ConnectorError, match=r"'interval 2 days'\).*1 files.*such as part-.*cannot be told"
            ):
                sink.commit_all(CONTEXT, first)
        else:
            sink.commit_all(CONTEXT, first)
        assert table_rows(tmp_path) == before
        self.committed(sink, writer, 3)  # a later portion was refused
        assert table_rows(tmp_path) == [*before, (3, 0)]

    def test_files_that_were_vacuumed_before_their_commit(self, tmp_path):
        """Nobody could read the table."""
        sink = engine.DeltaSink(str(tmp_path), ROW)
        writer = sink.committing_writer(CONTEXT)
        self.committed(sink, writer, 1)
        writer.write([(2, 0)])
        committables = writer.prepare(False).committables
        table = deltalake.DeltaTable(str(tmp_path))
        table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
        with pytest.raises(ConnectorError, match=r"1 files .* are gone or cut, such as part-"):
            sink.commit_all(CONTEXT, committables)
        assert table_rows(tmp_path) == [(1, 0)]

    def test_files_that_were_cut_before_their_commit(self, tmp_path):
        """Nobody could read the table."""
        sink = engine.DeltaSink(str(tmp_path), ROW)
        writer = sink.committing_writer(CONTEXT)
        self.committed(sink, writer, 1)
        writer.write([(2, 0)])
        committables = writer.prepare(False).committables
        file = tmp_path / committables[0]["path"]
        os.truncate(file, file.stat().st_size - 1)
        with pytest.raises(ConnectorError, match=r"1 files .* are gone or cut, such as part-"):
            sink.commit_all(CONTEXT, committables)
        assert table_rows(tmp_path) == [(1, 0)]

    def test_files_that_were_damaged_before_their_commit(self, tmp_path):
        """A restart added them to the table, whatever their bytes were. Checkpoints before had no checksums."""
        sink = engine.DeltaSink(str(tmp_path), ROW)
        writer = sink.committing_writer(CONTEXT)
        self.committed(sink, writer, 1)
        writer.write([(2, 0)])
        prepared = writer.prepare(False)
        restored = CONTEXT._replace(subtask=-1, restored=[RestoredSink(0, prepared)])
        file = tmp_path / prepared.committables[0]["path"]
        whole = file.read_bytes()
        file.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
        with pytest.raises(ConnectorError, match=rf"{file.name}.* is not what was written: its \d+ bytes"):
            sink.commit_all(restored, prepared.committables)
        assert table_rows(tmp_path) == [(1, 0)]
        file.write_bytes(whole)
        without = [{name: one[name] for name in one if name != "crc"} for one in prepared.committables]
        assert without != list(prepared.committables)
        for committables in (prepared.committables, without):
            sink.commit_all(restored, committables)
        assert table_rows(tmp_path) == [(1, 0), (2, 0)]

    def test_rules_that_only_a_query_engine_keeps(self, tmp_path):
        for rule in ("delta.generationExpression", "delta.identity.start", "delta.invariants"):
            fields = [
                {
                    "name": name,
                    "type": "long",
                    "nullable": True,
                    "metadata": {rule: "1"} if name == "c" else {},
                }
                for name in ("k", "c")
            ]
            schema = deltalake.Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
            deltalake.DeltaTable.create(str(tmp_path / rule), schema)
            with pytest.raises(ConfigurationError, match=rf"has rules \({rule} of c\)"):
                engine.DeltaSink(str(tmp_path / rule), ROW).check_before_start()

    @pytest.mark.parametrize("partition_by", [None, ["n"]])
    def test_no_null_gets_where_the_table_has_none(self, tmp_path, partition_by):
        inner = pa.field("inner", pa.int64(), nullable=False)
        parts = {
            "n": (pa.field("n", pa.int64(), nullable=False), Types.LONG(), 1, None, "'n'"),
            "s": (pa.struct([inner]), Types.ROW_NAMED(["inner"], [Types.LONG()]), Row(2), Row(None), "'inner' of 's'"),
            "l": (pa.list_(inner), Types.LIST(Types.LONG()), [3], [3, None], "'element' of 'l'"),
            "m": (
                pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
                Types.MAP(Types.STRING(), Types.LONG()),
                {"k": 4},
                {"k": None},
                "'value' of 'm'",
            ),
        }  # fmt: skip
        columns = [
            part[0] if isinstance(part[0], pa.Field) else pa.field(name, part[0])
            for name, part in parts.items()
        ]
        table, kind = str(tmp_path), Types.ROW_NAMED([*parts], [part[1] for part in parts.values()])
        deltalake.DeltaTable.create(table, pa.schema(columns), partition_by=partition_by)
        good = [part[2] for part in parts.values()]
        sink = engine.DeltaSink(table, kind)
        for at, (name, part) in enumerate(parts.items()):
            for value in (part[3], None):
                row = [*good]
                row[at] = value
                writer = sink.committing_writer(CONTEXT)
                writer.write([tuple(good), tuple(row)])
                if value is None and name != "n":  # nothing in it is anybody's
                    sink.commit_all(CONTEXT, writer.prepare(True).committables)
                    continue
                with pytest.raises(TypeMismatchError, match=f"None in {part[4]}, which .* NOT NULL"):
                    writer.prepare(True)
        files = pa.table(deltalake.DeltaTable(table).get_add_actions())
        assert sum(files.column("num_records").to_pylist()) == 6

    def test_no_empty_text_is_null_where_the_table_has_none(self, tmp_path):
        columns = [pa.field("n", pa.int64()), pa.field("p", pa.string(), nullable=False)]
        deltalake.DeltaTable.create(str(tmp_path), pa.schema(columns), partition_by=["p"])
        sink = engine.DeltaSink(str(tmp_path), Types.ROW_NAMED(["n", "p"], [Types.LONG(), Types.STRING()]))
        writer = sink.committing_writer(CONTEXT)
        writer.write([(1, "a"), (2, "")])
        with pytest.raises(TypeMismatchError, match=r"has '' in 'p', by which .* NOT NULL"):
            writer.prepare(True)

    @pytest.mark.parametrize("partition_by", [None, ["s"]])
    def test_no_text_is_longer_than_spark_would_have_written(self, tmp_path, partition_by):
        """Of a VARCHAR column Delta knows a string, and Spark in the column's metadata how long it may be."""
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": metadata}
            for name, kind, metadata in (
                ("n", "long", {}),
                ("s", "string", {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
            )
        ]
        schema = deltalake.Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
        deltalake.DeltaTable.create(str(tmp_path), schema, partition_by=partition_by)
        sink = engine.DeltaSink(str(tmp_path), Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()]))
        writer = sink.committing_writer(CONTEXT)
        writer.write([(1, "äöü"), (2, None)])
        sink.commit_all(CONTEXT, writer.prepare(False).committables)
        assert deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 2
        writer.write([(3, "abc"), (4, "abcd")])
        with pytest.raises(TypeMismatchError, match=r"a string of 4 characters in 's', which .* at most 3"):
            writer.prepare(False)

    def test_a_row_that_does_not_fit_names_its_field(self, tmp_path):
        writer = engine.DeltaSink(str(tmp_path), ROW).committing_writer(CONTEXT)
        with pytest.raises(TypeMismatchError, match="'c'"):
            writer.write([(1, "one")])


class TestDurability:
    """A commit that reached the log, but not the disk, in the append of one file."""

    @pytest.fixture
    def disk(self, tmp_path):
        disk = MemoryDisk(str(tmp_path / "disk"))
        with disk.mounted():
            schema = pa.schema([("k", pa.int64())])
            UserTable.create(disk.folder, schema, [], {})
            pq.write_table(pa.table({"k": [1]}, schema), f"{disk.folder}/part.parquet")
            for path in ("part.parquet", ""):
                open_storage(disk.folder).sync(path)
            yield disk

    def append(self, disk):
        file = NewFile("part.parquet", os.path.getsize(f"{disk.folder}/part.parquet"), 0, 1, {})
        return UserTable(disk.folder).append({"writer": {1: [file]}})

    def rows_after_a_cut(self, disk, tmp_path):
        disk.cut(disk.now, False, str(tmp_path / "cut"))
        return pa.table(DeltaTable(str(tmp_path / "cut")).to_pyarrow_table()).to_pylist()

    @pytest.mark.parametrize(("path", "times"), [("00001.json", 1), ("_delta_log$", 4)])
    def test_a_sync_that_fails_is_told(self, disk, tmp_path, path, times):
        disk.fail("sync", errno.EIO, path=path, times=times)
        with pytest.raises(StorageError, match="could not sync"):
            self.append(disk)
        assert self.append(disk) == 0  # it is in the log since the first call
        assert self.rows_after_a_cut(disk, tmp_path) == [{"k": 1}]

    @pytest.mark.parametrize("error", [DeltaError("timed out"), CommitFailedError("the version is taken")])
    def test_a_commit_whose_answer_is_lost(self, disk, tmp_path, monkeypatch, error):
        commit = DeltaTable.create_write_transaction

        def lose(*arguments, **more):
            commit(*arguments, **more)
            raise error

        monkeypatch.setattr(DeltaTable, "create_write_transaction", lose)
        assert self.append(disk) == 1
        assert self.rows_after_a_cut(disk, tmp_path) == [{"k": 1}]

    def test_a_table_that_is_made_and_not_durable_is_told(self, tmp_path):
        disk = MemoryDisk(str(tmp_path / "disk"))
        disk.fail("sync", errno.EIO, path="_delta_log$", times=4)
        with disk.mounted(), pytest.raises(ConnectorError, match="could not make the Delta table"):
            UserTable.create(disk.folder, pa.schema([("k", pa.int64())]), [], {})

    def test_object_stores_are_not_asked(self, disk, monkeypatch):
        monkeypatch.setattr(
            LocalDisk, "exists", lambda self, path: path == "part.parquet" or pytest.fail(path)
        )
        table = UserTable(disk.folder)
        table.storage.local = None
        file = NewFile("part.parquet", os.path.getsize(f"{disk.folder}/part.parquet"), 0, 1, {})
        before = disk.now
        assert table.append({"writer": {1: [file]}}) == 1
        assert disk.now == before


def _file(one):
    return one["path"], one["size"], one["time_ms"], one["rows"], one["partition"]


class TestFaults:
    def graph(self, path, parallelism=2, elements=ELEMENTS):
        build = GraphBuilder(parallelism=parallelism)
        keyed = build.key_by(
            build.source(elements, uid="source"), lambda element: element[0], key_type=Types.LONG()
        )
        counts = build.process(keyed, Count(), uid="count")
        build.add(NodeKind.SINK, "sink", counts, function=engine.DeltaSink(str(path), ROW), uid="sink")
        return build.graph()

    def run_all(self, job, path, parallelism=lambda driver: 2):
        """Until the job has ended, and once more without elements: the last commit may be up to the next run."""
        job.run(lambda driver: self.graph(path, parallelism(driver)))
        job.progress.waiting.clear()
        job.run_driver(self.graph(path, elements=[]))

    @pytest.mark.parametrize("fault", list(Fault))
    def test_every_fault_alone(self, tmp_path, fault):
        script = Script(sizes=(6,), failures=tuple(Failure(2, fault, stage, 0) for stage in (0, 1)))
        self.run_all(TestJob(tmp_path / "log", script), tmp_path / "t")
        assert table_rows(tmp_path / "t") == EXPECTED

    def test_random_faults_leave_each_row_once(self, tmp_path):
        seed = chosen_seed()
        chance = random.Random(seed)
        for number in range(8):
            failures = tuple(
                Failure(
                    chance.randint(1, 10),
                    chance.choice(list(Fault)),
                    chance.randint(0, 1),
                    chance.randint(0, 1),
                )
                for _ in range(chance.randint(1, 5))
            )
            barriers = (*(chance.random() < 0.7 for _ in range(3)), True)
            parallelisms = [chance.randint(1, 3) for _ in range(50)]
            script = Script((chance.randint(3, 8), chance.randint(3, 8)), barriers, failures)
            settings = chance.choice([{}, {"tolerable_failures": 5}])
            path = tmp_path / f"t{number}"
            self.run_all(
                TestJob(tmp_path / f"log{number}", script, **settings), path, parallelisms.__getitem__
            )
            assert table_rows(path) == EXPECTED, number

    @pytest.mark.parametrize("restore", ["auto", "none"])
    def test_a_job_that_runs_again_after_its_table_was_deleted_makes_it_anew(self, tmp_path, restore):
        """It had finished, and began anew: it looked for the files of its last commit, and restarted without an end."""
        job = TestJob(tmp_path / "log")
        job.run(self.graph(tmp_path / "t"))
        shutil.rmtree(tmp_path / "t")
        job.run_driver(self.graph(tmp_path / "t"), restore=restore)
        assert table_rows(tmp_path / "t") == EXPECTED

    def test_without_checkpoints_rows_come_at_the_end(self, tmp_path):
        TestJob(tmp_path / "log", checkpoint_interval_ms=None).run(self.graph(tmp_path / "t"))
        assert table_rows(tmp_path / "t") == EXPECTED


@pytest.fixture
def table(tmp_path):
    """Versions 0 to 2, each of two files by partition."""
    path = tmp_path / "source"
    for version in range(3):
        rows = [{"k": version * 10 + n, "p": f"p{n % 2}"} for n in range(7)]
        write_version(path, rows, partition_by=["p"])
    return path


def keys(*versions):
    return sorted((version * 10 + n, f"p{n % 2}") for version in versions for n in range(7))


class TestSource:
    def test_the_source_reads_the_same_from_every_position(self, table):
        given = check_source(engine.DeltaSource(str(table)), parallelism=3)
        assert pairs(given) == keys(0, 1, 2)
        given = check_source(engine.DeltaSource(str(table), changes_from=1), parallelism=1)
        assert [row.k // 10 for row in given] == [1] * 7 + [2] * 7, "in the order of versions"

    def test_versions_bound_what_is_read(self, table):
        def build(set_up=lambda builder: builder):
            return set_up(DeltaSource.for_table(str(table))).build()._source

        assert pairs(read_all(build())) == keys(0, 1, 2)
        assert pairs(read_all(build(lambda b: b.version_as_of(1)))) == keys(0, 1)
        assert pairs(read_all(build(lambda b: b.version_as_of(0).ending_version(1)))) == keys(0, 1)
        assert pairs(read_all(build(lambda b: b.starting_version(1).ending_version(1)))) == keys(1)
        assert all(build().bounded for _ in range(2))
        with pytest.raises(ConfigurationError, match="up to 2, not 3"):
            build(lambda b: b.version_as_of(3))
        with pytest.raises(ConfigurationError, match="not both"):
            build(lambda b: b.version_as_of(1).starting_version(1))
        with pytest.raises(ConfigurationError, match="not a Delta table"):
            DeltaSource.for_table(str(table / "p=p0")).build()

    def test_a_version_stays_what_it_was(self, table):
        source = engine.DeltaSource(str(table))
        write_version(table, [{"k": 999, "p": "p0"}], partition_by=["p"])
        deltalake.DeltaTable(str(table)).delete("k < 10")
        assert pairs(read_all(source)) == keys(0, 1, 2)

    def test_a_table_that_was_made_again_is_another(self, table):
        source = engine.DeltaSource(str(table), version=1, follow=True)
        (split,) = source.splits(1)
        reader = source.reader(split)
        position = reader.read(split.start, 100).next
        reader.close()
        shutil.rmtree(table)
        for version in range(4):
            write_version(table, [{"k": 100 + version, "p": "p0"}], partition_by=["p"])
        with pytest.raises(
            ConnectorError, match="another than the one that was read: it was deleted and made again"
        ):
            source.reader(split).read(split.start, 100)
        again = engine.DeltaSource(str(table), version=1, follow=True)
        with pytest.raises(ConnectorError, match="another than the one that was read"):
            again.reader(Split(split.id, None)).read(json.loads(json.dumps(position)), 100)
        given = read_all(engine.DeltaSource(str(table)))
        assert sorted(row.k for row in given) == [100, 101, 102, 103]

    def test_a_table_of_an_older_copy_is_not_waited_for(self, table, tmp_path):
        older = tmp_path / "older"
        shutil.copytree(table, older)
        for version in (3, 4):
            write_version(table, [{"k": version, "p": "p0"}], partition_by=["p"])
        source = engine.DeltaSource(str(table), follow=True)
        (split,) = source.splits(1)
        reader, position = source.reader(split), split.start
        while (found := reader.read(position, 100)).values:
            position = found.next
        assert reader.read(position, 100).values == [], "nothing is new, and nothing is wrong"
        shutil.rmtree(table)
        shutil.copytree(older, table)
        said = "has versions up to 2, and was read up to 4: it was put back from an older copy"
        for each in (reader, engine.DeltaSource(str(table), follow=True).reader(Split(split.id, None))):
            with pytest.raises(ConnectorError, match=said):
                each.read(position, 100)
            each.close()

    def test_versions_that_are_still_to_come_are_waited_for(self, table):
        source = engine.DeltaSource(str(table), changes_from=7, follow=True)
        (split,) = source.splits(1)
        assert source.reader(split).read(split.start, 100).values == []

    def test_files_that_are_gone(self, table):
        source = engine.DeltaSource(str(table))
        for file in Path(table).rglob("*.parquet"):
            file.unlink()
        with pytest.raises((ConnectorError, OSError), match="parquet"):
            read_all(source)

    def test_a_followed_table_gives_new_versions_as_they_come(self, table):
        source = DeltaSource.for_table(str(table)).version_as_of(1).monitor_continuously().build()._source
        assert not source.bounded
        (split,) = source.splits(1)
        reader, position, found = source.reader(split), split.start, []

        def read():
            nonlocal position
            while True:
                values, position, finished, *_ = reader.read(position, 4)
                assert not finished
                if not values:
                    return
                found.extend(values)

        read()
        assert pairs(found) == keys(0, 1, 2)
        write_version(table, [{"k": 100, "p": None}], partition_by=["p"])
        deltalake.DeltaTable(str(table)).optimize.compact()  # changes no rows
        write_version(table, [{"k": 101, "p": "x y%/ü"}], partition_by=["p"])
        read()
        assert [tuple(row._values) for row in found[21:]] == [(100, None), (101, "x y%/ü")]
        newest = pairs(row for row in read_all(engine.DeltaSource(str(table))) if row.k != 100)
        assert newest == [*keys(0, 1, 2), (101, "x y%/ü")]
        deltalake.DeltaTable(str(table)).delete("k = 101")
        with pytest.raises(ConnectorError, match="change data feed"):
            read()
        reader.close()

    @pytest.mark.parametrize("parallelism", [1, 2])
    @pytest.mark.parametrize("taken", range(6))
    @pytest.mark.parametrize("follow", [True, False])
    def test_a_program_that_runs_again_goes_on_with_the_version_it_began_with(
        self, tmp_path, follow, taken, parallelism
    ):
        """Its new run builds the source anew, from a table with newer versions: that read one as a whole again."""

        def write(*numbers):
            write_version(tmp_path / "t", [{"k": n} for n in numbers])

        def read(source, positions, reads):
            found = []
            for split in splits:
                with closing(source.reader(Split(split.id, None))) as reader:
                    for _ in range(reads):
                        values, position, finished, *_ = reader.read(positions[split.id], 1)
                        positions[split.id] = json.loads(json.dumps(position))
                        found += [row.k for row in values]
                        if finished:
                            break
            return found

        for numbers in ([1, 2], [3], [4, 5]):
            write(*numbers)
        source = engine.DeltaSource(str(tmp_path / "t"), follow=follow)
        splits = source.splits(parallelism)
        positions = {split.id: split.start for split in splits}
        found = read(source, positions, taken)
        write(6, 7)
        found += read(engine.DeltaSource(str(tmp_path / "t"), follow=follow), positions, 1 if follow else 0)
        write(8)
        found += read(engine.DeltaSource(str(tmp_path / "t"), follow=follow), positions, 20)
        assert sorted(found) == [1, 2, 3, 4, 5, 6, 7, 8][: 8 if follow else 5]

    def test_positions_of_earlier_versions_of_the_engine(self, table):
        position = {"version": 2, "file": 0, "row": 0}
        for source in (engine.DeltaSource(str(table)), engine.DeltaSource(str(table), changes_from=1)):
            with pytest.raises(ConnectorError, match=r"which version .* began with.*version_as_of"):
                source.reader(source.splits(1)[0]).read(position, 9)
        named = [{"version": 1, "follow": True}, {"version": 2}, {"changes_from": 1, "until": 2}]
        for given in named:
            source = engine.DeltaSource(str(table), **given)
            with closing(source.reader(source.splits(1)[0])) as reader:
                assert reader.read(position, 9).values

    def test_a_version_is_read_with_the_columns_that_it_had(self, tmp_path):
        """They were all None."""
        path = str(tmp_path / "t")
        write_version(path, [{"a": 1, "b": "x"}])
        deltalake.write_deltalake(path, pa.table({"c": [2]}), mode="overwrite", schema_mode="overwrite")
        earlier = engine.DeltaSource(path, version=0)
        assert read_all(earlier) == [Row(a=1, b="x")]
        assert earlier.output_type == Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
        assert read_all(engine.DeltaSource(path)) == [Row(c=2)]
        for given in ({"version": 0, "until": 1}, {"changes_from": 0, "until": 0}):
            with pytest.raises(
                ConnectorError, match=r"version 0 .* has the columns a, b, .*version_as_of\(0\)"
            ):
                read_all(engine.DeltaSource(path, **given))

    def test_a_followed_table_that_gets_other_columns(self, tmp_path):
        """What was in them was lost, or all columns were None."""

        def grow(path):
            table = pa.table({"a": [2], "s": [{"x": 1, "y": 2}]})
            deltalake.write_deltalake(path, table, mode="append", schema_mode="merge")

        def add(path):
            table = pa.table({"a": [2], "s": [{"x": 1}], "b": ["new"]})
            deltalake.write_deltalake(path, table, mode="append", schema_mode="merge")

        def change(path, **metadata):
            log = Path(path, "_delta_log")
            first = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
            (found,) = [action for action in first if "metaData" in action]
            (log / f"{1:020}.json").write_text(json.dumps({"metaData": found["metaData"] | metadata}))

        changes = {
            r"has the column s\.y,": grow,
            "has the column b,": add,
            "maps columns by name": lambda path: change(
                path, configuration={"delta.columnMapping.mode": "name"}
            ),
            r"is partitioned by \['a'\]": lambda path: change(path, partitionColumns=["a"]),
        }
        for number, (message, other) in enumerate(changes.items()):
            path = str(tmp_path / str(number))
            write_version(path, [{"a": 1, "s": {"x": 0}}])
            source = engine.DeltaSource(path, follow=True)
            (split,) = source.splits(1)
            with closing(source.reader(split)) as reader:
                first = reader.read(split.start, 9)
                assert first.values == [Row(a=1, s=Row(x=0))]
                other(path)
                with pytest.raises((ConnectorError, ConfigurationError), match=f"version 1 .*{message}"):
                    reader.read(first.next, 9)
            if other is add:  # the program runs again
                with closing(engine.DeltaSource(path, follow=True).reader(split)) as reader:
                    assert reader.read(first.next, 9).values == [Row(a=2, s=Row(x=1), b="new")]

    def test_a_removed_file_whose_partition_is_not_told(self, tmp_path):
        write_version(
            tmp_path,
            [{"p": "x", "v": 1}],
            partition_by=["p"],
            configuration={"delta.enableChangeDataFeed": "true"},
        )
        deltalake.DeltaTable(str(tmp_path)).delete("p = 'x'")
        commit = tmp_path / "_delta_log" / f"{1:020}.json"
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            action.get("remove", {}).pop("partitionValues", None)
        commit.write_text("\n".join(map(json.dumps, actions)))
        source = engine.DeltaSource(str(tmp_path), changes_from=1, until=1, change_data=True)
        (split,) = source.splits(1)
        with (
            closing(source.reader(split)) as reader,
            pytest.raises(ConnectorError, match="not say which p a file has"),
        ):
            reader.read(split.start, 9)

    def test_change_data_tells_inserts_updates_and_deletes(self, tmp_path):
        path = tmp_path / "t"
        write_version(
            path, [{"k": n, "c": n} for n in range(4)], configuration={"delta.enableChangeDataFeed": "true"}
        )
        table = deltalake.DeltaTable(str(path))
        table.update(updates={"c": "c + 100"}, predicate="k = 1")
        table.delete("k = 2")
        write_version(path, [{"k": 9, "c": 9}])
        source = (
            DeltaSource.for_table(str(path))
            .version_as_of(0)
            .ending_version(3)
            .change_data_feed()
            .build()
            ._source
        )
        assert not source.parallel, "or changes would overtake each other"
        changes = read_all(source, parallelism=1)
        assert [row["_commit_version"] for row in changes] == [0] * 4 + [1] * 2 + [2, 3]
        found = Counter(
            (row["_commit_version"], row["_change_type"], row.k, row.c, row.get_row_kind()) for row in changes
        )
        assert found == Counter(
            [
                *((0, "insert", n, n, RowKind.INSERT) for n in range(4)),
                (1, "update_preimage", 1, 1, RowKind.UPDATE_BEFORE),
                (1, "update_postimage", 1, 101, RowKind.UPDATE_AFTER),
                (2, "delete", 2, 2, RowKind.DELETE),
                (3, "insert", 9, 9, RowKind.INSERT),
            ]
        )
        times = {row["_commit_version"]: row["_commit_timestamp"] for row in changes}
        assert times[0] is None
        assert times[1].to_epoch_milli() == table.history()[-2]["timestamp"]
        assert check_source(source, parallelism=2)
        write_version(tmp_path / "plain", [{"k": 1}])
        with pytest.raises(ConfigurationError, match="enableChangeDataFeed"):
            DeltaSource.for_table(str(tmp_path / "plain")).change_data_feed().build()

    def test_a_job_reads_each_row_once_and_rewinds_exactly(self, table, tmp_path):
        def graph():
            build = GraphBuilder(parallelism=2)
            build.collect(build.source(engine.DeltaSource(str(table), version=0, until=2), uid="source"))
            return build.graph()

        script = Script(sizes=(2,), failures=(Failure(2, Fault.WORKER), Failure(3, Fault.PARTS)))
        job = TestJob(tmp_path / "log", script)
        job.run(graph())
        assert pairs(job.output) == keys(0, 1, 2)
        old = job.commits[1]
        read = sum(job.committed_epochs[: job.epochs_at[old.id]])
        again = TestJob(tmp_path / "log", Script(sizes=(3,)))
        again.run(graph(), restore=str(old.id))
        assert len(again.output) == 21 - read
        first = Counter(pairs(job.output)) - Counter(pairs(again.output))
        assert sum(first.values()) == read, "the rewound job reads the rest of the same rows"


class SparkBatch:
    """Rows that are written as Spark writes them, a file for each list of numbers; after each, something else happens."""

    def __init__(self, *files, meanwhile=lambda: None):
        self.write, self.files, self.meanwhile = self, files, meanwhile

    def parquet(self, path):
        folder = Path(path)
        folder.mkdir()
        for index, numbers in enumerate(self.files):
            table = pa.table({"n": numbers, "at": numbers}, TestStaged.SCHEMA)
            pq.write_table(table, folder / f"part-{index:05d}.parquet")
            self.meanwhile()
        (folder / "_SUCCESS").touch()


class TestStaged:
    """What Spark staged, without Spark."""

    SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])

    def stage(self, folder, version, *files, finished=True):
        place = folder / f"rows of {version}"
        place.mkdir(parents=True)
        for index, numbers in enumerate(files):
            table = pa.table({"n": numbers, "at": [n * 1000 for n in numbers]}, self.SCHEMA)
            pq.write_table(table, place / f"part-{index:05d}.parquet")
        if finished:
            self.publish(folder, version)

    def publish(self, folder, version):
        (folder / name_of(version)).write_text(f"rows of {version}")

    def source(self, folder, parts=2):
        row_type = engine.row_type_of(self.SCHEMA)
        versions = StagedVersions(str(folder), only=False)

        class Versions(Source):
            bounded, parallel, output_type = True, True, row_type

            def splits(self, parallelism):
                return splits_of(parallelism, 0)

            def reader(self, split):
                return engine.VersionsReader(versions, Columns(row_type, TestStaged.SCHEMA, ()), split.id)

        return Versions()

    def test_versions_come_when_they_are_whole(self, tmp_path):
        self.stage(tmp_path, 0, [1, 2], [3], [])
        self.stage(tmp_path, 1, [4, 5, 6], finished=False)
        source = self.source(tmp_path)
        (split,) = source.splits(1)
        reader, position, found = source.reader(split), split.start, []
        for _ in range(5):
            values, position, finished, *_ = reader.read(position, 10)
            found += [row.n for row in values]
            assert not finished
        assert found == [1, 2, 3]
        self.publish(tmp_path, 1)
        values, position, finished, *_ = reader.read(position, 2)
        assert [(row.n, row.at) for row in values] == [(4, Instant(0, 4_000_000)), (5, Instant(0, 5_000_000))]
        (tmp_path / "_ended").write_text("2")
        values, position, finished, *_ = reader.read(position, 2)
        assert ([row.n for row in values], finished) == ([6], True)
        assert reader.read(position, 2).finished
        reader.close()

    def test_a_write_that_was_given_up_changes_nothing(self, tmp_path):
        """Spark runs a micro-batch again while its first write still goes on: the first to be published counts."""
        versions = StagedVersions(str(tmp_path), only=False)
        again = SparkBatch([1, 3], [2, 4])
        given_up = SparkBatch([1, 3], [2, 4], meanwhile=lambda: versions.stage(again, 0))
        versions.stage(given_up, 0)
        files = versions.files(0)
        found = [n for file in files for n in pq.read_table(tmp_path / file.path)["n"].to_pylist()]
        assert sorted(found) == [1, 2, 3, 4]
        folders = {file.path.partition("/")[0] for file in files}
        assert {path.name for path in tmp_path.iterdir()} == {name_of(0), *folders}, (
            "the other's rows are gone"
        )
        versions.stage(SparkBatch([5], []), 0)
        assert versions.files(0) == files
        assert versions.files(1) is None

    @pytest.mark.parametrize("written", [False, True])
    def test_a_version_whose_publication_fails(self, tmp_path, monkeypatch, written):
        """Its name may have been written: then its rows are there, and else the micro-batch is staged again."""
        versions = StagedVersions(str(tmp_path), only=False)
        inner = LocalDisk.put_if_absent

        def failing(storage, path, data):
            if written:
                inner(storage, path, data)
            raise StorageError("the disk is gone")

        monkeypatch.setattr(LocalDisk, "put_if_absent", failing)
        with pytest.raises(StorageError, match="the disk is gone"):
            versions.stage(SparkBatch([1]), 0)
        monkeypatch.undo()
        versions.stage(SparkBatch([1]), 0)
        (file,) = versions.files(0)
        assert pq.read_table(tmp_path / file.path)["n"].to_pylist() == [1]

    def test_a_file_that_is_gone_is_missed(self, tmp_path):
        """The folder was listed again: the rows of a file that was not there were left out."""
        versions = StagedVersions(str(tmp_path), only=False)
        versions.stage(SparkBatch([0], [1], [2]), 0)
        assert len(versions.files(0)) == 3
        (tmp_path / versions.files(0)[1].path).unlink()
        reader = self.source(tmp_path).reader(Split("0 of 1", None))
        first = reader.read({"version": 0, "file": 0, "row": 0}, 10)
        assert [row.n for row in first.values] == [0]
        with pytest.raises(StorageError, match=r"part-00001\.parquet"):
            reader.read(first.next, 10)

    def test_a_write_that_fails_leaves_nothing(self, tmp_path):
        class Broken:
            def __init__(self):
                self.write = self

            def parquet(self, path):
                Path(path).mkdir()
                raise OSError("full")

        with pytest.raises(OSError, match="full"):
            StagedVersions(str(tmp_path), only=False).stage(Broken(), 0)
        assert list(tmp_path.iterdir()) == []

    def test_staged_rows_are_read_again_from_every_position(self, tmp_path):
        for version in range(4):
            self.stage(tmp_path, version, *([version * 100 + n * 10 + m for m in range(n)] for n in range(4)))
        (tmp_path / "_ended").write_text("4")

        class Shipped(type(self.source(tmp_path))):
            def __reduce__(self, folder=str(tmp_path)):
                return TestStaged().source, (folder,)

        for parallelism in (1, 2, 5):
            rows = check_source(Shipped(), parallelism=parallelism)
            assert sorted(row.n for row in rows) == sorted(
                version * 100 + n * 10 + m for version in range(4) for n in range(4) for m in range(n)
            )


@pytest.mark.parametrize(("left", "said"), [(0, "is empty"), (40, "is not JSON")])
def test_a_damaged_commit_of_a_table_that_is_read_is_named(tmp_path: Path, left: int, said: str) -> None:
    """An emptied one would be one that added nothing."""
    table = pa.table({"id": [1]})
    for _ in range(2):
        deltalake.write_deltalake(str(tmp_path), table, mode="append")
    layout = Layout(0, frozenset({("id",)}), frozenset(), "none")
    log = CommitLog(str(tmp_path), False, layout)
    assert len(log.files_of(1, follows=True) or ()) == 1
    path = tmp_path / "_delta_log" / f"{1:020d}.json"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ConnectorError, match=f"commit 1 .* is damaged: {path} {said}"):
        log.files_of(1, follows=True)


def test_a_commit_that_is_missing_between_others_is_not_waited_for(tmp_path: Path) -> None:
    for _ in range(3):
        deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1]}), mode="append")
    log = CommitLog(str(tmp_path), False, Layout(0, frozenset({("id",)}), frozenset(), "none"))
    assert log.files_of(3, follows=True) is None  # which may come
    path = tmp_path / "_delta_log" / f"{1:020d}.json"
    path.unlink()
    with pytest.raises(
        ConnectorError, match=f"commit 1 of the Delta table .* is missing: {path} is not there"
    ):
        log.files_of(1, follows=True)


def test_a_sink_or_source_made_with_a_path_alone_names_its_builders() -> None:
    """No word of Java, which a path is not."""
    for made, words in (
        (
            DeltaSink,
            r"DeltaSink\('out'\): a DeltaSink is made by DeltaSink.for_row_data\(...\), then build\(\)",
        ),
        (DeltaSource, r"made by DeltaSource.for_table\(...\), then build\(\)"),
        (FileSink, r"made by FileSink.for_row_format\(...\) or FileSink.for_bulk_format\(...\), then"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            made("out")
