"""The graph of a job's operators as it is drawn: from left to right, each one behind those that feed it.

Invariant: no way goes behind a box. One that boxes are in the way of goes between two rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from changelog_engine.ledger.attempt_notes import OperatorEdge
from changelog_engine.ui.operator_now import OperatorNow

MOST_OPERATORS = 200  # more are a list

_BOX_WIDTH, _BOX_HEIGHT = 196, 114
_GAP_X, _GAP_Y, _EDGE = 58, 14, 4
_CHAIN = "chain"


class OperatorBox(NamedTuple):
    """An operator in its place."""

    operator: OperatorNow
    x: int
    y: int
    in_slowest: bool


class DrawnEdge(NamedTuple):
    """A way between two of them."""

    path: str
    arrow: str
    exchange: str  # how receiving subtasks are chosen; "" within a stage
    x: float
    y: float


class GraphPicture(NamedTuple):
    """The whole, in pixels."""

    width: int
    height: int
    box_width: int
    box_height: int
    boxes: list[OperatorBox]
    edges: list[DrawnEdge]


def draw_graph(operators: Sequence[OperatorNow], edges: Sequence[OperatorEdge]) -> GraphPicture | None:
    """Where operators and edges are drawn; None where the edges do not belong to the operators, or where these are too many.

    Args:
        operators: of the newest checkpoint, in the plan's order.
        edges: of the newest attempt.
    """
    uids = [each.uid for each in operators]
    known = set(uids)
    if not edges or len(operators) > MOST_OPERATORS:
        return None
    if any(edge.source not in known or edge.target not in known for edge in edges):
        return None  # the program was changed, and has made no checkpoint yet
    before: dict[str, list[str]] = {uid: [] for uid in uids}
    for edge in edges:
        before[edge.target].append(edge.source)
    column = _columns(uids, before)
    if column is None:
        return None
    rows = _rows(uids, before, column)
    place = {
        uid: (_EDGE + column[uid] * (_BOX_WIDTH + _GAP_X), _EDGE + rows[uid] * (_BOX_HEIGHT + _GAP_Y))
        for uid in uids
    }
    taken = {(column[uid], rows[uid]) for uid in uids}
    drawn = [
        _edge(place[edge.source], place[edge.target], edge.exchange, _lane(edge, column, rows, taken))
        for edge in edges
    ]
    stage_of = {uid: uid for uid in uids} | {edge.target: edge.stage for edge in edges}
    slowest = next((each.uid for each in operators if each.slowest), None)
    return GraphPicture(
        2 * _EDGE + (max(column.values()) + 1) * (_BOX_WIDTH + _GAP_X) - _GAP_X,
        2 * _EDGE + (max(rows.values()) + 1) * (_BOX_HEIGHT + _GAP_Y),
        _BOX_WIDTH,
        _BOX_HEIGHT,
        [OperatorBox(each, *place[each.uid], stage_of[each.uid] == slowest) for each in operators],
        drawn,
    )


def _columns(uids: Sequence[str], before: dict[str, list[str]]) -> dict[str, int] | None:
    """The length of the longest way to each operator; None where there is a circle, which no job has."""
    column: dict[str, int] = {}
    for _ in uids:
        for uid in uids:
            if uid not in column and all(each in column for each in before[uid]):
                column[uid] = max((column[each] + 1 for each in before[uid]), default=0)
        if len(column) == len(uids):
            return column
    return None


def _rows(uids: Sequence[str], before: dict[str, list[str]], column: dict[str, int]) -> dict[str, int]:
    """A row for each operator, near those that feed it; no two of a column share one."""
    row: dict[str, int] = {}
    for number in range(max(column.values()) + 1):
        mine = [uid for uid in uids if column[uid] == number]
        wished = {
            uid: sum(row[each] for each in before[uid]) / len(before[uid]) if before[uid] else 0.0
            for uid in mine
        }
        free = 0
        for uid in sorted(mine, key=wished.__getitem__):
            row[uid] = free = max(free, int(wished[uid]))
            free += 1
    return row


def _lane(
    edge: OperatorEdge, column: dict[str, int], row: dict[str, int], taken: set[tuple[int, int]]
) -> int | None:
    """The height at which a way passes the boxes that are between its ends, beside the row of its target; None for none."""
    above, below = sorted((row[edge.source], row[edge.target]))
    between = range(column[edge.source] + 1, column[edge.target])
    if not any((x, y) in taken for x in between for y in range(above, below + 1)):
        return None
    under = row[edge.source] >= row[edge.target]
    return _EDGE + (row[edge.target] + under) * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y // 2


def _edge(begin: tuple[int, int], end: tuple[int, int], exchange: str, lane: int | None) -> DrawnEdge:
    x1, y1 = begin[0] + _BOX_WIDTH, begin[1] + _BOX_HEIGHT // 2
    x2, y2 = end[0], end[1] + _BOX_HEIGHT // 2
    middle = _GAP_X / 2
    comes_from = y1 if lane is None else lane
    # A way over other columns ends beside the one from the column before: their words stand on two lines.
    apart = 0 if comes_from == y2 else 30 if comes_from > y2 else -12
    way = "" if lane is None else f"C{x1 + middle:.0f} {y1} {x1 + middle:.0f} {lane} {x1 + _GAP_X} {lane}"
    way += "" if lane is None else f"H{x2 - _GAP_X}"
    last = x1 + middle if lane is None else x2 - middle
    return DrawnEdge(
        f"M{x1} {y1}{way}C{last:.0f} {comes_from} {x2 - middle:.0f} {y2} {x2 - 2} {y2}",
        f"M{x2 - 8} {y2 - 4}l7 4l-7 4z",
        "" if exchange == _CHAIN else exchange,
        x2 - middle,
        (y1 + y2) / 2 - 6 if x2 - x1 <= _GAP_X else y2 - 6 + apart,
    )
