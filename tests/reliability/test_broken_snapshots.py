"""Reliability cases 29 and 30: snapshots that can't be used, with real files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from support.materialized import AT_ONCE, damage, finishes, merging_few, states, stopped

from changelog_engine.errors import CorruptChangelogError, RestoreError
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ownership import write_row
from changelog_engine.ledger.snapshots import complete_snapshots
from changelog_engine.verification.verify import verify
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate


@pytest.mark.parametrize("truncated", [False, True])
def test_case_29_a_corrupt_snapshot(tmp_path: Path, truncated: bool) -> None:
    """An older one and a longer replay; without them a clear error, and nothing changes."""
    job, graph, folder = stopped(tmp_path, epochs=6)
    before = states(tmp_path)
    materialize(folder, 3)
    materialize(folder, 5)
    if truncated:
        truncate(folder, AT_ONCE)
    damage(next((tmp_path / "job" / "snapshots").glob("part-5-*.parquet")))
    if truncated:
        with pytest.raises(CorruptChangelogError, match=r"part-5-.* was changed after it was written"):
            states(tmp_path)
        with pytest.raises(RestoreError, match=r"snapshot of checkpoint 5 .* can't be read"):
            materialize(folder)
        return
    assert states(tmp_path) == before
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (6, 3)
    assert states(tmp_path) == before
    finishes(job, graph)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings so far."""
    caplog.set_level(logging.WARNING, "changelog_engine")
    return lambda: [record.getMessage() for record in caplog.records]


def marker_of(folder: JobFolder, checkpoint: int) -> Path:
    return next(Path(folder.snapshots.root).glob(f"snapshot-{checkpoint}-*.parquet"))


DAMAGES = {
    "a flipped bit": damage,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:50]),
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("harm", DAMAGES)
@pytest.mark.parametrize("what", ["its row", "a piece"])
def test_case_29_a_snapshot_that_cannot_be_used_is_passed_over(
    tmp_path: Path, warned: Callable[[], list[str]], harm: str, what: str
) -> None:
    """Reliability cases 29 and 30: it is named once, the next snapshot is built on an older one; truncation goes on."""
    job, graph, folder = stopped(tmp_path, epochs=6)
    before = states(tmp_path)
    materialize(folder, 3)
    materialize(folder, 5)
    piece = next(Path(folder.snapshots.root).glob("part-5-*.parquet"))
    harmed = marker_of(folder, 5) if what == "its row" else piece
    DAMAGES[harm](harmed)
    assert states(tmp_path) == before
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (6, 3)
    for _ in range(2):
        truncate(folder, Retention(grace_ms=0))
        truncate(folder, AT_ONCE)
    named = [message for message in warned() if harmed.name in message]
    assert len(named) == 1
    assert "the snapshot of checkpoint 5 can't be used" in named[0]
    assert complete_snapshots(folder) == {6: {1}}
    assert not harmed.exists()
    assert states(tmp_path) == before
    assert verify(folder).faults == []
    finishes(job, graph)


def test_case_29_the_newest_checkpoints_snapshot_is_made_again(
    tmp_path: Path, warned: Callable[[], list[str]]
) -> None:
    """Reliability case 29: although no checkpoint came since, and its file has the same name."""
    _, _, folder = stopped(tmp_path)
    before = states(tmp_path)
    materialize(folder)
    damage(marker_of(folder, 4))
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (4, None)
    assert any(marker_of(folder, 4).name in message for message in warned())
    truncate(folder, AT_ONCE)
    assert states(tmp_path) == before
    assert verify(folder).faults == []


@pytest.mark.parametrize(
    "document",
    [
        "no JSON",
        "[]",
        "{}",
        '{"checkpoint": 9, "attempt": 1, "parts": 1}',
        '{"checkpoint": 5, "attempt": 1, "parts": "many"}',
        '{"checkpoint": 5, "attempt": 1, "parts": 1, "files": [["part-x"]]}',
        '{"checkpoint": 5, "attempt": 1, "parts": 1, "files": [["../x", "o", "entries", 0, 1]]}',
        '{"checkpoint": 5, "attempt": 1, "parts": 7}',
    ],
)
def test_case_29_a_foreign_row_is_no_snapshot(
    tmp_path: Path, warned: Callable[[], list[str]], document: str
) -> None:
    """Reliability case 29: a row that somebody else committed, with a good checksum and whatever in it."""
    job, graph, folder = stopped(tmp_path, epochs=6)
    before = states(tmp_path)
    materialize(folder, 3)
    foreign = write_row(folder.snapshots, "snapshot", 5, 1, document, 0)
    folder.open_snapshots().commit([foreign])
    assert states(tmp_path) == before
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (6, 3)
    truncate(folder, AT_ONCE)
    assert any(foreign.path in message for message in warned())
    assert complete_snapshots(folder) == {6: {1}}
    assert states(tmp_path) == before
    finishes(job, graph)


def test_case_29_a_longer_replay_of_merged_parts_and_rows(tmp_path: Path) -> None:
    """Reliability case 29: the parts and rows after the older snapshot were merged since."""
    job, graph, folder = stopped(tmp_path, epochs=7)
    held = {checkpoint: states(tmp_path, checkpoint) for checkpoint in range(1, 8)}
    for checkpoint in (2, 5, 6):
        materialize(folder, checkpoint)
    with merging_few():
        assert truncate(folder, Retention(grace_ms=0)).merged == 2
    for checkpoint in (6, 5):
        damage(marker_of(folder, checkpoint))
        assert {number: states(tmp_path, number) for number in held} == held
    done = materialize(folder)
    assert done is not None
    assert (done.checkpoint, done.previous) == (7, 2)
    assert {number: states(tmp_path, number) for number in held} == held
    finishes(job, graph)
