"""The clean-up strategies of state with a time to live."""

from __future__ import annotations

from enum import Enum
from typing import Any

from changelog_engine.errors import ArgumentTypeError, ConfigurationError

from .._arguments import whole_number
from ..common.time import Duration


class CleanupStrategies:
    """How expired entries are removed that nobody reads. One that is read is removed then, whatever this says.

    Args:
        strategies: what was asked for.
        is_cleanup_in_background: whether a backend's own strategy runs when none was asked for.

    Source: pyflink.datastream.state.StateTtlConfig.CleanupStrategies
    """

    class Strategies(Enum):
        """The strategies there are.

        Source: pyflink.datastream.state.StateTtlConfig.CleanupStrategies.Strategies
        """

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class CleanupStrategy:
        """Base of the strategies' settings.

        Source: pyflink.datastream.state.StateTtlConfig.CleanupStrategies.CleanupStrategy
        """

    class EmptyCleanupStrategy(CleanupStrategy):
        """A strategy that has no settings.

        Source: pyflink.datastream.state.StateTtlConfig.CleanupStrategies.EmptyCleanupStrategy
        """

    class IncrementalCleanupStrategy(CleanupStrategy):
        """Some keys are checked at each access to the state. It works on the heap backend.

        Args:
            cleanup_size: how many keys at a time.
            run_cleanup_for_every_record: the same again for each record, whether or not it accesses the state.

        Raises:
            ConfigurationError: a size below 1, or no flag.

        Source: pyflink.datastream.state.StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy
        """

        def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
            what = "IncrementalCleanupStrategy"
            self._cleanup_size = whole_number(cleanup_size, f"{what}: cleanup_size", 1)
            if run_cleanup_for_every_record not in (0, 1):
                raise ConfigurationError(
                    f"{what}: run_cleanup_for_every_record must be True or False, got "
                    f"{run_cleanup_for_every_record!r}"
                )
            self._run_cleanup_for_every_record = bool(run_cleanup_for_every_record)

        def get_cleanup_size(self) -> int:
            """How many keys are checked at a time."""
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """Whether each record has keys checked."""
            return self._run_cleanup_for_every_record

    class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
        """Expired entries leave the tables of the RocksDB backend.

        Here the end of each epoch checks some keys, in turn, instead of RocksDB's compaction: what a compaction
        removes would be missing in the changelog.

        Args:
            query_time_after_num_entries: after how many keys the check reads the clock anew.
            periodic_compaction_time: kept and given back; files need no compaction to be checked. None: 30 days.

        Raises:
            ConfigurationError: a number below 1, or something that is no Duration.

        Source: pyflink.datastream.state.StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy
        """

        def __init__(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: Duration | None = None,
        ) -> None:
            what = "RocksdbCompactFilterCleanupStrategy"
            self._query_time_after_num_entries = whole_number(
                query_time_after_num_entries, f"{what}: query_time_after_num_entries", 1
            )
            if periodic_compaction_time is None:
                periodic_compaction_time = Duration.of_days(30)
            elif not isinstance(periodic_compaction_time, Duration):
                raise ArgumentTypeError(
                    f"{what}: periodic_compaction_time must be a Duration, got {periodic_compaction_time!r}"
                )
            self._periodic_compaction_time = periodic_compaction_time

        def get_query_time_after_num_entries(self) -> int:
            """After how many keys the check reads the clock anew."""
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Duration:
            """What was given."""
            return self._periodic_compaction_time

    EMPTY_STRATEGY = EmptyCleanupStrategy()

    def __init__(
        self,
        strategies: dict[CleanupStrategies.Strategies, CleanupStrategies.CleanupStrategy],
        is_cleanup_in_background: bool,
    ) -> None:
        self._strategies = dict(strategies)
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Whether a backend's own strategy runs when none was asked for."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Whether full snapshots leave expired entries out."""
        return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(
        self,
    ) -> CleanupStrategies.IncrementalCleanupStrategy:
        """What runs on the heap backend: what was asked for, else 5 keys at each access, or None without background."""
        default = self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None
        return self._of(self.Strategies.INCREMENTAL_CLEANUP, default)

    def get_rocksdb_compact_filter_cleanup_strategy(
        self,
    ) -> CleanupStrategies.RocksdbCompactFilterCleanupStrategy:
        """What runs on the RocksDB backend: what was asked for, else one of 1000, or None without background."""
        default = self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None
        return self._of(self.Strategies.ROCKSDB_COMPACTION_FILTER, default)

    def _of(self, strategy: Any, default: Any) -> Any:
        return self._strategies.get(strategy, default)
