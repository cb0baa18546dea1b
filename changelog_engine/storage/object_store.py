"""Storage in an object store: what pyarrow.fs has behind a URI.

An object appears with all its bytes when its stream is closed, and is durable then; folders, syncs and locks mean nothing
here. The compare-and-swap is the store's conditional put, which pyarrow lacks, so it goes through obstore.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from changelog_engine.errors import ConfigurationError, StorageError
from changelog_engine.storage import azure
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.storage.local_disk import check_size, document_in, inside
from changelog_engine.storage.locks import Lock
from changelog_engine.storage.protocol import Entry, Storage
from changelog_engine.storage.retry import Retry

if TYPE_CHECKING:
    from changelog_engine.storage.obstore_client import ObstoreClient

T = TypeVar("T")
_READS_AT_ONCE = 16
_WITHOUT_FOLDERS = ("s3", "gcs", azure.TYPE_NAME)  # making them would leave objects
_ONCE = Retry(tries=1)
_FOOTER_BYTES = 65_536  # read of the end of a Parquet file: few footers are longer
_SMALL_BYTES = 8 * 2**20  # longer ones take longer than a single request may
_MOST_BYTES = 1 << 62  # larger places are in no object, and in no request
_MAGIC = b"PAR1"


class ObjectStore(Storage):
    """Durable objects under a URI.

    Args:
        file_systems: knows how to reach the store; None for the options of the process.

    Raises:
        StorageError: the URI cannot be opened.
    """

    appends = False
    keeps_checksums = True
    local: str | None = None
    reads_at_once = _READS_AT_ONCE

    def __init__(self, uri: str, retry: Retry | None = None, file_systems: FileSystems | None = None) -> None:
        self.root = uri.rstrip("/")
        self.retry = retry or Retry()
        self._file_systems = file_systems or FileSystems()
        try:
            opened = self._file_systems.open(uri)
        except ConfigurationError as error:
            raise StorageError(str(error)) from None
        assert opened.file_system is not None
        self._remote, self._inner = opened.file_system, opened.path

    def __repr__(self) -> str:
        return f"ObjectStore({self._masked(self.root)!r})"

    def child(self, name: str) -> ObjectStore:
        return ObjectStore(self.join(name), self.retry, self._file_systems)

    def join(self, path: str) -> str:
        return f"{self.root}/{inside(path)}" if path else self.root

    def place(self, path: str) -> str:
        return self.join(path)

    def write_durable(self, path: str, data: pa.Buffer | bytes, background: bool = False) -> None:
        self._run(lambda: self._upload(path, data), "write", self.join(path))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._run(lambda: self._put(path, data), "write", self.join(path))

    def make_dirs(self, path: str = "") -> None:
        full = self._full(path)
        self._run(lambda: self._remote.create_dir(full, recursive=True), "make the folder", self.join(path))

    def sync(self, path: str = "") -> None:
        self.join(path)

    def move(self, source: str, target: str) -> bool:
        place, full = self._full(source), self._full(target)

        def move() -> bool:
            if self._remote.get_file_info(place).type is not pafs.FileType.File:
                return False
            self._make_folder_of(full)
            try:
                self._remote.move(place, full)
            except NotImplementedError:  # Azure's accounts without folders
                self._remote.copy_file(place, full)
                self.delete(source)
            return True

        return self._run(move, f"move {self.join(source)} to", self.join(target))

    def share(self, source: Storage, path: str) -> bool:
        self.write_durable(path, source.read(path))
        return False

    def delete(self, path: str) -> None:
        self._full(path)
        with contextlib.suppress(FileNotFoundError):
            self._read(lambda: self._remove(path), "delete", self.join(path))

    def delete_tree(self, path: str = "") -> None:
        full = self._full(path)

        def delete() -> None:
            if self._remote.get_file_info(full).type is not pafs.FileType.NotFound:
                self._remote.delete_dir(full)

        with contextlib.suppress(FileNotFoundError):
            self._read(delete, "delete", self.join(path))

    def create(self, path: str) -> Any:
        full = self._full(path)

        def create() -> Any:
            if self._is_azure:  # a stream of pyarrow's makes the object, empty, before it is closed
                return self._client.create(inside(path))
            self._make_folder_of(full)
            return self._remote.open_output_stream(full)

        return self._run(create, "write", self.join(path))

    def persist(self, stream: Any, path: str, closing: bool) -> None:
        if not closing:
            raise StorageError(
                f"{self._masked(self.join(path))} is an object, which is durable only when it is closed"
            )
        # Once: a stream that could not be closed is closed all the same, and closing it again says nothing of what was lost.
        self._run(stream.close, "write", self.join(path), retry=_ONCE)

    def read(self, path: str, size: int | None = None) -> pa.Buffer:
        full = self._full(path)

        def read() -> pa.Buffer:
            asked = self._asked(path, _SMALL_BYTES, size) if (size or 0) <= _SMALL_BYTES else None
            if asked is not None and asked[0].size == asked[1]:
                return asked[0]
            with self._remote.open_input_file(full) as file:
                return file.read_buffer()

        return self._read(read, "read", self.join(path))

    def read_range(self, path: str, begin: int, end: int) -> pa.Buffer:
        full = self._full(path)

        def read() -> pa.Buffer:
            small = 0 <= begin < end <= min(begin + _SMALL_BYTES, _MOST_BYTES)
            if small and (client := self._usable_client()) is not None:
                with contextlib.suppress(OSError):  # pyarrow asks again, and says what is wrong
                    return client.read(inside(path), begin, end)[0]
            with self._remote.open_input_file(full) as file:
                there = range(int(file.size()))[begin:end]
                # Google's store refuses to be asked for nothing.
                return pa.py_buffer(file.read_at(len(there), there.start) if there else b"")

        return self._read(read, "read", self.join(path))

    def open(self, path: str) -> Any:
        full = self._full(path)
        return self._read(lambda: self._remote.open_input_file(full), "read", self.join(path))

    def read_document(self, path: str) -> dict[str, Any]:
        return document_in(self, path)

    def read_footer(self, path: str, size: int | None = None) -> pq.FileMetaData:
        full = self._full(path)

        def read() -> pq.FileMetaData:
            asked = self._asked(path, _FOOTER_BYTES, size)
            if asked is not None and asked[1] == size and _holds_footer(asked[0]):
                return pq.read_metadata(pa.BufferReader(asked[0]))
            with self._remote.open_input_file(full) as file:
                check_size(file.size(), size)
                return pq.read_metadata(file)

        return self._read(read, "read", self.join(path))

    def size(self, path: str) -> int | None:
        if self._remote.type_name == "s3":  # which asks a second time whether what is missing is a folder
            with contextlib.suppress(OSError):
                return self._size_of_object(self._full(path))
        info = self._info(path)
        return int(info.size) if info.type is pafs.FileType.File else None

    def stamp(self, path: str) -> tuple[int, int] | None:
        try:  # the time of an object's change is told in whole seconds
            data = self.read(path)
        except FileNotFoundError:
            return None
        return zlib.crc32(data), data.size

    def exists(self, path: str = "") -> bool:
        return bool(self._info(path).type is not pafs.FileType.NotFound)

    def is_file(self, path: str = "") -> bool:
        return self.size(path) is not None

    def list(self, path: str = "", after: str = "") -> list[Entry]:
        full, folder = self._full(path), inside(path) if path else ""

        def list_() -> list[Entry]:
            if after and (client := self._usable_client()) is not None:
                with contextlib.suppress(OSError):  # pyarrow asks again, and says what is wrong
                    return sorted(client.list(folder, after))
            found = self._remote.get_file_info(pafs.FileSelector(full, allow_not_found=True))
            return sorted(
                Entry(i.base_name, i.size or 0, i.type is pafs.FileType.Directory, False, i.mtime_ns)
                for i in found
                if i.base_name > after
            )

        return self._run(list_, "list", self.join(path))

    def lock(self, path: str) -> Lock:
        return Lock(self.join(path), None)

    def _full(self, path: str) -> str:
        return f"{self._inner}/{inside(path)}" if path else str(self._inner)

    def _info(self, path: str) -> pafs.FileInfo:
        full = self._full(path)
        return self._run(lambda: self._remote.get_file_info(full), "look at", self.join(path))

    def _size_of_object(self, full: str) -> int | None:
        try:
            with self._remote.open_input_file(full) as file:
                return int(file.size())
        except FileNotFoundError:
            return None

    def _make_folder_of(self, full: str) -> None:
        if self._remote.type_name not in _WITHOUT_FOLDERS:
            self._remote.create_dir(full.rsplit("/", 1)[0], recursive=True)

    def _remove(self, path: str) -> None:
        if self._is_azure:  # pyarrow leases the object first, makes a folder, and waits for seconds
            self._client.delete(inside(path))
        else:
            self._remote.delete_file(self._full(path))

    @property
    def _is_azure(self) -> bool:
        return bool(self._remote.type_name == azure.TYPE_NAME)

    def _upload(self, path: str, data: pa.Buffer | bytes) -> None:
        if self._is_azure:
            self._client.put(inside(path), data)
            return
        with self._remote.open_output_stream(self._full(path)) as stream:
            stream.write(data)

    def _put(self, path: str, data: bytes) -> bool:
        # That the object is there is not proof that another made it: a put is sent again when its first answer was lost.
        client = self._client
        return client.put_if_absent(inside(path), data) or self.read(path).to_pybytes() == data

    @cached_property
    def _client(self) -> ObstoreClient:
        # Loads obstore, which local disks do without.
        from changelog_engine.storage.obstore_client import ObstoreClient

        return ObstoreClient(self.root, self._file_systems.delta_options(self.root))

    def _asked(self, path: str, most: int, size: int | None) -> tuple[pa.Buffer, int] | None:
        """The last bytes of an object, at most this many, and its size; None where that has to be asked for."""
        if size is None or size <= 0 or (client := self._usable_client()) is None:
            return None
        try:
            return client.read(inside(path), max(0, size - most), size)
        except FileNotFoundError:
            raise
        except OSError:
            return None

    def _usable_client(self) -> ObstoreClient | None:
        """Of a store that takes them for certain: it took a put before, or the options say all of how it is reached."""
        if "_client" in self.__dict__ or self._file_systems.says_all(self.root):
            with contextlib.suppress(StorageError):  # a scheme that pyarrow alone knows
                return self._client
        return None

    def _read(self, operation: Callable[[], T], what: str, path: str) -> T:
        return self._run(operation, what, path, may_be_missing=True)

    def _run(
        self,
        operation: Callable[[], T],
        what: str,
        path: str,
        may_be_missing: bool = False,
        retry: Retry | None = None,
    ) -> T:
        try:
            return (retry or self.retry).run(operation, what, path, True, may_be_missing)
        except StorageError as error:
            if type(error) is not StorageError:
                raise
            told = self._file_systems.told(str(error), self.root)
            raise StorageError(told, self._masked(path)) from None

    def _masked(self, text: str) -> str:
        return self._file_systems.masked(text, self.root)


def _holds_footer(end: pa.Buffer) -> bool:
    """Whether the end of a Parquet file has all of its footer."""
    last = end.slice(max(0, end.size - 8)).to_pybytes()
    return bool(last[4:] == _MAGIC) and int.from_bytes(last[:4], "little") + 8 <= end.size
