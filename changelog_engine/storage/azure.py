"""Azure's store as Hadoop and Flink name it: ``abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER``.

Invariant: no other form is taken. pyarrow and obstore read the others each in its own way, and a table's commits would lie
in another place than its files.
"""

from __future__ import annotations

import base64
import binascii
import functools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pafs

from changelog_engine.errors import ConfigurationError, StorageError

SCHEMES = ("abfs", "abfss")
TYPE_NAME = "py::abfs"  # of its file system, as pyarrow tells it
KEY_VARIABLE = "AZURE_STORAGE_ACCOUNT_KEY"
_HOST = ".dfs.core.windows.net"
_ENDPOINT = "fs.azure.abfs.endpoint"
_KEY = "fs.azure.account.key"
_REFUSALS = ("AuthorizationFailure", "AuthenticationFailed", "NoAuthenticationInformation")


class AzureAccount(NamedTuple):
    """How a container is reached.

    Args:
        account: the storage account's name.
        path: the container and the folder in it.
        key: the account's; None for what Azure's own libraries find: a service principal of the environment, an identity of
            the machine.
        endpoint: with its scheme; None for Azure's.
    """

    account: str
    path: str
    key: str | None
    endpoint: str | None

    @classmethod
    def of(cls, uri: str, options: Mapping[str, str]) -> AzureAccount:
        """Of a URI and the options ``fs.azure.*``.

        Raises:
            ConfigurationError: the URI does not have the form above, or the key is not one.
        """
        parts = urlsplit(uri)
        container, _, host = parts.netloc.rpartition("@")
        account = host.lower().removesuffix(_HOST)
        if not container or account == host.lower() or parts.query:
            raise ConfigurationError(
                f"it does not name a container and an account, as {parts.scheme}://CONTAINER@ACCOUNT{_HOST}/FOLDER does"
            )
        names = (f"{_KEY}.{account}{_HOST}", f"{_KEY}.{account}.blob.core.windows.net", _KEY)
        key = (
            next((options[name] for name in names if options.get(name)), os.environ.get(KEY_VARIABLE)) or None
        )
        _check(key, account)
        endpoint = options.get(_ENDPOINT) or None
        if endpoint is not None and "://" not in endpoint:
            endpoint = f"https://{endpoint}"
        path = unquote(f"{container}{parts.path}")
        return cls(account, path, key, endpoint)

    def open(self) -> pafs.FileSystem:
        """The file system for the account, as pyarrow has them.

        Raises:
            ConfigurationError: without a key, nothing else gives access.
        """
        if self.key is None:
            _check_login(self)
        given: dict[str, Any] = {"account_name": self.account, "account_key": self.key}
        if self.endpoint is not None:
            url = urlsplit(self.endpoint)
            for service in ("blob", "dfs"):
                given |= {f"{service}_storage_authority": url.netloc, f"{service}_storage_scheme": url.scheme}
        from changelog_engine.storage.azure_files import AzureFiles  # loads obstore

        container = self.path.partition("/")[0]
        return pafs.PyFileSystem(AzureFiles(pafs.AzureFileSystem(**given), container, self.delta_options()))

    def delta_options(self) -> dict[str, str]:
        """The same for delta-rs."""
        given = {"AZURE_STORAGE_ACCOUNT_NAME": self.account}
        if self.key is not None:
            given["AZURE_STORAGE_ACCOUNT_KEY"] = self.key
        if self.endpoint is not None:
            given["AZURE_STORAGE_ENDPOINT"] = f"{self.endpoint.rstrip('/')}/{self.account}"
            given["ALLOW_HTTP"] = "true" if self.endpoint.startswith("http:") else "false"
        return given


def told(text: str) -> str:
    """An error of the store for people: what to do where Azure's answer tells that."""
    if not any(refusal in text for refusal in _REFUSALS):
        return text
    return f"{text}. The store refuses the key, or got none. {_remedy('ACCOUNT')}"


@functools.cache
def _check_login(place: AzureAccount) -> None:
    """Look into the container as obstore does, since pyarrow ends the process where it finds no login."""
    from changelog_engine.storage.obstore_client import ObstoreClient

    if (place.endpoint or "").startswith("http:"):
        why = "Azure's libraries send no login over http:"
    else:
        try:
            ObstoreClient(f"abfs://{place.path}", place.delta_options()).look()
            return
        except (OSError, StorageError) as error:
            why = str(error)
    raise ConfigurationError(f"{why}. {_remedy(place.account)}")


def _remedy(account: str) -> str:
    return f"Set {_KEY}.{account}{_HOST}, in the program or in the file that CHANGELOG_ENGINE_CONF names, or {KEY_VARIABLE}"


def _check(key: str | None, account: str) -> None:
    """Pyarrow ends the process over a key that it cannot decode."""
    try:
        base64.b64decode(key or "", validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(
            f"the key of the account {account} ({_KEY}.{account}{_HOST} or {KEY_VARIABLE}) is not base64, as Azure's keys "
            "are: copy it anew"
        ) from None


def keys(options: Mapping[str, str]) -> list[str]:
    """The accounts' keys among the options, which are in no text."""
    return [text for name, text in options.items() if name.startswith(_KEY)]
