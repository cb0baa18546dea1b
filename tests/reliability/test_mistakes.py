"""Which failures are tried again: mistakes in the program end, what the environment does follows the strategy (case 53)."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.functions import Count
from support.graphs import GraphBuilder, keyed_job
from support.jobs import TestJob
from support.script import Script

from api.datastream import KeyedProcessFunction, MapFunction
from changelog_engine.connectors.protocols import DiscoveringSource, Split, SplitReader
from changelog_engine.driver.mistakes import is_final, is_mistake, origin_of
from changelog_engine.errors import (
    ConnectorError,
    EnvironmentNotReadyError,
    EpochFailedError,
    JobExecutionError,
    NotLoadableError,
    NotSupportedError,
    RefusedForGoodError,
    SparkEndedError,
    StateLostError,
    StorageError,
    TypeMismatchError,
    UserFunctionError,
)
from changelog_engine.graph.nodes import JobGraph, NodeKind, RestartKind, RestartSettings
from changelog_engine.operators.failures import user_failure
from changelog_engine.spark.task import describe_failure, failure_of, failure_of_spark

SIX_TIMES = RestartSettings(RestartKind.FIXED_DELAY, attempts=6, delay_ms=0)
ATTEMPTS: list[int] = []  # one entry an attempt: how many elements it saw


@pytest.fixture(autouse=True)
def no_attempts() -> None:
    ATTEMPTS.clear()


class Fails(KeyedProcessFunction):
    """Raises what it is given, at an element, in the first so many attempts."""

    def __init__(self, raising: Callable[[int], BaseException], at: int = 0, attempts: int = 10**6) -> None:
        self.raising = raising
        self.at = at
        self.attempts = attempts

    def open(self, runtime_context: Any) -> None:
        ATTEMPTS.append(0)

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        ATTEMPTS[-1] += 1
        if value == self.at and len(ATTEMPTS) <= self.attempts:
            raise self.raising(len(ATTEMPTS))
        yield value


def job_of(function: Any, count: int = 6) -> JobGraph:
    return keyed_job(list(range(count)), function, key=lambda value: value % 2)


def failed(tmp_path: Path, graph: JobGraph, **settings: Any) -> JobExecutionError:
    with pytest.raises(JobExecutionError) as caught:
        TestJob(tmp_path, Script(sizes=(2,)), **settings).run_driver(graph)
    return caught.value


def nth(attempt: int) -> BaseException:
    return RuntimeError(f"attempt {attempt}: cannot use <object at 0x7f{attempt:06x}> of 'key-{attempt}'")


def test_case_53_the_same_mistake_three_times_is_final(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "changelog_engine"):
        failure = failed(tmp_path, job_of(Fails(nth)))
    assert len(ATTEMPTS) == 3
    assert failure.seen == 3
    text = str(failure)
    assert "seen 3 times, no checkpoint in between" in text
    assert text.count("Traceback") == 1
    assert "raise self.raising" in text
    first, second = (record.getMessage() for record in caplog.records)
    assert "Traceback" in first
    assert "Traceback" not in second
    assert "the same mistake 2 times" in second


class Moves(Fails):
    """Fails one element later in each attempt."""

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        if value == len(ATTEMPTS) and value < 6:
            raise nth(0)
        yield value


def test_case_53_a_new_checkpoint_in_between_starts_the_count_anew(tmp_path: Path) -> None:
    """One element later in each attempt: there is always a checkpoint more."""

    job = TestJob(tmp_path, Script(sizes=(1,), barriers=(True,)))
    job.run_driver(job_of(Moves(nth), 8))
    assert len(ATTEMPTS) == 6
    assert sorted(job.output) == list(range(8))


def test_case_53_another_mistake_starts_the_count_anew(tmp_path: Path) -> None:
    def different(attempt: int) -> BaseException:
        return KeyError("colour") if attempt % 2 else ValueError("shape")

    failed(tmp_path, job_of(Fails(different)), restart=SIX_TIMES)
    assert len(ATTEMPTS) == SIX_TIMES.attempts + 1


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_case_53_the_limit_is_configured(tmp_path: Path, limit: int) -> None:
    assert failed(tmp_path, job_of(Fails(nth)), same_failure_limit=limit).seen == limit
    assert len(ATTEMPTS) == limit


def test_case_53_without_a_limit_the_strategy_decides(tmp_path: Path) -> None:
    assert failed(tmp_path, job_of(Fails(nth)), same_failure_limit=0, restart=SIX_TIMES).seen is None
    assert len(ATTEMPTS) == SIX_TIMES.attempts + 1


def refused(_attempt: int) -> BaseException:
    return ConnectionRefusedError(111, "Connection refused")


def wrapped(_attempt: int) -> BaseException:
    error = RuntimeError("the service cannot be asked")
    error.__cause__ = TimeoutError("no answer")
    return error


class OperationalError(Exception):
    """As database drivers name it."""


@pytest.mark.parametrize("raising", [refused, wrapped, lambda _attempt: OperationalError("server closed")])
def test_case_53_an_outage_never_becomes_final(
    tmp_path: Path, raising: Callable[[int], BaseException]
) -> None:
    job = TestJob(tmp_path, Script(sizes=(2,)))
    job.run_driver(job_of(Fails(raising, attempts=8)))
    assert len(ATTEMPTS) == 9
    assert sorted(job.output) == list(range(6))


@pytest.mark.parametrize(
    "failure",
    [
        EpochFailedError("a Spark task failed: ExecutorLostFailure"),
        StateLostError("gone"),
        ConnectorError("the broker is away"),
        StorageError("the disk is full"),
    ],
)
def test_case_53_what_the_environment_does_is_no_mistake(failure: Any) -> None:
    assert not is_mistake(failure)
    assert not is_final(failure)
    there = failure_of(describe_failure(failure))
    assert not is_mistake(there)
    assert not is_final(there)


class Refuses(DiscoveringSource):
    """Its system refuses for good: to say which splits there are at first, or while the job runs."""

    discovery_interval_ms = 0

    def __init__(self, at_first: bool) -> None:
        self.at_first = at_first

    def splits(self, parallelism: int) -> list[Split]:
        ATTEMPTS.append(0)
        return self._ask() if self.at_first else []

    def discover(self, known: Any) -> list[Split]:
        return self._ask()

    def _ask(self) -> list[Split]:
        try:
            raise OperationalError("no such table")
        except OperationalError:
            raise RefusedForGoodError("there is no such table")  # noqa: B904 # as a connector may

    def reader(self, split: Split) -> SplitReader:
        raise NotImplementedError


@pytest.mark.parametrize("at_first", [True, False])
def test_case_53_what_is_refused_for_good_is_a_mistake_whatever_the_client_raised(
    tmp_path: Path, at_first: bool
) -> None:
    build = GraphBuilder("job", 1, 16)
    build.collect(build.source(Refuses(at_first), uid="source"))
    assert failed(tmp_path, build.graph()).seen == 3
    assert len(ATTEMPTS) == 3


def imports(_attempt: int) -> BaseException:
    return ModuleNotFoundError("No module named 'holidays'")


def test_case_53_a_missing_module_is_final_at_once(tmp_path: Path) -> None:
    failure = failed(tmp_path, job_of(Fails(imports)))
    assert len(ATTEMPTS) == 1
    assert failure.seen is None
    assert "No module named 'holidays'" in str(failure)


class Unloadable:
    """Pickled well; its pickle cannot be loaded."""

    def __reduce__(self) -> Any:
        return _fail_to_load, ()


def _fail_to_load() -> Any:
    ATTEMPTS.append(0)
    raise pickle.UnpicklingError("made by another version")


def test_case_53_a_function_that_cannot_be_loaded_is_final_at_once(tmp_path: Path) -> None:
    build = GraphBuilder()
    build.collect(build.add(NodeKind.MAP, "look up", build.source([1]), function=Unloadable()))
    failure = failed(tmp_path, build.graph())
    assert isinstance(failure.__cause__, NotLoadableError)
    assert "operator 'look up'" in str(failure)
    assert "add_python_file" in str(failure)
    assert len(ATTEMPTS) == 1


def test_case_53_what_this_version_lacks_is_final_at_once(tmp_path: Path) -> None:
    failed(tmp_path, job_of(Fails(lambda _attempt: NotSupportedError("not there"))))
    assert len(ATTEMPTS) == 1


def test_case_53_an_error_is_not_its_own_cause() -> None:
    """Whoever follows the causes of an error comes to an end."""
    own = TypeMismatchError("not a LONG")

    def fails() -> None:
        try:
            raise own
        except TypeMismatchError as error:
            raise user_failure(error, "map", "map") from error

    with pytest.raises(TypeMismatchError) as raised:
        fails()
    assert raised.value is own
    assert own.__cause__ is None


def test_case_53_a_group_is_told_and_judged_by_what_is_in_it(tmp_path: Path) -> None:
    """As an asyncio.TaskGroup raises it: its own message has a number only."""

    def group(*errors: Exception) -> Exception:
        try:
            raise ExceptionGroup("inner", list(errors))
        except ExceptionGroup as inner:
            return ExceptionGroup("unhandled errors in a TaskGroup", [KeyError("beside"), inner])

    failure = failed(tmp_path / "same", job_of(Fails(lambda _attempt: group(ValueError("shape")))))
    assert len(ATTEMPTS) == 3
    for told in ("ValueError: shape", "KeyError: 'beside'", "where 2 of 2 is:"):
        assert told in str(failure)
    ATTEMPTS.clear()
    kinds = (ValueError, TypeError)
    failed(
        tmp_path / "other",
        job_of(Fails(lambda attempt: group(kinds[attempt % 2]("shape")))),
        restart=SIX_TIMES,
    )
    assert len(ATTEMPTS) == SIX_TIMES.attempts + 1
    failure = user_failure(group(ConnectionResetError("gone")), "map", "map")
    failure.__cause__ = group(ConnectionResetError("gone"))
    assert not is_mistake(failure)


def again(error: Exception) -> Exception:
    """As who raises an error of a group again: it came of the group that it is in."""
    try:
        try:
            raise ExceptionGroup("several", [error])
        except ExceptionGroup as several:
            raise several.exceptions[0]  # noqa: B904 - as users do
    except Exception as raised:
        return raised


def nested(error: Exception) -> Exception:
    """As a function that calls itself, and tells at each return what it was at."""
    for depth in range(2_000):
        try:
            raise RuntimeError(f"at depth {depth}") from error
        except RuntimeError as raised:
            error = raised
    return error


class Delegating(Exception):
    """Has what an answer has."""

    def __getattr__(self, name: str) -> Any:
        return {"code": 5}[name]


@pytest.mark.parametrize(
    ("made", "told", "length"),
    [
        (lambda: again(ValueError("shape")), ["raised ValueError: shape", "where 1 of 1 is:"], 3_000),
        (
            lambda: nested(ValueError("shape")),
            ["at depth 1999", "ValueError: shape", "(1981 errors are left out here)"],
            20_000,
        ),
        (lambda: Delegating("shape"), ["raised Delegating: shape"], 3_000),
    ],
    ids=["of a group that it is in", "of very many", "whose attributes raise"],
)
def test_case_53_errors_that_hold_others_are_told_as_they_are(
    tmp_path: Path, made: Callable[[], Exception], told: list[str], length: int
) -> None:
    """The engine stumbled over them, and said that in the place of what the function had raised."""
    message = str(failed(tmp_path, job_of(Fails(lambda _attempt: made()))))
    assert "of operator" in message.splitlines()[0]
    assert all(words in message for words in told)
    assert len(message) < length


def test_case_53_the_origin_of_a_failure_travels() -> None:
    """What the driver decides by is the same whether the failure came from another process or not."""

    def raises(value: Any) -> None:
        {}[value]

    failures: list[Any] = [TypeMismatchError("not a LONG"), NotLoadableError("no module")]
    try:
        raises("b")
    except KeyError as error:
        failure = user_failure(error, "map", "map")
        failure.__cause__ = error
        failures.append(failure)
    for failure in failures:
        there = failure_of(describe_failure(failure))
        assert type(there) is type(failure)
        assert origin_of(there) == origin_of(failure)
        assert (is_final(there), is_mistake(there)) == (is_final(failure), is_mistake(failure))
    assert origin_of(failures[-1]).frame.endswith(" raises")
    assert isinstance(failures[-1], UserFunctionError)


def test_case_53_an_error_of_the_engine_itself_is_counted_an_outage_in_it_is_not() -> None:
    mistake, outage = (
        failure_of(describe_failure(ZeroDivisionError())),
        failure_of(describe_failure(OSError(5, "I/O"))),
    )
    assert is_mistake(mistake)
    assert not is_mistake(outage)


def test_case_53_workers_that_cannot_begin_are_final() -> None:
    failure = failure_of_spark(
        "... org.apache.spark.api.python.PythonException:\nModuleNotFoundError: No module named 'x'\n"
    )
    assert isinstance(failure, NotLoadableError)
    assert is_final(failure)
    failure = failure_of_spark(
        'java.io.IOException: Cannot run program "/a/python": error=2, No such file or directory'
    )
    assert isinstance(failure, EnvironmentNotReadyError)
    assert str(failure).startswith("Spark's executors have no Python '/a/python'. Install one there")
    assert is_final(failure)
    for said in ("OSError: AF_UNIX path too long", "java.net.SocketException: Unix domain path too long"):
        failure = failure_of_spark(
            f"... org.apache.spark.SparkException: \nError from python worker:\n  {said}\n"
        )
        assert isinstance(failure, EnvironmentNotReadyError)
        assert str(failure).endswith("spark.python.unix.domain.socket.dir: /tmp")
        assert is_final(failure)


@pytest.mark.parametrize(
    "said",
    [
        "Job 3 cancelled because SparkContext was shut down\n\tat org.apache.spark.scheduler.DAGScheduler.x(D.scala:1)",
        "SparkContext has been shutdown",
        "Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:\n"
        "org.apache.spark.api.java.JavaSparkContext.<init>(JavaSparkContext.scala:59)",
    ],
)
def test_case_53_a_stopped_spark_ends_the_job(said: str) -> None:
    """Each restart would meet the same SparkContext: a job whose master had given up restarted for ever."""
    failure = failure_of_spark(
        f"An error occurred while calling o1.x.\n: org.apache.spark.SparkException: {said}"
    )
    assert isinstance(failure, SparkEndedError)
    assert str(failure).startswith("Spark was stopped: by the program (spark.stop())")
    assert str(failure).endswith(f"Spark says: {said.splitlines()[0].rstrip('.')}")
    assert is_final(failure)


def test_case_12_a_full_disk_of_spark_names_the_folder_and_is_an_outage() -> None:
    """Of what tasks send each other Spark says the reason and not the file."""
    failure = failure_of_spark(
        "An error occurred while calling z:collectAndServe.\n: org.apache.spark.SparkException: Job aborted: Lost task "
        "1.0 in stage 2.0: java.io.IOException: No space left on device\n\tat java.base/x\nCaused by: y",
        "/small/spark-1",
    )
    assert isinstance(failure, EpochFailedError)
    assert str(failure).startswith("disk full: there is no room in /small/spark-1 for what Spark")
    assert str(failure).endswith(
        "Spark says: Job aborted: Lost task 1.0 in stage 2.0: java.io.IOException: No space left on device"
    )
    assert not is_final(failure)
    assert not is_mistake(failure)


@pytest.mark.parametrize(
    "said",
    [
        "java.nio.file.NoSuchFileException: /tmp/s/blockmgr-08c0-5282/02",
        "java.io.FileNotFoundException: /tmp/s/blockmgr-08c0-5282/02/temp_shuffle_db1 (No such file or directory)",
    ],
)
def test_case_12_a_folder_of_spark_that_was_removed_is_named_with_what_to_do(said: str) -> None:
    failure = failure_of_spark(
        "An error occurred while calling z:collectAndServe.\n: org.apache.spark.SparkException: Job aborted: Lost task "
        f"1.0 in stage 2.0: {said}\n\tat java.base/x",
        "/tmp/s",
    )
    assert isinstance(failure, EpochFailedError)
    assert str(failure).startswith("something in Spark's folder /tmp/s/blockmgr-08c0-5282 is gone: somebody")
    assert "make it, or run the job again" in str(failure)
    assert not is_final(failure)


def test_case_53_counting_is_undisturbed_by_the_environment(tmp_path: Path) -> None:
    def now_and_then(attempt: int) -> BaseException:
        return refused(attempt) if attempt % 2 else nth(attempt)

    assert failed(tmp_path, job_of(Fails(now_and_then))).seen == 3
    assert len(ATTEMPTS) == 6


def test_case_53_a_job_that_counts_is_exact_after_two_mistakes(tmp_path: Path) -> None:
    build = GraphBuilder()
    mapped = build.add(
        NodeKind.MAP, "fails twice", build.source([(1, 0), (2, 0), (3, 0), (4, 0)]), function=FailsTwice()
    )
    build.collect(build.process(build.key_by(mapped, lambda value: value[0] % 2), Count()))
    job = TestJob(tmp_path, Script(sizes=(2,)))
    job.run_driver(build.graph())
    assert len(ATTEMPTS) >= 2
    assert len(job.output) == 4


class FailsTwice(MapFunction):
    def map(self, value: tuple[int, int]) -> tuple[int, int]:
        if value[0] == 3 and len(ATTEMPTS) < 2:
            ATTEMPTS.append(0)
            raise nth(len(ATTEMPTS))
        return value
