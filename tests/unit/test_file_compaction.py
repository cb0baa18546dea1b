"""Files that are compacted: when they appear, as what, and what happens to those that wait."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import shutil
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from unittest import mock

import pytest
from support.graphs import sink_job
from support.jobs import TestJob
from support.part_files import bucket_of, commit_at_once, context, finished, hidden, lines, sink_to
from support.script import DriverKilled, Failure, Fault, Script

from api.common import Encoder, Types
from api.datastream.connectors.file_system import (
    BulkWriterFactory,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
    StreamFormat,
)
from api.datastream.formats.parquet import ParquetBulkWriters
from changelog_engine.connectors import NumberSequenceSource, RestoredSink, files
from changelog_engine.connectors.files import compaction as compaction_module
from changelog_engine.connectors.files.compaction import PREFIX
from changelog_engine.connectors.files.stores import Store
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    RestoreError,
    StorageError,
    TypeMismatchError,
)
from changelog_engine.storage import local_disk
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.testing.conformance import check_committing_sink, check_source
from changelog_engine.types import Instant, Row

# Writers of processes that are lost are never closed.
pytestmark = pytest.mark.filterwarnings("ignore:.*inprogress:pytest.PytestUnraisableExceptionWarning")

CONCAT = files.ConcatCompactor()


def compaction(size=None, checkpoints=None, threads=1, compactor=CONCAT):
    return files.Compaction(files.CompactStrategy(size, checkpoints, threads), compactor)


def compacting(out, size=None, checkpoints=None, **more):
    return sink_to(out, compaction=compaction(size, checkpoints), **more)


def checkpoint(writer, *elements, commits=True):
    """Write elements and make a checkpoint; returns what it keeps of subtask 0."""
    if elements:
        writer.write(list(elements))
    prepared = writer.prepare(False)
    if commits:
        writer.commit(prepared.committables)
    return RestoredSink(0, type(prepared)(*json.loads(json.dumps(list(prepared)))))


def texts(out):
    return sorted(path.read_text() for path in finished(out))


class TestWhenFilesAppear:
    def test_files_of_so_many_checkpoints_become_one(self, tmp_path):
        writer = compacting(tmp_path, checkpoints=3).committing_writer(context())
        seen = []
        for number in range(7):
            checkpoint(writer, str(number))
            seen.append(texts(tmp_path))
        first, second = "0\n1\n2\n", "3\n4\n5\n"
        assert seen == [[], [], [first], [first], [first], [first, second], [first, second]]
        assert all(path.name.startswith("compacted-part-") for path in finished(tmp_path))
        assert len(hidden(tmp_path)) == 1, "the sources are gone"
        writer.commit(writer.prepare(True).committables)
        assert texts(tmp_path) == [first, second, "6\n"]
        assert all(path.name.startswith("compacted-part-") for path in finished(tmp_path))
        assert hidden(tmp_path) == []

    def test_checkpoints_without_elements_count(self, tmp_path):
        writer = compacting(tmp_path, checkpoints=3).committing_writer(context())
        states = [checkpoint(writer, "a").prepared.state, checkpoint(writer).prepared.state]
        assert states[0] != states[1], "the engine makes no checkpoint of an epoch that changed nothing"
        checkpoint(writer)
        assert texts(tmp_path) == ["a\n"]

    def test_files_become_one_when_they_are_large_enough(self, tmp_path):
        writer = compacting(tmp_path, size=6).committing_writer(context())
        for number in range(7):
            checkpoint(writer, str(number))
        assert texts(tmp_path) == ["0\n1\n2\n", "3\n4\n5\n"]

    def test_files_that_end_within_an_epoch(self, tmp_path):
        """The size counts file by file, and the rest begins to wait anew."""
        writer = compacting(tmp_path, 10, 2, rolling=files.Rolling(3)).committing_writer(context())
        checkpoint(writer, *"abcdefg")  # files of 4 bytes
        assert texts(tmp_path) == ["a\nb\nc\nd\ne\nf\n"]
        checkpoint(writer, "h")
        assert texts(tmp_path) == ["a\nb\nc\nd\ne\nf\n", "g\nh\n"]

    def test_files_of_different_buckets_stay_apart(self, tmp_path):
        sink = compacting(tmp_path, checkpoints=2, buckets=files.ElementBuckets(bucket_of))
        writer = sink.committing_writer(context())
        checkpoint(writer, "4", "1")
        checkpoint(writer, "8")
        found = {
            path.relative_to(tmp_path).parent.as_posix(): path.read_text() for path in finished(tmp_path)
        }
        assert found == {".": "4\n8\n", "b1/deep": "1\n"}

    def test_so_many_files_are_enough(self, tmp_path):
        with mock.patch.object(compaction_module, "MAX_HELD_FILES", 3):
            writer = compacting(tmp_path, size=1_000_000).committing_writer(context())
            for number in range(4):
                checkpoint(writer, str(number))
        assert texts(tmp_path) == ["0\n1\n2\n"]

    @pytest.mark.parametrize("threads", [1, 3])
    def test_several_threads_compact_the_same_as_one(self, tmp_path, threads):
        sink = sink_to(
            tmp_path, buckets=files.ElementBuckets(str), compaction=compaction(checkpoints=2, threads=threads)
        )
        writer = sink.committing_writer(context())
        for _ in range(2):
            checkpoint(writer, *"abcdef")
        assert texts(tmp_path) == [f"{letter}\n{letter}\n" for letter in "abcdef"]

    def test_the_identical_compactor_keeps_single_files(self, tmp_path):
        identical = compaction(checkpoints=2, compactor=files.IdenticalCompactor())
        writer = sink_to(tmp_path, compaction=identical).committing_writer(context())
        checkpoint(writer, "a")
        assert texts(tmp_path) == []
        checkpoint(writer, "b")
        assert texts(tmp_path) == ["a\n", "b\n"]
        assert all(path.name.startswith("compacted-part-") for path in finished(tmp_path))

    def test_a_delimiter_stands_between_files(self, tmp_path):
        between = compaction(checkpoints=3, compactor=files.ConcatCompactor(b"--\n"))
        writer = sink_to(tmp_path, compaction=between).committing_writer(context())
        for letter in "abc":
            checkpoint(writer, letter)
        assert texts(tmp_path) == ["a\n--\nb\n--\nc\n"]


@pytest.mark.usefixtures("lost_writers")
class TestRestore:
    """Step by step; tests/properties/test_compacted_files.py has everything that can happen, at random."""

    def restored(self, sink, kept, attempt=2, branches=(), **more):
        here = context(attempt=attempt, restored=[kept] if kept else [], **more)
        return sink.committing_writer(here._replace(branches=frozenset(branches)))

    def test_files_wait_on(self, tmp_path):
        sink = compacting(tmp_path, checkpoints=3)
        writer = sink.committing_writer(context())
        checkpoint(writer, "a")
        kept = checkpoint(writer, "b")
        checkpoint(writer, "lost", commits=False)
        writer = self.restored(sink, kept)
        assert len(hidden(tmp_path)) == 2
        checkpoint(writer, "c")
        assert texts(tmp_path) == ["a\nb\nc\n"]
        assert hidden(tmp_path) == []

    @pytest.mark.parametrize("parallelisms", [(3, 2, 4), (1, 4, 3), (4, 1, 2)])
    def test_files_of_a_writer_that_has_another_number_now(self, tmp_path, parallelisms):
        """The names of those that wait say whose they were, and not who knows them."""
        sink = compacting(tmp_path, checkpoints=100)
        kept = []
        for attempt, parallelism in enumerate(parallelisms, 1):
            writers = [
                sink.committing_writer(
                    context(subtask, parallelism, attempt)._replace(
                        restored=[each for each in kept if each.subtask % parallelism == subtask],
                        beside=[each for each in kept if each.subtask % parallelism != subtask],
                    )
                )
                for subtask in range(parallelism)
            ]
            kept = []
            for subtask, writer in enumerate(writers):
                writer.write([f"{attempt}/{subtask}"])
                kept.append(RestoredSink(subtask, writer.prepare(attempt == len(parallelisms))))
        for writer, each in zip(writers, kept, strict=True):
            writer.commit(each.prepared.committables)
        assert lines(tmp_path) == Counter(
            f"{attempt}/{subtask}"
            for attempt, count in enumerate(parallelisms, 1)
            for subtask in range(count)
        )
        assert hidden(tmp_path) == []

    def test_a_file_that_waits_and_is_gone_is_an_error(self, tmp_path):
        sink = compacting(tmp_path, checkpoints=3)
        kept = checkpoint(sink.committing_writer(context()), "a")
        (waiting,) = hidden(tmp_path)
        waiting.unlink()
        with pytest.raises(StorageError, match=rf"{waiting.name} is gone, which the checkpoint holds"):
            self.restored(sink, kept)

    def test_a_file_that_waits_and_was_cut_is_an_error(self, tmp_path):
        writer = compacting(tmp_path, checkpoints=2).committing_writer(context())
        checkpoint(writer, "ab")
        (waiting,) = hidden(tmp_path)
        waiting.write_text("a")
        writer.write(["c"])
        with pytest.raises(StorageError, match=rf"{waiting.name} has 1 bytes, and the checkpoint counts 3"):
            writer.prepare(False)
        writer.close()
        assert hidden(tmp_path) == [waiting], "what no checkpoint knows is taken back"

    @pytest.mark.parametrize("compacts", [True, False])
    @pytest.mark.parametrize("fork", [False, True])
    def test_a_file_that_waits_and_was_damaged_is_an_error(self, tmp_path, compacts, fork):
        """Its bytes were shown as they were, as part of a file whose sources were removed."""
        sink = compacting(tmp_path, checkpoints=2)
        kept = checkpoint(sink.committing_writer(context(folder="f")), "ab")
        (waiting,) = hidden(tmp_path)
        waiting.write_text("aB\n")
        then = sink if compacts else sink_to(tmp_path)
        with pytest.raises(RestoreError, match=rf"{waiting.name} is not what was written: its 3 bytes"):
            self.restored(then, kept, folder="g" if fork else "f")
        waiting.write_text("ab\n")
        writer = self.restored(then, kept, folder="g" if fork else "f", attempt=3)
        checkpoint(writer, "c")
        writer.commit(writer.prepare(True).committables)
        assert lines(tmp_path) == Counter(["ab", "c"])

    @pytest.mark.parametrize("restarts", [False, True])
    def test_a_file_that_is_damaged_while_it_waits_is_in_no_compacted_one(self, tmp_path, restarts):
        sink = compacting(tmp_path, checkpoints=3)
        writer = sink.committing_writer(context())
        kept = checkpoint(writer, "ab")
        if restarts:
            writer = self.restored(sink, kept)
        checkpoint(writer, "c")
        waiting = next(path for path in hidden(tmp_path) if path.read_text() == "ab\n")
        waiting.write_text("aB\n")
        writer.write(["d"])
        with pytest.raises(RestoreError, match=rf"{waiting.name} is not what was written: its 3 bytes"):
            writer.prepare(False)
        writer.close()
        assert finished(tmp_path) == []

    def test_a_compacted_file_that_was_damaged_before_it_was_shown_is_an_error(self, tmp_path):
        sink = compacting(tmp_path, checkpoints=2)
        writer = sink.committing_writer(context())
        checkpoint(writer, "a")
        newer = checkpoint(writer, "b", commits=False)
        (made,) = [path for path in hidden(tmp_path) if PREFIX in path.name]
        made.write_text("a\nB\n")
        with pytest.raises(RestoreError, match=rf"{made.name} is not what was written: its 4 bytes"):
            self.restored(sink, newer)
        assert {"a\n", "b\n"} <= {path.read_text() for path in hidden(tmp_path)}
        assert finished(tmp_path) == []
        made.write_text("a\nb\n")
        self.restored(sink, newer, attempt=3)
        assert texts(tmp_path) == ["a\nb\n"]

    def test_an_older_checkpoint_whose_files_were_shown(self, tmp_path):
        sink = compacting(tmp_path, checkpoints=2)
        writer = sink.committing_writer(context())
        older = checkpoint(writer, "a")
        checkpoint(writer, "b")
        assert texts(tmp_path) == ["a\nb\n"]
        writer = self.restored(sink, older, branches=[1])
        checkpoint(writer, "b again")
        checkpoint(writer, "c")
        assert texts(tmp_path) == ["a\nb\n", "b again\nc\n"]

    @pytest.mark.parametrize("anew", [False, True])
    @pytest.mark.parametrize(("left", "said"), [(None, "is gone"), ("a\n", "has 2 bytes, .* counts 4")])
    def test_a_compacted_file_that_was_deleted_or_cut_before_it_was_shown_is_an_error(
        self, tmp_path, left, said, anew
    ):
        """Its sources were removed all the same, and a line in the log was all that was left of them."""
        sink = compacting(tmp_path, checkpoints=2)
        writer = sink.committing_writer(context())
        checkpoint(writer, "a")
        newer = checkpoint(writer, "b", commits=False)
        (made,) = [path for path in hidden(tmp_path) if PREFIX in path.name]
        if left is None:
            made.unlink()
        else:
            made.write_text(left)
        shown = (
            (lambda: self.restored(sink, newer))
            if anew
            else lambda: writer.commit(newer.prepared.committables)
        )
        with pytest.raises(RestoreError, match=f"which was to become .* {said}"):
            shown()
        assert {"a\n", "b\n"} <= {path.read_text() for path in hidden(tmp_path)}
        assert finished(tmp_path) == []

    def killed_before_the_removal(self, writer):
        """Two checkpoints, of which the second one's file has its name; the driver died before its sources were removed."""
        older = checkpoint(writer, "a")
        newer = checkpoint(writer, "b", commits=False)
        # An old marker, then a source.
        dies = mock.patch.object(Store, "remove", side_effect=[True, DriverKilled])
        with dies, pytest.raises(DriverKilled):
            writer.commit(newer.prepared.committables)
        return older, newer

    def test_an_older_checkpoint_after_a_crash_between_the_name_and_the_removal(self, tmp_path):
        sink = compacting(tmp_path, checkpoints=2)
        writer = sink.committing_writer(context())
        older, newer = self.killed_before_the_removal(writer)
        assert texts(tmp_path) == ["a\nb\n"]
        assert len(hidden(tmp_path)) == 3, "both sources and the marker"
        branch = self.restored(sink, older, branches=[1])
        branch.write(["c"])
        branch.commit(branch.prepare(True).committables)
        assert texts(tmp_path) == ["a\nb\n", "c\n"], "not a second time"
        self.restored(sink, newer, attempt=3, branches=[2])
        assert texts(tmp_path) == ["a\nb\n", "c\n"]
        assert hidden(tmp_path) == []

    @pytest.mark.parametrize("what", ["lstat", "scandir", "open"])
    def test_a_disk_that_fails_to_tell_what_is_there_shows_nothing_twice(self, tmp_path, monkeypatch, what):
        """The marker tells which files were shown in another one. What can't be looked at was taken for not there."""
        sink = compacting(tmp_path / "out", checkpoints=2)
        writer = sink.committing_writer(context())
        older, _ = self.killed_before_the_removal(writer)
        shutil.copytree(tmp_path / "out", tmp_path / "before")
        module = local_disk if what == "open" else os
        works, failing = getattr(module, what, open), iter(())

        def fails(path, *arguments, **more):
            if "/out" in str(path) and next(failing, False):
                raise OSError(errno.EIO, "Input/output error", path)
            return works(path, *arguments, **more)

        monkeypatch.setattr(module, what, fails, raising=False)
        monkeypatch.setattr("time.sleep", lambda _: None)
        told = 0
        for place in range(12):
            shutil.rmtree(tmp_path / "out")
            shutil.copytree(tmp_path / "before", tmp_path / "out")
            failing = iter([False] * place + [True] * 4)
            try:
                self.run_on(sink, older)
                failed = False
            except OSError:
                failed = True
            failing = iter(())
            if failed:
                told += 1
                self.run_on(sink, older)
            assert texts(tmp_path / "out") == ["a\nb\n", "c\n"], place
        assert told

    def run_on(self, sink, kept):
        branch = self.restored(sink, kept, branches=[1])
        branch.write(["c"])
        branch.commit(branch.prepare(True).committables)

    def test_an_older_checkpoint_after_a_crash_between_the_copy_and_the_removal(self, tmp_path):
        """As on an object store, where a file that is alone is copied to its name."""
        sink = compacting(tmp_path, checkpoints=2)
        writer = sink.committing_writer(context())
        older = checkpoint(writer, "a")
        (waiting,) = hidden(tmp_path)
        checkpoint(writer)
        shutil.copy(*finished(tmp_path), waiting)
        branch = self.restored(sink, older, branches=[1])
        branch.write(["b"])
        branch.commit(branch.prepare(True).committables)
        assert texts(tmp_path) == ["a\n", "b\n"]
        assert hidden(tmp_path) == []

    def test_two_branches_that_hold_the_same_file(self, tmp_path, caplog):
        """Whoever shows it first wins, and the other shows the rest of what it had prepared."""
        sink = compacting(tmp_path, checkpoints=2)
        writer = sink.committing_writer(context())
        older = checkpoint(writer, "a")
        newer = checkpoint(writer, "b", commits=False)
        branch = self.restored(sink, older, branches=[1])
        checkpoint(branch, "c")
        assert texts(tmp_path) == ["a\nc\n"]
        back = self.restored(sink, newer, attempt=3, branches=[2])
        assert texts(tmp_path) == ["a\nc\n", "b\n"]
        assert "are shown as they are: another branch" in caplog.text
        checkpoint(back, "d")
        checkpoint(back, "e")
        assert texts(tmp_path) == ["a\nc\n", "b\n", "d\ne\n"]
        assert hidden(tmp_path) == []

    def test_an_empty_start_leaves_what_can_be_restored(self, tmp_path):
        sink = compacting(tmp_path, checkpoints=3)
        kept = checkpoint(sink.committing_writer(context()), "a")
        other = self.restored(sink, None, branches=[1])
        other.commit(other.prepare(True).committables)
        back = self.restored(sink, kept, attempt=3, branches=[2])
        back.commit(back.prepare(True).committables)
        assert texts(tmp_path) == ["a\n"]

    def test_a_fork_holds_copies(self, tmp_path):
        """Both jobs show what waits: they are two."""
        sink = compacting(tmp_path, checkpoints=2)
        original = sink.committing_writer(context(folder="f"))
        kept = checkpoint(original, "a")
        fork = self.restored(sink, kept, attempt=1, folder="g")
        checkpoint(original, "b")
        assert texts(tmp_path) == ["a\nb\n"]
        checkpoint(fork, "c")
        assert texts(tmp_path) == ["a\nb\n", "a\nc\n"]
        assert hidden(tmp_path) == []

    def test_a_fork_whose_original_has_shown_what_waited(self, tmp_path, caplog):
        sink = compacting(tmp_path, checkpoints=2)
        original = sink.committing_writer(context(folder="f"))
        kept = checkpoint(original, "a")
        checkpoint(original, "b")
        fork = self.restored(sink, kept, attempt=1, folder="g")
        assert "is gone: another branch" in caplog.text
        fork.commit(fork.prepare(True).committables)
        assert texts(tmp_path) == ["a\nb\n"]

    def test_a_fork_that_dies_takes_nothing_away(self, tmp_path):
        sink = compacting(tmp_path, checkpoints=2)
        original = sink.committing_writer(context(folder="f"))
        kept = checkpoint(original, "a")
        before = hidden(tmp_path)
        self.restored(sink, kept, attempt=1, folder="g").close()
        assert hidden(tmp_path) == before

    def test_a_program_that_compacts_no_longer(self, tmp_path):
        kept = checkpoint(compacting(tmp_path, checkpoints=3).committing_writer(context()), "a")
        writer = self.restored(sink_to(tmp_path), kept)
        assert texts(tmp_path) == []
        checkpoint(writer)
        assert texts(tmp_path) == ["a\n"]
        assert hidden(tmp_path) == []

    def test_a_program_that_compacts_now(self, tmp_path):
        kept = checkpoint(sink_to(tmp_path).committing_writer(context()), "a")
        writer = self.restored(compacting(tmp_path, checkpoints=1), kept)
        checkpoint(writer, "b")
        assert texts(tmp_path) == ["a\n", "b\n"]

    def test_two_commit_the_same_at_once(self, tmp_path):
        """A commit that outlives its job, and the next run's: what was compacted is there once, and nobody fails."""
        sink = compacting(tmp_path, checkpoints=2)
        writer = sink.committing_writer(context())
        for round_ in range(20):
            checkpoint(writer, f"{round_} a")
            writer.write([f"{round_} b"])
            due = writer.prepare(False).committables
            assert [len(sources) for *_, sources in due] == [2]
            commit_at_once([writer, *[sink.committing_writer(context()) for _ in range(3)]], due)
        assert texts(tmp_path) == sorted(f"{round_} a\n{round_} b\n" for round_ in range(20))
        assert hidden(tmp_path) == []

    def test_a_compacting_sink_shows_each_element_once_whatever_crashes(self, tmp_path):
        check_committing_sink(
            compacting(tmp_path, checkpoints=1, rolling=files.Rolling(4)),
            lambda: list(lines(tmp_path).elements()),
            runs=10,
            seed=1,
        )


NUMBERS = 150
ALL = Counter(str(number) for number in range(1, NUMBERS + 1))


@pytest.mark.usefixtures("lost_writers")
class TestJobs:
    def job_into(self, sink, parallelism):
        return sink_job(sink, NumberSequenceSource(1, NUMBERS), parallelism)

    @pytest.mark.parametrize("seed", range(10))
    def test_every_line_is_there_once_whatever_dies(self, tmp_path, seed):
        """Failures at each of the engine's steps, and another parallelism after each."""
        faults = list(Fault)
        failures = tuple(
            Failure(2 + 3 * number, faults[(seed * 3 + number) % len(faults)], 0, number % 2)
            for number in range(4)
        )
        out = tmp_path / "out"
        job = TestJob(tmp_path / "log", Script((9,), (True, bool(seed % 3), True), failures))
        sink = compacting(out, [None, 40][seed % 2], 2 + seed % 4, rolling=files.Rolling(20))
        job.run(lambda driver: self.job_into(sink, 1 + (seed + driver) % 3))
        while lines(out) != ALL and job.progress.waiting:
            job.run_driver(self.job_into(sink, 2), restore="latest")
        assert lines(out) == ALL
        assert hidden(out) == []

    def test_the_end_of_a_bounded_job_compacts_the_rest(self, tmp_path):
        out = tmp_path / "out"
        job = TestJob(tmp_path / "log", Script((10,)))
        job.run(self.job_into(compacting(out, size=1_000_000), 1))
        assert len(job.commits) > 10
        (path,) = finished(out)
        assert path.name.startswith("compacted-part-")
        assert lines(out) == ALL

    def test_after_a_rewind_what_waited_comes_once(self, tmp_path):
        """What was visible stays; what is read again is written again, and what waited comes once."""
        out = tmp_path / "out"
        sink = compacting(out, checkpoints=3)
        job = TestJob(tmp_path / "log", Script((30,), (True,), (Failure(5, Fault.HANDED_OUT),)))
        with pytest.raises(DriverKilled):
            job.run_driver(self.job_into(sink, 1))
        job.run_driver(self.job_into(sink, 2), restore=str(job.commits[1].id), epoch_max_records=None)
        found = lines(out)
        assert all(found[str(number)] == 1 for number in range(1, 61)), "before the checkpoint"
        assert all(1 <= found[str(number)] <= 2 for number in range(61, NUMBERS + 1))

    def test_without_checkpoints(self, tmp_path):
        out = tmp_path / "out"
        script = Script((50,), failures=(Failure(2, Fault.WORKER),))
        job = TestJob(tmp_path / "log", script, checkpoint_interval_ms=None, changelog=False)
        job.run(self.job_into(compacting(out, size=1_000_000), 2))
        assert lines(out) == ALL
        assert hidden(out) == []


ROW = Types.ROW_NAMED(
    ["n", "text", "list", "map", "row", "time", "instant", "day", "price", "raw", "real"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.LIST(Types.STRING()),
        Types.MAP(Types.STRING(), Types.INT()),
        Types.ROW_NAMED(["x"], [Types.DOUBLE()]),
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.SQL_DATE(),
        Types.BIG_DEC(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.FLOAT(),
    ],
)
CSV = [files.CsvColumn("n", Types.LONG()), files.CsvColumn("text", Types.STRING())]
WITH_HEADER, PLAIN = files.CsvSchema(tuple(CSV), header=True), files.CsvSchema(tuple(CSV))
AVRO = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "one", "type": ["null", "string", {"type": "map", "values": "int"}]},
        ],
    }
)


def row(n):
    if n % 5 == 4:
        return Row(**(dict.fromkeys(ROW.get_field_names()) | {"n": n if n % 2 else None}))
    return Row(
        n=n,
        text='ü\n"',
        list=["a", None],
        map={"k": n},
        row=Row(x=math.pi),
        time=datetime(1969, 1, 1, 1, 2, 3, 456789),
        instant=Instant(-3, 123456789),
        day=date(1, 1, 1),
        price=Decimal("-1.000000000000000001"),
        raw=b"\x00\xff",
        real=0.5,
    )


def avro(n):
    return {"n": n, "at": datetime(2020, 1, 1, tzinfo=UTC), "one": [None, "s", {"k": n}][n % 3]}


FORMATS = [
    ("parquet", files.ColumnarFiles("parquet", files.arrow_schema(ROW)), files.ParquetRecords(ROW), row),
    ("orc", files.ColumnarFiles("orc", files.orc_schema(ROW)), files.OrcRecords(ROW), row),
    (
        "csv header",
        files.CsvFiles(WITH_HEADER),
        files.CsvRecords(WITH_HEADER),
        lambda n: Row(n=n, text='a\n"'),
    ),
    ("csv", files.CsvFiles(PLAIN), files.CsvRecords(PLAIN), lambda n: Row(n=n, text="n")),
    ("avro", files.AvroFiles(AVRO), files.AvroRecords(AVRO), avro),
    ("avro deflate", files.AvroFiles(AVRO, "deflate"), files.AvroRecords(AVRO), avro),
]


class TestFormats:
    @pytest.mark.parametrize(
        ("writes", "reads", "element"), [each[1:] for each in FORMATS], ids=[f[0] for f in FORMATS]
    )
    def test_record_by_record(self, tmp_path, writes, reads, element):
        by_record = compaction(checkpoints=3, compactor=files.RecordWiseCompactor())
        sink = files.FileSink(str(tmp_path), writes, files.BasePathBuckets(), compaction=by_record)
        writer = sink.committing_writer(context())
        for start in range(0, 60, 20):
            assert finished(tmp_path) == []
            checkpoint(writer, *[element(n) for n in range(start, start + 20)])
        assert len(finished(tmp_path)) == 1
        assert hidden(tmp_path) == []
        source = files.FileSource([str(tmp_path)], reads, FileSystems())
        assert check_source(source) == [element(n) for n in range(60)]

    def test_a_parquet_file_of_many_small_ones_has_one_row_group(self, tmp_path):
        import pyarrow.parquet as pq

        factory = ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["n"], [Types.LONG()]))._factory
        by_record = compaction(checkpoints=20, compactor=files.RecordWiseCompactor())
        sink = files.FileSink(str(tmp_path), factory, files.BasePathBuckets(), compaction=by_record)
        writer = sink.committing_writer(context())
        for n in range(20):
            checkpoint(writer, Row(n=n))
        (path,) = finished(tmp_path)
        assert pq.ParquetFile(path).metadata.num_row_groups == 1
        assert pq.read_table(path)["n"].to_pylist() == list(range(20))

    @pytest.mark.parametrize(
        ("before", "after", "elements"),
        [
            (
                files.AvroFiles('{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'),
                files.AvroFiles('{"type": "record", "name": "r", "fields": [{"name": "m", "type": "long"}]}'),
                ({"n": 1}, {"m": 1}),
            ),
            (
                files.ColumnarFiles("parquet", files.arrow_schema(Types.ROW_NAMED(["n"], [Types.LONG()]))),
                files.ColumnarFiles("parquet", files.arrow_schema(Types.ROW_NAMED(["m"], [Types.LONG()]))),
                ((1,), (1,)),
            ),
            (
                files.CsvFiles(files.CsvSchema((files.CsvColumn("n", Types.LONG()),), header=True)),
                files.CsvFiles(files.CsvSchema((files.CsvColumn("m", Types.LONG()),), header=True)),
                ((1,), (1,)),
            ),
        ],
        ids=["avro", "parquet", "csv"],
    )
    def test_a_program_that_writes_another_schema_now(self, tmp_path, before, after, elements):
        by_record = compaction(checkpoints=2, compactor=files.RecordWiseCompactor())
        base = files.BasePathBuckets()
        sink = files.FileSink(str(tmp_path), before, base, compaction=by_record)
        kept = checkpoint(sink.committing_writer(context()), elements[0])
        sink = files.FileSink(str(tmp_path), after, base, compaction=by_record)
        writer = sink.committing_writer(context(attempt=2, restored=[kept]))
        writer.write([elements[1]])
        with pytest.raises(StorageError, match=r"part-.* waits for compaction, .* disable_compact\(\)"):
            writer.prepare(False)
        writer.close()
        as_they_are = files.FileSink(str(tmp_path), after, base)
        checkpoint(as_they_are.committing_writer(context(attempt=3, restored=[kept])))
        assert len(finished(tmp_path)) == 1

    def test_a_format_of_ones_own(self, tmp_path):
        class Upper(files.BulkFactory):
            """Text in capitals."""

            def open(self, stream):
                return UpperWriter(stream)

        class UpperWriter(files.BulkWriter):
            def __init__(self, stream):
                self.text, self.stream = io.StringIO(), stream

            def write(self, values):
                self.text.write("".join(f"{value.upper()}\n" for value in values))

            def finish(self):
                self.stream.write(self.text.getvalue().encode())

        strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
        reader = FileCompactor.record_wise_file_compactor(StreamFormat.text_line_format())
        builder = FileSink.for_bulk_format(str(tmp_path), BulkWriterFactory(Upper()))
        sink = builder.enable_compact(strategy, reader).build()._sink
        writer = sink.committing_writer(context())
        checkpoint(writer, *["a"] * 3000)
        checkpoint(writer, "b")
        assert [path.read_text() for path in tmp_path.rglob("compacted-*")] == ["A\n" * 3000 + "B\n"]
        with pytest.raises(ConfigurationError, match="the files of Upper are read to be compacted"):
            builder.enable_compact(strategy, FileCompactor.record_wise_file_compactor()).build()

    def test_a_reader_that_sends_bad_records_aside(self, tmp_path):
        class Lines(files.BulkFactory):
            def open(self, stream):
                return LinesWriter(stream)

        class LinesWriter(files.BulkWriter):
            def __init__(self, stream):
                self.stream = stream

            def write(self, values):
                self.stream.write("".join(f"{value}\n" for value in values).encode())

            def finish(self):
                pass

        class Quietly(files.FileFormat):
            """Does not say that it sends records aside."""

            def reader(self, file):
                return files.JsonLines().with_bad_records_tag("bad").reader(file)

        tagged = files.RecordWiseCompactor(files.JsonLines().with_bad_records_tag("bad"))
        with pytest.raises(ConfigurationError, match="sends bad records to a side output"):
            files.FileSink(str(tmp_path), Lines(), compaction=compaction(checkpoints=1, compactor=tagged))
        for reader, said in [
            (Quietly(), "sent 1 records to a side output"),
            (files.JsonLines(), "cannot be decoded, line 1"),
        ]:
            by_record = compaction(checkpoints=2, compactor=files.RecordWiseCompactor(reader))
            writer = files.FileSink(str(tmp_path), Lines(), compaction=by_record).committing_writer(context())
            checkpoint(writer, '{"a": 1}')
            with pytest.raises((StorageError, TypeMismatchError), match=said):
                checkpoint(writer, "bad")
            writer.close()
            assert finished(tmp_path) == []


class TestBuilder:
    STRATEGY = (
        FileCompactStrategy.builder().set_size_threshold(1024).enable_compaction_on_checkpoint(5).build()
    )
    ROWS = FileSink.for_row_format("/out", Encoder.simple_string_encoder())

    def bulk(self):
        row_type = Types.ROW_NAMED(["a"], [Types.STRING()])
        return FileSink.for_bulk_format("/out", ParquetBulkWriters.for_row_type(row_type))

    def test_a_strategys_settings_reach_the_engine(self):
        strategy = (
            FileCompactStrategy.builder()
            .set_size_threshold(7)
            .enable_compaction_on_checkpoint(3)
            .set_num_compact_threads(2)
            .build()
        )
        sink = self.ROWS.enable_compact(strategy, FileCompactor.concat_file_compactor(b"-")).build()._sink
        assert sink.compaction.strategy == files.CompactStrategy(7, 3, 2)
        assert sink.compaction.compactor.delimiter == b"-"
        assert self.ROWS.disable_compact().build()._sink.compaction is None

    def test_a_strategy_needs_a_condition(self):
        for builder in (
            FileCompactStrategy.builder(),
            FileCompactStrategy.builder().set_size_threshold(-1),
            FileCompactStrategy.builder().set_num_compact_threads(2),
        ):
            with pytest.raises(ConfigurationError, match="does not say when files are compacted"):
                builder.build()

    def test_a_size_of_nothing_and_one_without_limit(self):
        builder = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1)
        assert builder.set_size_threshold(0).build()._strategy.size_threshold == 0
        assert builder.set_size_threshold(-1).build()._strategy.size_threshold is None

    @pytest.mark.parametrize(
        ("call", "match"),
        [
            (lambda b: b.set_size_threshold("1"), "size_threshold must be a whole number"),
            (lambda b: b.enable_compaction_on_checkpoint(0), "must be at least 1"),
            (lambda b: b.set_num_compact_threads(0), "must be at least 1"),
        ],
    )
    def test_conditions_that_cannot_be(self, call, match):
        with pytest.raises((ConfigurationError, ArgumentTypeError), match=match):
            call(FileCompactStrategy.builder())

    def test_what_cannot_be_compacted_so(self):
        concat, by_record = FileCompactor.concat_file_compactor(), FileCompactor.record_wise_file_compactor()
        with pytest.raises(
            ConfigurationError, match=r"Parquet files cannot be joined .*record_wise_file_compactor"
        ):
            self.bulk().enable_compact(self.STRATEGY, concat).build()
        with pytest.raises(ConfigurationError, match=r"row format are joined byte by byte: use .*concat"):
            self.ROWS.enable_compact(self.STRATEGY, by_record).build()
        lines_of_text = FileCompactor.record_wise_file_compactor(StreamFormat.text_line_format())
        with pytest.raises(ConfigurationError, match="without a reader"):
            self.bulk().enable_compact(self.STRATEGY, lines_of_text).build()
        self.bulk().enable_compact(self.STRATEGY, by_record).build()
        self.bulk().enable_compact(self.STRATEGY, FileCompactor.identical_file_compactor()).build()

    def test_wrong_strategies_and_compactors_are_refused(self):
        compactor = FileCompactor.concat_file_compactor()
        with pytest.raises(ArgumentTypeError, match=r"build\(\) it"):
            self.ROWS.enable_compact(FileCompactStrategy.builder(), compactor)
        with pytest.raises(ArgumentTypeError, match="FileCompactor such as"):
            self.ROWS.enable_compact(self.STRATEGY, "concat")
        with pytest.raises(ArgumentTypeError, match="must be bytes"):
            FileCompactor.concat_file_compactor("\n")
        with pytest.raises(ArgumentTypeError, match="DecoderBasedReader and InputFormatBasedReader are Java"):
            FileCompactor.record_wise_file_compactor("reader")

    def test_names_by_subtask_cannot_be_compacted(self):
        names = files.FileNames(by_subtask=True)
        with pytest.raises(ConfigurationError, match="use FileSink"):
            files.FileSink("/out", files.StringEncoder(), names=names, compaction=compaction(checkpoints=1))

    def test_bulk_formats_keep_the_checkpoint_policy(self):
        builder = self.bulk().enable_compact(self.STRATEGY, FileCompactor.record_wise_file_compactor())
        with pytest.raises(ConfigurationError, match="on_checkpoint_rolling_policy"):
            builder.with_rolling_policy(RollingPolicy.default_rolling_policy()).build()
