"""Kinds of state, timers, windows, triggers and restarts that meet in one small job."""

from __future__ import annotations

import os
import tempfile
import time

from pyflink.common import RestartStrategies, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.functions import AllWindowFunction, KeyedBroadcastProcessFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)

from corners.how import unordered

_PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
_TIMED = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()])
_EVENTS = [
    ("a", 1, 1000),
    ("b", 2, 1500),
    ("a", 3, 2500),
    ("c", 4, 2600),
    ("b", 5, 3100),
    ("a", 6, 5000),
    ("c", 7, 5200),
    ("b", 8, 9000),
]


class _At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


def _pairs(env, count=6):
    return env.from_collection([("abc"[n % 3], n) for n in range(count)], _PAIR)


def _by_key(stream):
    return stream.key_by(lambda v: v[0], Types.STRING())


def _timed(env, events=_EVENTS):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At())
    return env.from_collection(events, _TIMED).assign_timestamps_and_watermarks(strategy)


@unordered("timers of three keys")
def restart_with_timers_and_three_states(env):
    """What a restart repeats gives the same again."""
    failed = f"{tempfile.mkdtemp()}/failed"
    env.enable_checkpointing(200)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 100))

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))
            self.list = runtime_context.get_list_state(ListStateDescriptor("l", Types.INT()))
            self.map = runtime_context.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.INT()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            self.list.add(value[1])
            self.map.put(f"{value[0]}{value[1] % 2}", value[1])
            ctx.timer_service().register_event_time_timer(value[2] + 10)
            if value[1] == 7 and not os.path.exists(failed):
                open(failed, "w").close()
                raise ValueError("once")
            return []

        def on_timer(self, timestamp, ctx):
            kept = f"{self.count.value()} {sorted(self.list.get())} {sorted(self.map.items())}"
            yield f"{ctx.get_current_key()} {timestamp} {kept}"

    return _by_key(_timed(env)).process(Keep(), Types.STRING())


def attempts_of_a_fixed_delay(env):
    """Two restarts are three attempts, each with its number."""
    folder = tempfile.mkdtemp()

    class Fail(MapFunction):
        def open(self, runtime_context):
            self.attempt = runtime_context.get_attempt_number()
            open(f"{folder}/{time.time_ns()}", "w").close()

        def map(self, value):
            raise ValueError(f"attempt {self.attempt}")

    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 50))
    _pairs(env).map(Fail()).print()
    try:
        env.execute()
    except Exception as error:
        return [str(len(os.listdir(folder))), str("attempt 2" in str(error))]


def combining_states_of_rows(env):
    """Rows as what is reduced, and as an accumulator that is changed in place."""

    class Total(AggregateFunction):
        def create_accumulator(self):
            return Row(s=0, names=[])

        def add(self, value, accumulator):
            accumulator["s"] += value[1]
            accumulator["names"].append(value[0])
            return accumulator

        def get_result(self, accumulator):
            return f"{accumulator['s']}:{'-'.join(accumulator['names'])}"

        def merge(self, a, b):
            return a

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context):
            pair = Types.ROW([Types.INT(), Types.STRING()])
            held = Types.ROW_NAMED(["s", "names"], [Types.INT(), Types.LIST(Types.STRING())])
            self.largest = runtime_context.get_reducing_state(
                ReducingStateDescriptor("r", lambda a, b: Row(a[0] + b[0], max(a[1], b[1])), pair)
            )
            self.total = runtime_context.get_aggregating_state(AggregatingStateDescriptor("a", Total(), held))

        def process_element(self, value, ctx):
            self.largest.add(Row(value[1], str(value[1])))
            self.total.add(value)
            found = self.largest.get()
            yield f"{value[0]} {found[0]} {found[1]} {self.total.get()}"
            if value[1] == 3:
                self.largest.clear()
                self.total.clear()

    return _by_key(_pairs(env, 8)).process(Keep(), Types.STRING())


def map_state_of_nested_types(env):
    """Tuples as map keys, maps of lists as values, entries and all of them removed."""

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context):
            keys = Types.TUPLE([Types.STRING(), Types.INT()])
            values = Types.MAP(Types.STRING(), Types.LIST(Types.INT()))
            self.map = runtime_context.get_map_state(MapStateDescriptor("m", keys, values))

        def process_element(self, value, ctx):
            key = (value[0], value[1] % 2)
            found = self.map.get(key) or {}
            found.setdefault("x", []).append(value[1])
            self.map.put(key, found)
            yield f"{sorted(self.map.items())} {key in self.map} {self.map.contains(('z', 0))}"
            if value[1] == 4:
                self.map.remove(key)
            if value[1] == 5:
                self.map.clear()

    return _by_key(_pairs(env, 9)).process(Keep(), Types.STRING())


@unordered("rules and elements come in any order")
def broadcast_state_beside_keyed_state_and_timers(env):
    """A timer sees the rules and the key's own state."""
    described = MapStateDescriptor("rules", Types.STRING(), Types.INT())

    class Keep(KeyedBroadcastProcessFunction):
        def open(self, runtime_context):
            self.sum = runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))

        def process_element(self, value, ctx):
            self.sum.update((self.sum.value() or 0) + value[1])
            ctx.timer_service().register_event_time_timer(value[2] + 1)
            return []

        def process_broadcast_element(self, value, ctx):
            rules = ctx.get_broadcast_state(described)
            rules.put(value[0], value[1])
            yield f"{value} {sorted(rules.items())}"

        def on_timer(self, timestamp, ctx):
            limit = ctx.get_broadcast_state(described).get("limit")
            yield f"{timestamp} {ctx.get_current_key()} {self.sum.value()} {limit}"

    rules = env.from_collection([("limit", 3), ("limit", 4)], _PAIR).broadcast(described)
    return _by_key(_timed(env)).connect(rules).process(Keep(), Types.STRING())


class _FireAtTwo(Trigger):
    """Fires at every second element and at the end; its count merges with the sessions."""

    counted = ReducingStateDescriptor("n", lambda a, b: a + b, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(self.counted)
        count.add(1)
        ctx.register_event_time_timer(window.max_timestamp())
        if count.get() == 2:
            count.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.counted)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.counted).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


@unordered("windows of three keys")
def sessions_with_a_trigger_whose_state_merges(env):
    """Sessions that fire early, and at their end."""

    class Show(ProcessWindowFunction):
        def process(self, key, context, elements):
            window = context.window()
            yield f"{key} {window.start} {window.end} {sorted(each[1] for each in elements)}"

    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(1600))
    return _by_key(_timed(env)).window(sessions).trigger(_FireAtTwo()).process(Show(), Types.STRING())


@unordered("windows of three keys")
def sliding_averages_as_rows(env):
    """An aggregate's row is what the window function gets, by name and by number."""

    class Total(AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value[1], accumulator[1] + 1

        def get_result(self, accumulator):
            return Row(total=accumulator[0], n=accumulator[1])

        def merge(self, a, b):
            return a[0] + b[0], a[1] + b[1]

    class Show(ProcessWindowFunction):
        def process(self, key, context, elements):
            found = next(iter(elements))
            yield Row(key, context.window().start, found.total, found["n"], found[0] / found[1])

    kinds = [Types.STRING(), Types.LONG(), Types.INT(), Types.INT(), Types.DOUBLE()]
    windows = SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2))
    return (
        _by_key(_timed(env))
        .window(windows)
        .aggregate(
            Total(),
            Show(),
            accumulator_type=Types.TUPLE([Types.INT(), Types.INT()]),
            output_type=Types.ROW_NAMED(["k", "s", "t", "n", "avg"], kinds),
        )
    )


def three_windows_printed(env):
    """Count windows that slide, windows of all, and reduced ones."""

    class Show(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield f"{key} {sorted(each[1] for each in elements)} {context.window().id} {context.current_watermark()}"

    class Sum(AllWindowFunction):
        def apply(self, window, inputs):
            yield window.start, window.end, sum(each[1] for each in inputs)

    _by_key(_pairs(env, 14)).count_window(3, 1).process(Show(), Types.STRING()).print("counted")
    env.execute()
    windows = SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2))
    sums = Types.TUPLE([Types.LONG(), Types.LONG(), Types.INT()])
    _timed(env).window_all(windows).apply(Sum(), sums).print("all")
    env.execute()
    one_key = [("a", n, n * 700) for n in range(8)]
    tumbling = TumblingEventTimeWindows.of(Time.seconds(2))
    reduced = _by_key(_timed(env, one_key)).window(tumbling).reduce(lambda a, b: (a[0], a[1] + b[1], b[2]))
    reduced.print("reduced")
    env.execute()


def flat_map_with_map_state(env):
    """State in a flat_map, and maps by their operators."""

    class Firsts(FlatMapFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_map_state(MapStateDescriptor("s", Types.INT(), Types.BOOLEAN()))

        def flat_map(self, value):
            seen = self.seen
            if value[1] % 2 not in seen:
                seen[value[1] % 2] = True
                yield value
                yield value[0].upper(), len(list(seen))
            if value[1] == 5:
                del seen[1]

    return _by_key(_pairs(env, 12)).flat_map(Firsts(), _PAIR)
