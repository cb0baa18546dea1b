"""What the page says of a job's slowest part."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
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


@pytest.mark.parametrize("skips", [1, 3])
def test_no_way_goes_behind_a_box(skips: int) -> None:
    """Of a chain with a branch, whose first operators feed later ones as well."""
    uids = [f"op {number}" for number in range(12)]
    operators = [
        OperatorNow(uid, uid, "map", 1, None, False, None, None, None, None, False, None, None)
        for uid in uids
    ]
    ways = [*itertools.pairwise(uids[:-1]), ("op 2", "op 11"), ("op 11", "op 8")]
    ways += [(uids[number], uids[number + 1 + skips]) for number in range(0, 8, 2)]
    picture = draw_graph(operators, [OperatorEdge(there, here, there, "hash") for here, there in ways])
    assert picture is not None
    for edge in picture.edges:
        assert edge.path[0] == "M"
        begin, *parts = re.findall(r"([MCH])([-0-9. ]+)", edge.path)
        here = tuple(map(float, begin[1].split()))
        for kind, numbers in parts:
            given = [float(each) for each in numbers.split()]
            ends = [(given[0], here[1])] if kind == "H" else list(zip(given[::2], given[1::2], strict=True))
            points = [here, here, here, ends[0]] if kind == "H" else [here, *ends]
            for x, y in (_on_curve(points, step / 50) for step in range(1, 50)):
                assert 0 <= y <= picture.height
                for box in picture.boxes:
                    inside = 0 < x - box.x < picture.box_width and 0 < y - box.y < picture.box_height
                    assert not inside, f"{edge.path} goes behind {box.operator.uid}"
            here = ends[-1]


def _on_curve(points: Sequence[tuple[float, ...]], at: float) -> tuple[float, float]:
    """A point of a cubic Bezier curve."""
    weights = [(1 - at) ** 3, 3 * at * (1 - at) ** 2, 3 * at**2 * (1 - at), at**3]
    x, y = (sum(w * p[axis] for w, p in zip(weights, points, strict=True)) for axis in (0, 1))
    return x, y
