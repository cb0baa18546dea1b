"""What the engine refuses in the middle of a function names the function, the operator and the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api.common import Time, Types
from api.datastream import KeyedProcessFunction, StateTtlConfig, StreamExecutionEnvironment
from api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
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
