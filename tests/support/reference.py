"""Small jobs as data: built with the API for the engine, and evaluated by plain Python loops that know no epochs.

Elements are (key, time, value). Watermarks lag behind by more than any element is late, so what waits for time fires at the
end of the input: results depend on the elements alone. Where elements of a key lost their order (``ordered`` is False), only
what does not hang on it is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from api.common import Duration, Time, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import (
    AggregateFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from api.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

Element = tuple[int, int, int]
ELEMENT = Types.TUPLE([Types.INT(), Types.LONG(), Types.LONG()])
RESULT = Types.TUPLE([Types.INT(), Types.STRING(), Types.LONG(), Types.LONG()])
LAG_MS = 100_000
ODD = OutputTag("odd", ELEMENT)


class ElementTime(TimestampAssigner):
    def extract_timestamp(self, value: Element, record_timestamp: int) -> int:
        return value[1]


class Divide(ProcessFunction):
    """Odd values go to a side output."""

    def process_element(self, value: Element, ctx: Any) -> Any:
        yield (ODD, value) if value[2] % 2 else value


class Everything(KeyedProcessFunction):
    """All five kinds of state, and a timer that gives them out. Nothing it gives hangs on the order of elements."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))
        self.by_value = runtime_context.get_map_state(
            MapStateDescriptor("by value", Types.LONG(), Types.LONG())
        )
        self.largest = runtime_context.get_reducing_state(
            ReducingStateDescriptor("largest", max, Types.LONG())
        )
        self.total = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("total", Total(), Types.LONG())
        )

    def process_element(self, value: Element, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.values.add(value[2])
        self.by_value.put(value[2], (self.by_value.get(value[2]) or 0) + 1)
        self.largest.add(value[2])
        self.total.add(value[2])
        if value[2] == 0:
            self.by_value.clear()
            ctx.timer_service().delete_event_time_timer(value[1] // 50 * 50)
        else:
            ctx.timer_service().register_event_time_timer(value[1] // 50 * 50 + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        key = ctx.get_current_key()
        yield key, "count", timestamp, self.count.value()
        yield key, "list", timestamp, sum(self.values.get())
        yield key, "largest", timestamp, self.largest.get()
        yield key, "total", timestamp, self.total.get()


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Summed(ProcessWindowFunction):
    """The sum of a window's values."""

    def process(self, key: int, context: Any, elements: Iterable[Element]) -> Any:
        window = context.window()
        yield key, f"{window.start}-{window.end}", window.max_timestamp(), sum(e[2] for e in elements)


class SumOfBoth(KeyedCoProcessFunction):
    """Adds up the values of both inputs, the second one's tenfold."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def _add(self, value: int, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(1_000)

    def process_element1(self, value: Element, ctx: Any) -> None:
        self._add(value[2], ctx)

    def process_element2(self, value: Element, ctx: Any) -> None:
        self._add(10 * value[2], ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), "both", timestamp, self.total.value()


@dataclass(frozen=True)
class Step:
    """A step before the keyed operator.

    Args:
        name: for the report of a failing example.
        build: stream -> stream.
        evaluate: elements -> elements.
        keeps_order: whether elements of a key stay in order.
    """

    name: str
    build: Callable[[Any], Any]
    evaluate: Callable[[list[Element]], list[Element]]
    keeps_order: bool = True

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class KeyedStep:
    """The keyed operator at the end; ``evaluate`` gives results, ``final`` those of BATCH mode (None: the same)."""

    name: str
    build: Callable[[Any], Any]
    evaluate: Callable[[list[Element]], list[Any]]
    final: Callable[[list[Element]], list[Any]] | None = None
    needs_order: bool = False

    def __repr__(self) -> str:
        return self.name


def _divided(stream: Any) -> Any:
    even = stream.process(Divide(), ELEMENT)
    return even.union(even.get_side_output(ODD).map(lambda e: (e[0], e[1], -e[2]), ELEMENT))


STEPS = (
    Step("map", lambda s: s.map(_plus, ELEMENT), lambda es: [_plus(e) for e in es]),
    Step("filter", lambda s: s.filter(_third), lambda es: [e for e in es if _third(e)]),
    Step("flat_map", lambda s: s.flat_map(_twice, ELEMENT), lambda es: [t for e in es for t in _twice(e)]),
    Step("rebalance", lambda s: s.rebalance().map(_plus, ELEMENT), lambda es: [_plus(e) for e in es], False),
    Step("shuffle", lambda s: s.shuffle().map(_plus, ELEMENT), lambda es: [_plus(e) for e in es], False),
    Step("rescale", lambda s: s.rescale().filter(_third), lambda es: [e for e in es if _third(e)], False),
    Step("global", lambda s: s.global_().map(_plus, ELEMENT), lambda es: [_plus(e) for e in es]),
    Step("union", lambda s: s.union(s.filter(_third)), lambda es: es + [e for e in es if _third(e)], False),
    Step(
        "side output",
        _divided,
        lambda es: [(e[0], e[1], -e[2]) if e[2] % 2 else e for e in es],
        False,
    ),
)


def _plus(element: Element) -> Element:
    return element[0], element[1], element[2] + 1


def _third(element: Element) -> bool:
    return element[2] % 3 != 0


def _twice(element: Element) -> list[Element]:
    return [element, (element[0], element[1], element[2] + 2)]


def _keyed(stream: Any) -> Any:
    return stream.key_by(lambda e: e[0], Types.INT())


def _as_result(stream: Any) -> Any:
    return stream.map(lambda e: (e[0], "", e[1], e[2]), RESULT)


def _by_key(elements: list[Element]) -> dict[int, list[Element]]:
    found: dict[int, list[Element]] = {}
    for element in elements:
        found.setdefault(element[0], []).append(element)
    return found


def _by_time(elements: list[Element]) -> list[Element]:
    return sorted(elements, key=lambda e: e[1])


def _rolling(elements: list[Element]) -> list[Any]:
    results = []
    for key, own in _by_key(elements).items():
        total = 0
        for element in own:
            total += element[2]
            results.append((key, "", own[0][1], total))
    return results


def _last(elements: list[Element]) -> list[Any]:
    sums = {key: sum(e[2] for e in own) for key, own in _by_key(elements).items()}
    return [(key, "", min(own, key=lambda e: e[1])[1], sums[key]) for key, own in _by_key(elements).items()]


def _everything(elements: list[Element]) -> list[Any]:
    results = []
    for key, own in _by_key(elements).items():
        timers: set[int] = set()
        for element in own:
            time = element[1] // 50 * 50
            if element[2] == 0:
                timers.discard(time)
            else:
                timers.add(time + 10)
        values = [e[2] for e in own]
        for timer in timers:
            results += [
                (key, "count", timer, len(values)),
                (key, "list", timer, sum(values)),
                (key, "largest", timer, max(values)),
                (key, "total", timer, sum(values)),
            ]
    return results


def _windows_of(elements: list[Element], starts: Callable[[int], Iterable[int]], size: int) -> list[Any]:
    sums: Counter[tuple[int, int]] = Counter()
    for element in elements:
        for start in starts(element[1]):
            sums[element[0], start] += element[2]
    return [(key, f"{start}-{start + size}", start + size - 1, total) for (key, start), total in sums.items()]


def _sessions(elements: list[Element]) -> list[Any]:
    results = []
    for key, own in _by_key(elements).items():
        spans: list[list[int]] = []
        for element in sorted(own, key=lambda e: e[1]):
            if spans and element[1] <= spans[-1][1]:  # windows that touch are merged
                spans[-1][1] = element[1] + 15
                spans[-1][2] += element[2]
            else:
                spans.append([element[1], element[1] + 15, element[2]])
        results += [(key, f"{start}-{end}", end - 1, total) for start, end, total in spans]
    return results


def _counted(elements: list[Element]) -> list[Any]:
    results = []
    for key, own in _by_key(elements).items():
        for first in range(0, len(own) - 2, 3):
            chunk = own[first : first + 3]
            if len(chunk) == 3:
                results.append((key, "", chunk[0][1], sum(e[2] for e in chunk)))
    return results


def _both(elements: list[Element]) -> list[Any]:
    sums: Counter[int] = Counter()
    for element in elements:
        sums[element[0]] += element[2] + (10 * element[2] if _third(element) else 0)
    return [(key, "both", 1_000, sums[key]) for key in {e[0] for e in elements}]


def _add(first: Element, second: Element) -> Element:
    return first[0], first[1], first[2] + second[2]


KEYED_STEPS = (
    KeyedStep("sum", lambda s: _as_result(_keyed(s).sum(2)), _rolling, _last, needs_order=True),
    KeyedStep("reduce", lambda s: _as_result(_keyed(s).reduce(_add)), _rolling, _last, needs_order=True),
    KeyedStep(
        "process",
        lambda s: _keyed(s).process(Everything(), RESULT),
        _everything,
        lambda es: _everything(_by_time(es)),
        needs_order=True,
    ),
    KeyedStep(
        "tumbling",
        lambda s: (
            _keyed(s).window(TumblingEventTimeWindows.of(Time.milliseconds(20))).process(Summed(), RESULT)
        ),
        lambda es: _windows_of(es, lambda time: [time // 20 * 20], 20),
    ),
    KeyedStep(
        "sliding",
        lambda s: (
            _keyed(s)
            .window(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10)))
            .reduce(_add, Summed(), RESULT)
        ),
        lambda es: _windows_of(es, lambda time: [time // 10 * 10, time // 10 * 10 - 10], 20),
    ),
    KeyedStep(
        "session",
        lambda s: (
            _keyed(s)
            .window(EventTimeSessionWindows.with_gap(Time.milliseconds(15)))
            .process(Summed(), RESULT)
        ),
        _sessions,
    ),
    KeyedStep(
        "count window",
        lambda s: _as_result(_keyed(s).count_window(3).reduce(_add)),
        _counted,
        lambda es: _counted(_by_time(es)),
        needs_order=True,
    ),
    KeyedStep(
        "connect",
        lambda s: _keyed(s).connect(_keyed(s.filter(_third))).process(SumOfBoth(), RESULT),
        _both,
    ),
)


@dataclass(frozen=True)
class Program:
    """Elements through some steps into a keyed one."""

    elements: tuple[Element, ...]
    steps: tuple[Step, ...]
    keyed: KeyedStep

    def graph(self, parallelism: int) -> tuple[Any, int]:
        """The job's graph, and the id of the sink that collects its results."""
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        stream = env.from_collection(list(self.elements), ELEMENT)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(LAG_MS))
        stream = stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(ElementTime()))
        for step in self.steps:
            stream = step.build(stream)
        self.keyed.build(stream).add_sink(_CollectHere())
        graph, _, ids = env._take_job("job")
        return graph, max(ids.values())

    def results(self, batch: bool) -> Counter[Any]:
        """What plain Python gives."""
        elements = list(self.elements)
        for step in self.steps:
            elements = step.evaluate(elements)
        evaluate = self.keyed.final if batch and self.keyed.final is not None else self.keyed.evaluate
        return Counter(evaluate(elements))

    @property
    def comparable(self) -> bool:
        """Whether the results hang on nothing but the elements."""
        return not self.keyed.needs_order or all(step.keeps_order for step in self.steps)


class _CollectHere:
    """Stands for a sink until the test replaces it."""

    def invoke(self, value: Any) -> None:
        raise AssertionError("replaced by a CollectSink")
