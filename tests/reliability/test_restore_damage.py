"""Reliability cases 16, 29, 30 and 32: what a restore reads, how often, and what it does when a file is not what it was."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner
from support.functions import Count, by_key, counted
from support.graphs import keyed_job, sink_job
from support.jobs import TestJob
from support.materialized import AT_ONCE, ELEMENTS, finishes, merging_few, states, stopped
from support.odd_files import forget
from support.page import asked
from support.part_files import lines, sink_to
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.cli.program import main
from changelog_engine.connectors import NumberSequenceSource
from changelog_engine.errors import CorruptChangelogError, JobExecutionError
from changelog_engine.inspection.jobs import job_status
from changelog_engine.inspection.timeline import Timeline
from changelog_engine.ledger import snapshots
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage
from changelog_engine.ui.app import Page
from changelog_engine.ui.report import make_report
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate


@contextlib.contextmanager
def reads() -> Iterator[Counter[str]]:
    """Counts how often each file with mutations is read."""
    counts: Counter[str] = Counter()
    inner = LocalDisk.read

    def read(storage: Storage, path: str, *more: object) -> object:
        name = path.rpartition("/")[2]
        if name.startswith("part-"):
            counts[f"{storage.root.rpartition('/')[2]}/{name}"] += 1
        return inner(storage, path, *more)  # type: ignore[arg-type]

    with mock.patch.object(LocalDisk, "read", read):
        yield counts


def parts(tmp_path: Path, table: str, checkpoints: set[int] | None = None) -> list[Path]:
    """The files of a table with mutations of some checkpoints (None: all), in order."""
    found = sorted((tmp_path / "job" / table).glob("part-*.parquet"))
    return [path for path in found if checkpoints is None or int(path.name.split("-")[1]) in checkpoints]


def named(paths: list[Path]) -> dict[str, int]:
    """Each of these files, once."""
    return {f"{path.parent.name}/{path.name}": 1 for path in paths}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("snapshot", [None, 2])
def test_cases_16_32_a_restore_reads_each_file_once(
    tmp_path: Path, parallelism: int, snapshot: int | None
) -> None:
    """Reliability cases 16 and 32. Those that it needs, by the subtask that has their key groups; twice in a row."""
    job, graph, folder = stopped(tmp_path, parallelism=parallelism)
    if snapshot is not None:
        assert materialize(folder, snapshot) is not None
    base = [] if snapshot is None else parts(tmp_path, "snapshots", {snapshot})
    later = {1, 2, 3, 4} if snapshot is None else {3, 4}
    needed = [*base, *parts(tmp_path, "changelog", later)]
    assert len(needed) >= parallelism * len(later)
    assert job.progress is not None
    job.progress.waiting.append(Failure(6, Fault.HANDED_OUT))
    with reads() as counts, pytest.raises(DriverKilled):
        job.run_driver(graph)
    assert counts == named(needed)
    again = [*base, *parts(tmp_path, "changelog", later | {5, 6})]
    with reads() as counts:
        finishes(job, graph)
    assert counts == named(again)


def test_case_32_processes_that_are_gone_read_each_file_once_again(tmp_path: Path) -> None:
    """Reliability case 32. Within an attempt; nothing is read by subtasks that still hold their state."""
    job = TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(4, Fault.GONE),)))
    with reads() as counts:
        job.run_driver(keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=2))
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    assert counts == named(parts(tmp_path, "changelog", {1, 2, 3, 4}))


def test_case_32_a_savepoint_is_copied_and_checked_with_bounded_reads(tmp_path: Path) -> None:
    """Its files are read to be checked and to be copied; the copies are read once."""
    _, graph, folder = stopped(tmp_path, parallelism=1)
    newest = Lineage(folder.open_changelog()).newest_checkpoint()
    assert newest is not None
    path = create_savepoint(folder, newest, str(tmp_path / "savepoints")).path
    job = TestJob(tmp_path / "other", Script(sizes=(5,)))
    with reads() as counts:
        job.run_driver(graph, restore=path)
    assert by_key(job.output) == {key: list(range(5, 9)) for key in range(5)}
    copies = {
        f"snapshots/{file.name}" for file in (tmp_path / "other" / "job" / "snapshots").glob("part-*.parquet")
    }
    assert {name: counts[name] for name in copies} == dict.fromkeys(copies, 1)
    assert all(count <= 2 for count in counts.values())


def flipped(path: Path, bit: int) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(data)


def refused(job: TestJob, graph: object) -> str:
    """Run a driver that can't restore; returns why. Nothing is processed, retried or committed."""
    commits, output = len(job.commits), len(job.output)
    with pytest.raises(JobExecutionError) as raised:
        job.run_driver(graph)  # type: ignore[arg-type]
    assert isinstance(raised.value.__cause__, CorruptChangelogError)
    assert job.coordinator.restarts.count == 0
    assert (len(job.commits), len(job.output)) == (commits, output)
    return str(raised.value.__cause__)


@pytest.mark.parametrize("fault", ["bit", "missing", "cut"])
@pytest.mark.parametrize("checkpoint", [1, 3])
def test_cases_29_30_a_damaged_part_is_named_with_the_last_restorable_checkpoint(
    tmp_path: Path, fault: str, checkpoint: int
) -> None:
    """Reliability cases 29 and 30. Nothing changes, and what the message says is true."""
    job, graph, _ = stopped(tmp_path)
    part = parts(tmp_path, "changelog", {checkpoint})[-1]
    whole = part.read_bytes()
    if fault == "bit":
        flipped(part, 8 * len(whole) // 2)
    elif fault == "cut":
        part.write_bytes(whole[:-1])
    else:
        part.unlink()
    words = refused(job, graph)
    assert str(part) in words
    assert ("is missing" if fault == "missing" else "was changed after it was written") in words
    if checkpoint == 1:
        assert "No earlier checkpoint can be restored: start empty with changelog.restore = none" in words
    else:
        assert "The last checkpoint that can still be restored is 2: set changelog.restore = 2." in words
    assert words.endswith("Nothing was changed")
    if checkpoint == 3:  # what it says is true
        job.outputs.clear()
        job.run_driver(graph, restore="2")
        assert by_key(job.output) == {key: list(range(3, 9)) for key in range(5)}
        return
    part.write_bytes(whole)
    finishes(job, graph)


@pytest.mark.parametrize("table", ["changelog", "snapshots"])
def test_case_30_any_flipped_bit_is_detected_before_it_is_used(tmp_path: Path, table: str) -> None:
    """Reliability case 30. From the first byte to the last; none of the file becomes state."""
    job, graph, folder = stopped(tmp_path, parallelism=1)
    if table == "snapshots":
        assert materialize(folder) is not None
        truncate(folder, AT_ONCE)  # there is no other way to the state
    part = parts(tmp_path, table)[-1]
    whole = part.read_bytes()
    for step in range(12):
        flipped(part, (8 * len(whole) - 1) * step // 11)
        assert part.read_bytes() != whole
        words = refused(job, graph)
        assert part.name in words
        part.write_bytes(whole)
    finishes(job, graph)


@pytest.mark.parametrize("what", ["a piece", "its row"])
def test_case_29_a_damaged_snapshot_costs_a_longer_replay_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """Reliability case 29. The restore takes the older one and the log after it, and says so; each file is read once."""
    job, graph, folder = stopped(tmp_path, epochs=6, parallelism=1)
    before = states(tmp_path)
    materialize(folder, 3)
    materialize(folder, 5)
    [damaged] = (
        parts(tmp_path, "snapshots", {5})[:1]
        if what == "a piece"
        else (tmp_path / "job" / "snapshots").glob("snapshot-5-*.parquet")
    )
    flipped(damaged, 4_000)
    assert states(tmp_path) == before
    caplog.clear()
    snapshots._WARNED.clear()  # a process says it once
    used = [
        *parts(tmp_path, "snapshots", {3, 5} if what == "a piece" else {3}),
        *parts(tmp_path, "changelog", {4, 5, 6}),
    ]
    with reads() as counts:
        finishes(job, graph)
    assert counts == named(used)
    (warning,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(
        "the snapshot of checkpoint 5 can't be used; an older one and a longer piece of the log"
    )
    assert str(damaged) in warning


def test_a_lost_row_of_a_checkpoint_says_where_to_begin_instead(tmp_path: Path) -> None:
    """The job can begin there, and go on; whoever asks how it is gets an answer, with the fault."""
    job, graph, _ = stopped(tmp_path)
    for checkpoint in (3, 4):
        [row] = (tmp_path / "job" / "changelog").glob(f"checkpoint-{checkpoint}-*.parquet")
        row.unlink()
    words = r"checkpoint-4-\S+ is missing\. It has the row of checkpoint 4\. .* set changelog\.restore = 2 "
    with pytest.raises(CorruptChangelogError, match=words):
        job.run_driver(graph)
    TestJob(tmp_path).run_driver(graph, restore="2")
    found = job_status(str(tmp_path / "job"))
    assert (found.summary.state, found.faults[0].partition(":")[0]) == (
        "finished",
        "the row of checkpoint 3 can't be read",
    )


def test_case_29_rows_that_a_start_with_sinks_does_not_need(tmp_path: Path) -> None:
    """A start looks for branches, whose output sinks leave alone: of a row's own file the name says enough."""
    job = TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(4, Fault.HANDED_OUT),)))
    graph = sink_job(sink_to(tmp_path / "out"), NumberSequenceSource(1, 40))
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    folder = find_job_folder(str(tmp_path), "job")
    for checkpoint in (1, 3):
        [row] = (tmp_path / "job" / "changelog").glob(f"checkpoint-{checkpoint}-*.parquet")
        row.unlink()
    TestJob(tmp_path).run_driver(graph, restore="2")
    assert Counter(lines(tmp_path / "out")) >= Counter(map(str, range(1, 41)))
    assert Lineage(folder.open_changelog()).newest_attempt_id == 2


def test_case_29_without_merged_rows_a_start_with_sinks_changes_nothing(tmp_path: Path) -> None:
    """Which branches there are, whose output sinks leave alone, is not known then."""
    job = TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(6, Fault.HANDED_OUT),)))
    graph = sink_job(sink_to(tmp_path / "out"), NumberSequenceSource(1, 40))
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    folder = find_job_folder(str(tmp_path), "job")
    with merging_few(2):
        truncate(folder, Retention(3_600_000, 2, 3_600_000))
    [rows] = (tmp_path / "job" / "changelog").glob("checkpoints-*.parquet")
    flipped(rows, 4_000)
    with pytest.raises(JobExecutionError, match=f"{rows.name} was changed .* Put the file back from a copy"):
        job.run_driver(graph)
    assert Lineage(folder.open_changelog()).newest_attempt_id == 1
    flipped(rows, 4_000)
    job.run_driver(graph)
    assert Counter(lines(tmp_path / "out")) == Counter(map(str, range(1, 41)))


@pytest.mark.parametrize("lost", [2, 4])
def test_case_29_a_lost_row_hides_no_other_checkpoint(tmp_path: Path, lost: int) -> None:
    """Who looks at the log is shown the others, and told which one is missing."""
    _, _, folder = stopped(tmp_path)
    path = str(tmp_path / "job")
    whole = {each.id: each for each in Timeline(path).checkpoints(details=True)}
    row = next((tmp_path / "job" / "changelog").glob(f"checkpoint-{lost}-*.parquet"))
    row.unlink()
    for command in ("timeline", "checkpoints", "metrics"):
        said = CliRunner().invoke(main, [command, path])
        assert said.exit_code == 1, said.output
        assert f"checkpoint {lost} can't be read: " in said.stderr + said.output
        assert str(row) in "".join((said.stderr + said.output).splitlines())
        found = json.loads(CliRunner().invoke(main, [command, path, "--json"]).stdout)
        rows = found["checkpoints"] if command == "timeline" else found
        shown = {each["id"] for each in rows if not (each.get("lost") or each.get("unreadable"))}
        assert shown == {*whole} - {lost}
        assert {each["id"] for each in rows} == {*whole}
    timeline = Timeline(path)
    for each in timeline.checkpoints(details=True):
        if each.id == lost:
            assert each.time_ms is None
        else:
            assert each == dataclasses.replace(whole[each.id], marks=each.marks)
    assert str(row) in repr(timeline)
    with pytest.raises(CorruptChangelogError, match=re.escape(str(row))):
        Lineage(folder.open_changelog()).checkpoint(lost)


def test_case_29_lost_merged_rows_are_told_with_the_checkpoints_that_are_left(tmp_path: Path) -> None:
    """As text and as JSON; that of ``checkpoints`` had the newest alone, without a word of the others."""
    _, _, folder = stopped(tmp_path, epochs=6)
    with merging_few(2):
        truncate(folder, Retention(3_600_000, 2, 3_600_000))
    path = str(tmp_path / "job")
    [rows] = (tmp_path / "job" / "changelog").glob("checkpoints-*.parquet")
    rows.unlink()
    newest = Lineage(folder.open_changelog()).newest_checkpoint_id
    for command in ("timeline", "checkpoints", "metrics"):
        for form in ([], ["--json"]):
            said = CliRunner().invoke(main, [command, path, *form])
            assert said.exit_code == 1
            assert rows.name in "".join((said.stdout + said.stderr).split()), (command, form)
            assert str(newest) in said.stdout, (command, form)


@pytest.mark.parametrize("kind", ["checkpoints", "attempts"])
def test_case_29_lost_merged_rows_hide_nothing_else(tmp_path: Path, kind: str) -> None:
    """``status``, ``jobs``, ``timeline``, a report and the page show all that is known without, and name the file."""
    script = Script(sizes=(5,), failures=(Failure(2, Fault.HANDED_OUT),))
    for _ in range(3):
        with pytest.raises(DriverKilled):
            TestJob(tmp_path, script).run_driver(
                keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=2)
            )
    with merging_few(2):
        truncate(find_job_folder(str(tmp_path), "job"), Retention(3_600_000, 2, 3_600_000))
    path = str(tmp_path / "job")
    whole, status = Timeline(path), job_status(path)
    [rows] = (tmp_path / "job" / "changelog").glob(f"{kind}-*.parquet")
    flipped(rows, 4_000)
    forget()
    lost = Timeline(path)
    assert [rows.name in fault and "Put the file back" in fault for fault in lost.faults] == [True]
    found = job_status(path)
    assert rows.name in found.faults[0] + str(found.summary.fault)
    assert (found.summary.state, found.newest, found.sources) == ("killed", status.newest, status.sources)
    if kind == "attempts":
        assert lost.ids == whole.ids
        assert [(a.attempt, a.parent, a.end, a.checkpoints) for a in lost.attempts] == [
            (a.attempt, a.parent, a.end, a.checkpoints) for a in whole.attempts
        ]
        assert [a.how for a in lost.attempts] == ["not known"] * (len(whole.attempts) - 1) + ["restored"]
        assert found.branches == status.branches
    assert rows.name in make_report(path).html
    for command in (["status", path], ["jobs", str(tmp_path)], ["report", path, str(tmp_path / "out.html")]):
        said = CliRunner().invoke(main, command)
        assert (said.exit_code, type(said.exception)) == (1, SystemExit), command
        assert rows.name in "".join((said.stdout + said.stderr).split()), command
    page = Page(path).app()
    for part in ("", "/timeline", "/now"):
        assert "Put the file back" in asked(page, f"/job/job{part}"), part
    # What attempts wrote up to which checkpoint stands in the rows of these, so no state is shown without
    assert (rows.name in asked(page, "/job/job/state")) == (kind == "checkpoints")


def test_case_29_an_attempt_without_a_checkpoint_needs_no_merged_rows(tmp_path: Path) -> None:
    """Where the newest attempt has none, the newest checkpoint tells: a start opened all rows of checkpoints to see it."""
    job, graph, folder = stopped(tmp_path, epochs=6)
    with merging_few(2):
        truncate(folder, Retention(3_600_000, 2, 3_600_000))
    with pytest.raises(DriverKilled):
        TestJob(tmp_path, Script(sizes=(5,), failures=(Failure(1, Fault.PARTS),))).run_driver(graph)
    assert Lineage(folder.open_changelog()).newest_attempt_id == 2
    [rows] = (tmp_path / "job" / "changelog").glob("checkpoints-*.parquet")
    flipped(rows, 4_000)
    forget()
    assert job_status(str(tmp_path / "job")).next_run is not None
    finishes(job, graph)


def test_case_29_a_lost_row_hides_no_other_checkpoint_on_the_page(tmp_path: Path) -> None:
    """Nor in a report. What is asked of the lost one itself is answered with the fault."""
    stopped(tmp_path)
    path = str(tmp_path / "job")
    row = next((tmp_path / "job" / "changelog").glob("checkpoint-2-*.parquet"))
    row.unlink()
    html = make_report(path).html
    assert html.count(str(row)) == 2  # with the timeline, and with the times that can't be told
    assert html.count("its row can't be read</td>") == 1
    page = Page(path).app()
    for part in ("", "?at=2", "/timeline", "/timeline?at=2"):
        answer = asked(page, f"/job/job{part}")
        assert 'data-count="4"' in answer
        assert answer.count(str(row)) == 1
    for part in ("/commands", "/state?at=1", "/state?at=3", "/state?at=4", "/compare?at=3&against=1"):
        assert 'role="alert"' not in asked(page, f"/job/job{part}"), part
    assert "<h3>Operators" in asked(page, "/job/job/now")
    for part in ("/state?at=2", "/key?key=1"):  # a change at the lost one has no time
        assert str(row) in asked(page, f"/job/job{part}")


def test_case_29_behind_a_savepoint_the_checkpoint_before_a_lost_row_is_advised(tmp_path: Path) -> None:
    """Also the one that was imported, which is another attempt's."""
    _, graph, folder = stopped(tmp_path, parallelism=1)
    newest = Lineage(folder.open_changelog()).newest_checkpoint()
    assert newest is not None
    path = create_savepoint(folder, newest, str(tmp_path / "savepoints")).path
    job = TestJob(tmp_path / "other", Script(sizes=(5,), failures=(Failure(3, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph, restore=path)
    rows = {
        int(row.name.split("-")[1]): row
        for row in (tmp_path / "other" / "job" / "changelog").glob("checkpoint-*")
    }
    log = find_job_folder(str(tmp_path / "other"), "job")
    for lost, advice in (
        (3, "--restore 2)"),
        (2, "--restore 1)"),
        (1, "Put the file back from a copy. Nothing"),
    ):
        rows[lost].rename(rows[lost].with_name(f".tmp-{lost}"))
        with pytest.raises(CorruptChangelogError, match=re.escape(advice)):
            Lineage(log.open_changelog()).checkpoint(lost)
        rows[lost].with_name(f".tmp-{lost}").rename(rows[lost])
