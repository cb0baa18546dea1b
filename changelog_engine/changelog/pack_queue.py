"""Where subtasks of one machine put their parts together before they write: a group commit without a leader of its own.

A subtask says in a folder of this machine that it will have a part, lays the sealed part there when it has it, and asks for
the lock. The one that gets it waits a little for those that said so, writes all parts that lie there as packs, and tells the
others where theirs are; one that gets it later and was told so has nothing to do. The barrier waits for all of them anyway.

Invariants:
    * ``write`` returns when the part's bytes are durable, in a file of its own or in a pack.
    * A part that another lays down is used only when its bytes have the checksum of its name, and is of the same
      checkpoint, attempt and stage as one's own.
    * Subtasks of another run of the job see nothing of this one: where its folder was removed, ids begin anew.
    * A subtask that ends with the lock loses nothing of others: they find their parts where they laid them, and write them.
    * One that announced a part, and ended instead, is waited for at most a quarter of one's own time, and a second.
    * What lies in the folder is never needed after the process that laid it down has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from changelog_engine.changelog.log_files import crc32, parse_pack, parse_part, part_name
from changelog_engine.changelog.model import Part
from changelog_engine.changelog.packs import Pack, packed_up
from changelog_engine.changelog.part_stats import footer_of
from changelog_engine.changelog.part_writer import SealedPart
from changelog_engine.clock import monotonic_ms
from changelog_engine.errors import StorageError
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.storage.damaged import PARQUET_ERRORS
from changelog_engine.storage.locks import Lock, lock_file
from changelog_engine.storage.protocol import Storage

# Larger parts are files of their own: a request more is nothing beside their bytes.
MOST_BYTES = 8 * 1024 * 1024
MOST_TOGETHER_BYTES = 128 * 1024 * 1024
"""What one subtask holds of others' parts; whose part would be more writes the rest, with the next ones."""
_TOLD, _COMING = ".told", ".coming"
_MOST_WAIT_MS = 1000
_WAIT_SHARE = 0.25  # of the time since the subtask began: for as much the others may be behind
_LOOK_S = 0.002
_AT_ONCE = 8  # packs that are written side by side
_OF_ATTEMPT = re.compile(r"(?:[0-9a-f]+\.)?(?:part-\d+-(\d+)-|(\d+)-\d+\.lock$)")  # whatever follows


class PackQueue:
    """The parts of one table that subtasks of this machine are about to write.

    Threads: one at a time; other threads and processes have queues of their own with the same root.

    Args:
        root: local folder for temporary files; None for the machine's.
    """

    def __init__(self, storage: Storage, root: str | None = None) -> None:
        self._storage = storage
        self._parent = os.path.join(root or tempfile.gettempdir(), f"changelog-engine-packs-{os.getuid()}")
        self._folder = os.path.join(self._parent, hashlib.sha256(storage.root.encode()).hexdigest()[:16])
        self._run = ""  # what the names of the run's files begin with
        self._lock: str | None = None  # of the attempt and stage that wrote last: others are not waited for
        self._usable = self._made()
        if not self._usable:
            warn(
                "pack queue",
                "%s cannot be made, or others can write to it: parts of this subtask are files of their own. Set TMPDIR "
                "to a folder of this user's, or changelog.part.packs = false",
                self._folder,
            )
        self._coming: str | None = None
        self._began_ms = monotonic_ms()

    def announce(self, checkpoint: int, attempt: int, stage: int, subtask: int, run: str = "") -> None:
        """Say that there will be a part of a run of the job; until ``write`` or ``leave``, others may wait for it."""
        self._usable = self._usable and self._made()  # the attempt before may have removed the folder
        if self._usable:
            self._began_ms = monotonic_ms()
            self._run = f"{hashlib.sha256(run.encode()).hexdigest()[:16]}." if run else ""
            self._coming = self._place(f"part-{checkpoint}-{attempt}-{stage}-{subtask}{_COMING}")
            with contextlib.suppress(OSError):
                _lay(self._coming, b"")

    def leave(self) -> None:
        """Say that there will be none."""
        if self._coming is not None:
            _forget(self._coming)
            self._coming = None

    def write(self, sealed: SealedPart) -> Part:
        """Make a part durable, with those of others that wait.

        Raises:
            StorageError: it could not be written; it may be written again.
        """
        if not self._usable or sealed.data.size > MOST_BYTES:
            self.leave()
            return sealed.write(self._storage)
        own = self._place(part_name(sealed.name))
        try:
            _lay(own, sealed.data)
            self.leave()
            lock = self._locked(f"{sealed.name.attempt}-{sealed.name.stage}.lock")
        except (OSError, StorageError):  # a full disk, or a folder that somebody cleared
            self.leave()
            _forget(own)
            return sealed.write(self._storage)
        try:
            told = _told(own, sealed)
            if told is not None:
                return told
            if not lock.held:  # nobody can be kept out there
                return sealed.write(self._storage)
            return self._write_all(sealed)
        finally:
            _forget(own)
            _forget(own + _TOLD)
            lock.release()

    def close(self) -> None:
        """Remove what the machine keeps for the table, unless another subtask uses it."""
        self.leave()
        with contextlib.suppress(OSError, StorageError):
            if self._lock is not None:
                lock = lock_file(self._lock, flags=0)
                _forget(self._lock)
                lock.release()
            os.rmdir(self._folder)  # only when it is empty

    def _place(self, name: str) -> str:
        return os.path.join(self._folder, self._run + name)

    def _locked(self, name: str) -> Lock:
        self._lock = self._place(name)
        while True:
            lock = lock_file(self._lock, mode=0o600, wait=True)
            if not lock.held or lock.is_of(self._lock):
                return lock
            lock.release()

    def _made(self) -> bool:
        """Whether there is a folder that other users of the machine have not made and cannot write to."""
        for folder in (self._parent, self._folder):
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                found = os.lstat(folder)
            except OSError:
                return False
            if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
                return False
        return True

    def _write_all(self, sealed: SealedPart) -> Part:
        try:
            self._gather(sealed)
            others = self._others(sealed)
        except OSError:  # somebody cleared the folder
            others = []
        packs = packed_up([sealed, *others])
        if not packs or sealed.name not in [part.name for part in packs[0].parts]:
            return sealed.write(self._storage)
        places = {self._place(part_name(part.name)): pack for pack in packs for part in pack.parts}
        try:
            try:  # while nothing is written: on a disk that is full nobody could be told
                for place, pack in places.items():
                    _write(_aside(place + _TOLD), json.dumps([pack.path, pack.data.size]).encode())
            except OSError:
                return sealed.write(self._storage)
            with ThreadPoolExecutor(min(_AT_ONCE, len(packs))) as pool:
                list(pool.map(self._write_pack, packs))
            return sealed.part(packs[0].path, packs[0].data.size)
        finally:
            for place in places:
                _forget(_aside(place + _TOLD))

    def _write_pack(self, pack: Pack) -> None:
        self._storage.write_durable(pack.path, pack.data)
        for part in pack.parts:
            place = self._place(part_name(part.name))
            # A subtask that is not told so writes its part again; the pack is not committed then.
            with contextlib.suppress(OSError):
                os.replace(_aside(place + _TOLD), place + _TOLD)
                _forget(place)

    def _gather(self, sealed: SealedPart) -> None:
        """Wait for the parts that will come."""
        name = sealed.name
        begins = f"{self._run}part-{name.checkpoint}-{name.attempt}-{name.stage}-"
        now_ms = monotonic_ms()
        until_ms = now_ms + min(_MOST_WAIT_MS, _WAIT_SHARE * (now_ms - self._began_ms))
        while monotonic_ms() < until_ms:
            if not any(
                entry.startswith(begins) and entry.endswith(_COMING) for entry in os.listdir(self._folder)
            ):
                return
            time.sleep(_LOOK_S)

    def _others(self, sealed: SealedPart) -> list[SealedPart]:
        """What others have laid down and goes with a part; what is left of earlier attempts is removed."""
        found = []
        room = MOST_TOGETHER_BYTES
        for entry in sorted(os.listdir(self._folder)):
            path = os.path.join(self._folder, entry)
            older = _OF_ATTEMPT.match(entry)
            if older is not None and int(older[1] or older[2]) < sealed.name.attempt:
                _forget(path)
                continue
            name = parse_part(entry.removeprefix(self._run)) if entry.startswith(self._run) else None
            if name is None or name == sealed.name:
                continue
            if name[:3] == sealed.name[:3]:
                try:
                    with open(path, "rb") as file:
                        data = pa.py_buffer(file.read(MOST_BYTES + 1))
                    if data.size <= min(MOST_BYTES, room) and crc32(data) == name.crc:
                        room -= data.size
                        # Where it begins, and its key groups, are told the driver by the subtask itself.
                        found.append(SealedPart(name, footer_of(data).num_rows, data, 0, (0, 0)))
                except PARQUET_ERRORS:
                    continue  # its subtask has gone, or writes it itself
        return found


def _lay(path: str, data: pa.Buffer | bytes) -> None:
    """Make a file appear with all its bytes; it need not outlive the machine."""
    temporary = _aside(path)
    try:
        _write(temporary, data)
        os.replace(temporary, path)
    except OSError:
        _forget(temporary)
        raise


def _aside(path: str) -> str:
    """The name that this process gives a file before it has all its bytes."""
    return f"{path}.{os.getpid()}.tmp"


def _write(path: str, data: pa.Buffer | bytes) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)


def _told(own: str, sealed: SealedPart) -> Part | None:
    """Where another has written a part, if one has."""
    try:
        with open(own + _TOLD, encoding="utf-8") as file:
            path, size = json.load(file)
    except (OSError, ValueError):
        return None
    packed = parse_pack(path) if isinstance(path, str) and isinstance(size, int) else None
    if packed is None or not any(part.name == sealed.name for part in packed):
        return None
    return sealed.part(path, size)


def _forget(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
