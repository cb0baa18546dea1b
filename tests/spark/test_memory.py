"""Two hundred epochs of the same keys leave neither memory nor files behind, nor names of files."""

from __future__ import annotations

import os
import statistics
from pathlib import Path

import pytest
from driver_process import own_descendants, pinned_of, resident_bytes, wait_for
from pyspark.sql import SparkSession
from session_jobs import Count, environment

from api.common import Types, WatermarkStrategy
from api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.spark import epoch_job, exit_names

pytestmark = pytest.mark.slow

EPOCHS, RECORDS, KEYS = 200, 500, 100
WARM = 60  # epochs until imports, pools and caches have their size
MIB = 2**20
MOST_GROWTH = 8 * MIB  # of a worker
# The driver has delta-rs shorten the Delta log every hundred commits; the first time takes 12 to 17 MiB, once.
MOST_DRIVER_GROWTH = 24 * MIB
TIDY = 50  # epochs from one look at the names that Java keeps to the next
MOST_SHUFFLE_FILES = 12  # those of the epoch that runs, and of one that is being removed


def test_workers_driver_and_shuffle_files_stay_as_they_are_over_200_epochs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Path(spark.conf.get("spark.local.dir"))
    others = set(local.rglob("shuffle_*"))  # of queries that ran in this session before
    memory: dict[str, list[int]] = {}
    files: list[int] = []

    def own_files() -> set[Path]:
        return set(local.rglob("shuffle_*")) - others

    end_epoch = JobMonitor.end_epoch

    def look(monitor: JobMonitor, duration_ms: float) -> None:
        end_epoch(monitor, duration_ms)
        if monitor.latest.epoch % 10 == 0:
            files.append(len(own_files()))
        if monitor.latest.epoch >= WARM and monitor.latest.epoch % 5 == 0:
            for process in pinned_of(own_descendants()).get("0/0/0", []):
                memory.setdefault(f"source worker {process}", []).append(resident_bytes(process))
            for process in pinned_of(own_descendants()).get("0/1/0", []):
                memory.setdefault(f"keyed worker {process}", []).append(resident_bytes(process))
            memory.setdefault("driver", []).append(resident_bytes(os.getpid()))

    monkeypatch.setattr(epoch_job, "_TIDY_EPOCHS", TIDY)
    monkeypatch.setattr(JobMonitor, "end_epoch", look)
    env = environment(tmp_path / "log", parallelism=1, python__fn_execution__bundle__size=RECORDS)
    source = NumberSequenceSource(0, EPOCHS * RECORDS - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    counts = (
        numbers.key_by(lambda v: v % KEYS, Types.LONG()).process(Count()).filter(lambda v: v[1] % 500 == 0)
    )
    counts.print()
    env.execute("long")

    assert len(memory) >= 3
    for who, samples in memory.items():
        quarter = len(samples) // 4
        before, after = statistics.median(samples[:quarter]), statistics.median(samples[-quarter:])
        most = MOST_DRIVER_GROWTH if who == "driver" else MOST_GROWTH
        assert after - before < most, f"{who} grew: {[size // MIB for size in samples]} MiB"
    assert max(files) <= MOST_SHUFFLE_FILES, files
    wait_for(lambda: not own_files(), 60, lambda: f"left: {own_files()}")
    assert len([name for name in names_kept(spark) if not os.path.exists(name)]) < 2 * TIDY


def test_java_forgets_sockets_that_are_gone_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    context.parallelize([1], 1).collect()
    there, not_yet = tmp_path / "there.sock", tmp_path / "not yet"
    there.touch()
    for path in (there, not_yet):
        context._jvm.java.io.File(str(path)).deleteOnExit()
    before = names_kept(spark)
    exit_names.forget_gone_sockets(context)
    left = [name for name in before if os.path.exists(name) or not name.endswith(".sock")]
    assert names_kept(spark) == left
    assert {str(there), str(not_yet)} <= set(left)
    assert len(left) < len(before)


def names_kept(spark: SparkSession) -> list[str]:
    """What Java will delete when it ends."""
    jvm = spark.sparkContext._jvm
    field = jvm.java.lang.Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files")
    field.setAccessible(True)
    return str(jvm.java.lang.String.join("\n", field.get(None))).split("\n")
