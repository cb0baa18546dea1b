"""Functions of users that raise: every exception that Python has, at every place of the API that calls one."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from api.common import Types
from api.common.time import Time
from api.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from api.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from api.datastream.state import MapStateDescriptor
from api.datastream.window import (
    EventTimeTrigger,
    TumblingEventTimeWindows,
)

RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
NAME = "the operator"


class Own(BaseException):
    """A user's exception that is no Exception."""


def all_exceptions() -> list[str]:
    """The names of all exceptions of Python, and of one of a user's."""
    found = [
        name
        for name, each in vars(builtins).items()
        if isinstance(each, type) and issubclass(each, BaseException) and each.__name__ == name
    ]
    return [*sorted(found), "Own"]


def made(name: str) -> BaseException:
    """An exception of a class."""
    kind = Own if name == "Own" else getattr(builtins, name)
    if issubclass(kind, UnicodeError) and kind is not UnicodeError:
        codec = ("ascii",) if kind is not UnicodeTranslateError else ()
        return kind(*codec, b"x" if kind is UnicodeDecodeError else "x", 0, 1, "no")
    if issubclass(kind, BaseExceptionGroup):
        return kind("no", [ValueError("inside") if kind is ExceptionGroup else Own("inside")])
    return kind("no")


class Trap:
    """Raises when it is asked about one value; never without the name of an error."""

    def __init__(self, error: str, at: int) -> None:
        self.error = error
        self.at = at

    def __call__(self, value: Any) -> None:
        if self.error and value == self.at:
            raise made(self.error)


class Same(MapFunction):
    def map(self, value):
        return value


class Opens(Same):
    def __init__(self, trap, call):
        self.trap, self.call = trap, call

    def open(self, runtime_context):
        if self.call == "open":
            self.trap(self.trap.at)

    def close(self):
        if self.call == "close":
            self.trap(self.trap.at)


class Process(ProcessFunction):
    def __init__(self, trap):
        self.trap = trap

    def process_element(self, value, ctx):
        yield value
        self.trap(value)  # midway: something was given
        yield value


class Keyed(KeyedProcessFunction):
    def __init__(self, trap, call):
        self.trap, self.call = trap, call

    def process_element(self, value, ctx):
        if self.call == "process_element":
            self.trap(value)
        ctx.timer_service().register_event_time_timer(value)
        return [value]

    def on_timer(self, timestamp, ctx):
        if self.call == "on_timer":
            self.trap(timestamp)


class Summing(AggregateFunction):
    def __init__(self, trap, call):
        self.trap, self.call = trap, call

    def create_accumulator(self):
        if self.call == "create_accumulator":
            self.trap(self.trap.at)
        return 0

    def add(self, value, accumulator):
        if self.call == "add":
            self.trap(value)
        return max(accumulator, value)

    def get_result(self, accumulator):
        if self.call == "get_result":
            self.trap(self.trap.at)
        return accumulator

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b)


class Apply(WindowFunction):
    def __init__(self, trap):
        self.trap = trap

    def apply(self, key, window, inputs):
        for value in inputs:
            self.trap(value)
        return list(inputs)


class InWindow(ProcessWindowFunction):
    def __init__(self, trap, call):
        self.trap, self.call = trap, call

    def process(self, key, context, elements):
        for value in elements:
            if self.call == "process":
                self.trap(value)
            yield value

    def clear(self, context):
        if self.call == "clear":
            self.trap(self.trap.at)


class Windows(TumblingEventTimeWindows):
    trap: Any = None

    def assign_windows(self, element, timestamp, context):
        self.trap(element)
        return super().assign_windows(element, timestamp, context)


class Fires(EventTimeTrigger):
    def __init__(self, trap, call):
        super().__init__()
        self.trap, self.call = trap, call

    def on_element(self, element, timestamp, window, ctx):
        if self.call == "on_element":
            self.trap(element)
        return super().on_element(element, timestamp, window, ctx)

    def on_event_time(self, time, window, ctx):
        if self.call == "on_event_time":
            self.trap(self.trap.at)
        return super().on_event_time(time, window, ctx)

    def clear(self, window, ctx):
        if self.call == "clear":
            self.trap(self.trap.at)
        return super().clear(window, ctx)


class Both:
    """Both inputs' calls, of which one is trapped."""

    def __init__(self, trap, call):
        self.trap, self.call = trap, call

    def _take(self, call, value):
        if call == self.call:
            self.trap(value)
        return [value]


class CoMap(Both, CoMapFunction):
    def map1(self, value):
        return self._take("map1", value)

    def map2(self, value):
        return self._take("map2", value)


class CoFlatMap(Both, CoFlatMapFunction):
    def flat_map1(self, value):
        return self._take("flat_map1", value)

    def flat_map2(self, value):
        return self._take("flat_map2", value)


class CoProcess(Both, CoProcessFunction):
    def process_element1(self, value, ctx):
        return self._take("process_element1", value)

    def process_element2(self, value, ctx):
        return self._take("process_element2", value)


class Broadcast(Both, BroadcastProcessFunction):
    def process_element(self, value, ctx):
        return self._take("process_element", value)

    def process_broadcast_element(self, value, ctx):
        return self._take("process_broadcast_element", value)


class KeyedBroadcast(Both, KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        return self._take("process_element", value)

    def process_broadcast_element(self, value, ctx):
        return self._take("process_broadcast_element", value)


class At(TimestampAssigner):
    def __init__(self, trap=None):
        self.trap = trap

    def extract_timestamp(self, value, record_timestamp):
        if self.trap is not None:
            self.trap(value)
        return value


class Place(NamedTuple):
    """Somewhere a user's function is called.

    Args:
        call: what a message calls it.
        build: stream and trap to the stream behind it.
        keyed: a message names the key.
        element: a message names the element.
        name: of the operator; None for the one that is given the name here.
    """

    call: str
    build: Callable[[Any, Trap], Any]
    keyed: bool = False
    element: bool = True
    name: str = NAME


def _by_key(stream: Any) -> Any:
    return stream.key_by(lambda value: value % 3, key_type=Types.LONG())


def _timed(stream: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    return stream.assign_timestamps_and_watermarks(strategy)


def _windowed(stream: Any) -> Any:
    return _by_key(_timed(stream)).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))


def _trapped(trap: Trap) -> Callable[[Any], Any]:
    def function(value: Any) -> Any:
        trap(value)
        return value

    return function


def _filter(trap: Trap) -> Callable[[Any], bool]:
    def function(value: Any) -> bool:
        trap(value)
        return True

    return function


def _flat_map(trap: Trap) -> Callable[[Any], Iterator[Any]]:
    def function(value: Any) -> Iterator[Any]:
        yield value
        trap(value)

    return function


def _reduce(trap: Trap) -> Callable[[Any, Any], Any]:
    def function(one: Any, other: Any) -> Any:
        trap(one)
        trap(other)
        return max(one, other)

    return function


def _custom_windows(stream: Any, trap: Trap) -> Any:
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
    custom = Windows.__new__(Windows)
    custom.__dict__.update(windows.__dict__)
    custom.trap = trap
    return _by_key(_timed(stream)).window(custom).reduce(max).name(NAME)


def _strategy(trap: Trap) -> Any:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At(trap))


def _aggregate(call: str) -> Callable[[Any, Trap], Any]:
    return lambda s, t: _windowed(s).aggregate(Summing(t, call), accumulator_type=Types.LONG()).name(NAME)


def _trigger(call: str) -> Callable[[Any, Trap], Any]:
    return lambda s, t: _windowed(s).trigger(Fires(t, call)).reduce(max).name(NAME)


def _connected(call: str, function: Any) -> Callable[[Any, Trap], Any]:
    operation = {CoMap: "map", CoFlatMap: "flat_map", CoProcess: "process"}[function]
    return lambda s, t: getattr(s.connect(s), operation)(function(t, call)).name(NAME)


def _keyed_connected(call: str, function: Any) -> Callable[[Any, Trap], Any]:
    operation = {CoMap: "map", CoFlatMap: "flat_map", CoProcess: "process"}[function]
    return lambda s, t: getattr(_by_key(s).connect(_by_key(s)), operation)(function(t, call)).name(NAME)


class Shown:
    """Raises when it is shown."""

    def __init__(self, trap: Trap, value: int) -> None:
        self.trap, self.value = trap, value

    def __str__(self) -> str:
        self.trap(self.value)
        return "shown"


def _printed(stream: Any, trap: Trap) -> Any:
    stream.map(lambda value: Shown(trap, value)).print().name(NAME)
    return stream


def _read(stream: Any, trap: Trap) -> Any:
    def numbers() -> Iterator[int]:
        for number in range(40):
            trap(number)
            yield number

    return stream.get_execution_environment().add_source(numbers, "source")


PLACES: dict[str, Place] = {
    "map": Place("map", lambda s, t: s.map(_trapped(t)).name(NAME)),
    "filter": Place("filter", lambda s, t: s.filter(_filter(t)).name(NAME)),
    "flat_map": Place("flat_map", lambda s, t: s.flat_map(_flat_map(t)).name(NAME)),
    "process": Place("process_element", lambda s, t: s.process(Process(t)).name(NAME)),
    "open": Place("open", lambda s, t: s.map(Opens(t, "open")).name(NAME), element=False),
    "close": Place("close", lambda s, t: s.map(Opens(t, "close")).name(NAME), element=False),
    "key selector": Place("key selector", lambda s, t: s.key_by(_trapped(t)).map(Same()), name="KeyBy"),
    "keyed map": Place("map", lambda s, t: _by_key(s).map(_trapped(t)).name(NAME), True),
    "keyed filter": Place("filter", lambda s, t: _by_key(s).filter(_filter(t)).name(NAME), True),
    "keyed flat_map": Place("flat_map", lambda s, t: _by_key(s).flat_map(_flat_map(t)).name(NAME), True),
    "keyed open": Place("open", lambda s, t: _by_key(s).map(Opens(t, "open")).name(NAME), element=False),
    "reduce": Place("reduce", lambda s, t: _by_key(s).reduce(_reduce(t)).name(NAME), True),
    "keyed process": Place(
        "process_element",
        lambda s, t: _by_key(_timed(s)).process(Keyed(t, "process_element")).name(NAME),
        True,
    ),
    "timer": Place(
        "on_timer", lambda s, t: _by_key(_timed(s)).process(Keyed(t, "on_timer")).name(NAME), True, False
    ),
    "window reduce": Place("reduce", lambda s, t: _windowed(s).reduce(_reduce(t)).name(NAME), True, False),
    "window create_accumulator": Place("create_accumulator", _aggregate("create_accumulator"), True),
    "window add": Place("add", _aggregate("add"), True),
    "window get_result": Place("get_result", _aggregate("get_result"), True, False),
    "window apply": Place("apply", lambda s, t: _windowed(s).apply(Apply(t)).name(NAME), True, False),
    "window process": Place(
        "process", lambda s, t: _windowed(s).process(InWindow(t, "process")).name(NAME), True, False
    ),
    "window clear": Place(
        "clear", lambda s, t: _windowed(s).process(InWindow(t, "clear")).name(NAME), True, False
    ),
    "assign_windows": Place("assign_windows", _custom_windows, True),
    "trigger on_element": Place("on_element", _trigger("on_element"), True),
    "trigger on_event_time": Place("on_event_time", _trigger("on_event_time"), True, False),
    "trigger clear": Place("clear", _trigger("clear"), True, False),
    "co-map 1": Place("map1", _connected("map1", CoMap)),
    "co-map 2": Place("map2", _connected("map2", CoMap)),
    "co-flat-map": Place("flat_map1", _connected("flat_map1", CoFlatMap)),
    "co-process": Place("process_element2", _connected("process_element2", CoProcess)),
    "keyed co-map": Place("map2", _keyed_connected("map2", CoMap), True),
    "keyed co-flat-map": Place("flat_map2", _keyed_connected("flat_map2", CoFlatMap), True),
    "keyed co-process": Place("process_element1", _keyed_connected("process_element1", CoProcess), True),
    "broadcast": Place(
        "process_element",
        lambda s, t: s.connect(s.broadcast(RULES)).process(Broadcast(t, "process_element")).name(NAME),
    ),
    "broadcast side": Place(
        "process_broadcast_element",
        lambda s, t: (
            s.connect(s.broadcast(RULES)).process(Broadcast(t, "process_broadcast_element")).name(NAME)
        ),
    ),
    "keyed broadcast": Place(
        "process_element",
        lambda s, t: (
            _by_key(s).connect(s.broadcast(RULES)).process(KeyedBroadcast(t, "process_element")).name(NAME)
        ),
        True,
    ),
    "keyed broadcast side": Place(
        "process_broadcast_element",
        lambda s, t: (
            _by_key(s)
            .connect(s.broadcast(RULES))
            .process(KeyedBroadcast(t, "process_broadcast_element"))
            .name(NAME)
        ),
    ),
    "partitioner": Place(
        "partitioner",
        lambda s, t: s.partition_custom(lambda key, count: t(key) or key % count, _trapped(Trap("", -1))).map(
            Same()
        ),
        name="PartitionCustom",
    ),
    "partitioner's selector": Place(
        "partitioner",
        lambda s, t: s.partition_custom(lambda key, count: key % count, _trapped(t)).map(Same()),
        name="PartitionCustom",
    ),
    "sink": Place("writing", lambda s, t: (s.add_sink(_trapped(t)).name(NAME), s)[1]),
    "str() of what is printed": Place("str() of an element", _printed, element=False),
    "source": Place("reading split 'iterable'", _read, element=False, name="source"),
    "timestamps": Place(
        "extract_timestamp", lambda s, t: s.assign_timestamps_and_watermarks(_strategy(t)).name(NAME)
    ),
}


def graph_of(place: Place, trap: Trap, elements: list[int], parallelism: int = 1) -> Any:
    """A job whose function at a place has a trap, with its results collected."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    stream = place.build(env.from_collection(elements, Types.LONG()), trap)
    stream.map(lambda value: value).print()
    return env.generate_stream_graph()
