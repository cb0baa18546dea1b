"""How a job is now: rates, checkpoints, operators and attempts, out of the rows of its last checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from changelog_engine.changelog.figures import storage_share
from changelog_engine.inspection.jobs import JobStatus
from changelog_engine.inspection.timeline import AttemptRow
from changelog_engine.ui.opened_job import OpenedJob
from changelog_engine.ui.operator_graph import GraphPicture, draw_graph
from changelog_engine.ui.operator_now import OperatorNow, operators_now

_LAST = 120  # checkpoints that rates and durations are shown of
_SPARK_WIDTH, _SPARK_HEIGHT = 240, 40
_ATTEMPTS = 30


@dataclass(frozen=True)
class Now:
    """How a job is.

    Args:
        rate: elements read in a second, at the newest checkpoint.
        rates, durations: paths of small curves of the last checkpoints, oldest first.
        p50_ms, p99_ms: of those checkpoints' durations; None for none.
        lag: elements that are known to wait; None when not known.
        operators: in the plan's order.
        graph: how they are connected; None where that was not noted, or does not fit them.
        slowest: name of the slowest; None where the storage is slower.
        storage: the share of the time that it took, where that is more than all operators' work; else None.
        times: where the time of the last checkpoint's epochs went: (part, ms, share).
    """

    rate: float | None
    rates: str
    durations: str
    p50_ms: float | None
    p99_ms: float | None
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
    operators = operators_now(newest, marked=storage is None)
    behind = [each.behind for each in operators if each.kind == "source"]
    times = {part: float(ms) for part, ms in newest.figures.get("times_ms", {}).items()}
    total = sum(times.values())
    return Now(
        details[-1].rate if details else None,
        _curve(rates),
        _curve([float(each) for each in durations]),
        p50,
        p99,
        len(durations),
        sum(each or 0 for each in behind) if behind and None not in behind else None,
        tuple(operators),
        draw_graph(operators, status.edges),
        next((each.name for each in operators if each.slowest), None),
        storage,
        tuple(reversed(job.timeline.attempts[-_ATTEMPTS:])),
        tuple((part, ms, ms / total if total else 0.0) for part, ms in times.items()),
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
