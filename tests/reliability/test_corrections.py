"""Repairs: forks with corrected entries, whose log says who and why; the job itself stays as it is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv
from support import window_jobs
from support.chance import fewer
from support.functions import Count, by_key, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.memory_disk import MemoryDisk
from support.operations import Operations, inputs
from support.profiles import PROFILES
from support.same import exact
from support.script import Script

import changelog_engine
from api.common import Row, Time
from api.common.typeinfo import Types
from api.datastream.functions import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.cli import main
from changelog_engine.cli.given_corrections import values_of_text
from changelog_engine.corrections import DELETE, UNCHANGED, FixedEntry
from changelog_engine.errors import (
    ArgumentTypeError,
    ChangelogEngineError,
    ConfigurationError,
    RestoreError,
    StorageError,
    TypeMismatchError,
)
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.inspection.jobs import job_status
from changelog_engine.inspection.key_history import key_history
from changelog_engine.inspection.timeline import Timeline
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.replay.job import replay_graph
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.verification.verify import verify
from materializer import state_at
from materializer.materialize import materialize

ELEMENTS = rounds(5, 40)
SAID = {"who": "ann", "why": "refund 17 was booked twice"}


def graph(name: str = "job", **more: Any) -> Any:
    return keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), name=name, **more)


@pytest.fixture(params=[True, False], ids=["changelog", "snapshots"])
def base(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A finished job of two subtasks: keys 0 to 4 are counted to 8."""
    TestJob(tmp_path / "base", Script(sizes=(5,)), changelog=request.param, retained_checkpoints=9).run(
        graph(parallelism=2)
    )
    return tmp_path / "base"


def look(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def fix(entry: FixedEntry) -> Any:
    return {0: 100, 1: DELETE, 2: entry.value}.get(entry.key, UNCHANGED)


def test_a_job_goes_on_from_its_corrections(base: Path) -> None:
    """With another parallelism; the log says who and why; the parent is not changed; all of it is whole."""
    before, at = look(base / "job"), 7
    dry = changelog_engine.repair(str(base / "job"), at, fix, **SAID, dry_run=True)
    assert [
        (each.key, each.before, each.after, each.deleted)
        for each in sorted(dry.corrections, key=lambda c: c.key)
    ] == [
        (0, 7, 100, False),
        (1, 7, None, True),
    ]
    assert (dry.path, sorted(path.name for path in base.iterdir())) == (None, ["job"])
    made = changelog_engine.repair(str(base / "job"), at, fix, **SAID, target=f"{base}/mended")
    assert made.corrections == dry.corrections
    assert look(base / "job") == before
    assert logged_state(str(base), "mended") == {
        ("process", "count"): {exact(k): v for k, v in ((0, 100), (2, 7), (3, 7), (4, 7))}
    }
    attempt = Timeline(made.path or "").attempts[-1]
    assert (attempt.how, attempt.end, attempt.checkpoints) == ("forked", "stopped", 1)
    job = TestJob(base, Script(sizes=(5,)))
    job.run_driver(graph("mended", parallelism=3))
    assert by_key(job.output) == {0: [101], 1: [1], 2: [8], 3: [8], 4: [8]}
    folder = find_job_folder(str(base), "mended")
    assert verify(folder).faults == []
    settings = JobSettings(base_path=str(base), checkpoint_interval_ms=1000, changelog=True)
    with pytest.raises(RestoreError, match="checkpoint 8 are corrections that ann made"):
        replay_graph(graph("mended"), settings, 7)
    assert replay_graph(graph("mended"), settings, 8).equal
    for _ in range(2):  # out of the log, and beside a snapshot that is newer
        changes = key_history(folder.storage.root, "1").changes
        told = [(c.operation, c.before, c.after, c.who, c.why) for c in changes if c.cause == "correction"]
        assert told == [("clear", 7, None, SAID["who"], SAID["why"])]
        shown = CliRunner().invoke(main, ["history", folder.storage.root, "--key", "0", "--csv"])
        assert f"correction by {SAID['who']}: {SAID['why']}" in shown.output
        materialize(folder)
    assert verify(folder).faults == []


@pytest.mark.parametrize("profile", sorted(PROFILES))
@fewer(2)
@given(data=st.data())
def test_corrections_equal_a_model(profile: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    """Any states of any types: deletions, and values that other keys have; what is not touched stays."""
    base = tmp_path_factory.mktemp("base")
    elements = data.draw(inputs(profile, max_elements=15), "elements")
    parallelism = data.draw(st.integers(1, 3), "parallelism")
    job = keyed_job(
        elements, Operations(profile), key_type=PROFILES[profile].key_type, parallelism=parallelism
    )
    TestJob(base, Script(sizes=(5,))).run(job)
    before = state_at(f"{base}/job/changelog", allow_pickle=True)
    entries: dict[Any, Any] = {}

    def noted(entry: FixedEntry) -> Any:
        entries[entry.operator, entry.state, exact(entry.key), exact(entry.map_key)] = entry.value
        return UNCHANGED

    changelog_engine.repair(f"{base}/job", None, noted, **SAID, dry_run=True, allow_pickle=True)
    model = {
        name: {where: exact(value) for where, value in some.items()}
        for name, some in _of_states(entries).items()
    }
    assert model == {name: some for name, some in _entries(before).items() if some}
    if not entries:
        return
    wanted: dict[Any, Any] = {}
    for where in data.draw(st.lists(st.sampled_from(sorted(entries, key=repr)), unique=True, min_size=1)):
        others = [value for (op, state, *_), value in entries.items() if (op, state) == where[:2]]
        wanted[where] = data.draw(st.sampled_from([DELETE, *others]), "new value")

    def fixed(entry: FixedEntry) -> Any:
        where = entry.operator, entry.state, exact(entry.key), exact(entry.map_key)
        given_value = wanted.get(where, UNCHANGED)
        return UNCHANGED if given_value is None else given_value

    options: dict[str, Any] = {**SAID, "allow_pickle": True}
    if not changelog_engine.repair(f"{base}/job", None, fixed, **options, dry_run=True).corrections:
        with pytest.raises(ConfigurationError, match="changes nothing"):
            changelog_engine.repair(f"{base}/job", None, fixed, **options, target=f"{base}/mended")
        return
    made = changelog_engine.repair(f"{base}/job", None, fixed, **options, target=f"{base}/mended")
    for where, value in wanted.items():
        if value is DELETE:
            del model[where[:2]][where[2:]]
        elif value is not None:
            model[where[:2]][where[2:]] = exact(value)
    after = state_at(f"{made.path}/changelog", allow_pickle=True)
    assert _entries(after) == {name: model.get(name, {}) for name in _entries(after)}
    assert after.timers == before.timers
    assert verify(find_job_folder(str(base), "mended")).faults == []


def _of_states(entries: dict[Any, Any]) -> dict[Any, dict[Any, Any]]:
    found: dict[Any, dict[Any, Any]] = {}
    for where, value in entries.items():
        found.setdefault(where[:2], {})[where[2:]] = value
    return found


def _entries(folded: Any) -> dict[Any, dict[Any, Any]]:
    kinds = {
        (operator.uid, state.name): state.kind
        for operator in folded.checkpoint.operators
        for state in operator.states
    }
    found: dict[Any, dict[Any, Any]] = {}
    for name, entries in folded.states.items():
        some = found.setdefault(name, {})
        for key, value in entries.items():
            if kinds[name] == "map":
                some.update({(exact(key), exact(k)): exact(v) for k, v in value.items()})
            else:
                some[exact(key), exact(None)] = exact(value)
    return found


def test_tables_of_corrections(base: Path) -> None:
    """They set what is there and what is not, and delete; a savepoint can be repaired, too."""
    folder = find_job_folder(str(base), "job")
    newest = state_at(f"{folder.storage.root}/changelog").checkpoint
    savepoint = create_savepoint(folder, newest, f"{base}/savepoints")
    table = {"key": [1, 9, 3], "value": [5, 6, None], "delete": [False, False, True]}
    made = changelog_engine.repair(
        savepoint.path, None, {"process": {"count": table}}, **SAID, target=f"{base}/mended"
    )
    assert state_at(f"{made.path}/changelog").states["process", "count"] == {0: 8, 1: 5, 2: 8, 4: 8, 9: 6}
    assert verify(find_job_folder(str(base), "mended")).faults == []


def test_state_of_windows(tmp_path: Path) -> None:
    """A window that is open has its corrected contents when it fires, in a fork that lies on another file system."""
    elements = [("a", 1, "x"), ("a", 2, "y"), ("b", 3, "z"), ("a", 15, "w")]
    windows = window_jobs.spec(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    job = window_jobs.graph(elements, windows, key_type=Types.STRING())
    TestJob(tmp_path, Script(sizes=(2,))).run(job)
    seen = []

    def fixed(entry: FixedEntry) -> Any:
        seen.append((entry.key, entry.namespace, entry.kind))
        entry.value[0] = ("a", 1, "corrected")
        return entry.value

    other = tmp_path / "other"
    other.mkdir()
    with MemoryDisk(str(other)).mounted():
        changelog_engine.repair(
            str(tmp_path / "job"), 1, fixed, **SAID, target=f"{other}/mended", allow_pickle=True
        )
    assert seen == [("a", "[0,10]", "list")]
    mended = TestJob(other, Script(sizes=(2,)))
    mended.run_driver(replace(job, name="mended"))
    assert sorted(mended.output) == [("a", 0, "correctedy"), ("a", 10, "w"), ("b", 0, "z")]


class Remember(KeyedProcessFunction):
    """Lists and maps that live for a second."""

    def open(self, runtime_context: Any) -> None:
        config = StateTtlConfig.new_builder(Time.seconds(1)).build()
        listed = ListStateDescriptor("list", Types.STRING())
        mapped = MapStateDescriptor("map", Types.STRING(), Types.LONG())
        for descriptor in (listed, mapped):
            descriptor.enable_time_to_live(config)
        self.list = runtime_context.get_list_state(listed)
        self.map = runtime_context.get_map_state(mapped)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.list.add(value[1])
        self.map.put(value[1], 1)
        yield list(self.list.get()), dict(self.map.items())


def test_state_with_a_time_to_live(tmp_path: Path) -> None:
    """A correction is no access."""
    elements = [("a", "x"), ("a", "y")]
    job = keyed_job(elements, Remember(), key_type=Types.STRING())
    TestJob(tmp_path, Script(sizes=(1,)), clock=lambda: 5_000).run(job)
    tables = {
        "list": {"key": ["a", "a"], "value": ["p", "q"]},
        "map": {
            "key": ["a", "a", "a"],
            "map_key": ["x", "y", "n"],
            "value": [7, None, 8],
            "delete": [False, True, False],
        },
    }
    made = changelog_engine.repair(
        f"{tmp_path}/job", None, {"process": tables}, **SAID, target=f"{tmp_path}/mended", clock=lambda: 5.0
    )
    folded = state_at(f"{made.path}/changelog")
    name = ("process", "list")
    assert (folded.states[name]["a"], folded.accessed[name]["a"]) == (["p", "q"], [5_000, 5_000])
    name = ("process", "map")
    assert folded.states[name]["a"] == {"x": 7, "n": 8}
    assert folded.accessed[name]["a"] == {"x": 5_000, "n": 5_000}


def test_on_the_console(base: Path) -> None:
    """Keys and values as the console shows them; a dry run makes nothing."""
    said = ["--operator", "process", "--state", "count", "--who", "ann", "--why", "it was wrong"]

    def correct(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["correct", str(base / "job"), *said, *arguments])

    dry = correct("--set", "0", "100", "--delete", "3", "--dry-run", "--csv")
    assert dry.output.splitlines() == ["key,before,after", "0,8,100", "3,8,deleted"]
    assert sorted(path.name for path in base.iterdir()) == ["job"]
    for arguments, message in (
        (("--set", "x", "1", "--dry-run"), "'x' is not a key of the type LONG"),
        (("--set", "1", '"x"', "--dry-run"), "LONG"),
        (("--set", "1", "1"), "NEW_PATH is missing"),
        (("--dry-run",), "give corrections"),
        (("--set", "1", "1", "--map-key", "a", "--dry-run"), "is not a MapState"),
        (("--delete", "77", "--dry-run"), "that could be deleted"),
    ):
        refused = correct(*arguments)
        assert refused.exit_code in (1, 2)
        assert message in refused.stderr, refused.stderr
    one_has_it = CliRunner().invoke(
        main, ["correct", str(base / "job"), *said[2:], "--set", "0", "100", "--dry-run", "--csv"]
    )
    assert one_has_it.output.splitlines() == ["key,before,after", "0,8,100"]
    misspelt = CliRunner().invoke(
        main, ["correct", str(base / "job"), "--state", "cuont", "--set", "0", "1", "--dry-run"]
    )
    assert "no state 'cuont'; there are count" in misspelt.stderr
    made = correct(f"{base}/mended", "--set", "0", "100", "--delete", "3")
    assert made.exit_code == 0, made.output
    assert "starts with 2 corrections after checkpoint 8" in made.output
    assert "--job mended" in made.output
    assert state_at(f"{base}/mended/changelog").states["process", "count"] == {0: 100, 1: 8, 2: 8, 4: 8}
    assert job_status(f"{base}/mended").summary.state == "not run yet"


def test_numbers_of_any_size_on_the_console() -> None:
    """None goes through a float; a field that a row has not is refused."""
    decimal, large = "12345678901234567890.10", 12345678901234567890123
    assert values_of_text(decimal, Types.BIG_DEC(), False, "--set") == [Decimal(decimal)]
    assert values_of_text(f"[{large}, 5]", Types.BIG_INT(), True, "--set") == [large, 5]
    row = Types.ROW_NAMED(["a", "b"], [Types.MAP(Types.STRING(), Types.BIG_DEC()), Types.DOUBLE()])
    nested = Types.TUPLE([row, Types.LIST(Types.BIG_INT())])
    found = values_of_text(f'[{{"a": {{"x": 1.10}}, "b": 1.5}}, [{large}]]', nested, False, "--set")
    assert exact(found) == exact([(Row(a={"x": Decimal("1.10")}, b=1.5), [large])])
    for text, declared in (
        ('{"a": {}, "b": 1.5, "c": 2}', row),
        (str(large), Types.PICKLED_BYTE_ARRAY()),
    ):
        with pytest.raises(click.UsageError, match="must be JSON"):
            values_of_text(text, declared, False, "--set")


@pytest.mark.parametrize(
    ("text", "declared", "said"),
    [
        ("9007199254740993", Types.DOUBLE(), "64 bits do not hold it exactly"),
        ("1e400", Types.DOUBLE(), "too large for 64 bits"),
        ("[-1e400, 1]", Types.LIST(Types.FLOAT()), "must be JSON"),
        ("9223372036854775808", Types.LONG(), "outside"),
        ("1.5", Types.BIG_INT(), "not a whole number"),
        ('{"a": 1, "a": 2}', Types.MAP(Types.STRING(), Types.INT()), "'a' is in it twice"),
        (
            '[{"a": 1, "b": 0, "a": 2}]',
            Types.LIST(Types.ROW_NAMED(["a"], [Types.INT()])),
            "'a' is in it twice",
        ),
        ("2020-01-01T00:00:00.1234567", Types.SQL_TIMESTAMP(), "more than 6 digits behind the seconds"),
        ('{"t": "01:02:03.1234567"}', Types.MAP(Types.STRING(), Types.SQL_TIME()), "more than 6 digits"),
        ("2020-01-01T00:00:00.1234567891Z", Types.INSTANT(), "more than 9 digits behind the seconds"),
    ],
)
def test_no_value_on_the_console_is_taken_for_another_one(text: str, declared: Any, said: str) -> None:
    """Numbers were rounded or became infinity, digits of seconds were cut, and of two fields the last one counted."""
    with pytest.raises(click.UsageError, match=said):
        values_of_text(text, declared, False, "--set")


def test_whole_numbers_on_the_console_may_have_a_point_or_an_exponent() -> None:
    """All of their digits count: 9007199254740993.0 became 9007199254740992."""
    assert exact(values_of_text("9007199254740993.0", Types.LONG(), False, "--set")) == exact([2**53 + 1])
    assert exact(values_of_text("[1e3, 2]", Types.LIST(Types.INT()), False, "--set")) == exact([[1000, 2]])
    assert exact(values_of_text("1E+30", Types.BIG_INT(), False, "--set")) == exact([10**30])
    assert exact(values_of_text("[3, 0.1]", Types.DOUBLE(), True, "--set")) == exact([3.0, 0.1])
    stamp = values_of_text("2020-01-01T00:00:00.120000000", Types.SQL_TIMESTAMP(), False, "--set")
    assert exact(stamp) == exact([datetime(2020, 1, 1, 0, 0, 0, 120_000)])


def test_a_file_of_corrections(base: Path, tmp_path: Path) -> None:
    """Parquet, CSV and JSON lines say the same; what a file lacks, options say; what is wrong is named, and makes no job."""

    def correct(file: Path, *arguments: str) -> Any:
        words = ["correct", str(base / "job"), "--from-file", str(file), *arguments]
        return CliRunner().invoke(main, [*words, "--dry-run", "--csv"])

    said = {"operator": "process", "state": "count", "who": "ann", "why": 'was wrong, in "May"'}
    rows = [
        {"key": 0, "value": 100, "delete": None, **said},
        {"key": 3, "value": None, "delete": True, **said},
    ]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "c.parquet")
    csv.write_csv(table, tmp_path / "c.csv")
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    for name in ("c.parquet", "c.csv", "c.jsonl"):
        shown = correct(tmp_path / name)
        assert shown.exit_code == 0, shown.output
        assert shown.output.splitlines() == ["key,before,after", "0,8,100", "3,8,deleted"]
    file = tmp_path / "few.csv"
    options = ["--operator", "process", "--state", "count", "--who", "ann", "--why", "wrong"]
    for text, more, words in (
        ("key,value\n1,x\n", options, "row 0 .counted from 0., column .value.: the value is declared LONG"),
        ("key,value\nx,1\n", options, "'x' is not a key of the type LONG"),
        ("key,value\n1,1\n", options[:-2], "has no column why: add it, or say --why"),
        ("key,value,why\n1,1,a\n", options, "has a column why: leave --why out"),
        ("key,value,why\n1,1,a\n2,2,b\n", options[:-2], "one text for all of its corrections"),
        ("key,value,vaule\n1,1,2\n", options, "column 'vaule' too many"),
        ("key,value\n1,1,2\n", options, "column without a name"),
        ("key,value\n", options, "has no rows"),
        ("key,value,delete\n1,1,yes\n", options, "delete is 'yes', neither true nor false"),
        ("value,key\n1\n", options, "row 0 .counted from 0., column .key.: is null"),
        ("key,value\n1\n", options, "row 0 .counted from 0. has no value"),
        ("key,delete\n1,\n", options, "row 0 .counted from 0. has no value"),
        ("key,value\n1,1\n1,2\n", options, "an earlier row is for the key 1"),
        ("key,value,state\n1,1,cuont\n", [*options[:2], *options[4:]], "no state 'cuont'; there are count"),
    ):
        file.write_text(text)
        refused = correct(file, *more)
        assert refused.exit_code in (1, 2)
        assert re.search(words, " ".join(refused.stderr.split())), refused.stderr
    lines = tmp_path / "few.jsonl"
    for text, words in (('{"key": 1, "delete": 1}', "delete is 1, neither"), ('{"key": 1}', "has no value")):
        lines.write_text(text)
        assert re.search(words, " ".join(correct(lines, *options).stderr.split()))
    assert correct(tmp_path / "c.csv", "--set", "1", "1").exit_code == 2
    file.write_text("key,value\n0,100\n")
    made = CliRunner().invoke(
        main, ["correct", str(base / "job"), f"{tmp_path}/mended", "--from-file", str(file), *options]
    )
    assert made.exit_code == 0, made.output
    assert state_at(f"{tmp_path}/mended/changelog").states["process", "count"][0] == 100


def test_a_fix_may_use_one_object_again(tmp_path: Path) -> None:
    """What it gave back counts as it was then."""
    windows = window_jobs.spec(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    elements = [("a", 1, "x"), ("b", 3, "z"), ("c", 4, "w"), ("a", 15, "w")]
    TestJob(tmp_path, Script(sizes=(3,))).run(window_jobs.graph(elements, windows, key_type=Types.STRING()))
    one: list[Any] = []

    def fixed(entry: FixedEntry) -> Any:
        one[:] = [[entry.key]]
        return one

    def nested(entry: FixedEntry) -> Any:
        inner.clear()
        inner.append(entry.key)
        return [inner]

    inner: list[Any] = []
    for each in (fixed, nested):
        done = changelog_engine.repair(
            str(tmp_path / "job"), 1, each, **SAID, dry_run=True, allow_pickle=True
        )
        assert sorted((c.key, c.after) for c in done.corrections) == [(k, [[k]]) for k in "abc"]


REFUSED: list[tuple[Any, dict[str, Any], type[ChangelogEngineError], str]] = [
    (lambda entry: None, {}, ConfigurationError, "fix gave back None for the entry of key"),
    (lambda entry: "x", {}, TypeMismatchError, "new value of key .* declared LONG but got 'x'"),
    (lambda entry: UNCHANGED, {}, ConfigurationError, "changes nothing"),
    ({"process": {}}, {}, ConfigurationError, "'process' names no state"),
    (None, {}, ArgumentTypeError, "fix must be a function, or tables"),
    (
        {"process": {"count": {"key": [1], "value": [1]}}},
        {"state": "x"},
        ConfigurationError,
        "say themselves",
    ),
    (fix, {"who": " "}, ConfigurationError, "who must be a str"),
    (fix, {"why": None}, ConfigurationError, "why must be a str"),
    (fix, {"target": None}, ConfigurationError, "target is missing"),
    (fix, {"state": "cuont"}, ChangelogEngineError, "count"),
    ({"process": {"other": {"key": [1], "value": [1]}}}, {}, RestoreError, "there is no state 'other'"),
    (
        {"process": {"count": {"key": [7], "value": [None], "delete": [True]}}},
        {},
        ConfigurationError,
        "that could be deleted",
    ),
    ({"process": {"count": {"key": [1, 1], "value": [1, 2]}}}, {}, TypeMismatchError, "row 1 .*key 1, too"),
    ({"process": {"count": {"key": [1], "value": [None]}}}, {}, TypeMismatchError, "row 0 .*is null"),
    ({"process": {"count": {"key": ["x"], "value": [1]}}}, {}, TypeMismatchError, "row 0 .*column 'key'"),
]


@pytest.mark.parametrize(
    ("given_fix", "change", "kind", "message"), REFUSED, ids=[each[3] for each in REFUSED]
)
def test_refusals(
    tmp_path: Path, given_fix: Any, change: dict[str, Any], kind: type[Exception], message: str
) -> None:
    TestJob(tmp_path, Script(sizes=(5,))).run(graph())
    with pytest.raises(kind, match=message):
        changelog_engine.repair(
            str(tmp_path / "job"), None, given_fix, **{**SAID, "target": f"{tmp_path}/mended", **change}
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job"]


def test_an_error_of_the_fix_names_the_entry(tmp_path: Path) -> None:
    TestJob(tmp_path, Script(sizes=(5,))).run(graph())
    with pytest.raises(ZeroDivisionError) as raised:
        changelog_engine.repair(
            str(tmp_path / "job"), None, lambda entry: 1 // 0, **SAID, target=f"{tmp_path}/x"
        )
    assert "the entry of key 0 of state 'count'" in raised.value.__notes__[0]


# For each number of standard input: whom it leaves so many steps, in a fork, and its status.
KILLED = """
import os, signal, sys, traceback
import pyarrow
import changelog_engine
from changelog_engine.storage.local_disk import LocalDisk

pyarrow.array([0])  # imports pandas, as each fork would
repair, path = changelog_engine.repair, sys.argv[1]

def repaired(steps):
    left = [steps]
    for name in ("write_durable", "put_if_absent", "move", "share"):
        def counted(storage, *arguments, inner=getattr(LocalDisk, name)):
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return inner(storage, *arguments)
        setattr(LocalDisk, name, counted)
    repair(f"{path}/job", None, lambda entry: entry.value + 1, who="w", why="y", target=f"{path}/mended")

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            repaired(int(line))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """Has a process repair the job and die after so many steps; gives its status. All are forks of one that has imported."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forking:

        def kill_after(steps: int) -> int:
            assert forking.stdin is not None
            assert forking.stdout is not None
            print(steps, file=forking.stdin, flush=True)
            return int(forking.stdout.readline())

        yield kill_after


@pytest.mark.slow
def test_killed_at_each_step(tmp_path: Path, killed: Callable[[int], int]) -> None:
    """There is the new job with all corrections, or none; the parent is as it was, and the repair can be made again."""
    TestJob(tmp_path, Script(sizes=(20,))).run(graph())
    before = look(tmp_path / "job")
    steps, ended = 0, False
    while not ended:
        status = killed(steps)
        assert status in (0, -signal.SIGKILL)
        ended, steps = status == 0, steps + 1
        parent = {
            name: data for name, data in look(tmp_path / "job").items() if not name.startswith("protected/")
        }
        assert parent == before
        if (tmp_path / "mended").exists():
            assert ended
            assert logged_state(str(tmp_path), "mended") == {
                ("process", "count"): {exact(k): 9 for k in range(5)}
            }
    assert steps > 8
    assert verify(find_job_folder(str(tmp_path), "mended")).faults == []
    with pytest.raises(StorageError, match="is there already"):
        changelog_engine.repair(str(tmp_path / "job"), None, fix, **SAID, target=f"{tmp_path}/mended")
