"""api.common: configuration, time, restart strategies, watermark strategies, job handles."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from api.common import (
    CompletableFuture,
    Configuration,
    Duration,
    JobClient,
    JobExecutionResult,
    JobID,
    JobStatus,
    RestartStrategies,
    Time,
    WatermarkStrategy,
)
from api.common.watermark_strategy import TimestampAssigner
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    JobCancelledError,
    NotSupportedError,
    StorageError,
)
from changelog_engine.graph.nodes import WatermarkSpec


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class TestConfiguration:
    def test_values_of_every_kind(self):
        conf = Configuration()
        assert (
            conf.set_string("s", "x").set_integer("i", 7).set_boolean("b", True).set_float("f", 1.5) is conf
        )
        conf.set_bytearray("y", bytearray(b"ab"))
        assert (conf.get_string("s", ""), conf.get_integer("i", 0), conf.get_boolean("b", False)) == (
            "x",
            7,
            True,
        )
        assert (conf.get_float("f", 0.0), conf.get_bytearray("y", bytearray())) == (1.5, bytearray(b"ab"))
        assert conf.get_string("i", "") == "7"
        assert conf.get_string("b", "") == "true"
        assert conf.get_integer("none", 3) == 3
        assert conf.to_dict() == {"s": "x", "i": "7", "b": "true", "f": "1.5", "y": "ab"}
        assert conf.key_set() == {"s", "i", "b", "f", "y"}

    def test_texts_are_parsed(self):
        conf = Configuration({"i": "7", "b": "False", "bad": "x"})
        assert conf.get_integer("i", 0) == 7
        assert conf.get_boolean("b", True) is False
        with pytest.raises(ConfigurationError, match="option 'bad'"):
            conf.get_integer("bad", 0)

    def test_copies_are_apart(self):
        conf = Configuration({"a": "1"})
        for other in (Configuration(conf), copy.deepcopy(conf), copy.copy(conf)):
            assert other == conf
            assert hash(other) == hash(conf)
            other.set_string("a", "2")
        assert conf.get_string("a", "") == "1"

    def test_add_and_remove(self):
        conf = Configuration({"a": "1"})
        conf.add_all(Configuration({"b": "2"})).add_all(Configuration({"c": "3"}), prefix="p.")
        assert conf.to_dict() == {"a": "1", "b": "2", "p.c": "3"}
        assert conf.remove_config("a")
        assert not conf.remove_config("a")
        target: dict[str, str] = {}
        conf.add_all_to_dict(target)
        assert target == {"b": "2", "p.c": "3"}
        assert str(conf) == "{b=2, p.c=3}"

    def test_older_names_of_options_set_the_newer_ones(self):
        conf = Configuration().set_string("state.backend.changelog.enabled", "true")
        assert conf.contains_key("state.changelog.enabled")
        assert conf.get_boolean("state.changelog.enabled", False)

    def test_a_configuration_refuses_values_of_other_types(self):
        with pytest.raises(ConfigurationError, match="'a'"):
            Configuration().set_integer("a", "7")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="key"):
            Configuration().set_string("", "7")
        with pytest.raises(ConfigurationError):
            Configuration(5)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError):
            Configuration().set_integer("a", True)


class TestTime:
    def test_equal_durations_are_equal_whatever_they_were_made_of(self):
        assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440)
        assert Duration.of_seconds(1, 500_000_000) == Duration.of_millis(1500)
        assert Duration.of_nanos(1_999_999).to_milliseconds() == 1
        assert hash(Duration.of_seconds(1)) == hash(Duration.of_millis(1000))
        assert repr(Duration.of_hours(25)) == "Duration(90000000 ms)"
        assert repr(Duration.of_nanos(1_500_000)) == "Duration(1.5 ms)"
        with pytest.raises(ConfigurationError, match="of_seconds"):
            Duration.of_seconds(1.5)  # type: ignore[arg-type]

    def test_equal_times_are_equal_and_fractions_of_a_millisecond_refused(self):
        assert Time.days(1) == Time.hours(24) == Time.minutes(1440) == Time.seconds(86_400)
        assert Time.milliseconds(5).to_milliseconds() == 5
        assert len({Time.seconds(1), Time.milliseconds(1000)}) == 1
        assert [Time.seconds(0.57), Time.days(0.5)] == [Time.milliseconds(570), Time.hours(12)]
        for wrong in (0.0001, float("nan"), float("inf"), True, "1"):
            with pytest.raises(ConfigurationError, match=r"Time\.seconds must be a whole number"):
                Time.seconds(wrong)  # type: ignore[arg-type]


class TestRestartStrategies:
    def test_values_are_given_back(self):
        fixed = RestartStrategies.fixed_delay_restart(3, 100)
        assert fixed.get_restart_attempts() == 3
        assert fixed.get_delay_between_attempts_interval() == timedelta(milliseconds=100)
        rate = RestartStrategies.failure_rate_restart(2, 60_000, 10)
        assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (2, timedelta(minutes=1))
        assert isinstance(fixed, RestartStrategies.FixedDelayRestartStrategyConfiguration)
        assert RestartStrategies.no_restart() == RestartStrategies.no_restart()
        assert RestartStrategies.no_restart() != RestartStrategies.fall_back_restart()

    def test_its_classes_have_pyflinks_names(self):
        for strategy in (RestartStrategies.no_restart(), RestartStrategies.fall_back_restart()):
            kind = type(strategy)
            assert kind is getattr(RestartStrategies, kind.__name__)
            assert pickle.loads(pickle.dumps(strategy)) == strategy
        assert type(RestartStrategies.no_restart()).__name__ == "NoRestartStrategyConfiguration"

    def test_out_of_range(self):
        with pytest.raises(ConfigurationError, match="restart_attempts"):
            RestartStrategies.fixed_delay_restart(-1, 100)
        with pytest.raises(ConfigurationError, match="failure_rate"):
            RestartStrategies.failure_rate_restart(0, 1, 1)
        with pytest.raises(ConfigurationError, match="max_backoff"):
            RestartStrategies.exponential_delay_restart(10, 5)
        with pytest.raises(ConfigurationError, match="backoff_multiplier"):
            RestartStrategies.exponential_delay_restart(backoff_multiplier=0.5)
        with pytest.raises(ArgumentTypeError, match="backoff_multiplier"):
            RestartStrategies.exponential_delay_restart(backoff_multiplier=True)  # it counted as 1


class TestWatermarkStrategy:
    def test_a_watermark_strategy_tells_the_engine_what_it_says(self):
        assigner = At()
        monotonous = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
        assert monotonous._spec() == WatermarkSpec(assigner, 0, None)
        bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
        assert bounded._spec() == WatermarkSpec(None, 2000, None)
        idle = monotonous.with_idleness(Duration.of_millis(7))
        assert idle._spec() == WatermarkSpec(assigner, 0, 7)
        assert monotonous._spec().idle_timeout_ms is None
        assert WatermarkStrategy.no_watermarks()._does_nothing()

    def test_a_watermark_strategy_refuses_what_it_cannot_use(self):
        with pytest.raises(ConfigurationError, match="Duration"):
            WatermarkStrategy.for_bounded_out_of_orderness(2000)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="instance"):
            WatermarkStrategy.no_watermarks().with_timestamp_assigner(At)  # type: ignore[arg-type]
        with pytest.raises(
            NotSupportedError, match=r"WatermarkStrategy\.for_generator takes a generator of Java's: use"
        ):
            WatermarkStrategy.for_generator  # noqa: B018


class FakeOutcome:
    def __init__(self, cancelled=False):
        self.job_id, self.net_runtime_ms, self.cancelled, self.last_checkpoint = "a" * 32, 12, cancelled, 3


class FakeRunning:
    job_id = "a" * 32

    def __init__(self):
        self.ended = threading.Event()
        self.cancelled = self.fails = False

    def status(self):
        return "RUNNING"

    def cancel(self):
        self.cancelled = True
        self.ended.set()

    def trigger_savepoint(self, directory):
        if self.fails:
            raise StorageError("no room")
        return f"{directory or 'default'}/savepoint"

    def stop_with_savepoint(self, drain, directory):
        return self.trigger_savepoint(directory) + (", drained" if drain else "")

    def wait(self, timeout_s=None):
        self.ended.wait()
        return FakeOutcome(self.cancelled)


class TestJobClient:
    def test_a_client_knows_the_state_and_the_result_of_its_job(self):
        running = FakeRunning()
        client = JobClient(running)
        assert client.get_job_id() == JobID("a" * 32)
        assert client.get_job_status().result() is JobStatus.RUNNING
        future = client.get_job_execution_result()
        assert not future.done()
        running.ended.set()
        result = future.result()
        assert isinstance(result, JobExecutionResult)
        assert result.get_net_runtime() == 12
        assert str(result.get_job_id()) == "a" * 32
        assert result.get_all_accumulator_results() == {}
        with pytest.raises(ConfigurationError, match="no accumulator 'x'"):
            result.get_accumulator_result("x")
        assert future.exception() is None

    def test_a_cancelled_jobs_result_is_an_error(self):
        client = JobClient(FakeRunning())
        assert client.cancel().result() is None
        assert isinstance(client.get_job_execution_result().exception(), JobCancelledError)

    def test_savepoints_are_futures_of_their_paths(self):
        running = FakeRunning()
        client = JobClient(running)
        assert client.trigger_savepoint("/sp").result() == "/sp/savepoint"
        assert client.trigger_savepoint().result() == "default/savepoint"
        assert client.stop_with_savepoint(True, "/sp").result() == "/sp/savepoint, drained"
        assert client.stop_with_savepoint(False).result() == "default/savepoint"
        for wrong in ("", 3):
            with pytest.raises(
                ConfigurationError, match=r"JobClient\.trigger_savepoint: savepoint_directory"
            ):
                client.trigger_savepoint(wrong)
        with pytest.raises(ConfigurationError, match="advance_to_end_of_event_time"):
            client.stop_with_savepoint("/sp")
        running.fails = True
        assert isinstance(client.trigger_savepoint().exception(), StorageError)


def test_only_ended_jobs_are_in_a_terminal_state():
    assert {status for status in JobStatus if status.is_globally_terminal_state()} == {
        JobStatus.FINISHED,
        JobStatus.CANCELED,
        JobStatus.FAILED,
    }
    assert JobStatus.SUSPENDED.is_terminal_state()


def test_case_57_a_future_shows_what_it_holds() -> None:
    """``print(client.get_job_status())`` says the status, and that it is in a future."""
    future: Future[Any] = Future()
    shown = CompletableFuture(future)
    assert str(shown) == repr(shown) == "CompletableFuture(pending)"
    future.set_result(JobStatus.RUNNING)
    assert str(shown) == "CompletableFuture(done: JobStatus.RUNNING)"
    failed: Future[Any] = Future()
    failed.set_exception(ValueError("why"))
    assert str(CompletableFuture(failed)) == "CompletableFuture(failed: ValueError: why)"
    gone: Future[Any] = Future()
    gone.cancel()
    assert str(CompletableFuture(gone)) == "CompletableFuture(cancelled)"
