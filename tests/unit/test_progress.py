"""Progress on standard error: what it says, where, and that it disturbs nobody."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from api.common import Configuration, Types
from api.datastream import StreamExecutionEnvironment
from changelog_engine.clock import WallMs
from changelog_engine.driver import structured_logs
from changelog_engine.driver.figures import (
    CheckpointFigures,
    JobFigures,
    JobMonitor,
    SourceFigures,
    StageFigures,
)
from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK, has_ended, moment_of
from changelog_engine.extension import NOT_BUILT
from changelog_engine.ledger.reading import RestoreSize
from changelog_engine.observing import progress
from changelog_engine.observing.live_line import LiveLine
from changelog_engine.observing.words import (
    WorkersAtStart,
    first_words,
    last_words,
    running_words,
    starting_words,
)
from changelog_engine.spark.notes import Teller, WorkerNotes, note_closing
from changelog_engine.spark.runtimes import Runtimes, _Held
from changelog_engine.state import handles_in_c
from changelog_engine.state.sizes import TableSize
from changelog_engine.testing import without_spark
from changelog_engine.types import row_loops

SOME = JobFigures(
    job="words",
    folder="/data/words",
    status="RUNNING",
    began_ms=1_000,
    at_ms=3_000,
    epoch=4,
    records_in=30_000,
    records_out=600,
    mutations={"count": {"n": 8_000}},
    checkpoint=CheckpointFigures(12, 0, 41.4, 10, 1_200_000),
    checkpoints=12,
    sources={"s": SourceFigures("numbers", 30_000, 1_234, 5_000)},
    stages={
        "s": StageFigures(("numbers",), 1, 0.25, None),
        "count": StageFigures(("count", "p"), 3, 0.75, 1),
    },
    sizes={"count": {"n": TableSize(1_000_000, 80_000_000), "m": TableSize(200_000, None)}},
)
NOTHING = JobFigures(job="words", at_ms=1_000)


def test_event_time_ends_with_the_largest_watermark_alone() -> None:
    marks = (None, MIN_WATERMARK, 0, 2**62 + 1, MAX_WATERMARK)
    assert [has_ended(mark) for mark in marks] == [False, False, False, False, True]
    assert [moment_of(mark) for mark in marks] == [None, None, 0, 2**62 + 1, None]


class TestWords:
    def test_a_running_job(self) -> None:
        assert running_words(SOME, NOTHING, WallMs(8_200)) == (
            "15.0 k records/s in, 300 out, 4,000 mutations/s, checkpoint 12 (41 ms, 1.2 MB), "
            "numbers: 1,234 records behind, event time 3.2 s behind, slowest count -> p (75% of the work), "
            "state count 1.2 M entries (80.0 MB)"
        )

    def test_event_time_of_long_ago_is_a_moment(self) -> None:
        old = replace(SOME, sources={"s": SourceFigures("numbers", 1, None, 1_356_998_400_000)}, restarts=2)
        text = running_words(old, NOTHING, WallMs(1_795_000_000_000))
        assert "numbers: event time 2013-01-01 00:00:00" in text
        assert text.endswith(", 2 restarts")

    def test_sources_of_one_name_are_told_apart(self) -> None:
        both = {uid: SourceFigures("Spark DataFrame", 1, number, None) for number, uid in enumerate("ab")}
        text = running_words(replace(SOME, sources=both), NOTHING, WallMs(8_200))
        assert "Spark DataFrame (a): 0 records behind, Spark DataFrame (b): 1 records behind, slowest" in text

    def test_of_many_operators_and_sources_the_largest_are_named(self) -> None:
        """One line of a log stays readable: a job of 40 operators said 40 sizes every 10 s."""
        sizes = {f"o{number}": {"n": TableSize(number, 100 * number)} for number in range(41)}
        sources = {f"s{number}": SourceFigures(f"in {number}", 1, number, None) for number in range(5)}
        text = running_words(replace(SOME, sizes=sizes, sources=sources), NOTHING, WallMs(8_200))
        assert (
            "in 4: 4 records behind, in 3: 3 records behind, in 2: 2 records behind, 2 more sources, " in text
        )
        assert text.endswith(
            "state o40 40 entries (4.0 kB), state o39 39 entries (3.9 kB), state o38 38 entries (3.8 kB), "
            "37 more operators 703 entries (70.3 kB)"
        )

    def test_an_ended_source_is_not_behind(self) -> None:
        ended = replace(SOME, sources={"s": SourceFigures("numbers", 1, None, MAX_WATERMARK)})
        assert "numbers:" not in running_words(ended, NOTHING, WallMs(8_200))

    def test_few_in_a_second_are_not_none(self) -> None:
        slow = replace(NOTHING, at_ms=11_000, records_in=3, records_out=30, mutations={"count": {"n": 1}})
        text = running_words(slow, replace(NOTHING, mutations={}), WallMs(12_000))
        assert text == "0.3 records/s in, 3 out, 0.1 mutations/s"

    def test_no_time_between_two_figures(self) -> None:
        assert running_words(SOME, SOME, WallMs(0)).startswith("checkpoint 12 ")

    def test_mutations_are_told_of_jobs_with_a_changelog_alone(self) -> None:
        now, before = (replace(figures, mutations=None) for figures in (SOME, NOTHING))
        assert running_words(now, before, WallMs(0)).startswith(
            "15.0 k records/s in, 300 out, checkpoint 12 "
        )

    @pytest.mark.parametrize(
        ("times_ms", "told"),
        [
            ({"process": 400, "write": 900, "commit": 300, "wait": 400}, "storage takes 60% of the time"),
            ({"process": 1_100, "write": 800, "commit": 100}, "slowest count -> p (75% of the work)"),
            ({"read": 1, "write": 60, "commit": 40, "wait": 1_899}, "slowest count -> p (75% of the work)"),
        ],
    )
    def test_slow_storage_is_no_operators_fault(self, times_ms: dict[str, float], told: str) -> None:
        earlier = dict.fromkeys(times_ms, 5_000.0)
        now = replace(SOME, times_ms={part: earlier[part] + ms for part, ms in times_ms.items()})
        text = running_words(now, replace(NOTHING, times_ms=earlier), WallMs(8_200))
        assert f", {told}, state count" in text
        assert ("slowest" in text) != ("storage" in text)

    def test_a_long_epoch(self) -> None:
        text = running_words(SOME, NOTHING, WallMs(8_200), 23_000)
        assert text.startswith("epoch 5 has been running for 23 s, 30,000 records so far, checkpoint 12 (")

    def test_a_long_first_epoch(self) -> None:
        now = replace(NOTHING, status="RUNNING", status_ms=1_000)
        assert starting_words(now, 9_000, WorkersAtStart(8, 8, 0, 0), None) == (
            "all 8 workers are up, the first epoch is running (8 s)"
        )

    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            ("CREATED", "preparing (2 s)"),
            ("STARTING", "starting Spark on yarn (2 s)"),
            ("RESTARTING", "waiting to restart, restart 2 (2 s)"),
            ("RUNNING", "workers 3 of 8 (2 s)"),
            ("RESTORING", "restoring checkpoint 7: 1,000 rows (3.0 MB), 25 % read, 500.0 kB/s, workers 3 of 8 (2 s)"),
        ],
    )  # fmt: skip
    def test_a_start(self, status: str, expected: str) -> None:
        now = replace(NOTHING, status=status, status_ms=1_000, restored_from=7, restarts=2)
        size = RestoreSize(5, 600, 1_000_000, 400, 2_000_000)
        workers = WorkersAtStart(3, 8, 250, 1_000_000, 0, 2_000)
        assert starting_words(now, 3_000, workers, size, "starting Spark on yarn") == expected

    @pytest.mark.parametrize(
        ("workers", "expected"),
        [("", "the first epoch is running"), ("1 of 2", "waiting for executors: 1 of 2")],
    )
    def test_a_start_on_executors_that_note_nothing(self, workers: str, expected: str) -> None:
        now = replace(NOTHING, status="RUNNING", status_ms=1_000, restored_from=7)
        assert starting_words(now, 3_000, workers, None) == f"{expected} (2 s)"
        restoring = starting_words(replace(now, status="RESTORING"), 3_000, workers, None)
        assert restoring == f"restoring checkpoint 7, {expected} (2 s)"

    def test_a_restore_that_has_read_nothing_yet(self) -> None:
        now = replace(NOTHING, status="RESTORING", status_ms=1_000, restored_from=7)
        size = RestoreSize(5, 600, 1_000_000, 400, 2_000_000)
        assert starting_words(now, 3_000, WorkersAtStart(0, 8, 0, 0), size) == (
            "restoring checkpoint 7: 1,000 rows (3.0 MB), workers 0 of 8 (2 s)"
        )

    def test_workers_that_close_what_they_had_open(self) -> None:
        """As before a broker that is away: it said "workers 0 of 4" alone."""
        now = replace(NOTHING, status="RESTORING", status_ms=1_000, restored_from=7)
        assert starting_words(now, 9_000, WorkersAtStart(0, 4, 0, 0, closing=2), None) == (
            "restoring checkpoint 7, workers 0 of 4, 2 still closing what the attempt before had open (8 s)"
        )

    def test_a_first_epoch_that_takes_long_is_not_called_a_restore(self) -> None:
        """As where a sink that hung before hangs again."""
        now = replace(NOTHING, status="RESTORING", status_ms=1_000, restored_from=7)
        size = RestoreSize(5, 600, 1_000_000, 400, 2_000_000)
        waits = WorkersAtStart(4, 8, 900, 1_000_000, 4, 2_000)
        assert starting_words(now, 9_000, waits, size) == (
            "restoring checkpoint 7: 1,000 rows (3.0 MB), 90 % read, workers 4 of 8 (8 s)"
        )
        all_have = WorkersAtStart(8, 8, 1_000, 1_000_000, 8, 2_000)
        assert starting_words(now, 9_000, all_have, size) == (
            "restored checkpoint 7: 1,000 rows (3.0 MB), the first epoch is running (8 s)"
        )

    def test_first_and_last(self) -> None:
        assert first_words("a", "/b/a", 3) == "job 'a': folder /b/a, restored from checkpoint 3"
        assert first_words("a", "/b", None, "attempt 1 finished").endswith(
            "begins empty, since attempt 1 finished"
        )
        assert first_words("a", None, None) == "job 'a': makes no checkpoints, begins empty"
        ended = replace(SOME, status="FINISHED", restarts=1, records_again=50)
        assert last_words(ended) == (
            "job 'words' finished after 2 s: 30,000 records (50 of them read again), 12 checkpoints, 1 restart. "
            "Next: changelog-engine status /data/words"
        )
        assert last_words(replace(ended, folder="/my data/words")).endswith("status '/my data/words'")
        stopped = replace(SOME, status="CANCELED", uncovered=5)
        assert last_words(stopped) == (
            "job 'words' stopped after 2 s: 30,000 records, 12 checkpoints; "
            "5 records since the last checkpoint are read again by the next run"
        )
        failed = replace(SOME, status="FAILED", uncovered=1_000)
        assert "1,000 records since the last checkpoint are read again" in last_words(failed)
        assert "1,000 records since the start are read" in last_words(replace(failed, checkpoints=0))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestLiveLine:
    @staticmethod
    def streams(monkeypatch: pytest.MonkeyPatch) -> tuple[Terminal, Terminal]:
        """Both standard streams are one terminal, from within the test on: between a fixture and it, pytest sets its own."""
        monkeypatch.setenv("TERM", "xterm")
        out, err = Terminal(), Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        return out, err

    def test_what_a_program_prints_stays_as_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        out, err = self.streams(monkeypatch)
        line = LiveLine()
        assert line.begin()
        line.show("one")
        print("half", end="")
        shown = err.getvalue()
        line.show("two")
        assert err.getvalue() == shown, "the line would be drawn over half a line"
        print(" done")
        line.show("three")
        line.end()
        assert out.getvalue() == "half done\n"
        assert err.getvalue().endswith("\r\x1b[2K")
        assert "three" in err.getvalue()
        assert (sys.stdout, sys.stderr) == (out, err)

    @pytest.mark.parametrize(
        ("columns", "fits"),
        [
            (40, "words 01:02  51,234 records/s in, 7 out"),
            (39, "words 01:02  51,234 records/s in, 7…"),
            (24, "words 01:02  51,234…"),
            (5, "wor…"),
        ],
    )
    def test_a_narrow_terminal_has_whole_words(
        self, monkeypatch: pytest.MonkeyPatch, columns: int, fits: str
    ) -> None:
        _, err = self.streams(monkeypatch)
        monkeypatch.setenv("COLUMNS", str(columns))
        line = LiveLine()
        assert line.begin()
        line.show("words 01:02  51,234 records/s in, 7 out")
        assert re.sub(r"\x1b\[\d+[mK]", "", err.getvalue()).strip("\r") == fits
        line.end()

    def test_no_terminal_no_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.streams(monkeypatch)
        monkeypatch.setenv("TERM", "dumb")
        assert not LiveLine().begin()
        monkeypatch.setattr(sys, "stderr", None)
        assert not LiveLine().begin()

    def test_a_terminal_that_is_gone_fails_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        streams = self.streams(monkeypatch)
        line = LiveLine()
        line.begin()
        streams[1].close()
        line.show("one")
        line.say("two")
        line.end()


class TestDisplay:
    @staticmethod
    def unlogged(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
        """A plain standard error, and no logging configured."""
        errors = io.StringIO()
        monkeypatch.setattr(sys, "stderr", errors)
        monkeypatch.setattr(progress, "_logged", lambda: False)
        monkeypatch.setattr(progress, "_TICK_S", 0.005)
        return errors

    def test_a_short_run_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        errors = self.unlogged(monkeypatch)
        monitor = JobMonitor("short")
        job = progress.ShownJob(monitor, 3_600_000)
        display = progress.Display()
        display.add(job)
        monitor.status("STARTING", folder="/x")
        monitor.status("FINISHED")
        display.remove(job)
        assert errors.getvalue() == ""

    def test_a_run_is_told_of_after_a_second_however_far_apart_its_lines_are(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        errors = self.unlogged(monkeypatch)
        times = iter([999.0, 1_000.0, 1_000.0, 1_500.0, 1_500.0])
        monitor = JobMonitor("told")
        job = progress.ShownJob(monitor, 3_600_000)
        monkeypatch.setattr(progress, "monotonic_ms", lambda: monitor.latest.began_ms + next(times))
        display = progress.Display()
        monitor.status("STARTING", folder="/x")
        for said in ("", "job 'told': folder /x, begins empty\n"):
            display.begun(job)
            assert errors.getvalue() == said
        monitor.status("FINISHED")
        display._jobs.append(job)
        display.remove(job)
        assert errors.getvalue().splitlines()[1].startswith("job 'told' finished after ")

    def test_the_rate_of_a_restore_is_that_of_its_own_attempt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody need look in between, as where lines are ten seconds apart."""
        now_ms = 0.0
        monkeypatch.setattr(progress, "monotonic_ms", lambda: now_ms)
        monitor = JobMonitor("restored")
        job = progress.ShownJob(monitor, 1)
        job.workers = lambda: WorkersAtStart(1, 1, 10, 5_000)
        for attempt, began_ms in ((1, 0.0), (2, 90_000.0)):
            monitor.latest = replace(monitor.latest, attempt=attempt, status="RESTORING", restored_from=7)
            monitor.restoring = RestoreSize(None, 0, 0, 20, 10_000)
            now_ms = began_ms
            job.words(monitor.latest, monitor.latest)
            now_ms += 1_000
            assert "50 % read, 5.0 kB/s" in job.words(monitor.latest, monitor.latest), attempt

    def test_a_standard_error_that_nobody_reads_holds_no_job_up(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.unlogged(monkeypatch)
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        with os.fdopen(reading, "rb"), os.fdopen(writing, "w", buffering=1) as full:
            monkeypatch.setattr(sys, "stderr", full)
            monitor = JobMonitor("unread")
            job = progress.ShownJob(monitor, 1)
            display = progress.Display()
            display.add(job)
            monitor.status("FINISHED")
            ending = threading.Thread(target=display.remove, args=(job,), daemon=True)
            ending.start()
            ending.join(30)
            ended = not ending.is_alive()
            os.set_blocking(reading, False)
            os.read(reading, 1 << 20)
        assert ended

    @pytest.mark.parametrize(
        ("why_not", "end"),
        [(None, ""), (NOT_BUILT, "; slower than it could be, as changelog-engine doctor says")],
    )
    def test_a_longer_one_says_what_it_does(
        self, monkeypatch: pytest.MonkeyPatch, why_not: str | None, end: str
    ) -> None:
        errors = self.unlogged(monkeypatch)
        monkeypatch.setattr(row_loops, "WHY_NOT", None)
        monkeypatch.setattr(handles_in_c, "WHY_NOT", why_not)
        monitor = JobMonitor("long")
        job = progress.ShownJob(monitor, 1)
        display = progress.Display()
        display.add(job)
        monitor.status("STARTING", folder="/x")
        while "starting (" not in errors.getvalue():
            threading.Event().wait(0.005)
        monitor.status("FINISHED")
        display.remove(job)
        lines = errors.getvalue().splitlines()
        assert lines[0] == f"job 'long': folder /x, begins empty{end}"
        assert lines[-1].startswith("job 'long' finished after 0 s: 0 records, 0 checkpoints. Next")

    def test_with_logging_all_goes_there(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        errors = self.unlogged(monkeypatch)
        monkeypatch.setattr(progress, "_logged", lambda: True)
        caplog.set_level(logging.INFO, "changelog_engine")
        monitor = JobMonitor("logged")
        job = progress.ShownJob(monitor, 3_600_000)
        display = progress.Display()
        display.add(job)
        monitor.status("FINISHED", folder="/x")
        display.remove(job)
        assert [message.partition(":")[0] for message in caplog.messages] == [
            "job 'logged'",
            "job 'logged' finished after 0 s",
        ]
        assert errors.getvalue() == ""

    def test_nobody_who_reads_fails_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = io.StringIO()
        broken.close()
        monkeypatch.setattr(sys, "stderr", broken)
        monkeypatch.setattr(progress, "_logged", lambda: False)
        monitor = JobMonitor("unread")
        job = progress.ShownJob(monitor, 0)
        display = progress.Display()
        display.add(job)
        monitor.status("FINISHED", folder="/x")
        display.remove(job)

    @pytest.mark.parametrize(
        ("show", "collects", "environment", "expected"),
        [
            ("auto", False, {}, True),
            ("auto", True, {}, False),
            ("auto", False, {"PYTEST_CURRENT_TEST": "x"}, False),
            ("always", True, {"PYTEST_CURRENT_TEST": "x"}, True),
            ("never", False, {}, False),
        ],
    )
    def test_when_it_is_wanted(
        self, show: str, collects: bool, environment: dict[str, str], expected: bool
    ) -> None:
        assert progress.wanted(show, collects, environment) is expected


def test_workers_note_how_far_they_are(tmp_path: Path) -> None:
    notes = WorkerNotes(str(tmp_path), "run")
    assert notes.read(1) == (0, 0, 0, 0, 0)
    note_closing(notes.path(1, 1, 0))
    assert notes.read(1) == (0, 0, 0, 0, 1)
    note_closing(notes.path(1, 0, 0))
    for subtask in (0, 1, 2):
        tell = Teller(notes.path(1, 0, subtask))
        tell(10, 100)
        if subtask == 2:
            tell.ready()
    (tmp_path / "note-run-1-0-0").write_text("5 50 0")
    (tmp_path / "note-run-1-0-1").write_text("")  # just being written
    assert notes.read(1) == (3, 15, 150, 1, 1), "all rows are told once they are read"
    assert notes.read(2) == (0, 0, 0, 0, 0)
    notes.clear()
    assert list(tmp_path.iterdir()) == []
    missing = Teller(str(tmp_path / "gone" / "x"))
    missing(1, 1)
    missing.ready()


def test_a_worker_notes_that_it_closes_what_it_had_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = WorkerNotes(str(tmp_path), "run")
    seen: list[tuple[int, ...]] = []
    before: Any = SimpleNamespace(leave=lambda: None, close=lambda: seen.append(notes.read(2)))
    after: Any = SimpleNamespace(start=lambda *_: seen.append(notes.read(2)))
    held = Runtimes()
    held.held[0, 0] = _Held("run", 1, before)
    monkeypatch.setattr(held, "_build", lambda *_: after)
    order: Any = SimpleNamespace(run="run", attempt=2, epoch=1, committed_epoch=0)
    load: Any = object
    assert held._runtime(load, order, (0, 0), notes.path(2, 0, 0))[0] is after
    assert seen == [(0, 0, 0, 0, 1), (1, 0, 0, 0, 0)]


def test_a_log_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    log = logging.getLogger("changelog_engine")
    before = (list(log.handlers), log.propagate, log.level)
    try:
        structured_logs.log_as_json()
        structured_logs.log_as_json()
        log.info("job %r", "a", extra={"figures": SOME})
        try:
            raise ValueError("no")
        except ValueError:
            log.exception("wrong")
    finally:
        log.handlers[:], log.propagate = before[0], before[1]
        log.setLevel(before[2])
    first, second = (json.loads(line) for line in errors.getvalue().splitlines())
    assert (first["message"], first["level"], first["job"]) == ("job 'a'", "INFO", "words")
    assert first["figures"]["sources"]["s"]["behind"] == 1_234
    assert "ValueError: no" in second["exception"]


PROGRAM = """
import sys
from changelog_engine.api.common import Configuration, Types
from changelog_engine.api.datastream import StreamExecutionEnvironment
from changelog_engine.testing import without_spark

configuration = Configuration()
configuration.set_string("changelog.progress.show", sys.argv[1])
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(1).enable_checkpointing(10)
env.from_collection(["one", "two"], Types.STRING()).print()
with without_spark():
    env.execute("seen")
print("after it")
"""


def _on_a_terminal(tmp_path: Path, show: str) -> str:
    """What a terminal gets to see of a program whose two streams it is."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, show], cwd=tmp_path, stdout=follower, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        seen = b""
        while True:
            try:
                data = os.read(leader, 65_536)
            except OSError:  # the last writer has ended
                break
            if not data:
                break
            seen += data
    os.close(leader)
    assert process.returncode == 0, seen.decode()
    return seen.decode().replace("\r\n", "\n")


def test_on_a_real_terminal(tmp_path: Path) -> None:
    seen = _on_a_terminal(tmp_path, "always")
    lines = [line.rpartition("\x1b[2K")[2].strip("\r") for line in seen.strip().split("\n")]
    assert lines[0].startswith("job 'seen': folder ")
    assert [line for line in lines if line in ("one", "two")] == ["one", "two"]
    assert lines[-2].startswith("job 'seen' finished after ")
    assert lines[-1] == "after it"


def test_quiet_on_a_real_terminal(tmp_path: Path) -> None:
    assert _on_a_terminal(tmp_path, "never").splitlines() == ["one", "two", "after it"]


def test_a_job_that_finished_says_why_it_begins_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def run() -> list[str]:
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration()
            .set_string("state.changelog.dstl.dfs.base-path", str(tmp_path))
            .set_string("changelog.progress.show", "always")
        )
        env.enable_checkpointing(10)
        env.from_collection([1], Types.LONG()).add_sink(lambda value: None)
        caplog.clear()
        with without_spark():
            env.execute("again")
        return [record.message for record in caplog.records if "folder" in record.message]

    caplog.set_level("INFO", "changelog_engine")
    (first,) = run()
    assert first.endswith("begins empty")
    (second,) = run()
    assert second.endswith("begins empty, since attempt 1 finished")
