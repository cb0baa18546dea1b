"""Several subtasks, and several ways out of an operator: partitioners, side outputs, timers of two inputs."""

from __future__ import annotations

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    Trigger,
    TriggerResult,
)
from pyflink.datastream.functions import ProcessAllWindowFunction, ProcessWindowFunction
from pyflink.datastream.state import MapStateDescriptor
from pyflink.datastream.window import GlobalWindows, TumblingEventTimeWindows

from corners.how import unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])
_SUBTASKS = "subtasks have no order between them"
_BETWEEN = "two inputs have no order between them"
_TEXTS = OutputTag("texts", Types.STRING())
_NUMBERS = OutputTag("numbers", Types.LONG())
_RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
_FIRST = (("a", 1), ("b", 2), ("a", 3))
_OTHER = (("a", 2), ("c", 4), ("b", 6))


class _Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _key(value):
    return value[0]


def _timed(env, *elements):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Second())
    return env.from_collection(list(elements), _PAIRS).assign_timestamps_and_watermarks(strategy)


def _keyed(env, *elements):
    return _timed(env, *elements).key_by(_key, Types.STRING())


def _both_keyed(env):
    return _keyed(env, *_FIRST).connect(_keyed(env, *_OTHER))


def _numbers(env, count):
    return env.from_collection(list(range(count)), Types.INT())


class _Counted(MapFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.count = 0

    def map(self, value):
        self.count += 1
        return f"{self.count} in {self.subtask}"


@unordered(_SUBTASKS)
def rebalanced_evenly(env):
    """How many elements each of three subtasks gets of a rebalance."""
    return _numbers(env, 12).rebalance().map(_Counted(), Types.STRING()).set_parallelism(3)


@unordered(_SUBTASKS)
def rescaled_evenly(env):
    """How many elements each of two subtasks gets of a rescale."""
    return _numbers(env, 12).rescale().map(_Counted(), Types.STRING()).set_parallelism(2)


@unordered(_SUBTASKS)
def broadcast_and_united(env):
    """A union of what every subtask gets and of what one of them gets."""

    class Named(MapFunction):
        def open(self, runtime_context):
            self.subtask = runtime_context.get_index_of_this_subtask()

        def map(self, value):
            return f"{value} in {self.subtask if value < 2 else 'one'}"

    each = _numbers(env, 2).broadcast()
    one = env.from_collection([10, 11, 12], Types.INT()).rebalance()
    return each.union(one).map(Named(), Types.STRING()).set_parallelism(2)


@unordered(_SUBTASKS)
def one_input_to_all_the_other_spread(env):
    """Of two connected streams one goes to every subtask, the other is spread over them."""

    class Named(CoMapFunction):
        def open(self, runtime_context):
            self.subtask = runtime_context.get_index_of_this_subtask()
            self.count = 0

        def map1(self, value):
            self.count += 1
            return f"element {self.count} of {self.subtask}"

        def map2(self, value):
            return f"{value} in {self.subtask}"

    spread, all_of_them = _numbers(env, 4).rebalance(), _numbers(env, 2).broadcast()
    return spread.connect(all_of_them).map(Named(), Types.STRING()).set_parallelism(2)


@unordered(_SUBTASKS)
def what_subtasks_know_of_themselves(env):
    """Index, parallelism, attempt and largest parallelism in open()."""

    class Once(ProcessFunction):
        def open(self, runtime_context):
            self.said = False
            self.known = (
                runtime_context.get_index_of_this_subtask(),
                runtime_context.get_number_of_parallel_subtasks(),
                runtime_context.get_attempt_number(),
                runtime_context.get_max_number_of_parallel_subtasks(),
            )

        def process_element(self, value, ctx):
            if not self.said:
                self.said = True
                yield str(self.known)

    spread = _numbers(env, 12).rebalance().process(Once(), Types.STRING())
    return spread.set_parallelism(3).set_max_parallelism(64)


@unordered(_SUBTASKS)
def side_output_of_three_subtasks(env):
    """Each of three subtasks gives elements to a tag, and a map behind it has one subtask."""

    class Apart(ProcessFunction):
        def process_element(self, value, ctx):
            yield _TEXTS, f"side {value}"
            yield value

    apart = _numbers(env, 6).rebalance().process(Apart(), Types.INT()).set_parallelism(3)
    side = apart.get_side_output(_TEXTS).map(str.upper, Types.STRING())
    return side.union(apart.map(str, Types.STRING()).set_parallelism(3))


@unordered(_SUBTASKS)
def timers_behind_several_subtasks(env):
    """Event time behind three subtasks that feed two."""

    class Reminds(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1])
            return []

        def on_timer(self, timestamp, ctx):
            yield f"{timestamp} {ctx.get_current_key()}"

    spread = _timed(env, *((f"k{n % 3}", n) for n in range(9))).rebalance()
    spread = spread.map(lambda v: v, _PAIRS).set_parallelism(3)
    return spread.key_by(_key, Types.STRING()).process(Reminds(), Types.STRING()).set_parallelism(2)


@unordered(_SUBTASKS)
def windows_of_all_behind_two_subtasks(env):
    """A window of all elements gathers those of two subtasks."""

    class Listed(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield f"{context.window().start} {sorted(elements)}"

    spread = _timed(env, ("a", 1), ("b", 2), ("c", 11)).rebalance().map(lambda v: v, _PAIRS)
    windows = spread.set_parallelism(2).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    return windows.process(Listed(), Types.STRING())


@unordered(_BETWEEN)
def side_outputs_of_timers(env):
    """on_timer() gives to two tags, of two types."""

    class Reminds(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 1)
            yield value

        def on_timer(self, timestamp, ctx):
            yield _NUMBERS, timestamp
            yield _TEXTS, ctx.get_current_key()

    reminded = _keyed(env, *_FIRST).process(Reminds(), _PAIRS)
    numbers = reminded.get_side_output(_NUMBERS).map(str, Types.STRING())
    return reminded.get_side_output(_TEXTS).union(numbers)


@unordered(_BETWEEN)
def side_output_into_another(env):
    """A process function on a side output has a side output of its own."""

    class Odd(ProcessFunction):
        def process_element(self, value, ctx):
            yield (_TEXTS, value[0]) if value[1] % 2 else value

    class Doubled(ProcessFunction):
        def process_element(self, value, ctx):
            yield _NUMBERS, len(value)
            yield value + value

    odd = _timed(env, *_FIRST, *_OTHER).process(Odd(), _PAIRS)
    doubled = odd.get_side_output(_TEXTS).process(Doubled(), Types.STRING())
    lengths = doubled.get_side_output(_NUMBERS).map(lambda v: f"length {v}", Types.STRING())
    return doubled.union(lengths, odd.map(str, Types.STRING()))


@unordered(_BETWEEN)
def side_outputs_of_both_inputs(env):
    """Each input of a CoProcessFunction gives to a tag of its own and to the main output."""

    class Apart(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield _TEXTS, value[0]
            yield value[1]

        def process_element2(self, value, ctx):
            yield _NUMBERS, value[1]
            yield value[1] * 100

    apart = _timed(env, *_FIRST).connect(_timed(env, *_OTHER)).process(Apart(), Types.LONG())
    numbers = apart.get_side_output(_NUMBERS).map(lambda v: f"side {v}", Types.STRING())
    return apart.map(str, Types.STRING()).union(apart.get_side_output(_TEXTS), numbers)


@unordered("keys have no order between them")
def timers_of_both_inputs(env):
    """Both inputs set timers for a key: their own, and one that they share."""

    class Reminds(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 10)
            ctx.timer_service().register_event_time_timer(50)
            return []

        def process_element2(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 20)
            ctx.timer_service().register_event_time_timer(50)
            return []

        def on_timer(self, timestamp, ctx):
            yield f"{timestamp} {ctx.get_current_key()} {ctx.timestamp()} {ctx.time_domain().name}"

    return _both_keyed(env).process(Reminds(), Types.STRING())


@unordered(_BETWEEN)
def join_within_a_time_with_a_side_output(env):
    """An interval join by hand: entries leave by timers, some elements by a side output."""

    class Joins(KeyedCoProcessFunction):
        def open(self, runtime_context):
            values = Types.LIST(Types.LONG())
            self.sides = [
                runtime_context.get_map_state(MapStateDescriptor(name, Types.LONG(), values))
                for name in ("first", "other")
            ]

        def joined(self, value, ctx, own, other):
            if value[1] == 6:
                yield _TEXTS, str(value)
                return
            entries = self.sides[own].get(ctx.timestamp()) or []
            self.sides[own].put(ctx.timestamp(), [*entries, value[1]])
            for time, numbers in list(self.sides[other].items()):
                if abs(time - ctx.timestamp()) <= 2:
                    for number in numbers:
                        yield f"{value[0]} {sorted((number, value[1]))}"
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5)

        def process_element1(self, value, ctx):
            yield from self.joined(value, ctx, 0, 1)

        def process_element2(self, value, ctx):
            yield from self.joined(value, ctx, 1, 0)

        def on_timer(self, timestamp, ctx):
            for side in self.sides:
                side.remove(timestamp - 5)
            yield f"{ctx.get_current_key()} at {timestamp} {[side.is_empty() for side in self.sides]}"

    joined = _both_keyed(env).process(Joins(), Types.STRING())
    return joined.union(joined.get_side_output(_TEXTS))


@unordered(_BETWEEN)
def broadcast_state_in_timers(env):
    """on_timer() of a keyed broadcast function reads all that was broadcast."""

    class Reminds(KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1000 + value[1])
            yield f"{ctx.get_current_key()} {ctx.timestamp()}"

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(_RULES).put(value[0], value[1])
            return []

        def on_timer(self, timestamp, ctx):
            rules = sorted(ctx.get_broadcast_state(_RULES).items())
            yield f"{timestamp} {ctx.get_current_key()} {rules} {ctx.timestamp()}"

    connected = _keyed(env, *_FIRST).connect(_timed(env, *_OTHER).broadcast(_RULES))
    return connected.process(Reminds(), Types.STRING())


def trigger_with_each_result(env):
    """A trigger that fires, fires and purges, goes on, and purges."""

    class Each(Trigger):
        def on_element(self, element, timestamp, window, ctx):
            results = TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE
            return (*results, TriggerResult.CONTINUE, TriggerResult.PURGE)[element[1] % 4]

        def on_processing_time(self, time, window, ctx):
            return TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            return TriggerResult.CONTINUE

        def on_merge(self, window, ctx):
            pass

        def clear(self, window, ctx):
            pass

    class Listed(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield f"{key} {sorted(element[1] for element in elements)}"

    elements = (("a", n) for n in (2, 4, 6, 9, 10, 11, 12, 14, 13))
    return (
        _keyed(env, *elements)
        .window(GlobalWindows.create())
        .trigger(Each())
        .process(Listed(), Types.STRING())
    )
