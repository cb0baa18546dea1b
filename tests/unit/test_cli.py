"""The console command: what it shows, what it refuses, and that it changes nothing."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable, write_deltalake
from support.jobs import OneClock

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.cli import main
from changelog_engine.clock import wall_ms
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.connectors.collection import CollectionSource
from changelog_engine.connectors.sinks import CollectSink
from changelog_engine.driver.coordinator import Coordinator
from changelog_engine.driver.job import Job
from changelog_engine.driver.journal import JobJournal
from changelog_engine.graph.nodes import JobGraph, JobSettings, Node, NodeKind
from changelog_engine.graph.plan import plan_job
from changelog_engine.in_process.runner import InProcessRunner
from changelog_engine.inspection.key_history import key_history
from changelog_engine.inspection.states import entries_at
from changelog_engine.nearest import nearest
from changelog_engine.spark.shipping import ship
from materializer import FoldedState, StateEntries
from materializer.fold import fold_at


class Words(KeyedProcessFunction):
    """Counts, keeps the numbers of each word, and sets a timer that never fires."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.places = runtime_context.get_list_state(ListStateDescriptor("places", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.places.add(value[1])
        ctx.timer_service().register_processing_time_timer(2**62)


class Unexact(KeyedProcessFunction):
    """Keeps what only pickle can carry."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        anything = Types.PICKLED_BYTE_ARRAY()
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), anything))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put("all", {value[1]})


class Silent:
    """Outputs that nobody looks at."""

    def printed(self, lines: list[str]) -> None:
        pass

    def collected(self, node: int, elements: list[Any]) -> None:
        pass


def run(
    base: Path,
    words: str = "to be or not to be",
    function: Any = None,
    name: str = "words",
    restore: str = "auto",
    ages: bool = False,
    key: Any = None,
) -> Path:
    """Run a job to its end in this process; returns its folder. Where it ages, its state has the checkpoints' clock.

    ``key`` makes an undeclared key of each word.
    """
    elements = [(word, place) for place, word in enumerate(words.split())]
    nodes = (
        Node(0, NodeKind.SOURCE, "words", function=CollectionSource(elements)),
        Node(
            1,
            NodeKind.KEY_BY,
            "key",
            (0,),
            function=lambda value: key(value[0]) if key else value[0],
            key_type=None if key else Types.STRING(),
        ),
        Node(2, NodeKind.PROCESS, "count", (1,), function=function or Words(), uid="count"),
        Node(3, NodeKind.SINK, "collect", (2,), function=CollectSink()),
    )
    settings = JobSettings(
        checkpoint_interval_ms=1, changelog=True, base_path=str(base), epoch_max_records=2, restore=restore
    )
    run_id, plan = uuid.uuid4().hex, plan_job(JobGraph(name, nodes, 1))
    journal = JobJournal.open(str(base), name)
    try:
        ticks = itertools.count(1_700_000_000_000, 10)  # a checkpoint is due in each epoch
        clock = (lambda: next(ticks)) if ages else wall_ms
        runner = InProcessRunner(ship(run_id, plan, settings, journal.parts_folder), clock)
        coordinator = Coordinator(
            Job(run_id, plan, settings, runner, journal, Silent(), clock=OneClock(lambda: next(ticks)))
        )
        coordinator.run(journal.start_point(restore))
    finally:
        journal.close()
    return base / name


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("base"))


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def cells(output: str) -> list[list[str]]:
    """The rows of a table, cut at two spaces or more."""
    lines = [line for line in output.splitlines() if line.strip() and "─" not in line]
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def refused(result: Result) -> str:
    """The message of an error; no traceback, nothing on standard output."""
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.output
    return result.stderr


def test_version() -> None:
    result = cli("--version")
    assert result.exit_code == 0
    assert result.output.startswith("changelog-engine ")
    assert "changelog format 1" in result.output


@pytest.mark.parametrize("folder", ["", "changelog"])
def test_checkpoints_are_listed(job: Path, folder: str) -> None:
    result = cli("checkpoints", job / folder)
    assert result.exit_code == 0, result.output
    header, *rows = cells(result.output)
    assert header == ["id", "attempt", "parent", "time (UTC)", "rows", "bytes", "parts", "end"]
    assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    assert rows[0][1:3] == ["1", "-"]
    assert len(rows) > 1
    assert rows[1][1:3] == ["1", "1"]
    assert [row[7:] for row in rows] == [[]] * (len(rows) - 1) + [["finished"]]
    # 6 counts, 6 places, 4 timers
    assert sum(int(row[4]) for row in rows) == 16


def test_the_newest_checkpoints_alone(job: Path) -> None:
    _, *every = cells(cli("checkpoints", job).output)
    assert cells(cli("checkpoints", job, "--last", 2).output)[1:] == every[-2:]


def test_a_file_uri_is_a_path_too(job: Path) -> None:
    assert cli("checkpoints", job.as_uri()).output == cli("checkpoints", job).output


def test_a_job_without_checkpoints(tmp_path: Path) -> None:
    journal = JobJournal.open(str(tmp_path), "words")
    journal.start_point("auto")
    journal.begin_attempt(None)
    journal.close()
    assert cli("checkpoints", tmp_path / "words").output == "no checkpoint yet, 1 attempt(s)\n"
    assert "there is no checkpoint" in refused(cli("state", tmp_path / "words"))


def test_which_states_there_are(job: Path) -> None:
    title, header, *rows = cells(cli("state", job).output)
    assert title[0].startswith("state at checkpoint ")
    assert header == ["operator", "state", "kind", "keys"]
    assert rows == [
        ["count", "count", "value", "4"],
        ["count", "places", "list", "4"],
        ["count", "(processing time timers)", "timer", "4"],
    ]


def test_entries_of_a_state(job: Path) -> None:
    _, header, *rows = cells(cli("state", job, "--operator", "count", "--state", "places").output)
    assert header == ["operator", "state", "key", "value"]
    assert [row[2:] for row in rows] == [
        ["'to'", "[0, 4]"],
        ["'be'", "[1, 5]"],
        ["'or'", "[2]"],
        ["'not'", "[3]"],
    ]


@pytest.mark.parametrize("key", ["to", "'to'"])
def test_entries_of_a_key(job: Path, key: str) -> None:
    _, _, *rows = cells(cli("state", job, "--key", key).output)
    assert rows == [["count", "count", "'to'", "2"], ["count", "places", "'to'", "[0, 4]"]]


def test_state_at_an_earlier_checkpoint(job: Path) -> None:
    output = cli("state", job, "--at", 1, "--key", "to").output
    assert output.startswith("state at checkpoint 1, attempt 1\n")
    assert cells(output)[2] == ["count", "count", "'to'", "1"]


def test_state_follows_the_lineage(tmp_path: Path) -> None:
    run(tmp_path)
    newest = len(cells(cli("checkpoints", tmp_path / "words").output)) - 1
    run(tmp_path, "to be is to do", restore="1")  # the first two words are behind checkpoint 1
    _, *rows = cells(cli("checkpoints", tmp_path / "words").output)
    assert rows[newest][:3] == [str(newest + 1), "2", "1"]
    _, _, *entries = cells(cli("state", tmp_path / "words", "--state", "count").output)
    assert {key: value for _, _, key, value in entries} == {
        "'to'": "2",
        "'be'": "1",
        "'is'": "1",
        "'do'": "1",
    }


def test_namespaces_have_a_column(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def windows(*arguments: Any, **options: Any) -> FoldedState:
        folded = fold_at(*arguments, **options)
        entries = {("to", "[0,5]"): 1, ("to", "[5,9]"): 2, ("be", "[0,5]"): 3}
        folded.states["count", "windows"] = StateEntries(key_codec_for(Types.STRING()), entries, True)
        return folded

    monkeypatch.setattr("changelog_engine.inspection.states.fold_at", windows)
    _, header, *rows = cells(cli("state", job, "--operator", "count", "--key", "to").output)
    assert header == ["operator", "state", "key", "namespace", "value"]
    assert rows == [
        ["count", "count", "'to'", "2"],
        ["count", "places", "'to'", "[0, 4]"],
        ["count", "windows", "'to'", "[0,5]", "1"],
        ["count", "windows", "'to'", "[5,9]", "2"],
    ]


def test_few_entries_are_shown(job: Path) -> None:
    output = cli("state", job, "--state", "count", "--limit", 1).output
    assert len(cells(output)) == 4
    assert output.endswith("3 more; --limit shows more, --key one\n")


def test_no_entry(job: Path) -> None:
    result = cli("state", job, "--key", "nobody")
    assert result.exit_code == 1
    assert (
        "no entry has the key nobody\nthe keys of 'count' are STRING; the nearest of 4: 'not', "
        in result.output
    )


def test_case_57_a_key_that_is_not_there_shows_the_type_and_the_nearest(job: Path) -> None:
    """``--key 7`` where keys are STRING: what they are, and which come next to it."""
    output = cli("state", job, "--operator", "count", "--state", "count", "--key", "bee").output
    assert output.endswith("the keys of 'count' are STRING; the nearest of 4: 'be', 'not', 'or'\n")
    assert "the keys of 'count' are STRING" in cli("state", job, "--key", "7").output


def test_case_57_the_nearest_numbers_are_nearest_by_value() -> None:
    assert nearest([1, 70, 8, 6, 700], "7") == [6, 8, 1]
    assert nearest(["user70", "user7", "x"], "7")[0] == "user7"
    assert nearest([(1, "a"), (2, "b")], "(2, 'c')")[0] == (2, "b")
    assert nearest([], "7") == []


def test_values_cannot_steer_the_terminal(tmp_path: Path) -> None:
    folder = run(tmp_path, "\x1b[31mred [bold]x[/bold]")
    output = cli("state", folder, "--state", "count").output
    assert "\x1b" not in output
    assert r"'\x1b[31mred'" in output
    assert "'[bold]x[/bold]'" in output


def test_names_that_are_not_there(job: Path) -> None:
    assert "there are count" in refused(cli("state", job, "--operator", "nobody"))
    assert "there are count, places" in refused(cli("state", job, "--state", "nothing"))
    assert "there is no checkpoint 99" in refused(cli("state", job, "--at", 99))


def test_pickles_are_shown_as_such_and_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run(tmp_path, function=Unexact())
    monkeypatch.setattr("pickle.loads", lambda data: pytest.fail("unpickled"))
    note = (
        "'seen' of 'count' holds pickled values, and loading a pickle runs what is in it: --allow-pickle shows it, "
        "for jobs of your own"
    )
    result = cli("state", folder)
    assert result.exit_code == 0
    _, _, *rows, said = cells(result.output)
    assert rows == [["count", "count", "value", "4"], ["count", "seen", "map", "not shown"]]
    assert said == [note]

    _, _, *rows, said = cells(cli("state", folder, "--key", "to").output)
    assert rows == [["count", "count", "'to'", "2"]]
    assert said == [note]
    assert cells(cli("state", folder, "--state", "seen").output)[1:] == [[note]]
    assert note not in cli("state", folder, "--state", "count").output
    assert cli("checkpoints", folder).exit_code == 0


def test_pickles_are_loaded_when_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run(tmp_path, "to be", function=Unexact())
    monkeypatch.setattr(sys, "path", list(sys.path))
    _, _, *rows = cells(cli("state", folder, "--allow-pickle", "--state", "seen").output)
    assert rows == [["count", "seen", "'to'", "{'all': {0}}"], ["count", "seen", "'be'", "{'all': {1}}"]]


def test_a_key_that_may_be_one_of_those_withheld_is_not_said_to_be_missing(tmp_path: Path) -> None:
    folder = run(tmp_path, "1 2 2", key=Fraction)
    for command in ("state", "history"):
        result = cli(command, folder, "--key", "2")
        assert result.exit_code == 0
        assert "'count' of 'count' has keys that are objects" in result.output
        assert "no entry has the key" not in result.output
    assert not entries_at(str(folder), key="2").missed
    shown = cli("history", folder, "--key", "Fraction(2, 1)", "--state", "count", "--allow-pickle")
    assert [row[3:6] for row in cells(shown.output)[2:4]] == [["put", "-", "1"], ["put", "1", "2"]]
    missing = cli("state", folder, "--key", "5", "--allow-pickle")
    assert missing.exit_code == 1
    assert "the nearest of 2: Fraction(" in missing.output


def test_a_file_that_is_opened_for_several_meanings_of_a_key_counts_once(tmp_path: Path) -> None:
    found = key_history(str(run(tmp_path, "to z", key=lambda word: (word,))), "('to',)")
    assert [change.after for change in found.changes if change.state == "count"] == [1]
    assert (found.files, found.of_files) == (1, 1)


def test_paths_without_a_changelog(job: Path, tmp_path: Path) -> None:
    assert "no such folder; a job writes one with `env.enable_checkpointing" in refused(
        cli("checkpoints", tmp_path / "nowhere")
    )
    assert refused(cli("checkpoints", tmp_path)).startswith(
        f"Error: there is no changelog in {tmp_path}. Name"
    )
    assert "it holds the job words: name its folder" in refused(cli("checkpoints", job.parent))
    assert "cannot open" in refused(cli("checkpoints", "nosuch://x/y"))


def test_somebody_elses_table(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "theirs", pa.table({"a": [1]}))
    assert "is a Delta table, but no changelog" in refused(cli("state", tmp_path / "theirs"))


def test_a_newer_format(job: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(job, tmp_path / "words")
    DeltaTable(copy / "changelog").alter.set_table_properties(
        {"changelog.format.version": "2"}, raise_if_not_exists=False
    )
    assert "has changelog format 2, this engine reads up to 1" in refused(cli("checkpoints", copy))


def damage(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize("harm", [damage, Path.unlink], ids=["changed", "removed"])
def test_a_corrupt_part_is_named(job: Path, tmp_path: Path, harm: Callable[[Path], None]) -> None:
    copy = shutil.copytree(job, tmp_path / "words")
    part = sorted((copy / "changelog").glob("part-*.parquet"))[-1]
    harm(part)
    assert part.name in refused(cli("state", copy))
    readable = len(cells(cli("checkpoints", copy).stdout)) - 1
    row = sorted((copy / "changelog").glob("checkpoint-*.parquet"))[0]
    harm(row)
    listed = cli("checkpoints", copy)
    assert listed.exit_code == 1
    *rows, lost = cells(listed.stdout)[1:]
    assert len(rows) == readable - 1  # all others
    assert row.name in " ".join(lost)


def test_nothing_is_changed(job: Path) -> None:
    def look() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in job.parent.rglob("*")}

    before = look()
    cli("checkpoints", job)
    cli("state", job)
    cli("checkpoints", job.parent / "other")
    assert look() == before


def test_a_running_job_can_be_looked_at(tmp_path: Path) -> None:
    folder = run(tmp_path)
    journal = JobJournal.open(str(tmp_path), "words")
    try:
        assert json.loads((folder / "driver.lock").read_text())["pid"]
        assert cli("state", folder).exit_code == 0
    finally:
        journal.close()


def test_ctrl_c_ends_a_command_with_the_status_that_shells_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("changelog_engine.cli.program.import_module", pressed)
    assert CliRunner().invoke(main, ["status", "job"]).exit_code == 130


_CLOSED = """
import os, sys
from changelog_engine.launcher.standard_streams import open_closed_streams
open_closed_streams()
with open(sys.argv[1], "w") as file:
    print("seen by nobody", flush=True)
    print("seen by nobody", file=sys.stderr, flush=True)
    os.write(1, b"of a library")
    os.write(2, b"of a library")
"""


def _with_closed_streams(*words: str) -> int:
    closing = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable]
    return subprocess.run([*closing, *words], check=False).returncode


def test_closed_streams_are_no_files_of_others(tmp_path: Path) -> None:
    assert _with_closed_streams("-c", _CLOSED, str(tmp_path / "file")) == 0
    assert (tmp_path / "file").read_bytes() == b""


def test_commands_run_without_an_output(tmp_path: Path) -> None:
    assert _with_closed_streams("-m", "changelog_engine", "jobs", str(tmp_path)) == 0


@pytest.mark.parametrize("command", ["jobs", "help", "--version"])
def test_output_that_nobody_reads_or_that_has_no_room_is_no_traceback(tmp_path: Path, command: str) -> None:
    """As with `| head`, and a full disk."""
    words = {"jobs": [str(tmp_path)], "help": ["compatibility"]}.get(command, [])
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe, open("/dev/full", "wb") as full:
        ended = [
            subprocess.run(
                [sys.executable, "-m", "changelog_engine", command, *words],
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            for output in (pipe, full)
        ]
    assert [(each.returncode, each.stderr) for each in ended] == [
        (141, ""),
        (1, "Error: could not write the output: No space left on device\n"),
    ]
