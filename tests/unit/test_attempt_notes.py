"""What is noted of attempts: how operators are connected, and the error that ended one; a kill leaves none."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.script import DriverKilled, Fault, Script

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.cli.program import main
from changelog_engine.driver.attempt_notes import failure_of
from changelog_engine.driver.journal import JobJournal
from changelog_engine.errors import (
    ChangelogEngineError,
    ConnectorError,
    EnvironmentNotReadyError,
    FencedError,
    JobExecutionError,
    JobInterruptedError,
    LostCommitError,
    StorageError,
)
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.inspection.jobs import job_status, list_jobs
from changelog_engine.inspection.timeline import Timeline, end_of
from changelog_engine.launch import RunningJob, launched_by, run_job
from changelog_engine.ledger.attempt_notes import (
    KEPT,
    START_FILE,
    AttemptFailure,
    AttemptNote,
    read_notes,
    write_note,
)
from changelog_engine.storage.opening import open_storage
from changelog_engine.ui.app import Page
from changelog_engine.ui.report import make_report


class Fails(KeyedProcessFunction):
    """Counts, and fails at a word so often."""

    left = 0

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        if value == "bad" and Fails.left:
            Fails.left -= 1
            raise ValueError("<b>no</b> " + "x" * 20_000)
        yield value


class KilledAt(TestJob):
    at = 0

    def on_commit(self, checkpoint: Any) -> None:
        if checkpoint.id == self.at:
            raise DriverKilled(Fault.PARTS)


def _page(base: Path, address: str) -> str:
    """What the page answers."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": address, "query_string": b"", "headers": []}
    asyncio.run(Page(str(base)).app()(scope, receive, send))
    assert sent[0]["status"] == 200
    return sent[1]["body"].decode()


def asked(*words: str) -> Any:
    done = CliRunner().invoke(main, [*words, "--json"])
    return json.loads(done.stdout)


def test_errors_kills_and_edges_are_told_afterwards(tmp_path: Path):
    words = ["a", "b", "a", "bad", "c", "a"]
    graph = keyed_job(words, Fails(), key_type=Types.STRING(), uid="counts", name="job")
    job = KilledAt(tmp_path, Script((1,)))
    job.at = 2
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    path = str(tmp_path / "job")
    assert asked("status", path)["state"] == "killed"
    lock = tmp_path / "job" / "driver.lock"
    elsewhere = {**json.loads(lock.read_text()), "host": "elsewhere"}
    lock.write_text(json.dumps(elsewhere))
    assert asked("status", path)["state"] == "running", "as far as can be seen: its last sign is of just now"
    lock.write_text(json.dumps({**elsewhere, "signed_ms": elsewhere["signed_ms"] - 90_000}))
    assert asked("status", path)["state"] == "killed or running"
    assert asked("jobs", str(tmp_path))[0]["state"] == "killed or running"
    assert asked("timeline", path)["attempts"][0]["end"] == "killed or running"
    shown = CliRunner().invoke(main, ["status", path]).stdout
    assert "killed, or running elsewhere" in shown
    assert re.search(r"; no sign of life for \d\.\d min\)", " ".join(shown.split()))
    assert shown.splitlines()[-1].startswith("No error was noted, as after kill -9")
    assert (
        "if no driver runs it elsewhere, start the job again, and by default it goes on from checkpoint 2."
        in shown
    )
    assert asked("status", path)["next_run"] == {
        "checkpoint": 2, "reason": "attempt 1 did not finish"
    }  # fmt: skip
    job.at, Fails.left = 0, 2
    job.run_driver(graph)  # restarts twice by itself

    told = asked("timeline", path)["attempts"]
    assert [each["end"] for each in told] == ["killed", "failed", "failed", "finished"]
    assert [each["failure"] is None for each in told] == [True, False, False, True]
    failure = told[1]["failure"]
    facts = failure["error"], failure["call"], failure["key"], failure["element"]
    assert facts == ("UserFunctionError", "process_element", "'b'", "'bad'")
    assert "raise ValueError(" in failure["traceback"]
    assert failure["traceback"].endswith("x" * 100)
    assert "Traceback" not in failure["message"]
    assert len(failure["message"].encode()) <= 4_000
    assert len(failure["traceback"].encode()) <= 16_000

    status = asked("status", path)
    assert [each["attempt"] for each in status["failures"]] == [2, 3]
    ways = {(each["source"], each["target"]): each["exchange"] for each in status["edges"]}
    uids = {each.uid for each in job_operators(path)}
    assert {uid for way in ways for uid in way} == uids
    assert [exchange for (_, target), exchange in ways.items() if target == "counts"] == ["hash"]
    assert {each["stage"] for each in status["edges"]} <= uids
    shown = CliRunner().invoke(main, ["status", path]).stdout
    assert "process_element of operator 'counts'" in " ".join(shown.split())
    assert "Traceback" not in shown  # it went on


class StoppedAtOnce(TestJob):
    def on_commit(self, checkpoint: Any) -> None:
        self.coordinator.control.stop()


def test_an_end_is_noted_for_attempts_whose_checkpoints_do_not_tell_it(tmp_path: Path):
    graph = keyed_job(["a", "b", "c"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    Fails.left = 0
    StoppedAtOnce(tmp_path, Script((1,))).run_driver(graph)
    TestJob(tmp_path).run_driver(graph, restore="latest")
    notes = read_notes(open_storage(str(tmp_path / "job" / "changelog")), [1, 2])
    assert [end_of(None, notes[attempt]) for attempt in (1, 2)] == ["stopped", "finished"]
    assert end_of(None, None) == "killed or failed"


def test_an_attempt_that_was_killed_behind_its_last_checkpoint_did_not_finish(tmp_path: Path):
    """Its input had ended, but its sinks may have output to commit: status, timeline and the next run say the same."""
    graph = keyed_job(["a", "b", "c"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    Fails.left = 0
    TestJob(tmp_path).run_driver(graph)
    path, log = str(tmp_path / "job"), open_storage(str(tmp_path / "job" / "changelog"))
    assert (job_status(path).summary.state, Timeline(path).attempts[0].end) == ("finished", "finished")
    write_note(log, replace(read_notes(log, [1])[1], ended=None))
    status = job_status(path)
    assert (status.summary.state, Timeline(path).attempts[0].end) == ("killed", "killed")
    assert status.next_run is not None
    assert "did not finish" in status.next_run.reason


def job_operators(path: str) -> list[DescribedOperator]:
    from changelog_engine.inspection.jobs import job_status

    newest = job_status(path).newest
    assert newest is not None
    return newest.operators


def test_a_job_between_two_attempts_is_told_from_one_that_goes_well(tmp_path: Path):
    """As one that waits for room on a full disk, again and again."""
    Fails.left = 1
    graph = keyed_job(["a", "bad"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    with pytest.raises(JobExecutionError):
        TestJob(tmp_path, Script((1,)), restart=NO_RESTART).run_driver(graph)
    journal = JobJournal.open(str(tmp_path), "job")
    try:
        shown = CliRunner().invoke(main, ["status", str(tmp_path / "job")]).stdout
        assert "attempt 1 failed, and the next has not begun" in " ".join(shown.split())
        journal.begin_attempt(None)
        shown = CliRunner().invoke(main, ["status", str(tmp_path / "job")]).stdout
        assert "running: process" in shown
        assert "the next has not begun" not in shown
    finally:
        journal.close()


def test_a_driver_that_ends_before_the_first_attempt_is_said_to_have_begun_none(tmp_path: Path):
    def shown() -> str:
        return " ".join(CliRunner().invoke(main, ["status", str(tmp_path / "job")]).stdout.split())

    with closing(JobJournal.open(str(tmp_path), "job")):
        assert re.search(
            r"running: process \d+ on \S+, since .* UTC; the first attempt has not begun", shown()
        )
    assert re.search(r"state no attempt has begun \(the last driver known here: process \d+ on ", shown())
    assert "the last line that it wrote on standard error says why. Do what that says, then start" in shown()


class _WithoutSpark:
    """What runs no epochs, as a cluster that does not answer; see ``launch.Cluster``."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def stage(self, given: Any) -> None: ...

    def starting(self, settings: Any) -> str:
        return "starting"

    def runner(self, job: Any, staged: Any) -> NoReturn:
        raise self.error


def _start(base: Path, error: BaseException, **settings: Any) -> None:
    """A start that ends before an attempt begins, at the latest where it comes to what runs its epochs."""
    graph = keyed_job(["a"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    with pytest.raises((ChangelogEngineError, KeyboardInterrupt)):
        RunningJob(graph, replace(TestJob(base).settings, **settings), _WithoutSpark(error))


def _shown(base: Path) -> str:
    return " ".join(CliRunner().invoke(main, ["status", str(base / "job")]).stdout.split())


def test_status_says_why_a_start_failed_until_an_attempt_begins(tmp_path: Path):
    _start(tmp_path, EnvironmentNotReadyError("Spark did not start", "Mend its master"))
    assert "state no attempt has begun (the last driver known here: process " in _shown(tmp_path)
    assert "EnvironmentNotReadyError: Spark did not start. Mend its master" in _shown(tmp_path)
    assert (
        "Do what the error of the last start says, then start the job again: by default it begins empty"
        in (_shown(tmp_path))
    )
    assert asked("status", str(tmp_path / "job"))["failed_start"]["message"].startswith("Spark did not")
    [listed] = list_jobs(str(tmp_path))
    assert listed.state == "failed"
    page = _page(tmp_path, "/job/job")
    assert "before an attempt began, with EnvironmentNotReadyError:</b> Spark did not start." in page
    TestJob(tmp_path).run_driver(keyed_job(["a"], Fails(), key_type=Types.STRING(), uid="counts", name="job"))
    assert asked("status", str(tmp_path / "job"))["failed_start"] is None
    assert "did not start" not in _shown(tmp_path)


def test_a_job_that_ran_and_does_not_start_again_says_why(tmp_path: Path):
    graph = keyed_job(["a"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    TestJob(tmp_path).run_driver(graph)
    _start(tmp_path, AssertionError("it comes to nothing that runs it"), restore="99")
    assert "state failed: the last start ended before an attempt began" in _shown(tmp_path)
    assert "start " in _shown(tmp_path)
    assert "RestoreError: changelog.restore = 99: there is no checkpoint 99 in " in _shown(tmp_path)
    [listed] = list_jobs(str(tmp_path))
    assert listed.state == "failed"
    path = str(tmp_path / "job")
    whole, told = make_report(path).html, make_report(path, entries=0).html
    assert "changelog.restore = 99: there is no checkpoint 99" in whole
    assert "changelog.restore = 99: there is no checkpoint 99" not in told
    with closing(JobJournal.open(str(tmp_path), "job")) as journal:
        assert "did not" not in _shown(tmp_path).partition("records behind")[2], "it runs again"
        assert job_status(path).failed_start is None
        journal.begin_attempt(None)
    assert job_status(path).failed_start is None


def test_a_start_that_was_stopped_did_not_fail(tmp_path: Path):
    _start(tmp_path, KeyboardInterrupt())
    assert "Its last start was stopped before an attempt began. Start the job again" in _shown(tmp_path)
    [listed] = list_jobs(str(tmp_path))
    assert listed.state == "empty"


def test_ctrl_c_while_a_job_with_checkpoints_starts_again_does_not_say_that_it_begins_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = KilledAt(tmp_path, Script((1, 1)))
    job.at = 1
    graph = keyed_job(["a", "b"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    cluster = _WithoutSpark(KeyboardInterrupt())
    with launched_by(partial(RunningJob, cluster=cluster)), pytest.raises(JobInterruptedError):
        run_job(graph, job.settings)
    assert capsys.readouterr().err == (
        "job 'job' stopped while it started: run again, it begins where this run would have begun\n"
    )


def test_a_driver_that_is_refused_notes_nothing_in_the_folder_of_the_one_that_runs(tmp_path: Path):
    with closing(JobJournal.open(str(tmp_path), "job")) as journal:
        _start(tmp_path, AssertionError("it is refused"), restore="auto")
        for error in (FencedError("another driver"), LostCommitError("another job's", "/x")):
            journal.note_failed_start(error)
        assert not (tmp_path / "job" / "changelog" / START_FILE).exists()


def test_an_error_of_an_attempt_is_noted_of_that_one_alone(tmp_path: Path):
    with closing(JobJournal.open(str(tmp_path), "job")) as journal:
        journal.begin_attempt(None)
        journal.note_failed_start(StorageError("the disk"))
        assert not (tmp_path / "job" / "changelog" / START_FILE).exists()


@pytest.mark.parametrize(
    "text", [b"", b"no JSON", b"[]", b'{"format": 1, "after": 0, "failure": {"time_ms": "x"}}']
)
def test_a_note_of_a_start_that_cannot_be_read_says_nothing(tmp_path: Path, text: bytes):
    JobJournal.open(str(tmp_path), "job").close()
    (tmp_path / "job" / "changelog" / START_FILE).write_bytes(text)
    status = job_status(str(tmp_path / "job"))
    assert (status.failed_start, status.summary.state) == (None, "empty")


def test_a_driver_that_gives_up_before_the_first_checkpoint_leaves_its_error(tmp_path: Path):
    Fails.left = 1
    graph = keyed_job(["bad"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    with pytest.raises(JobExecutionError):
        TestJob(tmp_path, restart=NO_RESTART).run_driver(graph)
    status = asked("status", str(tmp_path / "job"))
    assert (status["state"], status["newest_checkpoint"]) == ("failed", None)
    assert status["failures"][0]["failure"]["operator"] == "counts"
    shown = CliRunner().invoke(main, ["status", str(tmp_path / "job")]).stdout
    told = shown.partition("the error of attempt 1 (--json has all of it):\n")[2].splitlines()
    assert "    raise ValueError(" in "\n".join(told)
    assert all(len(line) < 700 for line in told)
    assert told[-1].startswith(
        "Do what the error says, then start the job again: by default it begins empty."
    )


def test_a_report_that_cannot_be_written_says_why(tmp_path: Path):
    """As on a read-only disk: what was begun beside it cannot be removed either, and that is not the news."""
    TestJob(tmp_path).run_driver(keyed_job(["a"], Fails(), key_type=Types.STRING(), uid="counts", name="job"))
    for force in ([], ["--force"]):
        (tmp_path / "file").touch()
        told = CliRunner().invoke(
            main, ["report", str(tmp_path / "job"), str(tmp_path / "file" / "out.html"), *force]
        )
        assert told.exit_code == 1
        assert told.stderr.startswith(
            f"Error: {tmp_path / 'file' / 'out.html'} cannot be written: Not a directory"
        )


def test_a_report_without_entries_has_no_words_of_errors(tmp_path: Path):
    """They have keys and elements."""
    Fails.left = 1
    graph = keyed_job(["a", "bad"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    TestJob(tmp_path).run_driver(graph)
    path = str(tmp_path / "job")
    [failed] = [each for each in asked("timeline", path)["attempts"] if each["failure"]]
    for words in ("<b>no</b>", "'bad'"):
        assert words in failed["failure"]["message"]
    whole, told = make_report(path).html, make_report(path, entries=0).html
    assert "UserFunctionError" in told
    for words in ("&lt;b&gt;no&lt;/b&gt;", "&#39;bad&#39;", "&#39;b&#39;", "Traceback"):
        assert (words in whole, words in told) == (True, False), words


def test_a_hostile_note_breaks_neither_status_nor_page(tmp_path: Path):
    Fails.left = 0
    graph = keyed_job(["a"], Fails(), key_type=Types.STRING(), uid="counts", name="job")
    TestJob(tmp_path).run_driver(graph)
    failure = {"time_ms": 10**400, "error": "\ud800<i>", "message": "m", "traceback": "t"}
    note = {"format": 1, "attempt": 1, "failure": failure}
    (tmp_path / "job" / "changelog" / "_attempt-1.json").write_text(json.dumps(note))
    assert CliRunner().invoke(main, ["status", str(tmp_path / "job")]).exit_code == 0
    assert "\\ud800&lt;i&gt;" in _page(tmp_path, "/job/job/now")


def test_a_note_is_bounded_and_a_damaged_one_is_none(tmp_path: Path):
    folder = open_storage(str(tmp_path))
    long = AttemptFailure(1, "é" * 9_000, "\ud800" * 9_000, "first" + "z" * 90_000 + "last")
    write_note(folder, AttemptNote(1, (), long))
    read = read_notes(folder, [1])[1].failure
    assert read is not None
    assert len(read.error.encode()) <= 1_000
    assert read.traceback.startswith("first")
    assert read.traceback.endswith("last")
    assert (tmp_path / "_attempt-1.json").stat().st_size < 30_000
    for bad in (b"", b"[1]", b'{"format": 2, "attempt": 2}', b'{"format": 1, "attempt": 3}', b"\xff" * 99):
        (tmp_path / "_attempt-2.json").write_bytes(bad)
        assert read_notes(folder, [2]) == {}
    hostile = {"format": 1, "attempt": 2, "edges": [1, {"stage": 1}], "failure": {"time_ms": "<script>"}}
    (tmp_path / "_attempt-2.json").write_text(json.dumps(hostile))
    assert read_notes(folder, [2]) == {2: AttemptNote(2)}
    assert max(read_notes(folder, range(1, KEPT + 2))) == 2
    assert 1 not in read_notes(folder, range(1, KEPT + 2))


def test_a_note_that_cannot_be_read_is_told_and_final_ones_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    TestJob(tmp_path).run_driver(keyed_job(["a"], Fails(), key_type=Types.STRING(), uid="counts", name="job"))
    job = tmp_path / "job"
    note = next((job / "changelog").glob("_attempt-*.json"))
    known: dict[int, AttemptNote] = {}
    assert job_status(str(job), known).unreadable == ()
    assert list(known) == [1]
    note.unlink()
    note.mkdir()
    assert job_status(str(job), known).unreadable == (), "what was final is not read again"
    status = job_status(str(job))
    assert status.faults == ()
    assert len(status.unreadable) == 1
    assert note.name in status.unreadable[0]
    shown = CliRunner().invoke(main, ["status", str(job)])
    assert shown.exit_code == 0
    assert note.name in "".join(shown.stdout.split())
    assert Timeline(str(job)).attempts[0].end == "finished"


def test_what_another_librarys_error_says_is_not_kept():
    try:
        try:
            raise RuntimeError("password=secret")
        except RuntimeError as error:
            raise ConnectorError("the database refuses (password hidden)") from error
    except ConnectorError as error:
        kept = failure_of(error, 7)
    assert "secret" not in repr(kept).replace('raise RuntimeError("password=secret")', "")
    assert "RuntimeError\nwhich led to:\n" in kept.traceback
    assert kept.traceback.endswith("ConnectorError: the database refuses (password hidden)")
