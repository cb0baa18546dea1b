"""Random programs on Spark, whose workers are killed now and then: as metamorphic.py, but slower.

python metamorphic_spark.py [--first 0] [--programs 12]

It kills Python workers of its own session alone. Exit status 1: something failed.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import signal
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = [
    str(TESTS.parent / part)
    for part in (".", "tests", "tests/spark", "tests/golden/generated", "docs/examples/flights")
]
sys.path[:0] = FOLDERS  # it is run as a program, by its path
os.environ["PYTHONPATH"] = os.pathsep.join(FOLDERS)  # its workers find the programs
os.environ["MORE_VALUES"] = "support.random_jobs"  # and their values

# ruff: noqa: E402
from driver_process import pinned_of, processes_of
from support.backends import backend_settings
from support.jobs import NO_DELAY
from support.metamorphic import Model, check_log, compare, files_of, random_way
from support.random_jobs import random_program

from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.nodes import JobSettings, NodeKind
from changelog_engine.launch import RunningJob
from changelog_engine.launcher import install_alias


class Killer(threading.Thread):
    """Kills one worker of this session after a random time, several times."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.chance, self.over, self.kills = chance, threading.Event(), 0

    def run(self) -> None:
        """See Thread."""
        while not self.over.wait(self.chance.uniform(0.5, 4)):
            mine = list(processes_of(os.getsid(0)))
            workers = [pid for pids in pinned_of(mine).values() for pid in pids]
            if workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.chance.choice(workers), signal.SIGKILL)
                    self.kills += 1


def failure_of(seed: int, base: str) -> str | None:
    """What is wrong when a program is run by Spark; None when all is right, or it fails by itself."""
    described, chance = random_program(seed), random.Random(seed)
    try:
        model = Model(described, f"{base}/model")
    except ChangelogEngineError:
        return None
    way = random_way(seed, model.traits, model.items)
    graph = way.graph(described, 0, f"{base}/out")
    settings: dict[str, Any] = {
        "checkpoint_interval_ms": chance.choice([10, 200, 600]),
        "changelog": way.changelog[0],
        "base_path": f"{base}/log",
        "restart": NO_DELAY,
        "same_failure_limit": 0,
        "read_ahead": way.read_ahead,
        "local_recovery": way.local_recovery,
        "packs": way.packs,
        "epoch_max_records": way.sizes[0] if model.traits.any_epochs else 1,
        "materialize_interval_ms": chance.choice([None, 300]),
        **backend_settings(way.backend, f"{base}/local"),
    }
    if way.part_bytes is not None:
        settings["part_max_bytes"] = way.part_bytes
    job, killer = RunningJob(graph, JobSettings(**settings)), Killer(chance)
    if chance.random() < 0.6:
        killer.start()
    try:
        job.run()
    except ChangelogEngineError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        killer.over.set()
    (sink,) = (n.id for n in graph.nodes if n.kind is NodeKind.SINK and n.name.startswith("Print"))
    shaped: Any = list if replace(way, rescales=()).ordered else sorted
    try:
        compare("output", shaped(job.results(sink)), shaped(model.output))
        compare("files", shaped(files_of(f"{base}/out")), shaped(files_of(f"{model.base}/out")))
        if not model.traits.timed:  # the clock is another one
            check_log(model, f"{base}/log", "on Spark", whole=False)
    except AssertionError as error:
        return f"{error}"
    print(f"program {seed}: equal, {killer.kills} workers killed", file=sys.stderr, flush=True)
    return None


def main() -> None:
    """See the module."""
    arguments = argparse.ArgumentParser(description="Runs random programs on Spark.")
    arguments.add_argument("--first", type=int, default=0, help="seed of the first program")
    arguments.add_argument("--programs", type=int, default=12)
    given = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    install_alias()
    failed = 0
    for seed in range(given.first, given.first + given.programs):
        with tempfile.TemporaryDirectory() as base:
            said = failure_of(seed, base)
        if said is not None:
            failed += 1
            print(f"program {seed}: {said[:3000]}", flush=True)
    print(f"{given.programs} programs on Spark, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
