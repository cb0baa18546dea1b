"""Reliability, truncation: cases 4, 18 to 21 and 30, with real files.

Reliability case 4, reliability case 18, reliability case 19, reliability case 20 and reliability case 21: tests name theirs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import TestJob
from support.killed_upkeep import killing
from support.materialized import (
    AT_ONCE,
    ELEMENTS,
    LATER,
    Killed,
    damage,
    finishes,
    killed_after,
    merging_few,
    rows_read,
    states,
    stopped,
)
from support.script import Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.clock import wall_s
from changelog_engine.errors import (
    CorruptChangelogError,
    FencedError,
    JobExecutionError,
    RestoreError,
)
from changelog_engine.ledger import committer as commit_module
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import begin_attempt
from changelog_engine.ledger.protection import protecting
from changelog_engine.ledger.snapshot_store import SnapshotStore
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.storage import delta_checkpoints
from changelog_engine.storage.delta_log import DeltaLog, commit_path
from changelog_engine.storage.opening import open_storage
from changelog_engine.verification.verify import verify
from materializer import sweep, truncation
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.merge import merge_small
from materializer.retention import Retention
from materializer.truncation import truncate


def test_case_4_a_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    """Reliability case 4: what was truncated is refused, and what there is is named."""
    job, graph, folder = stopped(tmp_path)
    materialize(folder)
    truncate(folder, AT_ONCE)
    with pytest.raises(RestoreError, match=r"no checkpoint 2 .*the nearest: 4"):
        job.run_driver(graph, restore="2")
    finishes(job, graph)


def test_case_4_a_log_without_its_beginning_is_refused(tmp_path: Path) -> None:
    """Reliability case 4: the snapshots are gone and the log begins in the middle: an error, never a wrong state."""
    job, graph, folder = stopped(tmp_path)
    materialize(folder)
    truncate(folder, AT_ONCE)
    folder.snapshots.delete_tree()
    with pytest.raises(RestoreError, match="needs the log from checkpoint 1 on, which was truncated"):
        job.run_driver(graph)
    with pytest.raises(RestoreError, match="was truncated"):
        materialize(folder)
    assert complete_snapshots(folder) == {}


def test_case_18_parts_stay_while_a_retained_checkpoint_needs_them(tmp_path: Path) -> None:
    """Reliability case 18."""
    _, _, folder = stopped(tmp_path, epochs=6)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 7)}
    materialize(folder, 2)
    materialize(folder)
    truncate(folder, AT_ONCE._replace(retained=3))  # 4, 5 and 6 need snapshot 2 and the log of 3 to 5
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [2, 3, 4, 5, 6]
    assert {int(path.split("-")[1]) for path in rows_read(folder)} == {3, 4, 5}
    for checkpoint in range(2, 7):
        assert states(tmp_path, checkpoint) == held[checkpoint]
    truncate(folder, AT_ONCE)
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [6]
    assert rows_read(folder) == []
    assert states(tmp_path) == held[6]


def test_case_18_parts_stay_while_a_copy_or_the_history_needs_them(tmp_path: Path) -> None:
    """Reliability case 18; forks and savepoints have tests of their own, see test_truncated_bases.py."""
    job, _, folder = stopped(tmp_path, epochs=6)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 7)}
    materialize(folder)
    with protecting(folder, 3, None, "a test"):
        truncate(folder, AT_ONCE)
        assert sorted(Lineage(folder.open_changelog()).checkpoints) == [1, 2, 3, 6]
        assert states(tmp_path, 3) == held[3]
    times = {checkpoint.id: checkpoint.time_ms for checkpoint in job.commits}
    window = Retention(history_ms=1_000, retained=1, grace_ms=0)
    truncate(folder, window, lambda: (times[3] + 900) / 1000)
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [1, 2, 3, 6]
    truncate(folder, window, lambda: (times[6] + 5_000) / 1000)
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [6]


@pytest.mark.parametrize(("first", "second"), [(None, 2), (4, None), (2, 4)])
def test_case_18_what_two_copies_of_a_checkpoint_began_with_stays(
    tmp_path: Path, first: int | None, second: int | None
) -> None:
    """Each goes by the snapshot that was the newest when it began, or by the log alone."""
    _, _, folder = stopped(tmp_path, epochs=6)
    materialize(folder, 2)
    if None not in (first, second):
        truncate(folder, AT_ONCE)
        assert 1 not in Lineage(folder.open_changelog()).checkpoints
    materialize(folder, 4)
    with protecting(folder, 6, first, "a test"), protecting(folder, 6, second, "a test"):
        truncate(folder, AT_ONCE)
        line = Lineage(folder.open_changelog()).checkpoint(6).lineage
        for began in (first, second):
            assert Ledger(folder.open_changelog()).following(line, began).files
    truncate(folder, AT_ONCE)
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [4, 5, 6], (
        "what no copy needs any more went"
    )


def test_what_the_history_begins_with_stays_while_its_window_moves(tmp_path: Path) -> None:
    """The snapshot before the window, where the log before that one is gone."""
    job, _, folder = stopped(tmp_path, epochs=6)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 7)}
    for checkpoint in (2, 5):
        materialize(folder, checkpoint)
    times = {checkpoint.id: checkpoint.time_ms for checkpoint in job.commits}
    for begins in (3, 4):
        now_s = times[begins] / 1000 + 1000
        truncate(folder, Retention(history_ms=10**6, grace_ms=0), lambda now_s=now_s: now_s)
        there = sorted(Lineage(folder.open_changelog()).checkpoints)
        assert {2, *range(begins, 7)} <= set(there)
        assert {checkpoint: states(tmp_path, checkpoint) for checkpoint in there} == {
            c: held[c] for c in there
        }


class Clears(KeyedProcessFunction):
    """Writes each key once; later elements of key 0 clear key 0."""

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.entries = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[1] < 5:
            self.value.update(value[1])
            self.entries.put(1, value[1])
            self.entries.put(2, value[1])
            self.list.add(value[1])
        elif value[0] == 0:
            self.value.clear()
            self.entries.remove(1)
            self.list.clear()
        yield value


def test_case_19_an_idle_keys_last_write_survives_and_deleted_entries_stay_deleted(tmp_path: Path) -> None:
    """Reliability case 19: over three snapshots, each followed by a truncation."""
    _, _, folder = stopped(tmp_path, Clears(), epochs=6)
    for checkpoint in (1, 3, None):  # key 1 to 4 were written before the first of them, and never since
        materialize(folder, checkpoint)
        truncate(folder, AT_ONCE._replace(retained=6 if checkpoint else 1))
    assert rows_read(folder) == []
    folded = state_at(folder.changelog.root).states
    assert folded["process", "value"] == {key: key for key in range(1, 5)}
    assert folded["process", "list"] == {key: [key] for key in range(1, 5)}
    assert {key: dict(entry.items()) for key, entry in folded["process", "map"].items()} == {
        0: {2: 0},
        **{key: {1: key, 2: key} for key in range(1, 5)},
    }


def test_case_20_a_reader_that_has_begun_finishes(tmp_path: Path) -> None:
    """Reliability case 20: files leave the table at once and the disk after the grace time."""
    _, _, folder = stopped(tmp_path)
    before = states(tmp_path)
    reading = open_storage(folder.changelog.root)
    names = rows_read(folder)
    materialize(folder)
    now = [1_000.0]
    truncate(folder, LATER, lambda: now[0])
    assert rows_read(folder) == []
    assert all(reading.size(name) for name in names)
    now[0] += 59
    assert truncate(folder, LATER, lambda: now[0]).deleted == 0
    now[0] += 1
    # And the rows of checkpoints 1 to 3
    assert truncate(folder, LATER, lambda: now[0]).deleted == len(names) + 3
    assert not any(reading.exists(name) for name in names)
    assert states(tmp_path) == before


def test_case_21_a_truncation_killed_with_sigkill_is_finished_by_the_next(tmp_path: Path) -> None:
    """Reliability case 21: kill -9 of a process at numbered steps."""
    job, graph, folder = stopped(tmp_path, epochs=5)
    before = states(tmp_path)
    materialize(folder, 2)
    materialize(folder)
    # Steps: 0 the commit to the log, 1 that to the snapshots, 2 and more notes and deletions.
    with killing(tmp_path) as killed:
        for step in (0, 1, 2, 4, 7):
            assert killed("truncate", step)
            assert states(tmp_path) == before
            found = verify(folder)
            assert found.faults == []
            assert found.lost == []
    truncate(folder, AT_ONCE)
    assert rows_read(folder) == []
    for table in (folder.changelog, folder.snapshots):
        on_disk = {entry.name for entry in table.list() if entry.name.endswith(".parquet")}
        assert on_disk == set(DeltaLog(table).files()["path"].to_pylist())
    finishes(job, graph)


def test_case_21_a_truncation_that_dies_is_finished_by_the_next(tmp_path: Path) -> None:
    """Reliability case 21, at every step, in this process."""
    job, graph, folder = stopped(tmp_path)
    before = states(tmp_path)
    materialize(folder, 2)
    materialize(folder)
    for steps in range(30):
        with killed_after(steps):
            truncate(folder, AT_ONCE)
        assert states(tmp_path) == before
    for table in (folder.changelog, folder.snapshots):
        on_disk = {entry.name for entry in table.list() if entry.name.endswith(".parquet")}
        assert on_disk == set(DeltaLog(table).files()["path"].to_pylist())
    assert rows_read(folder) == []
    finishes(job, graph)


def test_case_21_between_its_commits_every_checkpoint_that_is_there_can_be_restored(tmp_path: Path) -> None:
    """Reliability case 21: a truncation of many small commits dies after each change of the disk."""
    _, _, folder = stopped(tmp_path, epochs=6)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 7)}
    materialize(folder, 3)
    materialize(folder)
    seen = []
    with mock.patch.object(truncation, "MOST_ACTIONS", 1), mock.patch.object(truncation, "_PAUSE_S", 0):
        for retention, times in ((AT_ONCE._replace(retained=3), 6), (AT_ONCE, 8)):
            for _ in range(times):
                with killed_after(1):
                    truncate(folder, retention)
                there = sorted(Lineage(folder.open_changelog()).checkpoints)
                seen.append(there)
                assert {number: states(tmp_path, number) for number in there} == {n: held[n] for n in there}
        truncate(folder, AT_ONCE)
    assert seen[0] == [1, 3, 4, 5, 6]
    assert seen[5] == [3, 4, 5, 6]
    assert seen[6:9] == [[3, 4, 6], [3, 6], [6]]
    assert rows_read(folder) == []


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_driver_that_takes_over_between_two_commits_keeps_what_it_starts_from(
    tmp_path: Path, after: int
) -> None:
    """The truncation finds its attempt before its next commit, and decides anew."""
    _, _, folder = stopped(tmp_path, epochs=6)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 7)}
    materialize(folder)
    inner, started = truncation._commit, []
    commits = []

    def then_a_driver_begins(*arguments: Any) -> bool:
        done = inner(*arguments)
        commits.append(done)
        if len(commits) == after:
            started.append(min(Lineage(folder.open_changelog()).checkpoints))
            begin_attempt(folder.open_changelog(), 1, started[0])
        return done

    with (
        mock.patch.object(truncation, "MOST_ACTIONS", 1),
        mock.patch.object(truncation, "_PAUSE_S", 0),
        mock.patch.object(truncation, "_commit", then_a_driver_begins),
    ):
        truncate(folder, AT_ONCE)
    assert commits[after] is False
    assert states(tmp_path, started[0]) == held[started[0]]
    assert verify(folder).lost == []


def test_a_driver_that_takes_over_keeps_what_it_starts_from(tmp_path: Path) -> None:
    """It begins an attempt between the truncation's decision and its commit: the truncation decides anew."""
    _, _, folder = stopped(tmp_path)
    held = states(tmp_path, 2)
    materialize(folder)
    inner = truncation.needed

    def rewinds(*arguments: Any) -> Any:
        decided = inner(*arguments)
        if Lineage(folder.open_changelog()).newest_attempt_id == 1:
            begin_attempt(folder.open_changelog(), 1, 2)
        return decided

    with mock.patch.object(truncation, "needed", rewinds):
        truncate(folder, AT_ONCE)
    assert states(tmp_path, 2) == held


def test_a_driver_whose_start_was_truncated_is_refused(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path)
    log = folder.open_changelog()  # decides to start from checkpoint 2
    materialize(folder)
    truncate(folder, AT_ONCE)
    with pytest.raises(RestoreError, match=r"checkpoint 2 .* was truncated just now"):
        begin_attempt(log, 1, 2)
    assert Lineage(folder.open_changelog()).newest_attempt_id == 1


def test_a_running_driver_commits_past_a_truncation_and_not_past_a_driver(tmp_path: Path) -> None:
    """Foreign commits that are no driver's do not fence."""
    job = TestJob(tmp_path, Script(sizes=(5,)))
    folder = find_job_folder(str(tmp_path), "job")
    inner = commit_module.commit_fenced

    def with_a_truncation_before(log: DeltaLog, *arguments: Any) -> None:
        if job.commits:
            materialize(folder)
            truncate(folder, AT_ONCE)
        if len(job.commits) == 5:
            begin_attempt(folder.open_changelog(), 1, job.commits[-1].id)
        inner(log, *arguments)

    with (
        mock.patch.object(commit_module, "commit_fenced", with_a_truncation_before),
        pytest.raises(JobExecutionError, match="took the job") as raised,
    ):
        job.run_driver(keyed_job(ELEMENTS, Count(), key_type=Types.LONG()))
    assert isinstance(raised.value.__cause__, FencedError)
    assert [checkpoint.id for checkpoint in job.commits] == [1, 2, 3, 4, 5]


def test_case_30_a_flipped_bit_in_a_merged_part_is_detected(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path, epochs=6)
    for checkpoint in (4, 5, 6):
        materialize(folder, checkpoint)
    held = states(tmp_path, 3)
    with mock.patch.object(truncation, "merge_small", partial(merge_small, least=2)):
        done = truncate(folder, Retention(grace_ms=0))
    assert (done.merged, done.log_files) == (1, 10)  # the parts of 1 to 5
    assert states(tmp_path, 3) == held
    damage(next((tmp_path / "job" / "changelog").glob("merged-1-5-*.parquet")))
    with pytest.raises(CorruptChangelogError, match=r"merged-1-5-.* was changed after it was written"):
        states(tmp_path, 3)


def test_case_29_a_damaged_snapshot_has_the_log_before_it_stay(tmp_path: Path) -> None:
    """Nothing else has the state: a truncation that went by the list of files left a job that could not be restored."""
    _, _, folder = stopped(tmp_path, parallelism=1)
    before = states(tmp_path)
    materialize(folder)
    (part,) = (tmp_path / "job" / "snapshots").glob("part-*")
    damage(part)
    truncate(folder, AT_ONCE)
    assert states(tmp_path) == before
    assert complete_snapshots(folder) == {}, "so that the next one is made of the log"
    assert materialize(folder) is not None
    assert truncate(folder, AT_ONCE).log_files
    assert verify(folder).faults == []
    assert states(tmp_path) == before
    (part,) = (tmp_path / "job" / "snapshots").glob("part-*")
    damage(part)
    files = [folder.open_changelog().files(), folder.open_snapshots().files()]
    with pytest.raises(CorruptChangelogError, match=f"{part.name} was changed after it was written"):
        truncate(folder, AT_ONCE)
    assert [folder.open_changelog().files(), folder.open_snapshots().files()] == files


def test_nothing_is_swept_while_the_job_cannot_be_restored(tmp_path: Path) -> None:
    """A part that the list lost is what mends it."""
    _, _, folder = stopped(tmp_path)
    part = rows_read(folder)[0]
    folder.open_changelog().commit([], [part])
    folder.changelog.write_durable(sweep.NOTES, json.dumps({part: 0}).encode())
    for makes_room in (truncation.sweep_expired, truncate):
        with pytest.raises(
            CorruptChangelogError, match=r"does not have what its checkpoints count|no longer has"
        ):
            makes_room(folder, AT_ONCE)
    assert folder.changelog.exists(part)


def clean_up(log: DeltaLog) -> None:
    """Have all commits go but the newest ones."""
    with mock.patch.object(delta_checkpoints, "KEPT_S", 0):
        for _ in range(2):
            log.commit([], [], {})
            assert log.maintain(1)


@pytest.mark.parametrize("cleaned", [False, True])
def test_two_truncations_at_once_put_nothing_into_two_files(tmp_path: Path, cleaned: bool) -> None:
    """On object stores nothing is locked: one merges between the decision and the commit of another.

    Where the first stood still for long, the other's commits are cleaned up by then.
    """
    _, _, folder = stopped(tmp_path, epochs=8)
    materialize(folder, 3)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 9)}
    keeps = Retention(history_ms=10**12, retained=8, grace_ms=0)
    inner, other = truncation._commit, find_job_folder(str(tmp_path), "job")
    begun: list[int] = []

    def commit(log: DeltaLog, change: Any) -> bool:
        if not begun:
            begun.append(len(change.removes))
            truncate(other, LATER._replace(retained=3))
            if cleaned:
                clean_up(other.open_changelog())
                assert log.storage.size(commit_path(log.version + 1)) is None
        return inner(log, change)

    with (
        mock.patch.object(truncation, "materializer_lock", return_value=contextlib.nullcontext()),
        mock.patch.object(truncation, "_commit", commit),
        merging_few(),
    ):
        truncate(folder, keeps)
    assert begun[0] > 1
    assert verify(folder).faults == []
    kept = sorted(Lineage(folder.open_changelog()).checkpoints)
    assert {6, 7, 8} <= set(kept) < set(held)
    assert {checkpoint: states(tmp_path, checkpoint) for checkpoint in kept} == {at: held[at] for at in kept}


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on object stores, which have no lock against a second materializer."""
    for module in ("materialize", "truncation"):
        monkeypatch.setattr(f"materializer.{module}.materializer_lock", lambda _: contextlib.nullcontext())


def test_case_20_a_truncation_that_stood_still_lists_no_file_that_another_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has merged parts, and wakes after the time of grace, behind the other's sweep and before its truncation."""
    _, _, folder = stopped(tmp_path, epochs=6)
    for checkpoint in (3, 5):
        materialize(folder, checkpoint)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 7)}
    inner, swept = truncation._commit, []

    def commit(log: DeltaLog, change: Any) -> bool:
        if not swept:
            swept.append(sweep.sweep([DeltaLog(log.storage)], folder.open_changelog(), 0, wall_s))
        return inner(log, change)

    alone(monkeypatch)
    with mock.patch.object(truncation, "_commit", commit), merging_few():
        done = truncate(folder, Retention(history_ms=10**12, grace_ms=0))
    assert swept[0] > 0
    assert done.merged
    assert verify(folder).faults == []
    assert {checkpoint: states(tmp_path, checkpoint) for checkpoint in held} == held


def test_case_20_a_sweep_that_stood_still_deletes_nothing_that_was_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leftovers of a materialization that was killed have the names of what the next one of the checkpoint writes."""
    _, _, folder = stopped(tmp_path, epochs=6)
    materialize(folder, 2)
    before = states(tmp_path)
    with mock.patch.object(SnapshotStore, "commit", side_effect=Killed), pytest.raises(Killed):
        materialize(folder)
    leftovers = {entry.name for entry in folder.snapshots.list() if entry.name.startswith("part-6-")}
    assert leftovers
    inner, now = DeltaLog.make_durable, [0.0]

    def wakes(log: DeltaLog) -> None:
        inner(log)
        if not now[0] and log.storage.root == folder.snapshots.root:
            now[0] = 600.0
            materialize(folder)
            truncate(folder, AT_ONCE)

    alone(monkeypatch)
    monkeypatch.setattr(sweep, "monotonic_s", lambda: now[0])
    with mock.patch.object(DeltaLog, "make_durable", wakes):
        truncate(folder, Retention(grace_ms=0))
    assert now[0]
    assert leftovers <= {entry.name for entry in folder.snapshots.list()}
    assert rows_read(folder) == []
    assert verify(folder).faults == []
    assert states(tmp_path) == before
