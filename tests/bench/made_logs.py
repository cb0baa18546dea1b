"""Logs as the keyed count writes them, made without running it: for measurements of what becomes of a log."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from changelog_engine.changelog.model import Checkpoint, Part, Segment
from changelog_engine.changelog.part_writer import PartWriter
from changelog_engine.changelog.small_state import LogPosition, SmallState, StageState
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.graph.key_groups import key_group_range, key_groups_of_ints
from changelog_engine.ledger.committer import CheckpointCommitter
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder, open_job_folder
from changelog_engine.ledger.ownership import begin_attempt
from changelog_engine.types import Types

SUBTASKS = 2
GROUPS = 128
CHUNK = 131_072


def make_log(base: Path, rows: int, keys: int, checkpoints: int, subtasks: int = SUBTASKS) -> JobFolder:
    """Write the log of a count of each key's records, which are spread evenly over keys.

    Args:
        base: folder of the job's folder; what is there goes.
        rows: mutations, one a record.
        keys: how many different keys.
        checkpoints: how many, with as many rows each.
        subtasks: how many write.
    """
    shutil.rmtree(base, ignore_errors=True)
    folder = open_job_folder(str(base), "job")
    delta = folder.open_changelog()
    attempt = begin_attempt(delta, 0, None)
    committer = CheckpointCommitter(folder, delta, attempt, 0)
    sequences = [0] * subtasks
    for checkpoint in range(1, checkpoints + 1):
        first = (checkpoint - 1) * rows // checkpoints
        records = np.arange(first, checkpoint * rows // checkpoints)
        numbers = records * 7919 % keys
        counts = records // keys + 1
        groups = key_groups_of_ints(numbers, GROUPS)
        parts = []
        for subtask in range(subtasks):
            owned = key_group_range(subtask, GROUPS, subtasks)
            mine = (groups >= owned.start) & (groups < owned.stop)
            writer = PartWriter(
                folder.changelog.root,
                checkpoint_id=checkpoint,
                attempt=1,
                stage=1,
                subtask=subtask,
                number=checkpoint,
                first_sequence=sequences[subtask],
                key_groups=owned,
            )
            parts.append(_part(writer, numbers[mine], counts[mine], groups[mine]))
            sequences[subtask] += parts[-1].rows
        committer.commit(_row(checkpoint, parts, sequences), parts)
    return find_job_folder(str(base), "job")


def _part(writer: PartWriter, keys: Any, counts: Any, groups: Any) -> Part:
    for start in range(0, len(keys), CHUNK):
        texts = pa.array(keys[start : start + CHUNK]).cast(pa.string())
        columns = {
            "operator": "count",
            "state": "count",
            "operation": "put",
            "key": texts.dictionary_encode(),
            "key_group": pa.array(groups[start : start + CHUNK]),
            "value": pa.array(counts[start : start + CHUNK]).cast(pa.string()),
        }
        writer.write(len(texts), columns)
    return writer.finish()


def _row(checkpoint: int, parts: list[Part], sequences: list[int]) -> Checkpoint:
    written = StageState(
        {subtask: SmallState(LogPosition(rows, checkpoint)) for subtask, rows in enumerate(sequences)}
    )
    return Checkpoint(
        id=checkpoint,
        attempt=1,
        parent=checkpoint - 1 or None,
        lineage=(Segment(1, 1, checkpoint),),
        time_ms=int(time.time() * 1000),
        rows=sum(part.rows for part in parts),
        bytes=sum(part.size for part in parts),
        parts=len(parts),
        operator_state={"count": written},
        operators=[
            DescribedOperator(
                "count",
                "count",
                "process",
                len(sequences),
                GROUPS,
                True,
                Types.LONG().spec(),
                (DescribedState("count", "value", Types.LONG().spec()),),
            )
        ],
    )
