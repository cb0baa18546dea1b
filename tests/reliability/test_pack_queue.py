"""Subtasks of a machine that write together: whoever ends or fails, no part is lost or waited for without end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.packed import sealed_part

from changelog_engine.changelog import pack_queue
from changelog_engine.changelog.log_files import parse_pack, part_name
from changelog_engine.changelog.model import Part
from changelog_engine.changelog.pack_queue import PackQueue
from changelog_engine.errors import CorruptChangelogError, StorageError
from changelog_engine.ledger.committer import verify_parts
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.locks import lock_file
from changelog_engine.storage.protocol import Storage

ROWS = 50


class Machine:
    """A machine of some subtasks, each with a queue of its own, as its process would have."""

    def __init__(self, tmp_path: Path, subtasks: int, storage: type[LocalDisk] = LocalDisk) -> None:
        self.table, self.root = tmp_path / "table", tmp_path / "machine"
        self.table.mkdir()
        self.root.mkdir()
        self.storage = storage(str(self.table))
        self.queues = [PackQueue(self.storage, str(self.root)) for _ in range(subtasks)]
        self.parts = [sealed_part(str(self.table), subtask, ROWS + subtask) for subtask in range(subtasks)]

    def announce(self, subtasks: range) -> None:
        for subtask in subtasks:
            self.queues[subtask].announce(3, 1, 1, subtask)
            self.queues[subtask]._began_ms -= 100_000  # the epoch took long: others are waited for a second

    def write(self, subtasks: range) -> list[Part]:
        with ThreadPoolExecutor(len(subtasks)) as pool:
            return list(pool.map(lambda subtask: self.queues[subtask].write(self.parts[subtask]), subtasks))

    @property
    def folder(self) -> Path:
        """Where parts wait."""
        return next(path for path in self.root.rglob("*") if len(path.name) == 16)

    def left(self) -> list[str]:
        """What lies about on the machine."""
        return sorted(path.name for path in self.root.rglob("*") if path.is_file())


def rows_in(storage: Storage, parts: list[Part]) -> int:
    """The rows of the parts' files, which the driver takes as they are reported."""
    return sum(file.stats["numRecords"] for file in verify_parts(storage, parts))


def test_those_that_said_so_are_waited_for_and_written_together(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 12)
    machine.announce(range(12))
    parts = machine.write(range(12))
    assert rows_in(machine.storage, parts) == sum(part.rows for part in machine.parts)
    assert len({part.path for part in parts}) <= 3
    assert [part.rows for part in parts] == [part.rows for part in machine.parts]
    assert len(os.listdir(machine.table)) == len({part.path for part in parts})
    for queue in machine.queues:
        queue.close()
    assert machine.left() == []


def test_who_has_nothing_to_write_or_ends_is_not_waited_for_without_end(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 4)
    machine.announce(range(4))
    machine.queues[2].leave()
    parts = machine.write(range(2))  # the last one ended, and said nothing
    assert rows_in(machine.storage, parts) == 2 * ROWS + 1
    assert len({part.path for part in parts}) == 1
    later = sealed_part(str(machine.table), 0, ROWS, attempt=2)
    machine.queues[0].announce(3, 2, 1, 0)
    assert machine.queues[0].write(later).path == part_name(later.name)
    assert machine.left() == ["2-1.lock"]  # and what was left of the attempt before is gone


def test_what_a_run_left_that_was_killed_is_not_of_a_run_in_a_new_folder(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    queue = PackQueue(machine.storage, str(machine.root))
    for run in ("a", "b"):  # ids begin anew, and what is written is the same
        for subtask in range(2):
            machine.queues[subtask].announce(3, 1, 1, subtask, run)
        place = machine.queues[1]._place(part_name(machine.parts[1].name))
        if run == "a":
            Path(place).write_bytes(machine.parts[1].data)
            assert machine.queues[0].write(machine.parts[0]).pack_size
            assert Path(f"{place}.told").exists()  # and it is killed before it reads that
        for path in machine.table.iterdir():
            path.unlink()
        queue.announce(3, 1, 1, 1, "b")
    assert rows_in(machine.storage, [queue.write(machine.parts[1])]) == ROWS + 1


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    folder = machine.folder
    shutil.rmtree(machine.root / folder.parent.name)
    assert machine.queues[0].write(machine.parts[0]).pack_size == 0
    machine.announce(range(2))
    assert len({part.path for part in machine.write(range(2))}) == 1
    shutil.rmtree(machine.root / folder.parent.name)
    folder.parent.mkdir(mode=0o777)
    folder.parent.chmod(0o777)  # by somebody else
    machine.announce(range(2))
    assert [part.pack_size for part in machine.write(range(2))] == [0, 0]
    assert machine.left() == []


def test_a_folder_that_is_removed_while_others_are_waited_for_fails_nobody(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.announce(range(2))
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(machine.queues[0].write, machine.parts[0])
        while not list(machine.folder.glob("*.lock")):
            time.sleep(0.001)
        shutil.rmtree(machine.folder)
        assert written.result().pack_size == 0


def test_of_a_writer_that_fails_or_is_killed_the_others_lose_nothing(tmp_path: Path) -> None:
    class Failing(LocalDisk):
        """The first file cannot be written."""

        failures = 1

        def write_durable(self, path: str, data: Any, background: bool = False) -> None:
            with lock:
                failing, Failing.failures = Failing.failures, 0
            if failing:
                raise StorageError("no answer")
            super().write_durable(path, data, background)

    lock = threading.Lock()
    machine = Machine(tmp_path, 4, Failing)
    machine.announce(range(4))

    def write(subtask: int) -> Part | None:
        try:
            return machine.queues[subtask].write(machine.parts[subtask])
        except StorageError:
            return None

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(write, range(4)))
    written = [part for part in found if part is not None]
    assert len(written) == 3
    assert rows_in(machine.storage, written) == sum(part.rows for part in written)


def test_where_nobody_can_be_told_each_writes_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, 3)
    machine.announce(range(3))
    room = 3  # on a disk that is full with the parts

    def opened(path: str, *more: Any, **options: Any) -> Any:
        nonlocal room
        if more[:1] == ("xb",):
            room -= 1
            if room < 0:
                raise OSError(errno.ENOSPC, "No space left on device", path)
        return open(path, *more, **options)

    monkeypatch.setattr(pack_queue, "open", opened, raising=False)
    parts = machine.write(range(3))
    assert rows_in(machine.storage, parts) == sum(part.rows for part in machine.parts)
    assert [part.pack_size for part in parts] == [0, 0, 0]
    assert machine.left() == ["1-1.lock"]


def test_who_writes_holds_so_many_bytes_of_others_and_the_next_one_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, 7)
    monkeypatch.setattr(pack_queue, "MOST_TOGETHER_BYTES", 3 * max(part.data.size for part in machine.parts))
    machine.announce(range(7))
    parts = machine.write(range(7))
    assert rows_in(machine.storage, parts) == sum(part.rows for part in machine.parts)
    assert Counter(part.path for part in parts).most_common(1)[0][1] == 4
    assert machine.left() == ["1-1.lock"]


def test_who_is_frozen_with_the_lock_does_not_hold_up_the_next_attempt(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.announce(range(2))
    frozen = lock_file(str(machine.folder / "1-1.lock"), mode=0o600)
    later = sealed_part(str(machine.table), 0, ROWS, attempt=2)
    machine.queues[0].announce(3, 2, 1, 0)
    assert machine.queues[0].write(later).path == part_name(later.name)
    frozen.release()


def test_what_lies_in_the_folder_and_is_not_what_it_says_is_left_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 3)
    own, other, third = machine.parts
    (machine.folder / part_name(other.name)).write_bytes(other.data.to_pybytes()[:-1] + b"?")
    (machine.folder / part_name(third.name)).write_bytes(third.data)
    (machine.folder / part_name(third.name._replace(checkpoint=4))).write_bytes(third.data)
    (machine.folder / "part-3-1-1-9-1-00000000.parquet").write_bytes(b"no Parquet")
    (machine.folder / "notes").write_text("of somebody else")
    stranger = machine.folder / f"{part_name(own.name)}.told"
    stranger.write_text(json.dumps(["pack-3-1-1-7.1.1.1.1_8.1.1.1.1-00000000.parquet", 99]))
    part = machine.queues[0].write(own)
    named = parse_pack(part.path)
    assert named is not None
    assert [each.name for each in named] == [own.name, third.name]
    assert (machine.folder / "notes").exists()


def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(tmp_path, 2)
    machine.folder.chmod(0o777)
    queues = [PackQueue(machine.storage, str(machine.root)) for _ in range(2)]
    assert f"{machine.folder} cannot be made, or others can write to it" in caplog.text
    for subtask, queue in enumerate(queues):
        queue.announce(3, 1, 1, subtask)
        assert queue.write(machine.parts[subtask]).pack_size == 0
    assert machine.left() == []


def test_a_pack_with_more_or_less_than_was_reported_is_not_committed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 3)
    machine.announce(range(3))
    parts = machine.write(range(3))
    assert len({part.path for part in parts}) == 1
    lies = (
        parts[:2],
        [*parts[:2], parts[1]],
        [*parts[:2], parts[2]._replace(subtask=5)],
        [*parts[:2], parts[2]._replace(rows=1)],
        [*parts[:2], parts[2]._replace(pack_size=7)],
    )
    for lie in lies:
        with pytest.raises(StorageError, match="is not committed"):
            verify_parts(machine.storage, lie)
    path = machine.table / parts[0].path
    assert pq.read_metadata(path).num_rows == sum(part.rows for part in parts)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptChangelogError, match="is not committed"):
        verify_parts(machine.storage, parts)
