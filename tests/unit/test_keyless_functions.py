"""Process functions of the keyed kinds on streams without keys: they run, and have no keyed state, timers or key."""

from __future__ import annotations

import itertools

import pytest
from support.jobs import NO_RESTART, TestJob

from api.common import Types
from api.datastream import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from changelog_engine.connectors import CollectSink
from changelog_engine.errors import JobExecutionError, NotKeyedError

SIDE = OutputTag("side", Types.STRING())
NO_TIME = -(2**63)


def value_of(context):
    return context.get_state(ValueStateDescriptor("count", Types.LONG()))


def map_of(context):
    return context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))


TOUCHES = {
    "key": (None, lambda ctx: ctx.get_current_key(), "asks for the current key"),
    "timer": (None, lambda ctx: ctx.timer_service().register_event_time_timer(5), "asks for a timer"),
    "processing timer": (None, lambda ctx: ctx.timer_service().register_processing_time_timer(5), "a timer"),
    "deleted timer": (None, lambda ctx: ctx.timer_service().delete_event_time_timer(5), "a timer"),
    "state": (value_of, None, "asks for keyed state 'count'"),
    "map state": (map_of, None, "asks for keyed state 'counts'"),
}


class One(KeyedProcessFunction):
    def __init__(self, touch=(None, None, "")):
        self.in_open, self.in_element, _ = touch

    def open(self, runtime_context):
        if self.in_open is not None:
            self.in_open(runtime_context)

    def process_element(self, value, ctx):
        if self.in_element is not None:
            self.in_element(ctx)
        yield SIDE, str(value)
        service = ctx.timer_service()
        yield value, ctx.timestamp(), service.current_watermark(), hasattr(ctx, "get_current_key")

    def on_timer(self, timestamp, ctx):
        raise AssertionError("there are no timers")


class Two(KeyedCoProcessFunction):
    def __init__(self, touch=(None, None, "")):
        self.in_open, self.in_element, _ = touch

    def open(self, runtime_context):
        if self.in_open is not None:
            self.in_open(runtime_context)

    def process_element1(self, value, ctx):
        if self.in_element is not None:
            self.in_element(ctx)
        yield "one", value, ctx.timestamp(), hasattr(ctx, "get_current_key")

    def process_element2(self, value, ctx):
        yield "two", value, ctx.timestamp(), hasattr(ctx, "get_current_key")


class Plain:
    """Not a function of the API, but it has the method: PyFlink looks for no more."""

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value, ctx):
        assert isinstance(ctx, ProcessFunction.Context)
        yield value, self.subtask


@pytest.fixture
def numbers():
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    return env.from_collection([1, 2], Types.LONG())


@pytest.fixture
def run(tmp_path):
    numbers = itertools.count()

    def run(stream):
        stream._end("Collect", CollectSink())
        graph, _, _ = stream.get_execution_environment()._take_job("job")
        job = TestJob(tmp_path / str(next(numbers)), restart=NO_RESTART)
        job.run(graph)
        return sorted(job.output, key=repr)

    return run


def test_they_run(numbers, run):
    assert run(numbers.process(One())) == [(1, NO_TIME, NO_TIME, False), (2, NO_TIME, NO_TIME, False)]
    assert run(numbers.process(One()).get_side_output(SIDE)) == ["1", "2"]
    assert run(numbers.connect(numbers).process(Two())) == [
        (name, value, NO_TIME, False) for name in ("one", "two") for value in (1, 2)
    ]


def test_a_stream_that_was_keyed_before(numbers, run):
    mapped = numbers.key_by(lambda value: value).map(lambda value: value + 1)
    assert [element[0] for element in run(mapped.process(One()))] == [2, 3]


def test_anything_with_the_method(numbers, run):
    assert run(numbers.process(Plain())) == [(1, 0), (2, 0)]


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
@pytest.mark.parametrize(
    "make",
    [lambda ds, touch: ds.process(One(touch)), lambda ds, touch: ds.connect(ds).process(Two(touch))],
    ids=["one", "two"],
)
def test_what_needs_a_key_says_so(numbers, run, make, touch):
    with pytest.raises(JobExecutionError) as raised:
        run(make(numbers, touch).name("keyless"))
    failure = raised.value.__cause__
    assert isinstance(failure, NotKeyedError)
    assert failure.operator == "keyless"
    assert touch[2] in str(failure)
    assert "call key_by() right before it" in str(failure)
