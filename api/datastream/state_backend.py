"""State backends: where the working state is kept."""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import ConfigurationError
from changelog_engine.state.backends import CUSTOM, HASHMAP, ROCKSDB, check_backend_class

from .._arguments import flag, text
from .._unsupported import module_getattr
from ._rocksdb_settings import PredefinedOptions, RocksDBSettings
from .checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    normalized,
)

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
]


class StateBackend:
    """Where the working state of a job is kept between checkpoints. Base class; see `HashMapStateBackend`.

    Source: pyflink.datastream.StateBackend
    """

    _kind: str | None = None

    def _options(self) -> dict[str, str]:
        """What was set on the backend, by Flink's keys."""
        return {}

    def _storage(self) -> CheckpointStorage | None:
        """The checkpoint storage that the backend brings along, which goes before any other."""
        return None


class HashMapStateBackend(StateBackend):
    """Keeps the working state as Python objects in the memory of the worker processes.

    The state of all keys must fit there. This is the default.

    Source: pyflink.datastream.HashMapStateBackend
    """

    _kind = HASHMAP

    def __eq__(self, other: object) -> bool:
        """All of them are the same."""
        return isinstance(other, HashMapStateBackend)

    def __hash__(self) -> int:
        """One for all."""
        return hash(HashMapStateBackend)


class EmbeddedRocksDBStateBackend(RocksDBSettings, StateBackend):
    """Keeps the working state in RocksDB on the local disks of the workers: it may be larger than memory.

    Entries in use are kept decoded in a cache (``changelog.rocksdb.cache-size`` of each subtask); timers stay in memory.
    All options ``state.backend.rocksdb.*`` that mean something here hold too, see docs/configuration.md.

    Args:
        enable_incremental_checkpointing: kept and given back; None for the default, False.

    Raises:
        ConfigurationError: no bool.

    Example:
        >>> backend = EmbeddedRocksDBStateBackend()
        >>> backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
        >>> backend.set_db_storage_paths("file:///fast/disk")
        >>> backend.get_db_storage_paths()
        ['/fast/disk']

    Source: pyflink.datastream.EmbeddedRocksDBStateBackend
    """

    _kind = ROCKSDB

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        super().__init__("EmbeddedRocksDBStateBackend", enable_incremental_checkpointing)

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Keep the number of threads that move files in checkpoints; none are moved here.

        Args:
            number_of_transfering_threads: at least 1.

        Raises:
            ConfigurationError: out of range.
        """
        self._set_threads("set_number_of_transfer_threads", number_of_transfering_threads)

    def get_number_of_transfer_threads(self) -> int:
        """The number set; default 4."""
        return self._get_threads()


class CustomStateBackend(StateBackend):
    """A state backend of your own: a Python class that follows the protocol ``StateBackend`` of
    `changelog_engine.state.backend`.

    The engine makes one object in each subtask, without arguments, and works on its tables; with the changelog on, every
    mutation is logged round it. A class that derives from ``changelog_engine.state.heap.HeapBackend`` needs only its own
    ``table``.

    Args:
        state_backend: the class, a function that makes the backend, or the class's path such as ``module.Class``.

    Raises:
        ConfigurationError: a class without the protocol's methods, or nothing of these.

    Example:
        >>> from changelog_engine.state.heap import HeapBackend
        >>> class Mine(HeapBackend):
        ...     def table(self, operator, state, kind=None):
        ...         return self.tables.setdefault((operator, state), {})
        >>> backend = CustomStateBackend(Mine)

    Source: pyflink.datastream.CustomStateBackend
    """  # noqa: D205

    _kind = CUSTOM

    def __init__(self, state_backend: Any) -> None:
        if isinstance(state_backend, str):
            text(state_backend, "CustomStateBackend: state_backend")
        else:
            check_backend_class(state_backend, "CustomStateBackend: state_backend")
        self._backend = state_backend

    def __repr__(self) -> str:
        """With what it wraps."""
        return f"CustomStateBackend({self._backend!r})"


class MemoryStateBackend(StateBackend):
    """The working state in memory, and checkpoints as `JobManagerCheckpointStorage` keeps them. Deprecated.

    Use `HashMapStateBackend` with `JobManagerCheckpointStorage`. The storage it brings along goes before the one of the
    CheckpointConfig.

    Args:
        checkpoint_path: folder or URI, or None.
        savepoint_path: kept; None for none.
        max_state_size: bytes of one state in a full snapshot; default 5242880.
        using_asynchronous_snapshots: kept and given back; None for the default, True.

    Raises:
        ConfigurationError: an argument that cannot be used.

    Source: pyflink.datastream.MemoryStateBackend
    """

    DEFAULT_MAX_STATE_SIZE = JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE
    _kind = HASHMAP

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        what = "MemoryStateBackend"
        self._checkpoints = JobManagerCheckpointStorage(checkpoint_path, max_state_size)
        self._savepoints = _path_or_none(savepoint_path, f"{what}: savepoint_path")
        self._asynchronous = _asynchronous(using_asynchronous_snapshots, what)

    def get_max_state_size(self) -> int:
        """The size given in bytes; default 5242880."""
        return self._checkpoints.get_max_state_size()

    def is_using_asynchronous_snapshots(self) -> bool:
        """As given; default True."""
        return self._asynchronous

    def _storage(self) -> CheckpointStorage:
        return self._checkpoints

    def __str__(self) -> str:
        """Its settings."""
        return (
            f"MemoryStateBackend(checkpoint_path={self._checkpoints.get_checkpoint_path()}, "
            f"savepoint_path={self._savepoints}, max_state_size={self.get_max_state_size()}, "
            f"using_asynchronous_snapshots={self._asynchronous})"
        )


class FsStateBackend(StateBackend):
    """The working state in memory, and checkpoints as `FileSystemCheckpointStorage` keeps them. Deprecated.

    Use `HashMapStateBackend` with `FileSystemCheckpointStorage`. The storage it brings along goes before the one of the
    CheckpointConfig.

    Args:
        checkpoint_directory_uri: folder or URI.
        default_savepoint_directory_uri: kept; None for none.
        file_state_size_threshold: kept and given back, in bytes; default 20480, at most 1048576.
        write_buffer_size: kept and given back, in bytes; default 4096.
        using_asynchronous_snapshots: kept and given back; None for the default, True.

    Raises:
        ConfigurationError: an argument that cannot be used.

    Source: pyflink.datastream.FsStateBackend
    """

    _kind = HASHMAP

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        what = "FsStateBackend"
        if checkpoint_directory_uri is None:
            raise ConfigurationError(
                f"{what}: checkpoint_directory_uri is needed, such as 'file:///data/checkpoints'"
            )
        self._checkpoints = FileSystemCheckpointStorage(
            checkpoint_directory_uri,
            file_state_size_threshold,
            -1 if write_buffer_size is None else write_buffer_size,
        )
        self._savepoints = _path_or_none(
            default_savepoint_directory_uri, f"{what}: default_savepoint_directory_uri"
        )
        self._asynchronous = _asynchronous(using_asynchronous_snapshots, what)

    def get_checkpoint_path(self) -> str:
        """The folder given."""
        return self._checkpoints.get_checkpoint_path()

    def get_min_file_size_threshold(self) -> int:
        """The threshold given, in bytes; default 20480."""
        return self._checkpoints.get_min_file_size_threshold()

    def get_write_buffer_size(self) -> int:
        """The buffer size, in bytes; default 4096."""
        return self._checkpoints.get_write_buffer_size()

    def is_using_asynchronous_snapshots(self) -> bool:
        """As given; default True."""
        return self._asynchronous

    def _storage(self) -> CheckpointStorage:
        return self._checkpoints


class RocksDBStateBackend(RocksDBSettings, StateBackend):
    """The working state in RocksDB, with a checkpoint storage. Deprecated.

    Use `EmbeddedRocksDBStateBackend` with `FileSystemCheckpointStorage`. The storage it brings along goes before the one of
    the CheckpointConfig.

    Args:
        checkpoint_data_uri: folder or URI of the checkpoints.
        enable_incremental_checkpointing: kept and given back; None for the default, False.
        checkpoint_stream_backend: instead of the folder, an `FsStateBackend` or `MemoryStateBackend` whose storage it uses.

    Raises:
        ConfigurationError: neither folder nor backend, or another argument that cannot be used.

    Example:
        >>> RocksDBStateBackend("file:///data/checkpoints").get_checkpoint_backend().get_checkpoint_path()
        'file:/data/checkpoints'

    Source: pyflink.datastream.RocksDBStateBackend
    """

    _kind = ROCKSDB

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
    ) -> None:
        what = "RocksDBStateBackend"
        super().__init__(what, enable_incremental_checkpointing)
        if checkpoint_data_uri is not None:
            self._checkpoint_backend: StateBackend = FsStateBackend(checkpoint_data_uri)
        elif isinstance(checkpoint_stream_backend, StateBackend):
            self._checkpoint_backend = checkpoint_stream_backend
        else:
            raise ConfigurationError(
                f"{what} needs checkpoint_data_uri, such as 'file:///data/checkpoints', or checkpoint_stream_backend, "
                f"a StateBackend; got {checkpoint_stream_backend!r}"
            )

    def get_checkpoint_backend(self) -> StateBackend:
        """The backend whose checkpoint storage it uses."""
        return self._checkpoint_backend

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """Keep the number of threads that move files in checkpoints; none are moved here.

        Args:
            number_of_transfering_threads: at least 1.

        Raises:
            ConfigurationError: out of range.
        """
        self._set_threads("set_number_of_transfering_threads", number_of_transfering_threads)

    def get_number_of_transfering_threads(self) -> int:
        """The number set; default 4."""
        return self._get_threads()

    def _storage(self) -> CheckpointStorage | None:
        return self._checkpoint_backend._storage()


def _path_or_none(path: Any, what: str) -> str | None:
    return None if path is None else normalized(text(path, what))


def _asynchronous(value: Any, what: str) -> bool:
    return True if value is None else flag(value, f"{what}: using_asynchronous_snapshots")


__getattr__ = module_getattr(__name__)
