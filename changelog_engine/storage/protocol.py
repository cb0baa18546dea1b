"""Files under one root: what every room of the engine may expect of a disk or an object store, and nothing more.

What is durable when: `write_durable`, `put_if_absent`, `make_dirs`, `move` and `persist` return when a power cut no longer
loses what they did, names included. `share` is durable after the next `sync` of its folder. A `delete` may be undone by a
power cut; nobody relies on a file being gone. A stream's bytes count from `persist` on, not from `write`.

What is seen when: a file written whole appears under its name with all its bytes or not at all, whoever looks, also after a
power cut; what a crash leaves is hidden (`TEMPORARY_PREFIX`). It is never changed in place, only replaced.
A listing has every file whose call returned before the listing began and that nobody deleted; of those that come or go
meanwhile it may have any. Nobody may be stale: what one process wrote, the next call of every other one finds.

Compare-and-swap is `put_if_absent`: of any number of processes one makes the file. After an error the file may be there all
the same: look before going on. A second try finds its own file by its bytes and counts as the winner, so callers whose
files must differ put something of their own into them.

Paths are relative to the root and never leave it, through symbolic links neither: nothing here makes links, so one below the
root is somebody else's (the root itself may be one). Pipes and devices are not opened.

Threads: any number may use one storage. Errors: every call raises `StorageError` (disk full, no permission, still failing
after bounded retries), which names the file, beside what is said at each.

Not promised: that several files appear at once (the Delta log does that), order between unsynced changes, locks on object
stores, modification times that can be compared between machines.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from changelog_engine.storage.locks import Lock
from changelog_engine.storage.retry import Retry

TEMPORARY_PREFIX = ".tmp-"


class Entry(NamedTuple):
    """One name in a folder."""

    name: str
    size: int  # bytes; 0 for what is not a file
    is_folder: bool
    is_other: bool = False  # neither file nor folder: a symbolic link, a pipe, a device
    # When the file was last changed, as its disk says; object stores know seconds
    changed_ns: int | None = None


class Storage(Protocol):
    """Durable files under a root. `LocalDisk` and `ObjectStore` implement it."""

    root: str  # the path or URI
    local: str | None  # the root for programs that want a path on this machine; None where there is none
    retry: Retry
    reads_at_once: int  # how many reads side by side pay
    keeps_checksums: bool  # whether it finds by itself what was changed behind it
    appends: bool  # whether what `persist` made durable stays when its stream is never closed

    def child(self, name: str) -> Storage: ...  # of a folder below; ForeignPathError: it is a link
    def join(self, path: str) -> str: ...  # the full path or URI; StorageError: it leaves the root
    def place(self, path: str) -> str: ...  # for whoever opens it; ForeignPathError: a link, a pipe, a device

    # A whole file, which replaces one of that name (in the background: it leaves the disk to others, as nobody waits for
    # it); and compare-and-swap: whether this call made the file.
    def write_durable(self, path: str, data: pa.Buffer | bytes, background: bool = False) -> None: ...
    def put_if_absent(self, path: str, data: bytes) -> bool: ...
    def make_dirs(self, path: str = "") -> None: ...  # a folder and those above it
    def sync(self, path: str = "") -> None: ...  # the names in a folder, or a file of another program's
    def move(self, source: str, target: str) -> bool: ...  # may replace a file; False: no such source
    def share(self, source: Storage, path: str) -> bool: ...  # another's file here, too; False: as a copy
    def delete(self, path: str) -> None: ...  # a file, if it is there
    def delete_tree(self, path: str = "") -> None: ...  # a folder with all in it, if it is there

    # A stream to a new file under a hidden name, whose folders are made. Objects are there only when it is closed.
    def create(self, path: str) -> Any: ...
    def persist(self, stream: Any, path: str, closing: bool) -> None: ...

    # FileNotFoundError: there is no such file. A size that is known saves a request; `read` may be given a wrong one.
    def read(self, path: str, size: int | None = None) -> pa.Buffer: ...
    # Shorter where the file ends before.
    def read_range(self, path: str, begin: int, end: int) -> pa.Buffer: ...
    def open(self, path: str) -> Any: ...  # a stream that reads a file and can be sought in
    # pyarrow.ArrowInvalid: it is not Parquet, or has not the size that it must have.
    def read_footer(self, path: str, size: int | None = None) -> pq.FileMetaData: ...
    def read_document(self, path: str) -> dict[str, Any]: ...  # a JSON object that is a hint; {} for none
    def size(self, path: str) -> int | None: ...  # bytes of a file; None: there is none
    def stamp(self, path: str) -> tuple[int, int] | None: ...  # changes with the file; None: no file
    def exists(self, path: str = "") -> bool: ...  # a file or folder
    def is_file(self, path: str = "") -> bool: ...
    # Sorted; empty when there is no such folder. Of one without folders, only names behind another: fewer requests.
    def list(self, path: str = "", after: str = "") -> list[Entry]: ...

    def lock(self, path: str) -> Lock: ...  # LockTakenError: another has it; object stores lock nothing
