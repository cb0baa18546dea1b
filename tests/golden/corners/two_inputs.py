"""Connected streams, broadcast state, and joins written by hand."""

from __future__ import annotations

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
)
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

from corners.how import unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])
_BETWEEN = "two inputs have no order between them"


class _Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _timed(env, *elements):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Second())
    return env.from_collection(list(elements), _PAIRS).assign_timestamps_and_watermarks(strategy)


class _Named(CoMapFunction):
    def map1(self, value):
        return f"first {value}"

    def map2(self, value):
        return f"second {value}"


@unordered(_BETWEEN)
def co_map(env):
    """Two streams of different types through one CoMapFunction."""
    ints = env.from_collection([1, 2], Types.INT())
    return ints.connect(env.from_collection(["a"], Types.STRING())).map(_Named(), Types.STRING())


@unordered(_BETWEEN)
def co_map_gives_none(env):
    """What a CoMapFunction does with None."""

    class Some(_Named):
        def map1(self, value):
            return None if value == 1 else "one"

    ints = env.from_collection([1, 2], Types.INT())
    return ints.connect(env.from_collection(["a"], Types.STRING())).map(Some(), Types.STRING())


@unordered(_BETWEEN)
def co_flat_map(env):
    """A CoFlatMapFunction gives any number for each element."""

    class Spread(CoFlatMapFunction):
        def flat_map1(self, value):
            for n in range(value):
                yield f"n{n}"

        def flat_map2(self, value):
            return value.split()

    ints = env.from_collection([0, 2], Types.INT())
    return ints.connect(env.from_collection(["a b", ""], Types.STRING())).flat_map(Spread(), Types.STRING())


@unordered(_BETWEEN)
def co_flat_map_gives_none(env):
    """A CoFlatMapFunction's method without a result gives nothing."""

    class Half(CoFlatMapFunction):
        def flat_map1(self, value):
            yield value

        def flat_map2(self, value):
            pass

    ints = env.from_collection([0, 2], Types.INT())
    return ints.connect(env.from_collection(["a b"], Types.STRING())).flat_map(Half(), Types.INT())


@unordered(_BETWEEN)
def co_process(env):
    """A CoProcessFunction without keys sees timestamps."""

    class Tell(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield f"1 {value[0]} {ctx.timestamp()}"

        def process_element2(self, value, ctx):
            yield f"2 {value[0]} {ctx.timestamp()}"

    return _timed(env, ("a", 1)).connect(_timed(env, ("b", 2))).process(Tell(), Types.STRING())


@unordered(_BETWEEN)
def connect_to_itself(env):
    """A stream connected with itself."""
    ints = env.from_collection([1, 2], Types.INT())
    return ints.connect(ints).map(_Named(), Types.STRING())


class _Join(KeyedCoProcessFunction):
    """Pairs each element of one side with all of the other's that came before."""

    def open(self, runtime_context):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.LONG()))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.LONG()))

    def process_element1(self, value, ctx):
        self.left.add(value[1])
        for other in self.right.get():
            yield f"{ctx.get_current_key()} {value[1]} {other}"

    def process_element2(self, value, ctx):
        self.right.add(value[1])
        for other in self.left.get():
            yield f"{ctx.get_current_key()} {other} {value[1]}"


@unordered(_BETWEEN)
def join_by_hand(env):
    """An inner join with two lists: whichever side comes first, the pairs are the same."""
    left = _timed(env, ("a", 1), ("b", 2), ("a", 3)).key_by(lambda v: v[0], Types.STRING())
    right = _timed(env, ("a", 10), ("c", 20), ("a", 30)).key_by(lambda v: v[0], Types.STRING())
    return left.connect(right).process(_Join(), Types.STRING())


@unordered(_BETWEEN)
def key_by_of_connected_streams(env):
    """key_by() of connected streams with a selector for each."""
    left, right = _timed(env, ("a", 1), ("b", 2)), _timed(env, ("x", 1), ("y", 2))
    connected = left.connect(right).key_by(lambda v: v[1], lambda v: v[1], Types.LONG())
    return connected.process(_Join(), Types.STRING())


class _Outer(KeyedCoProcessFunction):
    """Waits by a timer for the other side, as a left outer join."""

    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))
        self.right = runtime_context.get_state(ValueStateDescriptor("right", Types.LONG()))

    def process_element1(self, value, ctx):
        self.left.update(value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)

    def process_element2(self, value, ctx):
        self.right.update(value[1])

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {self.left.value()} {self.right.value()} at {timestamp}"


@unordered("timers of different keys have no order")
def outer_join_with_timers(env):
    """A left outer join: a timer gives what did not find the other side."""
    left = _timed(env, ("a", 1), ("b", 2)).key_by(lambda v: v[0], Types.STRING())
    right = _timed(env, ("a", 10), ("c", 20)).key_by(lambda v: v[0], Types.STRING())
    return left.connect(right).process(_Outer(), Types.STRING())


@unordered(_BETWEEN)
def keyed_co_map(env):
    """A CoMapFunction on keyed streams has state that both sides share."""

    class Shared(CoMapFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

        def map1(self, value):
            self.seen.update((self.seen.value() or 0) + 1)
            return value[0] if self.seen.value() == 3 else "fewer"

        map2 = map1

    left = _timed(env, ("a", 1), ("a", 2)).key_by(lambda v: v[0], Types.STRING())
    right = _timed(env, ("a", 3)).key_by(lambda v: v[0], Types.STRING())
    return left.connect(right).map(Shared(), Types.STRING())


@unordered(_BETWEEN)
def side_output_of_two_inputs(env):
    """Both sides give to one tag."""
    tag = OutputTag("seen", Types.STRING())

    class Sided(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield tag, f"1 {value[0]}"

        def process_element2(self, value, ctx):
            yield tag, f"2 {value[0]}"

    connected = _timed(env, ("a", 1)).connect(_timed(env, ("b", 2)))
    return connected.process(Sided(), Types.STRING()).get_side_output(tag)


def one_side_without_elements(env):
    """A side that is always filtered away."""
    none = env.from_collection([1], Types.INT()).filter(lambda n: False)
    return env.from_collection([5, 6], Types.INT()).connect(none).map(_Named(), Types.STRING())


_RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


@unordered("the broadcast side may come before or after")
def broadcast_rules(env):
    """What the broadcast side holds in the end; the other side sees it or not."""

    class Rules(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            known = ctx.get_broadcast_state(_RULES).get(value[0])
            yield f"{value[0]} {known in (None, 5)}"

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(_RULES)
            state.put(value[0], value[1])
            yield f"rules {sorted(state.items())}"

    rules = _timed(env, ("a", 5), ("b", 6)).broadcast(_RULES)
    return _timed(env, ("a", 1), ("c", 2)).connect(rules).process(Rules(), Types.STRING())


def broadcast_state_is_read_only(env):
    """The side that isn't broadcast can't write."""

    class Writes(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(_RULES).put("x", 1)
            yield "wrote"

        def process_broadcast_element(self, value, ctx):
            pass

    rules = _timed(env, ("a", 5)).broadcast(_RULES)
    return _timed(env, ("a", 1)).connect(rules).process(Writes(), Types.STRING())


@unordered("the broadcast side may come before or after")
def keyed_broadcast_with_timers(env):
    """A keyed side with state and timers; what the timer reads of the broadcast state is complete."""

    class Keyed(KeyedBroadcastProcessFunction):
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

    keyed = _timed(env, ("a", 1), ("b", 2), ("a", 3)).key_by(lambda v: v[0], Types.STRING())
    return keyed.connect(_timed(env, ("limit", 5)).broadcast(_RULES)).process(Keyed(), Types.STRING())


def undeclared_broadcast_state(env):
    """A broadcast state that broadcast() did not name."""
    other = MapStateDescriptor("other", Types.STRING(), Types.LONG())

    class Asks(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield "element"

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(other).put("a", 1)

    rules = _timed(env, ("a", 5)).broadcast(_RULES)
    return _timed(env, ("a", 1)).connect(rules).process(Asks(), Types.STRING())


@unordered(_BETWEEN)
def connected_after_union(env):
    """Three streams: two united, one connected."""
    ints = env.from_collection([1], Types.INT()).union(env.from_collection([2], Types.INT()))
    return ints.connect(env.from_collection(["a"], Types.STRING())).map(_Named(), Types.STRING())


class _AsGiven(CoFlatMapFunction):
    def flat_map1(self, value):
        yield f"first {value!r}"

    def flat_map2(self, value):
        yield f"second {value!r}"


@unordered(_BETWEEN)
def one_keyed_input_of_two(env):
    """Where one stream alone has keys, its elements come as rows with their keys."""
    pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)], _PAIRS)
    numbers = env.from_collection([7, 8], Types.INT())
    declared = pairs.key_by(lambda v: v[0], Types.STRING())
    mapped = declared.connect(numbers).map(_Named(), Types.STRING())
    turned = numbers.connect(pairs.key_by(lambda v: v[1])).flat_map(_AsGiven(), Types.STRING())
    return mapped.union(turned, declared.connect(numbers.broadcast()).flat_map(_AsGiven(), Types.STRING()))


@unordered(_BETWEEN)
def one_keyed_input_of_a_process_function(env):
    """Such a function knows no current key, and sees the elements' times."""

    class Both(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            try:
                key = ctx.get_current_key()
            except Exception:
                key = "error"
            yield f"first {value} {ctx.timestamp()} {key}"

        def process_element2(self, value, ctx):
            yield f"second {value} {ctx.timestamp()}"

    keyed = _timed(env, ("a", 1), ("b", 2), ("a", 3)).key_by(lambda v: v[0], Types.STRING())
    return keyed.connect(_timed(env, ("c", 4))).process(Both(), Types.STRING())
