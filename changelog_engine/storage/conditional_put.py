"""The conditional put of object stores, which pyarrow lacks: obstore has it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, PreconditionError
from obstore.store import from_url

from changelog_engine.errors import StorageError

_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=30)}


class ConditionalPut:
    """Makes objects below a URI, unless they are there.

    Args:
        uri: of the root.
        options: how to reach the store, as delta-rs has them.

    Raises:
        StorageError: the store has no conditional put.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        given: Any = {name.lower(): value for name, value in options.items() if name != "AWS_ALLOW_HTTP"}
        client: Any = {"allow_http": options.get("AWS_ALLOW_HTTP") == "true"}
        try:
            self._store = from_url(uri, config=given, client_options=client, retry_config=_RETRIES)
        except (BaseError, ValueError) as error:
            scheme = urlsplit(uri).scheme
            raise StorageError(
                f"{scheme}: has no conditional put that this engine can use ({error}), and a table's commits need one: keep "
                "jobs and tables on a local disk, or behind s3:, gs: or abfs:"
            ) from error

    def __call__(self, path: str, data: bytes) -> bool:
        """Make an object; False when it was there, maybe because an answer was lost and the put was sent again.

        Raises:
            OSError: it failed.
        """
        try:
            obstore.put(self._store, path, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except PermissionDeniedError as error:
            raise PermissionError(str(error)) from error
        except BaseError as error:
            raise OSError(str(error)) from error
        return True
