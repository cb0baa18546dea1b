"""StateTtlConfig: defaults, getters, what the engine reads, and bad arguments."""

from __future__ import annotations

import pickle

import cloudpickle
import pytest

import api.datastream
from api.common import Duration, Time, Types
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import TtlSpec

Cleanup = StateTtlConfig.CleanupStrategies
BACKGROUND = {"incremental_size": 5, "every_record": False, "filter_entries": 1_000}


class Sum(api.datastream.AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def builder() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.seconds(5))


def test_defaults():
    config = builder().build()
    assert config.get_ttl() == Time.seconds(5)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.is_enabled()
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert compaction.get_query_time_after_num_entries() == 1_000
    assert compaction.get_periodic_compaction_time() == Duration.of_days(30)
    assert config.to_spec() == TtlSpec(5_000, **BACKGROUND)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda b: b.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite), {"renew_on_read": True}),
        (lambda b: b.update_ttl_on_read_and_write(), {"renew_on_read": True}),
        (lambda b: b.update_ttl_on_read_and_write().update_ttl_on_create_and_write(), {}),
        (
            lambda b: b.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp),
            {"return_expired": True},
        ),
        (lambda b: b.return_expired_if_not_cleaned_up(), {"return_expired": True}),
        (lambda b: b.return_expired_if_not_cleaned_up().never_return_expired(), {}),
        (lambda b: b.use_processing_time(), {}),
        (lambda b: b.set_ttl(Time.hours(1)), {"ttl_ms": 3_600_000}),
        (lambda b: b.set_ttl(Duration.of_minutes(2)), {"ttl_ms": 120_000}),
        (lambda b: b.cleanup_full_snapshot(), {"in_full_snapshot": True}),
        (lambda b: b.cleanup_incrementally(7, True), {"incremental_size": 7, "every_record": True}),
        (lambda b: b.cleanup_incrementally(7, 1), {"incremental_size": 7, "every_record": True}),
        (lambda b: b.cleanup_in_rocksdb_compact_filter(9), {"filter_entries": 9}),
        (lambda b: b.disable_cleanup_in_background(), {"incremental_size": 0, "filter_entries": 0}),
        (
            lambda b: b.disable_cleanup_in_background().cleanup_incrementally(7, False),
            {"incremental_size": 7, "filter_entries": 0},
        ),
        (
            lambda b: b.cleanup_in_rocksdb_compact_filter(9).disable_cleanup_in_background(),
            {"incremental_size": 0, "filter_entries": 9},
        ),
    ],
)
def test_what_the_engine_reads(call, expected):
    begun = builder()
    assert call(begun) is begun
    assert begun.build().to_spec() == TtlSpec(**{"ttl_ms": 5_000, **BACKGROUND, **expected})


def test_disabled_is_no_time_to_live():
    config = builder().set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    assert not config.is_enabled()
    assert config.to_spec() is None
    descriptor = ValueStateDescriptor("s", Types.LONG())
    descriptor.enable_time_to_live(config)
    assert descriptor.to_spec().ttl is None


def test_a_built_config_does_not_follow_its_builder():
    begun = builder()
    config = begun.build()
    begun.cleanup_full_snapshot().set_ttl(Time.days(1))
    assert config.to_spec() == TtlSpec(5_000, **BACKGROUND)


def test_no_background_no_default_strategies():
    cleanup = Cleanup({}, False)
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None
    asked = Cleanup.RocksdbCompactFilterCleanupStrategy(3, Duration.of_days(1))
    cleanup = Cleanup(
        {
            Cleanup.Strategies.ROCKSDB_COMPACTION_FILTER: asked,
            Cleanup.Strategies.FULL_STATE_SCAN_SNAPSHOT: Cleanup.EMPTY_STRATEGY,
        },
        False,
    )
    assert cleanup.in_full_snapshot()
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is asked
    assert asked.get_periodic_compaction_time() == Duration.of_days(1)
    for strategy in (asked, Cleanup.EMPTY_STRATEGY, Cleanup.IncrementalCleanupStrategy(1, False)):
        assert isinstance(strategy, Cleanup.CleanupStrategy)


def test_all_kinds_of_state_take_it():
    config = builder().build()
    for descriptor in (
        ValueStateDescriptor("s", Types.LONG()),
        ListStateDescriptor("s", Types.LONG()),
        MapStateDescriptor("s", Types.LONG(), Types.LONG()),
        ReducingStateDescriptor("s", lambda a, b: a, Types.LONG()),
        AggregatingStateDescriptor("s", Sum(), Types.LONG()),
    ):
        assert descriptor.to_spec().ttl is None
        descriptor.enable_time_to_live(config)
        assert descriptor.to_spec().ttl == TtlSpec(5_000, **BACKGROUND)


def test_configs_are_shipped_with_functions():
    config = builder().cleanup_full_snapshot().cleanup_incrementally(3, True).build()
    for dumps in (pickle.dumps, cloudpickle.dumps):
        assert pickle.loads(dumps(config)).to_spec() == config.to_spec()


def test_the_constructor_and_its_text():
    config = StateTtlConfig(
        StateTtlConfig.UpdateType.OnReadAndWrite,
        StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
        StateTtlConfig.TtlTimeCharacteristic.ProcessingTime,
        Time.seconds(1),
        Cleanup({}, False),
    )
    assert config.to_spec() == TtlSpec(1_000, renew_on_read=True, return_expired=True)
    assert repr(config) == (
        "StateTtlConfig(ttl=Time(1000 ms), update_type=OnReadAndWrite, "
        "state_visibility=ReturnExpiredIfNotCleanedUp, ttl_time_characteristic=ProcessingTime)"
    )


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: StateTtlConfig.new_builder(5), "new_builder"),
        (lambda: StateTtlConfig.new_builder(Time.seconds(0)), "at least a millisecond"),
        (lambda: StateTtlConfig.new_builder(Duration.of_nanos(10)), "at least a millisecond"),
        (lambda: builder().set_ttl(None), "set_ttl"),
        (lambda: builder().set_update_type("OnReadAndWrite"), "set_update_type.*UpdateType.OnReadAndWrite"),
        (lambda: builder().set_state_visibility(1), "set_state_visibility"),
        (lambda: builder().set_ttl_time_characteristic(0), "set_ttl_time_characteristic"),
        (lambda: builder().cleanup_incrementally(0, False), "cleanup_size"),
        (lambda: builder().cleanup_incrementally(1, "yes"), "run_cleanup_for_every_record"),
        (lambda: builder().cleanup_in_rocksdb_compact_filter(0), "query_time_after_num_entries"),
        (lambda: builder().cleanup_in_rocksdb_compact_filter(1, 30), "periodic_compaction_time"),
        (lambda: StateTtlConfig(1, 1, 0, Time.seconds(1), None), "update_type"),
        (lambda: ValueStateDescriptor("s", Types.LONG()).enable_time_to_live(builder()), r"'s'.*build\(\)"),
        (lambda: ValueStateDescriptor("s", Types.LONG()).enable_time_to_live(5), "'s'.*StateTtlConfig"),
    ],
)
def test_bad_arguments_are_named(call, names):
    with pytest.raises(ConfigurationError, match=names):
        call()


def test_enum_values_and_exports():
    assert [(each.name, each.value) for each in StateTtlConfig.UpdateType] == [
        ("Disabled", 0),
        ("OnCreateAndWrite", 1),
        ("OnReadAndWrite", 2),
    ]
    assert api.datastream.StateTtlConfig is StateTtlConfig
    assert Cleanup.Strategies["INCREMENTAL_CLEANUP"].value == 1
