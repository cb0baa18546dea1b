"""Random programs of requests for another parallelism while a job runs, with failures in between.

Whatever they are, the job's output, its final state and what its committing sink shows are those of a run without any.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.functions import rounds
from support.graphs import GraphBuilder
from support.rescaled import RescaledJob
from support.script import Failure, Fault, Script
from support.window_jobs import Texts, spec

from api.common import Time
from api.common.typeinfo import Types
from api.datastream import KeyedBroadcastProcessFunction, KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.connectors import NumberSequenceSource
from changelog_engine.driver.rescaling import Rescaled
from changelog_engine.errors import ConfigurationError, JobExecutionError
from changelog_engine.graph.nodes import BroadcastSpec, JobGraph, NodeKind, Partitioner, PartitionSpec
from materializer.fold import state_at

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "connectors"))
from folder_sink import FolderSink

ELEMENTS = [(key, number) for key, number in rounds(7, 84)]
NUMBERS = 60
LIMIT = 8
RULES = MapStateDescriptor("rules", Types.LONG(), Types.STRING())


class Everything(KeyedProcessFunction):
    """Value, list and map, and timers of both kinds for every third element."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.last = runtime_context.get_map_state(MapStateDescriptor("last", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, number = value
        self.sum.update((self.sum.value() or 0) + number)
        self.all.add(number)
        self.last.put(number % 3, number)
        if number % 3 == 0:
            ctx.timer_service().register_event_time_timer(number + 30)
            ctx.timer_service().register_processing_time_timer(number)
        yield key, number, self.sum.value(), list(self.all.get()), sorted(self.last.items())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp


class Ruled(KeyedBroadcastProcessFunction):
    """Each element with its rule, which all subtasks have, and how many of its key there were."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        yield value[0], value[1], ctx.get_broadcast_state(RULES).get(value[0] % 2), self.seen.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(*value)


class Same(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield str(value)


def program(out: str, parallelism: int) -> JobGraph:
    """States, timers, windows, broadcast state and a committing sink; sources of one split and of several."""
    build = GraphBuilder(parallelism=parallelism, max_parallelism=LIMIT)
    stream = build.timestamps(build.source(ELEMENTS, uid="source"), lambda element: element[1])
    keyed = build.key_by(stream, lambda element: element[0], Types.LONG())
    build.collect(build.process(keyed, Everything(), uid="process"))
    windows = spec(TumblingEventTimeWindows.of(Time.milliseconds(20)), function=Texts())
    texts = build.key_by(
        build.add(NodeKind.MAP, "text", stream, function=WithText(), uid="text"), lambda e: e[0], Types.LONG()
    )
    build.collect(build.add(NodeKind.WINDOW, "windows", texts, function=windows, uid="windows"))
    rules = build.source([(0, "even"), (1, "odd")], uid="rules")
    spread = build.add(NodeKind.PARTITION, "broadcast", rules, function=PartitionSpec(Partitioner.BROADCAST))
    again = build.key_by(stream, lambda element: element[0], Types.LONG())
    ruled = BroadcastSpec(Ruled(), (RULES.to_spec(),))
    build.collect(build.add(NodeKind.BROADCAST_PROCESS, "ruled", again, spread, function=ruled, uid="ruled"))
    numbers = build.source(NumberSequenceSource(1, NUMBERS), uid="numbers")
    same = build.process(build.key_by(numbers, int, Types.LONG()), Same(), uid="same")
    build.add(NodeKind.SINK, "sink", same, function=FolderSink(out), uid="sink")
    return build.graph()


class WithText:
    def map(self, value: Any) -> Any:
        return *value, f"<{value[1]}>"


class Observed(RescaledJob):
    """With what the outside world has of it."""

    def found(self, out: Path) -> Any:
        """What the outside world has of it in the end."""
        self.answered()
        outputs = []
        for node in sorted(self.outputs):
            keys: dict[int, list[Any]] = {}
            timers: dict[int, Counter[Any]] = {}
            for element in self.outputs[node]:
                if str(element[1]).endswith("TIME"):
                    timers.setdefault(element[0], Counter())[element[1:]] += 1
                else:
                    keys.setdefault(element[0], []).append(element[1:])
            outputs.append((dict(sorted(keys.items())), timers))
        files = [file for file in out.glob("*.txt") if not file.name.startswith(".")]
        return outputs, Counter(line for file in files for line in file.read_text().splitlines())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    base = tmp_path_factory.mktemp("undisturbed")
    job = Observed(base / "log", Script((7,)), lambda: 7 * job.progress.epoch, wanted={})  # type: ignore[union-attr]
    job.run_driver(program(str(base / "out"), 2))
    outputs, lines = found = job.found(base / "out")
    assert lines == Counter(str(number) for number in range(1, NUMBERS + 1))
    assert len(outputs) == 3
    assert all(timers for _, timers in outputs[:1])
    return found, state_at(job.table()).states


PARALLELISM = st.integers(1, LIMIT)
WANTED = PARALLELISM | st.dictionaries(
    st.sampled_from(["process", "windows", "ruled", "same", "numbers"]), PARALLELISM, min_size=1, max_size=3
)
NOT_POSSIBLE = st.sampled_from([0, -1, LIMIT + 1, True, {"process": 99}, {"nobody": 2}, {"source": 2}, {}])
FAULTS = st.lists(
    st.builds(Failure, st.integers(1, 14), st.sampled_from(list(Fault)), st.just(0), st.just(0)), max_size=2
)


@settings(max_examples=8, deadline=None)
@given(
    wanted=st.dictionaries(st.integers(1, 14), WANTED | NOT_POSSIBLE, max_size=6),
    failures=FAULTS | st.just([]),
    barriers=st.lists(st.booleans(), max_size=4),
    changelog=st.sampled_from([True, True, False]),
    parallelism=st.integers(1, 3),
    read_ahead=st.booleans(),
    tolerable=st.integers(0, 2),
)
def test_another_parallelism_changes_nothing_else(
    undisturbed: Any,
    wanted: dict[int, Any],
    failures: list[Failure],
    barriers: list[bool],
    changelog: bool,
    parallelism: int,
    read_ahead: bool,
    tolerable: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        script = Script((7,), (*barriers, True), tuple(failures))
        job = Observed(
            base / "log",
            script,
            lambda: 7 * job.progress.epoch,  # type: ignore[union-attr]
            wanted=wanted,
            changelog=changelog,
            read_ahead=read_ahead,
            tolerable_failures=tolerable,
        )
        job.run(program(str(base / "out"), parallelism))
        found, states = job.found(base / "out"), state_at(job.table()).states if changelog else None
        if found[1] != undisturbed[0][1]:  # the driver died between the last commit and the sinks'
            assert failures
            assert job.commits[-1].finished
            job.run_driver(program(str(base / "out"), parallelism), restore="latest")
            found = job.found(base / "out")
        assert found == undisturbed[0]
        assert states is None or states == undisturbed[1]
        if not failures:
            assert job.coordinator.restarts.count == 0
            assert all(
                isinstance(each, (Rescaled, ConfigurationError, JobExecutionError)) for each in job.answers
            )
