"""What the engine refuses in the middle of a function names the function, the operator and the line."""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from api.common import Time, Types, WatermarkStrategy
from api.datastream import KeyedProcessFunction, StateTtlConfig, StreamExecutionEnvironment
from api.datastream.connectors.file_system import FileSource, StreamFormat
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from changelog_engine.connectors import DiscoveringSource, Split, SplitReader
from changelog_engine.errors import JobExecutionError, UserFunctionError
from changelog_engine.testing import KeyedHarness, without_spark


class Refused(KeyedProcessFunction):
    def __init__(self, call: str) -> None:
        self.call = call

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.call == "timer":
            ctx.timer_service().register_event_time_timer("soon")  # the line
        self.count.update("five")  # another line


@pytest.mark.parametrize(
    ("call", "says", "line"),
    [
        ("timer", "a timer's timestamp is a 64-bit int in milliseconds, not 'soon'", "# the line"),
        ("state", "value is declared LONG but got 'five' of type str", "# another line"),
    ],
)
def test_an_error_of_the_engine_in_a_function_tells_its_line(call: str, says: str, line: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(["a"], Types.STRING()).key_by(lambda value: value)
    stream.process(Refused(call)).uid("count").print()
    with without_spark(), pytest.raises(JobExecutionError) as failed:
        env.execute("refused")
    message, _, place = str(failed.value).rpartition("\n")
    number, code = next(
        (number, text.strip())
        for number, text in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1)
        if text.endswith(line)
    )
    assert says in message
    assert place == f"  in process_element of operator 'count', {__file__}, line {number}: {code}"


class Within(KeyedProcessFunction):
    """The engine refuses a value in a call of Python's library."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.callback(self.count.update, "five")  # called by contextlib


def test_a_line_of_pythons_library_is_not_the_programs() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(["a"], Types.STRING()).key_by(lambda value: value).process(Within()).uid(
        "count"
    ).print()
    with without_spark(), pytest.raises(JobExecutionError) as failed:
        env.execute("refused")
    place = str(failed.value).rpartition("\n")[2]
    assert place.startswith(f"  in process_element of operator 'count', {__file__}, line ")


class Searches(DiscoveringSource):
    """Its splits are found while the job runs, or not."""

    discovery_interval_ms = 0

    def splits(self, parallelism: int) -> list[Split]:
        return []

    def discover(self, known: Any) -> list[Split]:
        raise LookupError("no such shelf")

    def reader(self, split: Split) -> SplitReader:
        raise NotImplementedError


MISSING = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/no/such/folder")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            MISSING.process_static_file_set().build(),
            "/no/such/folder does not exist\n  in looking for the splits of operator 'shelf'{place}",
        ),
        (
            Searches(),
            "looking for new splits of operator 'shelf' raised LookupError: no such shelf\n",
        ),
    ],
)
def test_a_source_that_finds_no_splits_tells_the_line_that_asked_for_it(source: Any, said: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    env.from_source(source, WatermarkStrategy.no_watermarks(), "shelf").uid("shelf").print()
    with without_spark(), pytest.raises(JobExecutionError) as failed:
        env.execute("refused")
    assert said.format(place=f" ({__file__}, line {line})") in str(failed.value)


class Assigns(KeyedProcessFunction):
    def __init__(self, ttl: bool, name: str, method: str) -> None:
        self.ttl, self.name, self.method = ttl, name, method

    def open(self, runtime_context: Any) -> None:
        descriptors: dict[str, Any] = {
            "state": ValueStateDescriptor("s", Types.LONG()),
            "list_state": ListStateDescriptor("l", Types.LONG()),
            "map_state": MapStateDescriptor("m", Types.STRING(), Types.LONG()),
            "reducing_state": ReducingStateDescriptor("r", max, Types.LONG()),
        }
        descriptor = descriptors[self.name]
        if self.ttl:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.handle = getattr(runtime_context, f"get_{self.name}")(descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        setattr(self.handle, self.method, 5)


@pytest.mark.parametrize("ttl", [False, True])
@pytest.mark.parametrize(
    ("name", "method"),
    [("state", "value"), ("list_state", "get"), ("map_state", "other"), ("reducing_state", "add")],
)
def test_nothing_can_be_assigned_to_a_state(name: str, method: str, ttl: bool) -> None:
    """It hid the method, and changed no state."""
    refused = pytest.raises(UserFunctionError, match=f"'{method}' of a state cannot be assigned")
    with KeyedHarness(Assigns(ttl, name, method), lambda value: value, Types.STRING()) as harness, refused:
        harness.process_element("a", 1)
