"""StateTtlConfig: how long state lives that nobody uses."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Self

from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import TtlSpec

from .._arguments import Whole, checked, checked_later
from ..common.time import Duration, Time

_Count = Annotated[int, Whole(1)]


class CleanupStrategies:
    """How expired entries are removed that nobody reads. One that is read is removed then, whatever this says.

    Args:
        strategies: what was asked for.
        is_cleanup_in_background: whether a backend's own strategy runs when none was asked for.
    """

    class Strategies(Enum):
        """The strategies there are."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class CleanupStrategy:
        """Base of the strategies' settings."""

    class EmptyCleanupStrategy(CleanupStrategy):
        """A strategy that has no settings."""

    @checked
    class IncrementalCleanupStrategy(CleanupStrategy):
        """Some keys are checked at each access to the state. It works on the heap backend.

        Args:
            cleanup_size: how many keys at a time.
            run_cleanup_for_every_record: the same again for each record, whether or not it accesses the state.

        Raises:
            ConfigurationError: a size below 1, or no flag.
        """

        def __init__(
            self, cleanup_size: _Count, run_cleanup_for_every_record: Annotated[bool, checked_later]
        ) -> None:
            self._cleanup_size = cleanup_size
            if run_cleanup_for_every_record not in (0, 1):
                raise ConfigurationError(
                    "IncrementalCleanupStrategy: run_cleanup_for_every_record must be True or False, got "
                    f"{run_cleanup_for_every_record!r}"
                )
            self._run_cleanup_for_every_record = bool(run_cleanup_for_every_record)

        def get_cleanup_size(self) -> int:
            """How many keys are checked at a time."""
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """Whether each record has keys checked."""
            return self._run_cleanup_for_every_record

    @checked
    class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
        """Expired entries leave the tables of the RocksDB backend.

        Here the end of each epoch checks some keys, in turn, instead of RocksDB's compaction: what a compaction
        removes would be missing in the changelog.

        Args:
            query_time_after_num_entries: after how many keys the check reads the clock anew.
            periodic_compaction_time: kept and given back; files need no compaction to be checked. None: 30 days.

        Raises:
            ConfigurationError: a number below 1, or something that is not a Duration.
        """

        def __init__(
            self, query_time_after_num_entries: _Count, periodic_compaction_time: Duration | None = None
        ) -> None:
            self._query_time_after_num_entries = query_time_after_num_entries
            self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

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

    def get_incremental_cleanup_strategy(self) -> CleanupStrategies.IncrementalCleanupStrategy | None:
        """What runs on the heap backend: what was asked for, else 5 keys at each access, or None without background."""
        default = self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None
        found = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP, default)
        return found if isinstance(found, self.IncrementalCleanupStrategy) else None

    def get_rocksdb_compact_filter_cleanup_strategy(
        self,
    ) -> CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
        """What runs on the RocksDB backend: what was asked for, else one of 1000, or None without background."""
        default = self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None
        found = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER, default)
        return found if isinstance(found, self.RocksdbCompactFilterCleanupStrategy) else None


_Strategies = CleanupStrategies  # inside StateTtlConfig, the plain name is its attribute


@checked
class StateTtlConfig:
    """How long the entries of a state live, and who removes those that expired. Made by ``new_builder``.

    A value expires as a whole, a list by element, a map by entry: when its last access is as long ago as the ``ttl`` says.
    Time is that of the machine's clock. Each removal is a row of the changelog. A restore brings no expired entry back.

    Args:
        update_type: what counts as an access.
        state_visibility: whether reading may give an expired value that was not removed yet.
        ttl_time_characteristic: whose time it is.
        cleanup_strategies: how expired entries are removed that nobody reads.

    Raises:
        ConfigurationError: an argument of another type, or a ttl that is not positive.

    Example:
        >>> from changelog_engine.api.common import Time, Types
        >>> from changelog_engine.api.datastream.state import ValueStateDescriptor
        >>> config = (
        ...     StateTtlConfig.new_builder(Time.hours(1))
        ...     .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        ...     .never_return_expired()
        ...     .build()
        ... )
        >>> descriptor = ValueStateDescriptor("session", Types.STRING())
        >>> descriptor.enable_time_to_live(config)
    """

    class UpdateType(Enum):
        """What counts as an access, from which on an entry lives its time.

        Disabled: entries never expire. OnCreateAndWrite: each write, the first one included. OnReadAndWrite: each read too;
        then a read is a mutation in the log.
        """

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether reading may give an expired value.

        ReturnExpiredIfNotCleanedUp: it does as long as the value is there; reading it removes it. NeverReturnExpired: it
        never does.
        """

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """Whose time it is. There is only ProcessingTime: that of the machine's clock."""

        ProcessingTime = 0

    CleanupStrategies = CleanupStrategies

    @checked
    class Builder:
        """Builds a StateTtlConfig; every method but ``build`` gives the builder back.

        Without further calls: access is OnCreateAndWrite, NeverReturnExpired, ProcessingTime, clean-up in the background.

        Args:
            ttl: how long entries live.
        """

        def __init__(self, ttl: Time | Duration) -> None:
            self._ttl = _positive(ttl, "StateTtlConfig.new_builder")
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[Any, Any] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> Self:
            """Say what counts as an access.

            Args:
                update_type: default OnCreateAndWrite.
            """
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> Self:
            """As ``set_update_type(OnCreateAndWrite)``."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> Self:
            """As ``set_update_type(OnReadAndWrite)``."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> Self:
            """Say whether reading may give an expired value.

            Args:
                state_visibility: default NeverReturnExpired.
            """
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> Self:
            """As ``set_state_visibility(ReturnExpiredIfNotCleanedUp)``."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> Self:
            """As ``set_state_visibility(NeverReturnExpired)``."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> Self:
            """Say whose time it is.

            Args:
                ttl_time_characteristic: ProcessingTime, the only one.
            """
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> Self:
            """As ``set_ttl_time_characteristic(ProcessingTime)``."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> Self:
            """Have full snapshots leave expired entries out.

            Full snapshots are what a checkpoint writes without the changelog; the entries leave the state just before. With
            the changelog there is no such scan.
            """
            strategies = CleanupStrategies
            return self._clean(strategies.Strategies.FULL_STATE_SCAN_SNAPSHOT, strategies.EMPTY_STRATEGY)

        def cleanup_incrementally(
            self,
            cleanup_size: Annotated[int, checked_later],
            run_cleanup_for_every_record: Annotated[bool, checked_later],
        ) -> Self:
            """Check some keys at each access to the state, going round all of them. It works on the heap backend.

            State that nobody accesses is not cleaned. Each check costs time; the keys are those of one subtask.

            Args:
                cleanup_size: how many keys at a time.
                run_cleanup_for_every_record: the same again for each record, whether or not it accesses the state. The
                    engine does it for a batch of records at once.

            Raises:
                ConfigurationError: a size below 1, or no flag.
            """
            strategies = CleanupStrategies
            return self._clean(
                strategies.Strategies.INCREMENTAL_CLEANUP,
                strategies.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record),
            )

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: Annotated[int, checked_later],
            periodic_compaction_time: Annotated[Duration | None, checked_later] = None,
        ) -> Self:
            """Remove expired entries from the tables of the RocksDB backend.

            The end of each epoch checks some keys, in turn: a compaction would remove entries without the changelog.

            Args:
                query_time_after_num_entries: after how many keys the check reads the clock anew.
                periodic_compaction_time: kept and given back by the strategy. None: 30 days.

            Raises:
                ConfigurationError: a number below 1, or something that is not a Duration.
            """
            strategies = CleanupStrategies
            return self._clean(
                strategies.Strategies.ROCKSDB_COMPACTION_FILTER,
                strategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                ),
            )

        def _clean(self, strategy: Any, settings: Any) -> Self:
            self._strategies[strategy] = settings
            return self

        def disable_cleanup_in_background(self) -> Self:
            """Run no clean-up but those that are asked for. By default a backend's own one runs."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration) -> Self:
            """Say how long entries live."""
            self._ttl = _positive(ttl, "Builder.set_ttl")
            return self

        def build(self) -> StateTtlConfig:
            """The StateTtlConfig."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )

    def __init__(
        self,
        update_type: StateTtlConfig.UpdateType,
        state_visibility: StateTtlConfig.StateVisibility,
        ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic,
        ttl: Time | Duration,
        cleanup_strategies: _Strategies,
    ) -> None:
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = _positive(ttl, "StateTtlConfig")
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfig.Builder:
        """Begin a config.

        Args:
            ttl: how long entries live.
        """
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """What counts as an access."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Whether reading may give an expired value."""
        return self._state_visibility

    def get_ttl(self) -> Time | Duration:
        """How long entries live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Whose time it is."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether entries expire at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> _Strategies:
        """How expired entries are removed that nobody reads."""
        return self._cleanup_strategies

    def to_spec(self) -> TtlSpec | None:
        """What the engine reads; None when entries never expire."""
        if not self.is_enabled():
            return None
        cleanup = self._cleanup_strategies
        incremental = cleanup.get_incremental_cleanup_strategy()
        compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
        return TtlSpec(
            ttl_ms=self._ttl.to_milliseconds(),
            renew_on_read=self._update_type is StateTtlConfig.UpdateType.OnReadAndWrite,
            return_expired=self._state_visibility
            is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
            in_full_snapshot=cleanup.in_full_snapshot(),
            incremental_size=0 if incremental is None else incremental.get_cleanup_size(),
            every_record=incremental is not None and incremental.run_cleanup_for_every_record(),
            filter_entries=0 if compaction is None else compaction.get_query_time_after_num_entries(),
        )

    def __repr__(self) -> str:
        """Its settings, but for the clean-up."""
        return (
            f"StateTtlConfig(ttl={self._ttl!r}, update_type={self._update_type.name}, "
            f"state_visibility={self._state_visibility.name}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic.name})"
        )


def _positive(ttl: Time | Duration, what: str) -> Time | Duration:
    """The ttl if it is a Time or Duration of at least a millisecond."""
    if ttl.to_milliseconds() < 1:
        raise ConfigurationError(f"{what}: the ttl must be at least a millisecond, got {ttl!r}")
    return ttl
