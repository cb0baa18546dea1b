"""Checkpoint storages: where checkpoints lie."""

from __future__ import annotations

import re
from typing import Annotated, Any

from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.hooks import hook_of

from .._arguments import Whole, checked, text, whole_number

_MOST_THRESHOLD = 1024 * 1024


class CheckpointStorage:
    """Where checkpoints lie. Base class; see `FileSystemCheckpointStorage`."""

    _path: str | None = None
    _max_state_size: int | None = None  # bytes of one state in a full snapshot; None for no bound

    def get_savepoint_path(self) -> str | None:
        """The folder of savepoints, if there is one: none in this version."""
        return None


@checked
class JobManagerCheckpointStorage(CheckpointStorage):
    """Flink's checkpoints in memory, for small state; durable here, below the given path or the default one.

    With the changelog off, a checkpoint in which one state of a subtask is larger than ``max_state_size`` fails the job;
    the changelog has no such bound.

    Args:
        checkpoint_path: folder or URI, or None.
        max_state_size: bytes of one state; default 5242880.
    """

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(
        self, checkpoint_path: str | None = None, max_state_size: Annotated[int, Whole(1)] | None = None
    ) -> None:
        self._path = None if checkpoint_path is None else normalized(checkpoint_path)
        self._max_state_size: int = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    def get_checkpoint_path(self) -> str | None:
        """The folder given, or None."""
        return self._path

    def get_max_state_size(self) -> int:
        """The size given in bytes; default 5242880."""
        return self._max_state_size

    def __str__(self) -> str:
        """Its settings."""
        return f"{type(self).__name__}(checkpoint_path={self._path}, max_state_size={self._max_state_size})"


@checked
class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints in a folder: the tables of the job lie below it.

    Args:
        checkpoint_path: folder or URI.
        file_state_size_threshold: kept and given back, in bytes; None or -1 for the default of 20480, at most 1048576.
        write_buffer_size: kept and given back, in bytes; -1 for the default of 4096.
    """

    MAX_FILE_STATE_THRESHOLD = _MOST_THRESHOLD

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: Annotated[int, Whole(-1, _MOST_THRESHOLD)] | None = None,
        write_buffer_size: Annotated[int, Whole(-1)] = -1,
    ) -> None:
        if checkpoint_path is None:
            raise ConfigurationError(
                "FileSystemCheckpointStorage: checkpoint_path is needed, such as 'file:///data/checkpoints'"
            )
        self._path: str = normalized(checkpoint_path)
        self._threshold = 20 * 1024 if file_state_size_threshold in (None, -1) else file_state_size_threshold
        self._write_buffer_size = write_buffer_size

    def get_checkpoint_path(self) -> str:
        """The folder given."""
        return self._path

    def get_min_file_size_threshold(self) -> int:
        """The threshold given, in bytes."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """The buffer size, in bytes."""
        return 4096 if self._write_buffer_size < 0 else max(self._write_buffer_size, self._threshold)

    def __str__(self) -> str:
        """Its settings."""
        return f"FileSystemCheckpointStorage(checkpoint_path={self._path})"


class CustomCheckpointStorage(CheckpointStorage):
    """A checkpoint storage of your own: a Python object that says where checkpoints lie.

    Args:
        checkpoint_storage: an object whose ``get_checkpoint_path()`` gives a folder or any URI that ``pyarrow.fs`` opens, or
            None for the default one; if it has ``get_max_state_size()``, that bounds a state as
            `JobManagerCheckpointStorage` does.

    Raises:
        ConfigurationError: an object without get_checkpoint_path, or one whose answers cannot be used.

    Example:
        >>> class Mine:
        ...     def get_checkpoint_path(self):
        ...         return "file:///data/checkpoints"
        >>> CustomCheckpointStorage(Mine()).get_checkpoint_path()
        'file:/data/checkpoints'
    """

    def __init__(self, checkpoint_storage: Any) -> None:
        what = "CustomCheckpointStorage"
        get_path = hook_of(checkpoint_storage, "get_checkpoint_path")
        if get_path is None:
            raise ArgumentTypeError(
                f"{what}: checkpoint_storage must be an object with get_checkpoint_path(), got {checkpoint_storage!r}"
            )
        path = get_path()
        self._path = None if path is None else normalized(text(path, f"{what}: get_checkpoint_path()"))
        get_max_size = hook_of(checkpoint_storage, "get_max_state_size")
        if get_max_size is not None:
            self._max_state_size = whole_number(get_max_size(), f"{what}: get_max_state_size()", 1)

    def get_checkpoint_path(self) -> str | None:
        """The folder that the object gives, or None."""
        return self._path


def normalized(path: str) -> str:
    """A path as Flink gives it back: ``file:///tmp/`` reads ``file:/tmp``."""
    path = re.sub(r"^([A-Za-z][A-Za-z0-9+.-]+):///(?=[^/])", r"\1:/", path)
    shorter = path.rstrip("/")
    return path if not shorter or shorter.endswith(":") else shorter
