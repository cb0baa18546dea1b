"""Bad input that needs no Spark: each is a clear error that names operator, state, key or file, and nothing is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.functions import Count, counted
from support.graphs import GraphBuilder, keyed_job
from support.jobs import NO_RESTART, TestJob
from support.script import Script

import changelog_engine
from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction, ProcessFunction
from api.datastream.state import MapStateDescriptor, ValueStateDescriptor
from changelog_engine.changelog.model import FORMAT_VERSION
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.driver.journal import JobJournal
from changelog_engine.errors import (
    ForeignPathError,
    FormatVersionError,
    JobExecutionError,
    NotSerializableError,
    TypeMismatchError,
    UserFunctionError,
)
from changelog_engine.graph.nodes import JobSettings, NodeKind
from changelog_engine.graph.plan import plan_job
from changelog_engine.ledger.job_folder import FORMAT_PROPERTY, JOB_PROPERTY, find_job_folder
from changelog_engine.spark.shipping import ship
from changelog_engine.storage.delta_log import DeltaLog


def failure_of(tmp_path: Path, graph: Any, **settings: Any) -> JobExecutionError:
    job = TestJob(tmp_path, Script(sizes=(2,)), restart=NO_RESTART, **settings)
    with pytest.raises(JobExecutionError) as raised:
        job.run_driver(graph)
    return raised.value


class StatefulWithoutKey(ProcessFunction):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("visits", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value


class TimerWithoutKey(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (StatefulWithoutKey(), ("'counts'", "'visits'", "key_by")),
        (TimerWithoutKey(), ("'counts'", "timer", "key_by")),
    ],
)
def test_keyed_state_on_a_stream_that_is_not_keyed(
    tmp_path: Path, function: Any, words: tuple[str, ...]
) -> None:
    build = GraphBuilder()
    build.collect(build.process(build.source([1]), function, name="counts"))
    message = str(failure_of(tmp_path, build.graph()))
    for word in words:
        assert word in message


@pytest.mark.parametrize("parallelism", [1, 2])
def test_wrong_key_type(tmp_path: Path, parallelism: int) -> None:
    failure = failure_of(
        tmp_path, keyed_job([("a", 1)], Count(), key_type=Types.LONG(), parallelism=parallelism)
    )
    assert "'key'" in str(failure)
    assert "'a'" in str(failure)
    assert "LONG" in str(failure)


class WrongValue(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.cell = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("by day", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        if value[1] == "cell":
            self.cell.update("many")
        elif value[1] == "map key":
            self.map.put(7, 1)
        else:
            self.map.put("monday", "many")


@pytest.mark.parametrize(
    ("what", "state"), [("cell", "total"), ("map key", "by day"), ("map value", "by day")]
)
def test_wrong_value_type_names_operator_state_and_key(tmp_path: Path, what: str, state: str) -> None:
    failure = failure_of(
        tmp_path, keyed_job([("anna", what)], WrongValue(), key_type=Types.STRING(), uid="sums")
    )
    message = str(failure)
    for word in (f"'{state}'", "'sums'", "'anna'"):
        assert word in message
    assert isinstance(failure.__cause__, TypeMismatchError)


def test_wrong_output_type_names_the_operator(tmp_path: Path) -> None:
    graph = keyed_job([("a", 1)], Count(), output_type=Types.STRING())
    message = str(failure_of(tmp_path, graph))
    assert "'process'" in message
    assert "STRING" in message
    assert "output_type" in message


class Locked(KeyedProcessFunction):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def process_element(self, value: Any, ctx: Any) -> None: ...


def test_a_function_that_cannot_be_shipped_names_its_operator() -> None:
    build = GraphBuilder()
    keyed = build.key_by(build.source([(1, 1)]), lambda element: element[0])
    build.collect(build.process(keyed, Locked(), name="my counts"))
    with pytest.raises(NotSerializableError, match=r"'my counts' \(process\).*lock.*open\(\)"):
        ship("run", plan_job(build.graph()), JobSettings(), None)


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "precious.txt").write_text("mine")
    with pytest.raises(ForeignPathError, match=r"precious\.txt.*left alone"):
        JobJournal.open(str(tmp_path), "job")
    assert os.listdir(tmp_path / "job") == ["precious.txt"]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    newer = FORMAT_VERSION + 1
    table = find_job_folder(str(tmp_path), "job").changelog
    DeltaLog.create(table, SCHEMA, {FORMAT_PROPERTY: str(newer), JOB_PROPERTY: "job"})
    with pytest.raises(FormatVersionError, match=f"format {newer}.*up to {FORMAT_VERSION}"):
        TestJob(tmp_path).run_driver(keyed_job([(1, 1)], Count()))


class Fails(KeyedProcessFunction):
    """Raises for key 'bad', two calls deep."""

    def __init__(self, where: str = "process_element") -> None:
        self.where = where

    def open(self, runtime_context: Any) -> None:
        if self.where == "open":
            self.divide(0)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if self.where == "process_element" and value[0] == "bad":
            self.divide(value[1])
        ctx.timer_service().register_event_time_timer(value[1])
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        if self.where == "on_timer" and ctx.get_current_key() == "bad":
            self.divide(0)

    def divide(self, number: int) -> float:
        return 1 / number  # the line that a user wants to see


ENGINE = os.path.dirname(changelog_engine.__file__)


@pytest.mark.parametrize("where", ["open", "process_element", "on_timer"])
def test_a_function_that_raises_has_operator_key_and_the_users_own_traceback(
    tmp_path: Path, where: str
) -> None:
    elements = [("good", 1), ("good", 2), ("bad", 0), ("good", 3)]
    graph = keyed_job(elements, Fails(where), key_type=Types.STRING(), timestamp=lambda element: element[1])
    failure = failure_of(tmp_path, graph)
    message = str(failure)
    assert isinstance(failure.__cause__, UserFunctionError)
    assert f"{where} of operator 'process'" in message
    assert where == "open" or "key 'bad'" in message
    assert "ZeroDivisionError: division by zero" in message
    assert "1 / number  # the line that a user wants to see" in message
    assert "test_bad_input.py" in message
    assert ENGINE not in message
    frames = [line for line in message.splitlines() if line.strip().startswith("File ")]
    assert len(frames) == 2


def test_nothing_is_lost_when_a_function_raises(tmp_path: Path) -> None:
    """What was acknowledged stays, and a repaired job goes on from there."""
    elements = [("good", number) for number in range(5)]
    job = TestJob(tmp_path, Script(sizes=(2,)), restart=NO_RESTART)

    with pytest.raises(JobExecutionError, match="not yet"):
        job.run_driver(keyed_job(elements, Repairable(repaired=False)))
    assert job.output == counted(elements)[:4]
    job.run_driver(keyed_job(elements, Repairable(repaired=True)))
    assert job.output == counted(elements)


class Repairable(Count):
    """Counts, and stumbles over the element 4 until it is repaired."""

    def __init__(self, repaired: bool) -> None:
        self.repaired = repaired

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[1] == 4 and not self.repaired:
            raise ValueError("not yet")
        yield from super().process_element(value, ctx)


@pytest.mark.parametrize(
    ("kind", "method"), [(NodeKind.MAP, "map"), (NodeKind.FLAT_MAP, "flat_map"), (NodeKind.FILTER, "filter")]
)
@pytest.mark.parametrize("keyed", [True, False])
def test_other_functions_that_raise(tmp_path: Path, kind: NodeKind, method: str, keyed: bool) -> None:
    class Broken:
        def call(self, value: Any) -> Any:
            raise KeyError(value)

        map = flat_map = filter = call

    build = GraphBuilder()
    stream = build.source(["x"])
    if keyed:
        stream = build.key_by(stream, lambda value: value)
    build.collect(build.add(kind, "broken one", stream, function=Broken()))
    message = str(failure_of(tmp_path, build.graph()))
    assert f"{method} of operator 'broken one'" in message
    assert "raise KeyError(value)" in message
    assert ENGINE not in message
    assert ("key 'x'" in message) == keyed


def test_a_key_selector_that_raises(tmp_path: Path) -> None:
    message = str(failure_of(tmp_path, keyed_job([("a", 1)], Count(), key=lambda element: element[5])))
    assert "key selector of operator 'key'" in message
    assert "IndexError" in message
    assert ENGINE not in message


@pytest.mark.parametrize("result", [None, 5])
def test_flat_map_must_return_an_iterable(tmp_path: Path, result: Any) -> None:
    class Flat:
        def flat_map(self, value: Any) -> Any:
            return result

    build = GraphBuilder()
    build.collect(build.add(NodeKind.FLAT_MAP, "flat", build.source([1]), function=Flat()))
    message = str(failure_of(tmp_path, build.graph()))
    assert "'flat'" in message
    assert "iterable" in message
