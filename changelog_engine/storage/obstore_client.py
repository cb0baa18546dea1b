"""Requests that pyarrow lacks: the conditional put, bytes whose object is asked for once, listings from a name on.

To open a file pyarrow asks for its size first. Who knows the size has the bytes with one request, and the answer says how
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
_SILENCE_S = 60
_REQUEST_S = 600
_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=_SILENCE_S)}


class ObstoreClient:
    """Requests for objects below a URI.

    Args:
        options: how to reach the store, as delta-rs has them.

    Raises:
        StorageError: the store has no conditional put.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        given: Any = {name.lower(): value for name, value in options.items() if name != "AWS_ALLOW_HTTP"}
        client: Any = {
            "allow_http": options.get("AWS_ALLOW_HTTP") == "true",
            "read_timeout": timedelta(seconds=_SILENCE_S),
            "timeout": timedelta(seconds=_REQUEST_S),
        }
        try:
            self._store = from_url(uri, config=given, client_options=client, retry_config=_RETRIES)
        except (BaseError, ValueError) as error:
            scheme = urlsplit(uri).scheme
            raise StorageError(
                f"{scheme}: has no conditional put that this engine can use ({error}), and a table's commits need one: keep "
                "jobs and tables on a local disk, or behind s3:, gs: or abfs:"
            ) from error

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Make an object; False when it was there, maybe because an answer was lost and the put was sent again."""
        try:
            with _as_python_has_them():
                obstore.put(self._store, path, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def read(self, path: str, begin: int, end: int) -> tuple[pa.Buffer, int]:
        """The bytes of an object from one place up to another, and how many it has in all.

        Args:
            end: behind the last byte; behind ``begin``.

        Raises:
            FileNotFoundError: there is no such object.
            OSError: it failed, or the object ends before ``begin``.
        """
        with _as_python_has_them():
            answer = obstore.get(self._store, path, options={"range": (begin, end)})
            return pa.py_buffer(answer.bytes()), int(answer.meta["size"])

    def list(self, folder: str, after: str) -> Iterator[Entry]:
        """The files in a folder without folders, by name, that come behind a name: a request gives a thousand of them."""
        prefix = f"{folder}/" if folder else ""
        with _as_python_has_them():
            for some in obstore.list(self._store, folder or None, offset=prefix + after, chunk_size=1_000):
                for meta in some:
                    name = str(meta["path"]).removeprefix(prefix)
                    if "/" not in name:
                        changed_ns = int(meta["last_modified"].timestamp()) * 10**9
                        yield Entry(name, int(meta["size"]), False, False, changed_ns)


@contextlib.contextmanager
def _as_python_has_them() -> Iterator[None]:
    try:
        yield
    except (AlreadyExistsError, PreconditionError, FileNotFoundError):
        raise
    except PermissionDeniedError as error:
        raise PermissionError(str(error)) from error
    except BaseError as error:
        raise OSError(str(error)) from error
