"""Timers of event time and processing time."""

from __future__ import annotations

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, OutputTag, TimeDomain
from pyflink.datastream.state import ValueStateDescriptor

from corners.how import unordered

_PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])


class _Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _keyed(env, *elements):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Second())
    return (
        env.from_collection(list(elements), _PAIRS)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda v: v[0])
    )


class _Timers(KeyedProcessFunction):
    """Calls ``on(service, value)`` for each element; tells of timers."""

    def __init__(self, on):
        self.on = on

    def process_element(self, value, ctx):
        told = self.on(ctx.timer_service(), value)
        if told is not None:
            yield str(told)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp} {ctx.time_domain().name} {ctx.timestamp()}"


def event_timers_in_time_order(env):
    """Timers of one key fire by time, whatever order they were set in."""

    def on(service, value):
        for at in (900, 100, 500):
            service.register_event_time_timer(at)

    return _keyed(env, ("a", 1)).process(_Timers(on), Types.STRING())


def same_timer_twice(env):
    """A timer set twice fires once."""

    def on(service, value):
        service.register_event_time_timer(50)
        service.register_event_time_timer(50)

    return _keyed(env, ("a", 1), ("a", 2)).process(_Timers(on), Types.STRING())


def timer_deleted(env):
    """A deleted timer doesn't fire; deleting what isn't there does nothing."""

    def on(service, value):
        service.register_event_time_timer(50)
        service.register_event_time_timer(60)
        service.delete_event_time_timer(50)
        service.delete_event_time_timer(70)

    return _keyed(env, ("a", 1)).process(_Timers(on), Types.STRING())


def timer_in_the_past(env):
    """A timer for a time that is over fires."""

    def on(service, value):
        service.register_event_time_timer(value[1] - 1000)

    return _keyed(env, ("a", 500)).process(_Timers(on), Types.STRING())


def negative_timer(env):
    """A timer before 1970."""

    def on(service, value):
        service.register_event_time_timer(-5)

    return _keyed(env, ("a", 1)).process(_Timers(on), Types.STRING())


def timers_without_timestamps(env):
    """Event-time timers fire at the end of the input though nobody gave watermarks."""

    def on(service, value):
        service.register_event_time_timer(value[1])

    keyed = env.from_collection([("a", 5), ("a", 3)], _PAIRS).key_by(lambda v: v[0])
    return keyed.process(_Timers(on), Types.STRING())


def watermark_before_the_end(env):
    """A small bounded input sees no watermark before its end."""
    return _keyed(env, ("a", 1), ("a", 1000)).process(
        _Timers(lambda service, value: service.current_watermark()), Types.STRING()
    )


@unordered("two streams are united")
def timestamp_of_an_element(env):
    """ctx.timestamp() is the element's, or None."""

    class Tell(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value[0]} {ctx.timestamp()}"

    bare = env.from_collection([("c", 3)], _PAIRS).key_by(lambda v: v[0])
    return _keyed(env, ("a", 7)).process(Tell(), Types.STRING()).union(bare.process(Tell(), Types.STRING()))


class _Chain(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        yield f"{timestamp} {ctx.timer_service().current_watermark()}"
        if timestamp < 40:
            ctx.timer_service().register_event_time_timer(timestamp + 10)


def timer_sets_timer(env):
    """A timer that sets the next one, at the end of the input; the watermark is the last one."""
    return _keyed(env, ("a", 10)).process(_Chain(), Types.STRING())


class _Counted(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1000)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {self.count.value()}"
        self.count.clear()


@unordered("timers of different keys have no order")
def state_in_timers(env):
    """A timer sees its own key's state."""
    return _keyed(env, ("a", 1), ("b", 2), ("a", 3)).process(_Counted(), Types.STRING())


def timer_gives_to_a_side_output(env):
    """A timer may give to a tag."""
    tag = OutputTag("fired", Types.STRING())

    class Sided(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1])

        def on_timer(self, timestamp, ctx):
            yield tag, f"side {timestamp}"

    return _keyed(env, ("a", 1), ("a", 2)).process(Sided(), Types.STRING()).get_side_output(tag)


def processing_timer_fires(env):
    """A processing-time timer for a time that is over fires while the job runs."""

    class Soon(KeyedProcessFunction):
        def process_element(self, value, ctx):
            if value[1] == 1:
                ctx.timer_service().register_processing_time_timer(1)
            else:
                import time

                time.sleep(0.3)

        def on_timer(self, timestamp, ctx):
            yield f"{timestamp} {ctx.time_domain() == TimeDomain.PROCESSING_TIME}"

    return _keyed(env, ("a", 1), ("a", 2)).process(Soon(), Types.STRING())


def pending_processing_timer(env):
    """A processing-time timer that lies after the end of the input is dropped."""

    def on(service, value):
        service.register_processing_time_timer(service.current_processing_time() + 3_600_000)
        return service.current_processing_time() > 1_600_000_000_000

    return _keyed(env, ("a", 1)).process(_Timers(on), Types.STRING())


def timer_without_keys(env):
    """Timers on a stream without keys are an error."""
    from pyflink.datastream import ProcessFunction

    class Tries(ProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(5)
            yield 1

    return env.from_collection([1], Types.INT()).process(Tries(), Types.INT())


def float_timer(env):
    """A timer's time with a fraction."""

    def on(service, value):
        service.register_event_time_timer(10.7)

    return _keyed(env, ("a", 1)).process(_Timers(on), Types.STRING())


def timestamps_of_what_timers_give(env):
    """What a timer gives has the timer's time as its timestamp."""

    class Tell(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value} at {ctx.timestamp()}"

    def on(service, value):
        service.register_event_time_timer(77)
        return "element"

    first = _keyed(env, ("a", 5)).process(_Timers(on), Types.STRING())
    return first.key_by(lambda v: 0).process(Tell(), Types.STRING())
