"""Materialization: how fast the log is folded, and what it costs the job beside which it runs."""

from __future__ import annotations

import shutil
import time
from typing import Any

import numpy as np
import pyarrow as pa

from changelog_engine.changelog.model import Checkpoint, Part, Segment
from changelog_engine.changelog.part_reader import read_parts
from changelog_engine.changelog.part_writer import PartWriter
from changelog_engine.checkpoint.commit import CheckpointCommitter
from changelog_engine.checkpoint.job_folder import JobFolder, find_job_folder, open_job_folder
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.checkpoint.ownership import begin_attempt
from changelog_engine.checkpoint.restore_plan import plan_restore
from changelog_engine.graph.key_groups import key_group_range, key_groups_of_ints
from engine import EngineBench
from log_figures import acknowledgement_ms, percentile, read_log, steady_records_per_s
from materializer.materialize import materialize
from materializer.processes import FoldProcesses

SUBTASKS = 2
GROUPS = 128
CHUNK = 131_072


class MaterializerBench:
    """Folds logs that it writes itself, and runs the keyed count with and without a schedule.

    Args:
        engine: runs the keyed count.
    """

    def __init__(self, engine: EngineBench) -> None:
        self.engine = engine

    def fold(self) -> dict[str, Any]:
        """A log of 15 mutations a key and round, in two processes that start for it."""
        sizes = self.engine.sizes
        folder = self._log("fold", sizes.fold, sizes.keys, 15)
        done = materialize(folder, run=FoldProcesses(SUBTASKS, niceness=0))
        assert done is not None
        shutil.rmtree(folder.snapshots.root)
        cpu = time.process_time()
        materialize(folder)
        cpu = time.process_time() - cpu
        return {
            "mutations": done.log_rows,
            "seconds": done.seconds,
            "mutations_per_s": done.log_rows / done.seconds,
            "mutations_per_cpu_s": done.log_rows / cpu,
        }

    def snapshot(self) -> dict[str, Any]:
        """A snapshot of keys that all changed once, and reading it back with and without a piece of log after it."""
        keys = self.engine.sizes.restore
        folder = self._log("snapshot", keys, keys, 4)
        done = materialize(folder, run=FoldProcesses(SUBTASKS, niceness=0))
        assert done is not None
        alone_s = self._read(folder)
        folder = self._log("snapshot-log", keys * 5 // 4, keys, 5)
        materialize(folder, 4)
        return {
            "keys": keys,
            "seconds": done.seconds,
            "bytes": done.bytes,
            "read_s": alone_s,
            "read_with_log_s": self._read(folder),
        }

    def beside(self) -> dict[str, Any]:
        """The keyed count with a materialization every 10 s against the same without, one after the other."""
        found: dict[str, Any] = {}
        records = self.engine.sizes.engine
        for name in ("false", "true"):
            settings = {
                "state.changelog.periodic-materialize.enabled": name,
                "state.changelog.periodic-materialize.interval": "10s",
            }
            base = self.engine.run_count(f"beside-{name}", records, settings)
            log = read_log(base)
            word = "with" if name == "true" else "without"
            found[f"{word}_records_per_s"] = steady_records_per_s(log)
            found[f"{word}_acknowledgement_p99_ms"] = percentile(acknowledgement_ms(log), 0.99)
            snapshots = list((base / "keyed-count" / "snapshots").glob("snapshot-*"))
            found[f"{word}_snapshots"] = len(snapshots)
        found["ratio"] = found["with_records_per_s"] / found["without_records_per_s"]
        return found

    def _log(self, name: str, rows: int, keys: int, checkpoints: int) -> JobFolder:
        """Write the log of a count of each key's records, which are spread evenly over keys."""
        base = self.engine.work / "tables" / name
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
                part = self._part(folder, checkpoint, subtask, sequences[subtask], numbers, counts, groups)
                sequences[subtask] += part.rows
                parts.append(part)
            committer.commit(_row(checkpoint, parts), parts)
        return find_job_folder(str(base), "job")

    def _part(
        self,
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

    def _read(self, folder: JobFolder) -> float:
        checkpoint = Lineage(folder.open_changelog()).newest_checkpoint()
        began = time.perf_counter()
        rows = sum(
            table.num_rows
            for table in read_parts(plan_restore(folder, checkpoint), range(GROUPS // SUBTASKS))
        )
        assert rows > 0
        return time.perf_counter() - began


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
