"""Windows of all kinds, their triggers, late elements, and what may be done with them."""

from __future__ import annotations

from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    Trigger,
    TriggerResult,
    WindowFunction,
)
from pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from pyflink.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    WindowAssigner,
)

from corners.how import unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])


class _Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _timed(env, *elements):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Second())
    return env.from_collection(list(elements), _PAIRS).assign_timestamps_and_watermarks(strategy)


def _keyed(env, *elements):
    return _timed(env, *elements).key_by(lambda v: v[0], Types.STRING())


_SOME = (("a", 100), ("a", 900), ("a", 1000), ("a", 2500), ("a", 4100))


class _Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield f"{key} [{window.start}, {window.end}) {[each[1] for each in elements]}"


class _TellCount(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {[each[1] for each in elements]}"


def tumbling(env):
    """Elements at the edges: a window has its start and not its end."""
    return (
        _keyed(env, *_SOME)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .process(_Tell(), Types.STRING())
    )


def tumbling_with_offset(env):
    """An offset moves the edges."""
    windows = TumblingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(300))
    return _keyed(env, *_SOME).window(windows).process(_Tell(), Types.STRING())


def tumbling_before_1970(env):
    """Negative timestamps."""
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return (
        _keyed(env, ("a", -1500), ("a", -1000), ("a", -1), ("a", 0))
        .window(windows)
        .process(_Tell(), Types.STRING())
    )


def sliding(env):
    """An element in several windows, one of them beginning before 1970."""
    windows = SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))
    return _keyed(env, ("a", 500), ("a", 1500)).window(windows).process(_Tell(), Types.STRING())


def sliding_with_gaps(env):
    """A slide longer than the size: elements between windows are in none."""
    windows = SlidingEventTimeWindows.of(Time.seconds(1), Time.seconds(3))
    return _keyed(env, ("a", 500), ("a", 1500), ("a", 3500)).window(windows).process(_Tell(), Types.STRING())


def sliding_uneven(env):
    """A size that is no multiple of the slide, with an offset."""
    windows = SlidingEventTimeWindows.of(
        Time.milliseconds(700), Time.milliseconds(400), Time.milliseconds(100)
    )
    return _keyed(env, ("a", 500), ("a", 1000)).window(windows).process(_Tell(), Types.STRING())


def sessions(env):
    """A session ends a gap after its last element; one at the gap's very end begins another."""
    windows = EventTimeSessionWindows.with_gap(Time.seconds(1))
    return (
        _keyed(env, ("a", 0), ("a", 999), ("a", 1999), ("a", 5000))
        .window(windows)
        .process(_Tell(), Types.STRING())
    )


def sessions_reduced(env):
    """Sessions with a reduce function, merged in order."""
    windows = EventTimeSessionWindows.with_gap(Time.seconds(1))
    keyed = _keyed(env, ("a", 0), ("a", 900), ("a", 3000))
    return keyed.window(windows).reduce(lambda left, right: (left[0] + right[0], left[1] + right[1]))


def sessions_with_a_gap_of_their_own(env):
    """The gap comes from the element."""

    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element):
            return 100 if element[1] < 1000 else 2000

    windows = DynamicEventTimeSessionWindows.with_dynamic_gap(Gap())
    keyed = _keyed(env, ("a", 0), ("a", 50), ("a", 500), ("a", 1000), ("a", 2500))
    return keyed.window(windows).process(_Tell(), Types.STRING())


def window_function_with_apply(env):
    """apply() with a WindowFunction."""

    class Apply(WindowFunction):
        def apply(self, key, window, inputs):
            return [f"{key} {window.start} {len(list(inputs))}"]

    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return _keyed(env, *_SOME).window(windows).apply(Apply(), Types.STRING())


class _Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def aggregated(env):
    """aggregate() with accumulator and output types."""
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    return (
        _keyed(env, *_SOME)
        .window(windows)
        .aggregate(_Mean(), accumulator_type=accumulator, output_type=Types.DOUBLE())
    )


def aggregated_with_a_window_function(env):
    """aggregate() whose result goes to a process function."""

    class Tell(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield f"{key} {context.window().end} {list(elements)}"

    return (
        _keyed(env, *_SOME)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .aggregate(
            _Mean(),
            Tell(),
            accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]),
            output_type=Types.STRING(),
        )
    )


def reduced_with_a_window_function(env):
    """reduce() whose result goes to a process function."""

    class Larger(ReduceFunction):
        def reduce(self, value1, value2):
            return value1 if value1[1] > value2[1] else value2

    return (
        _keyed(env, *_SOME)
        .window(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)))
        .reduce(Larger(), _Tell(), output_type=Types.STRING())
    )


def aggregated_sessions(env):
    """aggregate() in sessions: merge() is called where they meet."""
    windows = EventTimeSessionWindows.with_gap(Time.seconds(1))
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    return (
        _keyed(env, ("a", 0), ("a", 1500), ("a", 900))
        .window(windows)
        .aggregate(_Mean(), accumulator_type=accumulator, output_type=Types.DOUBLE())
    )


def windows_of_all(env):
    """window_all() over a stream without keys."""

    class Tell(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield f"{context.window().start} {[each[0] for each in elements]}"

    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return _timed(env, ("a", 1), ("b", 2), ("c", 1500)).window_all(windows).process(Tell(), Types.STRING())


def apply_to_windows_of_all(env):
    """apply() over windows of all."""

    class Apply(AllWindowFunction):
        def apply(self, window, inputs):
            yield f"{window.max_timestamp()} {sum(each[1] for each in inputs)}"

    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return _timed(env, ("a", 1), ("b", 2), ("c", 1500)).window_all(windows).apply(Apply(), Types.STRING())


def count_window(env):
    """Every two elements of a key; what is left over at the end is never given."""
    return (
        _keyed(env, ("a", 1), ("b", 2), ("a", 3), ("a", 4))
        .count_window(2)
        .process(_TellCount(), Types.STRING())
    )


def sliding_count_window(env):
    """The last three, at every second."""
    keyed = _keyed(env, *[("a", n) for n in range(1, 8)])
    return keyed.count_window(3, 2).process(_TellCount(), Types.STRING())


@unordered("two streams are united")
def count_assigners(env):
    """The assigners behind count windows, by their own names."""
    keyed = _keyed(env, *[("a", n) for n in range(1, 5)])
    tumbling = keyed.window(CountTumblingWindowAssigner.of(2)).process(_TellCount(), Types.STRING())
    return tumbling.union(
        keyed.window(CountSlidingWindowAssigner.of(2, 1)).process(_TellCount(), Types.STRING())
    )


def global_windows_with_count(env):
    """GlobalWindows with a CountTrigger: each firing sees all that came."""
    keyed = _keyed(env, *[("a", n) for n in range(1, 6)])
    windowed = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2))
    return windowed.process(_TellCount(), Types.STRING())


def global_windows_with_purging_count(env):
    """With a PurgingTrigger, each firing sees what is new."""
    keyed = _keyed(env, *[("a", n) for n in range(1, 6)])
    windowed = keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return windowed.process(_TellCount(), Types.STRING())


def global_windows_never(env):
    """A trigger that never fires."""
    keyed = _keyed(env, ("a", 1))
    return keyed.window(GlobalWindows.create()).trigger(NeverTrigger()).process(_TellCount(), Types.STRING())


def global_windows_without_a_trigger(env):
    """GlobalWindows' own trigger never fires."""
    return _keyed(env, ("a", 1)).window(GlobalWindows.create()).process(_TellCount(), Types.STRING())


def tumbling_with_count(env):
    """A CountTrigger in place of time: what it didn't fire for is never given."""
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    keyed = _keyed(env, ("a", 1), ("a", 2), ("a", 3), ("a", 1001))
    return keyed.window(windows).trigger(CountTrigger.of(2)).process(_Tell(), Types.STRING())


def purging_event_time(env):
    """PurgingTrigger of the trigger that is there anyway."""
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    windowed = _keyed(env, *_SOME).window(windows).trigger(PurgingTrigger.of(EventTimeTrigger.create()))
    return windowed.process(_Tell(), Types.STRING())


def continuous_event_time(env):
    """ContinuousEventTimeTrigger at the end of the input."""
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    windowed = _keyed(env, ("a", 100), ("a", 700)).window(windows)
    return windowed.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(200))).process(
        _Tell(), Types.STRING()
    )


class _EveryLarge(Trigger):
    """Fires at each element over 100, purges at those over 1000."""

    def on_element(self, element, timestamp, window, ctx):
        if element[1] > 1000:
            return TriggerResult.FIRE_AND_PURGE
        return TriggerResult.FIRE if element[1] > 100 else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


def trigger_of_ones_own(env):
    """A trigger of the program's own that fires and purges."""
    keyed = _keyed(env, ("a", 1), ("a", 200), ("a", 2), ("a", 2000), ("a", 300))
    return keyed.window(GlobalWindows.create()).trigger(_EveryLarge()).process(_TellCount(), Types.STRING())


class _SumTrigger(_EveryLarge):
    """Fires when the sum in its own state passes 10."""

    def __init__(self):
        self.descriptor = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        total = ctx.get_partitioned_state(self.descriptor)
        total.add(element[1])
        if total.get() > 10:
            total.clear()
            return TriggerResult.FIRE_AND_PURGE
        return TriggerResult.CONTINUE


def trigger_with_state(env):
    """A trigger's state is the key's and the window's own."""
    keyed = _keyed(env, ("a", 6), ("b", 1), ("a", 7), ("b", 2), ("a", 1), ("b", 9))
    return keyed.window(GlobalWindows.create()).trigger(_SumTrigger()).process(_TellCount(), Types.STRING())


class _OnTimer(_EveryLarge):
    """Sets a timer 10 ms after each element, fires at it."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(timestamp + 10)
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE


def trigger_with_timers(env):
    """A trigger's own timers, all after the last element in a small input."""
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return (
        _keyed(env, ("a", 1), ("a", 50)).window(windows).trigger(_OnTimer()).process(_Tell(), Types.STRING())
    )


def late_elements_are_dropped(env):
    """Behind a watermark of its own, an older element is late; a small input knows none before its end."""
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    keyed = _keyed(env, ("a", 100), ("a", 5000), ("a", 200))
    return keyed.window(windows).process(_Tell(), Types.STRING())


def late_output_of_a_small_input(env):
    """side_output_late_data() when nothing is late."""
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
    windowed = _keyed(env, ("a", 100), ("a", 5000), ("a", 200)).window(
        TumblingEventTimeWindows.of(Time.seconds(1))
    )
    return windowed.side_output_late_data(late).process(_Tell(), Types.STRING()).get_side_output(late)


def allowed_lateness_of_a_small_input(env):
    """allowed_lateness() when nothing is late gives each window once."""
    windowed = _keyed(env, ("a", 100), ("a", 5000), ("a", 200)).window(
        TumblingEventTimeWindows.of(Time.seconds(1))
    )
    return windowed.allowed_lateness(10_000).process(_Tell(), Types.STRING())


def bounded_out_of_orderness(env):
    """Windows with watermarks that lag behind."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        _Second()
    )
    timed = env.from_collection(
        [("a", 1500), ("a", 900), ("a", 2500)], _PAIRS
    ).assign_timestamps_and_watermarks(strategy)
    windowed = timed.key_by(lambda v: v[0]).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windowed.process(_Tell(), Types.STRING())


def state_of_the_window_and_the_key(env):
    """window_state() is the window's, global_state() the key's."""

    class Held(ProcessWindowFunction):
        def process(self, key, context, elements):
            own = context.window_state().get_state(ValueStateDescriptor("own", Types.LONG()))
            all_of_key = context.global_state().get_state(ValueStateDescriptor("all", Types.LONG()))
            own.update((own.value() or 0) + 1)
            all_of_key.update((all_of_key.value() or 0) + 1)
            yield f"{context.window().start} {own.value()} {all_of_key.value()}"

        def clear(self, context):
            context.window_state().get_state(ValueStateDescriptor("own", Types.LONG())).clear()

    return (
        _keyed(env, *_SOME)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .process(Held(), Types.STRING())
    )


class _FiresAtPairs(Trigger):
    """Counts a window's elements in a state that is called ``count``."""

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(ValueStateDescriptor("count", Types.LONG()))
        count.update((count.value() or 0) + 1)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE if count.value() % 2 else TriggerResult.FIRE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(ValueStateDescriptor("count", Types.LONG())).clear()


def states_that_share_a_name(env):
    """The trigger's and the window's of one name are one state, and so are the function's own and the key's."""

    class Shared(ProcessWindowFunction):
        def open(self, runtime_context):
            self.own = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

        def process(self, key, context, elements):
            count = context.window_state().get_state(ValueStateDescriptor("count", Types.LONG()))
            fired = context.global_state().get_state(ValueStateDescriptor("fired", Types.LONG()))
            self.own.update((self.own.value() or 0) + 1)
            fired.update(fired.value() + 10)
            yield f"{context.window().start} {count.value()} {self.own.value()} {fired.value()}"
            count.update(count.value() + 100)

    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return _keyed(env, *_SOME).window(windows).trigger(_FiresAtPairs()).process(Shared(), Types.STRING())


def window_and_key_share_a_name(env):
    """A state of the window and one of the key that have one name."""

    class Both(ProcessWindowFunction):
        def process(self, key, context, elements):
            of_window = context.window_state().get_state(ValueStateDescriptor("n", Types.LONG()))
            of_key = context.global_state().get_state(ValueStateDescriptor("n", Types.LONG()))
            of_window.update((of_window.value() or 0) + 1)
            of_key.update((of_key.value() or 0) + 10)
            yield f"{context.window().start} {of_window.value()} {of_key.value()}"

    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return _keyed(env, *_SOME).window(windows).process(Both(), Types.STRING())


def timestamps_of_results(env):
    """A window's result has the window's last millisecond as its timestamp."""

    class Tell(ProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value[1]} at {ctx.timestamp()}"

    windowed = _keyed(env, *_SOME).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windowed.reduce(lambda left, right: right).process(Tell(), Types.STRING())


def windows_of_windows(env):
    """The results of windows go into larger windows."""
    inner = _keyed(env, *_SOME).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    sums = inner.reduce(lambda left, right: (left[0], left[1] + right[1]))
    outer = sums.key_by(lambda v: v[0]).window(TumblingEventTimeWindows.of(Time.seconds(3)))
    return outer.process(_Tell(), Types.STRING())


def windows_without_timestamps(env):
    """Event-time windows over elements that have no timestamp."""
    keyed = env.from_collection([("a", 1)], _PAIRS).key_by(lambda v: v[0])
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).process(_Tell(), Types.STRING())


def side_output_of_a_window(env):
    """A window function gives to a tag."""
    tag = OutputTag("large", Types.LONG())

    class Sided(ProcessWindowFunction):
        def process(self, key, context, elements):
            for each in elements:
                if each[1] > 1000:
                    yield tag, each[1]

    windowed = _keyed(env, *_SOME).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windowed.process(Sided(), Types.STRING()).get_side_output(tag)


def sum_of_a_window(env):
    """What windows in PyFlink have no method for."""
    return _keyed(env, *_SOME).window(TumblingEventTimeWindows.of(Time.seconds(1))).sum(1)


def watermark_in_a_window_function(env):
    """current_watermark() in a window function is what made the window fire."""

    class Tell(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.current_watermark()

    return (
        _keyed(env, ("a", 1))
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .process(Tell(), Types.LONG())
    )


@unordered("windows of different keys have no order")
def several_keys(env):
    """Each key has windows of its own."""
    keyed = _keyed(env, ("a", 1), ("b", 2), ("b", 1001), ("a", 3))
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).process(_Tell(), Types.STRING())


def window_function_gives_none(env):
    """A process function of windows that forgot to give anything."""

    class Nothing(ProcessWindowFunction):
        def process(self, key, context, elements):
            list(elements)

    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return _keyed(env, ("a", 1)).window(windows).process(Nothing(), Types.STRING())


def applied_function_gives_none(env):
    """A WindowFunction that forgot to give anything."""

    class Nothing(WindowFunction):
        def apply(self, key, window, inputs):
            return None

    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return _keyed(env, ("a", 1)).window(windows).apply(Nothing(), Types.STRING())


@unordered("streams are united")
def count_windows_of_all_kinds(env):
    """Reduced, aggregated, with gaps, with triggers in place of their own."""
    keyed = _keyed(env, *[("a", n) for n in range(1, 9)])
    pairs = [
        keyed.count_window(3).reduce(_add),
        keyed.count_window(3, 2).reduce(_add),
        keyed.count_window(2, 3).reduce(_add),
        keyed.count_window(4).trigger(CountTrigger.of(2)).reduce(_add),
        keyed.count_window(4, 2).trigger(CountTrigger.of(3)).reduce(_add),
        keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3))).reduce(_add),
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).trigger(CountTrigger.of(3)).reduce(_add),
    ]
    means = keyed.count_window(3, 2).aggregate(_Mean(), output_type=Types.DOUBLE())
    return _numbered([*pairs, means])


def _add(left, right):
    return left[0], left[1] + right[1]


def _numbered(streams):
    texts = [
        each.map(lambda v, number=number: f"{number} {v}", Types.STRING())
        for number, each in enumerate(streams)
    ]
    return texts[0].union(*texts[1:])


@unordered("streams are united")
def sessions_of_all_kinds(env):
    """Bridged, counted, purged and with gaps that differ by element."""

    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element):
            return 2000 if element[1] == 0 else 10

    class Tell(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield f"{key} {context.window()} {sorted(each[1] for each in elements)}"

    keyed = _keyed(env, ("a", 0), ("a", 2000), ("b", 0), ("a", 1000), ("a", 5000), ("b", 999), ("a", 4000))
    fixed = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(1001)))
    counted = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(1))).trigger(CountTrigger.of(2))
    dynamic = keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap()))
    purging = PurgingTrigger.of(EventTimeTrigger.create())
    purged = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(1))).trigger(purging)
    return _numbered([each.process(Tell(), Types.STRING()) for each in (fixed, counted, dynamic, purged)])


class _EndOrLarge(_EveryLarge):
    """Fires at the end of the window, purges at 500."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.PURGE if element[1] == 500 else TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE


def trigger_that_purges_alone(env):
    """PURGE drops what came; the window goes on with what follows, and one without anything gives nothing."""
    keyed = _keyed(env, ("a", 0), ("a", 500), ("a", 600), ("b", 500))
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    return keyed.window(windows).trigger(_EndOrLarge()).process(_Tell(), Types.STRING())


class _NearAndAll(WindowAssigner):
    """An element is in the window of its second, and in one of ten seconds unless it is at 900."""

    def assign_windows(self, element, timestamp, context):
        start = timestamp // 1000 * 1000
        near = [TimeWindow(start, start + 1000)]
        return near if timestamp != 900 else [], [TimeWindow(0, 10_000)]

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


@unordered("keys have no order between them")
def assigner_of_ones_own(env):
    """An assigner of the program's own; an element may be in no window, and is late for none."""

    class Assigner(_NearAndAll):
        def assign_windows(self, element, timestamp, context):
            near, all_ = super().assign_windows(element, timestamp, context)
            return near + all_ if near else []

    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
    windowed = _keyed(env, *_SOME, ("b", 950)).window(Assigner()).side_output_late_data(late)
    found = windowed.process(_Tell(), Types.STRING())
    return found.union(found.get_side_output(late).map(str, Types.STRING()))


@unordered("streams are united")
def keys_of_other_types(env):
    """Keys that window functions see have their type: tuples, rows, lists, doubles and booleans."""

    class Tell(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield f"{type(key).__name__} {key} {len(list(elements))}"

    timed = _timed(env, *_SOME, ("b", 950))
    keyed = [
        timed.key_by(lambda v: (v[0], v[1] // 2000), Types.TUPLE([Types.STRING(), Types.LONG()])),
        timed.key_by(lambda v: Row(v[0], 1), Types.ROW([Types.STRING(), Types.INT()])),
        timed.key_by(lambda v: [v[0]], Types.LIST(Types.STRING())),
        timed.key_by(lambda v: v[1] / 1000, Types.DOUBLE()),
        timed.key_by(lambda v: v[0] == "a", Types.BOOLEAN()),
    ]
    windows = TumblingEventTimeWindows.of(Time.seconds(10))
    return _numbered([each.window(windows).process(Tell(), Types.STRING()) for each in keyed])


@unordered("streams are united")
def windows_of_all_of_all_kinds(env):
    """window_all() with reduce, aggregate and a function behind, tumbling, sliding, session and global."""

    class Tell(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield f"{context.window()} {list(elements)}"

    timed, both = _timed(env, *_SOME), Types.TUPLE([Types.LONG(), Types.LONG()])
    tumbling_, sliding_ = (
        TumblingEventTimeWindows.of(Time.seconds(1)),
        SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)),
    )
    gap = EventTimeSessionWindows.with_gap(Time.seconds(1))
    counted = timed.window_all(GlobalWindows.create()).trigger(CountTrigger.of(4))
    return _numbered(
        [
            timed.window_all(tumbling_).reduce(_add, Tell(), Types.STRING()),
            timed.window_all(sliding_).aggregate(_Mean(), Tell(), both, Types.STRING()),
            timed.window_all(gap).aggregate(_Mean(), output_type=Types.DOUBLE()),
            counted.reduce(_add),
            timed.window_all(tumbling_)
            .trigger(PurgingTrigger.of(CountTrigger.of(2)))
            .process(Tell(), Types.STRING()),
        ]
    )


def texts_of_windows(env):
    """Windows as text, equal and ordered; what they cover."""
    first, second = TimeWindow(0, 10), TimeWindow(5, 20)
    starts = (
        TimeWindow.get_window_start_with_offset(-7, 0, 5),
        TimeWindow.get_window_start_with_offset(7, 2, 5),
    )
    return [
        f"{first} {CountWindow(3)} {GlobalWindow()}",
        f"{first == TimeWindow(0, 10)} {first < second} {first.intersects(second)} {first.cover(second)}",
        f"{first.intersects(TimeWindow(10, 12))} {first.max_timestamp()} {starts}",
    ]


@unordered("timers of keys have no order")
def windows_behind_windows(env):
    """Results of windows are in windows again, by their window's last millisecond."""
    first = _keyed(env, *_SOME, ("b", 950)).window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(_add)
    keyed = first.key_by(lambda v: v[0], Types.STRING())
    second = keyed.window(TumblingEventTimeWindows.of(Time.seconds(2))).reduce(_add)
    last = second.window_all(TumblingEventTimeWindows.of(Time.seconds(10)))
    return last.reduce(lambda left, right: (min(left[0], right[0]), left[1] + right[1]))


class _SaysNotThatItMerges(Trigger):
    """Fires at every second element; inherits can_merge(), which is False."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        count = ctx.get_partitioned_state(ValueStateDescriptor("count", Types.LONG()))
        count.update((count.value() or 0) + 1)
        return TriggerResult.FIRE if count.value() % 2 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE

    def on_merge(self, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.get_partitioned_state(ValueStateDescriptor("count", Types.LONG())).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


def sessions_with_a_trigger_that_does_not_say_that_it_merges(env):
    """A trigger that leaves can_merge() as it is, in sessions."""
    return (
        _keyed(env, *_SOME)
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(900)))
        .trigger(_SaysNotThatItMerges())
        .process(_Tell(), Types.STRING())
    )


def sessions_of_all_with_a_trigger_that_does_not_say_that_it_merges(env):
    """The same over all elements is refused."""
    return (
        _timed(env, *_SOME)
        .window_all(EventTimeSessionWindows.with_gap(Time.milliseconds(900)))
        .trigger(_SaysNotThatItMerges())
        .reduce(lambda first, second: first)
    )


class _TellAndClear(ProcessWindowFunction):
    def process(self, key, context, elements):
        cleared = context.global_state().get_state(ValueStateDescriptor("cleared", Types.LONG()))
        seen = context.window_state().get_state(ValueStateDescriptor("seen", Types.LONG()))
        seen.update((seen.value() or 0) + len(list(elements)))
        yield f"{key} {context.window().start} {cleared.value()} {seen.value()}"

    def clear(self, context):
        cleared = context.global_state().get_state(ValueStateDescriptor("cleared", Types.LONG()))
        seen = context.window_state().get_state(ValueStateDescriptor("seen", Types.LONG()))
        cleared.update((cleared.value() or 0) * 10 + (seen.value() or 0))
        seen.clear()


def clear_of_a_window_function(env):
    """clear() of a window function reads and writes the key's state and the window's, once a window."""
    return (
        _keyed(env, *_SOME)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .process(_TellAndClear(), Types.STRING())
    )


def clear_of_a_window_function_behind_two_firings(env):
    """clear() comes when the window goes, not at each firing."""
    return (
        _keyed(env, *_SOME)
        .window(TumblingEventTimeWindows.of(Time.seconds(5)))
        .trigger(CountTrigger.of(2))
        .process(_TellAndClear(), Types.STRING())
    )
