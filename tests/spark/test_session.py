"""Jobs on a session that is the user's own: it is used, it is left as it was, and the job is right.

Reliability case 33 (worker processes gone while idle) among them.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from driver_process import checkpoints, own_descendants, pinned_of, wait_for
from gated_source import GatedSource
from py4j.protocol import Py4JJavaError
from pyspark.serializers import NoOpSerializer
from pyspark.sql import SparkSession
from session_jobs import AppendTo, Count, CountAndMark, Slowly, environment, last_counts, lines_of

from api.common import Encoder, JobStatus, RestartStrategies, Types, WatermarkStrategy
from api.datastream import DataStream, StreamExecutionEnvironment
from api.datastream.connectors import FileSink, FileSource, StreamFormat
from api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.errors import JobCancelledError
from changelog_engine.spark.stage_rdds import StageRdds
from changelog_engine.spark.task import failure_of_spark
from materializer.fold import state_at

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("spark")]
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def test_the_active_session_is_used_and_left_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    context.setJobGroup("mine", "my own jobs")
    env = environment(tmp_path / "log")
    stream = env.from_collection([1, 2, 2], Types.LONG()).key_by(lambda v: v, Types.LONG()).process(Count())
    with stream.execute_and_collect("mine") as results:
        assert last_counts(results) == {1: 1, 2: 2}
    env.from_collection([1], Types.LONG()).print()
    env.execute("printing")

    assert SparkSession.getActiveSession() is spark
    assert SparkSession.active().sparkContext is context
    assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    assert "CHANGELOG_ENGINE_SUBTASK" not in context.environment
    assert spark.range(10).selectExpr("sum(id)").first()[0] == 45
    assert context.parallelize([1, 2]).map(lambda v: v + 1).collect() == [2, 3]
    context.setJobGroup("", "")


def test_key_bys_in_a_row_a_union_and_several_sinks_at_parallelism_three(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = environment(tmp_path / "log", parallelism=3)
    low = env.from_source(NumberSequenceSource(0, 499), NO_WATERMARKS, "low", Types.LONG())
    high = env.from_source(NumberSequenceSource(500, 999), NO_WATERMARKS, "high", Types.LONG())
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    by_digit = low.union(high).key_by(lambda v: v % 10, Types.LONG()).process(Count(), pair).uid("digit")
    by_count = by_digit.key_by(lambda v: v[1], Types.LONG()).process(Count(), pair).uid("count")
    _write_json(by_digit, tmp_path / "digits")
    _write_json(by_count, tmp_path / "counts")
    _write_json(by_digit.map(lambda v: v[0]).union(by_count.map(lambda v: -v[0])), tmp_path / "both")
    by_count.filter(lambda v: v == (100, 10)).print()
    env.execute("shape")

    assert Counter(map(tuple, _written(tmp_path / "digits"))) == Counter(
        (digit, count) for digit in range(10) for count in range(1, 101)
    )
    assert Counter(count for count, _ in _written(tmp_path / "counts")) == dict.fromkeys(range(1, 101), 10)
    assert len(_written(tmp_path / "both")) == 2000
    assert "(100,10)" in capfd.readouterr().out
    states = state_at(str(tmp_path / "log" / "shape" / "changelog")).states
    assert states["digit", "count"] == dict.fromkeys(range(10), 100)
    assert states["count", "count"] == dict.fromkeys(range(1, 101), 10)


def test_workers_that_are_gone_while_the_source_pauses_are_restored(tmp_path: Path) -> None:
    env = environment(tmp_path / "log")
    gate, table = tmp_path / "gate", tmp_path / "log" / "idle" / "changelog"
    stream = env.from_source(GatedSource(gate), NO_WATERMARKS, "gate").key_by(lambda v: v % 5, Types.LONG())
    stream.process(Count()).uid("counts").print()
    client = env.execute_async("idle")
    wait_for(lambda: checkpoints(table) and not _growing(table))
    # Workers that earlier tests left in Spark's pool go as well.
    for worker in [pid for pids in pinned_of(own_descendants()).values() for pid in pids]:
        os.kill(worker, signal.SIGKILL)
    gate.touch()
    client.get_job_execution_result().result()

    assert state_at(str(table)).states["counts", "count"] == dict.fromkeys(range(5), 40)


def test_a_cancelled_job_without_changelog_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    table = tmp_path / "log" / "full" / "changelog"

    def build() -> StreamExecutionEnvironment:
        env = environment(tmp_path / "log", changelog=False, python__fn_execution__bundle__size=40)
        stream = env.from_source(NumberSequenceSource(0, 1999), NO_WATERMARKS, "numbers", Types.LONG())
        keyed = stream.map(Slowly(0.005), Types.LONG()).key_by(lambda v: v % 7, Types.LONG())
        keyed.process(Count()).uid("counts").add_sink(AppendTo(tmp_path / "out"))
        return env

    client = build().execute_async("full")
    wait_for(lambda: checkpoints(table) >= 2)
    assert client.get_job_status().result() == JobStatus.RUNNING
    client.cancel().result()
    assert client.get_job_status().result() == JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    first = len(lines_of(tmp_path / "out"))
    assert 0 < first < 2000
    assert not list(table.glob("*part*.parquet")), "no log"
    build().execute("full")

    # It stopped after a checkpoint: nothing is counted or written twice.
    counted = Counter(map(tuple, lines_of(tmp_path / "out")))
    assert counted == Counter((key, n) for key in range(7) for n in range(1, len(range(key, 2000, 7)) + 1))


def test_a_part_of_several_row_groups_is_restored(tmp_path: Path) -> None:
    """Each row group has dictionaries of its own, and a state that comes late is in the last ones only."""
    numbers = 300_000
    table = tmp_path / "log" / "big" / "changelog"
    for restore in ("none", "latest"):
        options = {"changelog__restore": restore, "execution__checkpointing__interval": "1h"}
        env = environment(tmp_path / "log", parallelism=1, **options)
        stream = env.from_source(NumberSequenceSource(0, numbers - 1), NO_WATERMARKS, "numbers", Types.LONG())
        keyed = stream.key_by(lambda v: v % 1000, Types.LONG())
        keyed.process(CountAndMark(numbers - 500), Types.LONG()).uid("counts").print()
        env.set_restart_strategy(RestartStrategies.no_restart())
        env.execute("big")
    states = state_at(str(table)).states
    assert states["counts", "count"] == dict.fromkeys(range(1000), 300)
    assert states["counts", "mark"] == dict.fromkeys(range(500, 1000), True)


def test_what_fails_a_job_of_spark_is_told_in_sparks_words(spark: SparkSession) -> None:
    """The call that waits for the results would only say that it waited."""
    context = spark.sparkContext
    nothing: Any = SimpleNamespace(parallelism_of={}, stages=[])
    rdds = StageRdds(context, nothing, None, nothing, None)

    def no_four(value: bytes) -> bytes:
        if value == b"4":
            os._exit(4)
        return value

    def of(*values: bytes) -> Any:
        numbers: Any = context.parallelize(values, 3).map(no_four)
        return numbers._reserialize(NoOpSerializer())._jrdd.rdd()

    assert rdds.collect([of(b"1", b"2"), of(), of(b"3")]) == [b"1", b"2", b"3"]
    with pytest.raises(Py4JJavaError, match="Python worker exited unexpectedly") as raised:
        rdds.collect([of(b"1"), of(b"3", b"4", b"5")])
    assert "awaitResult" not in str(raised.value)
    assert "Spark says: Job aborted due to stage failure: Task " in str(failure_of_spark(str(raised.value)))
    assert rdds.collect([of(b"5")]) == [b"5"]


def test_two_jobs_at_once_on_one_session_do_not_disturb_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clients = []
    for name in ("one", "two"):
        env = environment(tmp_path / "log")
        stream = env.from_source(NumberSequenceSource(0, 299), NO_WATERMARKS, "numbers", Types.LONG())
        keyed = stream.map(Slowly(0.005), Types.LONG()).key_by(lambda v: v % 7, Types.LONG())
        keyed.process(Count()).uid("counts").add_sink(AppendTo(tmp_path / name))
        clients.append(env.execute_async(name))
    for client in clients:
        client.get_job_execution_result().result()

    assert "restarts" not in caplog.text
    for name in ("one", "two"):
        assert Counter(key for key, _ in lines_of(tmp_path / name)) == Counter(v % 7 for v in range(300))


def test_without_checkpointing_nothing_is_written(tmp_path: Path) -> None:
    env = environment(tmp_path / "log", changelog=False, execution__checkpointing__interval="0")
    stream = env.from_source(NumberSequenceSource(0, 99), NO_WATERMARKS, "numbers", Types.LONG())
    with stream.key_by(lambda v: v % 3, Types.LONG()).process(Count()).execute_and_collect() as results:
        assert last_counts(results) == {0: 34, 1: 33, 2: 33}
    assert not (tmp_path / "log").exists()


def test_functions_use_the_modules_that_the_program_has_and_after_an_edit_their_new_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, factor in (("jobs", 1), ("others", 1_000)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "session_rules.py").write_text(
            f"def times(value):\n    return value * {factor}\n"
        )
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "session_rules", sys)
    del sys.modules["session_rules"]

    def results() -> list[int]:
        rules = importlib.import_module("session_rules")
        stream = environment(tmp_path / "log").from_collection([1, 2], Types.LONG())
        with stream.map(rules.times, Types.LONG()).execute_and_collect() as collected:
            return list(collected)

    monkeypatch.syspath_prepend(tmp_path / "others")
    monkeypatch.syspath_prepend(tmp_path / "jobs")
    assert results() == [1, 2]
    (tmp_path / "jobs" / "session_rules.py").write_text("def times(value):\n    return -value\n")
    importlib.reload(sys.modules["session_rules"])
    assert results() == [-1, -2]
    sys.path.remove(str(tmp_path / "jobs"))
    sys.path.append(str(tmp_path / "jobs"))
    del sys.modules["session_rules"]
    (tmp_path / "others" / "session_rules.py").touch()
    assert results() == [1_000, 2_000]


def test_relative_paths_begin_where_the_program_is_when_it_runs_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beside(line: str) -> str:
        return f"{line} {Path('beside').read_text()} {os.path.basename(os.getcwd())}"

    for name in ("one", "two"):
        (tmp_path / name / "in").mkdir(parents=True)
        (tmp_path / name / "in" / "lines").write_text(f"{name}\n")
        (tmp_path / name / "beside").write_text(name)
        monkeypatch.chdir(tmp_path / name)
        env = environment(tmp_path / "log", parallelism=1)
        env.set_restart_strategy(RestartStrategies.no_restart())
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").build()
        lines = env.from_source(source, NO_WATERMARKS, "in").map(beside, Types.STRING())
        _write_json(lines, Path("out"))
        env.execute(name)
    assert [_written(tmp_path / name / "out") for name in ("one", "two")] == [
        ["one one one"],
        ["two two two"],
    ]


def _write_json(stream: DataStream, folder: Path) -> None:
    """To a sink that commits: on a busy machine workers may wait for a minute and end, and plain sinks show the restart."""
    lines = stream.map(json.dumps, Types.STRING())
    lines.sink_to(FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).build())


def _written(folder: Path) -> list[Any]:
    """What `_write_json` wrote."""
    files = [path for path in folder.rglob("[!.]*") if path.is_file()]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _growing(table: Path) -> bool:
    """Whether the job still has something to commit; a paused one does not."""
    before = checkpoints(table)
    time.sleep(0.6)
    return checkpoints(table) != before
