"""Mistakes that newcomers make, and that would pass in silence or be told of without the program's line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from api.common import Row, Time, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import (
    AllWindowedStream,
    AllWindowFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowedStream,
)
from api.datastream._elsewhere import OF_ENVIRONMENTS, OF_STREAMS, OF_WINDOWS
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from api.datastream.window import TumblingProcessingTimeWindows
from changelog_engine.errors import ArgumentTypeError, JobExecutionError
from changelog_engine.graph import subtask_warnings
from changelog_engine.state import timer_table
from changelog_engine.testing import without_spark

HERE = r"\(.*/test_usual_mistakes\.py, line \d+\)"


@pytest.fixture
def stream() -> Any:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env.from_collection([("a", 1), ("a", 2)])


def forgets(value: Any) -> Any:
    str(value)


def forgets_at_times(value: Any) -> Any:
    if value:
        return value
    return None


def refuses(value: Any) -> Any:
    raise ValueError(value)


class Forgets(MapFunction):
    def map(self, value: Any) -> Any:
        str(value)


class ForgetsKey(KeySelector):
    def get_key(self, value: Any) -> Any:
        str(value)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (
            lambda stream: stream.map(forgets),
            "DataStream.map: forgets() has no 'return' with a value, so each element",
        ),
        (lambda stream: stream.map(Forgets()), "DataStream.map: Forgets.map() has no 'return' with a value"),
        (lambda stream: stream.filter(forgets), "so no element is kept"),
        (lambda stream: stream.key_by(forgets), "so all elements have the key None"),
        (lambda stream: stream.key_by(ForgetsKey()), "ForgetsKey.get_key() has no 'return'"),
    ],
)
def test_a_function_that_returns_nothing_is_told(
    stream: Any, caplog: Any, build: Callable[[Any], Any], says: str
) -> None:
    build(stream)
    assert says in caplog.text
    assert "test_usual_mistakes.py, line" in caplog.text


def test_functions_that_may_return_something_are_not_told_of(stream: Any, caplog: Any) -> None:
    for function in (forgets_at_times, refuses, str, print, lambda value: None):
        stream.map(function).filter(function).key_by(function)
    stream.flat_map(forgets)
    assert not caplog.records


class OpensAlone(MapFunction):
    def open(self) -> None: ...  # type: ignore[override]

    def map(self, value: Any) -> Any:
        return value


class FiresAlone(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def on_timer(self, timestamp: Any) -> Any: ...  # type: ignore[override]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (
            lambda stream: stream.map(lambda a, b: a),
            r"map: the function takes \(a, b\), and is called with \(value\)",
        ),
        (
            lambda stream: stream.key_by(lambda: 1),
            r"key_by: the function takes \(\), and is called with \(value\)",
        ),
        (
            lambda stream: stream.key_by(str).reduce(lambda a: a),
            r"takes \(a\), and is called with \(value1, value2\)",
        ),
        (
            lambda stream: stream.map(OpensAlone()),
            r"map: open of OpensAlone takes \(\).*, and is called with \(runtime_context\): too many positional arguments$",
        ),
        (
            lambda stream: stream.key_by(str).process(FiresAlone()),
            r"on_timer of FiresAlone takes .*, and is called with \(timestamp, ctx\): .* no collector is passed$",
        ),
        (
            lambda stream: stream.key_by(str).connect(stream.broadcast()).process(Limits()),
            r"needs a CoProcessFunction, got Limits: it goes with connect\(stream\.broadcast\(descriptor\)\), where",
        ),
        (lambda stream: stream.map(str, str), r"got the class str; write Types\.STRING\(\)$"),
        (lambda stream: stream.map(str, Forgets), r"got the class Forgets$"),
        (lambda stream: ValueStateDescriptor("n", int), r"got the class int; write Types\.LONG\(\)$"),
        (lambda stream: Types.LIST(float), r"got the class float; write Types\.DOUBLE\(\)$"),
    ],
)
def test_what_cannot_work_is_refused_at_once(stream: Any, build: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(ArgumentTypeError, match=says):
        build(stream)


def test_the_columns_of_a_data_frame_are_not_its_rows() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ArgumentTypeError, match=r"itertuples\(index=False, name=None\)"):
        env.from_collection(frame)
    with without_spark():
        rows = list(env.from_collection(list(frame.itertuples(index=False, name=None))).execute_and_collect())
    assert rows == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("given", "word"),
    [("ab", "characters"), (b"ab", "bytes"), ({"a": 1}, "keys, without"), ([("a", 1)], None)],
)
def test_a_collection_that_gives_its_parts_is_told(caplog: Any, given: Any, word: str | None) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(given)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (word is not None)
    assert all(word in each and "test_usual_mistakes.py, line" in each for each in told)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (list, "execute_and_collect"),
        (len, "execute_and_collect"),
        (next, "execute_and_collect"),
        (lambda stream: stream[0], "execute_and_collect"),
        (lambda stream: 1 in stream, "execute_and_collect"),
        (lambda stream: np.sum(stream), "execute_and_collect"),
        (lambda stream: np.int64(1) + stream, "execute_and_collect"),
        (lambda stream: pd.Series(stream), "execute_and_collect"),
        (lambda stream: pd.DataFrame(stream), "execute_and_collect"),
        (lambda stream: stream.get_execution_environment().from_collection(stream), "execute_and_collect"),
        (lambda stream: list(stream.key_by(str).count_window(2)), "execute_and_collect"),
        (lambda stream: len(stream.connect(stream)), "execute_and_collect"),
        (lambda stream: list(stream.map(str).print()), "execute_and_collect"),
        (lambda stream: stream > 1, r"map\(\) and filter"),
        (lambda stream: 1 + stream, r"map\(\) and filter"),
        (lambda stream: stream + stream, r"union\(\)"),
        (lambda stream: stream | stream, r"union\(\)"),
    ],
)
def test_a_stream_that_is_taken_for_a_collection_leads_on(
    stream: Any, use: Callable[[Any], Any], says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        use(stream)


def test_what_asks_a_stream_for_no_elements_is_as_in_pyflink(stream: Any) -> None:
    assert stream
    assert stream != 1
    assert [1, stream].index(stream) == 1
    assert {stream}


class AsksTooEarly(MapFunction):
    def __init__(self) -> None:
        self.context = self.get_runtime_context()

    def map(self, value: Any) -> Any:
        return value


class Mixin:
    def get_runtime_context(self) -> str:
        return "its own"


class Mixed(MapFunction, Mixin):
    def map(self, value: Any) -> Any:
        return self.get_runtime_context()


def test_a_function_s_runtime_context_is_said_to_come_in_open() -> None:
    with pytest.raises(AttributeError, match=r"'AsksTooEarly' object .* gets its RuntimeContext in open\("):
        AsksTooEarly()
    assert not hasattr(Forgets(), "get_runtime_context")
    assert Mixed().map(1) == "its own"


class Sums(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        str(value1)


class Remembers(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.seen.append(value[0])


class Limits(KeyedBroadcastProcessFunction):
    limits = MapStateDescriptor("limits", Types.STRING(), Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(self.limits).put("limit", 1)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(self.limits).put("limit", value)


def limited(stream: Any) -> Any:
    limits = stream.get_execution_environment().from_collection([5]).broadcast(Limits.limits)
    return stream.key_by(lambda value: value[0]).connect(limits).process(Limits())


class AsksForAnother(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(MapStateDescriptor("limits", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class TouchesInOpen(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.count.update(0)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (
            lambda stream: stream.key_by(lambda value: value[0]).reduce(Sums()),
            rf"reduce of operator 'Reduce' {HERE}, key 'a', element \('a', 2\) returned None; it must return what the two "
            r"values are together$",
        ),
        (
            lambda stream: (
                stream.map(lambda value: value[1], Types.LONG())
                .key_by(lambda value: 1)
                .reduce(lambda a, b: "x")
            ),
            r"Declare the type that the values have in the stream that is reduced, or in the descriptor of a state of",
        ),
        (
            lambda stream: stream.key_by(lambda value: value[0]).process(AsksForAnother()),
            r"get_state needs the descriptor of a value state, got a MapStateDescriptor, which get_map_state takes\n",
        ),
        (
            lambda stream: stream.key_by(lambda value: value[0]).process(TouchesInOpen()),
            r"(?s)touched in open of operator .*\n  in .*test_usual_mistakes\.py, line \d+: self\.count\.update\(0\)$",
        ),
        (
            lambda stream: stream.map(lambda value: (value[0], None)).key_by(lambda value: value[0]).max(1),
            rf"reduce of operator 'Reduce' {HERE}, key 'a', .* raised TypeError",
        ),
        (
            lambda stream: stream.key_by(lambda value: value[0]).process(Remembers()),
            r"has no attribute 'append'\nIt has get\(\), update\(\), add\(\), add_all\(\), clear\(\)$",
        ),
        (
            limited,
            r"\nIt has get\(\), .*\. Broadcast state is changed in process_broadcast_element\(\) alone$",
        ),
    ],
)
def test_the_program_s_line_is_told(stream: Any, build: Callable[[Any], Any], says: str) -> None:
    build(stream).print()
    env = stream.get_execution_environment()
    with without_spark(), pytest.raises(JobExecutionError, match=says):
        env.execute("told")


class Assigner(TimestampAssigner):
    def __init__(self, unit: int) -> None:
        self.unit = unit

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 1_767_960_000 * self.unit + value[1]


class Timer(KeyedProcessFunction):
    def __init__(self, time: int) -> None:
        self.time = time

    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(self.time)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


class Misspelt(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(10)

    def onTimer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp


def warnings(stream: Any, caplog: Any) -> list[str]:
    stream.print()
    with without_spark():
        stream.get_execution_environment().execute("warned")
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def timed(stream: Any, unit: int) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assigner(unit))
    return stream.assign_timestamps_and_watermarks(strategy)


@pytest.mark.parametrize(("unit", "name"), [(1, "seconds"), (10**6, "microseconds"), (10**9, "nanoseconds")])
def test_timestamps_in_another_unit_are_told_once(stream: Any, caplog: Any, unit: int, name: str) -> None:
    (told,) = warnings(timed(stream, unit), caplog)
    assert f"which seems to be {name}: a timestamp is milliseconds since 1970" in told


def test_a_timer_in_seconds_is_told_once(stream: Any, caplog: Any) -> None:
    (told,) = warnings(stream.key_by(lambda value: value[1]).process(Timer(1_767_960_000)), caplog)
    assert "processing time for 1767960000, which seems to be seconds, and fires at once" in told


@pytest.mark.parametrize(
    ("build", "operator"),
    [
        (lambda keyed: keyed.process(Timer(1_767_960_000_000_000)), "KeyedProcess"),
        (
            lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(Time.days(10_000))).reduce(max),
            "TumblingProcessingTimeWindows",
        ),
    ],
)
def test_timers_that_the_end_of_the_input_drops_are_told_once_a_job(
    stream: Any, caplog: Any, build: Any, operator: str
) -> None:
    """A job that prints nothing looked like one that works."""
    stream.get_execution_environment().set_parallelism(2)
    (told,) = warnings(build(stream.key_by(lambda value: value[1])), caplog)
    assert f"timers of processing time are still set in '{operator}', the first for " in told


def test_a_timer_that_nobody_takes_is_told_once(stream: Any, caplog: Any) -> None:
    (told,) = warnings(stream.key_by(lambda value: value[1]).process(Misspelt()), caplog)
    assert told.endswith("fired for nothing: Misspelt has no on_timer(timestamp, ctx)")


class Again(KeyedProcessFunction):
    """Each timer sets the next one, until a time."""

    def __init__(self, last: int) -> None:
        self.last = last

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        if timestamp < self.last:
            ctx.timer_service().register_event_time_timer(timestamp + 1)


def test_timers_that_set_themselves_anew_after_the_input_has_ended_are_told_once(
    stream: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``last`` the job would not end, and said nothing."""
    monkeypatch.setattr(timer_table, "_MANY", 50)
    keyed = stream.key_by(lambda value: value[1])  # two keys
    assert warnings(keyed.process(Again(120)), caplog) == []
    (told,) = warnings(keyed.process(Again(400)), caplog)
    assert told.startswith("operator 'KeyedProcess' fires timers that were set while others fired")
    assert "the last for 1970-01-01 00:00:00.126" in told
    assert "The input has ended" in told


def test_what_each_subtask_warns_of_is_told_once_with_their_number(stream: Any, caplog: Any) -> None:
    stream.get_execution_environment().set_parallelism(2)
    told = warnings(stream.key_by(lambda value: value[1]).process(Misspelt()), caplog)
    says = "a timer of operator 'KeyedProcess' fired for nothing: Misspelt has no on_timer(timestamp, ctx)"
    assert told == [f"{says} (so in 2 subtasks)"]


def test_warnings_of_an_epoch_that_fails_are_not_lost(caplog: Any) -> None:
    def fails() -> None:
        with subtask_warnings.collected():
            subtask_warnings.warn("this", "see %s", "this")
            assert not caplog.messages
            raise ValueError("the end")

    with pytest.raises(ValueError, match="the end"):
        fails()
    subtask_warnings.warn("that", "and %s", "that")
    assert caplog.messages == ["see this", "and that"]


class Late(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield OutputTag("late", Types.LONG()), value[1]
        yield value


@pytest.mark.parametrize(
    ("read", "hint"),
    [((), ""), (("Late",), "; did you mean 'Late'?"), (("early",), ""), (("late", "Late"), None)],
)
def test_elements_for_a_tag_that_nobody_reads_are_told_once(
    stream: Any, caplog: Any, read: tuple[str, ...], hint: str | None
) -> None:
    given = stream.key_by(lambda value: value[1]).process(Late())
    for tag in read:
        given.get_side_output(OutputTag(tag, Types.LONG())).print()
    says = r"operator 'KeyedProcess' gives elements for the tag 'late', and nobody reads it, so they go nowhere: "
    wanted = [] if hint is None else [f"{says}get_side_output(OutputTag('late')) reads them{hint}"]
    assert warnings(given, caplog) == wanted


class Returns(KeyedProcessFunction):
    def __init__(self, result: Any) -> None:
        self.result = result

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.result


class ReturnsOfTimers(Returns):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.result


class ReturnsOfWindows(AllWindowFunction):
    def apply(self, window: Any, inputs: Any) -> Any:
        return "ab"


@pytest.mark.parametrize(
    "build",
    [
        lambda stream: stream.process(Returns("ab")),
        lambda stream: timed(stream, 1000).process(Returns("ab")),
        lambda stream: stream.key_by(lambda value: value[1]).process(Returns(("a", 1))),
        lambda stream: timed(stream, 1000).key_by(lambda value: value[1]).process(Returns({"a": 1})),
        lambda stream: stream.key_by(lambda value: value[1]).process(Returns(Row("a", 1))),
        lambda stream: stream.process(Returns((OutputTag("late"), 1))),
        lambda stream: stream.key_by(lambda value: value[1]).process(ReturnsOfTimers("ab")),
        lambda stream: stream.count_window_all(1).apply(ReturnsOfWindows()),
    ],
)
def test_one_element_that_is_returned_is_told_once(stream: Any, caplog: Any, build: Any) -> None:
    (told,) = warnings(build(stream), caplog)
    assert "returned" in told
    assert "becomes an element, as in Flink: yield it if it is one element, or return a list" in told


@pytest.mark.parametrize("result", [None, (), "", ["ab"], ("ab",), (("a", 1), ("b", 2)), {"ab"}, range(2)])
def test_several_elements_may_be_returned(stream: Any, caplog: Any, result: Any) -> None:
    assert warnings(stream.key_by(lambda value: value[1]).process(Returns(result)), caplog) == []


def test_times_in_milliseconds_are_not_told_of(stream: Any, caplog: Any) -> None:
    keyed = timed(stream, 1000).key_by(lambda value: value[1])
    assert warnings(keyed.process(Timer(Time.seconds(5).to_milliseconds())), caplog) == []


@pytest.mark.parametrize(
    ("given", "name", "says"),
    [
        (lambda stream: stream, "groupBy", "key_by"),
        (lambda stream: stream, "collect", "execute_and_collect"),
        (lambda stream: stream, "foreachBatch", "add_sink"),
        (lambda stream: stream, "sum", "call key_by"),
        (lambda stream: stream.key_by(str), "count", "KeyedProcessFunction"),
        (lambda stream: stream.key_by(str).count_window(2), "sum", "reduce"),
        (lambda stream: stream.count_window_all(2), "map", "make results of the windows first"),
        (lambda stream: stream.get_execution_environment(), "from_kafka", "docs/connectors/kafka.md"),
        (lambda stream: stream.get_execution_environment(), "readStream", "docs/connectors/files.md"),
    ],
)
def test_names_that_people_know_from_elsewhere_lead_on(
    stream: Any, given: Callable[[Any], Any], name: str, says: str
) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; .*{says}"):
        getattr(given(stream), name)


def test_what_a_class_has_is_not_said_to_be_elsewhere() -> None:
    given = {DataStream: OF_STREAMS, WindowedStream: OF_WINDOWS, AllWindowedStream: OF_WINDOWS}
    for owner, names in {**given, StreamExecutionEnvironment: OF_ENVIRONMENTS}.items():
        assert not [name for name in names if hasattr(owner, name)], owner
