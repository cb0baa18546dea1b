"""Timestamps and watermarks."""

from __future__ import annotations

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, ProcessWindowFunction
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.window import TumblingEventTimeWindows

from corners.how import unordered


class _At(TimestampAssigner):
    def __init__(self, at):
        self.at = at

    def extract_timestamp(self, value, record_timestamp):
        return self.at(value, record_timestamp)


class _Stamps(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} {ctx.timestamp()}"


class _Marks(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} {ctx.timer_service().current_watermark()}"


def _with(env, at, strategy=None, values=(3, 1, 2)):
    strategy = strategy or WatermarkStrategy.for_monotonous_timestamps()
    ints = env.from_collection(list(values), Types.INT())
    return ints.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(_At(at)))


def assigned(env):
    """Each element's own timestamp."""
    return _with(env, lambda v, t: v * 1000).process(_Stamps(), Types.STRING())


def float_timestamps(env):
    """Timestamps with fractions, as of dt.timestamp() * 1000, are cut off."""
    return _with(env, lambda v, t: v + 0.7).process(_Stamps(), Types.STRING())


def negative_float_timestamps(env):
    """Towards zero, before 1970."""
    return _with(env, lambda v, t: -v - 0.7).process(_Stamps(), Types.STRING())


def none_as_a_timestamp(env):
    """None as a timestamp is an error."""
    return _with(env, lambda v, t: None).process(_Stamps(), Types.STRING())


def text_as_a_timestamp(env):
    """A text as a timestamp is an error."""
    return _with(env, lambda v, t: "5").process(_Stamps(), Types.STRING())


def timestamp_before_assignment(env):
    """record_timestamp of an element that has none."""
    return _with(env, lambda v, t: 0 if t < 0 else 1).process(_Stamps(), Types.STRING())


def assigned_twice(env):
    """The second assigner sees the first one's timestamps."""
    first = _with(env, lambda v, t: v * 10)
    again = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At(lambda v, t: t + 1))
    return first.assign_timestamps_and_watermarks(again).process(_Stamps(), Types.STRING())


def no_watermarks(env):
    """Timestamps without watermarks."""
    return _with(env, lambda v, t: v, WatermarkStrategy.no_watermarks()).process(_Stamps(), Types.STRING())


def watermark_of_a_small_input(env):
    """No watermark comes before the end of a small input."""
    return _with(env, lambda v, t: v * 1000).process(_Marks(), Types.STRING())


def strategy_without_an_assigner(env):
    """A strategy without an assigner over elements without timestamps."""
    ints = env.from_collection([1], Types.INT())
    return ints.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()).process(
        _Stamps(), Types.STRING()
    )


def kept_through_functions(env):
    """map, flat_map and a shuffle keep timestamps."""
    timed = (
        _with(env, lambda v, t: v * 100)
        .map(lambda v: v, Types.INT())
        .flat_map(lambda v: [v, -v], Types.INT())
    )
    return timed.key_by(lambda v: 0).map(lambda v: v, Types.INT()).process(_Stamps(), Types.STRING())


@unordered("two streams are united")
def kept_through_a_union(env):
    """Timestamps of united streams are each element's own."""
    return (
        _with(env, lambda v, t: v).union(_with(env, lambda v, t: v * 100)).process(_Stamps(), Types.STRING())
    )


class _Count(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{context.window().start} {sum(1 for _ in elements)}"


def assigner_with_state(env):
    """An assigner may count."""

    class Counting(TimestampAssigner):
        def __init__(self):
            self.count = 0

        def extract_timestamp(self, value, record_timestamp):
            self.count += 600
            return self.count

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Counting())
    timed = env.from_collection([5, 5, 5, 5], Types.INT()).assign_timestamps_and_watermarks(strategy)
    windowed = timed.key_by(lambda v: v).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windowed.process(_Count(), Types.STRING())


def with_idleness(env):
    """with_idleness() changes nothing where elements come."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_idleness(
        Duration.of_millis(50)
    )
    timed = _with(env, lambda v, t: v * 1000, strategy)
    windowed = timed.key_by(lambda v: 0).window(TumblingEventTimeWindows.of(Time.seconds(2)))
    return windowed.process(_Count(), Types.STRING())


def of_a_source(env):
    """A strategy given to from_source(), with an assigner."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At(lambda v, t: v * 10))
    numbers = env.from_source(NumberSequenceSource(1, 3), strategy, "numbers", Types.LONG())
    return numbers.process(_Stamps(), Types.STRING())


def durations(env):
    """What Time and Duration say."""
    return [
        Time.seconds(2).to_milliseconds(),
        Time.days(1).to_milliseconds(),
        Time.milliseconds(5) == Time.milliseconds(5),
        Duration.of_minutes(1) == Duration.of_seconds(60),
        str(Time.hours(1)),
    ]


def assigner_before_idleness(env):
    """A strategy that was given its timestamp assigner before with_idleness()."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At(lambda v, t: v))
    idle = strategy.with_idleness(Duration.of_seconds(5))
    return env.from_collection([5, 7], Types.INT()).assign_timestamps_and_watermarks(idle).process(_Stamps())


def assigner_before_alignment(env):
    """A strategy that was given its timestamp assigner before with_watermark_alignment()."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At(lambda v, t: v))
    aligned = strategy.with_watermark_alignment("group", Duration.of_seconds(5))
    return (
        env.from_collection([5, 7], Types.INT()).assign_timestamps_and_watermarks(aligned).process(_Stamps())
    )


def assigner_behind_idleness(env):
    """A strategy that is given its timestamp assigner after with_idleness()."""
    idle = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(5))
    strategy = idle.with_timestamp_assigner(_At(lambda v, t: v))
    return (
        env.from_collection([5, 7], Types.INT()).assign_timestamps_and_watermarks(strategy).process(_Stamps())
    )
