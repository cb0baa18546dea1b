"""Timers, times and contexts where programs seldom look."""

from __future__ import annotations

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    TimeDomain,
)
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

from corners.how import unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.INT()])

_RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class _At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _timed(env, pairs=(("a", 1), ("b", 2), ("a", 3), ("b", 4))):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At())
    return env.from_collection(list(pairs), _PAIRS).assign_timestamps_and_watermarks(strategy)


def _keyed(env, pairs=(("a", 1), ("b", 2), ("a", 3), ("b", 4))):
    return _timed(env, pairs).key_by(lambda p: p[0], Types.STRING())


def _attempt(call, *arguments):
    """What a call gives, or the class of what it raises."""
    try:
        return call(*arguments)
    except Exception as error:
        return type(error).__name__


@unordered("timers of one time")
def equal_times_of_several_keys(env):
    """Timers of one time of several keys fire once for each key."""

    class Same(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(100)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp}"

    return _keyed(env, [("c", 1), ("a", 2), ("b", 3), ("a", 4)]).process(Same(), Types.STRING())


def times_before_keys(env):
    """Timers of several keys fire by time."""

    class Back(KeyedProcessFunction):
        def process_element(self, value, ctx):
            for distance in (30, 10, 20):
                ctx.timer_service().register_event_time_timer(value[1] + distance)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp}"

    return _keyed(env).process(Back(), Types.STRING())


def deleted_in_another_key(env):
    """Deleting a timer of another key deletes nothing."""

    class Delete(KeyedProcessFunction):
        def process_element(self, value, ctx):
            if ctx.get_current_key() == "a":
                ctx.timer_service().register_event_time_timer(50)
            else:
                ctx.timer_service().delete_event_time_timer(50)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp}"

    return _keyed(env).process(Delete(), Types.STRING())


def deleted_and_set_again(env):
    """A timer that is deleted and set again fires once."""

    class Again(KeyedProcessFunction):
        def process_element(self, value, ctx):
            timers = ctx.timer_service()
            timers.register_event_time_timer(50)
            timers.delete_event_time_timer(50)
            timers.delete_event_time_timer(50)
            timers.register_event_time_timer(50)
            timers.register_event_time_timer(51)
            timers.delete_event_time_timer(51)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp}"

    return _keyed(env).process(Again(), Types.STRING())


def deleted_of_the_other_domain(env):
    """Deleting a processing-time timer leaves the event-time timer of that time."""

    class Other(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(50)
            ctx.timer_service().delete_processing_time_timer(50)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp} {ctx.time_domain()}"

    return _keyed(env).process(Other(), Types.STRING())


def domains_of_timers(env):
    """time_domain(), timestamp() and the watermark in on_timer."""

    class Domains(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 10)

        def on_timer(self, timestamp, ctx):
            yield str(
                (
                    ctx.time_domain(),
                    ctx.time_domain() == TimeDomain.EVENT_TIME,
                    ctx.timestamp(),
                    ctx.timer_service().current_watermark(),
                    ctx.get_current_key(),
                )
            )

    return _keyed(env).process(Domains(), Types.STRING())


def deleting_oneself(env):
    """A timer that deletes and sets itself anew while it fires, three times."""

    class Self(KeyedProcessFunction):
        def open(self, runtime_context):
            self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))

        def process_element(self, value, ctx):
            self.left.update(3)
            ctx.timer_service().register_event_time_timer(10)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp} {self.left.value()}"
            self.left.update(self.left.value() - 1)
            ctx.timer_service().delete_event_time_timer(timestamp)
            if self.left.value():
                ctx.timer_service().register_event_time_timer(timestamp)

    return _keyed(env).process(Self(), Types.STRING())


def timer_deletes_a_later_one(env):
    """A timer that fires deletes another one that is due too."""

    class Deletes(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10)
            ctx.timer_service().register_event_time_timer(20)

        def on_timer(self, timestamp, ctx):
            ctx.timer_service().delete_event_time_timer(20)
            yield f"{ctx.get_current_key()} {timestamp}"

    return _keyed(env).process(Deletes(), Types.STRING())


def largest_and_smallest_timers(env):
    """Timers at the ends of 64 bits."""

    class Ends(KeyedProcessFunction):
        def process_element(self, value, ctx):
            for time in (2**63 - 1, -(2**63), 0, -1, 2**63 - 2):
                ctx.timer_service().register_event_time_timer(time)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp}"

    return _keyed(env, [("a", 1)]).process(Ends(), Types.STRING())


def timer_out_of_range(env):
    """A timer beyond 64 bits."""

    class Beyond(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(2**63)

        def on_timer(self, timestamp, ctx):
            yield f"{timestamp}"

    return _keyed(env, [("a", 1)]).process(Beyond(), Types.STRING())


def timer_of_a_text(env):
    """A timer whose time is a str, and one whose time is None."""

    class Text(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer("10")

        def on_timer(self, timestamp, ctx):
            yield f"{timestamp}"

    return _keyed(env, [("a", 1)]).process(Text(), Types.STRING())


def timer_of_none(env):
    """A timer whose time is None."""

    class Nothing(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(None)

        def on_timer(self, timestamp, ctx):
            yield f"{timestamp}"

    return _keyed(env, [("a", 1)]).process(Nothing(), Types.STRING())


def timestamps_in_all_functions(env):
    """ctx.timestamp() in process_element of a function without keys, with keys and behind another one."""

    class Plain(ProcessFunction):
        def process_element(self, value, ctx):
            yield value[0], ctx.timestamp() * 10

    class Keyed(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value} {ctx.timestamp()} {ctx.timer_service().current_watermark()}"

    return (
        _timed(env)
        .process(Plain(), _PAIRS)
        .key_by(lambda p: p[0], Types.STRING())
        .process(Keyed(), Types.STRING())
    )


def timestamps_without_an_assigner(env):
    """ctx.timestamp() and the watermark where nobody gave any."""

    class Keyed(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield f"{ctx.timestamp()} {ctx.timer_service().current_watermark()}"

    return env.from_collection([("a", 1)], _PAIRS).key_by(lambda p: p[0]).process(Keyed(), Types.STRING())


def time_of_the_machine(env):
    """current_processing_time() is in milliseconds, and an int."""

    class Now(KeyedProcessFunction):
        def process_element(self, value, ctx):
            import time

            now = ctx.timer_service().current_processing_time()
            yield f"{type(now).__name__} {abs(now - time.time() * 1000) < 60_000}"

    return _keyed(env, [("a", 1)]).process(Now(), Types.STRING())


def timer_service_without_keys(env):
    """What a ProcessFunction's timer service can."""

    class Plain(ProcessFunction):
        def process_element(self, value, ctx):
            timers = ctx.timer_service()
            yield f"{timers.current_watermark()} {type(timers.current_processing_time()).__name__}"

    return _timed(env).process(Plain(), Types.STRING())


def timers_of_two_inputs(env):
    """Timers of a KeyedCoProcessFunction: times, keys, domains, equal times of both sides."""

    class Both(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            ctx.timer_service().register_event_time_timer(100)
            yield f"1 {value} {ctx.timestamp()} {ctx.get_current_key()}"

        def process_element2(self, value, ctx):
            ctx.timer_service().register_event_time_timer(100)
            ctx.timer_service().register_event_time_timer(50)
            yield f"2 {value} {ctx.timestamp()} {ctx.get_current_key()}"

        def on_timer(self, timestamp, ctx):
            yield f"timer {timestamp} {ctx.get_current_key()} {ctx.time_domain()} {ctx.timestamp()}"

    both = _timed(env, [("a", 1), ("b", 2)]).connect(_timed(env, [("b", 3), ("c", 4)]))
    given = both.key_by(lambda p: p[0], lambda p: p[0], Types.STRING()).process(Both(), Types.STRING())
    return sorted(given.execute_and_collect())


def two_inputs_without_keys(env):
    """CoProcessFunction: timestamps, the watermark, and no timers."""

    class Both(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield f"1 {value} {ctx.timestamp()} {ctx.timer_service().current_watermark()}"

        def process_element2(self, value, ctx):
            yield f"2 {value} {ctx.timestamp()}"

    both = _timed(env, [("a", 1), ("b", 2)]).connect(_timed(env, [("b", 3), ("c", 4)]))
    return sorted(both.process(Both(), Types.STRING()).execute_and_collect())


def broadcast_contexts(env):
    """What contexts of a KeyedBroadcastProcessFunction have."""

    class Rules(KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            state = ctx.get_broadcast_state(_RULES)
            yield str(
                (
                    "element",
                    value,
                    ctx.timestamp(),
                    ctx.get_current_key(),
                    ctx.current_watermark(),
                    type(ctx.current_processing_time()).__name__,
                    [name for name in ("put", "remove", "put_all") if hasattr(state, name)],
                )
            )

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(_RULES)
            state.put(value[0], value[1])
            yield str(
                (
                    "broadcast",
                    value,
                    ctx.timestamp(),
                    ctx.current_watermark(),
                    state.get(value[0]),
                    state.contains("none"),
                    sorted(state.keys()),
                    sorted(state.items()),
                    sorted(state.values()),
                )
            )

    rules = _timed(env, [("rule", 5)]).broadcast(_RULES)
    return sorted(_keyed(env).connect(rules).process(Rules(), Types.STRING()).execute_and_collect())


def broadcast_without_keys(env):
    """A BroadcastProcessFunction with all methods of its state."""

    class Rules(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield f"element {value} {ctx.timestamp()} {ctx.current_watermark()}"

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(_RULES)
            for key, held in {"x": 1, "y": 2}.items():
                state.put(key, held)
            state.remove("x")
            missing = state.get("x")
            seen = sorted(state.items()), "y" in state, state.is_empty()
            state.clear()
            yield f"broadcast {value} {missing} {seen} {sorted(state.items())}"

    rules = _timed(env, [("rule", 5)]).broadcast(_RULES)
    return sorted(_timed(env).connect(rules).process(Rules(), Types.STRING()).execute_and_collect())


def broadcast_written_from_the_other_side(env):
    """put() from process_element."""

    class Rules(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(_RULES).put("x", 1)
            yield "written"

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(_RULES).put(value[0], value[1])

    rules = _timed(env, [("rule", 5)]).broadcast(_RULES)
    return _timed(env).connect(rules).process(Rules(), Types.STRING())


def two_broadcast_states(env):
    """broadcast() with two descriptors."""
    other = MapStateDescriptor("other", Types.INT(), Types.STRING())

    class Rules(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(_RULES).put(value[0], value[1])
            ctx.get_broadcast_state(other).put(value[1], value[0])
            yield str(
                (
                    sorted(ctx.get_broadcast_state(_RULES).items()),
                    sorted(ctx.get_broadcast_state(other).items()),
                )
            )

    rules = _timed(env, [("rule", 5), ("more", 6)]).broadcast(_RULES, other)
    return _timed(env).connect(rules).process(Rules(), Types.STRING())


def timers_in_a_broadcast_function(env):
    """Timers are the keyed side's alone."""

    class Rules(KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 10)

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(_RULES).put(value[0], value[1])
            yield f"broadcast {hasattr(ctx, 'timer_service')}"

        def on_timer(self, timestamp, ctx):
            held = ctx.get_broadcast_state(_RULES).get("rule")
            yield f"{timestamp} {ctx.get_current_key()} {held} {ctx.time_domain()} {ctx.timestamp()}"

    rules = _timed(env, [("rule", 5)]).broadcast(_RULES)
    return sorted(_keyed(env).connect(rules).process(Rules(), Types.STRING()).execute_and_collect())


@unordered("two sinks")
def side_output_of_a_context(env):
    """ctx.output() is not there; tags go with yield."""
    tag = OutputTag("side", Types.STRING())

    class Sides(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield tag, f"{value[0]} {hasattr(ctx, 'output')}"
            yield value[0]

    main = _keyed(env).process(Sides(), Types.STRING())
    main.get_side_output(tag).print("side")
    main.print("main")
    env.execute()


def process_element_returns_a_list(env):
    """return of a list, a tuple, a str and None in place of yield."""

    class Lists(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return {1: [1, 2], 2: (3, 4), 3: None, 4: range(5, 7)}[value[1]]

    return _keyed(env).process(Lists(), Types.INT())


def process_element_returns_a_number(env):
    """return of what is not iterable."""

    class Number(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return value[1]

    return _keyed(env).process(Number(), Types.INT())


def process_element_returns_a_text(env):
    """return of a str: its characters."""

    class Text(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return "xy"

    return _keyed(env).process(Text(), Types.STRING())


def on_timer_is_not_there(env):
    """A timer of a function without on_timer."""

    class Without(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10)
            yield value[0]

    return _keyed(env).process(Without(), Types.STRING())


def keyed_state_of_timers(env):
    """State that a timer clears; the timer of one key leaves the other's."""

    class Clears(KeyedProcessFunction):
        def open(self, runtime_context):
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

        def process_element(self, value, ctx):
            self.seen.add(value[1])
            ctx.timer_service().register_event_time_timer(value[1] * 10)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {timestamp} {list(self.seen.get())}"
            self.seen.clear()

    return _keyed(env).process(Clears(), Types.STRING())


def context_outside_of_its_call(env):
    """A context that is kept from the element before."""

    class Keeps(KeyedProcessFunction):
        def open(self, runtime_context):
            self.kept = None

        def process_element(self, value, ctx):
            if self.kept is not None:
                yield f"{self.kept is ctx} {self.kept.get_current_key()} {self.kept.timestamp()}"
            self.kept = ctx

    return _keyed(env).process(Keeps(), Types.STRING())
