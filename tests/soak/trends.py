"""Is a series flat? Slopes with their errors, a verdict, and a page with a plot for each."""

from __future__ import annotations

import html
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

BINS = 12  # neighbours in time are alike, so a slope's error counts medians of so many pieces, not samples
TOLERATED = 0.02  # of the level, an hour
SURE = 2.0  # errors of the slope
_LEAST = {
    "bytes": 2.0 * 2**20,
    "": 2.0,
}  # growth an hour that is nobody's trouble, however small the level is

Verdict = Literal["flat", "grows", "cannot tell"]


@dataclass
class Samples:
    """Series over seconds; a series may miss some times.

    Args:
        columns: name to pairs of seconds and value.
    """

    columns: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, at: float, values: dict[str, float]) -> None:
        """Add what was seen at a time."""
        for name, value in values.items():
            self.columns.setdefault(name, []).append((at, value))


class Trend(NamedTuple):
    """What a series does after the warm-up.

    Args:
        name: of the series.
        level: its median.
        slope, error: growth an hour and its standard error.
        intercept: of the line, at second 0.
        since: where the line begins, in seconds.
        verdict: see ``verdict``.
    """

    name: str
    level: float
    slope: float
    error: float
    intercept: float
    since: float
    verdict: Verdict

    def sentence(self) -> str:
        """The trend for people."""
        unit = 2**20 if self.name.endswith("bytes") else 1
        name = self.name.replace("bytes", "MB")
        numbers = f"{self.level / unit:,.1f}, {self.slope / unit:+,.1f} ± {self.error / unit:,.1f} an hour"
        return f"{self.verdict:12} {name}: {numbers}"


def trends(samples: Samples, warm_up: float) -> list[Trend]:
    """The trend of each series.

    Args:
        samples: the series.
        warm_up: part of the time that is left out, from 0 to 1.
    """
    return [
        trend
        for name, pairs in sorted(samples.columns.items())
        if (trend := _trend(name, pairs, warm_up)) is not None
    ]


def _trend(name: str, pairs: list[tuple[float, float]], warm_up: float) -> Trend | None:
    first, last = pairs[0][0], pairs[-1][0]
    since = first + warm_up * (last - first)
    used = [pair for pair in pairs if pair[0] >= since]
    size = max(1, math.ceil(len(used) / BINS))
    pieces = [used[start : start + size] for start in range(0, len(used), size)]
    if len(pieces) < 4:
        return None
    times = [statistics.median(at for at, _ in piece) for piece in pieces]
    values = [statistics.median(value for _, value in piece) for piece in pieces]
    slope, intercept = statistics.linear_regression(times, values)
    middle = statistics.fmean(times)
    rest = sum((v - slope * t - intercept) ** 2 for t, v in zip(times, values, strict=True))
    spread = sum((t - middle) ** 2 for t in times)
    error = math.sqrt(rest / (len(times) - 2) / spread)
    level = statistics.median(values)
    return Trend(
        name,
        level,
        slope * 3600,
        error * 3600,
        intercept,
        since,
        verdict(name, level, slope * 3600, error * 3600),
    )


def verdict(name: str, level: float, slope: float, error: float) -> Verdict:
    """Whether a series is flat: its growth an hour is small against its level, and that is certain.

    Example:
        >>> verdict("files", 100, 0.5, 0.1), verdict("files", 100, 30, 5), verdict("files", 100, 5, 30)
        ('flat', 'grows', 'cannot tell')
    """
    bearable = max(TOLERATED * level, _LEAST["bytes" if name.endswith("bytes") else ""])
    if slope - SURE * error > bearable:
        return "grows"
    return "flat" if slope + SURE * error <= bearable else "cannot tell"


def write_report(path: Path, samples: Samples, found: list[Trend], title: str) -> None:
    """Write the page; it needs nothing else, no network either.

    Args:
        path: of the page.
        samples: the series.
        found: their trends.
        title: of the page.
    """
    names = [trend.name for trend in found]
    figure = make_subplots(rows=len(names), cols=1, subplot_titles=[trend.sentence() for trend in found])
    for row, trend in enumerate(found, 1):
        times, values = zip(*samples.columns[trend.name], strict=True)
        figure.add_scatter(x=[t / 60 for t in times], y=values, mode="markers", marker_size=4, row=row, col=1)
        line = [trend.since, times[-1]]
        heights = [trend.intercept + trend.slope / 3600 * at for at in line]
        figure.add_trace(go.Scatter(x=[t / 60 for t in line], y=heights, mode="lines"), row=row, col=1)
        figure.update_yaxes(rangemode="tozero", row=row, col=1)
    figure.update_layout(title=html.escape(title), height=260 * len(names) + 100, showlegend=False)
    figure.update_xaxes(title_text="minutes")
    figure.write_html(path, include_plotlyjs=True)
