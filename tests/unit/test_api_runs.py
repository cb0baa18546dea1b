"""Programs of connected, broadcast and partitioned streams, run in this process."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.jobs import NO_DELAY, TestJob

from api.common import RestartStrategies, Row, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.datastream.state import (
    BroadcastState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ValueStateDescriptor,
)
from changelog_engine.connectors import CollectSink
from changelog_engine.errors import ChangelogEngineError

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
SIDE = OutputTag("side", Types.STRING())


class Some(CoMapFunction):
    def map1(self, value):
        return value if value > 1 else None

    def map2(self, value):
        return value.upper()


class SomeFlat(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * value if value > 1 else None

    def flat_map2(self, value):
        yield value


class Contexts(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield (
            "first",
            isinstance(ctx, CoProcessFunction.Context),
            isinstance(ctx, KeyedCoProcessFunction.Context),
        )

    def process_element2(self, value, ctx):
        yield SIDE, f"{value} {ctx.timestamp()}"


class Join(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))

    def process_element1(self, value, ctx):
        assert isinstance(ctx, KeyedCoProcessFunction.Context)
        self.left.update((self.left.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 10)

    def process_element2(self, value, ctx):
        self.left.update((self.left.value() or 0) + 100 * value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.left.value(), ctx.time_domain().name


class Price(BroadcastProcessFunction):
    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(RULES)
        assert isinstance(state, BroadcastState)
        assert isinstance(ctx, BroadcastProcessFunction.Context)
        state.put(*value)
        yield SIDE, f"{value[0]}={value[1]}"

    def process_element(self, value, ctx):
        state = ctx.get_broadcast_state(RULES)
        assert isinstance(state, ReadOnlyBroadcastState)
        assert not isinstance(state, BroadcastState)
        yield value


class KeyedPrice(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)

    def process_element(self, value, ctx):
        assert isinstance(ctx, KeyedBroadcastProcessFunction.ReadOnlyContext)
        self.seen.update((self.seen.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(50)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.seen.value(), sorted(ctx.get_broadcast_state(RULES).items())


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Answer(TimestampAssigner):
    """A timestamp as the element has it."""

    def extract_timestamp(self, value, record_timestamp):
        return value


class TimesOf(ProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.timestamp()


class WatermarksAt(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


class TimersAt(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        yield timestamp


class ByRemainder(Partitioner):
    def open(self, runtime_context):
        self.bias = 1

    def partition(self, key, num_partitions):
        return (key + self.bias) % num_partitions


class Where(MapFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return value, self.subtask


@pytest.fixture
def env(monkeypatch):
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


@pytest.fixture
def run(tmp_path):
    numbers = itertools.count()

    def run(stream):
        stream._end("Collect", CollectSink())
        job = TestJob(tmp_path / str(next(numbers)))
        graph, settings, _ = stream.get_execution_environment()._take_job("job")
        job.run(
            graph,
            restart=settings.restart or NO_DELAY,
            epoch_max_records=1,
            periodic_watermarks=settings.periodic_watermarks,
        )
        return sorted(job.output, key=repr)

    return run


def test_none_makes_no_element(env, run):
    numbers, words = env.from_collection([1, 2]), env.from_collection(["a"])
    connected = numbers.connect(words)
    assert run(connected.map(Some())) == ["A", 2]
    assert run(connected.flat_map(SomeFlat())) == ["a", 2, 2]
    keyed = connected.key_by(str, str)
    assert run(keyed.map(Some())) == ["A", 2]
    assert run(keyed.flat_map(SomeFlat())) == ["a", 2, 2]


def test_contexts_and_side_output_of_connected_streams(env, run):
    numbers, words = env.from_collection([1, 2]), env.from_collection(["a"])
    result = numbers.connect(words).process(Contexts())
    assert run(result) == [("first", True, False)] * 2
    assert run(result.get_side_output(SIDE)) == ["a -9223372036854775808"]
    keyed = numbers.connect(words).key_by(str, str).process(Contexts())
    assert run(keyed) == [("first", True, True)] * 2


def test_keyed_streams_share_state_and_timers(env, run):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    left = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).assign_timestamps_and_watermarks(strategy)
    right = env.from_collection([("a", 1), ("c", 1)]).assign_timestamps_and_watermarks(strategy)
    connected = left.connect(right).key_by(lambda v: v[0], lambda v: v[0], Types.STRING())
    assert run(connected.process(Join())) == [
        ("a", 11, 104, "EVENT_TIME"),
        ("a", 13, 104, "EVENT_TIME"),
        ("b", 12, 2, "EVENT_TIME"),
    ]


def test_broadcast(env, run):
    rules = env.from_collection([("tea", 2), ("rum", 9)]).broadcast(RULES)
    words = env.from_collection(["tea", "gin", "tea"])
    result = words.connect(rules).process(Price(), Types.STRING())
    assert run(result) == ["gin", "tea", "tea"]
    assert run(result.get_side_output(SIDE)) == ["rum=9"] * 2 + ["tea=2"] * 2
    keyed = words.key_by(lambda v: v, Types.STRING()).connect(rules).process(KeyedPrice())
    assert run(keyed) == [("gin", 1, [("rum", 9), ("tea", 2)]), ("tea", 2, [("rum", 9), ("tea", 2)])]


def test_partitionings(env, run):
    numbers = env.from_collection([0, 1, 2, 3], Types.INT())
    custom = numbers.partition_custom(ByRemainder(), lambda v: v).map(Where())
    assert run(custom) == [(0, 1), (1, 0), (2, 1), (3, 0)]
    assert run(numbers.global_().map(Where())) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert run(numbers.broadcast().map(Where())) == [(n, s) for n in range(4) for s in range(2)]
    assert sorted(s for _, s in run(numbers.rebalance().map(Where()))) == [0, 0, 1, 1]
    assert run(numbers.rebalance().map(Where()).force_non_parallel()) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_aggregations_and_projection(env, run):
    pairs = env.from_collection([("a", 3), ("a", 1), ("b", 5)], Types.TUPLE([Types.STRING(), Types.INT()]))
    keyed = pairs.key_by(lambda v: v[0], Types.STRING())
    assert run(keyed.sum(1)) == [("a", 3), ("a", 4), ("b", 5)]
    assert run(keyed.min_by(1).project(1)) == [(1,), (3,), (5,)]


def test_timestamps_are_numbers_of_milliseconds(env, run):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Answer())

    def timed(values):
        return env.from_collection(values).assign_timestamps_and_watermarks(strategy)

    moments = [1.9, -1.9, np.float64(7.5), np.int32(8), True, 2**40]
    assert run(timed(moments).process(TimesOf())) == sorted([1, -1, 7, 8, 1, 2**40], key=repr)
    assert run(timed([5.7]).key_by(lambda v: 0).process(TimersAt())) == [5]
    env.set_restart_strategy(RestartStrategies.no_restart())
    for wrong in (None, "5", float("nan"), 2**70, [5]):
        with pytest.raises(
            ChangelogEngineError, match=r"of operator .* a timestamp is a number of milliseconds"
        ):
            run(timed([wrong]).process(TimesOf()))
        with pytest.raises(ChangelogEngineError, match="timer's timestamp is a 64-bit int"):
            run(env.from_collection([wrong]).key_by(lambda v: 0).process(TimersAt()))
    for wrong in (2**63, -(2**63) - 1):
        with pytest.raises(ChangelogEngineError, match=rf"returned {wrong} for the element"):
            run(timed([5, wrong, 6]).process(TimesOf()))
    yielding = Answer()
    yielding.extract_timestamp = lambda value, time: (yield value)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(yielding)
    with pytest.raises(ChangelogEngineError, match="extract_timestamp of Answer has a 'yield'"):
        run(timed([5]))


def test_an_assigner_that_yields_works_in_from_source_which_is_where_pyflink_never_calls_it(env, run, caplog):
    def timed(extract):
        yielding = Answer()
        yielding.extract_timestamp = extract
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(yielding)
        return env.from_source(NumberSequenceSource(1, 2), strategy, "numbers").process(TimesOf())

    stream = timed(lambda value, time: (yield value * 1000))
    assert "extract_timestamp of Answer is a generator function" in caplog.text
    assert run(stream) == [1000, 2000]
    env.set_restart_strategy(RestartStrategies.no_restart())
    with pytest.raises(ChangelogEngineError, match="yielded nothing for the element 1; it must return one"):
        run(timed(lambda value, time: (yield from ())))
    with pytest.raises(ChangelogEngineError, match="yielded several values for the element 1"):
        run(timed(lambda value, time: (yield from (1, 2))))
    with pytest.raises(ChangelogEngineError, match="returned '5'"):
        run(timed(lambda value, time: (yield "5")))


class Broken:
    """Iterable, with a mistake of the user's."""

    def __iter__(self):
        raise TypeError("a mistake in __iter__")


@pytest.mark.parametrize("keyed", [False, True])
def test_the_error_of_a_results_own_iter_is_told(env, run, keyed):
    env.set_restart_strategy(RestartStrategies.no_restart())
    stream = env.from_collection([1])
    stream = stream.key_by(lambda value: value) if keyed else stream
    with pytest.raises(ChangelogEngineError, match="raised TypeError: a mistake in __iter__"):
        run(stream.flat_map(lambda value: Broken()))


def test_an_assigner_that_fails_in_from_source_is_told_with_what_pyflink_does_there(env, run):
    env.set_restart_strategy(RestartStrategies.no_restart())
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    numbers = env.from_source(NumberSequenceSource(1, 2), strategy, "numbers")
    hint = r"(?s)element 1 raised TypeError: 'int' object is not subscriptable.*PyFlink never calls the timestamp assigner"
    with pytest.raises(ChangelogEngineError, match=hint):
        run(numbers.process(TimesOf()))
    again = env.from_collection([1, 2]).assign_timestamps_and_watermarks(strategy)
    with pytest.raises(ChangelogEngineError) as told:
        run(again.process(TimesOf()))
    assert "PyFlink" not in str(told.value)


def test_a_function_as_an_assigner_works_in_from_source_which_is_where_pyflink_never_calls_it(
    env, run, caplog
):
    def timed(function):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(function)
        return env.from_source(NumberSequenceSource(1, 2), strategy, "numbers").process(TimesOf())

    stream = timed(lambda value, time: value * 1000)
    assert "PyFlink takes a function as a timestamp assigner in from_source only" in caplog.text
    assert run(stream) == [1000, 2000]
    assert run(timed(lambda value: value * 10)) == [10, 20]
    assert run(timed(lambda value, time: (yield value))) == [1, 2]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, time: value
    )
    with pytest.raises(AttributeError, match="needs an instance of a TimestampAssigner"):  # as in PyFlink
        env.from_collection([5]).assign_timestamps_and_watermarks(strategy)


@pytest.mark.parametrize("interval_ms", [200, 0])
def test_an_interval_of_0_makes_no_watermark_before_the_end(env, run, interval_ms):
    env.set_parallelism(1).get_config().set_auto_watermark_interval(interval_ms)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Answer())
    stream = env.from_collection([5, 30, 7]).assign_timestamps_and_watermarks(strategy).map(lambda v: v)
    marks = run(stream.key_by(lambda v: 0).process(WatermarksAt()))
    first = -(2**63)
    assert marks == sorted(
        [(5, first), (30, first if interval_ms == 0 else 4), (7, first if interval_ms == 0 else 29)], key=repr
    )


NULLS = [
    Types.STRING(),
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(),
    Types.INSTANT(),
]
NO_NULLS = [
    *(Types.INT(), Types.LONG(), Types.DOUBLE(), Types.BOOLEAN(), Types.TUPLE([Types.INT()])),
    *(Types.ROW([Types.INT()]), Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.INT())),
]


@pytest.mark.parametrize("declared", [*NULLS, *NO_NULLS], ids=repr)
def test_types_are_checked_where_elements_leave_a_chain(env, run, declared):
    env.set_restart_strategy(RestartStrategies.no_restart())
    nothing = env.from_collection([1, 2]).map(lambda v: None, declared)
    assert run(nothing.filter(lambda v: v is not None)) == []
    assert run(nothing.map(lambda v: v is None, Types.BOOLEAN())) == [True, True]
    leaving = [nothing, nothing.rebalance().map(lambda v: v), nothing.filter(lambda v: True)]
    for stream in leaving:
        if declared in NULLS:
            assert run(stream) == [None, None]
        else:
            with pytest.raises(ChangelogEngineError, match=r"operator .*None is not a .*filter\("):
                run(stream)


def test_what_a_chain_gives_is_converted_once_it_leaves(env, run):
    row = Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.DOUBLE()])
    tuples = env.from_collection([("a", 1), ("b", 2.5)]).map(lambda v: v, row)
    assert run(tuples.map(lambda v: type(v).__name__)) == [
        "tuple",
        "tuple",
    ]  # as in Flink: nothing in between
    assert run(tuples) == [Row(name="a", amount=1.0), Row(name="b", amount=2.5)]
    assert run(tuples.rebalance().map(lambda v: v.amount)) == [1.0, 2.5]
    side = OutputTag("side", Types.DOUBLE())

    class Aside(ProcessFunction):
        def process_element(self, value, ctx):
            yield side, value

    aside = env.from_collection([1, True, 2.5]).process(Aside()).get_side_output(side)
    assert run(aside.map(repr)) == ["1.0", "1.0", "2.5"]
    env.set_restart_strategy(RestartStrategies.no_restart())
    with pytest.raises(
        ChangelogEngineError, match=r"output of operator 'cut'.*field 'amount'.*'x' of type str"
    ):
        run(env.from_collection([("a", "x")]).map(lambda v: v, row).name("cut"))
