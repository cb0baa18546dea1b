"""The checkpoints as a graph: lanes, branches, and a picture whose size does not grow with the job."""

from __future__ import annotations

import pytest

from changelog_engine.inspection.timeline import CheckpointRow
from changelog_engine.ui.drawing import draw_timeline
from changelog_engine.ui.opened_job import Detail
from changelog_engine.ui.tree import Run, build_tree


def test_a_branch_that_a_rewind_left_lies_beside_the_newest_ones_lineage():
    # 1 2 3 4 5 | rewound to 2: 6 7 | rewound to 4, on the branch that was left: 8
    tree = build_tree([1, 2, 3, 4, 5, 6, 7, 8], [1, 1, 1, 1, 1, 2, 2, 3], [None, 1, 2, 3, 4, 2, 6, 4])
    assert tree.runs == (
        Run(0, 3, 1, 0, None),
        Run(4, 4, 1, 1, 3),
        Run(5, 6, 2, 2, 1),
        Run(7, 7, 3, 0, 3),
    )
    assert tree.lanes == 3
    assert [tree.lane(place) for place in range(8)] == [0, 0, 0, 0, 1, 2, 2, 0]


def test_branches_beside_each_other_share_a_lane_and_those_above_each_other_do_not():
    tree = build_tree([1, 2, 3, 4, 5, 6], [1, 1, 2, 2, 3, 3], [None, 1, 1, 3, 3, 5])
    lanes = {(run.attempt, run.first): run.lane for run in tree.runs}
    assert lanes == {(1, 0): 0, (1, 1): 1, (2, 2): 0, (2, 3): 1, (3, 4): 0}


def test_truncated_ids_have_spans_and_a_parent_that_is_not_there_is_none():
    tree = build_tree([5, 6, 9, 10], [1, 1, 1, 1], [4, 5, 8, 9])
    assert tree.spans() == [(0, 5, 2), (2, 9, 2)]
    assert [run.parent for run in tree.runs] == [None, None]
    assert (tree.place(7), tree.place(9), tree.nearest(8), tree.nearest(1)) == (None, 2, 1, 0)


def test_no_checkpoints():
    tree = build_tree([], [], [])
    assert (tree.runs, tree.spans(), tree.lanes) == ((), [], 1)


def test_a_hundred_thousand_checkpoints_are_a_few_hundred_marks_and_no_kill_is_left_out():
    count, killed = 100_000, {40_000, 40_002, 70_000}
    rows = [
        CheckpointRow(
            n, 1, n - 1 or None, n * 1000, True, n == 9, ("killed or failed",) if n in killed else ()
        )
        for n in range(1, count + 1)
    ]
    tree = build_tree([row.id for row in rows], [row.attempt for row in rows], [row.parent for row in rows])
    asked: list[int] = []

    def details(places: list[int]) -> list[Detail]:
        asked.extend(places)
        return [Detail(7, 10, "mutations", 100, 5.0)] * len(places)

    whole = draw_timeline(tree, rows, details, 0, count - 1, 1200)
    assert len(whole.columns) == len(asked) <= 300
    assert asked[-1] == count - 1
    kinds = [dot.kind for dot in whole.dots]
    assert (kinds.count("killed"), kinds.count("snapshot"), kinds.count("plain")) == (
        2,
        1,
        0,
    )  # two share a column
    near = draw_timeline(tree, rows, details, 39_990, 40_009, 1200)
    assert [dot.kind for dot in near.dots].count("killed") == 2
    assert len(near.dots) == 20


@pytest.mark.parametrize(
    ("apart_ms", "labels"),
    [
        (1_000, ["1 · 00:00:01", "2 · 00:00:02", "3 · 00:00:03"]),
        (3_600_000, ["1 · 01-01 01:00", "2 · 01-01 02:00", "3 · 01-01 03:00"]),
    ],
)
def test_times_on_the_axis_differ_where_those_of_checkpoints_do(apart_ms, labels):
    rows = [CheckpointRow(n, 1, n - 1 or None, n * apart_ms, True, False, ()) for n in (1, 2, 3)]
    tree = build_tree([1, 2, 3], [1, 1, 1], [None, 1, 2])
    picture = draw_timeline(tree, rows, lambda places: [None] * len(places), 0, 2, 1200)
    assert [tick.label for tick in picture.ticks] == labels
