"""Several parts of the API in one job each, and functions given as callables of all kinds."""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import typing

from pyflink.common import Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.state import ListStateDescriptor, ReducingStateDescriptor
from pyflink.datastream.window import (
    CountSlidingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

from corners.how import settings, unordered

_PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
_EVENTS = [("a", 1000, 1), ("b", 1500, 2), ("a", 2500, 3), ("a", 5200, 4), ("b", 7000, 5), ("a", 4100, 6)]


class _At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _pairs(env):
    return env.from_collection([("a", 1), ("b", 2), ("a", 3)], _PAIR)


def _events(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At())
    typed = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
    return env.from_collection(_EVENTS, typed).assign_timestamps_and_watermarks(strategy)


def _each(*builds, in_order=True):
    """Runs a job for each; 'error', or what it gives."""
    seen = []
    for build in builds:
        try:
            with build().execute_and_collect() as results:
                given = list(results)
            seen.append(str(given if in_order else sorted(given)))
        except Exception:
            seen.append("error")
    return seen


class _Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{type(key).__name__} {key!r} {sorted(each[2] for each in elements)}"


class _Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


@unordered("lines of several sinks")
def side_outputs_of_timers_and_both_inputs_printed(env):
    """Side outputs of a function of two inputs and of its timers, printed beside the main output."""
    tag = OutputTag("side", Types.STRING())

    class Both(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] * 10)
            yield f"1 {value} {ctx.get_current_key()} {ctx.timestamp()}"

        def process_element2(self, value, ctx):
            yield f"2 {value} {ctx.get_current_key()} {ctx.timestamp()}"
            yield tag, f"side {value}"

        def on_timer(self, timestamp, ctx):
            yield f"at {timestamp} {ctx.get_current_key()} {ctx.time_domain()}"
            yield tag, f"timer {timestamp}"

    keyed = _events(env).key_by(lambda e: e[0], Types.STRING())
    both = keyed.connect(_events(env).key_by(lambda e: e[0], Types.STRING())).process(Both(), Types.STRING())
    both.get_side_output(tag).print("side")
    both.print("main")
    env.execute("printed")


def keys_of_all_types_in_windows(env):
    """Keys that window functions see, declared and not."""

    def shown(selector, key_type=None):
        windows = (
            _events(env).key_by(selector, key_type).window(TumblingEventTimeWindows.of(Time.seconds(100)))
        )
        return windows.process(_Show(), Types.STRING())

    pair = [Types.STRING(), Types.INT()]
    return _each(
        lambda: shown(lambda e: (e[0], e[2] % 2), Types.TUPLE(pair)),
        lambda: shown(lambda e: Row(e[0], e[2] % 2), Types.ROW(pair)),
        lambda: shown(lambda e: Row(name=e[0]), Types.ROW_NAMED(["name"], [Types.STRING()])),
        lambda: shown(lambda e: [e[0]], Types.LIST(Types.STRING())),
        lambda: shown(lambda e: e[2] / 2, Types.DOUBLE()),
        lambda: shown(lambda e: e[2] > 3, Types.BOOLEAN()),
        lambda: shown(lambda e: e[2] % 3),
        lambda: shown(lambda e: None),
        lambda: shown(lambda e: {e[0]: 1}),
        lambda: shown(lambda e: frozenset(e[0])),
        in_order=False,
    )


def types_of_aggregated_windows(env):
    """Accumulators and results of declared types, that fit and do not, with functions behind."""

    class Process(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield key, list(elements), context.window().end

    def windows():
        return (
            _events(env)
            .key_by(lambda e: e[0], Types.STRING())
            .window(TumblingEventTimeWindows.of(Time.seconds(3)))
        )

    accumulator = Types.TUPLE([Types.INT(), Types.INT()])
    named = Types.TUPLE([Types.STRING(), Types.LIST(Types.DOUBLE()), Types.LONG()])
    return _each(
        lambda: windows().aggregate(_Average(), accumulator_type=accumulator, output_type=Types.DOUBLE()),
        lambda: windows().aggregate(_Average()),
        lambda: windows().aggregate(_Average(), accumulator_type=Types.STRING()),
        lambda: windows().aggregate(_Average(), Process(), accumulator, named),
        lambda: windows().reduce(lambda a, b: (a[0], b[1], a[2] + b[2])),
        lambda: windows().reduce(lambda a, b: (a[0], b[1], a[2] + b[2]), Process()),
        in_order=False,
    )


class _Second(Trigger):
    """Fires at the second element of a window, and at its end."""

    _COUNT = ReducingStateDescriptor("count", operator.add, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(self._COUNT)
        count.add(1)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.FIRE if count.get() == 2 else TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self._COUNT)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self._COUNT).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


def one_trigger_in_windows_of_all_kinds(env):
    """A trigger with state and timers in tumbling, sliding, session, global and count windows."""

    def keyed():
        return _events(env).key_by(lambda e: e[0], Types.STRING())

    windows = (
        TumblingEventTimeWindows.of(Time.seconds(3)),
        EventTimeSessionWindows.with_gap(Time.seconds(2)),
        SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2)),
        GlobalWindows.create(),
        CountSlidingWindowAssigner.of(3, 2),
    )
    return _each(
        *[lambda w=w: keyed().window(w).trigger(_Second()).process(_Show(), Types.STRING()) for w in windows],
        in_order=False,
    )


def triggers_with_wrong_results(env):
    """What on_element() may give."""

    def fired(result):
        class Gives(_Second):
            def on_element(self, element, timestamp, window, ctx):
                return result

            def clear(self, window, ctx):
                pass

        windows = (
            _events(env)
            .key_by(lambda e: e[0], Types.STRING())
            .window(TumblingEventTimeWindows.of(Time.seconds(3)))
        )
        return windows.trigger(Gives()).process(_Show(), Types.STRING())

    return _each(
        *[lambda r=r: fired(r) for r in (None, "FIRE", True, TriggerResult.PURGE, TriggerResult.FIRE)]
    )


@settings(execution__runtime_mode="BATCH")
def batch_join_with_lists(env):
    """In BATCH mode the first input's elements of a key that are earlier are there when the second's come."""

    class Joined(KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.lefts = runtime_context.get_list_state(ListStateDescriptor("lefts", Types.INT()))

        def process_element1(self, value, ctx):
            self.lefts.add(value[2])
            return []

        def process_element2(self, value, ctx):
            yield f"{ctx.get_current_key()} {len(list(self.lefts.get())) > 0} {value[2]} {ctx.timestamp()}"

    later = _events(env).map(
        lambda e: (e[0], e[1] + 1, e[2]), Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At())
    later = later.assign_timestamps_and_watermarks(strategy)
    left = _events(env).key_by(lambda e: e[0], Types.STRING())
    joined = left.connect(later.key_by(lambda e: e[0], Types.STRING())).process(Joined(), Types.STRING())
    return _each(lambda: joined, in_order=False)


@dataclasses.dataclass(order=True)
class _Event:
    name: str
    n: int
    tags: list = dataclasses.field(default_factory=list)


class _Kind(enum.Enum):
    A = "a"
    B = "b"


class _Point(typing.NamedTuple):
    x: int
    y: int = 0


def objects_through_everything(env):
    """Dataclasses, enums and named tuples as elements, keys and what is reduced."""

    def events():
        return env.from_collection([_Event("a", 1), _Event("b", 2), _Event("a", 3)])

    pair = Types.TUPLE([Types.INT(), Types.INT()])
    return _each(
        lambda: (
            events()
            .key_by(lambda e: e.name)
            .reduce(lambda a, b: _Event(a.name, a.n + b.n, [*a.tags, "r"]))
            .map(repr)
        ),
        lambda: events().key_by(lambda e: _Kind(e.name)).map(lambda e: _Kind(e.name).name),
        lambda: (
            events().map(lambda e: (_Kind(e.name), _Point(e.n))).key_by(lambda t: t[0]).map(lambda t: t[1].x)
        ),
        lambda: events().map(lambda e: _Point(e.n, 5), pair).map(lambda p: type(p).__name__),
        lambda: events().key_by(lambda e: _Point(e.n, 1)).map(lambda e: e.n),
        lambda: events().key_by(lambda e: (e.name, _Kind.A)).map(lambda e: e.n),
        lambda: events().key_by(lambda e: repr(e)).map(lambda e: e.tags),
    )


def what_process_functions_may_give(env):
    """Generators that clean up, end early and send; maps, generator expressions and sets."""

    class CleansUp(ProcessFunction):
        def process_element(self, value, ctx):
            try:
                yield from range(value[1])
            finally:
                yield "end"

    class EndsEarly(ProcessFunction):
        def process_element(self, value, ctx):
            if value[1] == 2:
                return
            yield from (value[1], value[1] * 10)

    class Sent(ProcessFunction):
        def process_element(self, value, ctx):
            sent = yield value[1]
            yield sent is None

    class GivesMap(ProcessFunction):
        def process_element(self, value, ctx):
            return map(str, range(value[1]))

    class GivesExpression(ProcessFunction):
        def process_element(self, value, ctx):
            return (each for each in range(value[1]))

    class GivesSet(ProcessFunction):
        def process_element(self, value, ctx):
            return {value[1]}

    functions = (CleansUp, EndsEarly, Sent, GivesMap, GivesExpression, GivesSet)
    return _each(*[lambda f=f: _pairs(env).process(f()) for f in functions])


class _Times:
    def __init__(self, n):
        self.n = n

    def __call__(self, value):
        return value[1] * self.n


def callables_everywhere(env):
    """partial, itemgetter, objects with __call__, builtins and bound methods as functions of all kinds."""

    def add(a, b, c=1):
        return a + b + c

    return _each(
        lambda: (
            _pairs(env)
            .key_by(operator.itemgetter(0), Types.STRING())
            .map(operator.itemgetter(1), Types.INT())
        ),
        lambda: _pairs(env).map(_Times(3), Types.INT()).map(functools.partial(add, 10), Types.INT()),
        lambda: _pairs(env).filter(_Times(0)),
        lambda: _pairs(env).key_by(_Times(2), Types.INT()).reduce(lambda a, b: a),
        lambda: _pairs(env).map(_Times(1)).key_by(lambda v: v % 2).reduce(max),
        lambda: _pairs(env).map(_Times(1)).key_by(lambda v: v % 2).reduce(operator.add),
        lambda: _pairs(env).map("{0[0]}".format),
    )


def assigners_called_by_hand(env):
    """What assigners say of an element, without a job."""

    class Context:
        def get_current_processing_time(self):
            return 12_345

        def get_runtime_context(self):
            return None

    second = Time.seconds
    assigners = (
        TumblingEventTimeWindows.of(second(5), second(2)),
        SlidingEventTimeWindows.of(second(5), second(2)),
        TumblingProcessingTimeWindows.of(second(5)),
        SlidingProcessingTimeWindows.of(second(4), second(2)),
        EventTimeSessionWindows.with_gap(second(1)),
    )
    return [str(sorted(each.assign_windows("x", at, Context()))) for each in assigners for at in (12_001, -1)]


def connected_by_keys_of_all_kinds(env):
    """key_by() of connected streams, with and without a key type, and what needs keys without."""

    class Mapped(CoMapFunction):
        def map1(self, value):
            return f"1 {value}"

        def map2(self, value):
            return f"2 {value}"

    class Keys(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            yield f"1 {ctx.get_current_key()!r}"

        def process_element2(self, value, ctx):
            yield f"2 {ctx.get_current_key()!r}"

    def numbers():
        return env.from_collection([1, 2], Types.INT())

    def connected():
        return _pairs(env).connect(numbers())

    return _each(
        lambda: connected().key_by(lambda p: p[1], lambda i: i).process(Keys()),
        lambda: connected().key_by(lambda p: p[1], lambda i: i, Types.INT()).process(Keys()),
        lambda: connected().key_by(lambda p: p[0], str, key_type=Types.STRING()).map(Mapped()),
        lambda: _pairs(env).key_by(lambda p: p[1]).connect(numbers().key_by(lambda i: i)).process(Keys()),
        lambda: connected().process(Keys()),
        in_order=False,
    )
