"""How a job is now: rates, checkpoints, operators and attempts, out of the rows of its last checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from changelog_engine.changelog.figures import storage_share
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.event_time import has_ended, moment_of
from changelog_engine.inspection.jobs import JobStatus
from changelog_engine.inspection.timeline import AttemptRow
from changelog_engine.readable import iso, per_second, size_text
from changelog_engine.ui.opened_job import OpenedJob
from changelog_engine.ui.operator_graph import GraphPicture, draw_graph

_LAST = 120  # checkpoints that rates and durations are shown of
_SPARK_WIDTH, _SPARK_HEIGHT = 240, 40
_ATTEMPTS = 30


class OperatorNow(NamedTuple):
    """An operator as it is drawn.

    Args:
        share: of the stages' work in the last checkpoint, if it begins a stage.
        slowest: whether it is the one that the others waited for.
        mutations: in a second.
        entries, bytes: of its state; None where not known.
        watermark: epoch milliseconds; None for none.
        ended: its input has ended.
        records, behind: of a source: read in a second; known to wait.
    """

    uid: str
    name: str
    kind: str
    parallelism: int
    share: float | None
    slowest: bool
    mutations: float | None
    entries: int | None
    bytes: int | None
    watermark: int | None
    ended: bool
    records: float | None
    behind: int | None

    @property
    def tip(self) -> str:
        """All that is known of it; its box has room for a part."""
        lines = [self.name, f"uid {self.uid}"]
        if self.behind is not None:
            lines.append(f"{self.behind:,} elements behind")
        if self.mutations is not None:
            lines.append(f"{per_second(self.mutations)} mutations/s")
        if self.bytes is not None:
            lines.append(f"state {size_text(self.bytes)}")
        if self.ended:
            lines.append("input ended")
        elif self.watermark is not None:
            lines.append(f"watermark {iso(self.watermark)} UTC")
        return "\n".join(lines)


@dataclass(frozen=True)
class Now:
    """How a job is.

    Args:
        rate: elements read in a second, at the newest checkpoint.
        rates, durations: paths of small curves of the last checkpoints, oldest first.
        p50_ms, p99_ms, longest_ms: of those checkpoints' durations; None for none.
        of: how many these are.
        lag: elements that are known to wait; None when not known.
        operators: in the plan's order.
        graph: how they are connected; None where that was not noted, or does not fit them.
        slowest: name of the slowest; None where the storage is slower.
        storage: the share of the time that it took, where that is more than all operators' work; else None.
        attempts: newest first.
        times: where the time of the last checkpoint's epochs went: (part, ms, share).
    """

    rate: float | None
    rates: str
    durations: str
    p50_ms: float | None
    p99_ms: float | None
    longest_ms: float | None
    of: int
    lag: int | None
    operators: tuple[OperatorNow, ...]
    graph: GraphPicture | None
    slowest: str | None
    storage: float | None
    attempts: tuple[AttemptRow, ...]
    times: tuple[tuple[str, float, float], ...]


def now_of(job: OpenedJob, status: JobStatus) -> Now:
    """How a job is now.

    Args:
        job: as its log is.
        status: of it, with a newest checkpoint.
    """
    newest = status.newest
    assert newest is not None
    places = [
        place for place in range(max(0, len(job.rows) - _LAST), len(job.rows)) if job.rows[place].on_line
    ]
    details = [detail for detail in job.details(places) if detail is not None]
    durations = [detail.duration_ms for detail in details]
    rates = [0.0 if detail.rate is None else detail.rate for detail in details]
    p50, p99 = (float(each) for each in np.percentile(durations, [50, 99])) if durations else (None, None)
    storage = storage_share(newest.figures.get("times_ms", {}), float(newest.figures.get("elapsed_ms") or 0))
    operators = _operators(newest, marked=storage is None)
    behind = [each.behind for each in operators if each.kind == "source"]
    times = {part: float(ms) for part, ms in newest.figures.get("times_ms", {}).items()}
    total = sum(times.values())
    return Now(
        details[-1].rate if details else None,
        _curve(rates),
        _curve([float(each) for each in durations]),
        p50,
        p99,
        max(durations, default=None),
        len(durations),
        sum(each or 0 for each in behind) if behind and None not in behind else None,
        tuple(operators),
        draw_graph(operators, status.edges),
        next((each.name for each in operators if each.slowest), None),
        storage,
        tuple(reversed(job.timeline.attempts[-_ATTEMPTS:])),
        tuple((part, ms, ms / total if total else 0.0) for part, ms in times.items()),
    )


def _operators(checkpoint: Checkpoint, marked: bool) -> list[OperatorNow]:
    figures = checkpoint.figures
    stages: Mapping[str, Sequence[Any]] = figures.get("stages", {})
    busy = {uid: float(stage[0]) for uid, stage in stages.items()}
    total = sum(busy.values())
    slowest = max(busy, key=busy.__getitem__, default=None) if total > 0 and marked else None
    seconds = float(figures.get("elapsed_ms") or 0) / 1000
    found = []
    for operator in checkpoint.operators:
        uid = operator["uid"]
        mutations = figures.get("mutations", {}).get(uid)
        source: Sequence[Any] | None = figures.get("sources", {}).get(uid)
        sizes = figures.get("sizes", {}).get(uid)
        mark = stages[uid][1] if uid in stages else None if source is None else source[2]
        found.append(
            OperatorNow(
                uid,
                operator.get("name", uid),
                operator.get("kind", ""),
                operator.get("parallelism", 1),
                busy[uid] / total if uid in busy and total else None,
                uid == slowest,
                sum(mutations.values()) / seconds if mutations is not None and seconds else None,
                *_size(sizes),
                moment_of(mark),
                has_ended(mark),
                float(source[0]) / seconds if source is not None and seconds else None,
                None if source is None else source[1],
            )
        )
    return found


def _size(sizes: Mapping[str, Sequence[int | None]] | None) -> tuple[int | None, int | None]:
    if not sizes:
        return None, None
    entries, size = ([each[index] for each in sizes.values()] for index in (0, 1))
    return (
        None if None in entries else sum(each or 0 for each in entries),
        None if None in size else sum(each or 0 for each in size),
    )


def _curve(values: Sequence[float]) -> str:
    """A path over the width of a small picture; empty for fewer than two values."""
    if len(values) < 2:
        return ""
    most = max(max(values), 1e-9)
    step = _SPARK_WIDTH / (len(values) - 1)
    points = [
        f"{index * step:.1f} {_SPARK_HEIGHT - 2 - value / most * (_SPARK_HEIGHT - 4):.1f}"
        for index, value in enumerate(values)
    ]
    return "M" + "L".join(points)
