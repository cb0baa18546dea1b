"""State history in SQL: one key's changes out of a large log, and the typed view of a state with many keys.

Spark runs in a process of its own, as a user's bare session: ``python history.py key FOLDER`` and
``python history.py view FOLDER`` print their results.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from changelog_engine.ledger.job_folder import JobFolder
from engine import EngineBench
from made_logs import make_log
from processes import PREFIX, cpu_s_of, measure

KEY = 77


class HistoryBench:
    """Queries of logs made for it.

    Args:
        engine: has sizes and folders.
    """

    def __init__(self, engine: EngineBench) -> None:
        self.engine = engine

    def key(self) -> dict[str, Any]:
        """One key of a log that is seven times that of the fold: 8 subtasks, 50 checkpoints, a key 100 times."""
        rows = self.engine.sizes.fold * 20 // 3
        return self._query("key", make_log(self._base("key"), rows, max(rows // 100, 1), 50, subtasks=8))

    def console(self) -> dict[str, Any]:
        """The console's `history` of a key of that log, and its `diff` of two points of a state with a million keys."""
        rows = self.engine.sizes.fold * 20 // 3
        folder = make_log(self._base("console"), rows, max(rows // 100, 1), 50, subtasks=8)
        history_s = self._asked("history", folder.storage.root, "--key", str(KEY))
        folder = make_log(self._base("console"), self.engine.sizes.keys * 30, self.engine.sizes.keys * 10, 10)
        diff_s = self._asked("diff", folder.storage.root, "9", "10")
        status_s = self._asked("status", folder.storage.root)
        shutil.rmtree(self._base("console"), ignore_errors=True)
        return {"history_s": history_s, "diff_s": diff_s, "status_s": status_s}

    def _asked(self, *question: str) -> float:
        """Seconds of the second of two runs of a command, from its start to its end."""
        for _ in range(2):
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "changelog_engine", *question],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=600,
            )
            spent = time.perf_counter() - began
        return spent

    def view(self) -> dict[str, Any]:
        """All keys of a log as large as that of the fold, without a snapshot; with the sieve and without."""
        sizes = self.engine.sizes
        return self._query("view", make_log(self._base("view"), sizes.fold, sizes.keys, 15))

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
            began, cpu = time.perf_counter(), cpu_s_of(java)
            made = frame()
            made.write.format("noop").mode("overwrite").save()
            spent = {"seconds": time.perf_counter() - began, "cpu_s": cpu_s_of(java) - cpu}
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


if __name__ == "__main__":
    print(PREFIX + json.dumps(query(*sys.argv[1:])))
