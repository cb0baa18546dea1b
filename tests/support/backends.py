"""State backends for jobs in tests, by name, and RocksDB tables of their own."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from changelog_engine.graph.nodes import JobSettings, StateKind
from changelog_engine.operators import build
from changelog_engine.state import rocksdb_maps
from changelog_engine.state.backend import StateBackend, StateTable
from changelog_engine.state.backends import open_backend, pickled_class
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.rocksdb import RocksDBBackend
from changelog_engine.state.rocksdb_options import rocksdb_options
from changelog_engine.state.rocksdb_store import RocksStore


class OwnTable:
    """A table of a user's backend that has what the protocol asks for and nothing else."""

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}

    def get(self, key: Any, default: Any = None, /) -> Any:
        return self.entries.get(key, default)

    def pop(self, key: Any, default: Any, /) -> Any:
        return self.entries.pop(key, default)

    def __setitem__(self, key: Any, entry: Any, /) -> None:
        self.entries[key] = entry

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(list(self.entries.items()))


class OwnBackend(HeapBackend):
    """A user's backend."""

    def table(self, operator: str, state: str, kind: StateKind | None = None) -> StateTable:
        return self.tables.setdefault((operator, state), OwnTable())


BACKENDS = ("hashmap", "rocksdb", "rocksdb without cache", "custom")


def backend_settings(name: str, base: str | Path) -> dict[str, Any]:
    """The fields of JobSettings that choose a backend."""
    if name == "custom":
        return {"state_backend": "custom", "state_class": pickled_class(OwnBackend, "the backend")}
    if name == "hashmap":
        return {"state_backend": "hashmap"}
    options = {"state.backend.rocksdb.localdir": str(base)}
    if name == "rocksdb without cache":
        options["changelog.rocksdb.cache-size"] = "0"
    return {"state_backend": "rocksdb", "state_options": options}


@contextlib.contextmanager
def small_maps() -> Iterator[None]:
    """Maps of more than two entries are spread."""
    with mock.patch.object(rocksdb_maps, "WHOLE_ENTRIES", 2):
        yield


def run_all_jobs_on(name: str) -> None:
    """Let every job of this process keep its state in another backend: any test is a test of that backend then."""
    base = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    chosen = backend_settings(name, base)
    rocksdb_maps.WHOLE_ENTRIES = 2

    def opened(settings: JobSettings, job: str, stage: int, subtask: int) -> StateBackend:
        return open_backend(replace(settings, **chosen), job, stage, subtask)

    build.open_backend = opened  # type: ignore[attr-defined]


def rocks_backend(
    root: str | Path, cache_bytes: int = 1 << 20, options: dict[str, str] | None = None
) -> RocksDBBackend:
    """A RocksDB backend below a folder."""
    made = rocksdb_options(options or {})

    def folder() -> LocalFolder:
        return LocalFolder(str(root), "test")

    return RocksDBBackend(lambda: RocksStore(folder(), made), cache_bytes, folder)
