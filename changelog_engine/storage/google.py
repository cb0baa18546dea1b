"""Google's store: with what Google's own libraries find, or without a login, as emulators and public buckets have it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from changelog_engine.errors import ConfigurationError

SCHEMES = ("gs", "gcs")
RETRY_LIMIT_S = 60
_ROOT = "gs.storage.root.url"
_AUTH = "gs.auth.type"
_OPEN, _DEFAULT = "UNAUTHENTICATED", "APPLICATION_DEFAULT"


class OpenGoogle(NamedTuple):
    """A store that asks for no login, by its URL; None for Google's."""

    root: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> OpenGoogle | None:
        """Of the options ``gs.*``; None for a store with a login.

        Raises:
            ConfigurationError: they say something else.
        """
        root, auth = options.get(_ROOT) or None, options.get(_AUTH) or _DEFAULT
        if auth not in (_OPEN, _DEFAULT):
            raise ConfigurationError(f"{_AUTH} is {_DEFAULT} or {_OPEN}, not {auth!r}")
        if auth == _OPEN:
            return cls(root)
        if root is not None:
            raise ConfigurationError(f"{_ROOT} is for stores without a login: set {_AUTH}: {_OPEN}, too")
        return None

    def open(self) -> pafs.FileSystem:
        """The file system of pyarrow's."""
        given: dict[str, Any] = {"anonymous": True, "retry_time_limit": timedelta(seconds=RETRY_LIMIT_S)}
        if self.root is not None:
            url = urlsplit(self.root)
            given |= {"scheme": url.scheme, "endpoint_override": url.netloc}
        return pafs.GcsFileSystem(**given)

    def delta_options(self) -> dict[str, str]:
        """The same for delta-rs: to sign nothing it must be told so in place of a key, or its puts look for one."""
        account = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        given = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account)}
        if self.root is not None:
            account["gcs_base_url"] = self.root.rstrip("/")
            given["GOOGLE_SERVICE_ACCOUNT_KEY"] = json.dumps(account)
            given["ALLOW_HTTP"] = "true" if self.root.startswith("http:") else "false"
        return given
