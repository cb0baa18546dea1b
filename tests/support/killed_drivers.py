"""Drivers that run one job after the other in processes of their own, each killed with SIGKILL at a random moment.

They are forked from a process that has imported everything and run nothing, so that many of them take seconds.

    python -m support.killed_drivers FOLDER KILLS SEED
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from api.common.typeinfo import Types
from changelog_engine.connectors.protocols import Range, Source, Split, SplitReader
from changelog_engine.graph.nodes import JobGraph, NodeKind
from support.forked import import_the_rest
from support.functions import Count
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Script

sys.path.append(str(Path(__file__).parents[2] / "docs" / "examples" / "connectors"))
from folder_sink import FolderSink

KEYS = 7
_PATIENCE_S = 120


class Numbers(Source, SplitReader):
    """The numbers from 0 on; they end where a file says, once it is there.

    Args:
        end: the file.
    """

    bounded = True
    parallel = False
    output_type: Any = Types.LONG()

    def __init__(self, end: Path) -> None:
        self.end = end

    def splits(self, parallelism: int) -> list[Split]:
        """See Source."""
        return [Split("numbers", 0)]

    def reader(self, split: Split) -> Numbers:
        """See Source."""
        return self

    def read(self, position: int, max_records: int) -> Range:
        """See SplitReader."""
        end = int(self.end.read_text()) if self.end.exists() else None
        to = position + max_records if end is None else min(end, position + max_records)
        return Range(list(range(position, to)), to, to == end)


def counting(folder: Path, parallelism: int) -> JobGraph:
    """Numbers, counted by key; (key, count) goes to files, exactly once."""
    build = GraphBuilder(parallelism=parallelism, max_parallelism=16)
    numbers = build.source(Numbers(folder / "end"), uid="numbers")
    pairs = build.add(NodeKind.MAP, "pair", numbers, function=Pair())
    keyed = build.key_by(pairs, lambda pair: pair[0], Types.LONG())
    counts = build.process(keyed, Count(), uid="counts")
    build.add(NodeKind.SINK, "sink", counts, function=FolderSink(str(folder / "out")), uid="sink")
    return build.graph()


class Pair:
    """A number with its key."""

    def map(self, value: int) -> tuple[int, int]:
        """See MapFunction."""
        return value % KEYS, value


def version(folder: Path) -> int:
    """The newest version of the changelog; old ones are deleted now and then. -1 while there is none."""
    try:
        names = os.listdir(folder / "log" / "job" / "changelog" / "_delta_log")
    except FileNotFoundError:
        return -1
    return max((int(name.removesuffix(".json")) for name in names if name.endswith(".json")), default=-1)


def kill_drivers(folder: Path, kills: int, seed: int) -> None:
    """Start drivers and kill them: some while they start, most after they committed something."""
    import_the_rest()
    chance = random.Random(seed)
    for number in range(kills):
        parallelism = chance.randint(1, 3)
        driver = os.fork()
        if driver == 0:
            try:
                TestJob(folder / "log", Script(sizes=(50,))).run_driver(counting(folder, parallelism))
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        try:
            if number and chance.random() < 0.8:
                before, deadline = version(folder), time.monotonic() + _PATIENCE_S
                # Its attempt, and a checkpoint. One that ended by itself is noticed below.
                while version(folder) < before + 2 and time.monotonic() < deadline and not _ended(driver):
                    time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.05))
        finally:
            os.kill(driver, signal.SIGKILL)  # it would run for ever
            _, status = os.waitpid(driver, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise SystemExit(f"driver {number} ended by itself")


def _ended(process: int) -> bool:
    """Whether a child has ended; it can still be waited for."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


if __name__ == "__main__":
    kill_drivers(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
