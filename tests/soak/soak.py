"""A soak: one job for an hour, with 200 ms checkpoints, materializations, truncation and kills; is it flat?

python soak.py, or ``make soak``. ``SOAK_MINUTES`` (60) says how long, ``SOAK_SEED`` which workers are killed when, and
``SOAK_TRACE=1`` lets the driver say which of its Python objects become more. It needs Linux (/proc) and plotly.

What is measured every few seconds: resident memory, descriptors and threads of driver, JVM and workers, the JVM's heap after
its collections, files in the job's folder, and those that its tables list. The report is `.bench/soak.html`, the samples are
beside it. The exit status is 1 when something grows.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "spark")]  # it is run as a program, by its path

# ruff: noqa: E402
from driver_process import Driver, Process, checkpoints, resident_bytes
from trends import Samples, trends, write_report

from changelog_engine.errors import ChangelogEngineError
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage

SAMPLE_S = 5.0
KILL_EVERY_S = 60.0
COLLECT_EVERY_S = 30.0
ELEMENTS_A_SECOND, KEYS = 2_000, 2_000
STEADY_AFTER_MINUTES = 60
WARM_UP = 0.25  # of the time, which counts for nothing: caches fill, the JVM compiles
_AFTER_COLLECTION = re.compile(r"->(\d+)([KMG])\(")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def soak(minutes: float, out: Path, seed: int) -> int:
    """Run the soak; returns the exit status."""
    chance = random.Random(seed)
    work = out / "soak"
    collections = work / "gc.log"
    options = {
        "spark.master": "local[2]",
        "parallelism.default": 2,
        "state.changelog.enabled": True,
        "state.changelog.dstl.dfs.base-path": work / "log",
        "state.changelog.periodic-materialize.interval": "5 s",
        "changelog.history.retention": "0 ms",
        "changelog.truncation.grace": "5 s",
        "execution.checkpointing.interval": "200 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1_000_000,
        "restart-strategy.fixed-delay.delay": "0 s",
    }
    java = f"-XX:+UseSerialGC -Xlog:gc:file={collections}"
    samples = Samples()
    table = work / "log" / "soak" / "changelog"
    job = (HERE / "soak_job.py", ELEMENTS_A_SECOND, KEYS)
    with Driver(*job, options=options, work=work, environment={"SPARK_SUBMIT_OPTS": java}) as driver:
        driver.wait_for(lambda: checkpoints(table) > 0, 900, "checkpoint")
        began = time.monotonic()
        killed = collected = began
        while (now := time.monotonic()) - began < minutes * 60:
            assert driver.process.poll() is None, driver.output
            if now - killed > KILL_EVERY_S * chance.uniform(0.5, 1.5):
                driver.kill_a_worker(chance)
                killed = now
            if now - collected > COLLECT_EVERY_S:
                _collect_garbage(driver)
                collected = now
            samples.add(now - began, _sample(driver, work / "log" / "soak", collections))
            print(f"\r{(now - began) / 60:5.1f} of {minutes:g} minutes", end="", file=sys.stderr, flush=True)
            time.sleep(max(0.0, SAMPLE_S - (time.monotonic() - now)))
    print(file=sys.stderr)
    (out / "soak.json").write_text(json.dumps(samples.columns))
    found = trends(samples, WARM_UP)
    write_report(out / "soak.html", samples, found, f"Soak of {minutes:g} minutes, seed {seed}")
    for trend in found:
        print(trend.sentence())
    if minutes < STEADY_AFTER_MINUTES:
        print(
            f"{minutes:g} minutes of growth are no leak yet: commits of Delta logs stay for ten minutes, removed files are "
            f"remembered for an hour, and allocators fill; {STEADY_AFTER_MINUTES} minutes tell"
        )
    print(f"the report is {out / 'soak.html'}")
    return 1 if any(trend.verdict == "grows" for trend in found) else 0


def _sample(driver: Driver, folder: Path, collections: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for process in driver.processes():
        role = _role(driver, process)
        try:
            numbers = _of_process(process.pid)
        except (OSError, StopIteration):
            continue  # it ended meanwhile
        for what, number in numbers.items():
            found[f"{role} {what}"] = found.get(f"{role} {what}", 0) + number
    heap = _heap(collections)
    if heap is not None:
        found["jvm heap after collection, bytes"] = heap
    found["folder files"] = sum(len(names) for _, _, names in os.walk(folder))
    for table in ("changelog", "snapshots"):
        log = folder / table / "_delta_log"
        found[f"{table} log files"] = len(os.listdir(log)) if log.is_dir() else 0
        try:
            found[f"{table} live files"] = DeltaLog(open_storage(str(folder / table))).files().num_rows
        except (ChangelogEngineError, OSError):
            continue  # not there yet
    return found


def _role(driver: Driver, process: Process) -> str:
    if process.pid == driver.pid:
        return "driver"
    if "java" in process.command.split(" ", 1)[0]:
        return "jvm"
    return "workers" if process.pin is not None else "materializer and others"


def _of_process(pid: int) -> dict[str, float]:
    return {
        "memory, bytes": resident_bytes(pid),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
    }


def _collect_garbage(driver: Driver) -> None:
    """A full collection of the JVM's heap, so that what it keeps shows; only where there is a JDK."""
    for process in driver.processes():
        if _role(driver, process) == "jvm":
            os.system(f"jcmd {process.pid} GC.run > /dev/null 2>&1")


def _heap(collections: Path) -> float | None:
    """Bytes after the newest full collection."""
    if not collections.exists():
        return None
    lines = [line for line in collections.read_text().splitlines() if "Pause Full" in line]
    match = _AFTER_COLLECTION.search(lines[-1]) if lines else None
    return None if match is None else float(match[1]) * _UNITS[match[2]]


if __name__ == "__main__":
    out = ROOT / ".bench"
    out.mkdir(exist_ok=True)
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 100_000))
    sys.exit(soak(float(os.environ.get("SOAK_MINUTES", "60")), out, seed))
