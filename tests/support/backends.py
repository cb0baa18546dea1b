"""State backends for jobs in tests, by name, and RocksDB tables of their own.

The custom one is the example of docs/state-backends.md.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from changelog_engine.graph.nodes import JobSettings
from changelog_engine.operators import build
from changelog_engine.state import rocksdb_maps
from changelog_engine.state.backend import StateBackend
from changelog_engine.state.backends import open_backend, pickled_class
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.rocksdb import RocksDBBackend
from changelog_engine.state.rocksdb_options import rocksdb_options
from changelog_engine.state.rocksdb_store import RocksStore

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "state_backends"))
from sqlite_backend import SQLiteBackend

__all__ = [
    "BackendCase",
    "SQLiteBackend",
    "backend_settings",
    "every_backend",
    "rocks_backend",
    "run_all_jobs_on",
    "small_maps",
]

BACKENDS = ("hashmap", "rocksdb", "rocksdb without cache", "custom")


class BackendCase(NamedTuple):
    """A state backend, with the changelog or without."""

    name: str
    changelog: bool

    def settings(self, base: str | Path) -> dict[str, Any]:
        """The fields of JobSettings that choose it; its files lie below a folder."""
        return {"changelog": self.changelog, **backend_settings(self.name, base)}


@pytest.fixture(
    scope="session",
    params=[BackendCase(name, changelog) for name in BACKENDS for changelog in (True, False)],
    ids=lambda case: f"{case.name}, {'changelog' if case.changelog else 'snapshots'}",
)
def every_backend(request: pytest.FixtureRequest) -> BackendCase:
    """What holds on one backend holds on all: tests that ask for this run on each."""
    case: BackendCase = request.param
    return case


def backend_settings(name: str, base: str | Path) -> dict[str, Any]:
    """The fields of JobSettings that choose a backend."""
    if name == "custom":
        return {"state_backend": "custom", "state_class": pickled_class(SQLiteBackend, "the backend")}
    if name == "hashmap":
        return {"state_backend": "hashmap"}
    options = {"state.backend.rocksdb.localdir": str(base)}
    if name == "rocksdb without cache":
        options["changelog.rocksdb.cache-size"] = "0"
        options["changelog.rocksdb.min-blob-size"] = "1"
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

    def store() -> RocksStore:
        return RocksStore(LocalFolder(str(root), "test"), made)

    return RocksDBBackend(store, cache_bytes, str(root))
