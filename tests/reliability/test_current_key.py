"""Keyed state is of a key: where there is none, touching it is an error. Reliability 48."""

from __future__ import annotations

import threading

import pytest
from support.jobs import NO_RESTART, TestJob

from api.common import Types
from api.common.time import Time
from api.datastream import StreamExecutionEnvironment
from api.datastream.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
)
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.errors import JobExecutionError, NoCurrentKeyError

LONG = Types.LONG()


class Largest(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return max(accumulator, value)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return max(acc_a, acc_b)


def states_of(context):
    """One of each kind, and one with a time to live."""
    living = ValueStateDescriptor("living", LONG)
    living.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return {
        "value": context.get_state(ValueStateDescriptor("value", LONG)),
        "object": context.get_state(ValueStateDescriptor("object", Types.PICKLED_BYTE_ARRAY())),
        "list": context.get_list_state(ListStateDescriptor("list", LONG)),
        "map": context.get_map_state(MapStateDescriptor("map", LONG, LONG)),
        "reducing": context.get_reducing_state(ReducingStateDescriptor("reducing", max, LONG)),
        "aggregating": context.get_aggregating_state(
            AggregatingStateDescriptor("aggregating", Largest(), LONG)
        ),
        "living": context.get_state(living),
    }


TOUCHES = {
    "value.value": lambda s: s["value"].value(),
    "value.update": lambda s: s["value"].update(5),
    "value.clear": lambda s: s["value"].clear(),
    "object.value": lambda s: s["object"].value(),
    "object.update": lambda s: s["object"].update({"a": 1}),
    "list.add": lambda s: s["list"].add(5),
    "list.get": lambda s: list(s["list"].get()),
    "list.update": lambda s: s["list"].update([5]),
    "map.put": lambda s: s["map"].put(1, 5),
    "map.get": lambda s: s["map"].get(1),
    "map.items": lambda s: list(s["map"].items()),
    "map.contains": lambda s: s["map"].contains(1),
    "map.remove": lambda s: s["map"].remove(1),
    "map.is_empty": lambda s: s["map"].is_empty(),
    "reducing.add": lambda s: s["reducing"].add(5),
    "reducing.get": lambda s: s["reducing"].get(),
    "aggregating.add": lambda s: s["aggregating"].add(5),
    "aggregating.get": lambda s: s["aggregating"].get(),
    "living.value": lambda s: s["living"].value(),
    "living.update": lambda s: s["living"].update(5),
}


class Touches(KeyedProcessFunction):
    """Touches state of every kind in one of its calls, and ends with the last error that this brought."""

    def __init__(self, call):
        self.call = call

    def open(self, runtime_context):
        self.states = states_of(runtime_context)
        if self.call == "open":
            self.touch()

    def close(self):
        if self.call == "close":
            self.touch()

    def touch(self):
        last = None
        for name, touch in TOUCHES.items():
            try:
                touch(self.states)
            except NoCurrentKeyError as error:
                last = error
            else:
                raise AssertionError(f"{name} found a key")
        raise last

    def process_element(self, value, ctx):
        self.states["value"].update(value)
        yield value


def failure_of(tmp_path, stream, **settings):
    stream.print()
    graph = stream.get_execution_environment().generate_stream_graph()
    job = TestJob(tmp_path, restart=NO_RESTART, **settings)
    with pytest.raises(JobExecutionError) as raised:
        job.run_driver(graph)
    return raised.value.__cause__


def keyed(elements=(1, 2, 3)):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    return env.from_collection(list(elements), LONG).key_by(lambda value: value, key_type=LONG)


@pytest.mark.parametrize(("changelog", "backend"), [(True, "hashmap"), (False, "hashmap"), (True, "rocksdb")])
@pytest.mark.parametrize("call", ["open", "close"])
def test_case_48_every_touch_of_state_without_a_key(tmp_path, call, changelog, backend):
    stream = keyed().process(Touches(call)).name("counts")
    failure = failure_of(tmp_path, stream, changelog=changelog, state_backend=backend)
    assert isinstance(failure, NoCurrentKeyError), failure
    assert (failure.operator, failure.call) == ("counts", call)
    assert "process_element()" in str(failure)


class TimersInOpen(KeyedProcessFunction):
    """Keeps the context of an element for later."""

    context = None

    def __init__(self, late):
        self.late = late

    def process_element(self, value, ctx):
        self.context = ctx
        yield value

    def close(self):
        self.late(self.context)


@pytest.mark.parametrize(
    "late",
    [
        lambda ctx: ctx.get_current_key(),
        lambda ctx: ctx.timer_service().register_event_time_timer(5),
        lambda ctx: ctx.timer_service().register_processing_time_timer(5),
        lambda ctx: ctx.timer_service().delete_event_time_timer(5),
    ],
)
def test_case_48_timers_and_the_current_key(tmp_path, late):
    failure = failure_of(tmp_path, keyed().process(TimersInOpen(late)).name("counts"))
    assert isinstance(failure, NoCurrentKeyError)
    assert (failure.operator, failure.call) == ("counts", "close")


RULES = MapStateDescriptor("rules", LONG, LONG)


class TouchesOnTheBroadcastSide(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.states = states_of(runtime_context)

    def process_element(self, value, ctx):
        self.states["value"].update(value)
        yield value

    def process_broadcast_element(self, value, ctx):
        self.states["value"].update(value)


@pytest.mark.parametrize("elements", [[], [1, 2]])
def test_case_48_the_broadcast_side_has_no_key_before_and_after_elements(tmp_path, elements):
    stream = keyed(elements or [1])
    if not elements:
        stream = stream.filter(lambda value: False).key_by(lambda value: value, key_type=LONG)
    rules = stream.get_execution_environment().from_collection([9], LONG).broadcast(RULES)
    failure = failure_of(tmp_path, stream.connect(rules).process(TouchesOnTheBroadcastSide()).name("counts"))
    assert isinstance(failure, NoCurrentKeyError)
    assert (failure.operator, failure.call) == ("counts", "process_broadcast_element")


class AsksOnTheBroadcastSide(KeyedBroadcastProcessFunction):
    def __init__(self, ask):
        self.ask = ask

    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        self.ask(ctx)


@pytest.mark.parametrize(
    "ask",
    [
        lambda ctx: ctx.get_current_key(),
        lambda ctx: ctx.timer_service().register_event_time_timer(5),
        lambda ctx: ctx.timer_service().delete_processing_time_timer(5),
    ],
)
def test_case_48_the_broadcast_side_of_a_keyed_stream_is_not_told_to_key_it(tmp_path, ask):
    stream = keyed()
    rules = stream.get_execution_environment().from_collection([9], LONG).broadcast(RULES)
    failure = failure_of(tmp_path, stream.connect(rules).process(AsksOnTheBroadcastSide(ask)).name("counts"))
    assert type(failure) is NoCurrentKeyError
    assert (failure.operator, failure.call) == ("counts", "process_broadcast_element")


def test_case_48_a_thread_when_no_element_is_processed(tmp_path):
    """A thread of the user's meets no key once the elements that it was started in are done with."""

    class Threads(KeyedProcessFunction):
        def open(self, runtime_context):
            self.cell = runtime_context.get_state(ValueStateDescriptor("cell", LONG))
            self.errors = []

        def process_element(self, value, ctx):
            self.cell.update(value)
            yield value

        def touch(self):
            try:
                self.cell.update(99)
            except NoCurrentKeyError as error:
                self.errors.append(error)

        def close(self):
            thread = threading.Thread(target=self.touch)
            thread.start()
            thread.join()
            raise self.errors[0]

    failure = failure_of(tmp_path, keyed().process(Threads()).name("counts"))
    assert isinstance(failure, NoCurrentKeyError)
