"""Sinks of files: each element once in a finished file whatever dies, and files that end when they should."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections import Counter
from unittest import mock

import pytest
from support.graphs import sink_job
from support.jobs import OneClock, TestJob
from support.part_files import (
    Clock,
    bucket_of,
    commit_at_once,
    context,
    counter_of,
    finished,
    hidden,
    lines,
    sink_to,
)
from support.rescaled import RescaledJob
from support.script import DriverKilled, Failure, Fault, Script

from changelog_engine.clock import WallMs
from changelog_engine.connectors import NumberSequenceSource, RestoredSink
from changelog_engine.connectors.files import (
    ON_CHECKPOINT,
    BasePathBuckets,
    DateTimeBuckets,
    ElementBuckets,
    FileNames,
    FileSink,
    Rolling,
)
from changelog_engine.connectors.files.encoders import BulkFactory, BulkWriter, RowEncoder, StringEncoder
from changelog_engine.connectors.files.sink import FileWriter
from changelog_engine.errors import JobExecutionError, RestoreError, StorageError
from changelog_engine.ledger.ownership import DriverLock
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.testing.conformance import check_committing_sink

# Writers of processes that are lost are never closed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*inprogress:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("lost_writers"),
]

NUMBERS = 150
ALL = Counter(str(number) for number in range(1, NUMBERS + 1))


def through_json(prepared):
    """As a checkpoint gives it back."""
    return type(prepared)(*json.loads(json.dumps(list(prepared))))


def job_into(sink, parallelism, numbers=NUMBERS):
    return sink_job(sink, NumberSequenceSource(1, numbers), parallelism)


class TestExactlyOnce:
    @pytest.mark.parametrize("seed", range(30))
    def test_each_element_is_there_once_whatever_dies(self, tmp_path, seed):
        """Failures at random steps, barriers at random, another parallelism after each."""
        rng = random.Random(seed)
        failures = tuple(
            Failure(rng.randint(1, 14), rng.choice(list(Fault)), 0, rng.randint(0, 1)) for _ in range(5)
        )
        barriers = (*(rng.random() < 0.7 for _ in range(7)), True)
        job = TestJob(tmp_path / "log", Script((rng.randint(5, 20),), barriers, failures))
        out = tmp_path / "out"
        sink = sink_to(
            out,
            rng.choice([None, Rolling(rng.randint(1, 60)), ON_CHECKPOINT]),
            names=FileNames("p", ".txt", by_subtask=bool(seed % 2)),
            buckets=rng.choice([BasePathBuckets(), ElementBuckets(bucket_of)]),
        )
        job.run(lambda driver: job_into(sink, 1 + (seed + driver) % 3))
        while lines(out) != ALL and job.progress.waiting:  # died between the last commit and the sinks'
            assert job.commits[-1].finished
            with contextlib.suppress(DriverKilled):
                job.run_driver(job_into(sink, 2), restore="latest")
        assert lines(out) == ALL, f"seed {seed}"

    @pytest.mark.parametrize("seed", range(8))
    def test_while_it_is_rescaled(self, tmp_path, seed):
        """Up and down while it runs, and failures at random steps beside it."""
        rng = random.Random(seed)
        failures = tuple(Failure(rng.randint(2, 9), rng.choice(list(Fault)), 0, 0) for _ in range(seed % 3))
        script = Script((rng.randint(5, 10),), (rng.random() < 0.7, True), failures)
        wanted = {1: 3, 3: 1, 5: rng.randint(2, 4), 7: {"sink": 1}}
        job = RescaledJob(tmp_path / "log", script, wanted=wanted)
        out = tmp_path / "out"
        sink = sink_to(out, rng.choice([None, Rolling(30), ON_CHECKPOINT]))
        job.run(job_into(sink, 2))
        while lines(out) != ALL and failures:  # died between the last commit and the sinks'
            assert job.commits[-1].finished
            with contextlib.suppress(DriverKilled):
                job.run_driver(job_into(sink, 2), restore="latest")
        made = job.answered()
        assert made
        assert failures or len(made) == len(wanted)
        assert lines(out) == ALL, f"seed {seed}"
        assert hidden(out) == [] or failures

    def test_the_sink_shows_each_element_once_whatever_crashes(self, tmp_path):
        check_committing_sink(
            sink_to(tmp_path, ON_CHECKPOINT), lambda: list(lines(tmp_path).elements()), runs=10, seed=1
        )

    def test_two_commit_the_same_at_once(self, tmp_path):
        """A commit that outlives its job, and the next run's: each file is there once, and nobody fails."""
        sink = sink_to(tmp_path, ON_CHECKPOINT, buckets=ElementBuckets(str))
        writer = sink.committing_writer(context())
        for round_ in range(20):
            names = [f"{round_}-{number}" for number in range(5)]
            writer.write(names)
            due = writer.prepare(False).committables
            assert len(due) == len(names)
            commit_at_once([writer, *[sink.committing_writer(context()) for _ in range(3)]], due)
        assert lines(tmp_path) == Counter(f"{round_}-{number}" for round_ in range(20) for number in range(5))
        assert hidden(tmp_path) == []

    def test_nothing_hidden_is_left_by_a_job_that_restarts(self, tmp_path):
        failures = (Failure(3, Fault.WORKER), Failure(6, Fault.COMMIT_FAILS), Failure(9, Fault.SUBTASK))
        job = TestJob(tmp_path / "log", Script((8,), (True, False), failures))
        job.run(job_into(sink_to(tmp_path / "out"), 2))
        assert lines(tmp_path / "out") == ALL
        assert hidden(tmp_path / "out") == []

    def test_nothing_hidden_is_left_by_a_driver_that_is_killed(self, tmp_path):
        job = TestJob(tmp_path / "log", Script((10,), (True, False), (Failure(6, Fault.PARTS),)))
        job.run(job_into(sink_to(tmp_path / "out"), 2))
        assert job.drivers == 2
        assert lines(tmp_path / "out") == ALL
        assert hidden(tmp_path / "out") == []

    def test_without_checkpoints_files_end_with_the_input(self, tmp_path):
        script = Script((50,), failures=(Failure(2, Fault.WORKER),))
        job = TestJob(tmp_path / "log", script, checkpoint_interval_ms=None, changelog=False)
        job.run(job_into(sink_to(tmp_path / "out"), 2))
        assert lines(tmp_path / "out") == ALL
        assert hidden(tmp_path / "out") == []

    def test_one_file_over_many_checkpoints(self, tmp_path):
        job = TestJob(tmp_path / "log", Script((10,)))
        job.run(job_into(sink_to(tmp_path / "out"), 1))
        assert len(job.commits) > 10
        assert len(finished(tmp_path / "out")) == 1

    def test_rewinding_to_a_checkpoint_whose_file_was_finished(self, tmp_path):
        """What was visible stays; what is read again is written again."""
        out, job = tmp_path / "out", TestJob(tmp_path / "log", Script((100,)))
        job.run(job_into(sink_to(out), 1))
        first = job.commits[0].id
        job.run_driver(job_into(sink_to(out), 1), restore=str(first))
        assert lines(out) == ALL + Counter(str(number) for number in range(101, NUMBERS + 1))

    def test_a_failed_driver_is_no_finished_file(self, tmp_path):
        job = TestJob(tmp_path / "log", Script((50,), (False,), (Failure(3, Fault.DRIVER),)))
        with pytest.raises(DriverKilled):
            job.run_driver(job_into(sink_to(tmp_path / "out"), 1))
        assert finished(tmp_path / "out") == []


class TestRestore:
    def test_a_file_in_progress_is_cut_to_its_checkpoint(self, tmp_path):
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a", "b"])
        prepared = writer.prepare(False)
        assert list(prepared.committables) == []
        writer.write(["lost"])
        writer._parts[""].stream.flush()
        again = sink_to(tmp_path).committing_writer(context(attempt=2, restored=[RestoredSink(0, prepared)]))
        assert lines(tmp_path) == Counter("ab")
        assert hidden(tmp_path) == []
        writer.write(["a dead attempt that goes on"])
        writer._parts[""].stream.flush()
        assert lines(tmp_path) == Counter("ab")
        writer.close()
        again.close()
        third = sink_to(tmp_path).committing_writer(context(attempt=3, restored=[RestoredSink(0, prepared)]))
        third.close()
        assert lines(tmp_path) == Counter("ab")

    def test_a_fork_leaves_the_other_jobs_file(self, tmp_path):
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a"])
        restored = [RestoredSink(0, writer.prepare(False))]
        fork = sink_to(tmp_path).committing_writer(context(job="fork", attempt=7, restored=restored))
        fork.write(["f"])
        fork.commit(fork.prepare(True).committables)
        writer.write(["b"])
        writer.commit(writer.prepare(True).committables)
        assert lines(tmp_path) == Counter("abf")

    def test_a_file_that_was_deleted_is_an_error(self, tmp_path):
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a"])
        prepared = writer.prepare(False)
        writer.close()
        (left,) = hidden(tmp_path)
        left.unlink()
        with pytest.raises(StorageError, match="is gone, of which the checkpoint counts 2 bytes"):
            sink_to(tmp_path).committing_writer(context(restored=[RestoredSink(0, prepared)]))

    def test_a_file_that_was_deleted_before_it_was_shown_is_an_error(self, tmp_path):
        """Not taken for one that readers of the folder have had."""
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a"])
        committables = writer.prepare(True).committables
        (left,) = hidden(tmp_path)
        left.unlink()
        with pytest.raises(RestoreError, match=r"\.inprogress.* which was to become .* is gone"):
            writer.commit(committables)
        writer.close()

    @pytest.mark.parametrize("anew", [False, True])
    def test_a_file_that_was_cut_before_it_was_shown_is_an_error(self, tmp_path, anew):
        """It was shown, and what had been cut off was missing without a word."""
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a", "b"])
        prepared = writer.prepare(True)
        (left,) = hidden(tmp_path)
        left.write_text("a\n")
        again = context(attempt=2, restored=[RestoredSink(0, prepared)])
        shown = (
            (lambda: sink_to(tmp_path).committing_writer(again))
            if anew
            else lambda: writer.commit(prepared.committables)
        )
        with pytest.raises(RestoreError, match=r"which was to become .* has 2 bytes, .* counts 4"):
            shown()
        assert (hidden(tmp_path), finished(tmp_path)) == ([left], [])
        writer.close()

    def test_no_restart_takes_such_a_file_for_one_that_was_shown(self, tmp_path):
        """The job restarted from that checkpoint, and ended well without the elements."""
        job = TestJob(tmp_path / "log", Script((20,)))
        job.on_commit = lambda row: row.finished and [path.unlink() for path in hidden(tmp_path / "out")]
        with pytest.raises(JobExecutionError, match=r"which was to become .* is gone"):
            job.run_driver(sink_job(sink_to(tmp_path / "out"), NumberSequenceSource(1, 40)))
        assert job.coordinator.restarts.count == 0

    def test_a_file_that_was_cut_is_an_error(self, tmp_path):
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a"])
        prepared = writer.prepare(False)
        writer.close()
        (left,) = hidden(tmp_path)
        left.write_text("a")
        with pytest.raises(StorageError, match="counts 2 bytes of it, 1 are left"):
            sink_to(tmp_path).committing_writer(context(restored=[RestoredSink(0, prepared)]))

    @pytest.mark.parametrize("kept_at", ["its end", "a barrier in between"])
    def test_a_file_that_was_damaged_before_it_was_shown_is_an_error(self, tmp_path, kept_at):
        """It has as many bytes as the checkpoint counts: readers were shown others than were written."""
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a", "b"])
        kept = RestoredSink(0, through_json(writer.prepare(kept_at == "its end")))
        writer.write(["behind it"])
        writer.close()
        left = next(path for path in hidden(tmp_path) if path.read_text().startswith("a"))
        whole = left.read_text()
        left.write_text(whole.replace("b", "B"))
        with pytest.raises(RestoreError, match=rf"{left.name} is not what was written: its 4 bytes"):
            sink_to(tmp_path).committing_writer(context(attempt=2, restored=[kept]))
        assert finished(tmp_path) == []
        left.write_text(whole)
        sink_to(tmp_path).committing_writer(context(attempt=3, restored=[kept])).close()
        assert lines(tmp_path) == Counter("ab")

    def test_checkpoints_of_versions_that_took_no_checksums(self, tmp_path):
        writer = sink_to(tmp_path, Rolling(2)).committing_writer(context())
        writer.write(["ab"])
        writer.write(["c"])
        prepared = through_json(writer.prepare(False))
        writer.close()
        assert (len(prepared.committables), len(prepared.state["parts"])) == (1, 1)
        assert len(prepared.state.pop("checksums")) == 2
        sink_to(tmp_path).committing_writer(context(attempt=2, restored=[RestoredSink(0, prepared)])).close()
        assert lines(tmp_path) == Counter(["ab", "c"])

    def test_checksums_are_kept_of_what_is_not_shown_yet(self, tmp_path):
        """A checkpoint that fails leaves its files to the next one, whose state has to tell of them as well."""
        writer = sink_to(tmp_path, Rolling(2)).committing_writer(context())
        writer.write(["a", "b"])
        first = writer.prepare(False)
        writer.write(["c"])
        second = writer.prepare(False)
        waiting = [*first.committables, *second.committables]
        counted = {path for path, *_ in (*waiting, *second.state["parts"])}
        assert second.state["checksums"].keys() == counted
        writer.commit(waiting)
        third = writer.prepare(False)
        assert third.state["checksums"].keys() == {path for path, *_ in third.state["parts"]}
        writer.close()
        again = sink_to(tmp_path).committing_writer(
            context(attempt=2, restored=[RestoredSink(0, through_json(third))])
        )
        assert "checksums" not in again.prepare(True).state

    def test_the_running_job_reads_no_file_again(self, tmp_path, monkeypatch):
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a"])
        monkeypatch.setattr(LocalDisk, "open", mock.Mock(side_effect=AssertionError))
        writer.commit(writer.prepare(True).committables)
        assert lines(tmp_path) == Counter("a")

    def test_a_bulk_writer_that_goes_back_in_its_file(self, tmp_path):
        """No checksum is taken of such a file, which would be another one's."""

        class Counted(BulkWriter):
            def __init__(self, stream):
                self.stream, self.count = stream, 0
                stream.write(b"?\n")

            def write(self, values):
                self.count += len(values)
                self.stream.writelines(f"{value}\n".encode() for value in values)

            def finish(self):
                self.stream.seek(0)
                self.stream.write(str(self.count).encode())
                self.stream.seek(0, 2)

        factory = mock.Mock(spec=BulkFactory)
        factory.open = Counted
        sink = FileSink(str(tmp_path), factory, BasePathBuckets())
        writer = sink.committing_writer(context())
        writer.write(["a", "b"])
        kept = RestoredSink(0, through_json(writer.prepare(True)))
        sink.committing_writer(context(attempt=2, restored=[kept])).close()
        assert [path.read_text() for path in finished(tmp_path)] == ["2\na\nb\n"]

    def test_finished_files_may_be_taken_away(self, tmp_path, caplog):
        writer = sink_to(tmp_path).committing_writer(context())
        writer.write(["a"])
        prepared = writer.prepare(True)
        writer.commit(prepared.committables)
        (path,) = finished(tmp_path)
        path.unlink()
        sink_to(tmp_path).committing_writer(context(restored=[RestoredSink(0, prepared)])).close()
        assert "is gone: readers of the folder had it, or somebody removed it" in caplog.text
        assert finished(tmp_path) == []

    def test_closing_removes_what_no_checkpoint_knows(self, tmp_path):
        writer = sink_to(tmp_path, Rolling(1), buckets=ElementBuckets(bucket_of)).committing_writer(context())
        writer.write(["1", "2", "4", "1"])
        writer.prepare(False)
        kept = hidden(tmp_path)
        writer.write(["3", "1", "4", "4"])
        assert len(hidden(tmp_path)) > len(kept)
        writer.close()
        assert hidden(tmp_path) == kept


class TestRolling:
    def test_files_end_when_they_are_large_enough(self, tmp_path):
        writer = sink_to(tmp_path, Rolling(part_bytes=10)).committing_writer(context())
        writer.write(["1234"] * 5)  # 5 bytes each: full when more than 10 are there
        writer.write(["x"])
        writer.write(["y", "0123456789", "z"])
        writer.commit(writer.prepare(True).committables)
        assert [path.read_text().split() for path in sorted(finished(tmp_path), key=counter_of)] == [
            ["1234", "1234", "1234"],
            ["1234", "1234", "x"],
            ["y", "0123456789"],
            ["z"],
        ]

    def test_what_files_end_in_is_encoded_once(self, tmp_path, monkeypatch):
        """As soon as it is known how large elements are."""
        encoded = []
        encode = StringEncoder.encode

        def noted(encoder, values):
            encoded.extend(values)
            return encode(encoder, values)

        monkeypatch.setattr(StringEncoder, "encode", noted)
        monkeypatch.setattr(StringEncoder, "joined", RowEncoder.joined)
        writer = sink_to(tmp_path, Rolling(part_bytes=10)).committing_writer(context())
        for number in range(0, 50, 5):
            writer.write([f"{each:04}" for each in range(number, number + 5)])
        writer.commit(writer.prepare(True).committables)
        assert encoded.count("0000") == 2
        assert len(encoded) == 55
        written = "".join([path.read_text() for path in sorted(finished(tmp_path), key=counter_of)])
        assert written.split() == [f"{each:04}" for each in range(50)]

    @pytest.mark.parametrize(
        ("rolling", "steps", "expected"),
        [
            (
                Rolling(None, 100, None),
                [(0, "a"), (60, "b"), (99, "c"), (100, None), (110, "d")],
                ["abc", "d"],
            ),
            (Rolling(None, None, 50), [(0, "a"), (40, "b"), (89, "c"), (130, None), (140, "d")], ["abcd"]),
            (Rolling(None, None, 50), [(0, "a"), (40, "b"), (90, None), (95, "c")], ["ab", "c"]),
            (Rolling(None, 100, 50), [(0, "a"), (50, None), (60, "b"), (109, "c"), (159, "d")], ["a", "bcd"]),
        ],
    )
    def test_files_end_when_their_time_is_over(self, tmp_path, rolling, steps, expected):
        clock = Clock()
        sink = sink_to(tmp_path, rolling, check_interval_ms=1, clock=OneClock(clock))
        writer = sink.committing_writer(context())
        for now_ms, value in steps:
            clock.now_ms = now_ms
            if value is not None:
                writer.write([value])
            writer.end_epoch()
        writer.commit(writer.prepare(True).committables)
        found = sorted("".join(path.read_text().split()) for path in finished(tmp_path))
        assert found == expected

    def test_case_50_a_wall_clock_that_jumps_ends_no_file_and_keeps_none_open(self, tmp_path):
        class Jumping(OneClock):
            def wall_ms(self):
                return WallMs(self.now_ms() + next(jumps))

        jumps = itertools.cycle((0, 3_600_000, -3_600_000))
        clock = Clock()
        buckets = DateTimeBuckets("yyyy")
        sink = sink_to(
            tmp_path, Rolling(None, 100, None), check_interval_ms=1, clock=Jumping(clock), buckets=buckets
        )
        writer = sink.committing_writer(context())
        for now_ms, value in [(0, "a"), (60, "b"), (99, "c"), (101, None), (110, "d")]:
            clock.now_ms = now_ms + 10**12
            if value is not None:
                writer.write([value])
            writer.end_epoch()
        writer.commit(writer.prepare(True).committables)
        assert sorted("".join(path.read_text().split()) for path in finished(tmp_path)) == ["abc", "d"]

    def test_times_are_looked_at_once_in_an_interval(self, tmp_path):
        clock = Clock(1_000)
        sink = sink_to(tmp_path, Rolling(None, 10, None), check_interval_ms=100, clock=OneClock(clock))
        writer = sink.committing_writer(context())
        for now_ms, value in [
            (1_000, "a"),
            (1_050, "b"),
            (1_099, "c"),
            (1_100, "d"),
            (1_150, "e"),
            (1_199, "f"),
        ]:
            clock.now_ms = now_ms
            writer.write([value])
            writer.end_epoch()
        writer.commit(writer.prepare(True).committables)
        assert sorted("".join(path.read_text().split()) for path in finished(tmp_path)) == ["abcd", "ef"]

    def test_files_end_with_each_checkpoint(self, tmp_path):
        writer = sink_to(tmp_path, ON_CHECKPOINT).committing_writer(context())
        for value in "abc":
            writer.write([value])
            prepared = writer.prepare(False)
            assert value not in lines(tmp_path)
            writer.commit(prepared.committables)
            assert value in lines(tmp_path)
        assert len(finished(tmp_path)) == 3
        assert list(writer.prepare(False).committables) == [], "no elements, no file"


class TestWhatDeadDriversLeave:
    """Reliability case 61: files in progress of a killed or a replaced driver are removed by whoever goes on."""

    @staticmethod
    def strangers(out):
        """Hidden files of nobody, and of another job's writer."""
        names = [
            ".mine",
            ".part-x-0.inprogress.notes",
            ".part-x-0.inprogress.0123456789ab-1",
            "deep/.part-x-1.inprogress.0123456789ab-0-1",
        ]
        for name in names:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text("somebody's")
        return {out / name for name in names}

    @staticmethod
    def killed():
        """Writers of a process that was killed close nothing."""
        return mock.patch.object(FileWriter, "close", return_value=None)

    @pytest.mark.parametrize("barriers", [(False,), (True, False)], ids=["no_checkpoint", "checkpoints"])
    @pytest.mark.parametrize("parallelisms", [(2, 2), (3, 1), (1, 3)])
    def test_case_61_a_killed_driver(self, tmp_path, barriers, parallelisms):
        out = tmp_path / "out"
        strangers = self.strangers(out)
        job = TestJob(tmp_path / "log", Script((10,), barriers, (Failure(4, Fault.DRIVER),)))
        with self.killed(), pytest.raises(DriverKilled):
            job.run_driver(job_into(sink_to(out), parallelisms[0]))
        assert set(hidden(out)) > strangers, "the driver left something"
        job.run_driver(job_into(sink_to(out), parallelisms[1]), epoch_max_records=None)
        assert lines(out) == ALL
        assert set(hidden(out)) == strangers

    def test_case_61_drivers_killed_one_after_the_other(self, tmp_path):
        """The second and third die before their first checkpoint, each with other writers."""
        out = tmp_path / "out"
        failures = tuple(Failure(epoch, Fault.DRIVER) for epoch in (4, 6, 8))
        job = TestJob(tmp_path / "log", Script((7,), (True, True, *(False,) * 5), failures))
        for parallelism in (2, 4, 3):
            before = hidden(out)
            with self.killed(), pytest.raises(DriverKilled):
                job.run_driver(job_into(sink_to(out), parallelism))
            assert set(hidden(out)) - set(before), "the driver left something"
        job.run_driver(job_into(sink_to(out), 1), epoch_max_records=None)
        assert lines(out) == ALL
        assert hidden(out) == []

    def test_case_61_a_driver_that_was_replaced(self, tmp_path):
        """It goes on after it was replaced, and the checkpoint that it prepared files for is refused."""
        out = tmp_path / "out"
        strangers = self.strangers(out)
        rival = TestJob(tmp_path / "log", Script((7,), failures=(Failure(3, Fault.HANDED_OUT),)))

        class Zombie(TestJob):
            def on_commit(self, checkpoint):
                if checkpoint.id == 2:
                    with pytest.raises(DriverKilled):
                        rival.run_driver(job_into(sink_to(out, Rolling(20)), 2))

        zombie = Zombie(tmp_path / "log", Script((10,)))
        with mock.patch.object(DriverLock, "acquire"):
            with pytest.raises(JobExecutionError, match="took the job"):
                zombie.run_driver(job_into(sink_to(out, Rolling(20)), 2))
            left = {path.name.rsplit("-", 1)[1] for path in hidden(out) if path not in strangers}
            assert left >= {"1", "2"}, "both drivers left something"
            rival.run(job_into(sink_to(out, Rolling(20)), 1))
        assert lines(out) == ALL
        assert set(hidden(out)) == strangers

    def test_case_61_a_replaced_driver_that_writes_on_until_the_end(self, tmp_path):
        """What it began after the takeover is removed when the job ends."""
        here = context(folder="f")
        zombie = sink_to(tmp_path, buckets=ElementBuckets(bucket_of)).committing_writer(here)
        owner = sink_to(tmp_path).committing_writer(here._replace(attempt=2))
        zombie.write(["1", "2"])
        zombie.prepare(False)
        owner.write(["5"])
        owner.commit(owner.prepare(True).committables)
        zombie.close()
        assert lines(tmp_path) == Counter("5")
        assert hidden(tmp_path) == []

    def test_case_61_files_of_those_who_run_stay(self, tmp_path):
        """Another folder's job of the same name, another sink, another subtask, and an attempt that is newer."""
        here = context(folder="f", attempt=5)
        live = [
            here._replace(folder="g", attempt=1),
            here._replace(uid="another", attempt=1),
            here._replace(subtask=1, parallelism=2),
            here._replace(attempt=6),
            here._replace(attempt=3),  # checkpoints of it can be restored
        ]
        writers = [
            sink_to(tmp_path).committing_writer(each._replace(branches=frozenset({3}))) for each in live
        ]
        for number, writer in enumerate(writers):
            writer.write([str(number)])
            writer.prepare(False)
        before = hidden(tmp_path)
        owner = sink_to(tmp_path).committing_writer(here._replace(branches=frozenset({3})))
        owner.prepare(True)
        assert hidden(tmp_path) == before
        for writer in writers:
            writer.commit(writer.prepare(True).committables)
        assert lines(tmp_path) == Counter("01234")

    def test_case_61_a_job_of_the_same_name_elsewhere_loses_nothing(self, tmp_path):
        """A copy or a restored savepoint writes beside the original, which goes on with its file."""
        original = sink_to(tmp_path).committing_writer(context(folder="f"))
        original.write(["a"])
        restored = [RestoredSink(0, original.prepare(False))]
        copy = sink_to(tmp_path).committing_writer(context(folder="g", attempt=2, restored=restored))
        copy.prepare(True)
        original.write(["b"])
        original.commit(original.prepare(True).committables)
        assert lines(tmp_path) == Counter("ab")

    def test_case_61_a_branch_that_was_left_can_be_gone_on_with(self, tmp_path):
        """A rewind leaves what the checkpoints after it have prepared, and so does an empty start."""
        out = tmp_path / "out"
        job = TestJob(tmp_path / "log", Script((10,), failures=(Failure(6, Fault.HANDED_OUT),)))
        with pytest.raises(DriverKilled):
            job.run_driver(job_into(sink_to(out), 1))
        newest = job.commits[-1].id
        for restore in ("none", str(job.commits[1].id)):
            job.progress.waiting.append(Failure(job.progress.epoch + 3, Fault.HANDED_OUT))
            with pytest.raises(DriverKilled):
                job.run_driver(job_into(sink_to(out), 1), restore=restore)
        before = lines(out)
        job.run_driver(job_into(sink_to(out), 1), restore=str(newest), epoch_max_records=None)
        assert all(lines(out)[line] >= 1 for line in ALL), before
