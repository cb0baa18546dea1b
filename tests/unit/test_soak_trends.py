"""Reliability case 66, the soak's verdicts: noise is not growth, growth is not noise."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "soak"))
from trends import Samples, trends, write_report


def series(growth_an_hour: float, noise: float, minutes: int = 60) -> Samples:
    chance = random.Random(1)
    samples = Samples()
    for second in range(0, minutes * 60, 5):
        samples.add(second, {"files": 1_000 + growth_an_hour * second / 3600 + chance.gauss(0, noise)})
    return samples


@pytest.mark.parametrize(
    ("growth", "noise", "minutes", "expected"),
    [
        (0, 5, 60, "flat"),
        (-200, 5, 60, "flat"),
        (180, 5, 60, "grows"),
        (180, 50, 60, "grows"),
        (0, 400, 10, "cannot tell"),
    ],
)
def test_case_66_verdicts(growth: float, noise: float, minutes: int, expected: str) -> None:
    (found,) = trends(series(growth, noise, minutes), 0.25)
    assert found.verdict == expected
    assert abs(found.slope - growth) < 4 * found.error + 1e-9


def test_a_warm_up_is_left_out() -> None:
    samples = Samples()
    for second in range(3_600):
        samples.add(second, {"files": min(second, 600) + second % 3})
    (found,) = trends(samples, 0.25)
    assert found.verdict == "flat"


def test_the_report_stands_alone(tmp_path: Path) -> None:
    samples = series(180, 5)
    write_report(tmp_path / "soak.html", samples, trends(samples, 0.25), "a <title>")
    page = (tmp_path / "soak.html").read_text()
    assert "grows" in page
    assert '<script src="http' not in page
