"""Requests that pyarrow lacks: the conditional put, bytes whose object is asked for once, listings from a name on.

To open a file pyarrow asks for its size first. Where the size is known, one request gives the bytes, and its answer says how
long the object is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, PreconditionError
from obstore.store import from_url

from changelog_engine.errors import StorageError
from changelog_engine.storage.protocol import Entry

# The store's silence has a bound, and not the whole request, whose bytes may take long. Of an upload it is both.
_ALLOW_HTTP = ("AWS_ALLOW_HTTP", "ALLOW_HTTP")
SILENCE_S = 60
REQUEST_S = 600
_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=SILENCE_S)}


class ObstoreClient:
    """Requests for objects below a URI.

    Args:
        options: how to reach the store, as delta-rs has them.

    Raises:
        StorageError: the store has no conditional put.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        given: Any = {name.lower(): value for name, value in options.items() if name not in _ALLOW_HTTP}
        client: Any = {
            "allow_http": any(options.get(name) == "true" for name in _ALLOW_HTTP),
            "read_timeout": timedelta(seconds=SILENCE_S),
            "timeout": timedelta(seconds=REQUEST_S),
        }
        try:
            self._store = from_url(uri, config=given, client_options=client, retry_config=_RETRIES)
        except (BaseError, ValueError) as error:
            scheme = urlsplit(uri).scheme
            raise StorageError(
                f"{scheme}: has no conditional put that this engine can use ({_told(error)}), and a table's commits need "
                "one: keep jobs and tables on a local disk, or behind s3:, gs: or abfs:"
            ) from error

    def look(self) -> None:
        """Raise OSError if nobody may look into it."""
        with _as_python_has_them():
            next(iter(obstore.list(self._store, chunk_size=1)), None)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Make an object; False when it was there, maybe because an answer was lost and the put was sent again."""
        try:
            with _as_python_has_them():
                obstore.put(self._store, path, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        """Make or replace an object, which is there whole or as it was."""
        with _as_python_has_them():
            obstore.put(self._store, path, memoryview(data).cast("B"))

    def delete(self, path: str) -> None:
        """Remove an object; FileNotFoundError: there is none."""
        with _as_python_has_them():
            obstore.delete(self._store, path)

    def create(self, path: str) -> Upload:
        """A stream to an object that is there when it is closed."""
        with _as_python_has_them():
            return Upload(obstore.open_writer(self._store, path))

    def look_at(self, path: str) -> tuple[int, str | None]:
        """How many bytes an object has, and its version's tag; FileNotFoundError: there is none."""
        with _as_python_has_them():
            found = obstore.head(self._store, path)
            return int(found["size"]), found["e_tag"]

    def read(self, path: str, begin: int, end: int, version: str | None = None) -> tuple[pa.Buffer, int]:
        """The bytes of an object from one place up to another, and how many it has in all.

        Args:
            end: behind the last byte; behind ``begin``.
            version: the tag of the only version that is wanted; None for whichever is there.

        Raises:
            FileNotFoundError: there is no such object.
            OSError: it failed, the object ends before ``begin``, or it was replaced.
        """
        options: Any = {"range": (begin, end)} | ({} if version is None else {"if_match": version})
        try:
            with _as_python_has_them():
                answer = obstore.get(self._store, path, options=options)
                return pa.py_buffer(answer.bytes()), int(answer.meta["size"])
        except PreconditionError:
            raise OSError(f"{path} was replaced while it was read") from None

    def list(self, folder: str, after: str) -> Iterator[Entry]:
        """The files in a folder without folders, by name, that come behind a name: a request gives a thousand of them."""
        prefix = f"{folder}/" if folder else ""
        with _as_python_has_them():
            for some in obstore.list(self._store, folder or None, offset=prefix + after, chunk_size=1_000):
                for meta in some:
                    path = str(meta["path"])
                    name = path.removeprefix(prefix)
                    # Not what only stands for the folder, nor names that a server gives needlessly.
                    if path.startswith(prefix) and "/" not in name and name > after:
                        changed_ns = int(meta["last_modified"].timestamp()) * 10**9
                        yield Entry(name, int(meta["size"]), False, False, changed_ns)


class Upload:
    """A file to write to. Dropped before it is closed it leaves nothing, therefore it has no finalizer."""

    def __init__(self, writer: obstore.WritableFile) -> None:
        self._writer = writer
        self._written = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Add bytes to the end."""
        octets = memoryview(data).cast("B")
        with _as_python_has_them():
            self._writer.write(octets)
        self._written += octets.nbytes
        return octets.nbytes

    def seekable(self) -> bool:
        """No."""
        return False

    def tell(self) -> int:
        """How many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Nothing: what is sent before the end shows nowhere."""

    def close(self) -> None:
        """Let the object be there."""
        if not self.closed:
            self.closed = True
            with _as_python_has_them():
                self._writer.close()

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()


@contextlib.contextmanager
def _as_python_has_them() -> Iterator[None]:
    try:
        yield
    except (AlreadyExistsError, PreconditionError):
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(_told(error)) from error
    except PermissionDeniedError as error:
        raise PermissionError(_told(error)) from error
    except BaseError as error:
        raise OSError(_told(error)) from error


def _told(error: Exception) -> str:
    """What it says, without how it says it to itself."""
    return str(error).partition("Debug source:")[0].rstrip()
