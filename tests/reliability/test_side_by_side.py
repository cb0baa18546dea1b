"""Copies and readers in the middle of which a snapshot is made or the log truncated, before any of their calls to the disk.

What they give is exact, or a clear error; the job itself goes on from its newest checkpoint. Cases 18, 20 and 23.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.live import live_state, logged_state, spec_of
from support.materialized import AT_ONCE, LATER, merging_few, stopped
from support.model import pictured
from support.page import asked
from support.side_by_side import interrupted
from support.stores import store_config
from unit.test_commit_helpers import Driver

from changelog_engine.cli import main
from changelog_engine.corrections import repair
from changelog_engine.errors import ChangelogEngineError, CorruptChangelogError, RestoreError, StorageError
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    key_type_of,
    keyed_operators,
)
from changelog_engine.inspection.differences import differences
from changelog_engine.inspection.jobs import job_status, list_jobs
from changelog_engine.inspection.key_history import key_history
from changelog_engine.inspection.sql import query
from changelog_engine.inspection.states import entries_at, states_at
from changelog_engine.inspection.timeline import Timeline
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.operators.store import KeyedStore
from changelog_engine.savepoints.folder import open_savepoint
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.types import Types
from changelog_engine.ui.app import Page
from changelog_engine.ui.report import make_report
from changelog_engine.verification.verify import verify
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.truncation import truncate

EPOCHS = 6
STEP = int(os.environ.get("SIDE_BY_SIDE_STEP", "35"))  # 1 tries every call, on older checkpoints, too
POINTS = (EPOCHS, 4, 3) if STEP == 1 else (EPOCHS,)


def truncation(folder: JobFolder) -> None:
    with merging_few():
        truncate(folder, AT_ONCE)


def snapshot_and_truncation(folder: JobFolder) -> None:
    materialize(folder, piece_bytes=64)
    with merging_few():
        truncate(folder, LATER)


INNER = {f.__name__: f for f in (truncation, snapshot_and_truncation)}


def read(base: str, at: int) -> Any:
    """By a fold of the log, as a restore makes it."""
    return pictured(logged_state(base, checkpoint=at))


def forked(base: str, at: int) -> Any:
    row = Lineage(find_job_folder(base, "job").open_changelog()).checkpoint(at)
    fork_job(find_job_folder(base, "job"), row, f"{base}/fork")
    return pictured(logged_state(base, "fork", at))


def copied(base: str, at: int) -> Any:
    row = Lineage(find_job_folder(base, "job").open_changelog()).checkpoint(at)
    made = create_savepoint(find_job_folder(base, "job"), row, f"{base}/savepoints")
    found = open_savepoint(made.path)
    return pictured(logged_state(f"{base}/savepoints", os.path.basename(found.path), found.checkpoint.id))


def _fold(base: str, at: int) -> Any:
    found = state_at(f"{base}/job/changelog", at)
    return {name: dict(entries) for name, entries in found.states.items()}


def _listed(base: str, at: int) -> Any:
    return _listed_in(f"{base}/job", at)


def _listed_in(path: str, at: int) -> Any:
    return [(each.state, each.key, each.value) for each in entries_at(path, at).entries]


def _asked(base: str, at: int) -> Any:
    (view,) = query(f"{base}/job", "SELECT view FROM states", at).rows[0]
    return sorted(query(f"{base}/job", f"SELECT key, value FROM {view}", at).rows)


def _restored(base: str, at: int) -> Any:
    """By a subtask that has all keys."""
    folder = find_job_folder(base, "job")
    row = Lineage(folder.open_changelog()).checkpoint(at)
    (operator,) = keyed_operators(row.operators)
    groups, key_type = operator.max_parallelism, key_type_of(operator)
    store = KeyedStore(store_config(folder.changelog.root, operator.uid, groups, key_type=key_type))
    store.load(plan_restore(folder, row), row.operators)
    for state in operator.states:
        store.state(operator.uid, spec_of(state))
    return live_state(store)


def _saved(base: str, at: int) -> Any:
    row = Lineage(find_job_folder(base, "job").open_changelog()).checkpoint(at)
    made = create_savepoint(find_job_folder(base, "job"), row, f"{base}/savepoints")
    return _listed_in(made.path, at)


def _corrected(base: str, at: int) -> Any:
    done = repair(f"{base}/job", at, lambda entry: entry.value + 1, who="ann", why="a test", dry_run=True)
    return sorted((each.key, each.before, each.after) for each in done.corrections)


READERS = {
    "fold": _fold,
    "listed": _listed,
    "asked": _asked,
    "restored": _restored,
    "saved": _saved,
    "forked": forked,
    "corrected": _corrected,
}
OUTER: dict[str, Callable[[str, int], Any]] = {f.__name__: f for f in (read, forked, copied)}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    base = tmp_path_factory.mktemp("template")
    _, _, folder = stopped(base, epochs=EPOCHS)
    states = {number: read(str(base), number) for number in range(1, EPOCHS + 1)}
    materialize(folder, 2, piece_bytes=64)
    materialize(folder, 4, piece_bytes=64)
    return base, states


@pytest.mark.parametrize("inner", sorted(INNER))
@pytest.mark.parametrize("outer", sorted(OUTER))
def test_at_each_call(template: Any, tmp_path: Path, outer: str, inner: str) -> None:
    source, states = template
    exact = 0
    for at in POINTS:
        number, done = 0, [0]
        while done:
            base = tmp_path / f"{at} {number}"
            shutil.copytree(source, base)
            folder = find_job_folder(str(base), "job")
            with interrupted(number, lambda folder=folder: INNER[inner](folder)) as done:
                try:
                    assert OUTER[outer](str(base), at) == states[at], (at, number)
                    exact += 1
                except ChangelogEngineError as error:
                    if not _is_clear(error, at, inner):
                        raise
            assert read(str(base), EPOCHS) == states[EPOCHS], (at, number)
            found = verify(folder)
            assert found.faults == [], (at, number)
            assert EPOCHS in found.restorable
            shutil.rmtree(base)
            number += STEP
    assert exact


def _is_clear(error: ChangelogEngineError, at: int, inner: str) -> bool:
    """Only what the truncation took from the table or, without a time of grace, from the disk may be refused."""
    if isinstance(error, RestoreError):
        return at < EPOCHS
    return isinstance(error, CorruptChangelogError) and inner == "truncation"


@pytest.mark.parametrize("reader", sorted(READERS))
def test_case_20_readers_look_again_where_files_went_without_a_time_of_grace(
    template: Any, tmp_path: Path, reader: str
) -> None:
    """A file that truncation merged away is not damage: nobody is told to put it back from a copy."""
    read_it, (source, _) = READERS[reader], template
    right, number, done = read_it(str(shutil.copytree(source, tmp_path / "whole")), EPOCHS), 0, [0]
    assert right
    while done:
        base = tmp_path / str(number)
        shutil.copytree(source, base)
        folder = find_job_folder(str(base), "job")
        with interrupted(number, lambda folder=folder: snapshot_and_nothing_else(folder)) as done:
            assert read_it(str(base), EPOCHS) == right, number
        shutil.rmtree(base)
        number += 1 if STEP == 1 else {"saved": 45, "forked": 60}.get(reader, 5)


def _compared(base: str) -> None:
    with contextlib.suppress(RestoreError):  # it was truncated before it was looked for
        differences(f"{base}/job", "-2", "latest")


def _on_the_page(base: str) -> None:
    page = Page(base).app()
    for part in ("", "/state", "/now"):
        found = re.search(r'role="alert"[^<]*|[^<]*parquet[^<]*', asked(page, f"/job/job{part}"))
        assert found is None, found


TELLS = {
    "compared": _compared,
    "page": _on_the_page,
    "reported": lambda base: make_report(f"{base}/job").faults,
    "listed": lambda base: [job.fault for job in list_jobs(base) if job.fault],
    "status": lambda base: job_status(f"{base}/job").faults,
    "timeline": lambda base: Timeline(f"{base}/job").faults,
    **{
        f"{name} of the console": lambda base, name=name: _of_the_console(name, f"{base}/job")
        for name in ("checkpoints", "metrics", "timeline")
    },
}


def _of_the_console(command: str, path: str) -> str | None:
    answer = CliRunner().invoke(main, [command, path])
    return answer.output if answer.exit_code else None


@pytest.mark.parametrize("reader", sorted(TELLS))
def test_case_20_who_keeps_faults_looks_again_before_it_tells_them(
    template: Any, tmp_path: Path, reader: str
) -> None:
    """As ``test_case_20_readers_look_again``, of readers that give what can be read, and say what can't."""
    told, (source, _), number, done = TELLS[reader], template, 0, [0]
    while done:
        base = tmp_path / str(number)
        shutil.copytree(source, base)
        folder = find_job_folder(str(base), "job")
        with interrupted(number, lambda folder=folder: snapshot_and_nothing_else(folder)) as done:
            assert not told(str(base)), number
        shutil.rmtree(base)
        number += 1 if STEP == 1 else {"page": 71, "reported": 41, "status": 4}.get(reader, 11)


KEY = 7  # of key group 1 of 8, where the driver of these tests writes


def _without_changelog(base: Path) -> Driver:
    """A job whose checkpoints are snapshots: each has its own number as the state, and stays until the next one."""
    driver = Driver.start(base)
    state = DescribedState("n", "value", Types.LONG().spec())
    driver.operators = [
        DescribedOperator("count", "count", "process", 1, 8, True, Types.LONG().spec(), (state,))
    ]
    _goes_on(driver)
    return driver


def _goes_on(driver: Driver) -> None:
    row = driver.snapshot({str(KEY): driver.committer.next_id})
    driver.committer.retire_snapshots({row.id})


def _folded_newest(base: str) -> Any:
    found = state_at(f"{base}/job/changelog")
    return found.checkpoint.id, found.states["count", "n"][KEY]


def _listed_newest(base: str) -> Any:
    found = entries_at(f"{base}/job")
    return found.checkpoint.id, *[entry.value for entry in found.entries]


def _life_of_no_key(base: str) -> Any:
    """Looks at all entries, at the checkpoint that it opened, before it says so."""
    found = key_history(f"{base}/job", str(KEY + 1))
    return found.checkpoint.id, found.checkpoint.id - len(found.changes)


def _counted_newest(base: str) -> Any:
    found = states_at(f"{base}/job")
    return found.checkpoint.id, found.checkpoint.id if [each.keys for each in found.states] == [1] else None


def _asked_for_the_newest(base: str) -> Any:
    (found,) = query(f"{base}/job", "SELECT max(id), max(value) FROM checkpoints, count_n").rows
    return found


def _shown_on_the_page(base: str) -> Any:
    shown = asked(Page(base).app(), "/job/job/state")
    return [int(n) for n in re.findall(r'(?<=at checkpoint )\d+(?=, attempt)|(?<="mono value">)\d+', shown)]


def _in_the_report(base: str) -> Any:
    found = make_report(f"{base}/job")
    return found.checkpoint, found.checkpoint if not found.faults else found.faults


def _by_command(*arguments: str) -> str:
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def _forked_newest(base: str) -> Any:
    said = _by_command("fork", f"{base}/job", f"{base}/fork")
    (number,) = re.findall(r"starts from checkpoint (\d+)", said)
    return int(number), *[entry.value for entry in entries_at(f"{base}/fork", number).entries]


def _saved_newest(base: str) -> Any:
    found = entries_at(_by_command("savepoint", "create", f"{base}/job", f"{base}/savepoints").strip())
    return found.checkpoint.id, *[entry.value for entry in found.entries]


def _corrected_newest(base: str) -> Any:
    why = ("--who", "ann", "--why", "a test", "--dry-run", "--json")
    of = ("--operator", "count", "--state", "n", "--set", str(KEY), "-1")
    found = json.loads(_by_command("correct", f"{base}/job", *of, *why))
    return found["checkpoint"], *[each["before"] for each in found["corrections"]]


NEWEST: dict[Callable[[str], Any], int] = {  # of how many calls to the disk one is tried
    _folded_newest: 8,
    _listed_newest: 9,
    _life_of_no_key: 9,
    _counted_newest: 9,
    _asked_for_the_newest: 11,
    _shown_on_the_page: 40,
    _in_the_report: 28,
    _forked_newest: 12,
    _saved_newest: 12,
    _corrected_newest: 9,
}


@pytest.mark.parametrize("reader", NEWEST, ids=lambda reader: reader.__name__.strip("_"))
def test_case_20_the_newest_checkpoint_is_opened_again_where_it_was_retired(
    tmp_path: Path, reader: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Without changelog, the next checkpoint retires the one that was opened: who asked for the newest gets that."""
    seen, number, done = set(), 0, [0]
    while done:
        base = tmp_path / str(number)
        driver = _without_changelog(base)
        with interrupted(number, lambda driver=driver: _goes_on(driver)) as done:
            checkpoint, value = reader(str(base))
        assert checkpoint == value, number
        seen.add(checkpoint)
        shutil.rmtree(base)
        number += 1 if STEP == 1 else NEWEST[reader]
    assert seen == {1, 2}
    assert caplog.text == ""


def snapshot_and_nothing_else(folder: JobFolder) -> None:
    materialize(folder, piece_bytes=64)
    truncation(folder)


def _truncated_between(folder: JobFolder) -> None:
    materialize(folder, 5, piece_bytes=64)
    truncation(folder)


@pytest.mark.parametrize("frozen", ["materialization", "truncation"])
def test_case_20_a_materializer_that_stood_still_beside_another(
    template: Any, tmp_path: Path, frozen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on object stores, which have no lock against it: the other made a newer snapshot and truncated the log."""
    source, states = template
    for module in ("materialize", "truncation"):
        monkeypatch.setattr(f"materializer.{module}.materializer_lock", lambda _: contextlib.nullcontext())
    number, done, made = 0, [0], 0
    while done:
        base = tmp_path / str(number)
        shutil.copytree(source, base)
        folder = find_job_folder(str(base), "job")
        with interrupted(number, lambda folder=folder: _truncated_between(folder)) as done:
            try:
                if frozen == "materialization":
                    materialize(folder, piece_bytes=64)
                else:
                    truncation(folder)
                made += 1
            except StorageError:
                pass
        assert read(str(base), EPOCHS) == states[EPOCHS], number
        found = verify(folder)
        assert found.faults == [], number
        assert EPOCHS in found.restorable
        shutil.rmtree(base)
        number += 1 if STEP == 1 else 8
    assert made
