"""The state that flights_job.py must end with, computed in plain Python: no engine, no epochs, no timers.

It shares nothing with the job but the file it reads. A pause, for instance, is found by looking at the whole year of an
aircraft at once, where the job waits for a timer.
"""

import bisect
import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

SIX_HOURS_MS = 21_600_000

State = dict[tuple[str, str], dict[str, Any]]


def expected_state(path: Path) -> State:
    """Read the prepared file and compute all final states.

    Args:
        path: the file that prepare.py wrote.

    Returns:
        (operator, state) -> key -> value. Aggregating states are their accumulators: (count, sum).
    """
    state: dict[tuple[str, str], Any] = defaultdict(dict)
    departures: dict[str, list[tuple[int, str]]] = defaultdict(list)
    with path.open(newline="") as lines:
        for when, carrier, number, aircraft, origin, destination, delay, miles in csv.reader(lines):
            _count(state["carriers", "flights"], carrier)
            if delay == "":
                _count(state["carriers", "cancelled"], carrier)
                continue
            minutes = int(delay)
            _count(state["carriers", "destinations"].setdefault(carrier, {}), destination)
            worst = state["carriers", "worst delay"]
            worst[carrier] = max(minutes, worst.get(carrier, minutes))
            _add_to_mean(state["carriers", "mean delay"], carrier, minutes)
            if minutes >= 300:
                text = f"{number} to {destination}: {minutes} min"
                state["carriers", "long delays"].setdefault(carrier, []).append(text)
            state["aircraft", "position"][aircraft] = (destination, carrier + number)
            _count(state["aircraft", "routes"].setdefault(aircraft, {}), f"{origin}-{destination}")
            _count(state["aircraft", "miles"], aircraft, int(miles))
            _add_to_mean(state["aircraft", "mean delay"], aircraft, minutes)
            departures[aircraft].append((int(when), destination))
    for aircraft, flights in departures.items():
        _add_pauses(state, aircraft, flights)
    return dict(state)


def _add_pauses(state: dict[tuple[str, str], Any], aircraft: str, flights: list[tuple[int, str]]) -> None:
    # Six times in the year the data has one aircraft leave twice in one minute: one moment, the first flight counts.
    first = dict(reversed(flights))
    times = sorted(first)
    state["aircraft", "timers"][aircraft] = len(times)
    for when, airport in first.items():
        next_flight = bisect.bisect_right(times, when)
        if next_flight == len(times) or times[next_flight] > when + SIX_HOURS_MS:
            _count(state["aircraft", "pauses"], aircraft)
            _count(state["airports", "paused"], airport)


def _count(counts: dict[str, int], key: str, by: int = 1) -> None:
    counts[key] = counts.get(key, 0) + by


def _add_to_mean(means: dict[str, tuple[int, int]], key: str, value: int) -> None:
    count, total = means.get(key, (0, 0))
    means[key] = (count + 1, total + value)
