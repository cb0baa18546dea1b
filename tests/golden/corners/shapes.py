"""Windows, states and outputs of the common kinds, in shapes that are less common."""

from __future__ import annotations

from pyflink.common import Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    CoFlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    ReduceFunction,
)
from pyflink.datastream.functions import ProcessAllWindowFunction
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyflink.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)

from corners.how import unordered

_SINKS = "several sinks, and keys that end together"


class _At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


def _timed(env, *pairs):
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    elements = list(pairs) or [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At())
    return env.from_collection(elements, pair).assign_timestamps_and_watermarks(strategy)


def _keyed(env, *pairs):
    return _timed(env, *pairs).key_by(lambda pair: pair[0], Types.STRING())


class _Gathered(AggregateFunction):
    """Changes its accumulator in place."""

    def create_accumulator(self):
        return {"n": 0, "values": []}

    def add(self, value, accumulator):
        accumulator["n"] += 1
        accumulator["values"].append(value[1])
        return accumulator

    def get_result(self, accumulator):
        return Row(n=accumulator["n"], values=accumulator["values"])

    def merge(self, a, b):
        return {"n": a["n"] + b["n"], "values": a["values"] + b["values"]}


class _AllWithStart(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield f"{context.window().start} {list(elements)}"


@unordered(_SINKS)
def aggregates_in_all_shapes(env):
    """A dict as accumulator: with and without types, in sessions that merge, in windows of all, with a function behind."""

    def windows():
        return _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(4)))

    names, types = ["n", "values"], [Types.LONG(), Types.LIST(Types.INT())]
    windows().aggregate(_Gathered()).print("undeclared")
    windows().aggregate(_Gathered(), output_type=Types.ROW_NAMED(names, types)).print("named")
    accumulator = Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY())
    unnamed = Types.ROW([Types.LONG(), Types.LIST(Types.INT())])
    windows().aggregate(_Gathered(), accumulator_type=accumulator, output_type=unnamed).print("unnamed")
    sessions = _keyed(env).window(EventTimeSessionWindows.with_gap(Time.seconds(3))).aggregate(_Gathered())
    sessions.map(lambda row: f"{row.n} {row.values}", Types.STRING()).print("sessions")
    of_all = _timed(env).window_all(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2)))
    of_all.aggregate(_Gathered(), _AllWithStart()).print("of all")
    reduced = _timed(env).window_all(TumblingEventTimeWindows.of(Time.seconds(4)))
    reduced.reduce(lambda a, b: (a[0] + b[0], a[1] + b[1])).print("reduced")
    env.execute()


class _Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class _Kept(ProcessWindowFunction):
    """State of the window, which clear() frees, and of the key."""

    @staticmethod
    def _of_the_window(context):
        states = context.window_state()
        return (
            states.get_state(ValueStateDescriptor("firings", Types.INT())),
            states.get_list_state(ListStateDescriptor("values", Types.INT())),
            states.get_aggregating_state(
                AggregatingStateDescriptor("mean", _Mean(), Types.PICKLED_BYTE_ARRAY())
            ),
        )

    def process(self, key, context, elements):
        firings, values, mean = self._of_the_window(context)
        states = context.global_state()
        starts = states.get_map_state(MapStateDescriptor("starts", Types.LONG(), Types.INT()))
        total = states.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b, Types.INT()))
        firings.update((firings.value() or 0) + 1)
        for _, number in elements:
            values.add(number)
            total.add(number)
            mean.add(number)
        starts.put(context.window().start, firings.value())
        seen = f"{firings.value()} {list(values.get())} {mean.get()}"
        yield f"{key} {seen} {sorted(starts.items())} {total.get()}"

    def clear(self, context):
        for state in self._of_the_window(context):
            state.clear()


@unordered(_SINKS)
def states_of_windows_of_all_kinds(env):
    """Value, list and aggregating state of the window; map and reducing state of the key over its windows."""
    pairs = [("a", 1), ("a", 2), ("b", 1), ("a", 3), ("a", 11), ("a", 12)]

    def windows():
        return _keyed(env, *pairs).window(TumblingEventTimeWindows.of(Time.seconds(10)))

    windows().trigger(CountTrigger.of(2)).process(_Kept(), Types.STRING()).print("by count")
    windows().process(_Kept(), Types.STRING()).print("by time")
    env.execute()


class _Third(Trigger):
    """Fires with every third element, and at the end it purges, too."""

    @staticmethod
    def _count(ctx):
        return ctx.get_partitioned_state(ReducingStateDescriptor("count", lambda a, b: a + b, Types.INT()))

    def on_element(self, element, timestamp, window, ctx):
        count = self._count(ctx)
        count.add(1)
        ctx.register_event_time_timer(window.max_timestamp())
        if count.get() == 3:
            count.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        raise AssertionError("windows that do not merge")

    def clear(self, window, ctx):
        self._count(ctx).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


class _Tell(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window().start} {[number for _, number in elements]} {context.current_watermark()}"


@unordered(_SINKS)
def trigger_with_reducing_state(env):
    """A trigger that counts in reducing state, for windows that overlap, and reduced ones with a negative offset."""
    pairs = [("a", 1), ("a", 2), ("b", 1), ("a", 8), ("a", 5), ("a", 20), ("b", 3), ("b", 2), ("b", 2)]
    overlapping = _keyed(env, *pairs).window(SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(3)))
    overlapping.trigger(_Third()).process(_Tell(), Types.STRING()).print("overlapping")
    moved = _keyed(env, *pairs).window(TumblingEventTimeWindows.of(Time.seconds(10), Time.seconds(-3)))
    moved.trigger(_Third()).reduce(lambda a, b: (a[0], a[1] + b[1])).print("moved")
    env.execute()


class _Split(KeyedProcessFunction):
    def open(self, runtime_context):
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.INT()))

    def process_element(self, value, ctx):
        self.numbers.add(value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
        if value[1] % 2:
            yield OutputTag("odd", Types.INT()), value[1]
        else:
            yield value

    def on_timer(self, timestamp, ctx):
        so_far = Types.TUPLE([Types.STRING(), Types.LIST(Types.INT())])
        yield OutputTag("so far", so_far), (ctx.get_current_key(), list(self.numbers.get()))
        yield "timer", timestamp


@unordered(_SINKS)
def outputs_of_elements_and_timers(env):
    """Two tags of unlike types and the main output, of elements and of timers; each goes on by itself."""
    split = _keyed(env).process(_Split(), Types.TUPLE([Types.STRING(), Types.LONG()]))
    odd = OutputTag("odd", Types.INT())
    so_far = OutputTag("so far", Types.TUPLE([Types.STRING(), Types.LIST(Types.INT())]))
    split.print("main")
    split.get_side_output(odd).map(lambda number: number + 1, Types.INT()).print("odd")
    by_key = split.get_side_output(so_far).key_by(lambda pair: pair[0])
    by_key.reduce(lambda a, b: (a[0], a[1] + b[1])).print("so far")
    split.key_by(lambda pair: pair[0]).max(1).print("largest")
    env.execute()


class _Both(CoFlatMapFunction):
    def open(self, runtime_context):
        lists = Types.LIST(Types.INT())
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), lists))

    def flat_map1(self, value):
        numbers = self.map.get("numbers") or []
        numbers.append(value[1])
        self.map.put("numbers", numbers)
        yield f"1 {numbers}"

    def flat_map2(self, value):
        self.map.put("length", [len(value)])
        if len(value) > 1:
            yield f"2 {self.map.get('length')}"


@unordered("two inputs")
def co_flat_map_with_keyed_state(env):
    """A CoFlatMapFunction of two keyed streams: both methods use one map of lists."""
    texts = env.from_collection(["a", "bb", "b"], Types.STRING()).key_by(lambda text: text[0], Types.STRING())
    return _keyed(env).connect(texts).flat_map(_Both(), Types.STRING())


@unordered("two jobs' keys")
def reductions_that_change_their_argument(env):
    """A reduce that changes its first argument and gives it back: rolling, in count windows, and of lists without a type."""

    def plus(a, b):
        a["n"] = a["n"] + b["n"]
        a["numbers"].extend(b["numbers"])
        return a

    def longer(a, b):
        a.append(b[1])
        return a

    names = ["k", "n", "numbers"]
    rows = Types.ROW_NAMED(names, [Types.STRING(), Types.INT(), Types.LIST(Types.INT())])
    elements = [Row(k=key, n=number, numbers=[number]) for number, key in enumerate("aabab")]
    stream = env.from_collection(elements, rows)
    keyed = stream.key_by(lambda row: row.k)
    keyed.reduce(plus).print("rolling")
    keyed.count_window(2).reduce(plus).print("by count")
    stream.map(lambda row: [row.k, row.n]).key_by(lambda pair: pair[0]).reduce(longer).print("lists")
    env.execute()


class _Larger(ReduceFunction):
    def reduce(self, a, b):
        return a if a[1] >= b[1] else b


class _Reducing(KeyedProcessFunction):
    def open(self, runtime_context):
        pair, row = Types.TUPLE([Types.STRING(), Types.INT()]), Types.ROW([Types.INT(), Types.STRING()])

        def state(name, function, type_info):
            return runtime_context.get_reducing_state(ReducingStateDescriptor(name, function, type_info))

        self.pair = state("pair", _Larger(), pair)
        self.row = state("row", lambda a, b: Row(a[0] + b[0], max(a[1], b[1])), row)
        self.text = state("text", lambda a, b: a + b, Types.STRING())
        self.numbers = state("numbers", lambda a, b: a + b, Types.LIST(Types.INT()))

    def process_element(self, value, ctx):
        self.pair.add(value)
        self.pair.add((value[0] * 2, value[1]))
        self.row.add(Row(value[1], value[0]))
        self.text.add(value[0])
        self.text.add("|")
        self.numbers.add([value[1]])
        self.numbers.add([])
        yield f"{self.pair.get()} {tuple(self.row.get())} {self.text.get()} {self.numbers.get()}"
        if value[1] == 2:
            states = (self.pair, self.row, self.text, self.numbers)
            for state in states:
                state.clear()
                state.clear()
            yield f"{[state.get() for state in states]}"


def reducing_state_of_other_types(env):
    """Reducing state of tuples, rows, texts and lists, by a class and by lambdas; cleared twice, and begun anew."""
    return _keyed(env, ("a", 3), ("a", 1), ("a", 3), ("a", 2), ("a", 1)).process(_Reducing(), Types.STRING())


class _Counted(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] * 10)
        ctx.timer_service().register_event_time_timer(value[1] * 10 + 5)
        if value[1] == 3:
            ctx.timer_service().delete_event_time_timer(15)
        return iter(())

    def on_timer(self, timestamp, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{timestamp} {ctx.get_current_key()} {self.count.value()} {ctx.timestamp()}"


def timers_of_two_keys_in_the_order_of_time(env):
    """Two timers for each element of two keys, one of them deleted by a later element: they fire by time, not by key."""
    return _keyed(env, ("a", 1), ("b", 2), ("a", 3), ("b", 4)).process(_Counted(), Types.STRING())


@unordered(_SINKS)
def windows_before_1970_with_offsets(env):
    """Sliding windows with gaps and an offset, sessions, and tumbling ones with a negative offset, round 0."""
    pairs = [("a", -7), ("a", -1), ("a", 0), ("b", -5), ("a", 3)]
    for name, windows in (
        ("sliding", SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(4), Time.seconds(1))),
        ("sessions", EventTimeSessionWindows.with_gap(Time.seconds(2))),
        ("tumbling", TumblingEventTimeWindows.of(Time.seconds(5), Time.seconds(-2))),
    ):
        _keyed(env, *pairs).window(windows).process(_Tell(), Types.STRING()).print(name)
    env.execute()


class _Ruled(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.INT()))

    @staticmethod
    def _rules(ctx):
        return ctx.get_broadcast_state(
            MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(99)
        yield f"element {value} {self.sum.value()} {ctx.get_current_key()} {ctx.timestamp()}"

    def process_broadcast_element(self, value, ctx):
        rules = self._rules(ctx)
        for name in value:
            rules.put(name, value[name])
        rules.remove("gone")
        yield f"rule {sorted(rules.items(), key=str)} {ctx.timestamp() < 0}"

    def on_timer(self, timestamp, ctx):
        rules = self._rules(ctx)
        seen = f"{sorted(rules.items(), key=str)} {rules.contains('x')} {rules.get('y')}"
        yield f"timer {ctx.get_current_key()} {timestamp} {self.sum.value()} {seen}"


@unordered("two inputs")
def broadcast_of_dicts_read_by_timers(env):
    """Dicts without a type are broadcast; their values, sets, tuples and None among them, are read by timers."""
    rules = env.from_collection([{"x": {1, 2}, "gone": 1}, {"y": None, "x": (1,)}])
    timed = rules.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
    state = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
    return _keyed(env).connect(timed.broadcast(state)).process(_Ruled(), Types.STRING())
