"""Writing a savepoint out of a committed checkpoint, beside the running job.

Steps (a crash after any but the last leaves a folder that says it was never finished):
    1. The folder and its marker (``savepoints.new_savepoint``).
    2. The state: snapshot and log of the checkpoint's lineage folded, a range of key groups at a time.
    3. A commit that makes the snapshot complete.
    4. A commit of the attempt's and the checkpoint's row: the savepoint is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from changelog_engine.changelog.bulk_fold import live_rows
from changelog_engine.changelog.model import FORMAT_VERSION, Attempt, Checkpoint, Part, RestorePoint, Segment
from changelog_engine.changelog.part_writer import ROW_GROUP_ROWS, PartWriter
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.codec.arrow_columns import as_array
from changelog_engine.graph.nodes import StateId
from changelog_engine.ledger.committer import verify_parts
from changelog_engine.ledger.job_folder import FORMAT_PROPERTY, JOB_PROPERTY, JobFolder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.ownership import attempt_row, checkpoint_row
from changelog_engine.ledger.protection import protecting
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.reading import read_parts, shares
from changelog_engine.ledger.snapshot_store import SnapshotStore
from changelog_engine.savepoints.folder import Savepoint, give_up_savepoint, new_savepoint, open_savepoint
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage

_PART_BYTES = 64 * 1024 * 1024
_OWN = ("checkpoint_id", "attempt", "sequence", "operator", "state")


def create_savepoint(job: JobFolder, checkpoint: Checkpoint, directory: str) -> Savepoint:
    """Make a savepoint of a checkpoint of a job that may be running.

    Raises:
        RestoreError: the checkpoint's snapshot was retired.
        CorruptChangelogError: a file of the job is damaged.
        StorageError: the directory can't be written.
    """
    point = plan_restore(job, checkpoint)
    with protecting(job, checkpoint.id, point.snapshot, "savepoint"):
        attempt = job.open_lineage().attempt(checkpoint.attempt)
        return write_savepoint(job, checkpoint, new_savepoint(directory, attempt.owner[:6], job.name))


def write_savepoint(job: JobFolder, checkpoint: Checkpoint, target: JobFolder) -> Savepoint:
    """Fill the folder of a new savepoint; when that fails, the folder is removed.

    Args:
        job: the job's folder; the checkpoint is protected.
        target: as ``new_savepoint`` made it.
    """
    try:
        _write(job, checkpoint, target)
        return open_savepoint(target.storage.root)
    except BaseException as failure:
        give_up_savepoint(target.storage, failure)
        raise


def _write(job: JobFolder, checkpoint: Checkpoint, target: JobFolder) -> None:
    attempt = job.open_lineage().attempt(checkpoint.attempt)
    changelog, snapshots = begin_tables(target)
    parts = list(_state(plan_restore(job, checkpoint), checkpoint, target))
    complete_savepoint(target, changelog, snapshots, checkpoint, attempt, parts)


def begin_tables(target: JobFolder) -> tuple[DeltaLog, DeltaLog]:
    """The two empty tables of a new savepoint: changelog and snapshots."""
    properties = {FORMAT_PROPERTY: str(FORMAT_VERSION), JOB_PROPERTY: target.name}
    changelog = DeltaLog.create(target.changelog, SCHEMA, properties)
    return changelog, DeltaLog.create(target.snapshots, SCHEMA, properties)


def complete_savepoint(
    target: JobFolder,
    changelog: DeltaLog,
    snapshots: DeltaLog,
    checkpoint: Checkpoint,
    attempt: Attempt,
    parts: list[Part],
) -> None:
    """Steps 3 and 4, for a state whose parts are durable."""
    own = replace(
        checkpoint.of_parts(parts),
        parent=None,
        lineage=(Segment(checkpoint.attempt, checkpoint.id, checkpoint.id),),
        snapshot=checkpoint.id,
    )
    SnapshotStore(snapshots).commit(own, parts, verify_parts(target.snapshots, parts))
    storage, whose = target.changelog, replace(attempt, parent=None)
    changelog.commit([attempt_row(storage, whose), checkpoint_row(storage, own)])


def _state(point: RestorePoint, checkpoint: Checkpoint, target: JobFolder) -> Iterator[Part]:
    """The folded state as parts: a stage for all operators of one parallelism, a subtask for each range of key groups."""
    for stage, subtask, groups, uids in shares(checkpoint):
        writer = SnapshotWriter(target.snapshots, checkpoint.id, checkpoint.attempt, stage, subtask, groups)
        for (uid, state), table in _live(point, groups, uids).items():
            writer.write(table, uid, state)
        yield from writer.finish()


def _live(point: RestorePoint, groups: range, uids: frozenset[str]) -> dict[StateId, pa.Table]:
    def read(_: str) -> list[pa.Table]:
        return list(read_parts(point, groups, uids))

    return live_rows(read_again(read)(point.table))


class SnapshotWriter:
    """Writes rows of state as parts that belong to one checkpoint: of a snapshot, or of corrections.

    Args:
        storage: the folder of the table.
        stage, subtask: go into their names; together unique.
    """

    def __init__(
        self, storage: Storage, checkpoint: int, attempt: int, stage: int, subtask: int, key_groups: range
    ) -> None:
        self._storage = storage
        self._whose = (checkpoint, attempt)
        self._place = (stage, subtask, key_groups)
        self._parts: list[Part] = []
        self._writer: PartWriter | None = None
        self._sequence = 0

    def write(self, table: pa.Table, operator: str, state: str) -> None:
        """Append the rows of a state."""
        for start in range(0, table.num_rows, ROW_GROUP_ROWS):
            rows = table.slice(start, ROW_GROUP_ROWS)
            columns = {
                name: as_array(rows[name].unify_dictionaries())
                for name in rows.column_names
                if name not in _OWN
            }
            if self._writer is None:
                self._writer = self._open()
            self._writer.write(rows.num_rows, {**columns, "operator": operator, "state": state})
            self._sequence += rows.num_rows
            if self._writer.size >= _PART_BYTES:
                self._close()

    def finish(self) -> list[Part]:
        """All parts, durable."""
        self._close()
        return self._parts

    def _open(self) -> PartWriter:
        stage, subtask, key_groups = self._place
        checkpoint, attempt = self._whose
        return PartWriter(
            self._storage.root,
            checkpoint_id=checkpoint,
            attempt=attempt,
            stage=stage,
            subtask=subtask,
            number=len(self._parts) + 1,
            first_sequence=self._sequence,
            key_groups=key_groups,
            storage=self._storage,
        )

    def _close(self) -> None:
        if self._writer is not None:
            self._parts.append(self._writer.finish())
            self._writer = None
