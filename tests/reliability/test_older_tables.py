"""What an older commit wrote is read, restored and gone on with; docs/table-format.md says when a table is added here.

The tables lie in older/, with what the engine of that time said of them; support/older_job.py wrote them.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support import older_job as older

from changelog_engine.cli.program import main
from changelog_engine.inspection.points import open_ledger

HERE = Path(__file__).with_name("older")
TABLES = sorted(path.name for path in HERE.glob("*.tar.xz"))
HOUR_MS = 3_600_000
JOB = f"{older.BASE}/{older.JOB}"


class Run(NamedTuple):
    """What a run to the end of the input left."""

    lines: Counter[str]
    states: list[str]


def left(job: str = JOB) -> Run:
    """What lies in the working directory."""
    files = [path for path in Path(older.SINK).glob("*/*") if path.name.startswith("part-")]
    states = older.answers(job)
    return Run(
        Counter(line for path in files for line in path.read_text().splitlines()),
        states[max(states, key=int)],
    )


def ask(*arguments: str) -> str:
    """What the command line says."""
    said = CliRunner().invoke(main, arguments)
    assert said.exit_code == 0, said.output
    return said.output


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run from the beginning to the end by the engine as it is."""
    folder = tmp_path_factory.mktemp("today")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        older.run()
    return folder


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An older table in the working directory; what its engine said of it."""
    with tarfile.open(HERE / request.param) as kept:
        kept.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    told: dict[str, Any] = json.loads(Path(older.ANSWERS).read_text())
    return told


def test_states_of_each_checkpoint_are_what_the_older_engine_said(table: dict[str, Any]) -> None:
    assert len(table[JOB]) > 8
    for path, told in table.items():
        assert older.answers(path) == told
        assert ask("verify", path).endswith("nothing is wrong\n")


@pytest.mark.parametrize("begins", ["newest", "fork into RocksDB", "savepoint", "other branch", "first"])
def test_a_run_goes_on_from_it(
    table: dict[str, Any], begins: str, today: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, savepoint = table
    options = {
        "fork into RocksDB": {"changelog.job.name": "forked", "state.backend.type": "rocksdb"},
        "savepoint": {"execution.savepoint.path": savepoint},
        "other branch": {"changelog.restore": "attempt:3"},
        "first": {"changelog.restore": "1"},
    }.get(begins, {})
    if begins == "fork into RocksDB":
        job = f"{older.BASE}/forked"
        ask("fork", JOB, job)
    older.run(**options)
    gone_on = left(job)
    monkeypatch.chdir(today)
    at_once = left()
    assert set(gone_on.states) ^ set(at_once.states) == set()
    assert at_once.lines - gone_on.lines == Counter()
    again = gone_on.lines - at_once.lines  # files of the branch that the run left stay
    assert set(again) <= set(at_once.lines) if begins == "first" else not again


def test_time_to_live_that_ended_since_has_ended(table: dict[str, Any]) -> None:
    point = open_ledger(JOB).lineage.newest_point()
    assert point is not None
    ((read, _),) = point.sources["numbers"].values()
    older.run(now_ms=older.NOW_MS + 2 * HOUR_MS)
    expired = [int(line.partition(":")[0]) for line in left().lines if " None ['rule" in line]
    assert sorted(expired) == [*range(read, read + 4)]  # the first of each key


def test_what_is_written_is_what_was_written(table: dict[str, Any], today: Path) -> None:
    """Each mutation that the older engine wrote is written today, and each field of its rows about the log.

    Timers of windows are left out, which are logged by net changes between two writings.
    """
    then, now = Counter(_mutations(JOB)), Counter(_mutations(str(today / JOB)))
    assert len(then) > 300
    assert then - now == Counter()
    assert _fields(JOB) - _fields(str(today / JOB)) == set()


def _mutations(job: str) -> Iterable[str]:
    ledger = open_ledger(job)
    newest = ledger.lineage.newest_point()
    assert newest is not None
    for file in ledger.lineage.files["path"].to_pylist():
        if not file.startswith(("part-", "merged-")):
            continue
        for row in pq.read_table(f"{job}/changelog/{file}").to_pylist():
            on_line = any(
                a == row["attempt"] and f <= row["checkpoint_id"] <= n for a, f, n in newest.lineage
            )
            if on_line and (row["operator"] == "kinds" or not row["state"].startswith("__")):
                for name in ("checkpoint_id", "attempt", "sequence"):
                    del row[name]
                yield repr(row)


def _fields(job: str) -> set[str]:
    ledger = open_ledger(job)
    rows = (
        pq.read_table(f"{job}/changelog/{file}")
        for file in ledger.lineage.files["path"].to_pylist()
        if file.startswith(("checkpoint-", "attempt-", "checkpoints-", "attempts-"))
    )
    return {name for row in pa.concat_tables(rows)["value"].to_pylist() for name in _names(json.loads(row))}


def _names(document: Any, where: str = "") -> Iterable[str]:
    """Paths of fields; those of a uid, a split and the like are data."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield f"{where}.{name}"
            yield from _names(value, f"{where}.{name}")
    elif isinstance(document, list):
        for value in document:
            yield from _names(value, f"{where}[]")
