"""Azure's blobs as one of pyarrow's file systems, whose silence has an end: pyarrow's own waits as long as the store does.

Bytes are read by obstore, of one version of a blob and with bounded requests. All else is asked of pyarrow's in a thread,
which is left behind where no answer comes in time: it knows accounts with and without folders, and waits for a copy's end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from changelog_engine.storage import azure, obstore_client
from changelog_engine.storage.obstore_client import ObstoreClient

T = TypeVar("T")
_MOST_BYTES = 8 << 20  # in one request


class AzureFiles(pafs.FileSystemHandler):  # type: ignore[misc]
    """The blobs of one container. Paths begin with its name.

    Args:
        inner: pyarrow's file system of the account.
        options: how to reach the account, as delta-rs has them.
    """

    def __init__(self, inner: pafs.FileSystem, container: str, options: dict[str, str]) -> None:
        self._inner = inner
        self._container = container
        self._options = options

    @cached_property
    def _client(self) -> ObstoreClient:
        return ObstoreClient(f"abfs://{self._container}", self._options)

    def get_type_name(self) -> str:
        return azure.TYPE_NAME.removeprefix("py::")

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return _answered(lambda: self._inner.get_file_info(paths), obstore_client.SILENCE_S)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        return _answered(lambda: self._inner.get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:
        _answered(lambda: self._inner.create_dir(path, recursive=recursive))

    def delete_dir(self, path: str) -> None:
        _answered(lambda: self._inner.delete_dir(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        _answered(lambda: self._inner.delete_dir_contents(path, missing_dir_ok=missing_dir_ok))

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("all containers of an account are not deleted")

    def delete_file(self, path: str) -> None:
        self._client.delete(self._key(path))

    def move(self, src: str, dest: str) -> None:
        _answered(lambda: self._inner.move(src, dest))

    def copy_file(self, src: str, dest: str) -> None:
        _answered(lambda: self._inner.copy_file(src, dest))

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(_Blob(self._client, self._key(path)), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        return pa.PythonFile(self._client.create(self._key(path)), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        raise NotImplementedError("blobs are not appended to")

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{self._container}/")


class _Blob:
    """A blob to read: the version that was there when it was opened."""

    def __init__(self, client: ObstoreClient, key: str) -> None:
        self._client = client
        self._key = key
        self._size, self._version = client.look_at(key)
        self._at = 0
        self.closed = False

    def read(self, count: int | None = None) -> pa.Buffer | bytes:
        """The next bytes; all that are left without a count."""
        left = max(0, self._size - self._at)
        end = self._at + (left if count is None or count < 0 else min(left, count))
        parts = []
        while self._at < end:
            most = min(end, self._at + _MOST_BYTES)
            data, _ = self._client.read(self._key, self._at, most, self._version)
            if data.size != most - self._at:
                raise OSError(f"of {most - self._at} bytes from byte {self._at} on, {data.size} came")
            parts.append(data)
            self._at = most
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a byte."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """The next byte."""
        return self._at

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is not."""
        return False

    def close(self) -> None:
        """Nothing is held."""
        self.closed = True


def _answered(ask: Callable[[], T], longest_s: float | None = None) -> T:
    """What a function gives that waits for the store.

    Raises:
        TimeoutError: it gave nothing in time.
    """
    bound_s = obstore_client.REQUEST_S if longest_s is None else longest_s
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(ask())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, name="azure", daemon=True).start()
    try:
        return found.result(bound_s)
    except TimeoutError:
        if found.done():
            raise
        raise TimeoutError(f"the store has not answered for {bound_s:g} s") from None
