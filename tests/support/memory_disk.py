"""A disk in memory that loses what was not fsynced, for tests: the calls of a local disk, kept in a journal.

``MemoryDisk`` takes the place of the machine's disk below a folder, so that all of the engine's own code runs on it, and
readers (pyarrow, delta-rs) find real files there. Each call that changes the disk is an entry of the journal. ``cut`` says
what a power cut at any moment may have left, and lays it down in another folder:

* the bytes of a file up to its last fsync are there; of those written since, none, all or a part (a torn write);
* a name is there for sure when its folder was fsynced since; of the links, renames, deletions and new folders since, any
  subset is;
* a folder that is not there takes along what is in it, fsynced or not.

It can also lie (fsync returns and does nothing), tear what was fsynced, fill up, fail and stall.

Invariant: what stands in the folder while nothing is cut is what a real disk would hold.
"""

from __future__ import annotations

import errno
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from changelog_engine.storage.local_disk import DiskCalls, LocalDisk
from changelog_engine.storage.opening import mount, unmount
from changelog_engine.storage.retry import Retry

_ROOT = 0


class _Change(NamedTuple):
    """A change of names: in which folders, and what each of their names stands for afterwards (None: for nothing)."""

    names: tuple[tuple[int, str, int | None], ...]  # folder, name, file or folder

    def is_in(self, folder: int) -> bool:
        return any(place == folder for place, _, _ in self.names)


class _Bytes(NamedTuple):
    """The whole contents of a file after a write."""

    node: int
    data: bytes


class _SyncedFile(NamedTuple):
    node: int


class _SyncedFolder(NamedTuple):
    node: int


_Entry = _Change | _Bytes | _SyncedFile | _SyncedFolder


class Call(NamedTuple):
    """A call to the disk.

    Args:
        name: of the method of DiskCalls.
        path: relative to the disk's folder.
    """

    name: str
    path: str


@dataclass
class _Fault:
    """What befalls some calls."""

    name: re.Pattern[str]
    path: re.Pattern[str]
    times: int
    strike: Callable[[Call], None]


@dataclass
class _Tree:
    """Folders by number, each with its names; and which numbers are files."""

    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {_ROOT: {}})

    def apply(self, change: _Change) -> None:
        for folder, name, node in change.names:
            if node is None:
                self.folders.setdefault(folder, {}).pop(name, None)
            else:
                self.folders.setdefault(folder, {})[name] = node


class MemoryDisk(DiskCalls):
    """A disk below a folder.

    Args:
        folder: a folder, best in memory (``/dev/shm``); what is in it is durable.
        capacity_bytes: how much it holds; None for any amount.
        lies: the calls of fsync that do nothing, and say nothing of it; None for none.

    Example:
        >>> with MemoryDisk(folder).mounted() as disk:  # doctest: +SKIP
        ...     open_storage(folder).write_durable("a", b"1")
        ...     disk.cut(disk.now, random.Random(1), elsewhere)
    """

    def __init__(
        self, folder: str, capacity_bytes: int | None = None, lies: Callable[[Call], bool] | None = None
    ) -> None:
        self.folder = os.path.abspath(folder)
        self.capacity_bytes = capacity_bytes
        self.lies = lies
        self.calls: list[Call] = []
        self._journal: list[_Entry] = []
        self._before: list[int] = []  # of each call: how many entries the journal had
        self._live = _Tree()
        self._kinds: dict[int, bool] = {_ROOT: True}  # whether a number is a folder
        self._open: dict[int, int] = {}  # descriptor -> file
        self._faults: list[_Fault] = []
        self._lock = threading.RLock()
        os.makedirs(self.folder, exist_ok=True)
        self._adopt(self.folder)  # what is there is durable
        self._journal += [_SyncedFolder(n) if folder else _SyncedFile(n) for n, folder in self._kinds.items()]

    @contextmanager
    def mounted(self) -> Iterator[MemoryDisk]:
        """Let it stand in for the machine's disk below its folder."""
        mount(self.folder, self)
        try:
            yield self
        finally:
            unmount(self.folder)

    def storage(self, retry: Retry | None = None) -> LocalDisk:
        """The storage of its folder."""
        return LocalDisk(self.folder, retry, self)

    @property
    def now(self) -> int:
        """The moment behind all calls so far; the moment before call n is n."""
        return len(self.calls)

    # What can go wrong. Names and paths of calls are regular expressions.

    def on(self, name: str, action: Callable[[Call], None], times: int = 1, path: str = "") -> None:
        """Run something before the next calls whose whole name, and some of whose path, matches."""
        self._faults.append(_Fault(re.compile(name), re.compile(path), times, action))

    def fail(self, name: str, number: int, times: int = 1, path: str = "", after: int = 0) -> None:
        """Let calls fail with an errno, but for the first few."""
        passed = iter(range(after))

        def strike(call: Call) -> None:
            if next(passed, None) is None:
                raise OSError(number, os.strerror(number), os.path.join(self.folder, call.path))

        self.on(name, strike, times + after, path)

    def stall(self, name: str, seconds: float, times: int = 1, path: str = "") -> None:
        """Let calls take long."""
        self.on(name, lambda call: time.sleep(seconds), times, path)

    def heal(self) -> None:
        """Let nothing go wrong any more."""
        self._faults.clear()
        self.capacity_bytes = None
        self.lies = None

    def tear(self, path: str, keep: float = 0.5) -> None:
        """Cut a file that was fsynced, as a disk may that loses power while it writes one."""
        full = os.path.join(self.folder, path)
        os.truncate(full, int(os.path.getsize(full) * keep))

    def _step(self, name: str, path: str) -> Call:
        call = Call(name, os.path.relpath(path, self.folder))
        self.calls.append(call)
        self._before.append(len(self._journal))
        for fault in self._faults:
            if fault.times > 0 and fault.name.fullmatch(name) and fault.path.search(call.path):
                fault.times -= 1
                fault.strike(call)
        return call

    # See DiskCalls.

    def create(self, path: str) -> int:
        with self._lock:
            self._step("create", path)
            descriptor = super().create(path)
            node = self._new(False)
            self._name(path, node)
            self._open[descriptor] = node
            return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        with self._lock:
            path = self._path_of(descriptor)
            self._step("write", path)
            if self.capacity_bytes is not None:
                room = self.capacity_bytes - self._used()
                if room <= 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
                data = data[:room]
            count = super().write(descriptor, data)
            self._note_bytes(self._open[descriptor], path)
            return count

    def write_out(self, descriptor: int, offset: int, count: int) -> None:
        with self._lock:
            self._step("write_out", self._path_of(descriptor))

    def fsync(self, descriptor: int) -> None:
        with self._lock:
            path = self._path_of(descriptor)
            self._note_bytes(self._open[descriptor], path)  # what a stream wrote by itself
            call = self._step("fsync", path)
            if self.lies is None or not self.lies(call):
                self._journal.append(_SyncedFile(self._open[descriptor]))

    def close(self, descriptor: int) -> None:
        with self._lock:
            self._open.pop(descriptor, None)
            super().close(descriptor)

    def sync_path(self, path: str) -> None:
        with self._lock:
            if not os.path.exists(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._adopt(path)
            node = self._find(path)
            if node is not None and not self._kinds[node]:
                self._note_bytes(node, path)
            call = self._step("sync", path)
            if node is not None and (self.lies is None or not self.lies(call)):  # else the disk's own folder
                self._journal.append(_SyncedFolder(node) if self._kinds[node] else _SyncedFile(node))

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            self._adopt(source)
            self._step("rename", target)
            super().rename(source, target)
            node = self._find(source)
            assert node is not None
            self._change((*self._place(source), None), (*self._place(target), node))

    def link(self, source: str, target: str) -> None:
        with self._lock:
            self._step("link", target)
            self._adopt(source)
            node = self._find(source)
            if node is None:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
            super().link(source, target)
            self._name(target, node)

    def unlink(self, path: str) -> None:
        with self._lock:
            self._step("unlink", path)
            super().unlink(path)
            self._change((*self._place(path), None))

    def mkdir(self, path: str) -> None:
        with self._lock:
            self._step("mkdir", path)
            super().mkdir(path)
            self._name(path, self._new(True))

    def remove_tree(self, path: str) -> None:
        with self._lock:
            for folder, folders, files in os.walk(path, topdown=False):
                for name in files:
                    self.unlink(os.path.join(folder, name))
                for name in folders:
                    self._remove_folder(os.path.join(folder, name))
            self._remove_folder(path)

    def _remove_folder(self, path: str) -> None:
        self._step("rmdir", path)
        os.rmdir(path)
        self._change((*self._place(path), None))

    # The tree as it is.

    def _new(self, is_folder: bool) -> int:
        node = len(self._kinds)
        self._kinds[node] = is_folder
        if is_folder:
            self._live.folders[node] = {}
        return node

    def _find(self, path: str) -> int | None:
        node: int | None = _ROOT
        relative = os.path.relpath(path, self.folder)
        if relative.startswith(".."):
            return None
        for part in () if relative == "." else relative.split("/"):
            node = self._live.folders.get(node, {}).get(part) if node is not None else None
        return node

    def _place(self, path: str) -> tuple[int, str]:
        folder = self._find(os.path.dirname(path))
        assert folder is not None, path
        return folder, os.path.basename(path)

    def _change(self, *names: tuple[int, str, int | None]) -> None:
        change = _Change(names)
        self._live.apply(change)
        self._journal.append(change)

    def _name(self, path: str, node: int) -> None:
        self._change((*self._place(path), node))

    def _path_of(self, descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}")

    def _note_bytes(self, node: int, path: str) -> None:
        with open(path, "rb") as file:
            self._journal.append(_Bytes(node, file.read()))

    def _adopt(self, path: str) -> None:
        """Take up what other programs made at a path, or in it."""
        node = self._find(path)
        if node is None:
            if self._find(os.path.dirname(path)) is None or not os.path.exists(path):
                return
            node = self._new(os.path.isdir(path))
            self._name(path, node)
            if not self._kinds[node]:
                self._note_bytes(node, path)
        if self._kinds[node]:
            for name in sorted(set(os.listdir(path)) - self._live.folders[node].keys()):
                self._adopt(os.path.join(path, name))

    def _used(self) -> int:
        found = (os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in names)
        return sum(os.path.getsize(path) for path in found)

    # What a power cut leaves.

    def cut(self, moment: int, choose: random.Random | bool, target: str) -> None:
        """Lay down what a power cut before a call may have left.

        Args:
            moment: the number of the call, or ``now``.
            choose: of what was not fsynced, takes any; True keeps all of it, False nothing.
            target: a folder that is not there, or empty.
        """
        lay(self.left(moment, choose), target)

    def left(self, moment: int, choose: random.Random | bool) -> dict[str, bytes | None]:
        """What a power cut before a call may have left: path -> bytes of a file, None for a folder; see ``cut``."""
        entries = self._journal[: self._before[moment]] if moment < len(self._before) else self._journal
        names, waiting = _Tree(), list[_Change]()
        written: dict[int, bytes] = {}
        durable: dict[int, bytes] = {}
        for entry in entries:
            match entry:
                case _Change():
                    waiting.append(entry)
                case _Bytes(node, data):
                    written[node] = data
                case _SyncedFile(node):
                    durable[node] = written.get(node, b"")
                case _SyncedFolder(node):
                    for change in waiting:
                        if change.is_in(node):
                            names.apply(change)
                    waiting = [change for change in waiting if not change.is_in(node)]
        for change in waiting:
            if choose if isinstance(choose, bool) else choose.random() < 0.5:
                names.apply(change)
        found: dict[str, bytes | None] = {}
        folders = [("", _ROOT)]
        for path, folder in folders:  # grows
            for name, node in sorted(names.folders.get(folder, {}).items()):
                if self._kinds[node]:
                    found[f"{path}{name}"] = None
                    folders.append((f"{path}{name}/", node))
                else:
                    before, after = durable.get(node, b""), written.get(node, b"")
                    found[f"{path}{name}"] = _some_of(before, after, choose)
        return found


def lay(left: Mapping[str, bytes | None], target: str) -> None:
    """Write down files and folders; see ``MemoryDisk.left``."""
    os.makedirs(target, exist_ok=True)
    for path, data in left.items():
        full = os.path.join(target, path)
        if data is None:
            os.mkdir(full)
        else:
            with open(full, "wb") as file:
                file.write(data)


def _some_of(durable: bytes, written: bytes, choose: random.Random | bool) -> bytes:
    """What is left of a file: what was fsynced, and of what was written since none, all, or some in the right length."""
    if written == durable or isinstance(choose, bool):
        return written if choose is not False else durable
    how = choose.randrange(4)
    if how < 2:
        return (durable, written)[how]
    at = choose.randint(len(durable), max(len(durable), len(written)))
    return written[:at] if how == 2 else written[:at] + bytes(max(0, len(written) - at))
