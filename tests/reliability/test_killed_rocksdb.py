"""Reliability case 22 with entries that wait in RocksDB's cache, and what becomes of a job whose local files are damaged."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chance import chosen_seed
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script

from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.clock import Deadline

TESTS = Path(__file__).parents[1]
KEYS, COUNT = 40, 800


@pytest.mark.slow
def test_case_22_drivers_killed_while_entries_wait_in_the_cache(tmp_path: Path) -> None:
    """With a time to live, timers, another parallelism each time, and a fork: all as undisturbed on the heap."""
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    program = [sys.executable, "-m", "support.killed_rocksdb", str(tmp_path), "6", str(chosen_seed())]
    done = subprocess.run(
        program, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


class Large(KeyedProcessFunction):
    """Gives what it kept of a key, and keeps something large; once, it does something to the files."""

    def __init__(self, harm: Callable[[], None]) -> None:
        self.harm = harm

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[1] == COUNT // 2:
            self.harm()
        kept = self.kept.value()
        yield value[0], kept
        self.kept.update(large(*value))


def large(key: int, number: int) -> str:
    """What is kept of a key with an element, of 3,000 letters that no compression makes fewer."""
    return f"{number}-{key} " + random.Random(number).randbytes(1500).hex()


def _overwritten(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes(len(data)))


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(0, len(data), 512):
        data[place] ^= 1
    path.write_bytes(data)


def _hold(what: bytes, files: list[Path]) -> bool:
    for path in files:
        with contextlib.suppress(FileNotFoundError):
            if what in path.read_bytes():
                return True
    return False


def _read_open() -> set[str]:
    """The files that this process has open to read them. RocksDB opens a table only when it has written and closed it."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if each.lstat().st_mode & 0o700 == 0o500:
                found.add(os.readlink(each))
    return found


HARM: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "overwritten": _overwritten,
    "flipped": _flipped,
}


@pytest.mark.parametrize("kind", ["sst", "blob"])
@pytest.mark.parametrize("harm", HARM)
def test_case_22_damaged_files_of_the_local_database_are_noticed(
    tmp_path: Path, harm: str, kind: str
) -> None:
    """What they held is restored from the changelog, or was not needed: no value is another one, and none is gone."""
    done, local, hurt = tmp_path / "done", tmp_path / "local", HARM[harm]

    def damage() -> None:  # in a copy of the function, which the job makes
        if not done.exists():
            # RocksDB writes behind the job's back. All that is older than the last epoch's is replaced, and not read again.
            newest, deadline = f"{COUNT // 2 - KEYS}-".encode(), Deadline(30)
            while not _hold(newest, files := list(local.rglob(f"*.{kind}"))) or not (
                kind == "blob"
                or _read_open().issuperset(map(str, files))  # blobs' are opened when they are read
            ):
                assert not deadline.passed, "RocksDB does not write"
            for path in files:
                with contextlib.suppress(FileNotFoundError):  # it was merged into another one
                    hurt(path)
            done.write_text(str(len(files)))

    options = {
        "state.backend.rocksdb.localdir": str(tmp_path / "local"),
        "state.backend.rocksdb.writebuffer.size": "64kb",
        "state.backend.rocksdb.block.cache-size": "8kb",
        "changelog.rocksdb.cache-size": "0",
        "changelog.rocksdb.min-blob-size": "0" if kind == "sst" else "1kb",
    }
    elements = [(number * 7 % KEYS, number) for number in range(COUNT)]
    job = TestJob(tmp_path / "log", Script((40,)), state_backend="rocksdb", state_options=options)
    job.run(keyed_job(elements, Large(damage)))
    last: dict[int, str] = {}
    expected = []
    for key, number in elements:
        expected.append((key, last.get(key)))
        last[key] = large(key, number)
    assert int(done.read_text()) > 0, "there were no files to damage"
    assert job.output == expected
    attempts = {entry.attempt for entry in job.commits}
    if harm != "removed":
        assert len(attempts) == 2, "what was damaged was read"
    elif kind == "sst":
        assert len(attempts) == 1, "open files stay"
