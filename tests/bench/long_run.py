"""What stays in memory and on the disk after many epochs that have next to nothing to do: by JVM, driver and workers.

``python long_run.py EPOCHS [--cluster] [--every N] [KEY=VALUE ...]``. Each N epochs, after a full collection: bytes of the
heap of each JVM, resident memory of the driver and of the workers, the driver's Python objects, Spark's files. At the end,
which classes of Java have more bytes than after the first tenth. ``--cluster`` runs on a standalone master with two workers
of this machine. It needs a JDK (jcmd) and Linux.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers.spark_cluster import spark_cluster

from changelog_engine.api.common import Configuration, Types, WatermarkStrategy
from changelog_engine.api.datastream import StreamExecutionEnvironment
from changelog_engine.api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.driver.figures import JobMonitor
from epoch_cost import RECORDS
from keyed_count import leave_own_folder
from processes import resident_bytes, session_members

_MOST_SHOWN = 12


class Watch:
    """Looks at all processes each so many epochs, and prints a line.

    Args:
        epochs: how many there will be.
        every: so many epochs.
        spark_files: folders of Spark's own files.
    """

    def __init__(self, epochs: int, every: int, spark_files: list[Path]) -> None:
        self._epochs = epochs
        self._every = every
        self._spark_files = spark_files
        self._seen = 0
        self._first: dict[str, Counter[str]] = {}
        self.last: dict[str, Counter[str]] = {}

    def end_epoch(self) -> None:
        """An epoch has ended."""
        self._seen += 1
        if self._seen % self._every:
            return
        self.last = {f"{role} {pid}": _histogram(pid) for pid, role in _java_processes()}
        if self._seen >= self._epochs // 10:
            for name, found in self.last.items():
                self._first.setdefault(name, found)
        gc.collect()
        files = sum(path.is_file() for folder in self._spark_files for path in folder.rglob("*"))
        memory = {role: f"{size >> 20} MiB" for role, size in resident_bytes(os.getsid(0)).items()}
        heaps = {name: f"{sum(found.values()) / 2**20:.1f} MiB" for name, found in self.last.items()}
        print(
            f"{self._seen:,} epochs: heaps {heaps}; resident {memory}; "
            f"{len(gc.get_objects()):,} objects of Python, {files} files",
            flush=True,
        )

    def growth(self) -> None:
        """Print which classes have more bytes than after the first tenth."""
        for name, first in self._first.items():
            more = self.last.get(name, Counter()) - first
            shown = ", ".join(f"{bytes_:,} {kind}" for kind, bytes_ in more.most_common(_MOST_SHOWN))
            print(f"{name} has more since: {shown}")


def _java_processes() -> list[tuple[int, str]]:
    found = []
    for process in sorted({*session_members(os.getsid(0)), *_executors()}):
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if command[0].endswith(b"java"):
            executor = any(b"CoarseGrainedExecutorBackend" in part for part in command)
            found.append((process, "executor" if executor else "driver"))
    return found


_WORKERS: list[object] = []


def _executors() -> list[int]:
    return [pid for worker in _WORKERS for pid in worker.executors()]  # type: ignore[attr-defined]


def _histogram(pid: int) -> Counter[str]:
    """Bytes of the live objects of each class; this is a full collection."""
    said = subprocess.run(
        ["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split() for line in said.splitlines())
    return Counter({row[3]: int(row[2]) for row in rows if len(row) >= 4 and row[0].endswith(":")})


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--every", type=int, default=1_000)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options = {
            "state.changelog.enabled": "true",
            "state.changelog.dstl.dfs.base-path": str(work / "log"),
            "execution.checkpointing.interval": "10s",
            "python.fn-execution.bundle.size": str(RECORDS),
            "spark.master": "local[2]",
            "spark.local.dir": str(work / "spark"),
            "spark.driver.memory": "1g",
        }
        folders = [work / "spark"]
        if arguments.cluster:
            master, workers = stack.enter_context(spark_cluster(["127.0.0.2", "127.0.0.3"]))
            _WORKERS.extend(workers)
            folders += [worker.folder / "scratch" for worker in workers]
            options |= {
                "spark.master": master.url,
                "spark.cores.max": "2",
                "spark.executor.cores": "1",
                "spark.executor.memory": "512m",
                "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
                "spark.driver.host": "127.0.0.1",
            }
        run(arguments.epochs, arguments.every, {**options, **settings}, folders)


def run(epochs: int, every: int, settings: dict[str, str], spark_files: list[Path]) -> None:
    """Run the job and watch it.

    Args:
        epochs: how many.
        every: see Watch.
        settings: configuration.
        spark_files: see Watch.
    """
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    source, strategy = NumberSequenceSource(0, RECORDS * 2 * epochs - 1), WatermarkStrategy.no_watermarks()
    numbers = env.from_source(source, strategy, "numbers", Types.LONG())
    numbers.map(lambda value: value % 1_000, Types.LONG()).key_by(lambda value: value, Types.LONG()).reduce(
        max
    ).filter(lambda value: value < 0).print()
    watch, end_epoch = Watch(epochs, every, spark_files), JobMonitor.end_epoch

    def observed(self: JobMonitor, duration_ms: float) -> None:
        end_epoch(self, duration_ms)
        watch.end_epoch()

    JobMonitor.end_epoch = observed  # type: ignore[method-assign]
    env.execute("long-run")
    watch.growth()


if __name__ == "__main__":
    leave_own_folder()
    main()
