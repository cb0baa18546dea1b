"""Reliability case 46: one bit, anywhere in a job's folder, never changes a result in silence.

Each round flips one bit of one file, asks a reader that opens it, and puts the bit back. What it gives must be what it gave
before, or an error. ``FLIPPED_BITS`` says how many rounds.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import readers
from support.chance import chosen_seed
from support.odd_files import GROUPS, forget, life, of_savepoint
from support.readers import JOB, faults, folded, restored, selected

from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.ledger import reading
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage
from materializer import fold_task

FLIPS = int(os.environ.get("FLIPPED_BITS", "600"))


def asked(base: str, savepoint: str, ids: list[int], times: list[str]) -> list[Callable[[], Any]]:
    """What the readers are asked in a round."""
    return [
        lambda: restored(base, "auto", GROUPS),
        lambda: restored(base, times[0], GROUPS, 1),
        lambda: restored(base, str(ids[len(ids) // 2]), GROUPS),
        lambda: folded(base, None),
        lambda: folded(base, ids[0]),
        lambda: selected(base, None),
        lambda: of_savepoint(savepoint),
    ]


def bits(files: list[Path], source: random.Random) -> Iterator[tuple[Path, int]]:
    """A file and a bit of it: every kind as often as any other; commits, on which all depends, are five of them."""
    kinds: dict[str, list[Path]] = {}
    for path in files:
        commit = re.fullmatch(r"\d{20}\.json", path.name)
        kind = f"commit {int(path.stem) % 5}" if commit else f"{path.name.split('-')[0]}{path.suffix}"
        kinds.setdefault(f"{path.parent.name}/{kind}", []).append(path)
    while True:
        path = source.choice(kinds[source.choice(sorted(kinds))])
        yield path, source.randrange(max(1, path.stat().st_size * 8))


def opened(question: Callable[[], Any], files: list[Path]) -> set[Path]:
    """The files that a question reads: it cannot tell whether others changed.

    All of them on a file system that keeps no times of reading (mounted with noatime).
    """
    forget()
    for path in files:
        os.utime(path, ns=(0, path.stat().st_mtime_ns))  # with relatime, the next reading is kept again
    question()
    found = {path for path in files if path.stat().st_atime_ns}
    return found or set(files)


@pytest.mark.slow
def test_case_46_no_flipped_bit_changes_a_result_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint = life(tmp_path)
    base = str(tmp_path)
    lineage = Ledger(find_job_folder(base, JOB).open_changelog()).lineage
    ids = lineage.checkpoints.ids()
    newest = lineage.checkpoint(ids[-2])
    times = [f"as-of:{_iso(newest.time_ms)}"]
    questions = asked(base, savepoint, ids, times)
    truth = [question() for question in questions]
    assert faults(base) == []
    everything = sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size)
    read_by = [opened(question, everything) for question in questions]
    files = [path for path in everything if any(path in read for read in read_by)]
    seed = chosen_seed()
    source = random.Random(seed)
    caught, said = 0, 0
    _decoded_once(monkeypatch)
    for done, (path, bit) in enumerate(islice(bits(files, source), FLIPS)):
        data = path.read_bytes()
        status = path.stat()
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(flipped))
        forget()
        askable = [number for number, read in enumerate(read_by) if path in read]
        number = askable[done % len(askable)]
        where = f"seed {seed}, flip {done}: bit {bit} of {path.relative_to(tmp_path)}"
        try:
            found = questions[number]()
            assert found == truth[number], f"{where}: question {number}"
        except ChangelogEngineError:
            caught += 1
        if done % 50 == 0:
            try:
                said += bool(faults(base))
            except ChangelogEngineError:
                said += 1
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    forget()
    assert [question() for question in questions] == truth, f"seed {seed}"
    print(f"seed {seed}: {FLIPS} flips, {caught} caught, {said} said by verify")
    # Where it is not known what was read, most flips are where nobody looked.
    known = any(len(read) < len(everything) for read in read_by)
    assert caught > FLIPS // (2 if known else 20)


def _decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the same bytes be decoded once: most flips are in other files, and decoding takes most of the time.

    A file's bytes are known by its time: a flip changes it, and what is put back has its time again.
    """

    def files(log: DeltaLog) -> pa.Table:
        key = (log.version, *_times(f"{log.storage.root}/_delta_log"))
        if key not in lists:
            lists[key] = list_files(log), log.version
        table, log.version = lists[key]
        return table

    def properties(log: DeltaLog) -> dict[str, str]:
        key = (log.version, *_times(f"{log.storage.root}/_delta_log"))
        if key not in described:
            described[key] = read_properties(log)
        return described[key]

    def part(storage: Storage, file: PartFile, *columns: Any) -> pa.Table:
        key = (storage.root, file, _time(f"{storage.root}/{file.path}"), repr(columns))
        if key not in parts:
            parts[key] = read_part(storage, file, *columns)
        return parts[key]

    lists: dict[Any, tuple[pa.Table, int]] = {}
    described: dict[Any, dict[str, str]] = {}
    parts: dict[Any, pa.Table] = {}
    list_files, read_properties = DeltaLog.files, DeltaLog.properties
    monkeypatch.setattr(DeltaLog, "files", files)
    monkeypatch.setattr(DeltaLog, "properties", properties)
    for module in (reading, fold_task, readers):
        monkeypatch.setattr(module, "read_part", part)


def _times(folder: str) -> list[tuple[str, int]]:
    return sorted((entry.path, entry.stat().st_mtime_ns) for entry in os.scandir(folder))


def _time(path: str) -> int | None:
    return os.stat(path).st_mtime_ns if os.path.exists(path) else None


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
