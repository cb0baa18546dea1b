"""What can be set on either RocksDB state backend."""

from __future__ import annotations

from enum import Enum
from typing import Any

from changelog_engine.config import rocksdb_options as keys
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.state.backends import local_dirs

from .._arguments import flag, text, whole_number


class PredefinedOptions(Enum):
    """Sets of RocksDB settings for kinds of disks. Writes are never forced to disk: the changelog makes state durable.

    DEFAULT is RocksDB's own; SPINNING_DISK_OPTIMIZED is for spinning disks; SPINNING_DISK_OPTIMIZED_HIGH_MEM is too, and
    uses some 500 MB a subtask; FLASH_SSD_OPTIMIZED is for flash.

    Source: pyflink.datastream.PredefinedOptions
    """

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class RocksDBSettings:
    """Paths, settings and threads of RocksDB; see `EmbeddedRocksDBStateBackend`."""

    def __init__(self, what: str, incremental: bool | None) -> None:
        self._what = what
        if incremental is not None:
            flag(incremental, f"{what}: enable_incremental_checkpointing")
        self._incremental = incremental
        self._paths: list[str] | None = None
        self._predefined: PredefinedOptions | None = None
        self._factory: str | None = None
        self._threads: int | None = None

    def set_db_storage_paths(self, *paths: str) -> None:
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
        """Set the settings that options by key and the options factory then change.

        Args:
            options: the set.

        Raises:
            ConfigurationError: no PredefinedOptions.
        """
        if not isinstance(options, PredefinedOptions):
            raise ArgumentTypeError(
                f"{self._what}.set_predefined_options needs one such as PredefinedOptions.FLASH_SSD_OPTIMIZED, got "
                f"{options!r}"
            )
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

        Raises:
            ConfigurationError: not a str.
        """
        self._factory = text(
            options_factory_class_name, f"{self._what}.set_options: options_factory_class_name"
        )

    def get_options(self) -> str | None:
        """The options factory's class name, or None."""
        return self._factory

    def _set_threads(self, method: str, number: Any) -> None:
        self._threads = whole_number(number, f"{self._what}.{method}: number_of_transfering_threads", 1)

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
