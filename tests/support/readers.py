"""Everybody who reads a job's log, and what each makes of it: a state, a choice of files, or an error that names a file."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from changelog_engine.changelog.bulk_fold import live_rows
from changelog_engine.changelog.log_files import parse_part
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.errors import ChangelogEngineError, CorruptChangelogError
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.history.tables import Tables
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.reading import read_parts
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.verification.verify import verify
from materializer.fold import FoldedState, state_at
from materializer.materialize import materialize

JOB = "job"


def pictured_state(found: FoldedState) -> Any:
    """A folded state as plain values."""
    states = {name: {key: entries[key] for key in entries} for name, entries in found.states.items()}
    return states, {name: sorted(timers, key=repr) for name, timers in found.timers.items()}


def restored(base: str, restore: str, groups: int, parallelism: int = 2) -> Any:
    """What the subtasks of a run take: the rows of each state, key by key."""
    folder = find_job_folder(base, JOB)
    ledger = Ledger(folder.open_changelog())
    checkpoint = decide_restore(ledger.lineage, restore).checkpoint
    if checkpoint is None:
        return None
    point = ledger.restore_point(checkpoint)
    found: dict[Any, Any] = {}
    for subtask in range(parallelism):
        operators = frozenset(o.uid for o in checkpoint.operators if o.keyed)
        tables = list(read_parts(point, key_group_range(subtask, groups, parallelism), operators))
        for name, table in live_rows(tables).items():
            columns = (table[c].to_pylist() for c in ("key", "namespace", "map_key", "value", "payload"))
            found[name, subtask] = sorted(zip(*columns, strict=True), key=repr)
    return checkpoint.id, {name: rows for name, rows in found.items() if rows}


def folded(base: str, checkpoint: int | None) -> Any:
    """``state_at``."""
    found = state_at(f"{base}/{JOB}/changelog", checkpoint, allow_pickle=True)
    return found.checkpoint.id, pictured_state(found)


def selected(base: str, at: Any) -> Any:
    """What the history would read: the state that its files make, all mutations, and when its checkpoints were."""
    tables = Tables(f"{base}/{JOB}")
    row = tables.checkpoint(at)
    state, history = tables.state(row, None), tables.history(row, None)
    ledger = tables.ledger
    first = [read_part(ledger.snapshots.storage, _file(path)) for path in state.base]
    log = [read_part(ledger.storage, _file(path)) for path in state.log]
    rows = (
        pa.concat_tables(log).sort_by([("checkpoint_id", "ascending"), ("sequence", "ascending")])
        if log
        else None
    )
    if rows is not None and state.lineage:
        pairs = zip(rows["attempt"].to_pylist(), rows["checkpoint_id"].to_pylist(), strict=True)
        after = state.snapshot or 0
        rows = rows.filter(pa.array([c > after and on_lineage(state.lineage, a, c) for a, c in pairs]))
    live = live_rows([*first, *([] if rows is None else [rows])])
    columns = ("key", "namespace", "map_key", "value", "payload")
    found = {
        name: sorted(zip(*(table[c].to_pylist() for c in columns), strict=True), key=repr)
        for name, table in live.items()
        if table.num_rows
    }
    return row.id, found, history.snapshot, set(history.base), set(history.log), tables.times(row)


def _file(path: str) -> PartFile:
    return PartFile(path, parse_part(path), 0)


def saved(base: str, checkpoint: int) -> Any:
    """The state in a savepoint."""
    folder = find_job_folder(base, JOB)
    with tempfile.TemporaryDirectory() as directory:
        row = Ledger(folder.open_changelog()).lineage.checkpoint(checkpoint)
        made = create_savepoint(folder, row, directory)
        return pictured_state(state_at(f"{made.path}/changelog", allow_pickle=True))


def forked(base: str, checkpoint: int) -> Any:
    """The state in a fork."""
    folder = find_job_folder(base, JOB)
    with tempfile.TemporaryDirectory() as directory:
        row = Ledger(folder.open_changelog()).lineage.checkpoint(checkpoint)
        fork_job(folder, row, f"{directory}/fork")
        return pictured_state(state_at(f"{directory}/fork/changelog", checkpoint, allow_pickle=True))


def materialized(base: str, checkpoint: int) -> Any:
    """The state after a snapshot was made of it, in a copy of the job."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copytree(f"{base}/{JOB}", f"{directory}/{JOB}")
        try:
            materialize(find_job_folder(directory, JOB), checkpoint)
        except CorruptChangelogError as error:
            error.path = error.path.replace(directory, base)
            raise
        return pictured_state(state_at(f"{directory}/{JOB}/changelog", checkpoint, allow_pickle=True))


def refusal(reader: Callable[[], Any]) -> ChangelogEngineError | None:
    """The error with which a reader refuses a log, or None."""
    try:
        reader()
    except ChangelogEngineError as error:
        return error
    return None


def readers(base: str, checkpoint: int, groups: int) -> dict[str, Callable[[], Any]]:
    """Each reader of a checkpoint, by name; asked without an id where the newest is meant."""
    return {
        "restore": lambda: restored(base, str(checkpoint), groups),
        "state_at": lambda: folded(base, checkpoint),
        "history": lambda: selected(base, checkpoint),
        "savepoint": lambda: saved(base, checkpoint),
        "fork": lambda: forked(base, checkpoint),
        "materialize": lambda: materialized(base, checkpoint),
    }


def faults(base: str) -> list[str]:
    """The files that ``verify`` names; it refuses a table whose list of files cannot be read."""
    try:
        return [fault.file for fault in verify(find_job_folder(base, JOB)).faults]
    except CorruptChangelogError as error:
        return [error.path]


def commits(folder: JobFolder, table: str = "changelog") -> list[Path]:
    """The commit files of a table, oldest first."""
    return sorted(Path(folder.storage.root, table, "_delta_log").glob("*.json"))
