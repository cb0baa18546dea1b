"""Pictures as data: where the marks of a timeline and of a key's life stand. Templates print them as SVG.

Invariant: a picture has at most a few hundred marks, however many checkpoints it shows: where they are more than columns of
pixels, a column stands for several, and what happened in one (a kill, a rewind, a snapshot) is never left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from changelog_engine.inspection.key_history import KeyChange
from changelog_engine.inspection.timeline import (
    CANCELLED,
    ENDED,
    FAILED,
    IMPORTED,
    KILLED,
    REWOUND,
    UNREADABLE,
    CheckpointRow,
)
from changelog_engine.ledger.attempt_notes import FINISHED, STOPPED
from changelog_engine.readable import amount, duration, iso, per_second, size_text
from changelog_engine.ui.opened_job import Detail, OpenedJob
from changelog_engine.ui.tree import Run, Tree

EDGE = 14  # left and right of the plot
_COLUMN = 4  # least width of a column, pixels
_LANE = 22
_MOST_LANES = 8
_STRIP = 44
_DOT = 4.5
_MOST_RUNS = 1_500
_MINUTE_MS = 60_000


class Dot(NamedTuple):
    """A checkpoint of its own on the graph."""

    x: float
    y: float
    kind: str
    tip: str


class Column(NamedTuple):
    """A column of the plot: what it stands for, and what it says when pointed at."""

    x: float
    width: float
    at: int
    tip: str


class Strip(NamedTuple):
    """Bars under the graph, each column's highest."""

    name: str
    y: float
    path: str
    most: str


class Tick(NamedTuple):
    """A labelled place on the axis."""

    x: float
    label: str
    anchor: str


@dataclass(frozen=True)
class TimelinePicture:
    """The timeline of a stretch of checkpoints."""

    width: int
    height: float
    first: int
    last: int
    lines: tuple[tuple[str, str], ...]  # path, class
    dots: tuple[Dot, ...]
    columns: tuple[Column, ...]
    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    labels: tuple[Tick, ...]
    hidden_lanes: int


class Scale:
    """Places to pixels, from the first to the last place, both shown."""

    def __init__(self, first: int, last: int, width: int) -> None:
        self.first, self.last = first, last
        self.step = (width - 2 * EDGE) / max(1, last - first)

    def x(self, place: float) -> float:
        """Where a place is."""
        return round(EDGE + (place - self.first) * self.step, 1)


Details = Callable[[Sequence[int]], Sequence[Detail | None]]


def draw_timeline(
    tree: Tree, rows: Sequence[CheckpointRow], details: Details, first: int, last: int, width: int
) -> TimelinePicture:
    """The timeline from one place to another, both inclusive.

    Args:
        rows: all checkpoints by place, without sizes.
        details: places to checkpoints with durations and sizes.
        width: in pixels.
    """
    scale = Scale(first, last, width)
    shown_lanes = min(tree.lanes, _MOST_LANES)
    y_of = [16.0 + min(lane, _MOST_LANES - 1) * _LANE for lane in range(max(tree.lanes, 1))]
    graph_height = 16 + shown_lanes * _LANE
    runs = [run for run in tree.runs if run.last >= first and (run.parent or run.first) <= last][:_MOST_RUNS]
    lines = [line for run in runs for line in _lines(run, tree, scale, y_of)]
    count = last - first + 1
    columns_wanted = max(1, min(count, int((width - 2 * EDGE) / _COLUMN)))
    bounds = np.linspace(first, last + 1, columns_wanted + 1).astype(int)
    cells = [(int(low), int(high) - 1) for low, high in itertools.pairwise(bounds) if high > low]
    read = details([high for _, high in cells])
    dots = _dots(tree, rows, cells, scale, y_of)
    columns, values = _columns(cells, read, scale, rows)
    strips = []
    for index, (name, shown) in enumerate(
        (("duration", duration), ("size", size_text), ("records/s", per_second))
    ):
        y = graph_height + 8 + index * (_STRIP + 14)
        heights = [each[index] for each in values]
        strips.append(_strip(name, y, columns, heights, shown))
    height = graph_height + 8 + 3 * (_STRIP + 14) + 18
    return TimelinePicture(
        width,
        height,
        first,
        last,
        tuple(lines),
        tuple(dots),
        tuple(columns),
        tuple(strips),
        tuple(_ticks(rows, scale, width)),
        tuple(_labels(runs, scale, y_of, width)),
        max(0, tree.lanes - _MOST_LANES),
    )


def timeline_values(job: OpenedJob, at: int, first: int, last: int, width: int) -> dict[str, Any]:
    """What the template of the timeline shows, at a width in pixels."""
    tree, rows = job.tree, job.rows
    return {
        "picture": draw_timeline(tree, rows, job.details, first, last, width),
        "count": len(rows),
        "spans": ",".join(":".join(str(n) for n in span) for span in tree.spans()),
        "first_id": rows[first].id,
        "last_id": rows[last].id,
        "at": at,
        "at_time": _time(rows[tree.nearest(at)]),
        "faults": job.timeline.faults,
        "attempts": len(job.timeline.attempts),
        "branches": tree.lanes - 1,
    }


def _lines(run: Run, tree: Tree, scale: Scale, y_of: Sequence[float]) -> list[tuple[str, str]]:
    y = y_of[run.lane]
    low, high = max(run.first, scale.first), min(run.last, scale.last)
    kind = "main" if run.lane == 0 else "branch"
    found = []
    if high > low:
        found.append((f"M{scale.x(low)} {y}H{scale.x(high)}", kind))
    if run.parent is not None and run.first >= scale.first:
        above = y_of[tree.lane(run.parent)]
        begin, end = scale.x(max(run.parent, scale.first - 1)), scale.x(min(run.first, scale.last + 1))
        bend = min(16.0, (end - begin) / 2)
        rewound = run.parent != run.first - 1
        shape = f"M{begin} {above}H{end}" if above == y else (
            f"M{begin} {above}C{begin + bend} {above} {begin + bend / 2:.1f} {y} {begin + bend * 1.5:.1f} {y}H{end}"
        )  # fmt: skip
        found.append((shape, f"{kind} rewind" if rewound else kind))
    return found


_KINDS = {
    **dict.fromkeys((ENDED, FAILED, KILLED, CANCELLED), "killed"),
    REWOUND: "rewound",
    IMPORTED: "imported",
    FINISHED: "finished",
    STOPPED: "stopped",
}
_WEIGHT = {"killed": 0, "rewound": 1, "imported": 1, "finished": 2, "stopped": 2, "snapshot": 3}


def kind_of(row: CheckpointRow) -> str:
    """What is told first of a checkpoint."""
    kinds = [_KINDS[mark] for mark in row.marks if mark in _KINDS]
    kinds += ["snapshot"] if row.materialized else []
    return min(kinds, key=_WEIGHT.__getitem__, default="plain")


def _dots(
    tree: Tree,
    rows: Sequence[CheckpointRow],
    cells: Sequence[tuple[int, int]],
    scale: Scale,
    y_of: Sequence[float],
) -> list[Dot]:
    single = scale.step >= 2 * _DOT
    found, taken = [], set()
    for low, high in cells:
        for place in range(low, high + 1):
            kind = kind_of(rows[place])
            y = y_of[tree.lane(place)] if single or kind != "plain" else 0
            if kind == "plain" and not single:
                continue
            if (low, y, kind) in taken:
                continue
            taken.add((low, y, kind))
            found.append(Dot(scale.x(place), y, kind, _about(rows[place])))
    return found


def _about(row: CheckpointRow) -> str:
    words = [f"checkpoint {row.id}, attempt {row.attempt}", *row.marks]
    words += ["snapshot"] if row.materialized else []
    return ", ".join([*words, UNREADABLE] if row.lost else words)


def _time(row: CheckpointRow) -> str:
    return UNREADABLE if row.time_ms is None else f"{iso(row.time_ms)} UTC"


def _columns(
    cells: Sequence[tuple[int, int]],
    read: Sequence[Detail | None],
    scale: Scale,
    rows: Sequence[CheckpointRow],
) -> tuple[list[Column], list[tuple[float, float, float]]]:
    columns, values = [], []
    for (low, high), detail in zip(cells, read, strict=True):
        row = rows[high]
        begin, end = scale.x(low - 0.5), scale.x(high + 0.5)
        tip = [_about(row) if low == high else f"checkpoints {rows[low].id} to {row.id}; of the last:"]
        if detail is None:
            values.append((0.0, 0.0, 0.0))
            tip += [] if row.lost and low == high else [UNREADABLE]
        else:
            values.append((float(detail.duration_ms), float(detail.bytes), detail.rate or 0.0))
            rate = "" if detail.rate is None else f", {per_second(detail.rate)} records/s"
            rows_are = detail.rows_are.removesuffix("s") if detail.rows == 1 else detail.rows_are
            tip += [
                _time(row),
                f"{duration(detail.duration_ms)}, {size_text(detail.bytes)}, {amount(detail.rows)} {rows_are}{rate}",
            ]
        columns.append(Column(begin, round(max(end - begin, 1), 1), row.id, "\n".join(tip)))
    return columns, values


def _strip(
    name: str, y: float, columns: Sequence[Column], heights: Sequence[float], shown: Callable[[float], str]
) -> Strip:
    most = max(heights, default=0)
    path = []
    if most > 0:
        for column, value in zip(columns, heights, strict=True):
            tall = round(max(value / most * _STRIP, 1.0 if value else 0.0), 1)
            if tall:
                wide = round(max(column.width - 1, 0.8), 1)
                path.append(f"M{column.x} {y + 10 + _STRIP}v-{tall}h{wide}v{tall}z")
    return Strip(name, y, "".join(path), shown(most))


def _ticks(rows: Sequence[CheckpointRow], scale: Scale, width: int) -> list[Tick]:
    wanted = max(2, width // 170)
    count = scale.last - scale.first
    step = max(1, math.ceil(count / wanted))
    places = range(scale.first, scale.last + 1, step)
    times = [time for place in places if (time := rows[place].time_ms) is not None]
    close = len(times) > 1 and (max(times) - min(times)) / (len(times) - 1) < _MINUTE_MS
    found = []
    for place in places:
        x = scale.x(place)
        anchor = "start" if x < 60 else "end" if x > width - 60 else "middle"
        when = _time(rows[place])[slice(11, 19) if close else slice(5, 16)]
        label = str(rows[place].id) if rows[place].lost else f"{rows[place].id} · {when}"
        found.append(Tick(x, label, anchor))
    if len(found) > 1 and found[-1].x > width - 70 and found[-1].x - found[-2].x < 150:
        found.pop()
    return found


def _labels(runs: Sequence[Run], scale: Scale, y_of: Sequence[float], width: int) -> list[Tick]:
    found = []
    free: dict[float, float] = {}
    for run in runs:
        x, y = scale.x(max(run.first, scale.first)), y_of[run.lane]
        if x >= free.get(y, 0) and x < width - 30 and (run.last - run.first) * scale.step > 24:
            found.append(Tick(x, f"#{run.attempt}", str(y - 7)))
            free[y] = x + 40
    return found


class Mark(NamedTuple):
    """A change on the axis of a key's life."""

    x: float
    y: float
    kind: str
    tip: str
    at: int


class Lane(NamedTuple):
    """A state on the axis of a key's life."""

    y: float
    name: str


@dataclass(frozen=True)
class LifePicture:
    """A key's changes across operators on one time axis."""

    width: int
    height: float
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    flags: tuple[Mark, ...]
    ticks: tuple[Tick, ...]


def draw_life(changes: Sequence[KeyChange], say: Callable[[KeyChange], str], width: int) -> LifePicture:
    """A key's life.

    Args:
        changes: in their order.
        say: what a change says when pointed at.
        width: in pixels.
    """
    names = list(dict.fromkeys((each.operator, each.state) for each in changes))
    times = [each.time_ms for each in changes if each.time_ms is not None]
    begin, end = (min(times), max(times)) if times else (0, 0)
    span = max(1, end - begin)
    plot = width - 2 * EDGE
    y_of = {name: 34.0 + 40 * index for index, name in enumerate(names)}
    marks: list[Mark] = []
    flags: list[Mark] = []
    taken = set()
    for change in changes:
        x = round(EDGE + plot * ((change.time_ms or begin) - begin) / span, 1)
        y = y_of[change.operator, change.state]
        if change.kind == "timer":
            kind = "set" if change.after is not None else "gone"
        else:
            kind = "added" if change.before is None else "removed" if change.after is None else "changed"
        if (round(x / 3), y, kind) in taken:
            continue
        taken.add((round(x / 3), y, kind))
        (flags if change.kind == "timer" else marks).append(Mark(x, y, kind, say(change), change.checkpoint))
    wanted = max(2, width // 200)
    ticks = []
    for index in range(wanted + 1):
        x = round(EDGE + plot * index / wanted, 1)
        anchor = "start" if index == 0 else "end" if index == wanted else "middle"
        ticks.append(Tick(x, iso(begin + span * index / wanted)[5:19], anchor))
    lanes = tuple(Lane(y, f"{operator} · {state}") for (operator, state), y in y_of.items())
    return LifePicture(width, 40.0 * len(names) + 40, lanes, tuple(marks), tuple(flags), tuple(ticks))
