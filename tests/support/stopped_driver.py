"""A driver in a process of its own, to be stopped with SIGSTOP; its lock does not reach the others', as on another machine.

    python -m support.stopped_driver FOLDER END

It writes to FOLDER/out (files) and FOLDER/table (Delta) until it has read END numbers, and prints its checkpoints' ids.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

from api.common import Row
from api.common.typeinfo import Types
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.connectors import NumberSequenceSource
from changelog_engine.connectors.delta import DeltaSink
from changelog_engine.connectors.files import Rolling
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.ledger.ownership import DriverLock
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.part_files import sink_to
from support.script import Script

ROW = Types.ROW_NAMED(["n"], [Types.LONG()])


class AsRow:
    """A number as a row."""

    def map(self, value: int) -> Any:
        """See MapFunction."""
        return Row(value)


def into_files_and_a_table(folder: Path, end: int) -> JobGraph:
    """Numbers from 1 on, into both sinks."""
    build = GraphBuilder(parallelism=2, max_parallelism=16)
    numbers = build.source(NumberSequenceSource(1, end), uid="numbers")
    build.add(NodeKind.SINK, "files", numbers, function=sink_to(folder / "out", Rolling(40)), uid="files")
    rows = build.add(NodeKind.MAP, "rows", numbers, function=AsRow(), output_type=ROW)
    build.add(NodeKind.SINK, "table", rows, function=DeltaSink(str(folder / "table"), ROW), uid="table")
    return build.graph()


class Telling(TestJob):
    """Prints the id of each checkpoint."""

    def on_commit(self, checkpoint: Checkpoint) -> None:
        print(checkpoint.id, flush=True)


def run(folder: Path, end: int, sizes: tuple[int, ...] = (7,)) -> None:
    """Run a driver to the end, without a lock and without restarts."""
    job = Telling(folder / "log", Script(sizes=sizes), restart=NO_RESTART)
    with mock.patch.object(DriverLock, "acquire"):
        job.run_driver(into_files_and_a_table(folder, end))


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
