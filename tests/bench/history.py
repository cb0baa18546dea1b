"""State history in SQL: one key's changes out of a large log, and the typed view of a state with many keys.

Writes its logs itself: puts of one value state with whole numbers as keys. Spark runs in a process of its own, as a user's
bare session: ``python history.py key FOLDER`` and ``python history.py view FOLDER`` print their results.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
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
from engine import EngineBench
from processes import PREFIX, measure

GROUPS = 128
CHUNK = 131_072
KEY = 77


class HistoryBench:
    """Queries of logs that it writes itself.

    Args:
        engine: has sizes and folders.
    """

    def __init__(self, engine: EngineBench) -> None:
        self.engine = engine

    def key(self) -> dict[str, Any]:
        """One key of a log that is seven times that of the fold: 8 subtasks, 50 checkpoints, a key 100 times."""
        rows = self.engine.sizes.fold * 20 // 3
        return self._query("key", Log(self._base("key"), 8, max(rows // 100, 1)).write(rows, 50))

    def view(self) -> dict[str, Any]:
        """All keys of a log as large as that of the fold, without a snapshot; with the sieve and without."""
        sizes = self.engine.sizes
        return self._query("view", Log(self._base("view"), 2, sizes.keys).write(sizes.fold, 15))

    def _base(self, name: str) -> Path:
        return self.engine.work / "tables" / f"history-{name}"

    def _query(self, what: str, folder: JobFolder) -> dict[str, Any]:
        command = [sys.executable, str(Path(__file__).resolve()), what, folder.storage.root]
        environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        try:
            return measure(
                f"history-{what}", command, self.engine.work / "logs", environment, timeout_s=3600
            ).result
        finally:
            shutil.rmtree(self._base(what), ignore_errors=True)


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


def query(what: str, path: str) -> dict[str, Any]:
    """Measure the queries of a log in this process."""
    from pyspark.sql import DataFrame, SparkSession

    from changelog_engine import history
    from changelog_engine.history import views

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    java = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    opened = history.open(spark, path)

    def timed(frame: Callable[[], DataFrame]) -> dict[str, float]:
        """The second of two runs: wall clock and the JVM's CPU."""
        for _ in range(2):
            began, cpu = time.perf_counter(), _cpu_s(java)
            made = frame()
            made.write.format("noop").mode("overwrite").save()
            spent = {"seconds": time.perf_counter() - began, "cpu_s": _cpu_s(java) - cpu}
        return spent

    if what == "key":
        found = opened.key(KEY)
        files = len(list((Path(path) / "changelog").glob("part-*")))
        return {
            "changes": found.count(),
            "files": files,
            "files_opened": len(found.inputFiles()),
            "plan": found._jdf.queryExecution().executedPlan().toString(),
            **timed(lambda: opened.key(KEY)),
        }
    sieved = timed(lambda: opened.state("count", "count"))
    views._MANY_ROWS = 1 << 62
    windows = timed(lambda: opened.state("count", "count"))
    return {**sieved, "windows_cpu_s": windows["cpu_s"], "gain": windows["cpu_s"] / sieved["cpu_s"]}


def _cpu_s(process: int) -> float:
    """CPU seconds of a process, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(PREFIX + json.dumps(query(*sys.argv[1:])))
