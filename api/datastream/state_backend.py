"""State backends: where the working state is kept."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from changelog_engine.config import rocksdb_options as keys
from changelog_engine.errors import ConfigurationError
from changelog_engine.state.backends import CUSTOM, HASHMAP, ROCKSDB, check_backend_class, local_dirs

from .._arguments import Whole, checked, checked_later, text
from .._kept_settings import kept
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
    """Where the working state of a job is kept between checkpoints. Base class; see `HashMapStateBackend`."""

    _kind: str | None = None
    _checkpoints: CheckpointStorage | None = None  # that the backend brings along; it goes before any other

    def _options(self) -> dict[str, str]:
        """What was set on the backend, by Flink's keys."""
        return {}


class HashMapStateBackend(StateBackend):
    """Keeps the working state as Python objects in the memory of the worker processes.

    The state of all keys must fit there. This is the default.
    """

    _kind = HASHMAP

    def __eq__(self, other: object) -> bool:
        """All of them are the same."""
        return isinstance(other, HashMapStateBackend)

    def __hash__(self) -> int:
        """One for all."""
        return hash(HashMapStateBackend)


class PredefinedOptions(Enum):
    """Sets of RocksDB settings for kinds of disks. Writes are never forced to disk: the changelog makes state durable.

    DEFAULT is RocksDB's own; SPINNING_DISK_OPTIMIZED is for spinning disks; SPINNING_DISK_OPTIMIZED_HIGH_MEM is too, and
    uses some 500 MB a subtask; FLASH_SSD_OPTIMIZED is for flash.
    """

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


_Threads = Annotated[int, Whole(1)]


@checked
class _RocksDBBackend(StateBackend):
    """What both backends that keep state in RocksDB are: its paths, settings and threads."""

    _kind = ROCKSDB

    def __init__(self, enable_incremental_checkpointing: bool | None) -> None:
        self._what = type(self).__name__
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] | None = None
        self._predefined: PredefinedOptions | None = None
        self._factory: str | None = None
        self._threads: int | None = None

    def set_db_storage_paths(self, *paths: str | None) -> None:
        """Set the local folders of RocksDB's files. The subtasks of a job are spread over them.

        The folders need not last: state is filled again from the changelog or the snapshot.

        Args:
            paths: absolute local paths or ``file:`` URIs; none, or None, for the machine's temporary folder.

        Raises:
            ConfigurationError: a path that is relative or not local.
        """
        what = f"{self._what}.set_db_storage_paths: a path"
        if not paths or paths == (None,):
            self._paths = None
            return
        self._paths = [folder for path in paths for folder in local_dirs(text(path, what))]

    def get_db_storage_paths(self) -> list[str] | None:
        """The local folders set, as plain paths; None when none were set."""
        return None if self._paths is None else list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """As given; default False. With the changelog on, checkpoints hold changes only, whatever this says."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Set the settings that options by key and the options factory then change."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """The set chosen; default `PredefinedOptions.DEFAULT`."""
        return self._predefined or PredefinedOptions.DEFAULT

    def set_options(self, options_factory_class_name: str) -> None:
        """Set the class that has the last word on RocksDB's settings.

        Args:
            options_factory_class_name: path of a Python class without arguments, such as ``module.Factory``. Its methods
                ``create_db_options(options)`` and ``create_column_options(options)``, each if it is there, get and return
                a ``rocksdict.Options``; ``configure(options)`` gets the job's options as a dict before.
        """
        self._factory = options_factory_class_name

    def get_options(self) -> str | None:
        """The options factory's class name, or None."""
        return self._factory

    def _get_threads(self) -> int:
        default: int = keys.TRANSFER_THREADS.default
        return default if self._threads is None else self._threads

    def _options(self) -> dict[str, str]:
        """What was set, by Flink's keys."""
        options = {}
        if self._paths is not None:
            options[keys.LOCAL_DIR.key] = ",".join(self._paths)
        if self._predefined is not None:
            options[keys.PREDEFINED.key] = self._predefined.name
        if self._factory is not None:
            options[keys.OPTIONS_FACTORY.key] = self._factory
        return options


@checked
class EmbeddedRocksDBStateBackend(_RocksDBBackend):
    """Keeps the working state in RocksDB on the local disks of the workers: it may be larger than memory.

    Entries in use are kept decoded in a cache (``changelog.rocksdb.cache-size`` of each subtask); timers stay in memory.
    All options ``state.backend.rocksdb.*`` that mean something here hold too, see docs/configuration.md.

    Args:
        enable_incremental_checkpointing: kept and given back; None for the default, False.

    Example:
        >>> backend = EmbeddedRocksDBStateBackend()
        >>> backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
        >>> backend.set_db_storage_paths("file:///fast/disk")
        >>> backend.get_db_storage_paths()
        ['/fast/disk']
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        super().__init__(enable_incremental_checkpointing)

    @kept
    def set_number_of_transfer_threads(self, number_of_transfering_threads: _Threads) -> None:
        """Keep the number of threads that move files in checkpoints; none are moved here.

        Args:
            number_of_transfering_threads: at least 1.
        """
        self._threads = number_of_transfering_threads

    def get_number_of_transfer_threads(self) -> int:
        """The number set; default 4."""
        return self._get_threads()


class CustomStateBackend(StateBackend):
    """A state backend of your own: a Python class that derives from `changelog_engine.state.StateBackend`.

    The engine makes one object in each subtask, without arguments, and works on its tables, with the changelog on or off;
    docs/state-backends.md has the contract and an example.

    Args:
        state_backend: the class, a function that makes the backend, or the class's path such as ``module.Class``.

    Raises:
        ArgumentTypeError: none of these.
        ConfigurationError: a class that does not derive from StateBackend.

    Example:
        >>> from changelog_engine.state import StateBackend
        >>> class Mine(StateBackend):
        ...     def table(self, operator, state, kind):
        ...         return {}
        >>> backend = CustomStateBackend(Mine)
    """

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


@checked
class MemoryStateBackend(StateBackend):
    """The working state in memory, and checkpoints as `JobManagerCheckpointStorage` keeps them. Deprecated.

    Use `HashMapStateBackend` with `JobManagerCheckpointStorage`. The storage it brings along goes before the one of the
    CheckpointConfig.

    Args:
        checkpoint_path: folder or URI, or None.
        savepoint_path: kept; None for none.
        max_state_size: bytes of one state in a full snapshot; default 5242880.
        using_asynchronous_snapshots: kept and given back; None for the default, True.
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
        self._checkpoints: JobManagerCheckpointStorage = JobManagerCheckpointStorage(
            checkpoint_path, max_state_size
        )
        self._savepoints = savepoint_path and normalized(savepoint_path)
        self._asynchronous = using_asynchronous_snapshots is not False

    def get_max_state_size(self) -> int:
        """The size given in bytes; default 5242880."""
        return self._checkpoints.get_max_state_size()

    def is_using_asynchronous_snapshots(self) -> bool:
        """As given; default True."""
        return self._asynchronous

    def __str__(self) -> str:
        """Its settings."""
        return (
            f"MemoryStateBackend(checkpoint_path={self._checkpoints.get_checkpoint_path()}, "
            f"savepoint_path={self._savepoints}, max_state_size={self.get_max_state_size()}, "
            f"using_asynchronous_snapshots={self._asynchronous})"
        )


@checked
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
        if checkpoint_directory_uri is None:
            raise ConfigurationError(
                "FsStateBackend: checkpoint_directory_uri is needed, such as 'file:///data/checkpoints'"
            )
        self._checkpoints: FileSystemCheckpointStorage = FileSystemCheckpointStorage(
            checkpoint_directory_uri,
            file_state_size_threshold,
            -1 if write_buffer_size is None else write_buffer_size,
        )
        self._savepoints = default_savepoint_directory_uri and normalized(default_savepoint_directory_uri)
        self._asynchronous = using_asynchronous_snapshots is not False

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


@checked
class RocksDBStateBackend(_RocksDBBackend):
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
    """

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: Annotated[StateBackend, checked_later] | None = None,
    ) -> None:
        what = "RocksDBStateBackend"
        super().__init__(enable_incremental_checkpointing)
        if checkpoint_data_uri is not None:
            self._checkpoint_backend: StateBackend = FsStateBackend(checkpoint_data_uri)
        elif isinstance(checkpoint_stream_backend, StateBackend):
            self._checkpoint_backend = checkpoint_stream_backend
        else:
            raise ConfigurationError(
                f"{what} needs checkpoint_data_uri, such as 'file:///data/checkpoints', or checkpoint_stream_backend, "
                f"a StateBackend; got {checkpoint_stream_backend!r}"
            )
        self._checkpoints = self._checkpoint_backend._checkpoints

    def get_checkpoint_backend(self) -> StateBackend:
        """The backend whose checkpoint storage it uses."""
        return self._checkpoint_backend

    @kept
    def set_number_of_transfering_threads(self, number_of_transfering_threads: _Threads) -> None:
        """Keep the number of threads that move files in checkpoints; none are moved here.

        Args:
            number_of_transfering_threads: at least 1.
        """
        self._threads = number_of_transfering_threads

    def get_number_of_transfering_threads(self) -> int:
        """The number set; default 4."""
        return self._get_threads()
