"""Reliability 68: what others commit to a job's tables, by SQL or a library, leaves the rows as they were or is refused.

Invariants:
    * Other rows than the engine wrote are never folded, restored, shown or committed upon: the error names the commit, what
      it was, and how to undo it.
    * Undone in either way, the job goes on exactly.
    * What only puts rows into other files, or changes properties, disturbs nobody.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from support.functions import Count, rounds
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli import main
from changelog_engine.errors import ChangelogEngineError, CorruptChangelogError, JobExecutionError
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.storage.delta_checkpoints import shorten
from changelog_engine.storage.opening import open_storage
from materializer import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

ELEMENTS = [(key, number) for key, number in rounds(5, 100)]
AT = 4  # the checkpoint after which others come


def job_graph() -> Any:
    build = GraphBuilder(parallelism=1)
    keyed = build.key_by(build.source(ELEMENTS, uid="source"), lambda element: element[0], Types.LONG())
    build.collect(build.process(keyed, Count(), "count", uid="count"))
    return build.graph()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base path of a job of eight checkpoints that did not end, with a snapshot of the seventh."""
    base = tmp_path_factory.mktemp("stopped")
    job = TestJob(base, Script(sizes=(10,), failures=(Failure(8, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(job_graph())
    materialize(find_job_folder(str(base), "job"), 7)
    return base


def update(table: DeltaTable) -> None:
    table.update({"value": "'7'"}, predicate="operation = 'put'")


def delete(table: DeltaTable) -> None:
    table.delete("operation = 'put' and key = '3'")


def merge(table: DeltaTable) -> None:
    source = pa.table({"key": ["1"]})
    merging = table.merge(source, "t.key = s.key", source_alias="s", target_alias="t")
    merging.when_matched_update({"value": "'0'"}).execute()


def insert(table: DeltaTable) -> None:
    rows = table.to_pyarrow_table()
    write_deltalake(table, rows.slice(0, 1), mode="append")


def overwrite(table: DeltaTable) -> None:
    write_deltalake(table, table.to_pyarrow_table(), mode="overwrite")


def replace(table: DeltaTable) -> None:
    """As CREATE OR REPLACE TABLE: the properties are gone, too."""
    rows = table.to_pyarrow_table()
    DeltaTable.create(table.table_uri, table.schema(), mode="overwrite")
    write_deltalake(table.table_uri, rows, mode="append")


def restore(table: DeltaTable) -> None:
    table.restore(table.version() - 1)


def optimize_and_update(table: DeltaTable) -> None:
    table.optimize.compact()
    update(table)


def update_and_optimize(table: DeltaTable) -> None:
    update(table)
    table.optimize.compact()


def empty_what_was_optimized(table: DeltaTable) -> None:
    """After it no file is there that came since, and none is back that went."""
    table.optimize.compact()
    table.delete()


HARM: list[Callable[[DeltaTable], None]] = [
    update, delete, merge, insert, overwrite, replace, restore, optimize_and_update, update_and_optimize,
    empty_what_was_optimized,
]  # fmt: skip


def optimize(table: DeltaTable) -> None:
    table.optimize.compact()


def zorder(table: DeltaTable) -> None:
    table.optimize.z_order(["value", "key"])


def vacuum(table: DeltaTable) -> None:
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)


def set_properties(table: DeltaTable) -> None:
    table.alter.set_table_properties({"delta.checkpointInterval": "7"})


def add_column(table: DeltaTable) -> None:
    table.alter.add_columns([Field("remark", PrimitiveType("string"), nullable=True)])


def update_nothing(table: DeltaTable) -> None:
    table.update({"value": "'7'"}, predicate="operation = 'no such'")


def update_and_restore(table: DeltaTable) -> None:
    update(table)
    table.restore(table.version() - 1)


def optimize_update_and_restore(table: DeltaTable) -> None:
    table.optimize.compact()
    update(table)
    delete(table)
    table.restore(table.version() - 2)


HARMLESS: list[Callable[[DeltaTable], None]] = [
    optimize, zorder, vacuum, set_properties, add_column, update_nothing, update_and_restore, optimize_update_and_restore,
]  # fmt: skip
MOVED = (optimize, zorder, optimize_update_and_restore)  # snapshots are found by the names of their files
TABLES = ("changelog", "snapshots")
HARM_TO = [(table, harm) for table in TABLES for harm in HARM] + [
    ("snapshots", optimize),
    ("snapshots", zorder),
]
NO_HARM_TO = [(t, does) for t in TABLES for does in HARMLESS if t == "changelog" or does not in MOVED]


def by_name(value: Callable[..., object] | str) -> str:
    return value if isinstance(value, str) else value.__name__


def cli(*arguments: object) -> Any:
    return CliRunner().invoke(main, [*map(str, arguments)])


def elements_in(job: Path) -> int:
    return sum(state_at(str(job / "changelog")).states["count", "count"].values())


def go_on(base: Path) -> None:
    job = TestJob(base, Script(sizes=(10,)))
    job.run_driver(job_graph())
    assert job.commits[-1].finished
    assert elements_in(base / "job") == len(ELEMENTS)
    materialize(find_job_folder(str(base), "job"))
    truncate(find_job_folder(str(base), "job"), Retention(0, 0, 0))
    verified = cli("verify", base / "job")
    assert verified.exit_code == 0, verified.output


USES: dict[str, Callable[[Path], object]] = {
    "state_at": lambda job: state_at(str(job / "changelog")),
    "materialize": lambda job: materialize(find_job_folder(str(job.parent), job.name)),
    "truncate": lambda job: truncate(find_job_folder(str(job.parent), job.name), Retention(0, 0, 0)),
    "the job": lambda job: TestJob(job.parent, Script(sizes=(10,))).run_driver(job_graph()),
}
COMMANDS = {
    "changelog": ("status", "verify", "checkpoints", "timeline", "fork"),
    "snapshots": ("status", "verify", "fork"),
}


@pytest.mark.parametrize(("table", "harm"), HARM_TO, ids=by_name)
def test_case_68_other_rows_are_refused_until_they_are_undone(
    stopped: Path, tmp_path: Path, harm: Callable[[DeltaTable], None], table: str
) -> None:
    job = shutil.copytree(stopped / "job", tmp_path / "base" / "job")
    before = DeltaTable(job / table).version()
    harm(DeltaTable(job / table))
    for name, use in USES.items():
        with pytest.raises(
            (ChangelogEngineError, JobExecutionError), match="was committed by somebody else: "
        ) as told:
            use(job)
        assert f"/{table}/_delta_log/" in str(told.value), name
    for command in COMMANDS[table]:
        shown = cli(command, job, *([tmp_path / "fork"] if command == "fork" else []))
        assert (shown.exit_code, "committed by somebody else" in " ".join(shown.output.split())) == (
            1,
            True,
        ), shown.output
    same = int(str(told.value).partition("TO VERSION AS OF ")[2].partition(",")[0])
    assert same >= before
    repaired = shutil.copytree(job, tmp_path / "repaired" / "job")
    DeltaTable(job / table).restore(same)
    go_on(job.parent)
    assert cli("verify", repaired, "--repair", "--yes").exit_code == 0
    go_on(repaired.parent)


def test_case_68_a_repair_sets_aside_what_spark_wrote_beside_its_commit(
    stopped: Path, tmp_path: Path
) -> None:
    """Delta's checksum of a version that is gone stops delta-rs; Hadoop's of a commit stops Spark at the next one."""
    job = shutil.copytree(stopped / "job", tmp_path / "job")
    log = job / "changelog" / "_delta_log"
    update(DeltaTable(job / "changelog"))
    commit = max(log.glob("*.json"))
    shorten(open_storage(str(job / "changelog")), 1)
    beside = {
        f"{commit.stem}.crc",
        f".{commit.name}.crc",
        f".{commit.stem}.checkpoint.parquet.crc",
        "._last_checkpoint.crc",
    }
    for name in beside:
        (log / name).write_text("{}")
    assert cli("verify", job, "--repair", "--yes").exit_code == 0
    assert [path.name for path in log.iterdir() if commit.stem in path.name or "last" in path.name] == []
    go_on(tmp_path)


@pytest.mark.parametrize(("table", "harmless"), NO_HARM_TO, ids=by_name)
def test_case_68_the_same_rows_in_other_files_disturb_nobody(
    stopped: Path, tmp_path: Path, harmless: Callable[[DeltaTable], None], table: str
) -> None:
    job = shutil.copytree(stopped / "job", tmp_path / "base" / "job")
    states = [state_at(str(job / "changelog"), at) for at in (5, 8)]
    harmless(DeltaTable(job / table))
    assert [state_at(str(job / "changelog"), at) for at in (5, 8)] == states
    assert cli("verify", job).exit_code == 0
    go_on(job.parent)


def test_case_68_rows_of_one_subtask_in_a_file_of_another_writer(tmp_path: Path) -> None:
    """The others need not read it; its footer does not name its operators, so it was called damaged."""
    elements = [(1, number) for number in range(30)]

    def graph() -> Any:
        build = GraphBuilder(parallelism=2)
        keyed = build.key_by(build.source(elements, uid="source"), lambda element: element[0], Types.LONG())
        build.collect(build.process(keyed, Count(), "count", uid="count"))
        return build.graph()

    job = TestJob(tmp_path, Script(sizes=(10,), failures=(Failure(2, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph())
    optimize(DeltaTable(tmp_path / "job" / "changelog"))
    job.run(graph())
    assert len(job.output) == elements_in(tmp_path / "job") == 30


class Beside(TestJob):
    """Somebody else comes to a table after the fourth checkpoint."""

    def __init__(self, base: Path, does: Callable[[DeltaTable], None], table: str, **settings: Any) -> None:
        super().__init__(base, Script(sizes=(10,)), **settings)
        self.does = does
        self.table = base / "job" / table

    def on_commit(self, checkpoint: Checkpoint) -> None:
        if checkpoint.id == AT:
            self.does(DeltaTable(self.table))


@pytest.mark.parametrize(("table", "harm"), HARM_TO, ids=by_name)
def test_case_68_a_running_driver_commits_nothing_upon_other_rows(
    tmp_path: Path, harm: Callable[[DeltaTable], None], table: str
) -> None:
    job = Beside(tmp_path, harm, table, changelog=table == "changelog")
    with pytest.raises(
        JobExecutionError, match=r"was committed by somebody else: .* TO VERSION AS OF"
    ) as caught:
        job.run(job_graph())
    assert isinstance(caught.value.__cause__, CorruptChangelogError)
    assert [checkpoint.id for checkpoint in job.commits] == [1, 2, 3, 4]
    assert len(job.output) == 40
    same = int(str(caught.value).partition("TO VERSION AS OF ")[2].partition(",")[0])
    DeltaTable(tmp_path / "job" / table).restore(same)
    go_on(tmp_path)


@pytest.mark.parametrize(("table", "harmless"), NO_HARM_TO, ids=by_name)
def test_case_68_a_running_driver_goes_on_upon_the_same_rows(
    tmp_path: Path, harmless: Callable[[DeltaTable], None], table: str
) -> None:
    job = Beside(tmp_path, harmless, table, changelog=table == "changelog")
    job.run(job_graph())
    assert len(job.output) == len(ELEMENTS)
    verified = cli("verify", tmp_path / "job")
    assert verified.exit_code == 0, verified.output
    assert elements_in(tmp_path / "job") == len(ELEMENTS)
