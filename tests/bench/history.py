"""State history in SQL: one key's changes out of a large log, and the typed views over many keys.

Writes its logs itself: puts of one value state with whole numbers as keys. Spark runs in a process of its own, as a user's
bare session: ``python history.py key FOLDER KEY`` or ``python history.py views FOLDER`` prints its result as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
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
from changelog_engine.types import Types

GROUPS = 128
CHUNK = 131_072


class Log:
    """Writes a log: every checkpoint changes keys that are spread evenly.

    Args:
        base: folder of the job's folder.
        subtasks: how many write.
        keys: how many there are, in rounds.
    """

    def __init__(self, base: Path, subtasks: int, keys: int) -> None:
        shutil.rmtree(base, ignore_errors=True)
        self._base, self._subtasks, self._keys = base, subtasks, keys
        self._sequences = [0] * subtasks

    def write(self, rows: int, checkpoints: int) -> JobFolder:
        """Write the log."""
        folder = open_job_folder(str(self._base), "job")
        delta = folder.open_changelog()
        committer = CheckpointCommitter(folder, delta, begin_attempt(delta, 0, None, "bench"), 0)
        for number in range(1, checkpoints + 1):
            first = (number - 1) * rows // checkpoints
            keys = np.arange(first, number * rows // checkpoints) * 7919 % self._keys
            groups = key_groups_of_ints(keys, GROUPS)
            parts = [self._part(folder, number, subtask, keys, groups) for subtask in range(self._subtasks)]
            committer.commit(self._row(number, parts), parts)
        return find_job_folder(str(self._base), "job")

    def _part(self, folder: JobFolder, checkpoint: int, subtask: int, keys: Any, groups: Any) -> Part:
        owned = key_group_range(subtask, GROUPS, self._subtasks)
        mine = (groups >= owned.start) & (groups < owned.stop)
        writer = PartWriter(
            folder.changelog.root,
            checkpoint_id=checkpoint,
            attempt=1,
            stage=1,
            subtask=subtask,
            number=checkpoint,
            first_sequence=self._sequences[subtask],
            key_groups=owned,
        )
        keys, groups = keys[mine], groups[mine]
        for start in range(0, len(keys), CHUNK):
            texts = pa.array(keys[start : start + CHUNK]).cast(pa.string())
            columns = {
                "operator": "count",
                "state": "count",
                "operation": "put",
                "key": texts.dictionary_encode(),
                "key_group": pa.array(groups[start : start + CHUNK]),
                "value": texts,
            }
            writer.write(len(texts), columns)
        part = writer.finish()
        self._sequences[subtask] += part.rows
        return part

    def _row(self, checkpoint: int, parts: list[Part]) -> Checkpoint:
        written = {str(s): {"log": [rows, checkpoint]} for s, rows in enumerate(self._sequences)}
        state = {"name": "count", "kind": "value", "value_type": Types.LONG().spec()}
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
                {
                    "uid": "count",
                    "name": "count",
                    "kind": "process",
                    "parallelism": self._subtasks,
                    "max_parallelism": GROUPS,
                    "key_type": Types.LONG().spec(),
                    "states": [state],
                }
            ],
        )
