"""Operators by themselves: output, state, timers and mutations of the engine's own operators."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from api.common import Time, Types
from api.datastream import (
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
)
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.errors import ConfigurationError, RestoreError, UserFunctionError
from changelog_engine.testing import KeyedCoHarness, KeyedHarness, Mutation, OperatorHarness

LATE = OutputTag("late", Types.STRING())


class Visits(KeyedProcessFunction):
    """Counts, keeps pages in a list and a map, and says goodbye 10 ms after an element."""

    count_type = Types.LONG()

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", self.count_type))
        self.pages = runtime_context.get_list_state(ListStateDescriptor("pages", Types.STRING()))
        self.by_page = runtime_context.get_map_state(
            MapStateDescriptor("by page", Types.STRING(), Types.LONG())
        )
        self.closed = False

    def process_element(self, value: tuple[str, str], ctx: Any) -> Any:
        user, page = value
        if page == "boom":
            raise ValueError("no such page")
        self.count.update((self.count.value() or 0) + 1)
        self.pages.add(page)
        self.by_page.put(page, (self.by_page.get(page) or 0) + 1)
        if ctx.timestamp() < ctx.timer_service().current_watermark():
            yield LATE, f"{user} is late"
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 5)
        yield user, self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.count.clear()
        yield "bye", ctx.get_current_key(), timestamp, ctx.time_domain().name

    def close(self) -> None:
        self.closed = True


def visits(function: Visits | None = None) -> KeyedHarness:
    return KeyedHarness(function or Visits(), lambda value: value[0], Types.STRING())


def test_output_state_timers_and_mutations_of_a_keyed_function() -> None:
    harness = visits()
    harness.set_processing_time(1000)
    harness.process_element(("ann", "/"), 100)
    harness.process_element(("bob", "/"), 101)
    harness.process_element(("ann", "/a"), 102)
    assert harness.output_with_timestamps == [(("ann", 1), 100), (("bob", 1), 101), (("ann", 2), 102)]
    assert harness.state("count") == {"ann": 2, "bob": 1}
    assert harness.state("pages") == {"ann": ["/", "/a"], "bob": ["/"]}
    assert harness.state("by page") == {"ann": {"/": 1, "/a": 1}, "bob": {"/": 1}}
    assert harness.event_time_timers == [(110, "ann"), (111, "bob"), (112, "ann")]
    assert harness.processing_time_timers == [(1005, "ann"), (1005, "bob")]
    assert [mutation for mutation in harness.mutations if mutation.key == "bob"] == [
        Mutation("(event time timers)", "bob", "register_timer", 111),
        Mutation("(processing time timers)", "bob", "register_timer", 1005),
        Mutation("count", "bob", "put", 1),
        Mutation("pages", "bob", "append", "/"),
        Mutation("by page", "bob", "put", 1, "/"),
    ]
    harness.clear()
    harness.process_watermark(110)
    harness.process_element(("bob", "/"), 50)
    assert harness.output == [("bye", "ann", 110, "EVENT_TIME"), ("bob", 2)]
    assert harness.side_output(LATE) == harness.side_output("late") == ["bob is late"]
    assert harness.side_output("other") == []
    assert harness.state("count") == {"bob": 2}
    assert harness.mutations[:2] == [
        Mutation("(event time timers)", "ann", "delete_timer", 110),
        Mutation("count", "ann", "clear"),
    ]
    harness.clear()
    harness.set_processing_time(1005)
    assert harness.output == [("bye", user, 1005, "PROCESSING_TIME") for user in ("ann", "bob")]


def test_a_snapshot_goes_into_another_harness() -> None:
    harness = visits()
    harness.set_processing_time(7)
    harness.process_element(("ann", "/"), 100)
    harness.process_element(("bob", "/"), 95)
    harness.process_watermark(106)
    snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
    harness.process_element(("ann", "/"), 120)
    again = visits()
    again.restore(snapshot)
    assert again.state("count") == {"ann": 1}
    assert again.state("pages") == {"ann": ["/"], "bob": ["/"]}
    assert again.event_time_timers == [(110, "ann")]
    again.process_element(("ann", "/x"), 105)
    assert again.output == [("ann", 2)]
    assert again.side_output(LATE) == ["ann is late"]
    harness.restore(snapshot)
    assert harness.state("count") == {"ann": 1}


def test_a_pickled_snapshot_describes_states_as_rows_do() -> None:
    """Other versions of the engine read it, too: it has none of the engine's own types of descriptions."""
    keyed = visits()
    keyed.process_element(("ann", "/"), 100)
    pickled = pickle.dumps(keyed.snapshot())
    assert b"Described" not in pickled
    assert pickle.loads(pickled).described == keyed.snapshot().described


def test_a_state_of_another_type_is_refused_at_restore() -> None:
    harness = visits()
    harness.process_element(("ann", "/"), 100)
    other = Visits()
    other.count_type = Types.STRING()
    with pytest.raises(RestoreError, match=r"'count'.*LONG"):
        visits(other).restore(harness.snapshot())


def test_failures_name_operator_key_and_cause() -> None:
    harness = visits()
    with pytest.raises(UserFunctionError, match=r"(?s)key 'ann'.*no such page"):
        harness.process_element(("ann", "boom"), 1)
    harness.process_element(("ann", "/"), 1)  # the harness goes on
    assert harness.output == [("ann", 1)]
    with pytest.raises(ConfigurationError, match="declared no state 'cuont'; it has by page, count, pages"):
        harness.state("cuont")
    with pytest.raises(ConfigurationError, match="there is no input 2"):
        harness.process_element(("ann", "/"), 1, input=2)
    with pytest.raises(ConfigurationError, match=r"got the class Visits; write Visits\(\)"):
        KeyedHarness(Visits, str)
    with pytest.raises(ConfigurationError, match="process_element"):
        KeyedHarness(len, len)
    with pytest.raises(ConfigurationError, match="key_selector"):
        KeyedHarness(Visits(), "user")


def test_the_function_is_closed() -> None:
    function = Visits()
    with visits(function):
        assert not function.closed
    assert function.closed


class Join(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.STRING()))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.left.update(value[1])

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value[1], self.left.value(), ctx.timer_service().current_watermark()


def test_two_inputs_with_watermarks_of_their_own() -> None:
    harness = KeyedCoHarness(Join(), lambda value: value[0], lambda value: value[0], Types.INT())
    harness.process_element1((1, "left"), 5)
    harness.process_watermark(100, input=1)
    harness.process_element2((1, "right"))
    harness.process_watermark(50, input=2)
    harness.process_element2((2, "alone"))
    assert harness.output == [("right", "left", -(2**63)), ("alone", None, 50)]
    assert harness.mutations == [Mutation("left", 1, "put", "left")]


class Rules(BroadcastProcessFunction):
    descriptor = MapStateDescriptor("rules", Types.STRING(), Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.get_broadcast_state(self.descriptor).get(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(self.descriptor).put(*value)


def test_operators_of_a_program_broadcast_and_windows() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(3)
    rules = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    names = env.from_collection(["a"], Types.STRING())
    names.connect(rules.broadcast(Rules.descriptor)).process(Rules()).name("rules").print()
    window = names.key_by(lambda name: name[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    window.reduce(lambda one, two: one + two).uid("joined").print()
    graph = env.generate_stream_graph()

    with OperatorHarness(graph, "rules") as harness:
        harness.process_element("a")
        harness.process_element(("a", 7), input=2)
        harness.process_element("a")
        assert harness.output == [("a", None), ("a", 7)]
        other = OperatorHarness(graph, "rules")
        other.restore(pickle.loads(pickle.dumps(harness.snapshot())))
        other.process_element("a")
        assert other.output == [("a", 7)]

    windows = OperatorHarness(graph, "joined")
    windows.process_element("a1", 3)
    windows.process_element("a2", 9)
    windows.process_element("a3", 12)
    windows.process_watermark(9)
    assert windows.output_with_timestamps == [("a1a2", 9)]
    assert {(m.key, m.namespace) for m in windows.mutations} >= {("a", "[0,10]"), ("a", "[10,20]")}
    with pytest.raises(ConfigurationError, match=r"no operator has the uid or name 'nobody'.*'joined'"):
        OperatorHarness(graph, "nobody")


class Fleeting(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last", Types.STRING())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.last.value()
        self.last.update(value)


def test_time_to_live_follows_the_clock_of_the_harness() -> None:
    harness = KeyedHarness(Fleeting(), lambda value: 0)
    harness.process_element("a")
    harness.process_element("b")
    harness.set_processing_time(20)
    harness.process_element("c")
    assert harness.output == [None, "a", None]
    assert harness.state("last") == {0: "c"}
    assert harness.mutations[0] == Mutation("last", 0, "put", "a")


def test_importing_the_tools_imports_neither_spark_nor_pytest() -> None:
    code = (
        "import changelog_engine.testing, sys; print([m for m in ('pyspark', 'pytest') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_errors_of_python_name_the_state_as_the_api_does() -> None:
    class Misspelt(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.count.get()

    refused = pytest.raises(UserFunctionError, match="'ValueState' object has no attribute 'get'")
    with KeyedHarness(Misspelt(), lambda word: word, Types.STRING()) as harness, refused:
        harness.process_element("a", 1)
