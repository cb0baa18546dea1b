"""Programs of several parts: sessions, joins and rules by hand, keys of one's own classes."""

from __future__ import annotations

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
)
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

from corners.how import unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.INT()])


class _At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _timed(env, pairs):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At())
    return env.from_collection(list(pairs), _PAIRS).assign_timestamps_and_watermarks(strategy)


def sessions_by_hand(env):
    """Gaps found with a timer that moves: delete the old one, set a new one."""

    class Sessions(KeyedProcessFunction):
        def open(self, runtime_context):
            self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.INT()))
            self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

        def process_element(self, value, ctx):
            if self.due.value() is not None:
                ctx.timer_service().delete_event_time_timer(self.due.value())
            self.items.add(value[1])
            self.due.update(ctx.timestamp() + 10)
            ctx.timer_service().register_event_time_timer(self.due.value())

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp} {list(self.items.get())}"
            self.items.clear()
            self.due.clear()

    pairs = [("a", 1), ("b", 2), ("a", 5), ("a", 30), ("b", 12)]
    return _timed(env, pairs).key_by(lambda p: p[0], Types.STRING()).process(Sessions(), Types.STRING())


@unordered("two sinks")
def join_with_state_and_side_output(env):
    """A keyed join with map states, leftovers by timer to a tag."""
    tag = OutputTag("left over", Types.STRING())

    class Join(KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.left = runtime_context.get_map_state(MapStateDescriptor("l", Types.INT(), Types.BOOLEAN()))
            self.right = runtime_context.get_map_state(MapStateDescriptor("r", Types.INT(), Types.BOOLEAN()))

        def process_element1(self, value, ctx):
            self.left.put(value[1], True)
            ctx.timer_service().register_event_time_timer(100)

        def process_element2(self, value, ctx):
            self.right.put(value[1], True)
            ctx.timer_service().register_event_time_timer(100)

        def on_timer(self, timestamp, ctx):
            left, right = set(self.left.keys()), set(self.right.keys())
            for both in sorted(left & right):
                yield f"{ctx.get_current_key()} {both}"
            for one in sorted(left ^ right):
                yield tag, f"{ctx.get_current_key()} only {one}"

    left = _timed(env, [("a", 1), ("a", 2), ("b", 3)])
    right = _timed(env, [("a", 2), ("b", 4), ("c", 5)])
    joined = (
        left.connect(right)
        .key_by(lambda p: p[0], lambda p: p[0], Types.STRING())
        .process(Join(), Types.STRING())
    )
    joined.get_side_output(tag).print("side")
    joined.print("main")
    env.execute()


@unordered("subtasks")
def broadcast_in_parallel(env):
    """Rules reach all subtasks; what timers see is complete."""
    rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())

    class Apply(KeyedBroadcastProcessFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

        def process_element(self, value, ctx):
            self.seen.add(value[1])
            ctx.timer_service().register_event_time_timer(10_000)

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(rules)
            state.put(value[0], (state.get(value[0]) or 0) + value[1])

        def on_timer(self, timestamp, ctx):
            held = dict(ctx.get_broadcast_state(rules).items())
            yield f"{ctx.get_current_key()} {sorted(self.seen.get())} {sorted(held.items())}"

    env.set_parallelism(2)
    values = _timed(env, [(k, i) for i, k in enumerate("abcdeab")]).key_by(lambda p: p[0], Types.STRING())
    sent = _timed(env, [("x", 1), ("y", 2), ("x", 3)]).broadcast(rules)
    return values.connect(sent).process(Apply(), Types.STRING())


def chained_timestamps(env):
    """Timestamps through map, flat_map, filter, union, process and a second assigner."""

    class Shows(ProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value} {ctx.timestamp()}"

    class Twice(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return record_timestamp * 2

    first = _timed(env, [("a", 1), ("b", 2)])
    mapped = (
        first.map(lambda p: (p[0], p[1] + 100), _PAIRS)
        .flat_map(lambda p: [p, p], _PAIRS)
        .filter(lambda p: True)
    )
    again = mapped.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Twice())
    )
    return again.rebalance().process(Shows(), Types.STRING())


def key_of_an_enum_and_a_dataclass(env):
    """Keys of the program's own classes, undeclared."""
    import dataclasses
    import enum

    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    @dataclasses.dataclass(frozen=True)
    class Point:
        x: int
        y: int

    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            yield f"{ctx.get_current_key()} {self.count.value()}"

    numbers = env.from_collection([1, 2, 3, 4, 5], Types.INT())
    colors = numbers.key_by(lambda v: Color.RED if v % 2 else Color.BLUE).process(Count(), Types.STRING())
    points = numbers.key_by(lambda v: Point(v % 2, 0)).process(Count(), Types.STRING())
    return sorted(colors.union(points).execute_and_collect())


def co_process_without_results(env):
    """A CoProcessFunction whose methods give None, lists and generators."""

    class Both(CoProcessFunction):
        def process_element1(self, value, ctx):
            return [value[1]] if value[1] > 1 else None

        def process_element2(self, value, ctx):
            yield value[1] * 10

    left, right = _timed(env, [("a", 1), ("a", 2)]), _timed(env, [("b", 3)])
    return sorted(left.connect(right).process(Both(), Types.INT()).execute_and_collect())
