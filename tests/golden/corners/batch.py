"""BATCH mode: every operator, keyed and not, with timestamps and without."""

from __future__ import annotations

import datetime

from pyflink.common import Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
)
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

from corners.how import in_threads, unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])
_UNITED = "two streams are united"
_WINDOWS = "process mode emits no windows and mixes up the keys of timers in BATCH mode"
_SOME = [("a", 500), ("b", 700), ("a", 100), ("b", 200), ("a", 1500), ("a", 900)]


class _Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _timed(env, elements):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Second())
    return env.from_collection(list(elements), _PAIRS).assign_timestamps_and_watermarks(strategy)


def _keyed(env, elements=_SOME):
    return _timed(env, elements).key_by(lambda v: v[0], Types.STRING())


def _bare(env, elements=_SOME):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env.from_collection(list(elements), _PAIRS)


def chain(env):
    """Functions without keys run as in streaming."""
    return (
        _bare(env)
        .map(lambda v: v[1], Types.LONG())
        .filter(lambda n: n > 300)
        .flat_map(lambda n: [n, -n], Types.LONG())
    )


def process_without_keys(env):
    """A process function without keys keeps the input's order, and sees timestamps."""

    class Tell(ProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value[1]} {ctx.timestamp()}"

    return _timed(env, _SOME).process(Tell(), Types.STRING())


def reduce_gives_the_last(env):
    """reduce() gives one element for each key."""
    return _keyed(env).reduce(lambda left, right: (left[0], left[1] + right[1]))


def reduce_in_the_order_of_time(env):
    """A key's elements are reduced in the order of their timestamps."""
    joined = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])
    keyed = (
        _timed(env, [("a", 3), ("a", 1), ("a", 2)])
        .map(lambda v: (v[0], v[1], str(v[1])), joined)
        .key_by(lambda v: v[0])
    )
    return keyed.reduce(lambda left, right: (left[0], right[1], left[2] + right[2]))


def reduce_in_the_order_of_arrival(env):
    """Without timestamps in the order in which they come."""
    joined = Types.TUPLE([Types.STRING(), Types.STRING()])
    keyed = (
        _bare(env, [("a", 3), ("a", 1), ("a", 2)])
        .map(lambda v: (v[0], str(v[1])), joined)
        .key_by(lambda v: v[0])
    )
    return keyed.reduce(lambda left, right: (left[0], left[1] + right[1]))


def reduce_of_a_single_element(env):
    """A key with one element gives that, untouched."""
    return _keyed(env, [("a", 1), ("b", 2)]).reduce(lambda left, right: ("never", 0))


@unordered(_UNITED)
def sum_min_max(env):
    """Rolling aggregations give their last value for each key."""
    keyed = _keyed(env)
    return keyed.sum(1).union(keyed.min(1), keyed.max(1))


@unordered(_UNITED)
def min_by_and_max_by(env):
    """min_by() and max_by() too."""
    keyed = _keyed(env)
    return keyed.min_by(1).union(keyed.max_by(1))


def sum_of_sum(env):
    """The result of one keyed operator goes into another."""
    return _keyed(env).sum(1).key_by(lambda v: 0).sum(1).map(lambda v: v[1], Types.LONG())


class _Seen(MapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def map(self, value):
        self.seen.add(value[1])
        return f"{value[0]} {list(self.seen.get())}"


def keyed_map_with_state(env):
    """A map on a keyed stream gets every element, a key's in the order of time."""
    return _keyed(env).map(_Seen(), Types.STRING())


@unordered(_UNITED)
def keyed_flat_map_and_filter(env):
    """flat_map and filter on keyed streams."""
    keyed = _keyed(env)
    spread = keyed.flat_map(lambda v: [v[1], v[1] + 1] if v[1] > 600 else [], Types.LONG())
    return spread.union(keyed.filter(lambda v: v[1] < 300).map(lambda v: v[1], Types.LONG()))


def elements_of_equal_time(env):
    """Elements of one key and one time keep the order in which they come."""
    timed = _timed(env, [("a", 5), ("b", 5), ("c", 1), ("d", 5)])
    return timed.key_by(lambda v: 0).map(lambda v: v[0], Types.STRING())


def keys_are_not_mixed(env):
    """All of one key comes before any of the next."""

    class Runs(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value[0]

    texts = _keyed(env).process(Runs(), Types.STRING())
    return texts.map(_changes_of_key(), Types.INT()).filter(lambda n: n > 2)


def _changes_of_key():
    class Changes(MapFunction):
        def open(self, runtime_context):
            self.last = None
            self.changes = 0

        def map(self, value):
            self.changes += value != self.last
            self.last = value
            return self.changes

    return Changes()


class _Timers(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 1)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp} {list(self.seen.get())}"


@in_threads(_WINDOWS)
def timers_after_all_elements(env):
    """A key's timers fire after all of its elements."""
    return _keyed(env).process(_Timers(), Types.STRING())


@in_threads(_WINDOWS)
def timers_of_one_key_in_order(env):
    """They fire by time."""
    return _keyed(env, [("a", 3), ("a", 1), ("a", 2)]).process(_Timers(), Types.STRING())


@in_threads(_WINDOWS)
def timer_that_sets_timers(env):
    """A timer set by a timer fires with the same key."""

    class Chain(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1])

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp}"
            if timestamp < 30:
                ctx.timer_service().register_event_time_timer(timestamp + 10)

    return _keyed(env, [("a", 10)]).process(Chain(), Types.STRING())


@in_threads(_WINDOWS)
def timer_that_sets_another_domains_timer(env):
    """An event-time timer that sets one of processing time, and the other way round."""

    class Chain(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1])
            ctx.timer_service().register_processing_time_timer(7)

        def on_timer(self, timestamp, ctx):
            yield f"{timestamp} {ctx.time_domain().name}"
            ctx.timer_service().register_processing_time_timer(1000)
            ctx.timer_service().register_event_time_timer(2000)

    return _keyed(env, [("a", 10)]).process(Chain(), Types.STRING())


@in_threads(_WINDOWS)
def processing_timers_at_the_end_of_a_key(env):
    """Processing-time timers fire when the key has no more elements, by time, behind those of event time."""

    class Late(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_processing_time_timer(2**40 - value[1])
            ctx.timer_service().register_event_time_timer(2**40)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp - 2**40} {ctx.time_domain().name}"

    return _keyed(env).process(Late(), Types.STRING())


@in_threads(_WINDOWS)
def windows_of_processing_time(env):
    """Windows of processing time end with the key: nothing is lost."""
    windowed = _keyed(env).window(TumblingProcessingTimeWindows.of(Time.days(365)))
    return windowed.reduce(lambda left, right: (left[0], left[1] + right[1]))


@in_threads(_WINDOWS)
def sessions_of_processing_time(env):
    """Sessions of processing time too."""
    windowed = _keyed(env).window(ProcessingTimeSessionWindows.with_gap(Time.days(1)))
    return windowed.process(_TellCount(), Types.STRING())


@in_threads(_WINDOWS)
def windows_of_all_of_processing_time(env):
    """And those over all elements."""
    windowed = _timed(env, _SOME).window_all(TumblingProcessingTimeWindows.of(Time.days(365)))
    return windowed.reduce(lambda left, right: (left[0] + right[0], left[1] + right[1]))


@in_threads(_WINDOWS)
def continuous_trigger(env):
    """A trigger that sets its next timer when one fires."""
    windowed = _keyed(env, [("a", 100), ("a", 900)]).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windowed.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(300))).process(
        _Tell(), Types.STRING()
    )


@in_threads(_WINDOWS)
def watermark_while_processing(env):
    """While elements come the watermark is the lowest; in timers it is the highest."""

    class Tell(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1])
            yield f"element {ctx.timer_service().current_watermark()}"

        def on_timer(self, timestamp, ctx):
            yield f"timer {ctx.timer_service().current_watermark()}"

    return _keyed(env, [("a", 5)]).process(Tell(), Types.STRING())


@in_threads(_WINDOWS)
def timer_deleted(env):
    """A timer that a later element deletes."""

    class Last(KeyedProcessFunction):
        def open(self, runtime_context):
            self.at = runtime_context.get_state(ValueStateDescriptor("at", Types.LONG()))

        def process_element(self, value, ctx):
            if self.at.value() is not None:
                ctx.timer_service().delete_event_time_timer(self.at.value())
            self.at.update(value[1] + 10)
            ctx.timer_service().register_event_time_timer(value[1] + 10)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp}"

    return _keyed(env, [("a", 3), ("a", 1), ("a", 2)]).process(Last(), Types.STRING())


def processing_time_timer(env):
    """A processing-time timer that lies far ahead in BATCH mode."""

    class Ahead(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_processing_time_timer(
                ctx.timer_service().current_processing_time() + 3_600_000
            )
            yield value[0]

        def on_timer(self, timestamp, ctx):
            yield "fired"

    return _keyed(env, [("a", 3)]).process(Ahead(), Types.STRING())


class _Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} [{context.window().start}, {context.window().end}) {[each[1] for each in elements]}"


class _TellCount(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {[each[1] for each in elements]}"


@in_threads(_WINDOWS)
def tumbling_windows(env):
    """One result of each window, elements in the order of time; nothing is late."""
    return _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(_Tell(), Types.STRING())


@in_threads(_WINDOWS)
def sliding_windows(env):
    """Sliding windows with reduce."""
    windowed = _keyed(env).window(SlidingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(500)))
    return windowed.reduce(lambda left, right: (left[0], left[1] + right[1]))


@in_threads(_WINDOWS)
def session_windows(env):
    """Sessions of elements that came in no order."""
    return (
        _keyed(env)
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(450)))
        .process(_Tell(), Types.STRING())
    )


@in_threads(_WINDOWS)
def late_elements_in_batch(env):
    """Nothing goes to the late side output."""
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
    windowed = _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windowed.side_output_late_data(late).process(_Tell(), Types.STRING()).get_side_output(late)


@in_threads(_WINDOWS)
def aggregated_windows(env):
    """aggregate() in windows."""

    class Mean(AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + 1, accumulator[1] + value[1]

        def get_result(self, accumulator):
            return accumulator[1] / accumulator[0]

        def merge(self, acc_a, acc_b):
            return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]

    windowed = _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    return windowed.aggregate(Mean(), accumulator_type=accumulator, output_type=Types.DOUBLE())


@in_threads(_WINDOWS)
def count_windows(env):
    """Count windows take a key's elements in the order of time; what is left over is never given."""
    return _keyed(env).count_window(3).process(_TellCount(), Types.STRING())


@in_threads(_WINDOWS)
def global_windows_with_count(env):
    """GlobalWindows with a purging CountTrigger."""
    windowed = _keyed(env).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return windowed.process(_TellCount(), Types.STRING())


@in_threads(_WINDOWS)
def windows_of_all_in_batch(env):
    """window_all() in BATCH mode."""
    windowed = _timed(env, _SOME).window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windowed.reduce(lambda left, right: (left[0] + right[0], left[1] + right[1]))


class _Both(KeyedCoProcessFunction):
    """Tells of each element with what the key has seen."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value, ctx):
        self.seen.add(value[1])
        yield f"{ctx.get_current_key()} {list(self.seen.get())}"

    def process_element2(self, value, ctx):
        self.seen.add(-value[1])
        yield f"{ctx.get_current_key()} {list(self.seen.get())}"


@in_threads(_WINDOWS)
def two_keyed_inputs_by_time(env):
    """Both inputs of a key are one by time."""
    left, right = (
        _keyed(env, [("a", 5), ("a", 1), ("b", 2), ("a", 3)]),
        _keyed(env, [("a", 4), ("b", 1), ("a", 2)]),
    )
    return left.connect(right).process(_Both(), Types.STRING())


@in_threads(_WINDOWS)
def two_keyed_inputs_of_equal_times(env):
    """Of equal times the inputs take turns."""
    left, right = _keyed(env, [("a", 1), ("a", 1), ("a", 1)]), _keyed(env, [("a", 1), ("a", 1)])
    return left.connect(right).process(_Both(), Types.STRING())


@in_threads(_WINDOWS)
def two_keyed_inputs_with_keys_of_one_side(env):
    """Keys that one side alone has."""
    left, right = _keyed(env, [("a", 1), ("b", 2)]), _keyed(env, [("b", 1), ("c", 3)])
    return left.connect(right).process(_Both(), Types.STRING())


@in_threads(_WINDOWS)
def two_keyed_inputs_with_timers(env):
    """Timers of two inputs fire after both are read for the key."""

    class Timed(_Both):
        def process_element1(self, value, ctx):
            self.seen.add(value[1])
            ctx.timer_service().register_event_time_timer(0)

        def process_element2(self, value, ctx):
            self.seen.add(-value[1])

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} timer {list(self.seen.get())}"

    left, right = _keyed(env, [("a", 5), ("a", 1), ("b", 2)]), _keyed(env, [("a", 4), ("b", 1), ("c", 2)])
    return left.connect(right).process(Timed(), Types.STRING())


@in_threads(_WINDOWS)
def keyed_co_map(env):
    """A CoMapFunction on keyed streams merges by time too."""

    class Held(CoMapFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

        def map1(self, value):
            self.seen.add(value[1])
            return f"{value[0]} {list(self.seen.get())}"

        def map2(self, value):
            self.seen.add(-value[1])
            return f"{value[0]} {list(self.seen.get())}"

    left, right = _keyed(env, [("a", 5), ("a", 1), ("a", 3)]), _keyed(env, [("a", 4), ("a", 2)])
    return left.connect(right).map(Held(), Types.STRING())


@in_threads(_WINDOWS)
def keyed_co_flat_map(env):
    """A CoFlatMapFunction on keyed streams too."""

    class Held(CoFlatMapFunction):
        def open(self, runtime_context):
            self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

        def flat_map1(self, value):
            yield f"{self.last.value()} {value[1]}"
            self.last.update(value[1])

        def flat_map2(self, value):
            yield f"{self.last.value()} {-value[1]}"
            self.last.update(-value[1])

    left, right = _keyed(env, [("a", 5), ("a", 1), ("a", 3)]), _keyed(env, [("a", 4), ("a", 2)])
    return left.connect(right).flat_map(Held(), Types.STRING())


@unordered("two inputs without keys have no order between them")
def two_inputs_without_keys(env):
    """CoMap and CoProcess without keys."""

    class Named(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield f"1 {value[1]}"

        def process_element2(self, value, ctx):
            yield f"2 {value[1]}"

    return _timed(env, [("a", 1), ("a", 2)]).connect(_timed(env, [("b", 3)])).process(Named(), Types.STRING())


_RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


@in_threads(_WINDOWS)
def broadcast_comes_first(env):
    """The broadcast side is read before the other."""

    class Rules(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value[1]} {ctx.get_broadcast_state(_RULES).get('limit')}"

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(_RULES).put(value[0], value[1])

    rules = _timed(env, [("limit", 5), ("limit", 6)]).broadcast(_RULES)
    return _timed(env, [("a", 1), ("a", 2)]).connect(rules).process(Rules(), Types.STRING())


@in_threads(_WINDOWS)
def keyed_broadcast(env):
    """A keyed side with state and timers, behind the broadcast side."""

    class Rules(KeyedBroadcastProcessFunction):
        def open(self, runtime_context):
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value, ctx):
            self.total.update((self.total.value() or 0) + value[1])
            ctx.timer_service().register_event_time_timer(10_000)

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(_RULES).put(value[0], value[1])

        def on_timer(self, timestamp, ctx):
            limit = ctx.get_broadcast_state(_RULES).get("limit")
            yield f"{ctx.get_current_key()} {self.total.value()} of {limit}"

    rules = _timed(env, [("limit", 5)]).broadcast(_RULES)
    return _keyed(env).connect(rules).process(Rules(), Types.STRING())


@unordered(_UNITED)
def union_in_batch(env):
    """union() of two streams, keyed behind it."""
    united = _bare(env, [("a", 1)]).union(_bare(env, [("a", 2), ("b", 3)]))
    return united.key_by(lambda v: v[0]).sum(1)


def side_output_of_a_keyed_function(env):
    """A keyed process function's tag."""
    tag = OutputTag("large", Types.LONG())

    class Sided(KeyedProcessFunction):
        def process_element(self, value, ctx):
            if value[1] > 600:
                yield tag, value[1]

    return _keyed(env).process(Sided(), Types.STRING()).get_side_output(tag)


@unordered("subtasks have no order between them")
def partitioners(env):
    """rebalance and partition_custom lose nothing."""
    numbers = _bare(env).map(lambda v: v[1], Types.LONG())
    spread = numbers.rebalance().map(lambda n: n, Types.LONG()).set_parallelism(2)
    parted = spread.partition_custom(lambda key, count: key % count, lambda n: n)
    parted.map(lambda n: n, Types.LONG()).set_parallelism(2).print().set_parallelism(1)
    env.execute("partitioners")


def printed(env):
    """print() in BATCH mode, in order."""
    _bare(env).map(lambda v: v[1], Types.LONG()).print()
    env.execute("printed")


def keys_that_pickle(env):
    """Keys without a type."""
    return _bare(env).key_by(lambda v: (v[0], None)).reduce(lambda left, right: (left[0], left[1] + right[1]))


def automatic_mode(env):
    """AUTOMATIC with a bounded source is BATCH: reduce() gives one element."""
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    numbers = env.from_collection([1, 2, 3], Types.INT())
    return numbers.key_by(lambda n: 0).reduce(lambda left, right: left + right)


def sequence_of_numbers(env):
    """from_source() of a NumberSequenceSource."""
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource

    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_source(
        NumberSequenceSource(1, 4), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    return numbers.map(lambda n: n * n, Types.LONG())


def checkpoints_in_batch(env):
    """Checkpointing is of no effect."""
    env.enable_checkpointing(1000)
    return _bare(env, [("a", 1), ("a", 2)]).key_by(lambda v: v[0]).sum(1)


def one_element(env):
    """The smallest input."""
    return _keyed(env, [("a", 1)]).map(_Seen(), Types.STRING())


def nothing_left(env):
    """A keyed operator that gets no elements."""
    return _bare(env).filter(lambda v: False).key_by(lambda v: v[0]).sum(1)


def _sorted_by(env, keys, key_type=None):
    """The keys, in the order in which Flink takes them."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_collection(list(range(len(keys))), Types.INT())
    keyed = numbers.key_by(lambda n: keys[n], key_type) if key_type else numbers.key_by(lambda n: keys[n])
    return keyed.reduce(lambda left, right: left).map(lambda n: repr(keys[n]), Types.STRING())


_TEXTS = ["b", "a", "ab", "", "zz", "é", "~", "Z", "日本", "x" * 130, "\u0080", "0", "10", "9", "ÿ", "longer"]
_NUMBERS = [5, -1, 0, 127, 128, 255, 256, -128, -129, 65535, 65536, 2147483647, -2147483648, 3]
_COMPOSED = [("b", 1), ("a", 1), ("a", 2), ("ab", 1), ("a", -1), ("b", 300)]


def keys_sorted_texts(env):
    """Texts are sorted by their length, then by their characters; some of those beyond ASCII come first."""
    return _sorted_by(env, _TEXTS, Types.STRING())


def keys_sorted_ints(env):
    """INT keys by four bytes that have signs."""
    return _sorted_by(env, _NUMBERS, Types.INT())


def keys_sorted_longs(env):
    """LONG keys by eight."""
    return _sorted_by(env, [*_NUMBERS, 2**40, -(2**40)], Types.LONG())


def keys_sorted_doubles(env):
    """DOUBLE keys by those of IEEE 754."""
    return _sorted_by(env, [1.5, -1.5, 0.0, 100.25, -0.001, 1e300, -1e300], Types.DOUBLE())


def keys_sorted_booleans(env):
    """False, then True."""
    return _sorted_by(env, [True, False], Types.BOOLEAN())


def keys_sorted_days(env):
    """Dates by their milliseconds."""
    days = [(2020, 1, 5), (1969, 5, 5), (2024, 2, 29), (2020, 1, 4)]
    return _sorted_by(env, [datetime.date(*day) for day in days], Types.SQL_DATE())


def keys_sorted_tuples(env):
    """Tuples field by field."""
    return _sorted_by(env, _COMPOSED, Types.TUPLE([Types.STRING(), Types.INT()]))


def keys_sorted_rows(env):
    """Rows that lack a field come behind the others."""
    rows = [Row(None, 5), *(Row(*key) for key in _COMPOSED)]
    return _sorted_by(env, rows, Types.ROW([Types.STRING(), Types.INT()]))


def keys_sorted_undeclared_texts(env):
    """Without a type by what they are pickled to."""
    return _sorted_by(env, _TEXTS)


def keys_sorted_undeclared_numbers(env):
    """Numbers, too."""
    return _sorted_by(env, [*_NUMBERS, 2**40, -(2**40), 1.5, True, None])


def keys_sorted_undeclared_tuples(env):
    """And tuples."""
    return _sorted_by(env, _COMPOSED)


def keys_sorted_in_two_operators(env):
    """An operator behind another one sorts its own keys."""
    counted = (
        _bare(env, [("b", 1), ("ab", 2), ("a", 30), ("b", 4)]).key_by(lambda v: v[0], Types.STRING()).sum(1)
    )
    return counted.key_by(lambda v: v[1], Types.LONG()).reduce(lambda left, right: left)


@in_threads(_WINDOWS)
def keys_sorted_of_two_inputs(env):
    """Two inputs by one order of keys."""
    first = _bare(env, [("b", 1), ("c", 2), ("ab", 3), ("", 4)])
    second = _bare(env, [("z", 1), ("a", 2), ("ab", 3), ("b", 4)])
    keyed = first.connect(second).key_by(lambda v: v[0], lambda v: v[0], Types.STRING())
    return keyed.map(_Sides(), Types.STRING())


class _Sides(CoMapFunction):
    def map1(self, value):
        return f"first {value[0]}"

    def map2(self, value):
        return f"second {value[0]}"


@in_threads(_WINDOWS)
def keys_sorted_in_windows(env):
    """Windows of one key, then those of the next one."""
    elements = [("b", 5), ("a", 1300), ("ab", 3), ("a", 4), ("b", 1250), ("", 6)]
    windows = _keyed(env, elements).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windows.reduce(lambda left, right: (left[0], left[1] + right[1]))
