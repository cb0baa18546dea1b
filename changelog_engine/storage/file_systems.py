"""Opening the file systems that users' paths and URIs name: local disks, and what pyarrow.fs has behind a URI.

Invariant: keys and passwords, wherever they come from, are in no text that this module gives out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from changelog_engine.config import local_path
from changelog_engine.config.layers import FILE_SYSTEM_PREFIXES
from changelog_engine.config.paths import is_uri
from changelog_engine.errors import ConfigurationError
from changelog_engine.storage import azure, google
from changelog_engine.storage.azure import AzureAccount
from changelog_engine.storage.google import OpenGoogle

_RETRY_LIMIT = "retry_limit_seconds"
_S3_SCHEMES = ("s3", "s3a", "s3n", "s3p")
_S3_KEYS = {  # ours: Flink's names of it, the first one that is set counts
    "access_key": ("s3.access-key", "s3.access.key"),
    "secret_key": ("s3.secret-key", "s3.secret.key"),
    "session_token": ("s3.session-token", "s3.session.token"),
    "endpoint": ("s3.endpoint",),
    "region": ("s3.endpoint.region", "s3.region"),
    "path_style": ("s3.path.style.access", "s3.path-style-access"),
}
# A small object is one request, not three: begin, one part, complete.
_WHOLE_PUTS = "allow_delayed_open"
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_SECRET_VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    azure.KEY_VARIABLE,
    "AZURE_CLIENT_SECRET",
)
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_S3_REFUSALS = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "ACCESS KEY ID",
)  # or in their words
_S3_SILENCE = "AWS Error NETWORK_CONNECTION"
_process_options: dict[str, str] = {}


class OpenedPath(NamedTuple):
    """A path and the file system it lies on."""

    file_system: pafs.FileSystem | None  # of pyarrow; None for the local one, whose files Python opens
    path: str
    shown: str  # the path or URI for people, without keys and passwords


class FileSystems:
    """Opens paths and URIs.

    Args:
        options: the configuration's entries for file systems: ``s3.endpoint``, ``s3.access-key``, ``s3.secret-key``,
            ``s3.session-token``, ``s3.region``, ``s3.path.style.access``, ``fs.azure.account.key.ACCOUNT...``,
            ``fs.azure.abfs.endpoint``, ``gs.storage.root.url``, ``gs.auth.type``; None for those of the process
            (``use_options``).
            What is not set comes from the environment (``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID`` and so on) or, in
            pyarrow's way, from a URI itself.

    Example:
        >>> FileSystems().open("file:///data/in")
        OpenedPath(file_system=None, path='/data/in', shown='/data/in')
    """

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        given = _process_options if options is None else options
        self._options = {
            key: str(value) for key, value in given.items() if key.startswith(FILE_SYSTEM_PREFIXES)
        }

    def __repr__(self) -> str:
        return "FileSystems()"

    def open(self, path: str) -> OpenedPath:
        """The file system of a path, ready to use.

        Raises:
            ConfigurationError: it cannot be opened, or its options cannot be used.
        """
        local = local_path(path)
        if local is not None:
            return OpenedPath(None, local, local)
        shown = public_uri(path)
        scheme, place = _scheme_and_place(path)
        if scheme in (*_S3_SCHEMES, *google.SCHEMES) and not place:
            raise ConfigurationError(f"{shown!r} names no bucket, as {scheme}://BUCKET/FOLDER does")
        if scheme in (*_S3_SCHEMES, *google.SCHEMES, *azure.SCHEMES) and "//" in shown.partition("://")[2]:
            raise ConfigurationError(f"{shown!r} has a folder without a name: leave out one of two slashes")
        try:
            if scheme in _S3_SCHEMES:
                file_system, inner = self._open_s3(path)
            elif scheme in azure.SCHEMES:
                account = AzureAccount.of(path, self._options)
                file_system, inner = account.open(), account.path
            elif scheme in google.SCHEMES and (store := OpenGoogle.of(self._options)) is not None:
                parts = urlsplit(path)
                file_system, inner = store.open(), unquote(f"{place}{parts.path}")
            else:
                file_system, inner = pafs.FileSystem.from_uri(_with_retry_limit(path))
        except (pa.ArrowException, OSError, ValueError, TypeError) as error:
            # The first line: HDFS adds each place where it looked.
            why = self.told(str(error), path).partition("\n")[0]
            raise ConfigurationError(f"cannot open {shown!r}: {why}{_needs(scheme)}") from None
        return OpenedPath(file_system, inner.rstrip("/"), shown)

    def delta_options(self, uri: str) -> dict[str, str]:
        """What delta-rs needs to reach a table: the same as ``open`` uses."""
        scheme = urlsplit(uri).scheme.lower()
        if scheme in azure.SCHEMES:
            return AzureAccount.of(uri, self._options).delta_options()
        if scheme in google.SCHEMES:
            store = OpenGoogle.of(self._options)
            return {} if store is None else store.delta_options()
        if scheme not in _S3_SCHEMES:
            return {}
        given = {
            "AWS_ACCESS_KEY_ID": self._s3("access_key"),
            "AWS_SECRET_ACCESS_KEY": self._s3("secret_key"),
            "AWS_SESSION_TOKEN": self._s3("session_token"),
            "AWS_REGION": self._s3("region") or _variable(_REGION_VARIABLES),
            "AWS_CONDITIONAL_PUT": "etag",  # of two commits of one version, one wins
        }
        endpoint = self._endpoint
        if endpoint is not None:
            url = endpoint if "://" in endpoint else f"https://{endpoint}"
            by_host = (self._s3("path_style") or "true").lower() == "false"
            given |= {
                "AWS_ENDPOINT_URL": url,
                "AWS_ALLOW_HTTP": "true" if url.startswith("http:") else "false",
                "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true" if by_host else "false",
                "AWS_REGION": given["AWS_REGION"] or "us-east-1",
            }
        return {key: value for key, value in given.items() if value is not None}

    def says_all(self, uri: str) -> bool:
        """Whether options and environment have the key and the place of a store.

        Then whoever gets ``delta_options`` reaches it as ``open`` does, which may find them in other places, too.
        """
        parts, options = urlsplit(uri), self.delta_options(uri)
        if parts.scheme.lower() not in _S3_SCHEMES or parts.query or "@" in parts.netloc:
            return bool(options.keys() & {"AZURE_STORAGE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT_KEY"})
        key = options.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_ACCESS_KEY_ID")
        return bool(key) and "AWS_REGION" in options

    def told(self, text: str, *uris: str) -> str:
        """An error of a store for people: `masked`, and what to do where the store's answer tells that."""
        text = azure.told(self.masked(text, *uris))
        if refuses_key(text):
            return (
                f"{text}. The store refuses the key, or got none: set s3.access-key and s3.secret-key, in the program or in "
                "the file that CHANGELOG_ENGINE_CONF names, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        if _S3_SILENCE not in text:
            return text
        if self._endpoint is None:
            return (
                f"{text}. No endpoint is set, so Amazon was asked: a store elsewhere needs s3.endpoint, in the program or "
                "in the file that CHANGELOG_ENGINE_CONF names, or AWS_ENDPOINT_URL"
            )
        return f"{text}. Nothing answers at s3.endpoint or AWS_ENDPOINT_URL, which is {public_uri(self._endpoint)}"

    def masked(self, text: str, *uris: str) -> str:
        """A text of somebody else's, such as an error's, without the keys that are configured.

        Args:
            *uris: URIs that may be in it, or whose keys may be.
        """
        for uri in uris:
            text = text.replace(uri, public_uri(uri))
        secrets = [self._s3("secret_key"), self._s3("session_token"), self._s3("access_key")]
        secrets += azure.keys(self._options)
        secrets += [os.environ.get(name) for name in _SECRET_VARIABLES]
        for uri in uris:
            secrets += _of_uri(uri)
        for secret in secrets:
            if secret:
                text = text.replace(secret, "****")
        return text

    @property
    def _endpoint(self) -> str | None:
        return self._s3("endpoint") or _variable(_ENDPOINT_VARIABLES)

    def _s3(self, name: str) -> str | None:
        return next((self._options[key] for key in _S3_KEYS[name] if self._options.get(key)), None)

    def _open_s3(self, uri: str) -> tuple[pafs.FileSystem, str]:
        parts = urlsplit(uri)
        if parts.query or "@" in parts.netloc:  # the URI says itself how to reach it, as pyarrow has it
            return _s3_from_uri(uri)
        given: dict[str, Any] = {
            "access_key": self._s3("access_key"),
            "secret_key": self._s3("secret_key"),
            "session_token": self._s3("session_token"),
            "region": self._s3("region") or _variable(_REGION_VARIABLES),
        }
        endpoint = self._endpoint
        if endpoint is not None:
            url = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
            given |= {"scheme": url.scheme, "endpoint_override": url.netloc}
            given["region"] = given["region"] or "us-east-1"  # or pyarrow would ask Amazon for the bucket's
            given["force_virtual_addressing"] = (self._s3("path_style") or "true").lower() == "false"
        given = {key: value for key, value in given.items() if value is not None}
        if endpoint is None and "region" not in given and "access_key" not in given:
            return _s3_from_uri(uri)
        return pafs.S3FileSystem(**given, **{_WHOLE_PUTS: True}), unquote(f"{parts.netloc}{parts.path}")


def use_options(options: Mapping[str, str]) -> None:
    """Set the options of this process: a job's driver and its workers must reach its tables alike.

    Args:
        options: the configuration's entries for file systems; all that were set before are gone.
    """
    _process_options.clear()
    _process_options.update(options)


def options_in_use() -> dict[str, str]:
    """The options of this process, to hand on to one that it starts."""
    return dict(_process_options)


def refuses_key(text: str) -> bool:
    """Whether an error of a store says that the key is wrong, or may not do it."""
    return any(refusal in text.upper() for refusal in _S3_REFUSALS)


def public_uri(uri: str) -> str:
    """A URI without user, password and query; a plain path as it is. A container of Azure's, before ``@``, stays.

    Example:
        >>> public_uri("s3://key:secret@bucket/a?region=x")
        's3://bucket/a'
    """
    if not is_uri(uri):
        return uri
    begin, separator, rest = uri.partition("//")
    place, slash, path = rest.partition("/")
    # A key with a slash in it that is not escaped would end up in the path: cut up to the last "@".
    whole = f"{place}{slash}{path.split('?', 1)[0]}"
    if begin.lower().rstrip(":") in azure.SCHEMES and ":" not in whole.partition("@")[0]:
        return f"{begin}{separator}{whole}".rstrip("/")
    return f"{begin}{separator}{whole.rsplit('@', 1)[-1]}".rstrip("/")


def _s3_from_uri(uri: str) -> tuple[pafs.FileSystem, str]:
    place, _, query = uri.split(":", 1)[1].partition("?")
    if _WHOLE_PUTS not in query:
        query += f"{'&' * bool(query)}{_WHOLE_PUTS}=true"
    return _from_uri(f"s3:{place}?{query}")


def _with_retry_limit(uri: str) -> str:
    """A URI of Google's store with a bound of what pyarrow tries again, which is 15 minutes without; another as it is."""
    parts = urlsplit(uri)
    if parts.scheme.lower() not in google.SCHEMES or _RETRY_LIMIT in parts.query:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}{_RETRY_LIMIT}={google.RETRY_LIMIT_S}"


def _from_uri(uri: str) -> tuple[pafs.FileSystem, str]:
    file_system, path = pafs.FileSystem.from_uri(uri)
    return file_system, str(path)


def _scheme_and_place(uri: str) -> tuple[str, str]:
    """Scheme and host or bucket; two empty texts for what is no URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "", ""
    return parts.scheme.lower(), parts.netloc.rpartition("@")[2]


def _of_uri(uri: str) -> list[str | None]:
    try:
        parts = urlsplit(uri)
        if parts.scheme.lower() in azure.SCHEMES and parts.password is None:
            return []
        return [parts.password, parts.username, unquote(parts.password or ""), unquote(parts.username or "")]
    except ValueError:
        return []


def _variable(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _needs(scheme: str) -> str:
    """What a machine needs before it reaches a store of this kind, for the end of a message."""
    if scheme != "hdfs":
        return ""
    return (
        ". HDFS is reached through Java and Hadoop's client: set JAVA_HOME, HADOOP_HOME and CLASSPATH, as "
        "'hadoop classpath --glob' prints it. Jobs' tables cannot lie there in any case: set "
        "state.changelog.dstl.dfs.base-path to a folder on a local disk, or behind s3:, gs: or abfs:"
    )
