"""The tree of checkpoints and where runs start (reliability 31)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.materialized import merging_few
from test_commit_helpers import Driver, state_at

from changelog_engine.changelog.log_files import SNAPSHOT, parse_part
from changelog_engine.changelog.model import FORMAT_VERSION, Checkpoint, Segment
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.part_stats import delta_stats
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.changelog.segments import extend
from changelog_engine.changelog.small_state import KeptBroadcast, LogPosition, SmallState, StageState
from changelog_engine.changelog.snapshot_row import read_snapshot_row
from changelog_engine.errors import CorruptChangelogError, FormatVersionError, RestoreError, RetiredError
from changelog_engine.ledger import bounds
from changelog_engine.ledger.committer import CheckpointCommitter
from changelog_engine.ledger.job_folder import FORMAT_PROPERTY, JOB_PROPERTY
from changelog_engine.ledger.ledger import Ledger, plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import write_row
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.ledger.reading import read_suffix
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage
from materializer import fold
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate


def lineage_of(base: Path) -> Lineage:
    return Lineage(DeltaLog(open_storage(str(base / "job" / "changelog"))))


def test_extend() -> None:
    one = extend((), 1, 1)
    assert one == (Segment(1, 1, 1),)
    assert extend(one, 1, 2) == (Segment(1, 1, 2),)
    assert extend(one, 2, 5) == (Segment(1, 1, 1), Segment(2, 5, 5))
    assert extend(extend(one, 2, 5), 2, 6) == (Segment(1, 1, 1), Segment(2, 5, 6))


def test_auto(tmp_path: Path) -> None:
    first = Driver.start(tmp_path)
    assert first.last is None
    second = Driver.start(tmp_path)
    assert second.last is None  # the first made no checkpoint
    row = second.checkpoint({"a": 1})
    assert Driver.start(tmp_path).last == row
    fourth = Driver.start(tmp_path)
    assert fourth.last == row  # the third made none, so from where it started
    stopped = fourth.checkpoint({"a": 2}, stopped=True)
    fifth = Driver.start(tmp_path)
    assert fifth.last == stopped
    done = fifth.checkpoint({"a": 3}, finished=True)
    sixth = Driver.start(tmp_path)
    assert sixth.last is None
    assert decide_restore(lineage_of(tmp_path), "latest").checkpoint == done
    assert sixth.checkpoint({"b": 1}).lineage == (Segment(6, 4, 4),)


def test_branches_are_never_mixed(tmp_path: Path) -> None:
    trunk = Driver.start(tmp_path)
    old = trunk.checkpoint({"a": 1, "bb": 1})
    abandoned = trunk.checkpoint({"a": 2, "ccc": 2})
    branch = Driver.start(tmp_path, restore="1")
    assert branch.last == old
    tip = branch.checkpoint({"bb": 7})
    assert tip.id == 3
    assert tip.lineage == (Segment(1, 1, 1), Segment(2, 3, 3))
    assert state_at(branch.folder, tip) == {"a": 1, "bb": 7}
    assert state_at(branch.folder, abandoned) == {"a": 2, "bb": 1, "ccc": 2}
    assert Driver.start(tmp_path).last == tip


def test_decisions(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    lineage = Lineage(driver.log)
    assert decide_restore(lineage, "latest").checkpoint is None
    with pytest.raises(RestoreError, match=r"changelog.restore = 3: there is no checkpoint in .* yet"):
        decide_restore(lineage, "3")
    with pytest.raises(
        RestoreError, match=r"'as-of:20231114T221530' is not a point of a job: give .* 2026-01-31T12:"
    ):
        decide_restore(lineage, "as-of:20231114T221530")
    made = [driver.checkpoint({"a": i}, time_ms=1_700_000_000_000 + i * 60_000) for i in range(5)]
    lineage = Lineage(driver.log)
    assert decide_restore(lineage, "none").checkpoint is None
    assert decide_restore(lineage, "latest").checkpoint == made[4]
    assert decide_restore(lineage, " 2 ").checkpoint == made[1]
    assert decide_restore(lineage, "as-of:2023-11-14T22:15:30").checkpoint == made[2]
    assert decide_restore(lineage, "as-of:2023-11-14T23:15:30+01:00").checkpoint == made[2]
    assert decide_restore(lineage, "as-of:2023-11-15").checkpoint == made[4]
    assert decide_restore(lineage, "22:15:30").checkpoint == made[2]
    assert decide_restore(lineage, "-2").checkpoint == made[3]
    for wrong, words in (
        ("9", r"^changelog.restore = 9: there is no checkpoint 9 .*the nearest: 5 \(of 1 to 5\)$"),
        (
            "as-of:2100-01-01",
            "2100-01-01 00:00:00.000 is in the future.* without a zone is UTC.* give latest$",
        ),
        ("as-of:2001-01-01", "at or before 2001.*nearest is checkpoint 1"),
        ("as-of:yesterday", "not a point.*, or auto, or none$"),
        ("as-of:2", "not a point"),  # a number is no time
        ("newest", "not a point.*, or auto, or none$"),
    ):
        with pytest.raises(RestoreError, match=words):
            decide_restore(lineage, wrong)


def test_a_time_of_day_is_that_of_one_day(tmp_path: Path) -> None:
    day, midnight = 86_400_000, 1_700_006_400_000
    driver = Driver.start(tmp_path)
    evening = driver.checkpoint({"a": 1}, time_ms=midnight - day // 12)
    night = driver.checkpoint({"a": 2}, time_ms=midnight + day // 12)
    lineage = Lineage(driver.log)
    for text, meant in (("23:59", evening), ("22:00", evening), ("2:00", night), ("01:59:59.999", evening)):
        assert checkpoint_at(lineage, text) == meant
    driver.checkpoint({"a": 3}, time_ms=midnight + 2 * day)
    with pytest.raises(
        RestoreError, match=r"23:59:00.000 may be on any of 3 days, .* say which, such as 2023-11-16T23:59"
    ):
        checkpoint_at(Lineage(driver.log), "23:59")


def test_only_the_wanted_row_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver.start(tmp_path)
    for i in range(5):
        driver.checkpoint({"a": i})
    opened: list[str] = []
    real = LocalDisk.read

    def read(self: Storage, path: str, size: int | None = None) -> pa.Buffer:
        if path.endswith(".parquet"):
            opened.append(path)
        return real(self, path, size)

    monkeypatch.setattr(LocalDisk, "read", read)
    lineage = lineage_of(tmp_path)
    assert opened == []
    lineage.checkpoint(3)
    assert [path.split("-")[1] for path in opened] == ["3"]
    opened.clear()
    lineage.at_or_before(2_000)  # times are those that rows have: one after the other, the newest first
    assert [path.split("-")[1] for path in opened] == ["5", "4", "3", "2", "2"]


def test_rows_in_merged_files_are_found(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    made = [driver.checkpoint({"a": i, "bb": i}) for i in range(3)]
    log = driver.log
    files = [path for path in log.files()["path"].to_pylist() if "-3-" not in path]
    folder = tmp_path / "job" / "changelog"
    table = pa.concat_tables((pq.read_table(folder / p) for p in files), promote_options="default")
    merged = tmp_path / "job" / "changelog" / "part-00000-merged.c000.snappy.parquet"
    pq.write_table(table.select(SCHEMA.names), merged)
    bounds = ({"operation": "attempt", "checkpoint_id": 0}, {"operation": "put", "checkpoint_id": 2})
    stats = {"numRecords": table.num_rows, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": {}}
    log.commit([AddFile(merged.name, merged.stat().st_size, 0, stats)], files)
    lineage = lineage_of(tmp_path)
    assert lineage.newest_attempt_id == 1
    assert [lineage.checkpoint(i) for i in (1, 2, 3)] == made
    assert lineage.at_or_before(2_500) == made[1]
    for checkpoint, value in zip(made, (0, 1, 2), strict=True):
        assert state_at(driver.folder, checkpoint) == {"a": value, "bb": value}


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    lineage = lineage_of(tmp_path)
    path = tmp_path / "job" / "changelog" / str(lineage.checkpoints[1].path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptChangelogError, match=f"{path.name} was changed"):
        lineage.checkpoint(1)
    path.unlink()
    with pytest.raises(CorruptChangelogError, match=f"{path.name} is missing"):
        lineage.newest_checkpoint()


def test_where_to_begin_instead_of_a_lost_row_is_on_its_own_line(tmp_path: Path) -> None:
    first = Driver.start(tmp_path)
    for value in (1, 2, 3):
        first.checkpoint({"a": value}, finished=value == 3)
    again = Driver.start(tmp_path, "2")  # 3 is another line from now on
    again.checkpoint({"a": 4}, finished=True)
    Driver.start(tmp_path).checkpoint({"a": 5})  # begins empty: nothing was before
    lineage = lineage_of(tmp_path)
    for lost, said in ((5, "from a copy. Nothing was changed"), (4, "restore = 2 "), (2, "restore = 1 ")):
        (tmp_path / "job" / "changelog" / str(lineage.checkpoints[lost].path)).unlink()
        with pytest.raises(CorruptChangelogError, match=said):
            lineage.checkpoint(lost)
    with pytest.raises(CorruptChangelogError, match="restore = 1 "):
        lineage.checkpoint(4)


def test_retired_snapshot_is_refused_by_the_plan(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    first = driver.snapshot({"a": 1})
    driver.snapshot({"a": 2})
    driver.committer.retire_snapshots({2})
    with pytest.raises(RetiredError, match=r"snapshot of checkpoint 1, which was retired") as refused:
        plan_restore(driver.folder, first)
    for said in ("without state.changelog.enabled", "num-retained", "Ask for one that has its snapshot: 2."):
        assert said in str(refused.value)
    assert plan_restore(driver.folder, None).checkpoint is None


def test_a_row_has_the_times_of_inputs_once_where_all_subtasks_have_the_same() -> None:
    def row(parallelism: int, late: bool = False) -> Checkpoint:
        times = {f"0/{sender}": 1_700_000_000_000 for sender in range(parallelism)}
        subtasks = {
            subtask: SmallState(
                LogPosition(7, 1),
                {"current": 4 if late and subtask == 2 else 5, "channels": dict(times), "idle": []},
                {"log": {"current": 1}, "uid:log": 2, "plain": None},  # uids, as users may give them
                {"files": {"committables": ["a"], "state": None}},
            )
            for subtask in range(parallelism)
        }
        small = StageState(subtasks, {"rules": KeptBroadcast({"r": []})})
        state = {"count": small, "numbers": StageState({0: SmallState()})}
        return Checkpoint(1, 1, None, (Segment(1, 1, 1),), 0, operator_state=state)

    for made in (row(4), row(4, late=True)):
        assert Checkpoint.from_json(made.to_json()) == made
    assert len(row(64).to_json()) < 6 * len(row(16).to_json())
    alike = json.loads(row(4, late=True).to_json())["operator_state"]["count"]
    assert (alike["1"]["inputs"], alike["2"]["inputs"]["current"]) == ("0", 4)
    assert set(alike["0"]) == {"log", "inputs", "sinks", "uid:log", "uid:uid:log", "plain"}
    assert (alike["0"]["log"], alike["shared"]["rules"]["r"]) == ([7, 1], [])


def test_fields_of_newer_engines_are_left_out_and_newer_formats_refused(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    lineage, folder = lineage_of(tmp_path), driver.folder
    checkpoint, attempt = lineage.newest_checkpoint(), lineage.newest_attempt()
    for row in (checkpoint, attempt):
        assert row is not None
        document = {**json.loads(row.to_json()), "mood": "good"}
        assert type(row).from_json(json.dumps(document)) == row
        for newer in (FORMAT_VERSION + 1, "two"):
            with pytest.raises(
                FormatVersionError, match=f"row of .* 1 has changelog format {newer}, .*newer engine"
            ):
                type(row).from_json(json.dumps({**document, "format": newer}))
    folder.open_snapshots()
    name = "snapshot-1-1"
    text = json.dumps({"format": FORMAT_VERSION + 1, "checkpoint": 1, "attempt": 1, "parts": 0})
    added = write_row(folder.snapshots, SNAPSHOT, 1, 1, text, 0)
    assert added.path.startswith(name)
    with pytest.raises(FormatVersionError, match=f"{name}.* has changelog format"):
        read_snapshot_row(folder.snapshots, added.path)


def test_a_fold_of_a_table_in_a_newer_format_is_refused(tmp_path: Path) -> None:
    properties = {FORMAT_PROPERTY: str(FORMAT_VERSION + 1), JOB_PROPERTY: "job"}
    DeltaLog.create(open_storage(str(tmp_path)), SCHEMA, properties)
    with pytest.raises(FormatVersionError, match="use the newer engine"):
        fold.state_at(str(tmp_path))


def test_the_footer_of_a_file_that_is_left_out_is_read_once_in_a_process(tmp_path: Path) -> None:
    """Each operator and subtask of a process asks of nearly all files; the list is compared with it each time."""
    driver = Driver.start(tmp_path)
    for number in range(3):
        driver.checkpoint({"a": number})
    folder = driver.folder
    storage = folder.changelog
    files = [
        PartFile(path, parse_part(path), 1, first_operator="b", last_operator="c")
        for path in parts_of(driver)
    ]
    listed = [
        replace(
            file,
            rows=said["numRecords"],
            first_operator=said["minValues"]["operator"],
            last_operator=said["maxValues"]["operator"],
        )
        for file in files
        for said in [delta_stats(storage.read_footer(file.path))]
    ]
    groups = range(128)
    with mock.patch.object(bounds, "footer_of_file", wraps=bounds.footer_of_file) as read:
        for _ in range(3):
            assert (
                bounds.needed(storage, [(file, None) for file in listed], groups, frozenset({"other"})) == []
            )
        assert read.call_count == len(files)
    with pytest.raises(
        CorruptChangelogError, match="as its first operator, and the table's list of files says 'b'"
    ):
        bounds.needed(storage, [(file, None) for file in files], groups, frozenset({"other"}))


def other_part(driver: Driver, of: str, rows: dict[str, int]) -> AddFile:
    """A file with the name of a part but for the checksum, as an older try leaves it."""
    name = parse_part(of)
    assert name is not None
    driver.number[name.subtask], driver.sequence[name.subtask] = name.number - 1, 0
    with mock.patch.object(CheckpointCommitter, "next_id", name.checkpoint):
        part = driver.part(rows)
    return AddFile(
        part.path, part.size, 0, delta_stats(driver.folder.changelog.read_footer(part.path, part.size))
    )


def parts_of(driver: Driver) -> list[str]:
    return sorted(
        path for path in driver.folder.open_changelog().files()["path"].to_pylist() if "part-" in path
    )


def test_a_part_with_fewer_rows_than_are_due_is_refused(tmp_path: Path) -> None:
    """The file is whole, and so is its name: what the checkpoint's row counts alone tells."""
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1, "bb": 1})
    (path,) = parts_of(driver)
    driver.folder.open_changelog().commit([other_part(driver, path, {"a": 1})], [path])
    with pytest.raises(CorruptChangelogError, match="has 1 of 2 mutations of part-1-1-"):
        state_at(driver.folder, driver.last)


def test_a_part_that_is_there_twice_beside_merged_ones_does_not_stand_for_another(tmp_path: Path) -> None:
    """As many rows as are due are there."""
    driver = Driver.start(tmp_path)
    for number in range(1, 5):
        driver.checkpoint({"a": number})
    for checkpoint in (2, 3):
        materialize(driver.folder, checkpoint)
    with merging_few():
        truncate(driver.folder, Retention(history_ms=10**15, grace_ms=0))
    third, fourth = parts_of(driver)
    driver.folder.open_changelog().commit([other_part(driver, third, {"a": 9})], [fourth])
    with pytest.raises(CorruptChangelogError, match="no longer has part 4 of attempt 1, stage 1, subtask 0"):
        Ledger(driver.folder.open_changelog()).following(driver.last.lineage, None)


def test_merged_rows_serve_those_that_begin_or_end_within_them(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    made = [driver.checkpoint({"a" * number: number}) for number in range(1, 5)]
    for checkpoint in (3, 4):
        materialize(driver.folder, checkpoint)
    with merging_few():
        truncate(driver.folder, Retention(history_ms=10**15, grace_ms=0))
    assert any(
        path.startswith("merged-1-3-") for path in driver.folder.open_changelog().files()["path"].to_pylist()
    )
    for end in made:
        point = plan_restore(driver.folder, end)
        for after in range(end.id):
            keys = [key for table in read_suffix(point, after, range(8)) for key in table["key"].to_pylist()]
            assert keys == ["a" * number for number in range(after + 1, end.id + 1)]


def test_what_was_lost_does_not_pass_for_truncated(tmp_path: Path) -> None:
    """Of the newest snapshot's checkpoint half of the mutations are gone; all of those before it were truncated."""
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 1})
    parts = [driver.part({"a": 2}), driver.part({"bb": 2}, subtask=1)]
    row = driver.row(parts)
    driver.committer.commit(row, parts)
    materialize(driver.folder)
    first, half, _ = parts_of(driver)
    (row_of_first,) = (path.name for path in (tmp_path / "job" / "changelog").glob("checkpoint-1-*"))
    driver.folder.open_changelog().commit([], [first, row_of_first])
    assert Ledger(driver.folder.open_changelog()).oldest(row).checkpoint == 2
    driver.folder.open_changelog().commit([], [half])
    with pytest.raises(CorruptChangelogError, match="has 1 of 3 parts in checkpoints 1 to 2"):
        Ledger(driver.folder.open_changelog()).oldest(row)
