"""A savepoint into a job: its state becomes the first checkpoint of a new attempt, in the job's own tables.

So nothing of the job ever refers to the savepoint: it may be moved or deleted once the job runs (NO_CLAIM), or the job
itself deletes it after its first checkpoint (CLAIM).

Steps (a crash after 1 or 2 leaves what no checkpoint refers to; the next run imports again):
    1. An attempt row: this driver owns the job. Its parent is where the job would have gone on without the savepoint.
    2. The state as parts of the snapshots table, and a commit that makes the snapshot complete.
    3. The checkpoint's row, without a parent: the first of its lineage.
"""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow.compute as pc

from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.model import Checkpoint, Part, Segment
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.clock import wall_ms
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.descriptions import states_of
from changelog_engine.ledger.committer import CheckpointCommitter
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import begin_attempt
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.savepoints.folder import Savepoint
from changelog_engine.savepoints.writer import SnapshotWriter
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.types.pickled import PICKLED_BYTE_ARRAY

_logger = logging.getLogger("changelog_engine")


class Imported(NamedTuple):
    """What an import made."""

    checkpoint: Checkpoint  # in the job's own tables
    attempt: int


def import_savepoint(
    folder: JobFolder, log: DeltaLog, savepoint: Savepoint, checkpoint: Checkpoint
) -> Imported:
    """Copy a savepoint into a job's tables.

    Args:
        folder: the job's folder, locked.
        savepoint: verified.
        checkpoint: the savepoint's, or ``claimed_state`` of it: rows of operators that it doesn't have are left behind.

    Raises:
        FencedError: another driver took the job over.
        CorruptChangelogError: a file of the savepoint is damaged; no checkpoint was made.
        StorageError: storage failed; no checkpoint was made.
    """
    folder.open_snapshots()
    lineage = Lineage(log)
    parent = None
    with contextlib.suppress(ChangelogEngineError):  # a damaged job may be saved by its savepoint
        before = decide_restore(lineage, "auto").checkpoint
        parent = None if before is None else before.id
    attempt = begin_attempt(log, lineage.newest_attempt_id, parent)
    # The checkpoint stands at the beginning of a lineage, whatever the attempt's parent.
    committer = CheckpointCommitter(folder, log, replace(attempt, parent=None), lineage.newest_checkpoint_id)
    identity = committer.next_id
    row = replace(
        checkpoint,
        id=identity,
        attempt=attempt.id,
        parent=None,
        lineage=(Segment(attempt.id, identity, identity),),
        time_ms=wall_ms(),
        clock_ms=None,
        duration_ms=0,
        parent_acknowledged_ms=None,
        restored_ms=None,
        figures={},
        snapshot=identity,
        finished=False,
        stopped=False,
    )
    pickled = set(pickled_states(row))
    parts = _copy(folder, savepoint, row, pickled)
    if pickled:
        _logger.warning(
            "the savepoint %s may hold pickled values in %s: loading one runs what is in it, so start only from "
            "savepoints that you trust",
            savepoint.path,
            ", ".join(sorted(pickled)),
        )
    row = row.of_parts(parts)
    committer.commit_snapshot(row, parts)
    return Imported(row, attempt.id)


def pickled_states(checkpoint: Checkpoint) -> list[str]:
    """States whose declared types allow any object, as ``operator.state``: a restore of them runs what is in them."""
    return [
        f"{operator.uid}.{state.name}"
        for operator, state in states_of(checkpoint.operators).values()
        if _is_any(operator.key_type, state.value_type, state.map_key_type or "none")
    ]


def _is_any(*specs: Any) -> bool:
    """Whether one of these types is undeclared, or names PICKLED_BYTE_ARRAY at any depth."""
    return any(spec is None or PICKLED_BYTE_ARRAY.kind in json.dumps(spec) for spec in specs)


def _copy(folder: JobFolder, savepoint: Savepoint, row: Checkpoint, pickled: set[str]) -> list[Part]:
    """The savepoint's parts under the name of the job's checkpoint, file by file; notes which states hold pickles."""
    uids = {operator.uid for operator in row.operators}
    parts: list[Part] = []
    for number, part in enumerate(savepoint.parts):
        parts.extend(_copy_part(folder, savepoint, row, part, uids, number, pickled))
    return parts


def _copy_part(
    folder: JobFolder,
    savepoint: Savepoint,
    row: Checkpoint,
    part: PartFile,
    uids: set[str],
    number: int,
    pickled: set[str],
) -> list[Part]:
    table = read_part(savepoint.folder.snapshots, part)
    bounds = pc.min_max(table["key_group"]).as_py()
    groups = range(bounds["min"] or 0, (bounds["max"] or 0) + 1)
    writer = SnapshotWriter(folder.snapshots, row.id, row.attempt, 0, number, groups)
    for (operator, state), tables in group_by_state([table]).items():
        for rows in tables if operator in uids else ():
            writer.write(rows, operator, state)
            if rows["payload"].null_count < rows.num_rows:  # of a declared type too
                pickled.add(f"{operator}.{state}")
    return writer.finish()
