"""Merging of rows and parts: the same rows afterwards, few files, each row written again only so often."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from support.disks import trusted
from support.materialized import merging_few
from test_commit_helpers import Driver, state_at

from changelog_engine.changelog import row_files
from changelog_engine.changelog.log_files import PartName, parse_part
from changelog_engine.changelog.model import Checkpoint, Segment
from changelog_engine.changelog.part_selection import PartFile, Within
from changelog_engine.changelog.part_stats import delta_stats, footer_of
from changelog_engine.changelog.row_files import merged_rows_file, merged_rows_table, rows_of
from changelog_engine.changelog.rows import RowOfLog
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.storage import delta_checkpoints
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import CommitConflictError, DeltaLog
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage
from changelog_engine.verification.verify import verify
from materializer import merge, merge_rows, truncation
from materializer.materialize import materialize
from materializer.merge import Change, merge_small
from materializer.retention import Needed, Retention
from materializer.truncation import truncate

KEEPS = Retention(history_ms=10**15, retained=1, grace_ms=0)


@pytest.fixture(autouse=True)
def quick(tmp_path: Path) -> Iterator[None]:
    """Nothing is killed here."""
    with trusted(tmp_path), mock.patch.object(truncation, "_PAUSE_S", 0):
        yield


def row_paths(folder: JobFolder) -> list[str]:
    return [
        path for path in folder.open_changelog().files()["path"].to_pylist() if path.startswith("checkpoint")
    ]


def test_rows_are_merged_into_few_files_and_stay_the_same(tmp_path: Path) -> None:
    """Three attempts; at every truncation there are at most LEAST_ROWS single rows and log2(rows) merged files."""
    made: list[Checkpoint] = []
    written = 0
    inner = merge_rows.write_merged_rows

    def counted(storage: Storage, operation: str, rows: pa.Table) -> AddFile:
        nonlocal written
        written += rows.num_rows
        return inner(storage, operation, rows)

    with merging_few(4), mock.patch.object(merge_rows, "write_merged_rows", counted):
        for _ in range(3):
            driver = Driver.start(tmp_path)
            for number in range(1, 31):
                made.append(driver.checkpoint({"a": number}))
                if number % 5 == 0:
                    truncate(driver.folder, KEEPS)
                    paths = row_paths(driver.folder)
                    assert len([path for path in paths if path.startswith("checkpoint-")]) <= 4
                    assert len(paths) <= 4 + math.log2(len(made))
    assert written <= len(made) * math.log2(len(made))
    lineage = Lineage(driver.folder.open_changelog())
    assert sorted(lineage.checkpoints) == [row.id for row in made]
    assert len(lineage.checkpoints) == len(made)
    assert lineage.newest_checkpoint() == made[-1]
    assert (lineage.newest_checkpoint_id, lineage.newest_attempt_id) == (90, 3)
    for row in made:
        assert lineage.checkpoint(row.id) == row
        assert lineage.at_or_before(row.time_ms) == row
        assert lineage.checkpoints[row.id][:2] == (row.id, row.attempt)
        assert lineage.checkpoints.time_of(lineage.checkpoints[row.id]) == row.time_ms
    assert [lineage.newest_checkpoint(attempt) for attempt in (1, 2, 3)] == [made[29], made[59], made[89]]
    assert lineage.newest_checkpoint(4) is None
    assert 91 not in lineage.checkpoints
    assert 0 not in lineage.checkpoints
    assert verify(driver.folder).faults == []
    # Any Delta reader finds the rows in the same columns.
    tables = [pq.read_table(f"{driver.folder.changelog.root}/{path}") for path in row_paths(driver.folder)]
    table = pa.concat_tables(tables)
    assert sorted(table["checkpoint_id"].to_pylist()) == [row.id for row in made]
    assert set(table["operation"].to_pylist()) == {"checkpoint"}


def test_attempts_are_merged(tmp_path: Path) -> None:
    """A job that was started again and again."""
    made = []
    for number in range(12):
        driver = Driver.start(tmp_path)
        made.append(driver.attempt)
        driver.checkpoint({"a": number})
    with merging_few(4):
        truncate(driver.folder, KEEPS)
    paths = [p for p in driver.folder.open_changelog().files()["path"].to_pylist() if p.startswith("attempt")]
    assert sorted(path.rpartition("-")[0] for path in paths) == ["attempt-12", "attempts-1-11"]
    lineage = Lineage(driver.folder.open_changelog())
    assert [lineage.attempt(attempt.id) for attempt in made] == made
    assert verify(driver.folder).faults == []
    assert Driver.start(tmp_path).attempt.id == 13


def test_rows_before_the_window_leave_their_file(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    for number in range(1, 11):
        driver.checkpoint({"a": number}, time_ms=number * 1_000)
    with merging_few(4):
        truncate(driver.folder, KEEPS)
    materialize(driver.folder, 6)
    materialize(driver.folder)
    window = Retention(history_ms=4_500, retained=1, grace_ms=0)
    truncate(driver.folder, window, lambda: 11.0)
    assert sorted(path.rpartition("-")[0] for path in row_paths(driver.folder)) == [
        "checkpoint-10-1",
        "checkpoints-6-9",
    ]
    lineage = Lineage(driver.folder.open_changelog())
    assert sorted(lineage.checkpoints) == [6, 7, 8, 9, 10]
    assert {number: state_at(driver.folder, lineage.checkpoint(number)) for number in (6, 8, 10)} == {
        6: {"a": 6},
        8: {"a": 8},
        10: {"a": 10},
    }


def test_rows_leave_merged_files_from_the_newest_on(tmp_path: Path) -> None:
    """A driver that starts between two of the commits finds all rows before the one that it starts from."""
    driver = Driver.start(tmp_path)
    with merging_few(4):
        for _ in range(2):
            for number in range(8 if driver.last is None else 5):
                driver.checkpoint({"a": number})
            truncate(driver.folder, KEEPS)
    rows = Lineage(driver.folder.open_changelog()).checkpoints
    stays = Needed(frozenset(), frozenset([2, 9, 13]), frozenset(), frozenset(), 0)
    changes = list(merge_rows.row_changes(driver.folder.changelog, rows, stays))
    gone = [path.rpartition("-")[0] for change in changes for path in change.removes]
    assert gone == ["checkpoints-8-12", "checkpoints-1-7"]


def test_what_a_restore_may_read_is_not_merged(tmp_path: Path) -> None:
    """The newest snapshot may be damaged: then it begins with the one before it, or with the log."""
    driver = Driver.start(tmp_path)
    merged = []
    with merging_few(2):
        for number in range(9):
            driver.checkpoint({"a": number})
            if number % 3 == 2:
                materialize(driver.folder)
                truncate(driver.folder, KEEPS)
                paths = driver.folder.open_changelog().files()["path"].to_pylist()
                merged.append(sorted(p.rpartition("-")[0] for p in paths if p.startswith("merged-")))
    assert merged == [[], ["merged-1-3"], ["merged-1-6"]]


def test_merged_rows_are_those_that_stay_in_the_order_of_the_log(tmp_path: Path) -> None:
    """Numbers of parts aren't in the order of their texts; rows are merged twice, and what is not needed goes with it."""
    driver = Driver.start(tmp_path)
    storage = driver.folder.changelog
    merged: list[PartFile] = []

    def merge_next(first: int) -> list[tuple[int, int, int]]:
        parts = [driver.part({"a": number, "bb": number}) for number in range(12)]
        driver.last = driver.row(parts)
        driver.committer.commit(driver.last, parts)
        fresh = [
            PartFile(part.path, parse_part(part.path), part.size, 2, part.checkpoint_id) for part in parts
        ]
        runs = frozenset([Segment(1, first, 9)])
        stays = Needed(runs, frozenset(), frozenset(), frozenset(), 9)
        (change,) = merge_small(storage, fresh + merged, stays, 2)
        assert sorted(change.removes) == sorted(file.path for file in fresh + merged)
        (add,) = change.adds
        table = pq.read_table(storage.join(add.path), columns=["key_group", "checkpoint_id", "sequence"])
        merged[:] = [PartFile(add.path, None, add.size, table.num_rows, first, driver.last.id)]
        return [tuple(row.values()) for row in table.to_pylist()]

    once = merge_next(1)
    assert once == [(group, 1, 2 * number + group - 1) for group in (1, 2) for number in range(12)]
    driver.number[0] = 94  # so that there is one digit more here too
    twice = merge_next(1)
    assert twice == sorted(twice)
    assert [place for place in twice if place[1] == 1] == once
    thrice = merge_next(3)
    assert thrice == sorted(thrice)
    assert {place[1] for place in thrice} == {3}
    assert len(thrice) == 24


def test_a_pack_is_merged_at_once(tmp_path: Path) -> None:
    """Or a truncation that dies between two commits would take a part away that is in no other file yet."""
    packs = []
    for checkpoint in range(1, 6):
        for subtask in range(3):
            name = PartName(checkpoint, 1, 1, subtask, 1, 0)
            within = Within(subtask * 100, 300, 3)
            packs.append(PartFile(f"pack-{checkpoint}", name, 100, 1, checkpoint, checkpoint, within=within))
    stays = Needed(frozenset([Segment(1, 1, 9)]), frozenset(), frozenset(), frozenset(), 9)
    for most in range(2, 8):
        with (
            mock.patch.object(merge, "_merge", lambda storage, parts, stays: parts),
            mock.patch.object(merge, "_MOST_PARTS", most),
        ):
            groups: list[Any] = list(merge_small(open_storage(str(tmp_path)), packs, stays, 1))
        assert [part for group in groups for part in group] == packs
        assert sum(len({part.path for part in group}) for group in groups) == 5, most


@pytest.mark.parametrize("offset", [0, 10, 200, -10])
def test_a_flipped_bit_in_merged_rows_is_detected(tmp_path: Path, offset: int) -> None:
    """Reliability case 30; the rows in files of their own are not touched by it."""
    driver = Driver.start(tmp_path)
    made = [driver.checkpoint({"a": number}) for number in range(8)]
    with merging_few(4):
        truncate(driver.folder, KEEPS)
    path = next((tmp_path / "job" / "changelog").glob("checkpoints-*"))
    row_files._INDEXES.clear()
    data = bytearray(path.read_bytes())
    data[offset] ^= 4
    path.write_bytes(data)
    lineage = Lineage(driver.folder.open_changelog())
    assert lineage.newest_checkpoint() == made[-1]
    with pytest.raises(CorruptChangelogError, match=f"{path.name} was changed"):
        lineage.checkpoint(3)
    assert any(fault.file.endswith(path.name) for fault in verify(driver.folder).faults)
    path.unlink()
    with pytest.raises(CorruptChangelogError, match=f"{path.name} is missing"):
        lineage.checkpoint(3)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_small_merged_files_are_merged_on(sizes: list[int]) -> None:
    """Whatever comes between truncations: files of one kind of size don't pile up, and no byte is merged too often."""
    files: list[PartFile] = []
    merged_bytes = total = 0
    written = iter(range(10**9))

    def part(checkpoint: int) -> PartFile:
        path = f"part-{checkpoint}-1-1-0-{checkpoint}-00000000.parquet"
        return PartFile(path, parse_part(path), 100, 1, checkpoint, checkpoint, 0, 0, "o", "o")

    def merged(storage: Storage, parts: list[PartFile], stays: Needed) -> Change:
        nonlocal merged_bytes
        size = sum(file.size for file in parts)
        merged_bytes += size
        last = max(file.last_checkpoint or 0 for file in parts)
        return Change(
            [AddFile(f"merged-1-{last}-{next(written):08x}.parquet", size, 0)], [f.path for f in parts]
        )

    stays = Needed(frozenset([Segment(1, 1, 10**6)]), frozenset(), frozenset(), frozenset(), 10**6)
    checkpoint = 0
    with mock.patch.object(merge, "_merge", merged):
        for count in sizes:
            for _ in range(count):
                checkpoint += 1
                total += 100
                files.append(part(checkpoint))
            for change in merge_small(open_storage("/nowhere"), files, stays, 4):
                files = [file for file in files if file.path not in change.removes]
                for add in change.adds:
                    files.append(
                        PartFile(add.path, None, add.size, 1, 1, int(add.path.split("-")[2]), 0, 0, "o", "o")
                    )
            assert sum(file.size for file in files) == total
            assert len(files) <= 3 + math.log2(total / 100) + 1
    assert merged_bytes <= total * (math.log2(total / 100) + 1)


def test_the_delta_log_is_kept_short(tmp_path: Path) -> None:
    """Behind a Delta checkpoint old commits go; young ones stay for those who are behind; every reader opens the table."""
    driver = Driver.start(tmp_path)
    log = driver.folder.open_changelog()
    lengths = []
    for number in range(1, 61):
        driver.checkpoint({"a": number})
        log.refresh()
        log.maintain(every=10)
        lengths.append(len(log.storage.list("_delta_log")))
    assert lengths[-1] > 60  # commits of the last ten minutes
    with mock.patch.object(delta_checkpoints, "KEPT_S", 0):
        lengths.clear()
        for number in range(61, 101):
            driver.checkpoint({"a": number})
            log.refresh()
            log.maintain(every=10)
            lengths.append(len(log.storage.list("_delta_log")))
    assert max(lengths[10:]) <= 20 + 6  # with Delta checkpoints and their checksums
    assert DeltaLog(driver.folder.changelog).files().num_rows == 201
    assert state_at(driver.folder, driver.last) == {"a": 100}
    assert not log.maintain(every=10)
    # A handle that doesn't know of the others' Delta checkpoint does not write one more.
    assert not DeltaLog(driver.folder.changelog).maintain(every=10)


def test_a_writer_that_stood_still_for_long_is_refused(tmp_path: Path) -> None:
    """The name of its commit is free again, because the log was cut meanwhile: a zombie must not take that for a success."""
    driver = Driver.start(tmp_path)
    asleep, log = driver.folder.open_changelog(), driver.folder.open_changelog()
    with mock.patch.object(delta_checkpoints, "KEPT_S", 0):
        for number in range(25):
            driver.checkpoint({"a": number})
            log.refresh()
            log.maintain(every=10)
    before = [entry.name for entry in log.storage.list("_delta_log")]
    with pytest.raises(CommitConflictError, match="long ago"):
        asleep.commit([AddFile("part-x", 1, 0)])
    assert [entry.name for entry in log.storage.list("_delta_log")] == before
    awake = driver.folder.open_changelog()
    log.commit([], [], {"a": 1})
    log.maintain(every=1)  # a Delta checkpoint alone is no reason to refuse
    awake.refresh()
    assert awake.commit([], [], {"b": 2}) == log.refresh()


def test_merged_rows_of_a_table_with_many_are_opened_one_by_one(tmp_path: Path) -> None:
    """Of many files only those that are asked for are read."""
    storage = open_storage(str(tmp_path))
    adds = []
    for first in range(1, 400, 10):
        rows = [RowOfLog(i, 1, "checkpoint", f'"{i}"', i * 10**6) for i in range(first, first + 10)]
        path, data = merged_rows_file("checkpoint", merged_rows_table(rows))
        storage.write_durable(path, data)
        adds.append({"path": path, "size_bytes": data.size, "modification_time": 0})
    checkpoints, attempts = rows_of(storage, pa.Table.from_pylist(adds))
    opened: list[str] = []
    inner = LocalDisk.read

    def read(self: Storage, path: str, size: int | None = None) -> pa.Buffer:
        opened.append(path)
        return inner(self, path)

    with mock.patch.object(LocalDisk, "read", read):
        assert (checkpoints.newest, attempts.newest, list(attempts)) == (400, 0, [])
        assert opened == []
        assert checkpoints.document(checkpoints[123]) == '"123"'
        assert {path.split("-")[1] for path in opened} == {"121"}
        assert checkpoints.time_of(checkpoints[123]) == 123_000
        assert checkpoints.newest_of(1) == 400
        assert len(set(opened)) == 2
        assert (len(checkpoints), list(checkpoints)) == (400, list(range(1, 401)))


def test_a_part_beside_the_file_that_it_was_merged_into_is_refused(tmp_path: Path) -> None:
    """Its mutations would count twice."""
    driver = Driver.start(tmp_path)
    made = [driver.checkpoint({"a": number}) for number in range(1, 4)]
    changelog = driver.folder.changelog
    (first,) = (
        path for path in driver.folder.open_changelog().files()["path"].to_pylist() if "part-1-" in path
    )
    part = changelog.read(first)
    DeltaTable(changelog.root).optimize.compact()
    assert state_at(driver.folder, made[1]) == {"a": 2}
    stats = delta_stats(footer_of(part))
    driver.folder.open_changelog().commit([AddFile(first, part.size, made[0].time_ms, stats)])
    with pytest.raises(CorruptChangelogError, match="has 3 of 2 mutations in checkpoints 1 to 2"):
        state_at(driver.folder, made[1])
