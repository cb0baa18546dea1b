"""The console's questions: what is shown of small jobs, in all three forms, and what is said of what is not there."""

from __future__ import annotations

import csv
import datetime
import fcntl
import io
import json
import os
import pty
import py_compile
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from support.functions import Count
from support.graphs import GraphBuilder, keyed_job
from support.jobs import TestJob
from support.reminders import reminded
from support.script import DriverKilled, Failure, Fault, Script
from support.window_model import UID as WINDOWS
from support.window_model import Case, window_job
from test_cli import cells, cli, refused, run

from api.common import Types
from api.common.time import Time
from api.datastream import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from changelog_engine.cli import completion, main
from changelog_engine.cli.console import console
from changelog_engine.cli.given_corrections import key_of
from changelog_engine.cli.shown import Answer, _print
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.connectors.files import FileSource
from changelog_engine.connectors.iterable import IterableSource
from changelog_engine.display import Grid
from changelog_engine.driver.journal import JobJournal
from changelog_engine.errors import ConfigurationError, CorruptChangelogError, RestoreError, StorageError
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.graph.nodes import StateKind
from changelog_engine.inspection import differences as differences_module
from changelog_engine.inspection import doctor
from changelog_engine.inspection.differences import differences
from changelog_engine.inspection.jobs import job_status, list_jobs
from changelog_engine.inspection.key_history import key_history
from changelog_engine.inspection.points import open_ledger, open_point
from changelog_engine.inspection.states import entries_at, states_at
from changelog_engine.inspection.timeline import Timeline
from changelog_engine.inspection.values import as_json, key_identities
from changelog_engine.ledger.job_path import NAME_A_JOB, open_job
from changelog_engine.ledger.points import FORMS, checkpoint_at, time_of
from changelog_engine.provenance.result import ExplainedOutput, Explanation, SourceRecord
from changelog_engine.readable import iso
from changelog_engine.replay.compare import Difference
from changelog_engine.replay.job import ReplayReport
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.state.handles_in_c import CALLS
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Entry
from changelog_engine.types import RowTypeInfo
from changelog_engine.types.instant import Instant
from changelog_engine.types.row import Row
from changelog_engine.types.row_loops import LOOPS
from changelog_engine.windowing.spec import Firing
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

QUESTIONS = (
    ("jobs", "BASE"),
    ("status", "PATH"),
    ("metrics", "PATH"),
    ("timeline", "PATH"),
    ("states", "PATH"),
    ("state", "PATH", "--state", "count"),
    ("history", "PATH", "--key", "to"),
    ("diff", "PATH", "3", "latest"),
    ("checkpoints", "PATH"),
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints 1 to 3 of attempt 1, then 4 and 5 of attempt 2, which began at 1."""
    base = tmp_path_factory.mktemp("base")
    run(base)
    return run(base, "to be is to do", restore="1")


def asked(job: Path, question: tuple[str, ...], *more: str) -> Result:
    places = {"BASE": str(job.parent), "PATH": str(job)}
    return cli(*[places.get(word, word) for word in question], *more)


@pytest.mark.parametrize("question", QUESTIONS, ids=[question[0] for question in QUESTIONS])
def test_each_answer_has_three_forms_and_no_form_changes_anything(
    job: Path, question: tuple[str, ...]
) -> None:
    before = {str(path): path.stat().st_mtime_ns for path in job.parent.rglob("*")}
    table = asked(job, question)
    assert table.exit_code == 0, table.output
    as_json = asked(job, question, "--json")
    assert as_json.exit_code == 0
    assert json.loads(as_json.output)
    header, *rows = list(csv.reader(io.StringIO(asked(job, question, "--csv").output)))
    assert rows
    assert all(len(row) == len(header) for row in rows)
    assert asked(job, question, "--csv", "--json").exit_code == 2
    assert {str(path): path.stat().st_mtime_ns for path in job.parent.rglob("*")} == before


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_tables_in_a_narrow_place_tear_nothing_and_say_what_they_leave_out(
    job: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def words_of(question: tuple[str, ...]) -> dict[str, Counter[str]]:
        """The words of each column that no place tears."""
        names, *rows = csv.reader(io.StringIO(asked(job, question, "--csv").output))
        words = zip(names, *([cell.split() for cell in row] for row in rows), strict=True)
        return {
            name: Counter(word for cell in of for word in cell if len(word) <= 14 and word.isalpha())
            for name, *of in words
        }

    monkeypatch.setattr("changelog_engine.cli.console._PIPE_WIDTH", width)
    for question in QUESTIONS:
        output = asked(job, question).output
        spared = re.search(
            r"^too narrow for (.*): a wider terminal, --csv and --json show them$", output, re.M
        )
        left_out = [] if spared is None else spared[1].removesuffix(" (UTC)").split(", ")
        assert width <= 80 or not left_out
        there = Counter(output.split())
        for name, words in words_of(question).items():
            assert name in left_out or words <= there, (question, name)
        lines = output.splitlines()
        assert all(len(line) <= width and line == line.rstrip() for line in lines if "──" in line)


def test_where_no_table_has_room_there_are_records(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("changelog_engine.cli.console._PIPE_WIDTH", 24)
    columns = ("number", "operator", "state", "value")
    rows = [(1, "count", "total", None), (2, "sum", "largest", "x y")]
    _print(Answer(None, [Grid(columns, rows, right=1, spare=("state",))]))  # records have room for it, too
    fields = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert fields == [
        ["number", "1"],
        ["operator", "count"],
        ["state", "total"],
        ["value", "-"],
        ["number", "2"],
        ["operator", "sum"],
        ["state", "largest"],
        ["value", "x y"],
    ]


def test_jobs_of_a_base_path(job: Path, tmp_path: Path) -> None:
    (listed,) = json.loads(cli("jobs", job.parent, "--json").output)
    assert (listed["name"], listed["state"], listed["attempts"], listed["newest"]) == (
        "words",
        "finished",
        2,
        5,
    )
    for folder in (job, job / "changelog"):
        assert f"is a job's own folder: name the base path, {job.parent}\n" in refused(cli("jobs", folder))
    for command in (("jobs", f"{job.parent}x"), ("ui", f"{job}x"), ("status", f"{job}x")):
        assert "no such folder; the nearest in" in refused(cli(*command))
    assert cli("jobs", tmp_path).output == f"no jobs below {tmp_path}\n"
    (tmp_path / "file").touch()
    assert "is a file" in refused(cli("ui", tmp_path / "file"))


def test_a_damaged_job_is_listed_as_such(job: Path, tmp_path: Path) -> None:
    folder = run(tmp_path)
    commits = sorted((folder / "changelog" / "_delta_log").glob("*.json"))
    commits[-1].write_bytes(b"")
    (listed,) = list_jobs(str(tmp_path))
    assert listed.state == "damaged"
    assert listed.fault is not None
    assert "is empty" in listed.fault
    assert cli("jobs", tmp_path).exit_code == 1


def test_a_job_that_cannot_be_read_hides_no_other(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path)
    theirs = tmp_path / "theirs" / "changelog" / "_delta_log"
    theirs.mkdir(parents=True)
    listed = LocalDisk.list

    def refusing(disk: LocalDisk, path: str = "", after: str = "") -> list[Entry]:
        if disk.join(path) == str(theirs):
            raise StorageError(
                f"could not list {theirs}: Permission denied. Give this user the right to read it"
            )
        return listed(disk, path, after)

    monkeypatch.setattr(LocalDisk, "list", refusing)
    states = {each.name: each.state for each in list_jobs(str(tmp_path))}
    assert states.pop("theirs") == "unreadable"
    assert set(states.values()) == {"finished"}
    answer = cli("jobs", tmp_path)
    assert answer.exit_code == 1
    assert f"theirs: could not list {theirs}: Permission denied" in answer.output


@pytest.mark.parametrize("command", ["status", "jobs", "timeline", "verify", "materialize"])
def test_a_path_that_is_no_job_s_folder_is_said_to_be_what_it_is(
    job: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    told = refused(cli(command, tmp_path / "file"))
    assert told == f"Error: {tmp_path / 'file'} is a file. {NAME_A_JOB}\n"
    commit = next((job / "changelog" / "_delta_log").glob("*.json"))
    assert refused(cli(command, commit)) == (
        f"Error: {commit} is a file; it lies in the folder of a job: name that, {job}\n"
    )


def test_a_folder_without_a_changelog_is_told_which_has_one(job: Path, tmp_path: Path) -> None:
    assert refused(cli("status", tmp_path)) == f"Error: there is no changelog in {tmp_path}. {NAME_A_JOB}\n"
    for part in (job / "changelog" / "_delta_log", job / "snapshots"):
        assert refused(cli("status", part)).endswith(f"; it lies in the folder of a job: name that, {job}\n")
    assert refused(cli("status", job.parent)).endswith(f"; it holds the job words: name its folder, {job}\n")


def test_the_folder_where_a_program_ran_is_told_from_its_base_path(job: Path, tmp_path: Path) -> None:
    """`changelog-engine jobs .` said that there are none."""
    base = tmp_path / "changelog-data"
    base.symlink_to(job.parent)
    leads = f"; its folder changelog-data is a base path; it holds the job words: name its folder, {base / 'words'}\n"
    assert cli("jobs", tmp_path).output == f"no jobs below {tmp_path}{leads}"
    assert refused(cli("status", tmp_path)) == f"Error: there is no changelog in {tmp_path}{leads}"


def test_a_command_that_is_not_there() -> None:
    assert "Error: No such command 'staus'; did you mean 'status'?" in cli("staus").output
    assert "there is no page 'runbok'; did you mean 'runbook'? `changelog-engine help`" in refused(
        cli("help", "runbok")
    )


def test_a_driver_that_runs_is_seen_and_not_disturbed(tmp_path: Path) -> None:
    folder = run(tmp_path)
    assert job_status(str(folder)).driver.running is False
    journal = JobJournal.open(str(tmp_path), "words")
    try:
        driver = job_status(str(folder)).driver
        assert (driver.running, driver.pid) == (True, os.getpid())
        assert "running: process" in cli("status", folder).output
    finally:
        journal.close()
    with JobJournalOpened(tmp_path):  # nobody holds the lock because somebody looked
        pass


class JobJournalOpened:
    """A driver's hold on a job."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def __enter__(self) -> None:
        self.journal = JobJournal.open(str(self.base), "words")

    def __exit__(self, *error: Any) -> None:
        self.journal.close()


def test_status_has_positions_watermarks_and_upkeep(job: Path) -> None:
    found = job_status(str(job))
    assert [(each.split, each.position, each.finished) for each in found.sources] == [("collection", 5, True)]
    assert [(each.operator, each.ended) for each in found.watermarks] == [("count", True)]
    assert found.upkeep is not None
    assert (found.upkeep.snapshot, found.upkeep.log_rows, found.upkeep.oldest) == (None, 14, 1)
    assert (found.restarts, found.branches) == (1, (1,))


def test_figures_of_checkpoints(job: Path) -> None:
    figures = json.loads(cli("metrics", job, "--json").output)
    assert [each["records_in"] for each in figures] == [2, 2, 2, 2, 1]
    assert figures[-1]["mutations"]["count"]["count"] == 1
    after = [figures[following]["parent_acknowledged_ms"] for following in (1, 2, 4)]
    table = csv.DictReader(io.StringIO(cli("metrics", job, "--csv").output))
    committed = [row["committed ms"] for row in table]
    # Of the newest of each attempt nobody knows: no checkpoint of the same driver followed.
    assert committed == [str(round(after[0])), str(round(after[1])), "", str(round(after[2])), ""]
    output = cli("metrics", job).output
    assert "records in" in output
    assert "write ms" in output
    assert ["count", "places"] in [row[-2:] for row in cells(output)]
    assert "records" in cli("status", job).output


def test_points(job: Path) -> None:
    lineage = open_ledger(str(job)).lineage
    newest = lineage.checkpoint(5)
    times = {number: lineage.checkpoint(number).time_ms for number in range(1, 6)}
    texts = {"latest": 5, "-1": 5, "-2": 4, "-3": 1, "2": 2, "attempt:1": 3}
    assert {text: checkpoint_at(lineage, text).id for text in texts} == texts
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(times[3] / 1000))
    exact = f"{second}.{times[3] % 1000:03d}"
    assert checkpoint_at(lineage, exact).id == 3
    assert checkpoint_at(lineage, f"as-of:{exact}+00:00").id == 3
    assert checkpoint_at(lineage, exact.partition("T")[2]).id == 3
    assert (
        checkpoint_at(lineage, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 1))).id
        == newest.id
    )
    with pytest.raises(RestoreError, match=r"is in the future: it is .* give latest"):
        checkpoint_at(lineage, "2100-01-01")


@pytest.mark.parametrize("second", ["1970-01-01T09:09:14", "2026-11-27T09:09:14", "1969-12-31T18:30:20"])
def test_a_time_means_its_millisecond(job: Path, second: str) -> None:
    """One less would be the checkpoint before."""
    lineage = open_ledger(str(job)).lineage
    first = time_of(second, lineage)
    assert [time_of(f"{second}.{ms:03d}", lineage) for ms in range(1000)] == [
        first + ms for ms in range(1000)
    ]
    assert time_of(f"{second}.0009", lineage) == first


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("99", "there is no checkpoint 99 in .*: the nearest: 5"),
        ("0", "there is no checkpoint 0 in .*: the nearest: 1"),
        ("-4", "there is no checkpoint -4 in .*, -1 is the newest .*, the nearest is -3"),
        ("attempt:7", "there is no checkpoint of attempt 7 .*: its newest attempt is 2"),
        ("2001-01-01", "at or before 2001-01-01 00:00:00.000 .*: the nearest is checkpoint 1"),
        ("25:00:00", "is not a point of a job"),
        ("9" * 5000, "is not a point of a job"),
        ("yesterday", "'yesterday' is not a point of a job: give an id such as 12"),
    ],
)
def test_points_that_are_not_there(job: Path, point: str, said: str) -> None:
    with pytest.raises(RestoreError, match=said):
        open_point(str(job), point)


@pytest.mark.parametrize("command", [("timeline",), ("history", "--key", "to")])
def test_a_range_that_ends_before_it_begins_names_both_bounds(job: Path, command: tuple[str, ...]) -> None:
    times = {number: open_ledger(str(job)).lineage.checkpoint(number).time_ms for number in (1, 5)}
    shown = {number: iso(time_ms) for number, time_ms in times.items()}
    name, *options = command
    for start, end in (("5", "1"), ("latest", shown[1]), (shown[5], "1"), (shown[5], shown[1])):
        message = refused(cli(name, job, *options, "--from", start, "--to", end))
        assert message.startswith(f"Error: the range from '{start}' to '{end}' ends before it begins: ")
        assert message.index(shown[5]) < message.index("is after") < message.rindex(shown[1])
    assert cli(name, job, *options, "--from", "5", "--to", "5").exit_code == 0


def test_a_range_without_anything_in_it_says_what_there_is(job: Path) -> None:
    for options in (("--from", "2100-01-01"), ("--to", "2001-01-01")):
        assert re.search(
            r"no checkpoint .*the job has 1 \(.*\) to 5 \(", cli("timeline", job, *options).output
        )
        answer = cli("history", job, "--key", "to", *options)
        assert (answer.exit_code, key_history(str(job), "to").outside) == (0, 0)
        changes = len(key_history(str(job), "to").changes)
        assert f"{changes} more changes of the key outside of --from and --to" in answer.output
        assert cli("history", job, "--key", "tp", *options).exit_code == 1
    assert (
        "--skip passes over all of 4 entries" in cli("state", job, "--state", "count", "--skip", "9").output
    )


def test_another_job_that_moves_on_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files may leave it as often as those of the job whose path is given."""
    job, other = run(tmp_path, name="one"), run(tmp_path, name="other")
    live, moves = differences_module._live, iter((1, 2, 3))

    def gone(*arguments: Any) -> Any:
        if (checkpoint := next(moves, None)) is None:
            return live(*arguments)
        materialize(open_job(str(other)), checkpoint)
        raise CorruptChangelogError("is missing", "part-1")

    monkeypatch.setattr("changelog_engine.inspection.differences._live", gone)
    assert differences(str(job), "latest", "other@latest").equal
    moves = iter((3, 3))
    with pytest.raises(CorruptChangelogError, match="is missing"):
        differences(str(job), "latest", "other@latest")


def test_a_job_whose_folder_is_a_link_is_listed(job: Path, tmp_path: Path) -> None:
    """Another disk may have it; other links, pipes and files are no jobs."""
    (tmp_path / "elsewhere").symlink_to(job)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    assert [(each.name, each.fault) for each in list_jobs(str(tmp_path))] == [("words", None)]


def test_points_are_whole_numbers_too(job: Path) -> None:
    assert differences(str(job), 1, -1) == differences(str(job), "1", "latest")
    assert key_history(str(job), "to", start=2, end=4) == key_history(str(job), "to", start="2", end="4")
    assert repr(Timeline(str(job))).startswith("5 checkpoints in 2 attempts of ")


def test_counts_below_zero_are_refused(job: Path) -> None:
    """Slices take them, from the other end."""
    explained = Explanation("words", None, 1, "a key")
    replayed = ReplayReport("words", None, 1, state=[Difference("count", "n", "a", None, 1, [], [])])
    for ask in (
        lambda: explained.text(limit=-1),
        lambda: replayed.text(limit=-1),
        lambda: entries_at(str(job), first=-1),
        lambda: entries_at(str(job), limit=-1),
        lambda: differences(str(job), "1", "5", limit=-1),
        lambda: Timeline(str(job)).checkpoints(limit=-1),
    ):
        with pytest.raises(ConfigurationError, match=r"(first|limit) must be at least 0, got -1"):
            ask()


@dataclass(slots=True)
class Slotted:
    amount: int


def test_an_explanation_of_records_without_a_dict_is_json() -> None:
    record = SourceRecord("source", "numbers", "0", 1, Slotted(7))
    found = Explanation("words", None, 1, "a key", outputs=[ExplainedOutput("sink", 7, None, 1, record)])
    assert found.to_json()["outputs"][0]["cause"]["value"] == {"amount": 7}


def test_every_command_takes_every_form_of_a_point(job: Path, tmp_path: Path) -> None:
    groups = [click.Context(main, info_name="changelog-engine")]
    taking = []
    for context in groups:  # grows
        assert isinstance(context.command, click.Group)
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            below = click.Context(command, parent=context, info_name=name)
            if isinstance(command, click.Group):
                groups.append(below)
            options = [each for each in command.params if isinstance(each, click.Option)]
            points = [each for each in options if {"--at", "--from", "--to"} & {*each.opts}]
            assert all(each.metavar == "POINT" and FORMS in (each.help or "") for each in points), name
            taking += [name] * bool(points)
    assert {"timeline", "replay", "explain", "impact", "materialize", "fork", "create"} < {*taking}

    def shown(*options: str) -> list[int]:
        answer = json.loads(cli("timeline", job, "--json", *options).output)
        return [each["id"] for each in answer["checkpoints"]]

    third = open_ledger(str(job)).lineage.checkpoint(3).time_ms
    time_of_day = time.strftime("%H:%M:%S", time.gmtime(third / 1000)) + f".{third % 1000:03d}"
    assert shown("--from", "-2") == [4, 5]
    assert shown("--from", time_of_day) == [3, 4, 5]
    assert shown("--from", "2", "--to", time_of_day) == [2, 3]
    assert shown("--from", "2100-01-01") == shown("--to", "2001-01-01") == []
    assert "the nearest is -3" in refused(cli("timeline", job, "--from", "-9"))
    copied = tmp_path / "base" / "words"
    shutil.copytree(job, copied)
    assert "snapshot of checkpoint 4" in cli("materialize", copied, "--at", "-2", "--processes", "1").output
    assert "the nearest: 5" in refused(cli("materialize", copied, "--at", "99"))


def test_the_shell_completes_what_the_job_has(job: Path, tmp_path: Path) -> None:
    shell = ShellComplete(main, {}, "changelog-engine", "_CHANGELOG_ENGINE_COMPLETE")

    def completed(*line: str) -> list[str]:
        *before, incomplete = line
        return [each.value for each in shell.get_completions(list(before), incomplete)]

    path = str(job)
    assert {"state", "states", "status"} == set(completed("stat"))
    assert "--operator" in completed("state", path, "--o")
    assert completed("state", path, "--operator", "") == ["count"]
    assert completed("state", path, "--state", "") == ["count", "places"]
    assert completed("history", path, "--operator", "other", "--state", "") == []
    assert completed("diff", path, "-2", "latest", "--state", "pl") == ["places"]
    assert completed("timeline", path, "--from", "") == ["latest", "5", "4", "3", "2", "1"]
    assert completed("explain", "job.py", path, "--operator", "c") == ["count"]
    assert completed("run", "-D", f"state.changelog.dstl.dfs.base-path={job.parent}", "--job", "w") == [
        "words"
    ]
    assert [each.type for each in shell.get_completions(["verify"], str(tmp_path))] == ["file"]
    for nothing in (str(tmp_path), str(tmp_path / "none"), "s3://", "\x00"):
        assert completed("state", nothing, "--operator", "") == []


def test_a_completion_takes_no_longer_than_it_may_and_runs_nothing_in_a_shell(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = click.Context(main)
    context.params["path"] = str(job)
    names = ["$(touch owned)", "two words", "bad\nplain,--yes"]
    keyed = [DescribedOperator(name, name, "process", 1, 128, keyed=True) for name in names]
    monkeypatch.setattr(completion, "_keyed", lambda ctx: keyed)
    monkeypatch.setenv("_CHANGELOG_ENGINE_COMPLETE", "bash_complete")

    def found() -> list[str]:
        return [each.value for each in completion.complete_operator(context, main.params[0], "")]

    assert found() == ["'$(touch owned)'", "'two words'"]
    monkeypatch.setenv("_CHANGELOG_ENGINE_COMPLETE", "fish_complete")
    assert found() == ["$(touch owned)", "two words"]
    waiting = threading.Event()
    monkeypatch.setattr(completion, "_keyed", lambda ctx: waiting.wait(60))
    monkeypatch.setattr(completion, "_LONGEST_S", 0.01)
    assert found() == []
    waiting.set()


def test_bash_gets_names_from_the_command_itself(job: Path) -> None:
    line = ["changelog-engine", "state", str(job), "--state", "pl"]
    asked = {"_CHANGELOG_ENGINE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(line), "COMP_CWORD": "4"}
    done = subprocess.run(
        [sys.executable, "-m", "changelog_engine"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("plain,places\n", "", 0)


def test_keys_are_typed_as_they_are_declared() -> None:
    row = RowTypeInfo([Types.LONG(), Types.STRING()], ["a", "b"])
    assert key_identities("7", Types.LONG()) == [7]
    assert key_identities("x", Types.LONG()) == []
    for of in (Types.BIG_DEC(), Types.SQL_DATE(), Types.TUPLE([Types.BIG_DEC()]), row):
        assert [key_identities(text, of) for text in ("a", '{"row": [1]}', "[" * 3000)] == [[], [], []], of
    large = "[12345678901234567890123]"  # a number that no float has, and not written as the log has it
    assert key_identities(large, Types.TUPLE([Types.BIG_INT()]))[0] == b'["12345678901234567890123"]'
    assert key_identities("7", Types.STRING())[0] == "7"
    assert key_identities("'to'", Types.STRING()) == ["'to'", "to"]
    assert key_identities("(1, 'a')", Types.TUPLE([Types.LONG(), Types.STRING()])) == [b'[1,"a"]']
    assert key_identities('[1, "a"]', Types.TUPLE([Types.LONG(), Types.STRING()])) == [b'[1,"a"]']
    assert key_identities('{"a": 1, "b": "x"}', row) == [b'{"a":1,"b":"x"}']
    assert key_identities("2026-01-31", Types.SQL_DATE()) == [b'"2026-01-31"']
    assert key_identities("1", None) == ["1", 1]


def test_history_of_a_key(job: Path) -> None:
    changes = key_history(str(job), "to", state="count").changes
    assert [(c.checkpoint, c.before, c.after) for c in changes] == [(1, None, 1), (4, 1, 2)]
    on_branch = key_history(str(job), "to", state="count", at="3").changes
    assert [(c.checkpoint, c.before, c.after) for c in on_branch] == [(1, None, 1), (3, 1, 2)]
    assert [c.checkpoint for c in key_history(str(job), "to", state="count", start="2").changes] == [4]
    assert [c.checkpoint for c in key_history(str(job), "to", state="count", end="2").changes] == [1]
    output = cli("history", job, "--key", "to", "--state", "count").output
    assert cells(output)[2][2:] == ["count", "put", "-", "1", "element"]
    assert "there are count, places" in refused(cli("history", job, "--key", "to", "--state", "nothing"))
    missing = cli("history", job, "--key", "nobody")
    assert missing.exit_code == 1
    assert "the nearest of 4: 'be', 'do', 'to'" in missing.output


def test_a_key_whose_text_makes_none_is_found_as_it_is_shown(tmp_path: Path) -> None:
    day = datetime.date(2026, 1, 31)
    TestJob(tmp_path, Script()).run(keyed_job([(day,), (day,)], Count(), key_type=Types.SQL_DATE()))
    for key in (repr(day), "2026-01-31"):
        (entry,) = entries_at(f"{tmp_path}/job", key=key).entries
        assert (entry.key, entry.value) == (day, 2)
        assert [change.after for change in key_history(f"{tmp_path}/job", key).changes] == [1, 2]


@pytest.mark.parametrize(
    ("key", "of"),
    [
        (datetime.date(2026, 1, 31), Types.SQL_DATE()),
        (datetime.datetime(2026, 1, 31, 1, 2, 3, 4), Types.SQL_TIMESTAMP()),
        (datetime.time(1, 2, 3), Types.SQL_TIME()),
        (Instant(1, 500), Types.INSTANT()),
        (Decimal("1.0"), Types.BIG_DEC()),
        (Row(1, "a)>"), Types.ROW([Types.INT(), Types.STRING()])),
        (Row(a=1, b=Decimal("2")), Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.BIG_DEC()])),
        ((datetime.date(2026, 1, 31), -1), Types.TUPLE([Types.SQL_DATE(), Types.INT()])),
    ],
    ids=repr,
)
def test_a_key_as_it_is_shown_means_that_key(key: Any, of: Any) -> None:
    """For all who take one: explain, correct, history and state, without a look at the state."""
    assert key_identities(repr(key), of) == [key_codec_for(of).identity(key)]
    assert key_codec_for(of).identity(key_of(repr(key), of, "--key")) == key_codec_for(of).identity(key)


class _Longest(KeyedProcessFunction):
    """Keeps numbers with more digits than Python writes by itself."""

    def open(self, runtime_context: Any) -> None:
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.BIG_INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.number.update(10 ** (5_000 + value[1]))
        yield value


def test_numbers_too_long_for_python_to_write(tmp_path: Path) -> None:
    keys = {"a": 10**5_000, "b": 7, "c": -(10**310)}
    folder = run(tmp_path, "a b c", _Longest(), key=keys.__getitem__)
    digits = "1" + "0" * 5_000
    limit = sys.get_int_max_str_digits()
    for number, key in enumerate((digits, "7", f"-1{'0' * 310}")):
        (change,) = key_history(str(folder), key=key, allow_pickle=True).changes
        (entry,) = entries_at(str(folder), key=key, allow_pickle=True).entries
        assert change.after == entry.value == 10 ** (5_000 + number)
    missed = entries_at(str(folder), key="8", allow_pickle=True)
    assert [each.keys for each in missed.missed] == [3]
    assert "7" in repr(missed)
    try:
        assert "are undeclared; none is shown" in cli("history", folder, "--key", "8").output
        sys.set_int_max_str_digits(limit)
        found = cli("history", folder, "--key", digits, "--json", "--allow-pickle")
        assert found.exit_code == 0, found.output
        assert digits in found.stdout
        sys.set_int_max_str_digits(limit)
        found = cli("state", folder, "--operator", "count", "--json", "--allow-pickle")
        assert found.exit_code == 0, found.output
        assert digits in found.stdout
    finally:
        sys.set_int_max_str_digits(limit)


def test_history_of_a_key_that_is_not_there_folds_no_state(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("changelog_engine.inspection.key_history.entries_at", None)
    assert key_history(str(job), "nobody").changes == ()


class _ClearsItsMap(KeyedProcessFunction):
    """Puts map keys that are equal to Python, and clears them all at the second element."""

    def open(self, runtime_context: Any) -> None:
        self.undeclared = runtime_context.get_map_state(
            MapStateDescriptor("undeclared", Types.PICKLED_BYTE_ARRAY(), Types.STRING())
        )
        self.doubles = runtime_context.get_map_state(
            MapStateDescriptor("doubles", Types.DOUBLE(), Types.STRING())
        )

    def process_element(self, value: Any, ctx: Any) -> None:
        if self.doubles.is_empty():
            for map_key in (1, 1.0, True, (2,), "x"):
                self.undeclared.put(map_key, repr(map_key))
            for map_key in (0.0, -0.0):
                self.doubles.put(map_key, repr(map_key))
        else:
            self.undeclared.clear()
            self.doubles.clear()


def test_a_cleared_map_is_shown_whole(tmp_path: Path) -> None:
    """Map keys that are one to Python's dicts are several to the state."""
    folder = run(tmp_path, "a a", function=_ClearsItsMap())
    for state, wanted in (("undeclared", (1, 1.0, True, (2,), "x")), ("doubles", (0.0, -0.0))):
        before = key_history(str(folder), "a", state=state).changes[-1].before
        assert repr(before.items()) == repr([(map_key, repr(map_key)) for map_key in wanted])
        assert [before[map_key] for map_key in wanted] == [repr(map_key) for map_key in wanted]
    shown = json.loads(cli("history", folder, "--key", "a", "--state", "doubles", "--json").output)
    assert shown["changes"][-1]["before"] == [[0.0, "0.0"], [-0.0, "-0.0"]]


def test_history_begins_with_the_snapshot_where_the_log_was_truncated(tmp_path: Path) -> None:
    from materializer.retention import Retention
    from materializer.truncation import truncate

    folder = run(tmp_path)
    materialize(open_job(str(folder)), 2)
    truncate(open_job(str(folder)), Retention(history_ms=0, grace_ms=0))
    found = key_history(str(folder), "to", state="count")
    assert found.begins == 2
    assert [(c.operation, c.checkpoint, c.before, c.after) for c in found.changes] == [
        ("snapshot", 2, None, 1),
        ("put", 3, 1, 2),
    ]
    assert (
        "were truncated: the history begins with its snapshot" in cli("history", folder, "--key", "to").output
    )


def test_history_of_a_job_without_the_changelog_names_the_option(tmp_path: Path) -> None:
    """Nothing of it was truncated: its changes were never kept."""
    elements = [("to", 1), ("to", 2)]
    TestJob(tmp_path, Script(sizes=(1,)), changelog=False).run(
        keyed_job(elements, Count(), key_type=Types.STRING())
    )
    output = cli("history", tmp_path / "job", "--key", "to").output
    assert (
        "no log of changes: a job keeps each change when it runs with state.changelog.enabled=true" in output
    )
    assert "truncated" not in output


def test_a_range_of_a_history_opens_no_file_from_before_the_snapshot_that_it_follows(tmp_path: Path) -> None:
    folder = run(tmp_path, "to be to or to do to")
    whole = key_history(str(folder), "to")
    late = [each for each in whole.changes if each.checkpoint >= 4]
    materialize(open_job(str(folder)), 2)
    materialize(open_job(str(folder)), 3)
    for start in ("4", iso(late[0].time_ms)):
        found = key_history(str(folder), "to", start=start)
        assert list(found.changes) == late
        assert (found.begins, found.outside) == (None, None)
        assert found.files < whole.files
    assert "older than the newest snapshot" in cli("history", folder, "--key", "to", "--from", "4").output
    # Nothing of it is in the range: what there is outside is counted.
    gone = key_history(str(folder), "be", start="4")
    assert (gone.changes, gone.outside) == ((), len(key_history(str(folder), "be").changes))
    assert key_history(str(folder), "to", start="3").outside is None


def test_differences_between_branches_and_jobs(job: Path, tmp_path: Path) -> None:
    output = cli("diff", job, "3", "latest", "--state", "count").output
    assert "they parted at checkpoint 1" in output
    assert ["changed", "count", "count", "'be'", "2", "1"] in cells(output)
    assert cli("diff", job, "5", "5").output.endswith("no difference\n")
    assert cli("diff", job, "5", "5", "--exit-code").exit_code == 0
    assert cli("diff", job, "3", "5", "--exit-code").exit_code == 1
    ledger = open_ledger(str(job))
    fork_job(open_job(str(job)), ledger.lineage.checkpoint(5), f"{tmp_path}/forked")
    assert differences(str(job), "latest", f"{tmp_path}/forked@latest").equal
    assert differences(f"{tmp_path}/forked", "latest", f"{job}@3").states[0].changed == 1
    saved = create_savepoint(open_job(str(job)), ledger.lineage.checkpoint(3), str(tmp_path))
    assert differences(str(job), "3", saved.path).equal
    assert Timeline(f"{tmp_path}/forked").attempts[-1].how == "forked"
    (summary,) = [each for each in list_jobs(str(tmp_path)) if each.name == "forked"]
    assert summary.attempts == len(job_status(f"{tmp_path}/forked").attempts)
    assert Timeline(saved.path).ids == [3]


def test_timeline_draws_branches(tmp_path: Path) -> None:
    run(tmp_path)
    job = run(tmp_path, "to be is to do", restore="1")
    _, *rows = csv.reader(io.StringIO(cli("timeline", job, "--csv").output))
    assert [row[0] for row in rows] == ["●", "├─○", "│ ○", "●", "●"]
    assert [row[7] for row in rows] == ["began empty", "", "finished", "rewound to 1", "finished"]
    assert "3 of 5 checkpoints are not shown" in cli("timeline", job, "--last", "2").output
    materialize(open_job(str(job)), 1)
    assert (
        next(csv.reader(io.StringIO(cli("timeline", job, "--csv", "--to", "1").output).readlines()[1:]))[0]
        == "◆"
    )


class Expiring(KeyedProcessFunction):
    """A value that expires, and a map of what only pickle can carry."""

    def open(self, runtime_context: Any) -> None:
        config = StateTtlConfig.new_builder(Time.days(1)).build()
        seen = ValueStateDescriptor("seen", Types.LONG())
        seen.enable_time_to_live(config)
        self.seen = runtime_context.get_state(seen)
        anything = Types.PICKLED_BYTE_ARRAY()
        self.kept = runtime_context.get_map_state(MapStateDescriptor("kept", Types.STRING(), anything))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.seen.update(value[1])
        self.kept.put("all", {value[1]})


class Opaque:
    """An object whose text differs from that of another one like it."""

    def __reduce__(self) -> Any:
        return Opaque, ()


class Renewing(KeyedProcessFunction):
    """Pickled values that are written anew and the same, but for the time of the last access; ``last`` changes."""

    def open(self, runtime_context: Any) -> None:
        config = StateTtlConfig.new_builder(Time.days(1)).build()
        anything = Types.PICKLED_BYTE_ARRAY()
        same, last = ValueStateDescriptor("same", anything), ValueStateDescriptor("last", anything)
        objects = MapStateDescriptor("objects", Types.STRING(), anything)
        listed = ListStateDescriptor("listed", anything)
        for descriptor in (same, last, objects, listed):
            descriptor.enable_time_to_live(config)
        self.same, self.last = runtime_context.get_state(same), runtime_context.get_state(last)
        self.objects = runtime_context.get_map_state(objects)
        self.listed = runtime_context.get_list_state(listed)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.same.update({1, 2})
        self.last.update({value[1]})
        self.objects.put("x", Opaque())
        self.listed.update([Opaque(), (1, 2)])


class Forgetting(KeyedProcessFunction):
    """States that expire after a second, and are never read: each record cleans up. ``x`` clears its own."""

    def open(self, runtime_context: Any) -> None:
        config = StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(100, True).build()
        self.seen = ValueStateDescriptor("seen", Types.LONG())
        self.places = MapStateDescriptor("places", Types.LONG(), Types.LONG())
        self.listed = ListStateDescriptor("listed", Types.LONG())
        for descriptor in (self.seen, self.places, self.listed):
            descriptor.enable_time_to_live(config)
        self.seen = runtime_context.get_state(self.seen)
        self.places = runtime_context.get_map_state(self.places)
        self.listed = runtime_context.get_list_state(self.listed)

    def process_element(self, value: Any, ctx: Any) -> None:
        if value[0] == "x" and self.seen.value() is not None:
            self.seen.clear()
            return
        self.seen.update(value[1])
        self.places.put(value[1], 1)
        self.listed.add(value[1])


def test_what_the_time_to_live_removed_is_named(tmp_path: Path) -> None:
    folder = run(tmp_path, f"a x x {'b ' * 40} a", function=Forgetting(), ages=True)
    for state, added in (("seen", "put"), ("places", "put"), ("listed", "append")):
        changes = key_history(str(folder), "a", state=state).changes
        assert [each.operation for each in changes] == [added, "clear", added]
        assert [each.cause for each in changes] == ["element", "element or time to live", "element"], state
    cleared = key_history(str(folder), "x", state="seen").changes
    assert [(each.operation, each.cause) for each in cleared] == [("put", "element"), ("clear", "element")]


def test_time_to_live_and_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run(tmp_path, function=Expiring())
    monkeypatch.setattr("pickle.loads", lambda data: pytest.fail("unpickled"))
    changes = key_history(str(folder), "to").changes
    assert [(c.before, c.after) for c in changes if c.state == "seen"] == [(None, 0), (0, 4)]
    assert next(as_json(c.after) for c in changes if c.state == "kept")["pickled"] == "[0]"
    found = differences(str(folder), "1", "3", state="seen").states[0]
    assert {entry.key: (entry.before, entry.after) for entry in found.entries} == {
        "to": (0, 4), "be": (1, 5), "or": (None, 2), "not": (None, 3)
    }  # fmt: skip
    pickled = differences(str(folder), "1", "3", state="kept")
    assert pickled.states[0].changed == 2
    for command in (("history", folder, "--key", "to"), ("diff", folder, "1", "3"), ("states", folder)):
        assert cli(*command, "--json").exit_code == 0


def test_the_time_of_the_last_access_is_no_difference(tmp_path: Path) -> None:
    """Of pickles it is within the bytes, and the text of an object may say where it lay in memory."""
    folder = run(tmp_path, "a b a b a c", function=Renewing(), ages=True)
    found = {each.state: each for each in differences(str(folder), "1", "3").states}
    assert {name: (each.added, each.removed, each.changed) for name, each in found.items()} == {
        "same": (1, 0, 0), "objects": (1, 0, 0), "listed": (1, 0, 0), "last": (1, 0, 2)
    }  # fmt: skip
    accessed = key_history(str(folder), "a", state="same").changes
    assert len(accessed) == 3, "each renewal is a mutation"


def test_hostile_names_and_values_cannot_steer_the_terminal(tmp_path: Path) -> None:
    folder = run(tmp_path, "\x1b[31mred [bold]x[/bold] \x9bx", name="\x1b]0;job\x07")
    folder = next(path for path in tmp_path.iterdir() if path.is_dir())
    for question in QUESTIONS[:6]:
        for form in ((), ("--json",), ("--csv",)):
            output = asked(folder, question, *form).output
            assert not [c for c in output if not c.isprintable() and c != "\n"], (question, form)
    for key in ("\x1b[31mred", "[bold]x[/bold]"):
        output = cli("history", folder, "--key", key).output
        assert "\x1b" not in output
        assert " 1 " in output
    assert "\x1b" not in refused(cli("state", folder, "--operator", "\x1b[31m"))


def test_a_terminal_that_is_not_of_utf_8_has_other_signs_and_escaped_letters(tmp_path: Path) -> None:
    """Each command that met one of them ended with a traceback."""
    graph = keyed_job([("日本", "x"), ("grün", "x")], Count(), key_type=Types.STRING(), uid="op", name="job")
    TestJob(tmp_path, Script((1,))).run_driver(graph)

    def said(*words: str) -> str:
        command = [sys.executable, "-m", "changelog_engine", *words]
        environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode("latin-1")

    assert re.search(r"^\|?\*  +\|?1 ", said("timeline", str(tmp_path / "job")), re.MULTILINE)
    entries = said("state", str(tmp_path / "job"), "--operator", "op")
    assert r"'\u65e5\u672c'" in entries
    assert "'grün'" in entries
    assert "->" in said("help", "launcher") + said("help", "glossary") + said("help", "history")


def test_a_terminal_that_moves_no_cursor_is_as_wide_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as TERM=dumb, in editors."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 50, 0, 0))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("COLUMNS", raising=False)
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "__stdout__", terminal)
        assert console().width == 50
    os.close(ours)


def test_tables_fit_eighty_columns(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changelog_engine.cli.console._PIPE_WIDTH", 80)
    for question in QUESTIONS:
        output = asked(job, question).output
        table = [line for line in output.splitlines() if line.startswith(" ")]
        assert all(len(line) <= 80 for line in table), question


def test_doctor(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {check.what: check for check in doctor.examine(str(job.parent))}
    assert found["Python"].level == "ok"
    assert found["Rows"].found.startswith("their loops run in C" if LOOPS else "their loops run in Python")
    assert found["state"].level == ("ok" if CALLS else "warning")
    assert found["base path"].found.endswith("1 folder of jobs and savepoints")
    (tmp_path / "api").mkdir()
    (tmp_path / "file").touch()
    assert [c.level for c in doctor.examine(str(tmp_path / "file")) if c.what == "base path"] == ["wrong"]
    assert all("tried" not in check.found for check in found.values()), "of a local disk it is known"
    with monkeypatch.context() as patched:
        patched.setattr(doctor, "open_storage", lambda base: 1 / 0)
        (wrong,) = (c for c in doctor.examine("abfs://c@a.dfs.core.windows.net/x") if c.what == "base path")
        assert cli("doctor", "gs://bucket/jobs").stderr.startswith("asking gs://bucket/jobs: ")
    assert "Keys and endpoints" in (wrong.remedy or ""), "whichever store it is"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = cli("doctor", job.parent)
    assert result.exit_code == 1
    assert result.stderr == ""
    assert "JAVA_HOME is" in result.output
    assert "openjdk-17" in result.output


def test_doctor_tells_a_disk_with_space_and_without_inodes(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "has_no_inodes", lambda folder: folder == str(job.parent))
    found = {check.what: check for check in doctor.examine(str(job.parent))}
    assert found["disk of the base path"].level == "wrong"
    assert "free, but no inode: no file more can be made there" in found["disk of the base path"].found
    assert found["temporary folder"].level != "wrong"


def test_doctor_tells_modules_that_each_start_compiles_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bytecode() -> doctor.Check:
        (found,) = (check for check in doctor.examine() if check.what == "bytecode")
        return found

    package = tmp_path / "some where" / "engine"
    package.mkdir(parents=True)
    for name in ("__init__.py", "one.py"):
        (package / name).touch()
    monkeypatch.setattr(doctor, "_FOLDER", package)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert bytecode().level == "ok"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    py_compile.compile(str(package / "one.py"))
    found = bytecode()
    assert (found.level, "1 of 2" in found.found) == ("warning", True)
    command = (found.remedy or "").partition("compile once: ")[2]
    subprocess.run(shlex.split(command), check=True)
    assert bytecode().level == "ok"


def test_questions_load_no_pyspark(job: Path) -> None:
    program = (
        "import json, sys; from changelog_engine.cli import main\n"
        "for question in json.loads(sys.argv[1]):\n"
        "    try: main(question)\n"
        "    except SystemExit as end: assert not end.code, (question, end.code)\n"
        "    loaded = sorted(name for name in sys.modules if name.partition('.')[0] in ('pyspark', 'delta'))\n"
        "    assert not loaded, (question, loaded)"
    )
    places = {"BASE": str(job.parent), "PATH": str(job)}
    questions = [[places.get(word, word) for word in question] for question in QUESTIONS]
    command = [sys.executable, "-c", program, json.dumps(questions)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def test_completion_names_the_commands() -> None:
    environment = {
        "_CHANGELOG_ENGINE_COMPLETE": "bash_complete",
        "COMP_WORDS": "changelog-engine sta",
        "COMP_CWORD": "1",
    }
    result = CliRunner().invoke(main, env=environment, prog_name="changelog-engine")
    assert result.output.split() == ["plain,status", "plain,states", "plain,state"]


def test_a_job_that_counts_has_a_timeline_without_details(tmp_path: Path) -> None:
    job = TestJob(tmp_path)
    job.run(keyed_job([("a", 1), ("a", 2)], Count(), key_type=Types.STRING()))
    timeline = Timeline(f"{tmp_path}/job")
    assert [row.marks for row in timeline.checkpoints()] == [("began", "finished")]
    assert timeline.checkpoints()[0].rows is None
    assert as_json(Row(a=1)) == {"a": 1}


def test_points_that_count_from_the_end_are_arguments_too(job: Path) -> None:
    counted = cli("diff", job, "-2", "-1", "--json")
    assert counted.exit_code == 0, counted.output
    assert counted.output == cli("diff", "--json", job, "--", "-2", "-1").output


def test_the_oldest_checkpoint_that_is_left_did_not_begin_its_attempt(tmp_path: Path) -> None:
    folder = run(tmp_path)
    materialize(open_job(str(folder)), 2)
    truncate(open_job(str(folder)), Retention(history_ms=0, grace_ms=0))
    shown = json.loads(cli("timeline", folder, "--json").output)
    assert "began empty" not in json.dumps(shown)


class AtATimer(KeyedProcessFunction):
    """Changes its state by a timer of processing time."""

    def open(self, runtime_context: Any) -> None:
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        ctx.timer_service().register_processing_time_timer(1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        self.n.update(timestamp)
        yield timestamp


class AtOnce(KeyedProcessFunction):
    """Has a timer that is due in the epoch of its element."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield timestamp


def test_timers_that_no_checkpoint_saw_waiting_are_in_the_history(tmp_path: Path) -> None:
    job = TestJob(tmp_path)
    job.run(keyed_job([("a", 1)], AtOnce(), key_type=Types.STRING()))
    changes = key_history(f"{tmp_path}/job", "a").changes
    assert [(each.checkpoint, each.operation) for each in changes] == [
        (1, "register_timer"),
        (1, "delete_timer"),
    ]


class Postpones(KeyedProcessFunction):
    """Each element sets a timer ten later and deletes the one before; a timer that fires sets another one, once."""

    def open(self, runtime_context: Any) -> None:
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        if self.due.value():
            ctx.timer_service().delete_event_time_timer(self.due.value())
        self.due.update(value[1] + 10)
        ctx.timer_service().register_event_time_timer(self.due.value())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        if timestamp < 20:
            ctx.timer_service().register_event_time_timer(50)
        yield timestamp


def test_who_set_and_ended_a_timer(tmp_path: Path) -> None:
    job = TestJob(tmp_path)
    job.run_driver(
        keyed_job(
            [("a", 1), ("a", 5)], Postpones(), key_type=Types.STRING(), timestamp=lambda element: element[1]
        )
    )
    changes = key_history(f"{tmp_path}/job", "a").changes
    assert [
        (each.operation, each.before or each.after, each.event_time_ms, each.cause)
        for each in changes
        if each.kind == "timer"
    ] == [
        ("register_timer", 11, 1, "element"),
        ("delete_timer", 11, 5, "element"),
        ("register_timer", 15, 5, "element"),
        ("delete_timer", 15, 15, "timer"),
        ("register_timer", 50, 15, "element or timer"),
        ("delete_timer", 50, 50, "timer"),
    ]


def test_a_history_of_several_states_says_that_their_order_is_not_known(tmp_path: Path) -> None:
    job = TestJob(tmp_path)
    job.run_driver(keyed_job([("a", 1)], Postpones(), key_type=Types.STRING(), timestamp=lambda _: 1))
    path = f"{tmp_path}/job"
    assert "states stand one after the other" in cli("history", path, "--key", "a").output
    assert "order" not in cli("history", path, "--key", "a", "--state", "due").output
    assert "explain tells the order of all" in repr(key_history(path, "a"))


def test_timers_are_compared(tmp_path: Path) -> None:
    reminded(tmp_path)
    found = differences(f"{tmp_path}/job", "1", "-1")
    timers = {each.state: each for each in found.states if each.kind == "timer"}
    assert [
        (each.change, each.key, each.before, each.after) for each in timers["(event time timers)"].entries
    ] == [
        ("removed", "ann", 1001, None),
        ("removed", "bob", 1001, None),
    ]
    assert not timers["(processing time timers)"].entries
    added = differences(f"{tmp_path}/job", "1", "3", state="(event time timers)").states
    assert [(each.added, each.removed) for each in added] == [(6, 2)]
    with pytest.raises(RestoreError, match=r"there is no state 'timer'; there are count, .event time timers"):
        differences(f"{tmp_path}/job", "1", "3", state="timer")
    shown = cli("diff", f"{tmp_path}/job", "1", "-1")
    assert "removed  remind    (event time timers)  'ann'  1970-01-01 00:00:01.001  -" in shown.output


def test_timers_have_one_name(tmp_path: Path) -> None:
    """Whatever lists them, so that every command takes it."""
    reminded(tmp_path)
    path = f"{tmp_path}/job"
    event, processing = "(event time timers)", "(processing time timers)"
    listed = [each.state for each in states_at(path, 2).states]
    assert listed == ["count", event, processing]
    shown = cli("state", path, "--at", 2, "--state", event, "--key", "bob").output
    assert "remind    (event time timers)  'bob'  1970-01-01 00:00:02.001" in shown
    pending = entries_at(path, 2, state=event).entries
    assert [(each.key, each.value) for each in pending][:2] == [("ann", 2001), ("bob", 2001)]
    missed = cli("state", path, "--state", processing, "--key", "bo")
    assert (missed.exit_code, "the nearest of 2: 'bob'" in missed.output) == (1, True)
    assert {each.state for each in key_history(path, "ann", state=event).changes} == {event}
    figures = json.loads(cli("metrics", path, "--json").output)[0]
    assert {*figures["mutations"]["remind"]} == {*figures["sizes"]["remind"]} == {*listed}


def test_timers_of_windows_have_their_windows(tmp_path: Path) -> None:
    case = Case(StateKind.REDUCING, Firing.EMIT, 5, 5)
    TestJob(tmp_path, Script((1,))).run_driver(window_job([("a", 1, "x"), ("b", 13, "y")], case.spec(), None))
    (timer,) = entries_at(str(tmp_path / "job"), 1, state="(event time timers)", key="a").entries
    assert (timer.key, timer.namespace, timer.value) == ("a", "[0,5]", 4)


def test_a_change_that_a_timer_of_processing_time_may_have_made_is_not_the_elements(tmp_path: Path) -> None:
    job = TestJob(tmp_path)
    job.run_driver(keyed_job(IterableSource(lambda: ["a"]), AtATimer(), output_type=Types.LONG()))
    (change,) = key_history(str(tmp_path / "job"), "a", state="n").changes
    assert change.cause == "element or timer"


def test_a_change_that_a_window_s_timer_may_have_made_is_not_the_elements(tmp_path: Path) -> None:
    """The window opens and closes between two writings of the log, which has no mutation of its timer then."""
    case = Case(StateKind.REDUCING, Firing.EMIT, 5, 5)
    TestJob(tmp_path).run_driver(window_job([("a", 1, "x"), ("a", 3, "y")], case.spec(), None))
    changes = key_history(str(tmp_path / "job"), "a", operator=WINDOWS).changes
    assert [(each.operation, each.event_time_ms, each.cause) for each in changes] == [
        ("put", 1, "element"),
        ("put", 3, "element"),
        ("clear", 4, "element or timer"),
    ]


def test_of_many_splits_status_shows_those_that_go_on(tmp_path: Path) -> None:
    """A watched folder has a split for each file that ever came."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}").write_text("word\n" if number else "word\n" * 40)
    build = GraphBuilder()
    lines = build.source(FileSource([str(folder)]), uid="lines")
    build.collect(build.process(build.key_by(lines, str, Types.STRING()), Count(), uid="count"))
    job = TestJob(tmp_path / "jobs", Script((20,), (True,), (Failure(2, Fault.DRIVER),)))
    with pytest.raises(DriverKilled):
        job.run_driver(build.graph())
    path = tmp_path / "jobs" / "job"
    said = cli("status", path).output
    assert f"{folder}/00" in said
    assert f"{folder}/29" not in said
    assert "10 splits more, 0 of them finished; --json has each" in said
    assert len(json.loads(cli("status", path, "--json").output)["sources"]) == 30
    job.run(build.graph())
    said = cli("status", path).output
    assert f"{folder}/29" in said
    assert f"{folder}/00" not in said
    assert "10 splits more, all finished; --json has each" in said


def test_of_many_states_status_shows_some_and_where_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Many(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.all = [
                runtime_context.get_state(ValueStateDescriptor(f"state_number_{n}", Types.LONG()))
                for n in range(30)
            ]

        def process_element(self, value: Any, ctx: Any) -> None:
            for each in self.all:
                each.update(1)

    TestJob(tmp_path).run(keyed_job(["a"], Many(), key_type=Types.STRING(), uid="an operator of many states"))
    monkeypatch.setenv("COLUMNS", "60")
    said = cli("status", tmp_path / "job").output
    rows = [line for line in said.splitlines() if "state_number_" in line]
    assert len(rows) == 20
    assert all(line.split()[0] == "1" for line in rows), "one line each: entries and the state"
    assert "12 states more: changelog-engine metrics PATH shows all" in said  # with those of timers
    assert cli("metrics", tmp_path / "job").output.count("state_number_") == 30


def test_a_history_is_a_table_in_eighty_columns(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changelog_engine.cli.console._PIPE_WIDTH", 80)
    shown = cli("history", job, "--key", "to").output
    header = next(line.split() for line in shown.splitlines() if "before" in line)
    assert header[0] == "checkpoint"
    assert header[-3:] == ["before", "after", "cause"]
