"""Everything that can be set on an environment: given back, and handed to the engine."""

from __future__ import annotations

import logging
import os

import pytest

from api.common import Configuration, Duration, RestartStrategies
from api.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    RuntimeExecutionMode,
    StateBackend,
    StreamExecutionEnvironment,
)
from changelog_engine.config import set_command_line
from changelog_engine.errors import ConfigurationError, NotSupportedError
from changelog_engine.graph.nodes import JobSettings, RestartKind, RestartSettings
from changelog_engine.ledger.points import is_point


@pytest.fixture
def env(monkeypatch, tmp_path):
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    monkeypatch.chdir(tmp_path)
    return StreamExecutionEnvironment.get_execution_environment()


def settings(env) -> JobSettings:
    return env._settings.job_settings()


def with_conf(**entries) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(Configuration(entries.pop("conf")))


def test_an_environment_without_settings_has_the_defaults(env, tmp_path):
    assert settings(env) == JobSettings(base_path=str(tmp_path / "changelog-data"))
    assert env.get_parallelism() == len(os.sched_getaffinity(0))
    assert env.get_max_parallelism() == -1
    assert env.get_checkpoint_interval() == -1
    assert env.is_changelog_state_backend_enabled() is None
    assert env.get_state_backend() is None
    assert env.get_restart_strategy() == RestartStrategies.fall_back_restart()
    assert env.get_config().get_auto_watermark_interval() == 200


def test_parallelisms_are_given_back_and_bounded(env):
    assert env.set_parallelism(3) is env
    assert env.set_max_parallelism(32768) is env
    assert (env.get_parallelism(), env.get_max_parallelism()) == (3, 32768)
    assert env.get_config().get_parallelism() == 3
    assert env.get_config().set_max_parallelism(7).get_max_parallelism() == 7
    for bad in (0, 32769, -3, 1.0, True, "2", None):
        with pytest.raises(ConfigurationError, match="set_max_parallelism"):
            env.set_max_parallelism(bad)
        with pytest.raises(ConfigurationError, match="set_parallelism"):
            env.set_parallelism(bad)
    config = with_conf(conf={"spark.master": "local[3]"}).set_parallelism(4).get_config()
    assert config.set_parallelism(config.PARALLELISM_UNKNOWN).get_parallelism() == 4
    assert config.set_parallelism(config.PARALLELISM_DEFAULT).get_parallelism() == 3
    assert with_conf(conf={"spark.master": "local[3]"}).get_parallelism() == 3
    assert with_conf(conf={"parallelism.default": "5", "spark.master": "local[3]"}).get_parallelism() == 5
    with pytest.raises(ConfigurationError, match="max-parallelism"):
        with_conf(conf={"pipeline.max-parallelism": "32769"})


def test_checkpointing_is_one_setting_wherever_it_is_set(env):
    assert env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE) is env
    config = env.get_checkpoint_config()
    assert config is env.get_checkpoint_config()
    assert config.is_checkpointing_enabled()
    assert env.get_checkpoint_interval() == config.get_checkpoint_interval() == 500
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert settings(env).checkpoint_interval_ms == 500
    for bad in (0, -5, "1 s", 1.5):
        with pytest.raises(ConfigurationError, match="interval"):
            env.enable_checkpointing(bad)


@pytest.mark.parametrize(
    ("setter", "value", "getter", "default"),
    [
        ("set_checkpointing_mode", CheckpointingMode.AT_LEAST_ONCE, "get_checkpointing_mode", CheckpointConfig.DEFAULT_MODE),
        ("set_checkpoint_timeout", 7000, "get_checkpoint_timeout", CheckpointConfig.DEFAULT_TIMEOUT),
        (
            "set_min_pause_between_checkpoints", 30,
            "get_min_pause_between_checkpoints", CheckpointConfig.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS,
        ),
        (
            "set_max_concurrent_checkpoints", 2,
            "get_max_concurrent_checkpoints", CheckpointConfig.DEFAULT_MAX_CONCURRENT_CHECKPOINTS,
        ),
        ("set_tolerable_checkpoint_failure_number", 4, "get_tolerable_checkpoint_failure_number", 0),
        ("enable_unaligned_checkpoints", True, "is_unaligned_checkpoints_enabled", False),
        ("set_force_unaligned_checkpoints", True, "is_force_unaligned_checkpoints", False),
        ("set_alignment_timeout", Duration.of_seconds(1), "get_alignment_timeout", Duration.of_millis(0)),
        (
            "enable_externalized_checkpoints", ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION,
            "get_externalized_checkpoint_cleanup", ExternalizedCheckpointCleanup.NO_EXTERNALIZED_CHECKPOINTS,
        ),
    ],
)  # fmt: skip
def test_a_checkpoint_setting_is_given_back(env, setter, value, getter, default):
    config = env.get_checkpoint_config()
    assert getattr(config, getter)() == default
    assert getattr(config, setter)(value) is config
    assert getattr(config, getter)() == value


def test_checkpoint_settings_that_answer_for_each_other(env):
    config = env.get_checkpoint_config()
    assert CheckpointConfig.DEFAULT_TIMEOUT == 600_000
    assert config.is_fail_on_checkpointing_errors()
    assert config.get_checkpoint_storage() is None
    assert (
        not config.enable_unaligned_checkpoints()
        .disable_unaligned_checkpoints()
        .is_unaligned_checkpoints_enabled()
    )
    assert not config.is_externalized_checkpoints_enabled()
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert config.is_externalized_checkpoints_enabled()


def test_checkpoint_settings_reach_the_engine(env):
    config = env.get_checkpoint_config().set_checkpoint_interval(1000).set_checkpoint_timeout(7000)
    config.set_min_pause_between_checkpoints(30).set_tolerable_checkpoint_failure_number(4)
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    made = settings(env)
    assert (made.checkpoint_interval_ms, made.checkpoint_timeout_ms, made.min_pause_ms) == (1000, 7000, 30)
    assert (made.tolerable_failures, made.delete_on_cancel) == (4, True)


def test_fail_on_checkpointing_errors(env):
    config = env.get_checkpoint_config().set_fail_on_checkpointing_errors(False)
    assert not config.is_fail_on_checkpointing_errors()
    assert settings(env).tolerable_failures == 2**31 - 1
    config.set_fail_on_checkpointing_errors(True)
    assert settings(env).tolerable_failures == 0
    config.set_tolerable_checkpoint_failure_number(2).set_fail_on_checkpointing_errors(True)
    assert settings(env).tolerable_failures == 2
    assert not config.is_fail_on_checkpointing_errors()  # as in PyFlink: the number decides


def test_checkpoint_config_bad_arguments(env):
    config = env.get_checkpoint_config()
    for call in (
        lambda: config.set_checkpointing_mode("EXACTLY_ONCE"),
        lambda: config.set_checkpoint_timeout(0),
        lambda: config.set_min_pause_between_checkpoints(-1),
        lambda: config.set_max_concurrent_checkpoints(0),
        lambda: config.set_tolerable_checkpoint_failure_number(-1),
        lambda: config.enable_unaligned_checkpoints("yes"),
        lambda: config.set_alignment_timeout(5),
        lambda: config.set_externalized_checkpoint_cleanup(1),
        lambda: config.set_checkpoint_storage(5),
        lambda: config.set_checkpoint_storage_dir(""),
        lambda: env.set_state_backend(StateBackend()),
        lambda: env.set_restart_strategy("none"),
        lambda: env.enable_changelog_state_backend("yes"),
        lambda: env.set_runtime_mode("STREAMING"),
        lambda: env.get_config().set_auto_watermark_interval(-1),
        lambda: env.get_config().set_global_job_parameters({1: "a"}),
        lambda: env.configure({"a": "b"}),
    ):
        with pytest.raises(ConfigurationError):
            call()
    assert settings(env) == settings(StreamExecutionEnvironment.get_execution_environment())


def test_the_base_path_is_the_last_folder_that_was_set(env, tmp_path):
    config = env.get_checkpoint_config()
    config.set_checkpoint_storage_dir("relative")
    assert settings(env).base_path == str(tmp_path / "relative")
    config.set_checkpoint_storage(FileSystemCheckpointStorage("file:///a/b"))
    assert config.get_checkpoint_storage().get_checkpoint_path() == "file:/a/b"
    assert settings(env).base_path == "/a/b"
    config.set_checkpoint_storage(JobManagerCheckpointStorage())
    assert settings(env).base_path == str(tmp_path / "changelog-data")
    config.set_checkpoint_storage("/c")
    env.configure(Configuration({"dstl.dfs.base-path": "s3://bucket/log"}))
    assert settings(env).base_path == "s3://bucket/log"
    assert config.get_checkpoint_storage().get_checkpoint_path() == "/c"
    assert with_conf(conf={"state.checkpoints.dir": "/d"}).get_checkpoint_config().get_checkpoint_storage()


def test_checkpoint_storages_give_back_what_they_were_given():
    storage = FileSystemCheckpointStorage("hdfs://host:1/x", 1024, 10)
    assert storage.get_checkpoint_path() == "hdfs://host:1/x"
    assert storage.get_min_file_size_threshold() == storage.get_write_buffer_size() == 1024
    assert storage.get_savepoint_path() is None
    assert FileSystemCheckpointStorage("/x").get_write_buffer_size() == 4096
    assert (
        JobManagerCheckpointStorage().get_max_state_size()
        == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE
    )
    with pytest.raises(ConfigurationError, match="checkpoint_path"):
        FileSystemCheckpointStorage()
    with pytest.raises(ConfigurationError, match="file_state_size_threshold"):
        FileSystemCheckpointStorage("/x", FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD + 1)


def test_changelog_no_preference_lets_the_configuration_decide(env, monkeypatch, tmp_path):
    pytest.importorskip("yaml")
    path = tmp_path / "conf.yaml"
    path.write_text("state.changelog.enabled: true\nexecution.checkpointing.interval: 3 s\n")
    monkeypatch.setenv("CHANGELOG_ENGINE_CONF", str(path))
    from_file = StreamExecutionEnvironment.get_execution_environment()
    assert from_file.is_changelog_state_backend_enabled() is None
    assert settings(from_file).changelog
    assert from_file.get_checkpoint_interval() == 3000
    try:
        set_command_line({"state.backend.changelog.enabled": "false"})
        over_file = StreamExecutionEnvironment.get_execution_environment()
        assert not settings(over_file).changelog
        assert over_file.enable_changelog_state_backend(True) is over_file
        assert over_file.is_changelog_state_backend_enabled() is True
        assert settings(over_file).changelog
    finally:
        set_command_line({})
    assert from_file.enable_changelog_state_backend(False).is_changelog_state_backend_enabled() is False
    assert not settings(from_file).changelog


def test_changelog_without_checkpointing_says_so(env, caplog):
    env.enable_changelog_state_backend(True)
    with caplog.at_level(logging.WARNING, "changelog_engine"):
        assert settings(env).checkpoint_interval_ms == 1000
    assert "checkpointing is off" in caplog.text
    caplog.clear()
    env.enable_checkpointing(300)
    assert settings(env).checkpoint_interval_ms == 300
    assert not caplog.records


def test_the_later_of_setter_and_configuration_holds(env):
    env.enable_changelog_state_backend(True)
    env.configure(Configuration({"state.backend.changelog.enabled": "false"}))
    assert env.is_changelog_state_backend_enabled() is False
    env.enable_changelog_state_backend(True)
    assert env.is_changelog_state_backend_enabled() is True


@pytest.mark.parametrize(
    ("set_it", "key", "text", "getter", "value"),
    [
        (lambda c: c.enable_force_kryo(), "pipeline.force-kryo", "false", "is_force_kryo_enabled", False),
        (lambda c: c.enable_force_avro(), "pipeline.force-avro", "false", "is_force_avro_enabled", False),
        (
            lambda c: c.disable_generic_types(),
            "pipeline.generic-types",
            "true",
            "has_generic_types_disabled",
            False,
        ),
        (
            lambda c: c.disable_auto_type_registration(),
            "pipeline.auto-type-registration",
            "true",
            "is_auto_type_registration_disabled",
            False,
        ),
        (
            lambda c: c.disable_closure_cleaner(),
            "pipeline.closure-cleaner-level",
            "RECURSIVE",
            "is_closure_cleaner_enabled",
            True,
        ),
        (
            lambda c: c.set_use_snapshot_compression(True),
            "execution.checkpointing.snapshot-compression",
            "false",
            "is_use_snapshot_compression",
            False,
        ),
        (
            lambda c: c.set_latency_tracking_interval(-5),
            "metrics.latency.interval",
            "7 ms",
            "get_latency_tracking_interval",
            7,
        ),
        (
            lambda c: c.set_task_cancellation_interval(2**40),
            "task.cancellation.interval",
            "7",
            "get_task_cancellation_interval",
            7,
        ),
        (
            lambda c: c.set_task_cancellation_timeout(5),
            "task.cancellation.timeout",
            "7",
            "get_task_cancellation_timeout",
            7,
        ),
    ],
)
def test_the_later_holds_of_what_has_no_effect_too(env, set_it, key, text, getter, value):
    config = env.get_config()
    set_it(config)
    assert getattr(config, getter)() != value
    env.configure(Configuration({key: text}))
    assert getattr(config, getter)() == value


def test_the_later_of_objects_and_configuration_holds(env):
    config = env.get_config().set_global_job_parameters({"a": "1"})
    env.configure(Configuration({"pipeline.global-job-parameters": "a:2,b:3"}))
    assert config.get_global_job_parameters() == {"a": "2", "b": "3"}
    assert settings(env).parameters == {"a": "2", "b": "3"}
    assert config.set_global_job_parameters({"z": "1"}).get_global_job_parameters() == {"z": "1"}
    storages = env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage())
    env.configure(Configuration({"state.checkpoints.dir": "file:///tmp/z"}))
    assert storages.get_checkpoint_storage().get_checkpoint_path() == "file:/tmp/z"
    assert settings(env).max_state_bytes is None


def test_a_buffer_timeout_that_is_off_stays_off(env):
    assert env.set_buffer_timeout(5).get_buffer_timeout() == 5
    env.configure(Configuration({"execution.buffer-timeout.interval": "7 ms"}))
    assert env.get_buffer_timeout() == 7
    assert env.set_buffer_timeout(-1).set_buffer_timeout(9).get_buffer_timeout() == -1  # as PyFlink 1.20


def test_a_configuration_that_cannot_be_used_changes_nothing(env):
    with pytest.raises(ConfigurationError, match="did you mean"):
        env.configure(Configuration({"parallelism.default": "9", "changelog.restor": "auto"}))
    assert env.get_parallelism() != 9 or len(os.sched_getaffinity(0)) == 9


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (RestartStrategies.no_restart(), RestartSettings(RestartKind.NONE)),
        (
            RestartStrategies.fixed_delay_restart(3, 100),
            RestartSettings(RestartKind.FIXED_DELAY, attempts=3, delay_ms=100),
        ),
        (
            RestartStrategies.failure_rate_restart(2, 5000, 10),
            RestartSettings(RestartKind.FAILURE_RATE, failures=2, interval_ms=5000, delay_ms=10),
        ),
        (
            RestartStrategies.exponential_delay_restart(1, 100, 3.0, 2000),
            RestartSettings(
                RestartKind.EXPONENTIAL_DELAY,
                initial_backoff_ms=1,
                max_backoff_ms=100,
                backoff_multiplier=3.0,
                reset_backoff_ms=2000,
            ),
        ),
        (RestartStrategies.fall_back_restart(), None),
    ],
)
def test_the_last_restart_strategy_holds(env, strategy, expected):
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(9, 9))
    env.set_restart_strategy(strategy)
    assert env.get_restart_strategy() == strategy
    assert settings(env).restart == expected
    env.get_config().set_restart_strategy(RestartStrategies.no_restart())
    assert env.get_config().get_restart_strategy() == RestartStrategies.no_restart()


def test_restart_strategy_of_the_configuration():
    env = with_conf(conf={"restart-strategy": "fixed-delay", "restart-strategy.fixed-delay.delay": "2 s"})
    assert settings(env).restart == RestartSettings(RestartKind.FIXED_DELAY, attempts=1, delay_ms=2000)


def test_the_state_backend_is_given_back(env):
    assert env.set_state_backend(HashMapStateBackend()) is env
    assert env.get_state_backend() == HashMapStateBackend()


def test_the_runtime_mode_is_one_of_the_enum(env):
    assert env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC) is env
    with pytest.raises(ConfigurationError, match="set_runtime_mode"):
        env.set_runtime_mode("BATCH")


def test_other_options_reach_the_engine():
    env = with_conf(
        conf={
            "python.fn-execution.bundle.size": 7,
            "changelog.restore": "as-of:2024-01-01T00:00:00Z",
            "changelog.epoch.target": "2 s",
            "changelog.epoch.read-ahead": "true",
            "changelog.part.max-bytes": "1 mb",
            "execution.checkpointing.num-retained": "3",
            "pipeline.global-job-parameters": "a:1,b:2",
            "spark.master": "local[2]",
            "taskmanager.numberOfTaskSlots": "4",
        }
    )
    made = settings(env)
    assert made.epoch_max_records == 7
    assert made.restore == "as-of:2024-01-01T00:00:00Z"
    assert (made.epoch_target_ms, made.part_max_bytes, made.retained_checkpoints) == (2000, 1 << 20, 3)
    assert made.read_ahead
    assert made.parameters == {"a": "1", "b": "2"}
    assert made.spark == {"spark.master": "local[2]"}
    env.get_config().set_global_job_parameters({"c": "3"})
    assert settings(env).parameters == {"c": "3"} == env.get_config().get_global_job_parameters()


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("changelog.restore", "yesterday", ConfigurationError),
        ("execution.state-recovery.claim-mode", "LEGACY", ConfigurationError),
        ("changelog.lineage.records", "true", NotSupportedError),
    ],
)
def test_values_that_are_refused(env, key, value, error):
    with pytest.raises(error):
        env.configure(Configuration({key: value}))


@pytest.mark.parametrize(
    "point",
    [
        "latest",
        "3",
        "-2",
        "attempt:1",
        "12:00:05",
        "12:00",
        "2026-01-31",
        "2026-01-31T12:00:05",
        "as-of:2026-01-31",
    ],
)
def test_a_run_begins_at_every_form_of_a_point(env, point):
    assert is_point(point)
    env.configure(Configuration({"changelog.restore": point}))
    assert settings(env).restore == point
