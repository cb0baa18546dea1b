"""The limit of each of workloads.py: the same functions, called by a plain loop over dictionaries, on one core.

Keyed functions get state that is a dictionary, without types, log or copies. Windows and joins are what one would write by
hand: sums by key and window, given out once event time has passed the window, and a lookup.

``python workloads.py loop WORKLOAD RECORDS`` runs one.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from state_functions import KEYS, RULES

if TYPE_CHECKING:
    from workloads import Workloads

ROUNDS = 3


class Cell:
    """Value, reducing, aggregating and list state of the current key, in one dictionary.

    Args:
        loop: tells the current key.
        descriptor: of the state.
    """

    def __init__(self, loop: KeyedLoop, descriptor: Any) -> None:
        self.loop = loop
        self.held: dict[Any, Any] = {}
        self.function = descriptor.to_spec().function

    def value(self) -> Any:
        return self.held.get(self.loop.key)

    def update(self, value: Any) -> None:
        self.held[self.loop.key] = value

    def clear(self) -> None:
        self.held.pop(self.loop.key, None)


class Reduction(Cell):
    """ReducingState."""

    get = Cell.value

    def add(self, value: Any) -> None:
        before = self.held.get(self.loop.key)
        self.held[self.loop.key] = value if before is None else self.function.reduce(before, value)


class Aggregation(Cell):
    """AggregatingState."""

    def add(self, value: Any) -> None:
        before = self.held.get(self.loop.key)
        self.held[self.loop.key] = self.function.add(
            value, self.function.create_accumulator() if before is None else before
        )

    def get(self) -> Any:
        return self.function.get_result(self.held[self.loop.key])


class Elements(Cell):
    """ListState."""

    def add(self, value: Any) -> None:
        self.held.setdefault(self.loop.key, []).append(value)

    def get(self) -> Any:
        return self.held.get(self.loop.key, [])


class Entries(Cell):
    """MapState."""

    def get(self, map_key: Any) -> Any:
        return self.held.setdefault(self.loop.key, {}).get(map_key)

    def put(self, map_key: Any, value: Any) -> None:
        self.held.setdefault(self.loop.key, {})[map_key] = value


class KeyedLoop:
    """A keyed process function in a loop: its runtime context, element context and timer service."""

    def __init__(self, function: Any) -> None:
        self.key: Any = None
        self.now = 0
        self.timers: list[tuple[int, Any]] = []
        self.states: dict[str, dict[Any, Any]] = {}
        self.function = function
        function.open(self)

    def get_state(self, descriptor: Any, kind: type[Cell] = Cell) -> Any:
        cell = kind(self, descriptor)
        self.states[descriptor.name] = cell.held
        return cell

    def get_list_state(self, descriptor: Any) -> Any:
        return self.get_state(descriptor, Elements)

    def get_map_state(self, descriptor: Any) -> Any:
        return self.get_state(descriptor, Entries)

    def get_reducing_state(self, descriptor: Any) -> Any:
        return self.get_state(descriptor, Reduction)

    def get_aggregating_state(self, descriptor: Any) -> Any:
        return self.get_state(descriptor, Aggregation)

    def timer_service(self) -> KeyedLoop:
        return self

    def timestamp(self) -> int:
        return self.now

    def register_event_time_timer(self, timestamp: int) -> None:
        heapq.heappush(self.timers, (timestamp, self.key))

    def fire(self, until: float) -> Iterator[Any]:
        """What timers give that are due."""
        while self.timers and self.timers[0][0] <= until:
            timestamp, self.key = timer = heapq.heappop(self.timers)
            while self.timers and self.timers[0] == timer:  # it was registered more than once
                heapq.heappop(self.timers)
            yield from self.function.on_timer(timestamp, self) or ()


def loop_of(jobs: Workloads, name: str) -> Callable[[], int]:
    """A plain loop that does a workload once, and gives how many results it had."""
    if name in ("chain", "untyped_chain"):
        return lambda: _count_large(jobs)
    if name == "broadcast":
        return lambda: _joined(jobs)
    if name == "two_stages":
        return lambda: _two_stages(jobs)
    if name in SPANS:
        return lambda: _windows(jobs, *SPANS[name])
    if name in GAPS:
        return lambda: _sessions(jobs, *GAPS[name])
    return lambda: _keyed(jobs, name)


SPANS = {
    "tumbling": (10_000, 10_000, False),
    "tumbling_aggregate": (10_000, 10_000, False),
    "tumbling_process": (10_000, 10_000, True),
    "sliding_aggregate": (10_000, 5_000, False),
    "sliding_process": (10_000, 5_000, True),
}  # size and slide in ms, and whether all elements are kept
GAPS = {
    "session": (1_000, False),
    "session_aggregate": (7_000, False),
    "session_process": (1_000, True),
    "single_sessions": (1, False),
}


def run_loop(jobs: Workloads, name: str) -> dict[str, Any]:
    """The best of three runs: records, seconds and records a second."""
    loop, best = loop_of(jobs, name), float("inf")
    results = 0
    for _ in range(ROUNDS):
        began = time.process_time()
        results = loop()
        best = min(best, time.process_time() - began)
    return {
        "records": jobs.records,
        "seconds": best,
        "records_per_s": jobs.records / best,
        "results": results,
    }


def _keyed(jobs: Workloads, name: str) -> int:
    job = jobs.keyed_job(name)
    loop, key_of, results = KeyedLoop(job.function), job.key, 0
    process, timed = job.function.process_element, name == "timer"
    order, rows = jobs.order, name == "rows"
    at, last = jobs.timestamp, 0
    for number in jobs.by_time() if timed else range(jobs.records):
        value = order(number) if rows else number
        loop.key = key_of(value)
        if timed:
            loop.now = at(number)
            if loop.now > last:
                last = loop.now
                results += sum(1 for _ in loop.fire(last))
        results += sum(1 for _ in process(value, loop) or ())
    return results + sum(1 for _ in loop.fire(float("inf")))


def _two_stages(jobs: Workloads) -> int:
    first, second = KeyedLoop(jobs.functions.each_count()), KeyedLoop(jobs.functions.count())
    results = 0
    for number in range(jobs.records):
        first.key = number % KEYS
        for value, _ in first.function.process_element(number, first):
            second.key = value % (KEYS // 10)
            results += sum(1 for _ in second.function.process_element(value, second))
    return results


def _count_large(jobs: Workloads) -> int:
    function, order, results = jobs.count_large(), jobs.order, 0
    loop = KeyedLoop(function)
    for number in range(jobs.records):
        each = order(number)
        each["large"] = each.amount > 900.0
        loop.key = each.account
        results += sum(1 for _ in function.process_element(each, loop))
    return results


def _joined(jobs: Workloads) -> int:
    rules = {number: number * number for number in range(RULES)}
    results = 0
    for number in range(jobs.records):
        pair = number, rules.get(number % RULES) or 0
        results += pair[0] >= 0
    return results


def _windows(jobs: Workloads, size: int, slide: int, kept: bool) -> int:
    """Sums by key of windows, each given out when event time has passed it."""
    add, pair_of, at = jobs.sum_of_pairs(), jobs.pair_of, jobs.timestamp
    windows: dict[int, dict[int, Any]] = defaultdict(dict)
    results, now = 0, -1
    for number in jobs.by_time():
        time_ms, pair = at(number), pair_of(number)
        if time_ms > now:
            now = time_ms
            for start in [start for start in windows if start + size <= now]:
                results += _given(windows.pop(start), kept)
        for start in range(time_ms - time_ms % slide, time_ms - size, -slide):
            _add(windows[start], pair[0], pair, kept, add)
    return results + sum(_given(sums, kept) for sums in windows.values())


def _sessions(jobs: Workloads, gap: int, kept: bool) -> int:
    """Sums by key of sessions, each given out when the next one of its key begins, the last ones at the end."""
    add, pair_of, at = jobs.sum_of_pairs(), jobs.pair_of, jobs.timestamp
    open_ones: dict[int, Any] = {}
    ends: dict[int, int] = {}
    results = 0
    for number in jobs.by_time():
        time_ms, pair = at(number), pair_of(number)
        key = pair[0]
        if time_ms > ends.get(key, time_ms):
            results += _given({key: open_ones.pop(key)}, kept)
        _add(open_ones, key, pair, kept, add)
        ends[key] = time_ms + gap
    return results + _given(open_ones, kept)


def _add(held: dict[int, Any], key: int, pair: tuple[int, int], kept: bool, function: Any) -> None:
    if kept:
        held.setdefault(key, []).append(pair)
    else:
        before = held.get(key)
        held[key] = function.add(pair, function.create_accumulator() if before is None else before)


def _given(held: dict[int, Any], kept: bool) -> int:
    if not kept:
        return len(held)
    sums = [(key, sum([number for _, number in pairs])) for key, pairs in held.items()]
    return len(sums)
