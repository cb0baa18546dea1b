"""Verification: whole folders are whole, and every kind of damage is found, by file and fault, without unpickling."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from support.functions import Count, Keep, rounds
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.materialized import damage
from support.script import Script

from api.common.typeinfo import Types
from changelog_engine.changelog.log_files import PartName, crc32, parse_part, part_name
from changelog_engine.changelog.model import Checkpoint, Segment
from changelog_engine.changelog.one_row_files import read_row, row_file
from changelog_engine.changelog.part_stats import delta_stats, footer_of
from changelog_engine.cli import main
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.snapshot_store import SnapshotStore
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage
from changelog_engine.verification import verify as verification
from changelog_engine.verification.verify import Verification, verify
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

ELEMENTS = [(key, number) for key, number in rounds(6, 60)]


class Timed(Keep):
    """Keeps elements and has timers."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1] + 10)
        return super().process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp % 7 == 0:
            self.kept.clear()
        return ()


def job_graph() -> Any:
    build = GraphBuilder(parallelism=2)
    stream = build.timestamps(build.source(ELEMENTS, uid="source"), lambda element: element[1])
    keyed = build.key_by(stream, lambda element: element[0], Types.LONG())
    first = build.process(keyed, Timed(), "keep", uid="keep")
    again = build.key_by(first, lambda element: str(element[1] % 4), Types.STRING())
    build.collect(build.process(again, Count(), "count", uid="count"))
    return build.graph()


class Materialized(TestJob):
    """Makes snapshots of checkpoints 3 and 5."""

    def on_commit(self, checkpoint: Checkpoint) -> None:
        if checkpoint.id in (4, 6):
            materialize(find_job_folder(self.settings.base_path, "job"), checkpoint.id - 1)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of two branches: checkpoints 1 to 7 with snapshots of 3 and 5, and a run from 2 on."""
    base = tmp_path_factory.mktemp("base")
    Materialized(base, Script(sizes=(10,))).run(job_graph())
    TestJob(base, Script(sizes=(30,))).run(job_graph(), restore="2")
    return base / "job"


@pytest.fixture
def job(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "job")


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["verify", *map(str, arguments)])


def verified(path: Path) -> Verification:
    return verify(JobFolder("job", "job", open_storage(str(path))))


def one_fault(path: Path) -> tuple[str, str]:
    """The only fault: the file's name and what is wrong with it."""
    found = verified(path)
    assert len(found.faults) == 1, found.faults
    result = cli(path)
    assert result.exit_code == 1
    [fault] = found.faults
    [told] = json.loads(cli(path, "--json").output)["faults"]
    assert told == {"file": fault.file, "what": fault.what}
    assert f"WRONG {fault.file}: {fault.what}\n1 fault\n" in result.output
    return Path(fault.file).name, fault.what


def test_a_whole_job(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pickle.loads", lambda data: pytest.fail("unpickled"))
    found = verified(original)
    assert found.faults == []
    newest = found.checkpoints
    assert found.restorable == list(range(1, newest + 1))
    assert (found.attempts, found.snapshots, found.compared, found.lost) == (2, 2, 2, [])
    result = cli(original)
    assert result.exit_code == 0
    assert result.output.endswith(f"can be restored: 1 to {newest}\nnothing is wrong\n")
    told = json.loads(cli(original, "--json").output)
    assert (told["restorable"], told["faults"]) == (found.restorable, [])
    assert cli(original, "--json", "--repair").exit_code == 2
    assert f"{newest} checkpoints, 2 attempts, 2 snapshots, 2 of them compared with the log" in result.output


def test_nothing_is_changed(original: Path) -> None:
    def look() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in original.rglob("*")}

    before = look()
    cli(original)
    assert look() == before


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
def test_whole_jobs_of_other_kinds(tmp_path: Path, changelog: bool) -> None:
    TestJob(tmp_path, Script(sizes=(10,)), changelog=changelog).run(job_graph())
    found = verified(tmp_path / "job")
    assert found.faults == []
    assert found.restorable == list(range(1, found.checkpoints + 1)) if changelog else [found.checkpoints]
    assert len(found.restorable) + len(found.lost) == found.checkpoints


def test_a_savepoint(original: Path, tmp_path: Path) -> None:
    folder = find_job_folder(str(original.parent), "job")
    savepoint = create_savepoint(folder, Lineage(folder.open_changelog()).checkpoint(4), str(tmp_path))
    result = cli(savepoint.path)
    assert result.exit_code == 0, result.output
    assert "can be restored: 4\nnothing is wrong" in result.output
    damage(next(Path(savepoint.path, "snapshots").glob("part-*")))
    assert cli(savepoint.path).exit_code == 1
    shutil.rmtree(Path(savepoint.path, "changelog"))
    result = cli(savepoint.path)
    assert result.exit_code == 1
    assert "was never finished" in result.output


def of_checkpoint(job: Path, table: str, checkpoint: int) -> Path:
    return sorted((job / table).glob(f"part-{checkpoint}-*"))[0]


HARMS = pytest.mark.parametrize(
    ("harm", "what"),
    [
        (damage, "was changed"),
        (Path.unlink, "is missing"),
        (lambda file: file.write_bytes(b""), "was changed"),
    ],
    ids=["bit", "gone", "empty"],
)


@HARMS
def test_a_damaged_part(job: Path, harm: Callable[[Path], None], what: str) -> None:
    """Behind a snapshot, so that later checkpoints can be restored all the same."""
    part = of_checkpoint(job, "changelog", 4)
    harm(part)
    name, told = one_fault(job)
    assert name == part.name
    assert told.startswith(what)
    found = verified(job)
    assert found.lost == [4]
    assert found.compared == 1, "the snapshot of 5 can't be compared"


def test_a_damaged_newest_part(job: Path) -> None:
    newest = verified(job).checkpoints
    damage(of_checkpoint(job, "changelog", newest))
    first, second = verified(job).faults
    assert Path(first.file).name.startswith(f"part-{newest}-")
    assert f"the newest checkpoint, {newest}, can't be restored" in second.what


@HARMS
def test_a_damaged_snapshot(job: Path, harm: Callable[[Path], None], what: str) -> None:
    """The log is whole: everything can be restored."""
    part = of_checkpoint(job, "snapshots", 5)
    harm(part)
    name, told = one_fault(job)
    assert name == part.name
    assert told.startswith(what)
    assert verified(job).lost == []


@HARMS
@pytest.mark.parametrize(
    "which", ["changelog/checkpoint-4-", "changelog/attempt-1-", "snapshots/snapshot-3-"]
)
def test_a_damaged_row(job: Path, which: str, harm: Callable[[Path], None], what: str) -> None:
    [row] = job.glob(f"{which}*")
    harm(row)
    faults = {Path(fault.file).name: fault.what for fault in verified(job).faults}
    assert faults[row.name].startswith(what)


def rewrite(job: Path, table: str, old: Path, data: bytes | pa.Buffer, name: str) -> None:
    """Put a file in the place of another, with names and statistics that fit: what no checksum finds."""
    (job / table / name).write_bytes(data)
    log = DeltaLog(open_storage(str(job / table)))
    data = pa.py_buffer(data)
    log.commit([AddFile(name, data.size, 0, delta_stats(footer_of(data)))], [old.name])


def forged(job: Path, table: str, checkpoint: int, change: Callable[[pa.Table], pa.Table]) -> str:
    """Rewrite a part of at least two rows."""
    old = next(
        path for path in sorted((job / table).glob(f"part-{checkpoint}-*")) if pq.read_metadata(path).num_rows > 1
    )  # fmt: skip
    file = pq.ParquetFile(old)
    rows = change(file.read())
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(
            {k: v for k, v in file.metadata.metadata.items() if k.startswith(b"changelog")}
        )
    name = parse_part(old.name)
    assert isinstance(name, PartName)
    renamed = part_name(name._replace(crc=crc32(sink.getvalue())))
    rewrite(job, table, old, sink.getvalue(), renamed)
    return renamed


def test_numbers_that_do_not_follow_on(job: Path) -> None:
    def skip(rows: pa.Table) -> pa.Table:
        position = rows.schema.get_field_index("sequence")
        numbers = rows["sequence"].to_pylist()
        return rows.set_column(position, rows.schema.field(position), pa.array([*numbers[:-1], 10**6]))

    name = forged(job, "changelog", 4, skip)
    file, what = one_fault(job)
    assert file == name
    assert "has sequence number 1000000 where" in what


def test_rows_that_are_gone(job: Path) -> None:
    """A part with fewer rows, all of them in order: the checkpoint knows how many there were."""
    forged(job, "changelog", 4, lambda rows: rows.slice(0, rows.num_rows - 1))
    told = [fault.what for fault in verified(job).faults]
    assert any("checkpoint 4 has" in what and "the log has" in what for what in told)


def test_a_snapshot_that_is_not_the_fold(job: Path) -> None:
    def another(rows: pa.Table) -> pa.Table:
        position = rows.schema.get_field_index("value")
        values = rows["value"].to_pylist()
        return rows.set_column(position, rows.schema.field(position), pa.array([*values[:-1], "12345"]))

    old = of_checkpoint(job, "snapshots", 3)
    marker = next((job / "snapshots").glob("snapshot-3-*"))
    name = forged(job, "snapshots", 3, another)
    replaced = {parse_part(name)[:5]: name}  # type: ignore[index]
    document = json.loads(read_row(open_storage(str(job / "snapshots")), marker.name))
    for piece in document["files"]:
        piece[0] = replaced.get((parse_part(piece[0]) or ())[:5], piece[0])
    renamed, data = row_file("snapshot", 3, 1, json.dumps(document), 0)
    rewrite(job, "snapshots", marker, data, renamed)
    assert old.name != name
    faults = verified(job).faults
    assert [Path(fault.file).name for fault in faults if "is not the fold" in fault.what][:1] == [renamed]
    assert "differs for 1 keys, the first is " in faults[0].what


def test_a_snapshot_with_a_part_too_few(job: Path) -> None:
    part = of_checkpoint(job, "snapshots", 3)
    DeltaLog(open_storage(str(job / "snapshots"))).commit([], [part.name])
    found = verified(job)
    assert any(
        "snapshot of checkpoint 3 lacks" in fault.what and part.name in fault.what for fault in found.faults
    )


def test_a_lineage_that_does_not_fit(job: Path) -> None:
    [old] = (job / "changelog").glob("checkpoint-4-*")
    row = Checkpoint.from_json(read_row(open_storage(str(job / "changelog")), old.name))
    wrong = Checkpoint(**{**row.__dict__, "lineage": (Segment(1, 2, 4),)})
    name, data = row_file("checkpoint", 4, 1, wrong.to_json(), row.time_ms)
    rewrite(job, "changelog", old, data, name)
    faults = {Path(fault.file).name: fault.what for fault in verified(job).faults}
    assert "has the lineage [[1, 2, 4]], which does not follow on that of its parent 3" in faults[name]


def test_folders_that_are_no_job(tmp_path: Path) -> None:
    result = cli(tmp_path)
    assert result.exit_code == 1
    assert "there is no changelog" in result.output


def test_a_snapshot_that_is_retired_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job goes on and removes what was listed; that is no fault."""
    TestJob(tmp_path, Script(sizes=(10,)), changelog=False, retained_checkpoints=2).run(job_graph())
    folder = find_job_folder(str(tmp_path), "job")
    newest = Lineage(folder.open_changelog()).newest_checkpoint_id
    assert verify(folder).restorable == [newest - 1, newest]
    lineages = verification._Verifier._lineages

    def retiring(self: Any) -> None:
        SnapshotStore(folder.open_snapshots()).retire({newest})
        lineages(self)

    monkeypatch.setattr(verification._Verifier, "_lineages", retiring)
    found = verify(folder)
    assert found.faults == []
    assert found.restorable == [newest]


def test_after_materialization_and_truncation(tmp_path: Path) -> None:
    """What was truncated is no fault."""
    TestJob(tmp_path, Script(sizes=(10,))).run(job_graph())
    folder = find_job_folder(str(tmp_path), "job")
    materialize(folder, 4)
    truncate(folder, Retention(history_ms=0, grace_ms=0))
    found = verified(tmp_path / "job")
    assert found.faults == []
    assert found.restorable[-1] == Lineage(folder.open_changelog()).newest_checkpoint_id
    assert 1 not in found.restorable
