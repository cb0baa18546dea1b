"""What storage/protocol.py promises, on all: a local disk, object stores, a disk that loses what was not fsynced.

Reliability 5, 12 and 67: durable writes, bounded retries, clear errors, power cuts.
"""

from __future__ import annotations

import errno
import io
import os
import random
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_disk import MemoryDisk

from changelog_engine.errors import ConfigurationError, ForeignPathError, StorageError
from changelog_engine.storage import protocol
from changelog_engine.storage.file_systems import options_in_use, use_options
from changelog_engine.storage.local_disk import DiskCalls, LocalDisk
from changelog_engine.storage.locks import LockTakenError
from changelog_engine.storage.object_store import ObjectStore
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage
from changelog_engine.storage.retry import Retry


@pytest.fixture(scope="module")
def bucket(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Makes new roots on a real server, which this process knows how to reach."""
    s3 = request.getfixturevalue("s3")
    before = options_in_use()
    use_options({"s3.endpoint": s3.endpoint, "s3.access-key": s3.access_key, "s3.secret-key": s3.secret_key})
    name = s3.create_bucket()
    yield lambda: f"s3://{name}/{uuid.uuid4().hex}"
    use_options(before)


@pytest.fixture(
    params=[
        "local disk",
        "memory disk",
        "object store",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("azurite", "gcs")),
    ]
)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "object store":
        yield open_storage(request.getfixturevalue("bucket")())
    elif request.param in ("azurite", "gcs"):
        server = request.getfixturevalue(request.param)
        before = options_in_use()
        use_options(server.options)
        yield open_storage(f"{server.create_bucket()}/{uuid.uuid4().hex}")
        use_options(before)
    elif request.param == "local disk":
        yield open_storage(str(tmp_path))
    else:
        with MemoryDisk(str(tmp_path)).mounted():
            yield open_storage(str(tmp_path))


def names(storage: Storage, path: str = "") -> list[str]:
    return [entry.name for entry in storage.list(path)]


def test_the_contract_is_short() -> None:
    assert len(Path(protocol.__file__).read_text().splitlines()) < 100


class TestContract:
    def test_files_are_whole(self, storage: Storage) -> None:
        storage.make_dirs("a b/c")
        storage.write_durable("a b/c/x", b"hello")
        storage.write_durable("a b/c/x", pa.py_buffer(b"hello again"))
        assert storage.read("a b/c/x").to_pybytes() == b"hello again"
        for begin, end in ((0, 5), (6, 11), (3, 99), (0, 99)):
            there = storage.read_range("a b/c/x", begin, end).to_pybytes()
            assert there == b"hello again"[begin:end]
        for begin in (50, 1 << 70):
            assert storage.read_range("a b/c/x", begin, begin + 10).size == 0
        assert storage.read_range("a b/c/x", 0, 1 << 70).size == 11
        with pytest.raises(FileNotFoundError):
            storage.read_range("a b/c/y", 0, 5)
        with storage.open("a b/c/x") as stream:
            stream.seek(6)
            assert stream.read(3) == b"aga"
            assert stream.read() == b"in"
        assert storage.size("a b/c/x") == 11
        assert storage.is_file("a b/c/x")
        assert storage.exists("a b/c/x")
        assert not storage.is_file("a b/c")
        assert names(storage, "a b/c") == ["x"]
        assert storage.child("a b").child("c").read("x").to_pybytes() == b"hello again"
        assert open_storage(storage.join("a b/c")).read("x").to_pybytes() == b"hello again"

    def test_an_empty_file(self, storage: Storage) -> None:
        storage.write_durable("x", b"")
        for size in (None, 0, 5):
            assert storage.read("x", size).size == 0
        assert storage.read_range("x", 0, 5).size == 0
        with storage.open("x") as stream:
            assert stream.read() == b""
        assert storage.size("x") == 0
        with pytest.raises(pa.ArrowInvalid):
            storage.read_footer("x")

    def test_what_is_not_there(self, storage: Storage) -> None:
        assert storage.size("x") is None
        assert storage.stamp("x") is None
        assert not storage.exists("x")
        assert storage.list("nowhere") == []
        assert storage.read_document("x") == {}
        storage.delete("x")
        storage.delete_tree("nowhere")
        assert not storage.move("x", "y")
        for read in (storage.read, storage.read_footer, storage.open):
            with pytest.raises(FileNotFoundError):
                read("x")
        for read_sized in (storage.read, storage.read_footer):
            with pytest.raises(FileNotFoundError):
                read_sized("x", 100)

    def test_a_listing_is_sorted_and_has_sizes(self, storage: Storage) -> None:
        storage.make_dirs("folder")
        storage.write_durable("folder/inside", b"")
        for name in ("b", "a", "c"):
            storage.write_durable(name, name.encode() * 3)
        assert [(entry.name, entry.size, entry.is_folder) for entry in storage.list()] == [
            ("a", 3, False),
            ("b", 3, False),
            ("c", 3, False),
            ("folder", 0, True),
        ]
        storage.write_durable("folder/more", b"1")
        every = storage.list("folder")
        for after in ("a", "inside", "j", "more", "zzz"):
            found = storage.list("folder", after)  # the time of a change may be told less exactly
            assert [e[:4] for e in found] == [e[:4] for e in every if e.name > after]
        assert storage.list("nowhere", "a") == []
        storage.delete("b")
        storage.delete_tree("folder")
        assert names(storage) == ["a", "c"]

    def test_a_stamp_changes_with_the_file(self, storage: Storage) -> None:
        seen = set()
        for text in (b"1", b"2", b"3"):
            storage.write_durable("x", text)
            assert storage.stamp("x") == storage.stamp("x")
            seen.add(storage.stamp("x"))
        assert len(seen) == 3

    def test_compare_and_swap_has_one_winner(self, storage: Storage) -> None:
        racers = 4
        for number in range(5):
            barrier = threading.Barrier(racers)

            def race(racer: int, number: int = number, barrier: threading.Barrier = barrier) -> bool:
                barrier.wait()
                return storage.put_if_absent(f"{number}", b"racer %d" % racer)

            with ThreadPoolExecutor(racers) as pool:
                won = list(pool.map(race, range(racers)))
            assert sum(won) == 1
            assert storage.read(f"{number}").to_pybytes() == b"racer %d" % won.index(True)
        assert names(storage) == [str(number) for number in range(5)]

    def test_a_second_try_finds_its_own_file(self, storage: Storage) -> None:
        assert storage.put_if_absent("x", b"mine")
        assert storage.put_if_absent("x", b"mine")
        assert not storage.put_if_absent("x", b"theirs")

    def test_streams(self, storage: Storage) -> None:
        stream = storage.create("new/folder/.x")
        stream.write(b"one")
        if storage.appends:
            storage.persist(stream, "new/folder/.x", closing=False)
            assert storage.read("new/folder/.x").to_pybytes() == b"one"
        else:
            assert not storage.exists("new/folder/.x")
        stream.write(b" two")
        storage.persist(stream, "new/folder/.x", closing=True)
        assert storage.move("new/folder/.x", "new/folder/x")
        assert names(storage, "new/folder") == ["x"]
        assert storage.read("new/folder/x").to_pybytes() == b"one two"

    def test_a_move_replaces_a_file(self, storage: Storage) -> None:
        storage.write_durable("old", b"old")
        storage.write_durable("new", b"new")
        assert storage.move("new", "old")
        assert names(storage) == ["old"]
        assert storage.read("old").to_pybytes() == b"new"

    def test_sharing(self, storage: Storage) -> None:
        storage.make_dirs("one")
        storage.make_dirs("two")
        one, two = storage.child("one"), storage.child("two")
        one.write_durable("x", b"shared")
        assert two.share(one, "x") == (storage.local is not None)
        two.sync()
        one.delete("x")
        assert two.read("x").to_pybytes() == b"shared"
        with pytest.raises(FileNotFoundError):
            two.share(one, "x")

    def test_footers_and_documents(self, storage: Storage) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"n": [1, 2, 3]}), sink)
        storage.write_durable("x", sink.getvalue())
        whole = sink.getvalue()
        assert storage.read_footer("x").num_rows == storage.read_footer("x", whole.size).num_rows == 3
        for size in (1, whole.size - 1, whole.size + 1, whole.size + 100_000):
            with pytest.raises(pa.ArrowInvalid, match=f"it has {whole.size} bytes, not {size}"):
                storage.read_footer("x", size)
            assert storage.read("x", size).equals(whole)
        for text, document in ((b'{"a": 1}', {"a": 1}), (b"[1]", {}), (b"\xff", {}), (b"[" * 100_000, {})):
            storage.write_durable("hint", text)
            assert storage.read_document("hint") == document
        with pytest.raises(pa.ArrowInvalid):
            storage.read_footer("hint")

    @pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a\0b"])
    def test_paths_stay_inside(self, storage: Storage, path: str) -> None:
        with pytest.raises(StorageError, match="leaves its folder"):
            storage.write_durable(path, b"")
        with pytest.raises(StorageError, match="leaves its folder"):
            storage.read(path)

    def test_a_lock_has_one_holder(self, storage: Storage) -> None:
        lock = storage.lock("lock")
        lock.note(b"me")
        if storage.local is None:
            storage.lock("lock").release()
        else:
            with pytest.raises(LockTakenError) as caught:
                storage.lock("lock")
            assert caught.value.note == b"me"
        lock.release()
        storage.lock("lock").release()


class TestLocalDisk:
    @pytest.mark.parametrize("root", ["file://{}", "file:{}", "{}"])
    def test_roots(self, tmp_path: Path, root: str) -> None:
        storage = open_storage(root.format(tmp_path))
        assert isinstance(storage, LocalDisk)
        storage.write_durable("x", b"")
        assert (tmp_path / "x").exists()

    def test_links_below_the_root_are_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "root").mkdir()
        (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
        root = str(tmp_path / "root")
        with pytest.raises(ForeignPathError, match="symbolic link"):
            open_storage(root).write_durable("link/x", b"")
        open_storage(root, follows_links=True).write_durable("link/x", b"")
        assert (tmp_path / "elsewhere" / "x").exists()

    def test_folder_under_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_text("x")
        with pytest.raises(StorageError, match=f"{tmp_path}/f/x"):
            open_storage(str(tmp_path / "f" / "x")).make_dirs()

    def test_a_folder_is_not_moved_over_another(self, tmp_path: Path) -> None:
        storage = open_storage(str(tmp_path))
        for folder in ("new", "taken"):
            storage.make_dirs(folder)
            storage.write_durable(f"{folder}/x", folder.encode())
        with pytest.raises(StorageError, match="taken was made by somebody else meanwhile"):
            storage.move("new", "taken")
        assert storage.move("new", "free")
        assert storage.read("free/x").to_pybytes() == b"new"

    def test_in_the_background_the_machines_disk_takes_a_megabyte_at_a_time(self, tmp_path: Path) -> None:
        taken: list[tuple[int, int]] = []

        class Watched(DiskCalls):
            def write_out(self, descriptor: int, offset: int, count: int) -> None:
                super().write_out(descriptor, offset, count)
                taken.append((offset, count))

        data = random.Random(1).randbytes((2 << 20) + 1)
        storage = LocalDisk(str(tmp_path), calls=Watched())
        storage.write_durable("x", data, background=True)
        storage.write_durable("y", data)
        assert taken == [(0, 1 << 20), (1 << 20, 1 << 20)]
        assert storage.read("x").to_pybytes() == storage.read("y").to_pybytes() == data
        with pytest.raises(OSError, match="Bad file descriptor"):  # what the kernel says is raised
            DiskCalls().write_out(-1, 0, 1)


class TestObjectStore:
    def test_any_uri_of_pyarrow(self) -> None:
        storage = open_storage("mock://bucket/jobs")
        assert isinstance(storage, ObjectStore)
        storage.make_dirs()
        storage.write_durable("x", b"abc")
        assert storage.read("x").to_pybytes() == b"abc"
        with pytest.raises(StorageError, match="cannot open"):
            open_storage("nonsense://x")

    def test_hdfs_without_hadoop(self) -> None:
        """As programs name their checkpoint directory: one line, and what to set."""
        with pytest.raises(StorageError, match="cannot open") as error:
            open_storage("hdfs://namenode:8020/chk")
        assert "set state.changelog.dstl.dfs.base-path to a folder" in str(error.value)
        assert "\n" not in str(error.value)

    def test_a_scheme_that_pyarrow_alone_knows(self, bucket: Callable[[], str]) -> None:
        root = bucket()
        open_storage(root).write_durable("x", b"abc")
        assert open_storage(root.replace("s3:", "s3n:")).read("x", 3).to_pybytes() == b"abc"

    def test_without_a_conditional_put(self) -> None:
        storage = open_storage("mock://bucket/jobs")
        with pytest.raises(StorageError, match="mock: has no conditional put"):
            storage.put_if_absent("x", b"abc")

    def test_a_stream_that_cannot_be_closed_is_not_closed_again(self) -> None:
        """The second time pyarrow does nothing and says yes, to an object that is not there."""

        class Broken(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    super().close()
                    raise OSError("AWS Error SLOW_DOWN during PutObject operation")

        with pytest.raises(StorageError, match=r"could not write mock://bucket/jobs/x: AWS Error SLOW_DOWN"):
            open_storage("mock://bucket/jobs").persist(Broken(), "x", closing=True)

    def test_a_path_that_cannot_be_written_down(self) -> None:
        with pytest.raises(ConfigurationError):
            open_storage("/tmp/\ud800")


class TestFailures:
    """What a disk does wrong, on the memory disk."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> MemoryDisk:
        return MemoryDisk(str(tmp_path))

    @pytest.mark.parametrize("call", ["write", "fsync", "rename", "sync"])
    def test_transient_errors_are_retried(self, disk: MemoryDisk, call: str) -> None:
        pauses: list[float] = []
        storage = disk.storage(Retry(sleep=pauses.append))
        disk.fail(call, errno.EIO, times=2)
        storage.write_durable("x", b"abc")
        assert storage.read("x").to_pybytes() == b"abc"
        assert pauses == [0.05, 0.1]
        assert os.listdir(disk.folder) == ["x"]

    def test_in_the_background_what_the_disk_did_not_take_is_written_anew(self, disk: MemoryDisk) -> None:
        """The kernel says it once: an fsync of the same file would say that all is well."""
        data = random.Random(1).randbytes((2 << 20) + 1)
        storage = disk.storage(Retry(sleep=lambda pause: None))
        disk.fail("write_out", errno.EIO, after=1)
        storage.write_durable("x", data, background=True)
        names = [one.name for one in disk.calls]
        first = ["create", "write", "write_out", "write", "write_out", "unlink"]
        assert names[: len(first)] == first
        assert names[len(first) :] == [*first[:-1], "write", "fsync", "rename", "sync"]
        assert storage.read("x").to_pybytes() == data

    @pytest.mark.parametrize("look", ["exists", "is_file", "size"])
    def test_what_cannot_be_looked_at_is_not_taken_for_missing(
        self, disk: MemoryDisk, look: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage = disk.storage(Retry(sleep=lambda pause: None))
        storage.write_durable("x", b"abc")
        works, failing = os.stat, iter([True] * 3)

        def fails(path: str, *arguments: Any, **more: Any) -> os.stat_result:
            if path == storage.join("x") and next(failing, False):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return works(path, *arguments, **more)

        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", fails)
            patched.setattr(os, "lstat", fails)
            assert getattr(storage, look)("x")
            failing = iter([True] * 9)
            with pytest.raises(StorageError, match=r"could not look at .*/x after 4 tries"):
                getattr(storage, look)("x")
        assert not getattr(storage, look)("x/below")

    def test_retries_are_bounded(self, disk: MemoryDisk) -> None:
        pauses: list[float] = []
        storage = disk.storage(Retry(tries=4, sleep=pauses.append))
        disk.fail("fsync", errno.EIO, times=99)
        with pytest.raises(StorageError, match="after 4 tries"):
            storage.write_durable("x", b"abc")
        assert len(pauses) == 3
        assert os.listdir(disk.folder) == []

    @pytest.mark.parametrize("call", ["write", "fsync"])
    def test_disk_full_is_said_at_once(self, disk: MemoryDisk, call: str) -> None:
        storage = disk.storage()
        storage.write_durable("x", b"old")
        disk.fail(call, errno.ENOSPC)
        before = disk.now
        with pytest.raises(StorageError, match=r"disk full: could not write .*/x.*Free space"):
            storage.write_durable("x", b"new")
        assert [one.name for one in disk.calls[before:]].count(call) == 1
        assert storage.read("x").to_pybytes() == b"old"
        assert os.listdir(disk.folder) == ["x"]
        storage.write_durable("x", b"new")  # goes on when space is back
        assert storage.read("x").to_pybytes() == b"new"

    def test_case_12_a_disk_without_inodes_is_said_to_have_space(
        self, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage, free = disk.storage(), SimpleNamespace(f_files=99)
        monkeypatch.setattr(os, "statvfs", lambda path: free)
        for free.f_favail, free.f_bavail, words in (
            (0, 9, "no inode is left (df -i)"),
            (9, 9, "Free space"),
            (0, 0, "Free space"),
        ):
            disk.fail("write", errno.ENOSPC)
            with pytest.raises(StorageError, match=re.escape(words)):
                storage.write_durable("x", b"new")

    def test_a_disk_that_fills_up(self, tmp_path: Path) -> None:
        storage = MemoryDisk(str(tmp_path), capacity_bytes=100).storage()
        storage.write_durable("x", bytes(60))
        with pytest.raises(StorageError, match="disk full"):
            storage.write_durable("y", bytes(60))
        assert names(storage) == ["x"]
        storage.write_durable("y", bytes(40))

    def test_refused_permission_is_not_retried(self, disk: MemoryDisk) -> None:
        disk.fail("create", errno.EACCES, times=99)
        with pytest.raises(StorageError, match=rf"could not write {disk.folder}/x.*writable"):
            disk.storage().write_durable("x", b"")
        assert len(disk.calls) == 2  # and the temporary file is looked for

    def test_too_many_open_files_are_told_with_what_to_do(self, disk: MemoryDisk) -> None:
        disk.fail("create", errno.EMFILE)
        with pytest.raises(StorageError, match=rf"could not write {disk.folder}/x: .*ulimit -n"):
            disk.storage().write_durable("x", b"")

    def test_the_sync_of_the_folder_fails_after_the_link(self, disk: MemoryDisk) -> None:
        storage = disk.storage(Retry(sleep=lambda _: None))
        disk.fail("sync", errno.EIO)
        assert storage.put_if_absent("y", b"mine")
        assert os.listdir(disk.folder) == ["y"]

    def test_a_stream_whose_fsync_fails_is_not_tried_again(self, disk: MemoryDisk) -> None:
        """The kernel may have dropped what was written: a second fsync would say yes to a file without it."""
        storage = disk.storage()
        stream = storage.create(".x")
        stream.write(b"abc")
        disk.fail("fsync", errno.EIO)
        with pytest.raises(StorageError, match=r"could not write .*/\.x"):
            storage.persist(stream, ".x", closing=True)
        assert [call.name for call in disk.calls].count("fsync") == 1
        stream.close()

    def test_a_file_of_another_program_whose_fsync_fails_is_not_tried_again(self, disk: MemoryDisk) -> None:
        Path(disk.folder, "x").write_bytes(b"abc")
        disk.fail("sync", errno.EIO)
        with pytest.raises(StorageError, match=r"could not sync .*/x"):
            disk.storage().sync("x")
        assert disk.left(disk.now, False).get("x") != b"abc"

    def test_the_sync_above_a_new_folder_fails(self, disk: MemoryDisk) -> None:
        """The retry syncs what was not synced, though the folder is there by then."""
        storage = disk.storage(Retry(sleep=lambda _: None))
        disk.fail("sync", errno.EIO)
        storage.make_dirs("a/b")
        assert disk.left(disk.now, False) == {"a": None, "a/b": None}


PATHS = st.sampled_from(["a", "b", "folder/a", "folder/b"])
DATA = st.binary(max_size=5)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write_durable"), PATHS, DATA),
        st.tuples(st.just("put_if_absent"), PATHS, DATA),
        st.tuples(st.just("stream"), PATHS, DATA),
        st.tuples(st.just("move"), PATHS, PATHS),
        st.tuples(st.just("delete"), PATHS),
    ),
    max_size=15,
)


def do(storage: Storage, operation: tuple[Any, ...]) -> object:
    name, *arguments = operation
    if name != "stream":
        return getattr(storage, name)(*arguments)
    path, data = arguments
    hidden = f"{path}.hidden"
    stream = storage.create(hidden)
    stream.write(data)
    storage.persist(stream, hidden, closing=True)
    return storage.move(hidden, path)


def model_after(model: dict[str, bytes], operation: tuple[Any, ...]) -> dict[str, bytes]:
    name, path, *more = operation
    after = dict(model)
    if name in ("write_durable", "stream"):
        after[path] = more[0]
    elif name == "put_if_absent":
        after.setdefault(path, more[0])
    elif name == "delete":
        after.pop(path, None)
    elif path in after and path != more[0]:
        after[more[0]] = after.pop(path)
    return after


def visible(storage: Storage) -> dict[str, bytes]:
    found = {}
    for folder in ("", "folder/"):
        for entry in storage.list(folder.rstrip("/")):
            if not entry.is_folder and not entry.name.startswith(".") and not entry.name.endswith(".hidden"):
                found[folder + entry.name] = storage.read(folder + entry.name).to_pybytes()
    return found


@given(OPERATIONS, st.data())
def test_a_disk_that_loses_power_equals_a_dict(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Whatever was done before the power went is there; what was being done is there whole or not at all.

    A deletion may be undone.
    """
    disk = MemoryDisk(str(tmp_path_factory.mktemp("disk")))
    storage = disk.storage()
    storage.make_dirs("folder")
    models, moments, deleted = [dict[str, bytes]()], [disk.now], [False]
    for operation in operations:
        do(storage, operation)
        models.append(model_after(models[-1], operation))
        assert visible(storage) == models[-1]
        moments.append(disk.now)
        deleted.append(deleted[-1] or operation[0] == "delete")
    moment = data.draw(st.integers(moments[0], disk.now), label="power cut before call")
    seed = data.draw(st.integers(0, 2**32), label="seed")
    target = tmp_path_factory.mktemp("after")
    disk.cut(moment, random.Random(seed), str(target))
    left = visible(LocalDisk(str(target)))
    done = max(index for index, at in enumerate(moments) if at <= moment)
    following = models[min(done + 1, len(models) - 1)]
    if not deleted[min(done + 1, len(models) - 1)]:
        assert left in (models[done], following)
    else:
        for path in models[done].keys() | following.keys():
            if path in models[done] and path in following:
                assert left.get(path) in (models[done][path], following[path])


def test_a_disk_that_lies_loses_what_it_said_was_durable(tmp_path: Path) -> None:
    """The suite above can fail: on such a disk a power cut leaves nothing."""
    disk = MemoryDisk(str(tmp_path / "disk"), lies=lambda call: True)
    disk.storage().write_durable("x", b"abc")
    disk.cut(disk.now, False, str(tmp_path / "after"))
    assert os.listdir(tmp_path / "after") == []
