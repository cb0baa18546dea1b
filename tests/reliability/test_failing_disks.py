"""Reliability 12: any call to the disk may fail, for a moment or for longer, with whatever a disk gives as a reason.

Invariants:
    * A run ends well, or with an error of the engine's; with a disk that works again the job goes on by itself or when it is
      run again, and its state and what its sinks have are exact.
    * Nothing is damaged.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from support.chance import chosen_seed
from support.failing_disk import FailingDisk
from support.functions import Count, counted, rounds
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.live import logged_state
from support.materialized import AT_ONCE, merging_few
from support.part_files import bucket_of, lines, sink_to
from support.script import Script
from test_power_cuts import KEEPS, counts, short_logs

from api.common.typeinfo import Types
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.connectors.delta.sink import DeltaSink
from changelog_engine.connectors.files import ElementBuckets, Rolling
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.nodes import NodeKind, RestartKind, RestartSettings
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.verification.verify import verify
from materializer.materialize import materialize
from materializer.truncation import truncate

ELEMENTS = rounds(4, 40)
ROW = Types.ROW_NAMED(["k", "c"], [Types.LONG(), Types.LONG()])
RUNS = 10
pytestmark = pytest.mark.filterwarnings("ignore:.*inprogress:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _short_logs() -> Iterator[None]:
    with short_logs():
        yield


class Upkept(TestJob):
    """Materializes, truncates and merges after some checkpoints."""

    def on_commit(self, checkpoint: Checkpoint) -> None:
        """See TestJob."""
        folder = find_job_folder(self.settings.base_path, "job")
        try:
            if checkpoint.id % 2 == 0:
                materialize(folder)
            if checkpoint.id % 3 == 2:
                with merging_few():
                    retention = AT_ONCE if checkpoint.id == 8 else KEEPS
                    truncate(folder, retention, lambda: checkpoint.time_ms / 1000)
        except ChangelogEngineError:
            pass  # as in the schedule: the next round does it


def graph(out: Path) -> Any:
    build = GraphBuilder(parallelism=2, max_parallelism=16)
    keyed = build.key_by(build.source(ELEMENTS, uid="source"), lambda element: element[0], Types.LONG())
    counts_ = build.process(keyed, Count(), uid="process")
    files = sink_to(out / "files", Rolling(30), buckets=ElementBuckets(lambda row: bucket_of(str(row[0]))))
    for uid, sink in (("files", files), ("delta", DeltaSink(str(out / "table"), ROW))):
        build.add(NodeKind.SINK, uid, counts_, function=sink, uid=uid)
    return build.graph()


@pytest.mark.parametrize("number", range(3))
def test_case_12_any_call_to_the_disk_may_fail(tmp_path: Path, number: int) -> None:
    chance = random.Random(chosen_seed() * 100 + number)
    settings = {
        "changelog": chance.random() < 0.7,
        "local_recovery": chance.random() < 0.5,
        "tolerable_failures": chance.choice([0, 3]),
    }
    disk = FailingDisk(str(tmp_path), chance, chance.choice([0.001, 0.003]))
    job = Upkept(
        tmp_path / "jobs",
        Script(sizes=(4,)),
        restart=RestartSettings(RestartKind.FIXED_DELAY, attempts=10**6, delay_ms=0),
        same_failure_limit=0,
        **settings,
    )
    told: list[str] = []
    with disk.mounted():
        for run in range(RUNS):
            if run == RUNS - 1:
                disk.heal()
            try:
                job.run(graph(tmp_path), restore="latest")
                break
            except ChangelogEngineError as error:
                told.append(str(error))
        disk.heal()
    assert disk.failed
    assert len(told) < RUNS, told[-1]
    assert [message for message in told if str(tmp_path) not in message] == []
    assert logged_state(job.settings.base_path)["process", "count"] == counts(len(ELEMENTS))
    assert lines(tmp_path / "files") == Counter(map(str, counted(ELEMENTS)))
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == sorted(counted(ELEMENTS))
    assert verify(find_job_folder(job.settings.base_path, "job")).faults == []
