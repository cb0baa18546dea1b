"""Reliability cases 45, 46 and 51: what chooses files and checkpoints is proven, for every reader alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.materialized import stopped
from support.readers import commits, faults, folded, readers, refusal, restored, selected

from changelog_engine.errors import CorruptChangelogError
from changelog_engine.ledger.commits import check_commits
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.storage.delta_actions import CHECKSUM
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

GROUPS = 16
READERS = ["restore", "state_at", "history", "savepoint", "fork", "materialize"]


def job(tmp_path: Path, snapshot: int | None = 2, epochs: int = 5) -> Any:
    """A job with some checkpoints and a snapshot of an older one."""
    _, _, folder = stopped(tmp_path, epochs=epochs, max_parallelism=GROUPS)
    if snapshot is not None:
        assert materialize(folder, snapshot) is not None
    return folder


def rewritten(path: Path, change: Any) -> None:
    """Change the actions of a commit, as if its writer had taken no checksum."""
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        action.get("commitInfo", {}).get("operationParameters", {}).pop(CHECKSUM, None)
    written = (json.dumps(action, separators=(",", ":")) for action in change(actions) if action)
    path.write_text("\n".join(written))


def unchecked(path: Path) -> bytes:
    """The commit as a writer would have it that takes no checksum."""
    rewritten(path, lambda actions: actions)
    return path.read_bytes()


def test_case_46_each_bit_of_what_a_commit_does_is_under_its_checksum(tmp_path: Path) -> None:
    """One bit in the key of a modification time made a checkpoint's time None, in silence."""
    folder = job(tmp_path, snapshot=None)
    newest = commits(folder)[-1]
    data = newest.read_bytes()
    begin = data.index(b"\n")
    for place in range(begin + 1, len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        newest.write_bytes(bytes(flipped))
        with pytest.raises(CorruptChangelogError) as raised:
            check_commits(folder.open_changelog())
        assert raised.value.path == str(newest), place
    newest.write_bytes(data)
    check_commits(folder.open_changelog())


def test_a_commit_whose_writer_left_its_parameters_null_is_not_damaged(tmp_path: Path) -> None:
    """Delta's field may be null: whoever writes it so took no checksum."""
    folder = job(tmp_path, snapshot=None)

    def without(actions: list[Any]) -> list[Any]:
        return [
            {"commitInfo": {**action["commitInfo"], "operationParameters": None}}
            if "commitInfo" in action
            else action
            for action in actions
        ]

    rewritten(commits(folder)[-1], without)
    check_commits(folder.open_changelog())


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("table", ["changelog", "snapshots"])
def test_case_51_an_empty_newest_commit_is_damage_for_every_reader(
    tmp_path: Path, table: str, reader: str
) -> None:
    folder = job(tmp_path)
    newest = commits(folder, table)[-1]
    newest.write_bytes(b"")
    with pytest.raises(CorruptChangelogError, match="is empty") as raised:
        readers(str(tmp_path), 5 if table == "snapshots" else 4, GROUPS)[reader]()
    assert raised.value.path == str(newest)
    assert str(newest) in faults(str(tmp_path))


def test_case_51_a_truncation_removes_nothing_then(tmp_path: Path) -> None:
    folder = job(tmp_path)
    commits(folder)[-1].write_bytes(b"")
    before = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(CorruptChangelogError, match="is empty"):
        truncate(folder, Retention(0, 1, 0))
    assert sorted(tmp_path.rglob("*.parquet")) == before


@pytest.mark.parametrize("reader", READERS)
def test_case_45_a_part_that_left_the_list_is_missed_by_every_reader(tmp_path: Path, reader: str) -> None:
    """The row says how many there are: sums came out short here, without a word."""
    folder = job(tmp_path)
    path = commits(folder)[-1]

    def without(actions: list[Any]) -> list[Any]:
        gone = next(a for a in actions if a.get("add", {}).get("path", "").startswith("part-5-"))
        return [action for action in actions if action is not gone]

    rewritten(path, without)
    with pytest.raises(CorruptChangelogError, match=r"attempt 1 has 5 of 6 parts") as raised:
        readers(str(tmp_path), 5, GROUPS)[reader]()
    assert raised.value.path == folder.changelog.root
    assert faults(str(tmp_path))
    assert Ledger(folder.open_changelog()).newest_restorable().id == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("reader", READERS)
def test_case_45_a_newest_checkpoint_that_left_the_list_is_missed(tmp_path: Path, reader: str) -> None:
    folder = job(tmp_path)
    path = commits(folder)[-1]
    path.write_bytes(unchecked(path).replace(b'"add":{"path":"checkpoint', b'"aed":{"path":"checkpoint'))
    with pytest.raises(CorruptChangelogError, match="'aed' is not an action") as raised:
        readers(str(tmp_path), 4, GROUPS)[reader]()
    assert raised.value.path == str(path)
    assert str(path) in faults(str(tmp_path))


@pytest.mark.parametrize("reader", READERS)
def test_case_45_parts_newer_than_the_newest_row(tmp_path: Path, reader: str) -> None:
    """The commit that lost the row need not be the newest one."""
    folder = job(tmp_path)
    path = commits(folder)[-1]

    def without(actions: list[Any]) -> list[Any]:
        info = actions[0]["commitInfo"]
        info["userMetadata"] = "{}"
        return [a for a in actions if not a.get("add", {}).get("path", "").startswith("checkpoint-")]

    rewritten(path, without)
    with pytest.raises(CorruptChangelogError, match="whose row is not in the table's list") as raised:
        readers(str(tmp_path), 4, GROUPS)[reader]()
    assert "part-5-1-" in raised.value.path
    assert raised.value.path in faults(str(tmp_path))


def test_case_46_a_flipped_bit_in_a_statistic_hides_no_part(tmp_path: Path) -> None:
    """One bit in minValues.operator made a restart skip that part."""
    folder = job(tmp_path)
    truth = {name: refusal(reader) or reader() for name, reader in readers(str(tmp_path), 5, GROUPS).items()}
    path = commits(folder)[-1]
    data = unchecked(path)
    flipped = bytearray(data)
    place = data.index(b'\\"operator\\":\\"') + len(b'\\"operator\\":\\"')
    flipped[place] ^= 4
    path.write_bytes(bytes(flipped))
    for name, reader in readers(str(tmp_path), 5, GROUPS).items():
        error = refusal(reader)
        if error is None:
            assert reader() == truth[name], name
        else:
            assert "part-5-1-" in str(error), name
    assert any("part-5-1-" in file for file in faults(str(tmp_path)))


def test_case_46_times_are_those_of_the_rows(tmp_path: Path) -> None:
    """One bit in a modification time made as-of restore another checkpoint; so did clocks that jump back."""
    folder = job(tmp_path, snapshot=None)
    lineage = Ledger(folder.open_changelog()).lineage
    times = {number: lineage.checkpoint(number).time_ms for number in range(1, 6)}
    path = commits(folder)[-1]

    def later(actions: list[Any]) -> list[Any]:
        for action in actions:
            if action.get("add", {}).get("path", "").startswith("checkpoint-"):
                action["add"]["modificationTime"] ^= 1 << 40
        return actions

    rewritten(path, later)
    lineage = Ledger(folder.open_changelog()).lineage
    for number, time_ms in times.items():
        found = lineage.at_or_before(time_ms)
        assert found is not None
        assert found.id == max(n for n, t in times.items() if t <= time_ms), number
        assert selected(str(tmp_path), number)[-1] == (1, [times[n] for n in range(1, number + 1)])
    assert any("checkpoint-5-1-" in file for file in faults(str(tmp_path)))


def test_case_46_a_snapshot_is_read_whole_whatever_the_list_says(tmp_path: Path) -> None:
    folder = job(tmp_path, snapshot=5)
    truth = restored(str(tmp_path), "latest", GROUPS), folded(str(tmp_path), None)
    path = commits(folder, "snapshots")[-1]
    data = unchecked(path)
    for statistic in (b"minValues", b"maxValues"):
        for name in (b"key_group", b"operator"):
            start = data.index(name, data.index(statistic)) + len(name) + 3
            for offset in range(3):
                flipped = bytearray(data)
                flipped[start + offset] ^= 2
                path.write_bytes(bytes(flipped))
                for number, reader in enumerate(
                    (lambda: restored(str(tmp_path), "latest", GROUPS), lambda: folded(str(tmp_path), None))
                ):
                    if refusal(reader) is None:
                        assert reader() == truth[number]
    path.write_bytes(data)
