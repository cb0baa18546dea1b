"""Storage: durable writes, bounded retries, clear errors (reliability 5, 12)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from changelog_engine.errors import StorageError
from changelog_engine.storage.filesystem import Storage
from changelog_engine.storage.retry import Retry


def test_write_read_list_delete(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path / "a b" / "c"))
    storage.make_dirs("sub")
    storage.write_durable("sub/x", b"hello")
    assert storage.read("sub/x").to_pybytes() == b"hello"
    assert storage.size("sub/x") == 5
    assert [entry.name for entry in storage.list("sub")] == ["x"]
    assert storage.exists("sub")
    assert storage.is_file("sub/x")
    storage.delete("sub/x")
    storage.delete("sub/x")
    assert storage.list("sub") == []
    assert storage.list("nowhere") == []
    with pytest.raises(FileNotFoundError):
        storage.read("sub/x")


@pytest.mark.parametrize("root", ["file://{}", "file:{}", "{}"])
def test_local_roots(tmp_path: Path, root: str) -> None:
    storage = Storage(root.format(tmp_path))
    storage.write_durable("x", b"")
    assert storage.read("x").to_pybytes() == b""
    assert (tmp_path / "x").exists()


def test_remote_file_system_by_uri() -> None:
    storage = Storage("mock://bucket/jobs")
    storage.make_dirs()
    storage.write_durable("x", b"abc")
    assert storage.size("x") in (3, None)  # each mock of pyarrow is a new, empty one
    with pytest.raises(StorageError, match="no file system answers"):
        Storage("nonsense://x")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x"])
def test_paths_stay_inside(tmp_path: Path, path: str) -> None:
    with pytest.raises(StorageError, match="leaves its folder"):
        Storage(str(tmp_path)).write_durable(path, b"")


def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int, times: int) -> list[int]:
    """Make os.<name> fail with errno ``number`` the first ``times`` calls; counts calls."""
    calls: list[int] = []
    real = getattr(os, name)

    def broken(*args: object) -> object:
        calls.append(1)
        if len(calls) <= times:
            raise OSError(number, os.strerror(number))
        return real(*args)

    monkeypatch.setattr(os, name, broken)
    return calls


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_transient_errors_are_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    pauses: list[float] = []
    storage = Storage(str(tmp_path), Retry(sleep=pauses.append))
    failing(monkeypatch, call, errno.EIO, 2)
    storage.write_durable("x", b"abc")
    assert storage.read("x").to_pybytes() == b"abc"
    assert pauses == [0.05, 0.1]
    assert os.listdir(tmp_path) == ["x"]


def test_retries_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    storage = Storage(str(tmp_path), Retry(tries=4, sleep=pauses.append))
    failing(monkeypatch, "fsync", errno.EIO, 99)
    with pytest.raises(StorageError, match="after 4 tries"):
        storage.write_durable("x", b"abc")
    assert len(pauses) == 3
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_disk_full_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    storage = Storage(str(tmp_path))
    storage.write_durable("x", b"old")
    calls = failing(monkeypatch, call, errno.ENOSPC, 1)
    with pytest.raises(StorageError, match=r"disk full: could not write .*/x.*Free space"):
        storage.write_durable("x", b"new")
    assert len(calls) == 1
    assert storage.read("x").to_pybytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]
    storage.write_durable("x", b"new")  # goes on when space is back
    assert storage.read("x").to_pybytes() == b"new"


def test_refused_permission_is_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = failing(monkeypatch, "open", errno.EACCES, 99)
    with pytest.raises(StorageError, match=rf"could not write {tmp_path}/x.*writable"):
        Storage(str(tmp_path)).write_durable("x", b"")
    assert len(calls) == 1


def test_folder_under_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(StorageError, match=f"{tmp_path}/f/x"):
        Storage(str(tmp_path / "f" / "x")).make_dirs()


def test_put_if_absent_has_one_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(str(tmp_path), Retry(sleep=lambda _: None))
    assert storage.put_if_absent("x", b"mine")
    assert not storage.put_if_absent("x", b"theirs")
    assert storage.read("x").to_pybytes() == b"mine"
    # The folder's sync fails after the link: the retry finds its own file.
    calls: list[int] = []
    real = os.fsync

    def broken(descriptor: int) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(errno.EIO, "injected")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", broken)
    assert storage.put_if_absent("y", b"mine")
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]
