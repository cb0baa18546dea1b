"""A sink for Elasticsearch and OpenSearch. It needs ``pip install 'changelog-engine[elasticsearch]'``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from changelog_engine.connectors import elasticsearch as engine
from changelog_engine.connectors import packages
from changelog_engine.errors import ConfigurationError, NotSupportedError

from ..._arguments import MadeBy, Millis, Password, Whole, checked, required, text, whole_number
from ..._kept_settings import kept
from ..._needs import needs
from ..._unsupported import NamesOfPyFlink
from .base import DeliveryGuarantee, Sink

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "ElasticsearchSinkBuilderBase",
    "FlushBackoffType",
]

_MOST_MB = 1024
_EMITTERS = "ElasticsearchEmitter.static_index() and .dynamic_index()"


class FlushBackoffType(Enum):
    """How a bulk request is tried again that failed for a reason that may pass.

    Such reasons are a connection that is lost, a cluster that does not answer or is busy (status 429), and its own failures
    (5xx). What it refuses for good, such as a field that does not fit the mapping, is not tried again.

    * ``CONSTANT``: after the same wait each time.
    * ``EXPONENTIAL``: the wait doubles each time, up to a minute.
    * ``NONE``: the job fails at once, and begins again at its last checkpoint as its restart strategy says.
    """

    CONSTANT = (0,)
    EXPONENTIAL = (1,)
    NONE = (2,)


@checked
class ElasticsearchEmitter:
    """How an element becomes a document; made by `static_index` and `dynamic_index`.

    Elements are dicts (``Types.MAP``) or rows with named fields. Beyond PyFlink values may be anything that JSON has, lists,
    dicts and rows among them; dates and times are in ISO 8601, decimals are strings with every digit, bytes are Base64.
    """

    def __init__(self, emitter: Annotated[engine.Emitter, MadeBy(_EMITTERS)]) -> None:
        self._emitter = emitter

    @staticmethod
    def static_index(
        index: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """All documents go to one index.

        Args:
            index: its name.
            key_field: the field that is the document's id: an element updates the document of its id, or makes it, so that
                writing again after a failure changes nothing. None: each element is a document with an id of the cluster's,
                and after a failure some are there twice.
            doc_type: mapping type, for Elasticsearch before 8; None for the usual one.
        """
        return ElasticsearchEmitter(engine.Emitter(index, None, key_field, doc_type))

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """A field of each element names its index.

        Args:
            key_field: see `static_index`.
            doc_type: see `static_index`.
        """
        return ElasticsearchEmitter(engine.Emitter(None, index_field, key_field, doc_type))


class ElasticsearchSink(Sink):
    """Writes documents to Elasticsearch or OpenSearch, at least once; made by a builder.

    A checkpoint is made only when the cluster has every document before it. After a failure those since the last checkpoint
    are written again: with a ``key_field`` that changes nothing.
    """


@checked
@needs(packages.ELASTICSEARCH)
class ElasticsearchSinkBuilderBase(NamesOfPyFlink):
    """What the builders share. Each method but `build` returns the builder. Needed are hosts and an emitter."""

    _not_here: Mapping[str, str] = {
        "get_http_host_class": "wraps a Java class: give the hosts' URLs to set_hosts()"
    }

    def __init__(self) -> None:
        self._emitter: engine.Emitter | None = None
        self._cluster = engine.ClusterOptions(())
        self._bulk = engine.BulkOptions()

    def set_emitter(self, emitter: ElasticsearchEmitter) -> Self:
        """How elements become documents."""
        self._emitter = emitter._emitter
        return self

    def set_hosts(self, hosts: str | list[str]) -> Self:
        """Where the cluster's nodes are.

        Args:
            hosts: ``host:port``, ``http://host:port`` or ``https://host:port``, or a list of these. Where one does not
                answer the next one is asked.

        Raises:
            ConfigurationError: no hosts, or not such addresses.
        """
        what = f"{self._name('set_hosts')}: hosts"
        given = hosts if isinstance(hosts, list) else [hosts]
        if not given:
            raise ConfigurationError(f"{what}: give at least one host")
        return self._set_cluster(hosts=tuple(_url(host, what) for host in given))

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """What holds after a failure.

        Args:
            delivery_guarantee: AT_LEAST_ONCE, or NONE, the default, which is the same here: in both a checkpoint waits for
                the cluster.

        Raises:
            NotSupportedError: EXACTLY_ONCE, which the cluster has nothing for.
        """
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise NotSupportedError(
                f"{self._name('set_delivery_guarantee')}: delivery_guarantee: Elasticsearch and OpenSearch have no "
                "transactions, so that EXACTLY_ONCE cannot be promised, as in Flink. Use AT_LEAST_ONCE and give the emitter "
                "a key_field: a document that is written again is the same"
            )
        return self

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Self:
        """How many documents are sent at a time.

        Args:
            num_max_actions: 1,000 by default. -1: they wait for another bound or the checkpoint, 50,000 at most.

        Raises:
            ConfigurationError: not a whole number, or 0.
        """
        what = f"{self._name('set_bulk_flush_max_actions')}: num_max_actions"
        return self._set_bulk(max_actions=_bound(num_max_actions, what))

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Self:
        """How much is sent at a time.

        Args:
            max_size_mb: in MB. -1, the default: no bound but 32 MB.

        Raises:
            ConfigurationError: not a whole number, 0, or more than 1,024.
        """
        what = f"{self._name('set_bulk_flush_max_size_mb')}: max_size_mb"
        size = _bound(max_size_mb, what, _MOST_MB)
        return self._set_bulk(max_size_bytes=size if size < 0 else size << 20)

    def set_bulk_flush_interval(self, interval_millis: Annotated[int, Whole(-1)]) -> Self:
        """How long documents wait at most. Epochs last up to a second, and are the grain of it.

        Args:
            interval_millis: in ms. -1, the default: they wait for a full request or the checkpoint.
        """
        return self._set_bulk(interval_ms=interval_millis)

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Self:
        """How a request that failed for a reason that may pass is tried again; by default it is not.

        Args:
            flush_backoff_type: how the waits grow.
            max_retries: how often it is tried again, at least 1; NONE does not look at it.
            delay_millis: the first wait, in ms.

        Raises:
            ConfigurationError: not these.
        """
        what = self._name("set_bulk_flush_backoff_strategy")
        least = -1 if flush_backoff_type is FlushBackoffType.NONE else 1
        retries = whole_number(max_retries, f"{what}: max_retries", least)
        delay_ms = whole_number(delay_millis, f"{what}: delay_millis", min(least, 0))
        backoff = engine.Backoff[flush_backoff_type.name]
        return self._set_bulk(backoff=backoff, max_retries=retries, delay_ms=delay_ms)

    def set_connection_username(self, username: str) -> Self:
        """The user.

        Args:
            username: name.
        """
        return self._set_cluster(user=username)

    def set_connection_password(self, password: Password) -> Self:
        """The user's password. It is shipped to the workers, and is in no message and no table."""
        return self._set_cluster(password=password)

    def set_connection_path_prefix(self, prefix: str) -> Self:
        """What begins the path of every request, for a cluster behind a proxy.

        Args:
            prefix: such as ``/search``.
        """
        path = "/" + prefix.strip("/")
        return self._set_cluster(path_prefix="" if path == "/" else path)

    @kept
    def set_connection_request_timeout(self, timeout: Millis) -> Self:
        """How long to wait for a connection of the pool; a writer has one, which is always free.

        Args:
            timeout: in ms.
        """
        return self

    def set_connection_timeout(self, timeout: Annotated[int, Whole(1)]) -> Self:
        """How long connecting may take.

        Args:
            timeout: in ms, 5,000 by default.
        """
        return self._set_cluster(connect_timeout_ms=timeout)

    def set_socket_timeout(self, timeout: Annotated[int, Whole(1)]) -> Self:
        """How long the cluster may take to answer.

        Args:
            timeout: in ms, 30,000 by default.
        """
        return self._set_cluster(socket_timeout_ms=timeout)

    def build(self) -> ElasticsearchSink:
        """The sink.

        Raises:
            ConfigurationError: hosts or emitter are missing, or a password has no user, or urllib3 is not installed.
        """
        what = self._name("build")
        required(self._cluster.hosts or None, what, "give the cluster's addresses by set_hosts()")
        emitter = required(self._emitter, what, "give an emitter by set_emitter()")
        if self._cluster.password is not None and self._cluster.user is None:
            raise ConfigurationError(
                f"{what}: there is a password and no user: give it by set_connection_username()"
            )
        return ElasticsearchSink(engine.ElasticsearchSink(emitter, self._cluster, self._bulk))

    def _set_cluster(self, **options: Any) -> Self:
        self._cluster = replace(self._cluster, **options)
        return self

    def _set_bulk(self, **options: Any) -> Self:
        self._bulk = replace(self._bulk, **options)
        return self

    def _name(self, method: str) -> str:
        return f"{type(self).__name__}.{method}"


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds an `ElasticsearchSink`. The same as `Elasticsearch7SinkBuilder`: the sink asks the cluster for its version.

    Example:
        >>> sink = (
        ...     Elasticsearch6SinkBuilder()
        ...     .set_hosts("localhost:9200")
        ...     .set_emitter(ElasticsearchEmitter.static_index("users", "id"))
        ...     .build()
        ... )
    """


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds an `ElasticsearchSink`, for OpenSearch too.

    Example:
        >>> sink = (
        ...     Elasticsearch7SinkBuilder()
        ...     .set_hosts(["localhost:9200"])
        ...     .set_emitter(ElasticsearchEmitter.dynamic_index("day", "id"))
        ...     .set_bulk_flush_backoff_strategy(FlushBackoffType.EXPONENTIAL, 5, 1000)
        ...     .build()
        ... )
    """


def _bound(value: Any, what: str, most: int | None = None) -> int:
    number = whole_number(value, what, -1, most)
    if number == 0:
        raise ConfigurationError(f"{what} must be -1, for no bound, or at least 1, got 0")
    return number


def _url(host: Any, what: str) -> str:
    address = text(host, what).strip()
    if "@" in address:
        raise ConfigurationError(
            f"{what}: an address has a user in it: give user and password by set_connection_username() and "
            "set_connection_password()"
        )
    url = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"{what}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ConfigurationError(f"{what}: {address!r} is not of the form http://host:port")
    shown = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{shown}" + ("" if port is None else f":{port}")
