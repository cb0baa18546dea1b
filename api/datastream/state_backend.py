"""State backends: where the working state is kept."""

from __future__ import annotations

from api._unsupported import module_getattr


class StateBackend:
    """Where the working state of a job is kept between checkpoints. Base class; see `HashMapStateBackend`.

    Source: pyflink.datastream.StateBackend
    """


class HashMapStateBackend(StateBackend):
    """Keeps the working state as Python objects in the memory of the worker processes.

    The state of all keys must fit there. This is the default.

    Source: pyflink.datastream.HashMapStateBackend
    """

    def __eq__(self, other: object) -> bool:
        """All of them are the same."""
        return isinstance(other, HashMapStateBackend)

    def __hash__(self) -> int:
        """One for all."""
        return hash(HashMapStateBackend)


__getattr__ = module_getattr(
    __name__,
    {
        "CustomStateBackend",
        "EmbeddedRocksDBStateBackend",
        "FsStateBackend",
        "MemoryStateBackend",
        "PredefinedOptions",
        "RocksDBStateBackend",
    },
)
