"""What users do wrong, and what they read then: which operator, which key, their own lines, the remedy; no Java."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import user_mistakes as mistakes
from driver_process import Driver
from session_jobs import Count, environment
from support.unprivileged import closed_folder

from api.common import Configuration, RestartStrategies, Types
from api.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from changelog_engine import errors

MINI_JOB = ("counting_job.py", "mini", 10, 3)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting Spark fails: the mistake must be found before."""

    def refuse(options: Any) -> None:
        raise AssertionError("Spark was to be started")

    monkeypatch.setattr("changelog_engine.spark.cluster.spark_context", refuse)


def failing(tmp_path: Path) -> StreamExecutionEnvironment:
    env = environment(tmp_path / "log")
    env.set_restart_strategy(RestartStrategies.no_restart())
    return env


def numbers(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([1, 2, 3, 4], Types.LONG())


class ByItself(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


def in_map(env: StreamExecutionEnvironment) -> None:
    numbers(env).map(mistakes.FailsInMap()).name("divide").print()


def in_open(env: StreamExecutionEnvironment) -> None:
    numbers(env).map(mistakes.FailsInOpen()).name("look up").print()


def in_process(env: StreamExecutionEnvironment) -> None:
    numbers(env).key_by(lambda v: v % 2, Types.LONG()).process(mistakes.FailsInProcess()).name(
        "paint"
    ).print()


def in_timer(env: StreamExecutionEnvironment) -> None:
    timed = numbers(env).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByItself())
    )
    timed.key_by(lambda v: f"k{v}", Types.STRING()).process(mistakes.FailsInTimer()).name("alarm").print()


def in_key_selector(env: StreamExecutionEnvironment) -> None:
    numbers(env).key_by(mistakes.fails_in_key, Types.LONG()).process(Count()).print()


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("build", "first_line", "user_line"),
    [
        (
            in_map,
            "map of operator 'divide', element 3 raised ZeroDivisionError: division by zero",
            "return 1 / (value - 3)",
        ),
        (in_open, "open of operator 'look up' raised OSError: no such database", "raise OSError"),
        (
            in_process,
            "process_element of operator 'paint', key 1, element 3 raised KeyError: 'colour'",
            'raise KeyError("colour")',
        ),
        (
            in_timer,
            "on_timer of operator 'alarm', key 'k1' raised RuntimeError: the timer rang",
            "raise RuntimeError",
        ),
        (in_key_selector, "key selector of operator ", "return [1, 2][value]"),
    ],
)
def test_a_function_that_raises_is_named_with_its_key_and_the_users_own_traceback(
    build: Callable[[StreamExecutionEnvironment], None], first_line: str, user_line: str, tmp_path: Path
) -> None:
    env = failing(tmp_path)
    build(env)
    with pytest.raises(errors.JobExecutionError) as caught:
        env.execute("failing")

    message = str(caught.value)
    assert message.splitlines()[0].startswith(f"job 'failing' failed: {first_line}")
    assert user_line in message
    assert "user_mistakes.py" in message
    for foreign in ("py4j", "pyspark", "org.apache", "\tat ", "changelog_engine/"):
        assert foreign not in message
    assert len(message.splitlines()) < 15
    assert isinstance(caught.value.__cause__, errors.UserFunctionError)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_users_error_is_not_hidden_by_sparks_second_try(tmp_path: Path) -> None:
    """On a session with Spark's defaults a failed task runs again, when the state it needs is gone already."""
    env = failing(tmp_path)
    env.configure(
        Configuration.from_dict(
            {"python.fn-execution.bundle.size": "1", "execution.checkpointing.interval": "1h"}
        )
    )
    in_process(env)
    with pytest.raises(
        errors.JobExecutionError,
        match="process_element of operator 'paint', key 1, element 3 raised KeyError",
    ):
        env.execute("later")


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_key_of_another_type_than_declared_is_named(tmp_path: Path) -> None:
    env = failing(tmp_path)
    numbers(env).key_by(lambda v: v, Types.STRING()).process(Count()).print()
    with pytest.raises(errors.JobExecutionError, match=r"key.*STRING.*int") as caught:
        env.execute("keys")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_state_that_does_not_fit_its_declared_type_is_named(tmp_path: Path) -> None:
    env = failing(tmp_path)
    numbers(env).map(lambda v: str(v), Types.LONG()).name("to text").print()
    with pytest.raises(errors.JobExecutionError, match=r"output of operator 'to text'.*LONG") as caught:
        env.execute("types")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.usefixtures("no_spark")
def test_a_function_that_cannot_be_shipped_is_named_before_anything_is_made(tmp_path: Path) -> None:
    env = environment(tmp_path / "log")
    numbers(env).map(mistakes.KeepsALock()).name("lock").print()
    with pytest.raises(errors.NotSerializableError, match=r"'lock'.*lock.*open\(\)"):
        env.execute("locked")
    assert not (tmp_path / "log").exists()


@pytest.mark.usefixtures("no_spark")
def test_a_base_path_that_cannot_be_written_is_named() -> None:
    with closed_folder() as closed:
        env = environment(closed / "log")
        numbers(env).print()
        with pytest.raises(errors.StorageError, match=str(closed)):
            env.execute("unwritable")


@pytest.mark.usefixtures("no_spark")
def test_a_base_path_below_a_file_or_on_a_read_only_system_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for base in (tmp_path / "file" / "log", Path("/proc/changelog")):
        env = environment(base)
        numbers(env).print()
        with pytest.raises(errors.StorageError, match=str(base.parent)):
            env.execute("nowhere")


@pytest.mark.usefixtures("no_spark")
def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "log" / "photos" / "changelog"
    mine.mkdir(parents=True)
    (mine / "cat.jpg").write_bytes(b"meow")
    env = environment(tmp_path / "log")
    numbers(env).print()
    with pytest.raises(errors.ForeignPathError, match=r"cat\.jpg"):
        env.execute("photos")
    assert [path.name for path in (tmp_path / "log").rglob("*") if path.is_file()] == ["cat.jpg"]


@pytest.mark.usefixtures("no_spark")
def test_two_operators_of_one_uid_are_named(tmp_path: Path) -> None:
    env = environment(tmp_path / "log")
    stream = numbers(env).map(lambda v: v).name("first").uid("same")
    stream.map(lambda v: v).name("second").uid("same").print()
    with pytest.raises(
        errors.InvalidJobError, match=r"the uid 'same' is given to two operators, 'first' and 'second'"
    ):
        env.execute("twins")


@pytest.mark.usefixtures("no_spark")
def test_parallelism_out_of_range(tmp_path: Path) -> None:
    env = environment(tmp_path / "log")
    for wrong in (0, -3, 32_769):
        with pytest.raises(errors.ConfigurationError, match=rf"{wrong}"):
            env.set_parallelism(wrong)
    env.set_parallelism(4)
    env.set_max_parallelism(2)
    numbers(env).key_by(lambda v: v).process(Count()).print()
    with pytest.raises(
        errors.InvalidJobError, match=r"parallelism 4 and max parallelism 2: lower the parallelism"
    ):
        env.execute("wide")


def test_no_java(tmp_path: Path) -> None:
    output = _run_without_java(tmp_path, path=str(tmp_path / "empty"))
    assert (
        "EnvironmentNotReadyError: Spark needs Java, and there is no 'java' on PATH. Install Java 17 or newer"
        in output
    )


@pytest.mark.slow
def test_an_error_of_the_engine_in_a_worker_keeps_its_class(spark: Any, tmp_path: Path) -> None:
    """Damage is final: as any other failure of an epoch it would come again with each restart."""
    env = environment(tmp_path / "log")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1_000, 0))
    numbers(env).map(mistakes.FindsDamage()).print()
    with pytest.raises(errors.JobExecutionError) as caught:
        env.execute("damaged")
    cause = caught.value.__cause__
    assert type(cause) is errors.CorruptChangelogError
    assert cause.path == "/data/part-1.parquet"


def test_java_home_that_is_wrong(tmp_path: Path) -> None:
    output = _run_without_java(tmp_path, path="", JAVA_HOME="/nowhere/jdk")
    assert (
        "Spark needs Java, and JAVA_HOME is '/nowhere/jdk', but there is no /nowhere/jdk/bin/java." in output
    )


def test_java_that_is_too_old(tmp_path: Path) -> None:
    java = tmp_path / "old" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    output = _run_without_java(tmp_path, path=str(java.parent))
    assert f"Spark needs Java 17 or newer, and {java} is Java 8. Install Java 17 or newer" in output


def test_spark_that_does_not_start(tmp_path: Path) -> None:
    """As for a master that it does not know, or too much memory: it was 30 lines of traceback."""
    java = tmp_path / "dying" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho \'openjdk version "17.0.9"\' >&2\n[ "$1" = -version ]\n')
    java.chmod(0o755)
    output = _run_without_java(tmp_path, path=f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    assert (
        "What its JVM said is on this program's standard error. Mend the spark.* option that this is about"
        in output
    )


def _run_without_java(tmp_path: Path, path: str, **environment: str) -> str:
    """Run a small job with another PATH; returns its output, of which the last line is the message."""
    options = {"state.changelog.enabled": "true", "state.changelog.dstl.dfs.base-path": tmp_path / "log"}
    variables = {"PATH": path, "JAVA_HOME": "", **environment}
    with Driver(*MINI_JOB, options=options, work=tmp_path / "work", environment=variables) as driver:
        assert driver.end(30) == 1
    assert (
        driver.output.rstrip().splitlines()[-1].startswith("changelog_engine.errors.EnvironmentNotReadyError")
    )
    return driver.output
