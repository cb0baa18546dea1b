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
from changelog_engine.checkpoint.commit import CheckpointCommitter
from changelog_engine.checkpoint.job_folder import JobFolder, find_job_folder, open_job_folder
from changelog_engine.checkpoint.ownership import begin_attempt
from changelog_engine.graph.key_groups import key_group_range, key_groups_of_ints

SUBTASKS = 2
GROUPS = 128
CHUNK = 131_072


def make_log(base: Path, rows: int, keys: int, checkpoints: int) -> JobFolder:
    """Write the log of a count of each key's records, which are spread evenly over keys.

    Args:
        base: folder of the job's folder; what is there goes.
        rows: mutations, one a record.
        keys: how many different keys.
        checkpoints: how many, with as many rows each.
    """
    shutil.rmtree(base, ignore_errors=True)
    folder = open_job_folder(str(base), "job")
    delta = folder.open_changelog()
    attempt = begin_attempt(delta, 0, None, "bench")
    committer = CheckpointCommitter(folder, delta, attempt, 0)
    sequences = [0] * SUBTASKS
    for checkpoint in range(1, checkpoints + 1):
        first = (checkpoint - 1) * rows // checkpoints
        records = np.arange(first, checkpoint * rows // checkpoints)
        numbers = records * 7919 % keys
        counts = records // keys + 1
        groups = key_groups_of_ints(numbers, GROUPS)
        parts = []
        for subtask in range(SUBTASKS):
            part = _part(folder, checkpoint, subtask, sequences[subtask], numbers, counts, groups)
            sequences[subtask] += part.rows
            parts.append(part)
        committer.commit(_row(checkpoint, parts), parts)
    return find_job_folder(str(base), "job")


def _part(
    folder: JobFolder,
    checkpoint: int,
    subtask: int,
    sequence: int,
    numbers: Any,
    counts: Any,
    groups: Any,
) -> Part:
    owned = key_group_range(subtask, GROUPS, SUBTASKS)
    mine = (groups >= owned.start) & (groups < owned.stop)
    keys, counted, key_groups = numbers[mine], counts[mine], groups[mine]
    writer = PartWriter(
        folder.changelog.root,
        checkpoint_id=checkpoint,
        attempt=1,
        stage=1,
        subtask=subtask,
        number=checkpoint,
        first_sequence=sequence,
        key_groups=owned,
    )
    for start in range(0, len(keys), CHUNK):
        texts = pa.array(keys[start : start + CHUNK]).cast(pa.string())
        values = pa.array(counted[start : start + CHUNK]).cast(pa.string())
        columns = {
            "operator": "count",
            "state": "count",
            "operation": "put",
            "key": texts.dictionary_encode(),
            "key_group": pa.array(key_groups[start : start + CHUNK]),
            "value": values,
        }
        writer.write(len(texts), columns)
    return writer.finish()


def _row(checkpoint: int, parts: list[Part]) -> Checkpoint:
    return Checkpoint(
        id=checkpoint,
        attempt=1,
        parent=checkpoint - 1 or None,
        lineage=(Segment(1, 1, checkpoint),),
        time_ms=int(time.time() * 1000),
        rows=sum(part.rows for part in parts),
        bytes=sum(part.size for part in parts),
        parts=len(parts),
        operators=[
            {
                "uid": "count",
                "name": "count",
                "kind": "process",
                "parallelism": SUBTASKS,
                "max_parallelism": GROUPS,
                "key_type": None,
                "states": [],
            }
        ],
    )
