"""The RocksDB backend: keys as bytes, tables against dicts, bounded memory, and local folders."""

from __future__ import annotations

import errno
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Options, WriteBatch
from support.backends import backend_settings, rocks_backend, small_maps
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob

from changelog_engine.driver.mistakes import is_final
from changelog_engine.errors import (
    ConfigurationError,
    DiskFullError,
    JobExecutionError,
    NotSerializableError,
    StateTooLargeError,
    StorageError,
)
from changelog_engine.graph.nodes import JobSettings, StateKind
from changelog_engine.state import rocksdb_store
from changelog_engine.state.backends import ROCKSDB, local_dirs, open_backend
from changelog_engine.state.identity_bytes import after, decode, encode, encoder
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.rocksdb_maps import SpreadMap
from changelog_engine.state.rocksdb_options import rocksdb_options
from changelog_engine.state.rocksdb_store import BatchWriter, RocksStore

_ATOMS = st.one_of(
    st.integers(),
    st.integers(-3, 3),
    st.text(st.characters(), max_size=4),
    st.sampled_from(["\0", "a\0", "a\0\0b", "\ud800", "\U0001f600", ""]),
    st.binary(max_size=4),
    st.sampled_from([b"\0\xff", b"\0\0", b""]),
)
IDENTITIES = st.recursive(
    _ATOMS, lambda inner: st.lists(st.one_of(inner, st.none(), st.booleans()), max_size=3).map(tuple)
)


@given(st.lists(IDENTITIES, min_size=2, max_size=4))
def test_key_bytes_are_exact_and_can_follow_each_other(identities: list[Any]) -> None:
    data, at, found = b"".join(encode(identity) for identity in identities), 0, []
    while at < len(data):
        identity, at = decode(data, at)
        found.append(identity)
    assert repr(found) == repr(identities)
    behind = encoder(b"\xff\0")
    assert [behind(identity) for identity in identities] == [b"\xff\0" + encode(each) for each in identities]
    for left in identities:
        for right in identities:
            beginning = encode(right).startswith(encode(left))
            assert beginning == (repr(left) == repr(right)), "one key's bytes begin with another's"


@given(st.one_of(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.binary())))
def test_key_bytes_keep_the_order(identities: list[Any]) -> None:
    assert sorted(identities) == sorted(identities, key=encode)


@pytest.mark.parametrize("identity", [1.0, [1], {"a": 1}, (1, 2.0)])
def test_what_is_no_identity_has_no_bytes(identity: Any) -> None:
    with pytest.raises(TypeError, match="is not an identity"):
        encode(identity)


@given(st.binary(min_size=1), st.binary())
def test_after_a_prefix(prefix: bytes, rest: bytes) -> None:
    prefix = b"\x01" + prefix
    assert prefix + rest < after(prefix)
    assert not after(prefix).startswith(prefix)


KEYS = [1, -5, "a", b"a", "", (1, ("w", 2)), (1, ("w",)), 2**70]


def operate(table: Any, model: dict[Any, Any], kind: StateKind, rnd: random.Random) -> None:
    """One operation as handles do them, on the table and on a dict."""
    key, number = rnd.choice(KEYS), rnd.randrange(1000)
    what = rnd.random()
    if what < 0.1:
        entry, expected = table.get(key), model.pop(key, None)
        assert (list(entry.items()) if isinstance(entry, SpreadMap) else entry) == (
            list(expected.items()) if isinstance(entry, SpreadMap) else expected
        )
        assert table.pop(key, None) is entry
    elif kind is StateKind.VALUE:
        table[key] = model[key] = {"value": number}  # a dict as a value is no map
    elif kind is StateKind.LIST:
        entry = table.get(key)
        if entry is None:
            entry = []
        entry.append(number)
        table[key] = entry
        model.setdefault(key, []).append(number)
    elif what < 0.7:
        entry = table.get(key)
        if entry is None:
            entry = {}
        entry[number % 20] = number
        table[key] = entry
        model.setdefault(key, {})[number % 20] = number
    else:
        entry = table.get(key)
        assert (entry is not None) == (key in model)
        assert (entry or {}).get(number % 20) == model.get(key, {}).get(number % 20)
        if entry is not None and number % 20 in entry:
            del entry[number % 20]
            del model[key][number % 20]
            if entry:
                table[key] = entry
            else:
                table.pop(key, None)
                del model[key]


def content(items: Any, kind: StateKind) -> dict[Any, Any]:
    """Entries by key, maps with their order."""
    return {key: list(entry.items()) if kind is StateKind.MAP else entry for key, entry in items}


@pytest.mark.parametrize(
    "kind", [StateKind.VALUE, StateKind.LIST, StateKind.MAP], ids=lambda kind: kind.value
)
@pytest.mark.parametrize("cache_bytes", [0, 3_000, 1 << 20])
def test_a_table_is_a_dict(
    kind: StateKind, cache_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what is written at once takes several batches: every second time."""
    for seed in range(8):
        monkeypatch.setattr(rocksdb_store, "_BATCH_BYTES", (16 << 20, 100)[seed % 2])
        rnd, model = random.Random(seed), dict[Any, Any]()
        backend = rocks_backend(tmp_path, cache_bytes)
        other = backend.table("operator", "other", kind)
        table = backend.table("operator", "state", kind)
        other[1] = {1: 1} if kind is StateKind.MAP else [1]
        with small_maps():
            for _ in range(400):
                operate(table, model, kind, rnd)
                chance = rnd.random()
                if chance < 0.03:
                    backend.begin_epoch()
                elif chance < 0.06:
                    assert content(table.items(), kind) == content(model.items(), kind), f"seed {seed}"
                elif chance < 0.08:
                    assert sorted(repr(key) for key, _ in table.items()) == sorted(map(repr, model))
        assert content(table.items(), kind) == content(model.items(), kind), f"seed {seed}"
        assert len(list(other.items())) == 1
        backend.close()
    assert not list(tmp_path.rglob("*.sst"))


def test_the_place_of_a_table_that_was_removed_is_no_others(tmp_path: Path) -> None:
    backend = rocks_backend(tmp_path)
    removed, *tables = (backend.table("operator", name, StateKind.VALUE) for name in ("removed", "a"))
    backend.remove(removed)
    tables += [backend.table("operator", name, StateKind.VALUE) for name in ("b", "c")]
    for number, table in enumerate(tables):
        table["key"] = number
    backend.begin_epoch()
    assert [dict(table.items()) for table in tables] == [{"key": 0}, {"key": 1}, {"key": 2}]
    backend.close()


def test_state_larger_than_the_cache(tmp_path: Path) -> None:
    cache_bytes, keys, size = 1 << 20, 20_000, 1_000
    backend = rocks_backend(tmp_path, cache_bytes, {"state.backend.rocksdb.writebuffer.size": "1 mb"})
    table: Any = backend.table("operator", "state", StateKind.VALUE)
    most = 0
    for key in range(keys):
        table[key] = f"{key:0{size}}"
        most = max(most, len(table.changed) + len(table._cached))
    backend.begin_epoch()
    order = list(range(keys))
    random.Random(1).shuffle(order)
    for key in order:
        assert table.get(key) == f"{key:0{size}}"
        most = max(most, len(table.changed) + len(table._cached))
    assert most * size < cache_bytes < keys * size
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.sst")) > 0, "nothing lies on the disk"
    backend.close()


def test_an_entry_is_read_once_and_written_once_an_epoch(tmp_path: Path) -> None:
    backend = rocks_backend(tmp_path)
    table = backend.table("operator", "state", StateKind.VALUE)
    reads, writes = [], []
    table["key"] = 0
    table.spill()  # before anything is written there is nothing to read
    get, put = RocksStore.get, BatchWriter.put
    with (
        mock.patch.object(RocksStore, "get", lambda self, key: reads.append(key) or get(self, key)),
        mock.patch.object(
            BatchWriter, "put", lambda self, key, data: writes.append(key) or put(self, key, data)
        ),
    ):
        for _ in range(3):
            for number in range(100):
                table["key"] = table.get("key", 0) + number
            backend.begin_epoch()
            backend.begin_epoch()
    assert (len(reads), len(writes)) == (1, 3)
    assert table.get("key") == 3 * 4950
    backend.close()


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.LIST, StateKind.MAP], ids=str)
def test_what_an_epoch_changed_is_written_when_the_next_begins(kind: StateKind, tmp_path: Path) -> None:
    """A checkpoint does not wait for it; reads, scans and the next epoch see it before and after."""
    backend = rocks_backend(tmp_path)
    table: Any = backend.table("operator", "state", kind)
    entries: list[Any] = {
        StateKind.VALUE: ["a", "b"],
        StateKind.LIST: [["a"], ["a", "b"]],
        StateKind.MAP: [{1: "a"}, {1: "a", 2: "b"}],
    }[kind]
    written: list[int] = []
    write = RocksStore.write
    with (
        small_maps(),
        mock.patch.object(RocksStore, "write", lambda *given: written.append(1) or write(*given)),
    ):
        for entry in entries:
            table["key"], table["gone"] = entry, entry
            table.pop("gone", None)
            written.clear()
            backend.end_epoch()
            assert not written
            assert (table.get("key"), table.get("gone")) == (entry, None)
            backend.begin_epoch()
            assert written
            table.spill()
            assert content(table.items(), kind) == content([("key", entry)], kind)
        table["key"] = entries[0]
        backend.end_epoch()
        assert content(table.items(), kind) == content([("key", entries[0])], kind)
    backend.close()


def test_a_write_that_fails_when_an_epoch_begins_fails_every_epoch_from_then_on(tmp_path: Path) -> None:
    backend = rocks_backend(tmp_path)
    full = StorageError("disk full")
    other = backend.table("operator", "other", StateKind.VALUE)
    for number in range(3):
        backend.table("operator", f"state {number}", StateKind.VALUE)["key"] = "value"
    backend.end_epoch()
    with mock.patch.object(RocksStore, "write", side_effect=full), pytest.raises(StorageError, match="full"):
        backend.begin_epoch()
    assert not backend.is_whole()
    other["key"] = "value"
    for again in (backend.begin_epoch, backend.end_epoch, backend.begin_epoch):
        with pytest.raises(StorageError, match="disk full"):
            again()
    backend.close()


def test_one_put_does_not_rewrite_a_large_map(tmp_path: Path) -> None:
    backend = rocks_backend(tmp_path, 64 << 20)
    table = backend.table("operator", "state", StateKind.MAP)
    entries = dict.fromkeys(range(5_000), "x" * 100)
    table["key"] = entries
    backend.begin_epoch()
    written: list[int] = []
    put = BatchWriter.put
    with (
        mock.patch.object(
            BatchWriter, "put", lambda self, key, data: written.append(len(data)) or put(self, key, data)
        ),
        mock.patch.object(RocksStore, "scan", side_effect=AssertionError("the whole map was read")),
    ):
        entry = table.get("key")
        assert (len(entry), 4_999 in entry, 5_000 in entry, entry.get(7)) == (5_000, True, False, "x" * 100)
        entry[7] = "new"
        table["key"] = entry
        del entry[8]
        table["key"] = entry
        backend.begin_epoch()
    assert sum(written) < 200
    expected = {number: "new" if number == 7 else text for number, text in entries.items() if number != 8}
    assert list(table.get("key").items()) == list(expected.items())
    table.pop("key", None)
    table["key"] = {1: "again"}
    backend.begin_epoch()
    assert list(table.get("key").items()) == [(1, "again")]
    assert content(table.items(), StateKind.MAP) == {"key": [(1, "again")]}
    backend.close()


def test_values_of_local_classes_and_values_that_cannot_be_kept(tmp_path: Path) -> None:
    class Local:
        def __init__(self, number: int) -> None:
            self.number = number

    backend = rocks_backend(tmp_path, 0)
    table = backend.table("operator", "state", StateKind.VALUE)
    table[1] = Local(5)
    table[2] = Local(6)
    assert type(table.get(1)) is Local
    assert table.get(1).number == 5
    backend.begin_epoch()
    table[3] = threading.Lock()
    with pytest.raises(NotSerializableError, match="lock"):
        backend.begin_epoch()
    backend.close()


def test_a_write_that_failed_is_not_forgotten(tmp_path: Path) -> None:
    """A user's function may catch the failure of a full cache: what a large map had to write is in neither place then."""
    backend = rocks_backend(tmp_path)
    table: Any = backend.table("operator", "state", StateKind.MAP)
    with small_maps():
        table["key"] = dict.fromkeys(range(100), "old")
        backend.begin_epoch()
        entry = table.get("key")
        assert type(entry) is SpreadMap
        entry[7] = "new"
        table["key"] = entry
        with (
            mock.patch.object(RocksStore, "write", side_effect=StorageError("disk full")),
            pytest.raises(StorageError, match="disk full"),
        ):
            table.spill()
        deep = set()
        for _ in range(3):
            with pytest.raises(StorageError, match="disk full") as failure:
                backend.begin_epoch()
            deep.add(len(failure.traceback))
        assert len(deep) == 1, "a function that catches it would make its traceback longer each time"
        assert not backend.is_whole()
    backend.close()


@pytest.mark.parametrize("read", ["get", "contains", "set", "delete", "of the table"])
def test_a_read_that_failed_is_not_forgotten(tmp_path: Path, read: str) -> None:
    """A user's function may catch it: the log has the mutation then that the map does not have."""
    backend = rocks_backend(tmp_path)
    table: Any = backend.table("operator", "state", StateKind.MAP)
    with small_maps():
        table["key"] = dict.fromkeys(range(100), "old")
        backend.begin_epoch()
        entry = table.get("key")
        assert type(entry) is SpreadMap
        backend.end_epoch()
        calls: dict[str, Callable[[], Any]] = {
            "get": lambda: entry.get(7),
            "contains": lambda: 7 in entry,
            "set": lambda: entry.__setitem__(7, "new"),
            "delete": lambda: entry.pop(7, None),
            "of the table": lambda: table.get("another"),
        }
        with (
            mock.patch.object(RocksStore, "get", side_effect=StorageError("cannot read")),
            pytest.raises(StorageError, match="cannot read"),
        ):
            calls[read]()
        assert not backend.is_whole()
        for ends in (backend.end_epoch, backend.begin_epoch, table.spill):
            with pytest.raises(StorageError, match="cannot read"):
                ends()
    backend.close()


def filled(tmp_path: Path, kind: StateKind, entries: dict[int, Any]) -> tuple[Any, Any]:
    """A backend with one table, all of whose entries are in one file."""
    backend = rocks_backend(tmp_path, 0, {"state.backend.rocksdb.block.cache-size": "8kb"})
    table: Any = backend.table("operator", "state", kind)
    if kind is StateKind.MAP:
        table["key"] = entries
    else:
        for number, entry in entries.items():
            table[number] = entry
    backend.begin_epoch()
    assert backend._store is not None
    backend._store._db.flush()
    return backend, table


def all_of(table: Any, kind: StateKind) -> dict[Any, Any]:
    return dict(table.get("key").items() if kind is StateKind.MAP else table.items())


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.MAP])
@pytest.mark.parametrize("whole_table", [False, True])
@pytest.mark.parametrize(("size", "file"), [(300, "*.sst"), (3_000, "*.blob")])
def test_a_scan_that_cannot_read_on_raises(
    tmp_path: Path, kind: StateKind, whole_table: bool, size: int, file: str
) -> None:
    """RocksDB's iterator ends as if there were no more."""
    entries = {number: os.urandom(size).hex() for number in range(1_000)}
    backend, table = filled(tmp_path, kind, entries)
    read = (lambda: dict(table.items())) if whole_table else (lambda: all_of(table, kind))
    assert read() == ({"key": entries} if whole_table and kind is StateKind.MAP else entries)
    (path,) = tmp_path.rglob(file)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match=f"RocksDB cannot read in {tmp_path}.*Corruption"):
        read()
    assert not backend.is_whole(), "it would be kept over the failure"
    with pytest.raises(StorageError, match="Corruption"):
        backend.begin_epoch()
    backend.close()


@pytest.mark.parametrize("kind", [StateKind.VALUE, StateKind.MAP])
def test_a_large_entry_lies_in_a_file_of_its_own_and_damage_to_it_is_seen(
    tmp_path: Path, kind: StateKind
) -> None:
    entries = {number: os.urandom(1_000).hex() for number in range(100)}
    backend, table = filled(tmp_path, kind, entries)
    (path,) = tmp_path.rglob("*.blob")
    assert path.stat().st_size > 100 * 1_000  # LZ4 makes no byte of two hexadecimal digits, but less than two
    assert all_of(table, kind) == entries
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match=f"RocksDB cannot read in {tmp_path}.*Corruption"):
        all_of(table, kind)
    assert not backend.is_whole()
    backend.close()


@pytest.mark.parametrize("size", ["0", "2kb"])
def test_entries_below_the_size_lie_beside_their_keys(tmp_path: Path, size: str) -> None:
    backend = rocks_backend(tmp_path, 0, {"changelog.rocksdb.min-blob-size": size})
    table = backend.table("operator", "state", StateKind.VALUE)
    table["key"] = "x" * 1_500
    backend.begin_epoch()
    assert backend._store is not None
    backend._store._db.flush()
    assert not list(tmp_path.rglob("*.blob"))
    backend.close()


def test_a_scan_that_ended_early_for_a_moment_raises_too(tmp_path: Path) -> None:
    store = RocksStore(LocalFolder(str(tmp_path), "state"), Options(raw_mode=True))
    writer = BatchWriter(store)
    writer.put(b"\0a", b"1")
    writer.put(b"\0b", b"2")
    writer.finish()
    assert dict(store.scan(b"\0")) == {b"\0a": b"1", b"\0b": b"2"}
    assert store.size().entries == 2
    assert list(store.scan(b"\1")) == []

    class Ending:
        def __init__(self, real: Any) -> None:
            self.iter, self.close, self.real = real.iter, real.close, real

        def items(self, **given: Any) -> Any:
            return iter(list(self.real.items(**given))[:1])

    store._db = Ending(store._db)  # type: ignore[assignment]
    with pytest.raises(StorageError, match="an iteration ended before the last key"):
        list(store.scan(b"\0"))
    store.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EEXIST])
@pytest.mark.parametrize("call", ["makedirs", "mkdir"])
def test_case_12_a_folder_on_a_full_or_failing_disk_is_no_mistake_in_the_configuration(
    tmp_path: Path, call: str, number: int
) -> None:
    """A configuration is wrong for good, and the job is not restarted."""
    with (
        mock.patch.object(os, call, side_effect=OSError(number, os.strerror(number))),
        pytest.raises(StorageError, match=f"{tmp_path}/changelog-engine-.*") as caught,
    ):
        LocalFolder(str(tmp_path), "state")
    assert not is_final(caught.value)
    assert caught.value.path.startswith(str(tmp_path))
    LocalFolder(str(tmp_path), "state").remove()


CLAIM = """
import sys, time
from changelog_engine.state.local_folder import LocalFolder
folder = LocalFolder(sys.argv[1], "worker")
open(folder.path + "/data", "w").close()
print(folder.path, flush=True)
time.sleep(60)
"""


def test_folders_of_killed_workers_go_and_living_ones_stay(tmp_path: Path) -> None:
    claimants = [
        subprocess.Popen([sys.executable, "-c", CLAIM, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        killed, living = (Path(process.stdout.readline().strip()) for process in claimants)  # type: ignore[union-attr]
        own = LocalFolder(str(tmp_path), "own")
        claimants[0].send_signal(signal.SIGKILL)
        claimants[0].wait()
        assert (killed / "data").exists()
        LocalFolder(str(tmp_path), "next").remove()
        assert not killed.exists()
        assert (living / "data").exists()
        assert Path(own.path).exists()
        assert sorted(path.name for path in killed.parent.iterdir()) == sorted(
            name for folder in (living, Path(own.path)) for name in (folder.name, folder.name + ".lock")
        )
        own.remove()
        own.remove()
    finally:
        for process in claimants:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]


def test_a_folder_that_was_forgotten_goes_but_not_with_a_fork(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path), "worker")
    path = Path(folder.path)
    child = os.fork()
    if child == 0:  # as a user's own processes end
        folder.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert path.exists()
    del folder
    assert not list(path.parent.iterdir())


def test_a_root_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be used for local state"):
        LocalFolder(str(tmp_path / "file"), "worker")
    link = tmp_path / f"changelog-engine-{os.getuid()}"
    link.symlink_to(tmp_path)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        LocalFolder(str(tmp_path), "worker")


def test_a_store_that_fails_says_where(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path), "worker")
    Path(folder.path, "CURRENT").mkdir()
    with pytest.raises(StorageError, match=r"cannot be opened in .*worker"):
        RocksStore(folder, rocksdb_options({}))
    assert not Path(folder.path).exists()


KEY = "state.backend.rocksdb."


def test_local_folders() -> None:
    assert local_dirs(None) == []
    assert local_dirs("/a, file:///b") == ["/a", "/b"]
    assert local_dirs("/a:/b") == ["/a", "/b"]
    for wrong in ("relative", "s3://bucket/x", "/a,hdfs://name/b"):
        with pytest.raises(ConfigurationError, match="absolute local paths"):
            local_dirs(wrong)


def test_subtasks_are_spread_over_the_folders(tmp_path: Path) -> None:
    options = {KEY + "localdir": f"{tmp_path}/a,{tmp_path}/b"}
    (tmp_path / "a").mkdir()
    settings = JobSettings(state_backend=ROCKSDB, state_options=options)
    backends = [open_backend(settings, "job", 0, subtask) for subtask in range(4)]
    for backend in backends:
        backend.table("operator", "state", StateKind.VALUE)
    found = [len(list((tmp_path / name).rglob("CURRENT"))) for name in "ab"]
    assert found == [2, 2]
    for backend in backends:
        backend.close()
    assert not list(tmp_path.rglob("CURRENT"))


def count_job(keys: int = 50, records: int = 200) -> Any:
    return keyed_job([(f"key {number % keys}", number) for number in range(records)], Count())


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
def test_a_job_on_rocksdb_leaves_nothing_behind(tmp_path: Path, changelog: bool) -> None:
    local = tmp_path / "local"
    job = TestJob(tmp_path / "base", changelog=changelog, **backend_settings("rocksdb", local))
    opened = []
    start = RocksStore.__init__

    def noted(store: RocksStore, *arguments: Any) -> None:
        start(store, *arguments)
        opened.append(store.folder.path)

    with mock.patch.object(RocksStore, "__init__", noted):
        job.run(count_job())
    assert len(opened) == 1
    assert str(local) in opened[0]
    assert not [path for path in local.rglob("*") if path.is_file()]
    assert len(job.output) == 200
    plain = TestJob(tmp_path / "plain", changelog=changelog)
    plain.run(count_job())
    assert job.output == plain.output


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_full_snapshot_is_bounded(tmp_path: Path, backend: str) -> None:
    chosen = {**backend_settings(backend, tmp_path / "local"), "restart": NO_RESTART, "max_state_bytes": 300}
    with pytest.raises(
        JobExecutionError, match=r"state '.*' of operator 'process' has \d+ bytes or more"
    ) as failure:
        TestJob(tmp_path / "small", changelog=False, **chosen).run_driver(count_job())
    assert isinstance(failure.value.__cause__, StateTooLargeError)
    assert "FileSystemCheckpointStorage" in str(failure.value)
    TestJob(tmp_path / "log", changelog=True, **chosen).run(count_job())
    TestJob(tmp_path / "few keys", changelog=False, **chosen).run(count_job(keys=3))


def test_too_large_a_state_is_final(tmp_path: Path) -> None:
    job = TestJob(tmp_path, changelog=False, max_state_bytes=300)
    with pytest.raises(JobExecutionError, match="JobManagerCheckpointStorage allows 300"):
        job.run_driver(count_job())
    assert job.coordinator.restarts.count == 0


class _FullDisk:
    """RocksDB on a disk that is full.

    Args:
        real: the database; batches are consumed by it.
        words: of the system.
    """

    def __init__(self, real: Any, words: str = "No space left on device") -> None:
        self.real = real
        self.words = words

    def write(self, batch: WriteBatch, *more: Any) -> None:
        empty = batch.is_empty()
        self.real.write(batch, *more)
        if not empty:
            self.items()

    def items(self, *given: Any, **named: Any) -> None:
        raise Exception(f"IO error: {self.words}: While appending to file: /data/000012.sst: {self.words}")

    get = items

    def close(self) -> None:
        self.real.close()


class _Stopped:
    """A database that takes no writes for a while, as while its memory is full.

    Args:
        real: the database; a write that waited in it would wait on a full disk for ever, and let nothing else run.
        tries: so many are in vain.
        failed: how much failed in the background.
    """

    def __init__(self, real: Any, tries: int, failed: int) -> None:
        self.real = real
        self.tries = tries
        self.failed = failed

    def write(self, batch: WriteBatch, options: Any) -> None:
        if self.tries:
            self.tries -= 1
            assert options.no_slowdown
            raise Exception("Result incomplete: Write stall")
        self.real.write(batch, options)

    def property_int_value(self, name: str) -> int:
        assert name == "rocksdb.background-errors"
        return self.failed


def test_case_12_a_write_waits_only_while_nothing_failed_in_the_background(tmp_path: Path) -> None:
    """On a full disk RocksDB waited for room in the middle of a write, and the job stood still without a word."""
    store = RocksStore(LocalFolder(str(tmp_path), "state"), Options(raw_mode=True))
    real = store._db
    store._db = _Stopped(real, 3, 0)  # type: ignore[assignment]
    store.write(batch_of(4))
    assert real.get(b"key") == b"vvvv"
    store._db = _Stopped(real, 3, 1)  # type: ignore[assignment]
    with pytest.raises(StorageError, match="disk full: RocksDB cannot write in"):
        store.write(batch_of(5))
    store._db = real
    assert store.get(b"key") == b"vvvv"
    store.close()


def batch_of(size: int) -> WriteBatch:
    batch = WriteBatch(raw_mode=True)
    batch.put(b"key", b"v" * size)
    return batch


@pytest.mark.parametrize("words", ["No space left on device", "Disk quota exceeded"])
def test_case_57_a_full_disk_says_where_how_much_and_what_to_free(tmp_path: Path, words: str) -> None:
    store = RocksStore(LocalFolder(str(tmp_path), "state"), Options(raw_mode=True))
    Path(store.folder.path, "held").write_bytes(b"x" * (3 << 20))
    real = store._db
    store._db = _FullDisk(real, words)  # type: ignore[assignment]
    with pytest.raises(DiskFullError) as caught:
        store.write(batch_of(2 << 20))
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.path == store.folder.path
    assert error.needed_bytes > 2 << 20
    assert error.held_bytes >= 3 << 20
    assert error.free_bytes > 0
    for said in (
        store.folder.path,
        "2.1 MB that it has to write",
        "B are left",
        "free space",
        "rocksdb.localdir",
    ):
        assert said in str(error)
    with pytest.raises(DiskFullError, match="no room for what it has to write"):
        list(store.scan(b""))
    store._db = _FullDisk(real, "Input/output error")  # type: ignore[assignment]
    with pytest.raises(StorageError, match="Input/output error") as other:
        store.write(batch_of(1))
    assert not isinstance(other.value, DiskFullError)
    store.close()


@pytest.mark.parametrize("size", [1, 5])
def test_a_map_that_is_set_in_place_of_a_spread_one_has_nothing_of_it(tmp_path: Path, size: int) -> None:
    """As local recovery sets what a checkpoint has."""
    backend = rocks_backend(tmp_path)
    table: Any = backend.table("op", "s", StateKind.MAP)
    wanted = dict.fromkeys(range(5, 5 + size), "new")
    with small_maps():
        table["key"] = dict.fromkeys(range(10), "old")
        table.spill()
        assert type(table.get("key")) is SpreadMap
        table["key"] = dict(wanted)
        table.spill()
        assert dict(table.get("key").items()) == wanted
        assert dict(table.items()) == {"key": wanted}
    backend.close()
