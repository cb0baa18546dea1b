"""What the page says of a job's slowest part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import TestJob

from api.common.typeinfo import Types
from changelog_engine.inspection.jobs import job_status
from changelog_engine.ledger.attempt_notes import OperatorEdge
from changelog_engine.ui.now import now_of
from changelog_engine.ui.opened_job import OpenedJob
from changelog_engine.ui.operator_graph import draw_graph
from changelog_engine.ui.operator_now import OperatorNow


@pytest.mark.parametrize(
    ("times_ms", "slowest", "storage"),
    [
        ({"process": 300.0, "write": 500.0, "commit": 150.0, "wait": 50.0}, None, 0.65),
        ({"process": 800.0, "write": 150.0, "commit": 50.0}, "process", None),
        ({"process": 1.0, "write": 30.0, "commit": 20.0, "wait": 949.0}, "process", None),
    ],
)
def test_slow_storage_is_no_operators_fault(
    tmp_path: Path, times_ms: dict[str, float], slowest: str | None, storage: float | None
) -> None:
    TestJob(tmp_path).run_driver(keyed_job([("a", 1)], Count(), key_type=Types.STRING()))
    path = f"{tmp_path}/job"
    status = job_status(path)
    assert status.newest is not None
    stages = {"source": (1.0, None), "process": (3.0, None)}
    figures = {**status.newest.figures, "times_ms": times_ms, "elapsed_ms": 1000, "stages": stages}
    found = now_of(OpenedJob(path), replace(status, newest=replace(status.newest, figures=figures)))
    assert (found.slowest, found.storage) == (slowest, storage)


def test_words_at_ways_to_one_operator_do_not_lie_on_each_other() -> None:
    """As of a broadcast function, whose rules come over other columns than its events."""
    operators = [
        OperatorNow(uid, uid, "map", 1, None, False, None, None, None, None, False, None, None)
        for uid in ("events", "parse", "rules", "fraud")
    ]
    ways = [
        ("events", "parse", "chain"),
        ("parse", "fraud", "hash"),
        ("rules", "fraud", "broadcast"),
    ]
    picture = draw_graph(
        operators, [OperatorEdge(target, source, target, how) for source, target, how in ways]
    )
    assert picture is not None
    words = {edge.exchange: edge for edge in picture.edges}
    assert words["hash"].x == words["broadcast"].x
    assert abs(words["hash"].y - words["broadcast"].y) >= 12
