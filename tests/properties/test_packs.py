"""Packs: parts of several subtasks in one file are the parts that they were, for every reader; damage is told."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.chance import chosen_seed
from support.functions import Count, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.materialized import merging_few
from support.packed import packing, sealed_part
from support.readers import JOB, faults, folded, readers, restored
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.changelog.log_files import parse_pack, parse_part, part_name
from changelog_engine.changelog.packs import packed_up
from changelog_engine.changelog.parquet_footers import FooterError, decoded, encoded, footer_bytes
from changelog_engine.changelog.part_selection import part_files
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.inspection.key_history import key_history
from changelog_engine.ledger import bounds
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.ledger import Ledger
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

GROUPS = 16
ELEMENTS = rounds(9, 100)
KEY = str(ELEMENTS[0][0])
KEEP_ALL = Retention(history_ms=3_600_000, retained=100, grace_ms=3_600_000)


def test_a_pack_is_one_parquet_file_and_each_part_is_as_it_was(tmp_path: Path) -> None:
    source = random.Random(chosen_seed())
    for count in (2, 3, 9, 40):
        parts = [
            sealed_part(str(tmp_path), subtask, source.choice([0, 1, 5, 2000, 70_000]) if count < 9 else 3)
            for subtask in range(count)
        ]
        packs = packed_up(parts)
        assert sum(len(pack.parts) for pack in packs) in (count, count - 1)
        assert count < 9 or len(packs) <= -(-count // 6)
        for pack in packs:
            file = tmp_path / pack.path
            file.write_bytes(pack.data)
            assert len(pack.path) <= 240
            named = parse_pack(pack.path)
            assert named is not None
            for said, part in zip(named, pack.parts, strict=True):
                assert (said.name, said.rows) == (part.name, part.rows)
                assert pack.data.slice(said.offset, said.size).equals(part.data)
            own = [pq.read_table(pa.BufferReader(part.data)) for part in pack.parts]
            whole = pq.read_table(file)
            assert whole.equals(pa.concat_tables(own))
            rows = duckdb.sql(f"SELECT count(*), sum(sequence) FROM read_parquet('{file}')").fetchall()
            assert rows[0] == (whole.num_rows, sum(whole["sequence"].to_pylist()) if whole.num_rows else None)
            groups = sum(pq.read_metadata(pa.BufferReader(part.data)).num_row_groups for part in pack.parts)
            assert pq.read_metadata(file).num_row_groups == groups


def test_a_footer_that_is_damaged_is_refused_and_one_that_is_read_is_kept(tmp_path: Path) -> None:
    source = random.Random(chosen_seed())
    footer = footer_bytes(sealed_part(str(tmp_path), 0, 50).data.to_pybytes())
    assert encoded(decoded(footer)) == footer
    refused = 0
    for _ in range(3000):
        damaged = bytearray(footer[: source.choice([len(footer), source.randrange(len(footer))])])
        for _ in range(source.randrange(3)):
            if damaged:
                damaged[source.randrange(len(damaged))] = source.randrange(256)
        try:
            decoded(bytes(damaged))
        except FooterError:
            refused += 1
    assert refused > 500
    for data in (b"", b"PAR1", b"\xff\xff\xff\x7fPAR1" + bytes(8)):
        with pytest.raises(FooterError):
            footer_bytes(data)


def life(base: Path) -> JobFolder:
    """A job with a branch, two snapshots of the log and another parallelism; its driver is killed each time."""
    for run, restore in enumerate(["latest", "latest", "4", "latest"]):
        job = TestJob(base, Script(sizes=(4,), failures=(Failure(4, Fault.HANDED_OUT),)))
        graph = keyed_job(
            ELEMENTS,
            Count(),
            key_type=Types.LONG(),
            parallelism=4 if run == 3 else 3,
            max_parallelism=GROUPS,
        )
        with pytest.raises(DriverKilled):
            job.run_driver(graph, restore=restore)
        if run == 1:
            materialize(find_job_folder(str(base), JOB), 3)
    return find_job_folder(str(base), JOB)


def picture(base: Path, folder: JobFolder) -> dict[str, Any]:
    """What all readers say of some checkpoints of each branch, without names of files and times."""
    found: dict[str, Any] = {}
    for identity in Ledger(folder.open_changelog()).lineage.checkpoints.ids()[2::7]:
        for name, reader in readers(str(base), identity, GROUPS).items():
            answer = reader()
            found[f"{name} {identity}"] = answer[:2] if name == "history" else answer
        found[f"restored {identity}"] = restored(str(base), str(identity), GROUPS, 5)
    changes = key_history(str(base / JOB), KEY, operator="process").changes
    found["history"] = [(c.checkpoint, c.operation, c.before, c.after) for c in changes]
    return found


def listed(folder: JobFolder) -> list[str]:
    return [str(path) for path in folder.open_changelog().files()["path"].to_pylist()]


def test_all_readers_find_in_packs_what_they_find_in_parts(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    wanted = picture(plain, life(plain))
    with packing():
        folder = life(packed)
    assert picture(packed, folder) == wanted
    assert faults(str(packed)) == []
    packs = [path for path in listed(folder) if parse_pack(path)]
    assert len(packs) >= 10
    assert all(parse_pack(path) or parse_part(path) is None for path in listed(folder))
    for identity in (14, 16):
        assert materialize(folder, identity) is not None
    with merging_few(2):
        merged = truncate(folder, KEEP_ALL)
    assert merged.merged
    assert len([p for p in listed(folder) if parse_pack(p)]) < len(packs)
    assert picture(packed, folder) == wanted
    assert faults(str(packed)) == []
    truncate(folder, Retention(history_ms=0, retained=1, grace_ms=0))
    assert folded(str(packed), None) == folded(str(plain), None)
    on_disk = {entry.name for entry in folder.changelog.list()}
    assert {name for name in on_disk if parse_pack(name)} == {p for p in listed(folder) if parse_pack(p)}


def test_no_bit_of_a_pack_changes_a_result_in_silence(tmp_path: Path) -> None:
    with packing():
        folder = life(tmp_path)
    ids = Ledger(folder.open_changelog()).lineage.checkpoints.ids()
    base = str(tmp_path)
    questions = [
        lambda: restored(base, str(ids[2]), GROUPS),
        lambda: folded(base, None),
        lambda: key_history(str(tmp_path / JOB), KEY, operator="process").changes,
    ]
    truth = [question() for question in questions]
    source = random.Random(chosen_seed())
    packs = sorted(path for path in listed(folder) if parse_pack(path))
    caught = 0
    for done in range(24):
        bounds._SAID.clear()  # as in a process that has read no footer yet
        path = tmp_path / JOB / "changelog" / source.choice(packs)
        data = path.read_bytes()
        damaged = bytearray(data)
        place = source.randrange(len(data))
        damaged[place] ^= 1 << source.randrange(8)
        cut = done % 4 == 3
        path.write_bytes(data[:place] if cut else bytes(damaged))
        number = done % len(questions)
        try:
            assert questions[number]() == truth[number], (path.name, place)
        except ChangelogEngineError as error:
            caught += path.name in str(error)
        if done % 4 == 1:
            assert str(path) in faults(base), (path.name, place)
        path.write_bytes(data)
    assert caught, "no reader found a damage"
    assert [question() for question in questions] == truth


def test_a_pack_that_is_gone_is_named(tmp_path: Path) -> None:
    with packing():
        folder = life(tmp_path)
    files = part_files(folder.open_changelog().files())
    pack = next(file for file in files if file.within is not None and file.name and file.name.checkpoint == 2)
    assert pack.id == part_name(pack.name or files[0].name)  # type: ignore[arg-type]
    (tmp_path / JOB / "changelog" / pack.path).unlink()
    for reader in (lambda: restored(str(tmp_path), "2", GROUPS), lambda: folded(str(tmp_path), 2)):
        with pytest.raises(ChangelogEngineError, match="is missing") as raised:
            reader()
        assert pack.path in str(raised.value)
