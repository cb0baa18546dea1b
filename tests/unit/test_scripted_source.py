"""The source that follows a script, in jobs that run in this process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from api.common import Configuration, Types, WatermarkStrategy
from api.common.restart_strategy import RestartStrategies
from api.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
from api.datastream.state import ValueStateDescriptor
from changelog_engine.errors import ConfigurationError, JobExecutionError
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage
from changelog_engine.testing import (
    At,
    Checkpoint,
    Crash,
    Pause,
    ScriptedCrashError,
    ScriptedSource,
    Watermark,
    without_spark,
)


class Remember(KeyedProcessFunction):
    """Gives each element with the count of its key, the time and the watermark; and timers as they fire."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if ctx.timestamp() > 0:
            ctx.timer_service().register_event_time_timer(ctx.timestamp())
        yield value, count, ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "timer", timestamp


def environment(base: Path, interval_ms: int | None) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.configure(
        Configuration.from_dict(
            {
                "state.changelog.enabled": str(interval_ms is not None).lower(),
                "state.changelog.dstl.dfs.base-path": str(base),
            }
        )
    )
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(5, 1))
    if interval_ms is not None:
        env.enable_checkpointing(interval_ms)
    return env


def run(
    source: ScriptedSource,
    base: Path,
    interval_ms: int | None = 10,
    name: str = "scripted",
    function: KeyedProcessFunction | None = None,
) -> list[Any]:
    stream = environment(base, interval_ms).from_source(source, WatermarkStrategy.no_watermarks(), "script")
    results = stream.key_by(lambda value: value[0]).process(function or Remember()).uid("remember")
    with without_spark():
        return list(results.execute_and_collect(name))


def test_watermarks_stand_where_the_script_has_them(tmp_path: Path) -> None:
    script = [At("a1", 10), At("b1", 20), Watermark(15), At("a2", 30), "a3", Watermark(25), At("b2", 40)]
    least, most = -(2**63), 2**63 - 1
    assert run(ScriptedSource(script, Types.STRING()), tmp_path) == [
        ("a1", 1, least),
        ("b1", 1, least),
        ("timer", 10),
        ("a2", 2, 15),
        ("a3", 3, 15),
        ("timer", 20),
        ("b2", 2, 25),
        ("timer", 30),
        ("timer", 40),
    ]
    assert most not in [element[-1] for element in run(ScriptedSource(["a"]), tmp_path, None, "plain")]


class Marked(ProcessFunction):
    """Gives each element with the watermark that stands before it."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value, ctx.timer_service().current_watermark()


def test_functions_behind_the_source_see_its_watermark_again_after_a_crash(tmp_path: Path) -> None:
    script = ["a1", Watermark(15), Checkpoint(), "a2", Crash(), "a3", Crash(), Watermark(25), "a4"]

    def given(items: list[Any], name: str) -> list[Any]:
        env = environment(tmp_path, 50)
        marked = env.from_source(ScriptedSource(items), WatermarkStrategy.no_watermarks(), "script")
        with without_spark():
            return list(marked.process(Marked()).execute_and_collect(name))

    assert given(script, "crashed") == [("a1", -(2**63)), ("a2", 15), ("a3", 15), ("a4", 25)]
    assert given([item for item in script if not isinstance(item, Crash)], "whole") == given(script, "again")


def test_a_watermark_that_ends_the_script_comes_before_the_end(tmp_path: Path) -> None:
    class Told(Remember):
        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield timestamp, ctx.timer_service().current_watermark()

    found = run(ScriptedSource([At("a", 10), At("a", 20), Watermark(15)]), tmp_path, function=Told())
    assert found[2:] == [(10, 15), (20, 2**63 - 1)]


def test_after_a_crash_the_job_goes_on_from_the_scripts_checkpoint(tmp_path: Path) -> None:
    script = ["a1", Checkpoint(), "a2", Pause(5), "b1", Crash(), "a3", Crash(), Checkpoint(), "a4"]
    found = run(ScriptedSource(script), tmp_path, interval_ms=50)
    assert [element[:2] for element in found] == [("a1", 1), ("a2", 2), ("b1", 1), ("a3", 3), ("a4", 4)]
    lineage = Lineage(DeltaLog(open_storage(f"{tmp_path}/scripted/changelog")))
    assert len(lineage.attempts) == 3
    positions = [lineage.checkpoint(n).sources for n in lineage.checkpoints]
    reached = [
        position for sources in positions for split in sources.values() for position, _ in split.values()
    ]
    assert {2, 10} <= set(reached)  # the first Checkpoint has been passed, and the end
    assert {8, 9} & set(reached)  # a checkpoint before the second one counts as well


def test_without_checkpoints_a_crash_begins_anew_and_checkpoints_have_no_effect(tmp_path: Path) -> None:
    script = ["a1", Checkpoint(), Crash(), "a2"]
    found = run(ScriptedSource(script), tmp_path, interval_ms=None)
    assert [element[:2] for element in found] == [("a1", 1), ("a1", 1), ("a2", 2)]


def test_a_crash_that_was_noted_does_not_happen_in_another_process(tmp_path: Path) -> None:
    source = ScriptedSource(["a", Crash()], memory=tmp_path)
    with pytest.raises(ScriptedCrashError, match="item 1"):
        source.reader(source.splits(1)[0]).read(1, 1)
    again = pickle.loads(pickle.dumps(ScriptedSource(["a", Crash()], memory=tmp_path)))
    assert again.reader(again.splits(1)[0]).read(1, 1).next == 2


def test_killing_the_process_of_the_test_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobExecutionError, match=r"use Crash\(\)"):
        run(ScriptedSource([Crash(kill=True)]), tmp_path)


def test_elements_that_a_function_changes_are_read_again_as_they_were() -> None:
    source = ScriptedSource([At([1], 5)])
    reader = source.reader(source.splits(1)[0])
    reader.read(0, 1).values[0].append(2)
    assert reader.read(0, 1) == ([[1]], 1, True, [5], None)


def test_what_cannot_be_a_script() -> None:
    with pytest.raises(ConfigurationError, match="list of items"):
        ScriptedSource("abc")
    with pytest.raises(ConfigurationError, match="must grow"):
        ScriptedSource([Watermark(5), Watermark(5)])
