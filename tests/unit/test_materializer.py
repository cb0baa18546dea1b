"""The materializer's parts: pieces, plans, retention over many days and branches, processes, the command."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from test_commit_helpers import Driver, state_at

from changelog_engine.changelog.row_files import Index
from changelog_engine.changelog.snapshot_row import ENTRIES, Piece
from changelog_engine.cli.program import main
from changelog_engine.errors import CorruptChangelogError, SparkEndedError, StorageError
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.inspection.jobs import job_status
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.protection import protecting
from changelog_engine.ledger.snapshots import complete_snapshots
from materializer import retention as retention_module
from materializer import truncation
from materializer.materialize import materialize
from materializer.merge import merge_small
from materializer.pieces import cut
from materializer.processes import FoldProcesses
from materializer.remembered import recall, remember
from materializer.retention import Retention
from materializer.rounds import ROUNDS, last_round
from materializer.schedule import beside_job
from materializer.truncation import truncate
from materializer.upkeep import upkeep

DAY_MS = 86_400_000
AT_ONCE = Retention(history_ms=0, retained=1, grace_ms=0)


@given(first=st.integers(0, 50), size=st.integers(0, 50), pieces=st.sampled_from([1, 2, 4, 8, 64]))
def test_pieces_cover_a_range_and_nest(first: int, size: int, pieces: int) -> None:
    groups = range(first, first + size)
    found = cut(groups, pieces)
    assert [group for piece in found for group in piece] == list(groups)
    assert all(len(piece) > 0 for piece in found)
    finer = {piece.start for piece in cut(groups, 2 * pieces)}
    assert {piece.start for piece in found} <= finer


def test_a_piece_stands_for_exactly_its_groups() -> None:
    piece = Piece("p", "count", ENTRIES, 4, 7)
    assert piece.stands_for("count", ENTRIES, range(4, 8))
    assert not piece.stands_for("count", ENTRIES, range(4, 7))
    assert piece.may_hold("count", ENTRIES, range(7, 9))
    assert not piece.may_hold("count", ENTRIES, range(8, 9))
    assert not piece.may_hold("other", ENTRIES, range(4, 8))


def test_operators_that_the_checkpoint_does_not_know_are_kept(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1, "bb": 2})
    last = driver.checkpoint({"a": 3})
    done = materialize(driver.folder)
    assert done is not None
    assert (done.checkpoint, done.previous, done.log_rows, done.rows) == (2, None, 3, 2)
    truncate(driver.folder, AT_ONCE)
    assert state_at(driver.folder, last) == {"a": 3, "bb": 2}
    assert materialize(driver.folder) is None


def test_a_full_snapshot_is_built_on(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.snapshot({"a": 1, "bb": 2})
    driver = Driver.start(tmp_path)  # the changelog is switched on between two runs
    last = driver.checkpoint({"a": 3})
    done = materialize(driver.folder)
    assert done is not None
    assert (done.previous, done.log_rows) == (1, 1)
    assert state_at(driver.folder, last) == {"a": 3, "bb": 2}


def test_many_days_leave_a_bounded_number_of_files(tmp_path: Path) -> None:
    """A day has four checkpoints and one materialization; a week of history stays."""
    driver = Driver.start(tmp_path)
    folder = driver.folder
    retention = Retention(history_ms=7 * DAY_MS, retained=1, grace_ms=1_000)
    counts, listed = [], []
    with mock.patch.object(truncation, "merge_small", partial(merge_small, least=4)):
        for day in range(1, 26):
            for quarter in range(4):
                at = day * DAY_MS + quarter * DAY_MS // 4
                driver.checkpoint({"a": day, "k" * (day % 7 + 1): day}, time_ms=at)
            materialize(folder)
            truncate(folder, retention, lambda now=at: now / 1000)  # type: ignore[misc]
            counts.append(sum(len(table.list()) for table in (folder.changelog, folder.snapshots)))
            listed.append(folder.open_changelog().files().num_rows)
    assert max(counts[17:]) <= max(counts[9:17]) + 8
    assert max(listed[17:]) <= max(listed[9:17]) + 8
    there = sorted(Lineage(folder.open_changelog()).checkpoints)
    assert (there[-1], len(there)) == (100, there[-1] - there[0] + 1)
    oldest = Lineage(folder.open_changelog()).checkpoint(there[0])
    assert 7 * DAY_MS <= at - oldest.time_ms <= 10 * DAY_MS
    for identity in there[::5]:
        row = Lineage(folder.open_changelog()).checkpoint(identity)
        assert state_at(folder, row)["a"] == (identity + 3) // 4


def test_an_abandoned_branch_stays_while_the_history_has_it(tmp_path: Path) -> None:
    first = Driver.start(tmp_path)
    kept = first.checkpoint({"a": 1}, time_ms=DAY_MS)
    abandoned = first.checkpoint({"a": 2}, time_ms=2 * DAY_MS)
    second = Driver.start(tmp_path, restore=str(kept.id))
    newest = second.checkpoint({"bb": 3}, time_ms=3 * DAY_MS)
    folder = second.folder
    materialize(folder)
    window = Retention(history_ms=2 * DAY_MS, retained=1, grace_ms=0)
    truncate(folder, window, lambda: 4 * DAY_MS / 1000)
    assert state_at(folder, Lineage(folder.open_changelog()).checkpoint(abandoned.id)) == {"a": 2}
    truncate(folder, window, lambda: 9 * DAY_MS / 1000)
    left = Lineage(folder.open_changelog())
    assert (sorted(left.checkpoints), sorted(left.attempts)) == ([newest.id], [2])
    assert state_at(folder, newest) == {"a": 1, "bb": 3}
    assert Driver.start(tmp_path).committer.next_id == newest.id + 1


def test_a_failure_in_a_process_is_the_callers(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    part = next((tmp_path / "job" / "changelog").glob("part-*"))
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    with pytest.raises(CorruptChangelogError, match=part.name):
        materialize(driver.folder, run=FoldProcesses(2))
    assert complete_snapshots(driver.folder) == {}


def test_a_kept_process_folds_again_and_one_that_died_is_replaced(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    run = FoldProcesses(1, keep=True)
    held: list[int] = []
    for count in (1, 2, 3):
        last = driver.checkpoint({"a": count})
        assert materialize(driver.folder, run=run) is not None
        assert state_at(driver.folder, last) == {"a": count}
        (worker,) = run.workers
        held.append(worker.pid)
        if count == 2:
            worker.kill()
            worker.wait()
    run.stop()
    assert held[0] == held[1] != held[2]
    assert (worker.returncode is None, run.workers) == (False, set())


class Runner:
    """Runs tasks here, and counts them by their function."""

    def __init__(self, parallel: bool) -> None:
        self.parallel = parallel
        self.counts: dict[str, int] = {}

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        name = tasks[0][0].__name__ if function.__name__ == "_with_warnings" else function.__name__
        self.counts[name] = len(tasks)
        return [function(task) for task in tasks]


@pytest.mark.parametrize("parallel", [False, True])
def test_where_tasks_come_one_by_one_a_round_is_two_and_the_driver_plans_nothing(
    tmp_path: Path, parallel: bool
) -> None:
    driver = Driver.start(tmp_path)
    last = driver.checkpoint({"a": 1, "bb": 2})
    run = Runner(parallel)
    done: list[Any] = []
    upkeep(driver.folder, run, AT_ONCE, done.append)  # type: ignore[arg-type]
    assert (done[0].checkpoint, done[0].rows) == (1, 2)
    assert run.counts == {"fold_range" if parallel else "_materialize": 1, "_truncate": 1}
    assert state_at(driver.folder, last) == {"a": 1, "bb": 2}


@pytest.mark.parametrize("parallel", [False, True])
def test_what_is_deleted_ahead_of_a_snapshot_is_counted_too(tmp_path: Path, parallel: bool) -> None:
    driver, run, now = Driver.start(tmp_path), Runner(parallel), time.time()
    driver.checkpoint({"a": 1})
    keep = AT_ONCE._replace(grace_ms=60_000)
    for seconds, files, deleted in ((0, 1, 0), (120, 0, 1)):
        done = upkeep(driver.folder, run, keep, lambda done: None, lambda at=now + seconds: at)  # type: ignore[arg-type, misc]
        assert done is not None
        assert (done.log_files, done.deleted) == (files, deleted)


def test_what_a_process_warns_of_is_in_the_callers_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    run = FoldProcesses(1, keep=True)
    upkeep(driver.folder, run, None, lambda done: None)
    (snapshot,) = (tmp_path / "job" / "snapshots").glob("snapshot-*")
    snapshot.write_bytes(b"x" + snapshot.read_bytes()[1:])
    driver.checkpoint({"a": 2})
    upkeep(driver.folder, run, None, lambda done: None)
    run.stop()
    assert [record.getMessage()[:31] for record in caplog.records] == ["the snapshot of checkpoint 1 ca"]
    assert capfd.readouterr().err == ""


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["materialize", *map(str, arguments)])


def test_the_command(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    last = driver.checkpoint({"a": 2, "bb": 3})
    result = command(tmp_path / "job", "--processes", 1, "--retention", 0, "--grace", 0)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(
        "snapshot of checkpoint 2: 3 rows of the log folded into 2, 1 piece written ("
    )
    assert (
        "truncated: 3 files of the log, 0 merged ones in their place, 0 of snapshots; 3 deleted"
        in result.output
    )
    assert state_at(driver.folder, last) == {"a": 2, "bb": 3}
    again = command(tmp_path / "job", "--no-truncate")
    assert again.output == "nothing to do: there is no checkpoint without a snapshot\n"


@pytest.fixture(scope="module")
def processes() -> Iterator[FoldProcesses]:
    """Those of all commands of this module that are not about them: to start one takes most of what such a test takes."""
    run = FoldProcesses(2, niceness=0, keep=True)
    yield run
    run.stop()


@pytest.fixture
def same_processes(processes: FoldProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands fold in processes that earlier ones have started."""
    monkeypatch.setattr("changelog_engine.cli.materialize.FoldProcesses", lambda *of, **them: processes)


@pytest.mark.usefixtures("same_processes")
def test_the_command_truncates_as_the_job_would(tmp_path: Path) -> None:
    """Without options: with the retention that the job ran with last, or 7 days; the newest two can be restored here."""
    driver = Driver.start(tmp_path)
    folder, now = driver.folder, int(time.time() * 1000)
    for number, age in enumerate((9, 8, 6, 5, 3), start=1):
        driver.checkpoint({"a": number}, time_ms=now - age * DAY_MS)
        materialize(folder)
    assert command(tmp_path / "job", "--no-truncate").exit_code == 0
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [1, 2, 3, 4, 5]
    assert command(tmp_path / "job").exit_code == 0
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [2, 3, 4, 5]
    remember(folder, Retention(history_ms=4 * DAY_MS, retained=2, grace_ms=0))
    assert recall(folder) == Retention(history_ms=4 * DAY_MS, retained=2, grace_ms=0)
    with protecting(folder, 3, 3, "a test"):
        command(tmp_path / "job", "--retention", "0")
        assert sorted(Lineage(folder.open_changelog()).checkpoints) == [3, 4, 5]
    result = command(tmp_path / "job")
    assert "deleted from the disk" in result.output
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [4, 5]
    assert state_at(folder, Lineage(folder.open_changelog()).checkpoint(4)) == {"a": 4}


@pytest.mark.usefixtures("same_processes")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"history_ms": "x", "retained": -1, "grace_ms": true}',
        '{"history_ms": 3456000, "retained": 2}',
        '{"history_ms": 3456000, "retained": 2, "grace_ms": 0, "checksum": "ea1b6ad8"}',  # it was 345600000
    ],
)
def test_a_damaged_note_of_the_retention_truncates_nothing(tmp_path: Path, text: str) -> None:
    """By the defaults, the history of a job that keeps more than 7 days went."""
    driver = Driver.start(tmp_path)
    folder, now = driver.folder, int(time.time() * 1000)
    for number, age in enumerate((9, 8, 3), start=1):
        driver.checkpoint({"a": number}, time_ms=now - age * DAY_MS)
    remember(folder, Retention(history_ms=30 * DAY_MS, retained=2, grace_ms=0))
    folder.changelog.write_durable("_retention.json", text.encode())
    result = command(tmp_path / "job")
    assert result.exit_code == 1
    assert "_retention.json is damaged" in result.output
    assert job_status(str(tmp_path / "job")).upkeep.retention is None
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [1, 2, 3]
    assert command(tmp_path / "job", "--no-truncate").exit_code == 0
    said = command(tmp_path / "job", "--retention", "30d", "--retained", "1", "--grace", "0")
    assert said.exit_code == 0
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [1, 2, 3]


def test_a_note_of_the_retention_of_an_earlier_version_counts(tmp_path: Path) -> None:
    folder = Driver.start(tmp_path).folder
    assert recall(folder) == Retention()
    folder.changelog.write_durable("_retention.json", b'{"history_ms": 5, "retained": 2, "grace_ms": 0}')
    assert recall(folder) == Retention(5, 2, 0)


def test_a_job_writes_its_retention_down(tmp_path: Path) -> None:
    """Also without materializations beside it, which somebody else makes then."""
    folder = Driver.start(tmp_path).folder
    settings = JobSettings(
        base_path=str(tmp_path), changelog=True, materialize_interval_ms=None, history_retention_ms=1_000
    )
    assert beside_job(folder, settings, lambda error: None) is None
    assert recall(folder) == Retention(1_000, settings.retained_checkpoints, 300_000)
    often = replace(settings, materialize_interval_ms=30_000)
    assert beside_job(folder, often, lambda error: None) is not None
    assert recall(folder).grace_ms == 15_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--no-truncate", "--retention", "1d"], "leaves the log alone"),
        (["--at", "1", "--every", "10m"], "give one of them"),
        (["--every", "soon"], "expected a duration"),
        (["--every", "0"], "0 is shorter than 1.0 s"),
        (["--retention", "7"], "7 has no unit: write 7d, 7h, 7m or 7s"),
        (["--every", "600"], "600 has no unit"),
        (["--at", "7"], "there is no checkpoint 7"),
    ],
)
def test_the_command_refuses(tmp_path: Path, options: list[str], message: str) -> None:
    Driver.start(tmp_path).checkpoint({"a": 1})
    result = command(tmp_path / "job", *options)
    assert result.exit_code != 0
    assert message in result.output


def test_one_after_the_other_ends_with_its_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What else fails is tried again; this process gets no other JVM."""
    Driver.start(tmp_path).checkpoint({"a": 1})
    failing = mock.Mock(side_effect=[StorageError("no answer"), SparkEndedError("the JVM was killed")])
    monkeypatch.setattr("changelog_engine.cli.materialize.upkeep", failing)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    result = command(tmp_path / "job", "--every", "1s")
    assert result.exit_code == 1
    assert "failed, and is tried again: no answer" in result.output
    assert "the JVM was killed" in result.output + str(result.exception)


def test_a_materializer_elsewhere_that_stopped_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what its last round left in the folder: nobody else knows of it."""
    monkeypatch.setattr(
        "changelog_engine.cli.materialize.time", mock.Mock(sleep=mock.Mock(side_effect=SystemExit))
    )
    failing = mock.Mock(side_effect=[StorageError("no answer")])
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    path, job = str(tmp_path / "job"), tmp_path / "job"
    shown = lambda: " ".join(CliRunner().invoke(main, ["status", path]).stdout.split())  # noqa: E731
    assert "materialize --every" not in shown()
    with monkeypatch.context() as patched:
        patched.setattr("changelog_engine.cli.materialize.upkeep", failing)
        command(job, "--every", "10m")  # it ends without a word, as one that is killed
    rounds = last_round(driver.folder)
    assert rounds is not None
    assert (rounds.pid, rounds.every_ms) == (os.getpid(), 600_000)
    assert "each 600 s) ended " in shown()
    assert "has stopped" not in shown()
    old = {**asdict(rounds), "time_ms": rounds.time_ms - 1_000_000_000, "failed": "no answer"}
    (job / "changelog" / ROUNDS).write_text(json.dumps(old))
    driver.checkpoint({"a": 2}, time_ms=rounds.time_ms)
    stopped = "has stopped: its last round ended 11.6 days ago. Start it again; until then the log grows"
    assert stopped in shown()
    assert ", and failed: no answer" in shown()
    monkeypatch.setattr(
        "changelog_engine.cli.materialize.time", mock.Mock(sleep=mock.Mock(side_effect=KeyboardInterrupt))
    )
    command(job, "--every", "10m")
    assert last_round(driver.folder) is None, "it was asked to end"
    assert "has stopped" not in shown()
    (job / "changelog" / ROUNDS).write_text(json.dumps(old))
    assert "has stopped" not in shown(), "somebody else makes them"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"host": 1}', '{"host": "a", "pid": -1, "time_ms": 1, "every_ms": 1}']
)
def test_a_note_of_rounds_that_is_damaged_says_nothing(tmp_path: Path, text: str) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    (tmp_path / "job" / "changelog" / ROUNDS).write_text(text)
    assert last_round(driver.folder) is None
    assert CliRunner().invoke(main, ["status", str(tmp_path / "job")]).exit_code == 0


@pytest.mark.parametrize(
    ("now_ms", "kept"),
    [
        (30, (1, 3)),
        (31, (1, 3)),
        (39, (1, 3)),
        (40, (1, 3)),
        (41, (2, 3)),
        (50, (2, 3)),
        (51, (3, 3)),
        (99, (3, 3)),
    ],
)
def test_the_history_begins_with_the_checkpoint_before_its_window(now_ms: int, kept: tuple[int, int]) -> None:
    """A checkpoint that is exactly as old as the history is in the window."""
    index = Index(np.array([1, 2, 3]), np.array([1, 1, 1]), np.array([10, 20, 30]))
    assert retention_module._history(index, Retention(history_ms=20), now_ms) == {1: kept}
    assert retention_module._history(index, Retention(history_ms=0), now_ms) == {}
