"""Rows into Cassandra by a prepared statement: at least once; writing a row again changes nothing if it is an upsert.

Invariants:
    * An epoch ends only when the cluster has acknowledged its rows at the consistency level asked for.
    * A row that does not fit the statement fails the job before any row of its block is written; a value that its column
      would not hold exactly does not fit (`fitting.py`).
    * What is on its way is bounded.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from changelog_engine.connectors import reconnecting
from changelog_engine.connectors.cassandra.fitting import check_of
from changelog_engine.connectors.packages import CASSANDRA
from changelog_engine.connectors.protocols import Sink, SinkWriter
from changelog_engine.connectors.reconnecting import UnreachableError
from changelog_engine.connectors.still_ours import check_still_ours
from changelog_engine.errors import (
    ConfigurationError,
    ConnectorError,
    NotSupportedError,
    RefusedForGoodError,
    TypeMismatchError,
)
from changelog_engine.types import Row, TypeInformation
from changelog_engine.types.composite import RowTypeInfo, TupleTypeInfo
from changelog_engine.types.row import values_in_order
from changelog_engine.types.typeinfo import shown

log = logging.getLogger("changelog_engine")

DEFAULT_REQUESTS = 256
_TRY_AGAIN_S = 1.0
_REQUEST_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 10.0
_SHOWN_CHARS = 300
_ROWS = (RowTypeInfo, TupleTypeInfo)


@dataclass(frozen=True)
class ConnectionOptions:
    """Where the cluster is.

    Args:
        hosts: nodes to begin with; the driver finds the others.
        user, password: None for a cluster that lets everybody in.
        consistency: how many replicas must have a row, by the name of the level; None for the driver's, LOCAL_ONE.
    """

    hosts: tuple[str, ...]
    port: int = 9042
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    consistency: str | None = None

    @property
    def where(self) -> str:
        """The cluster, for messages."""
        return f"Cassandra ({', '.join(self.hosts)}, port {self.port})"


@dataclass(eq=False, repr=False)
class CassandraSink(Sink):
    """Runs a statement for each row.

    Args:
        query: CQL with a ``?`` for each field.
        most_requests: how many rows may be on their way.
        wait_s: how long a row waits for its turn while others are in flight; None for as long as it takes.
        ignores_none: None leaves a column as it is, in place of writing a null.
    """

    query: str
    options: ConnectionOptions
    most_requests: int = DEFAULT_REQUESTS
    wait_s: float | None = None
    ignores_none: bool = False

    def __post_init__(self) -> None:
        CASSANDRA.load()
        self._fields: int | None = None

    def for_type(self, type_info: TypeInformation | None) -> Self:
        """This sink for rows or tuples of a type.

        Raises:
            NotSupportedError: elements that have no fields.
        """
        if type_info is None or type_info.kind == "PICKLED_BYTE_ARRAY":
            return self
        if not isinstance(type_info, _ROWS):
            raise NotSupportedError(
                f"CassandraSink writes rows and tuples, and the stream is of {type_info.name}: map its elements to "
                "Types.ROW([...]) or Types.TUPLE([...]) first"
            )
        typed = copy.copy(self)
        typed._fields = len(type_info.get_field_types())
        return typed

    def check_before_start(self) -> None:
        """Raise when the cluster cannot be reached, does not let us, or cannot run the statement."""
        with contextlib.closing(_Session(self.options)) as session:
            columns = len(session.prepared(self.query).column_metadata)
        if self._fields is not None and self._fields != columns:
            raise ConfigurationError(
                f"CassandraSink: the query has {columns} placeholders (?) and the stream's type {self._fields} fields: "
                f"{self.query}"
            )

    def writer(self, subtask: int, parallelism: int) -> CassandraWriter:
        return CassandraWriter(self)


class CassandraWriter(SinkWriter):
    """Writes one subtask's rows."""

    def __init__(self, sink: CassandraSink) -> None:
        self._sink = sink
        self._where = sink.options.where
        self._changed = threading.Condition()
        self._on_the_way = 0
        self._failed: tuple[Any, BaseException] | None = None
        self._session = _connected(sink.options)
        try:
            self._statement = self._session.prepared(sink.query)
        except BaseException:
            self._session.close()
            raise
        self._columns = [column.name for column in self._statement.column_metadata]
        checks = [check_of(column.type) for column in self._statement.column_metadata]
        self._checks = [(at, check) for at, check in enumerate(checks) if check is not None]
        self._unset = CASSANDRA.load().query.UNSET_VALUE

    def write(self, values: Sequence[Any]) -> None:
        """All fit, or none is written."""
        for bound, value in [(self._bound(value), value) for value in values]:
            self._wait(self._sink.most_requests - 1, self._sink.wait_s)
            check_still_ours()
            with self._changed:
                self._on_the_way += 1
            try:
                future = self._session.execute_async(bound)
            except Exception as error:
                self._ended((value, error))
                self._check()
            else:
                future.add_callbacks(
                    lambda _: self._ended(), lambda error, value=value: self._ended((value, error))
                )

    def _bound(self, value: Any) -> Any:
        fields = values_in_order(value, self._columns) if type(value) is Row else value
        if type(value) is not Row and not isinstance(value, (tuple, list)):
            raise TypeMismatchError(
                f"CassandraSink writes rows and tuples, got {shown(value, _SHOWN_CHARS)}; query: {self._sink.query}"
            )
        if len(fields) != len(self._columns):
            raise TypeMismatchError(
                f"CassandraSink: the query has {len(self._columns)} placeholders (?) and the element {len(fields)} fields: "
                f"{shown(value, _SHOWN_CHARS)}; query: {self._sink.query}"
            )
        if self._sink.ignores_none:
            fields = [self._unset if each is None else each for each in fields]
        unset = self._unset
        for at, check in self._checks:
            each = fields[at]
            if each is not None and each is not unset and (why := check(each)):
                raise self._mismatch(self._does_not_fit(at, each, why), value)
        try:
            return self._statement.bind(fields)
        except Exception as error:
            raise self._mismatch(self._misfit(fields) or str(error), value) from None

    def _mismatch(self, said: str, value: Any) -> TypeMismatchError:
        return TypeMismatchError(
            f"CassandraSink: {said}; element: {shown(value, _SHOWN_CHARS)}; query: {self._sink.query}"
        )

    def _does_not_fit(self, at: int, each: Any, why: str) -> str:
        column = self._statement.column_metadata[at]
        kind = column.type.cql_parameterized_type()
        return f"{shown(each, _SHOWN_CHARS)} does not fit column {column.name!r} of type {kind} ({why})"

    def _misfit(self, fields: Sequence[Any]) -> str:
        """Which field the driver refused, and why."""
        version = self._statement.protocol_version
        for at, (column, each) in enumerate(zip(self._statement.column_metadata, fields, strict=True)):
            if each is None or each is self._unset:
                continue
            try:
                column.type.serialize(each, version)
            except Exception as error:
                return self._does_not_fit(at, each, _text(error))
        return ""

    def _ended(self, failed: tuple[Any, BaseException] | None = None) -> None:
        """In a thread of the driver, or ours: a row is written or has failed."""
        with self._changed:
            self._on_the_way -= 1
            self._failed = self._failed or failed
            self._changed.notify_all()

    def _check(self) -> None:
        if self._failed is not None:
            value, error = self._failed
            said = f"{self._where}: writing {shown(value, _SHOWN_CHARS)} failed: {_text(error)}; query: {self._sink.query}"
            cassandra = CASSANDRA.load()
            if isinstance(error, (cassandra.RequestValidationException, cassandra.protocol.SyntaxException)):
                raise RefusedForGoodError(said, _text(error))
            raise ConnectorError(said)

    def _wait(self, most: int, wait_s: float | None = None) -> None:
        """Wait until at most this many rows are in flight."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._failed or self._on_the_way <= most, wait_s):
                raise ConnectorError(
                    f"{self._where}: {self._on_the_way} rows are on their way, and none was written for {wait_s:g} s "
                    "(set_max_concurrent_requests)"
                )
        self._check()

    def flush(self) -> None:
        self._wait(0)  # each request has its own timeout

    def close(self) -> None:
        self._session.close()


class _Session:
    """A connection to the cluster.

    Raises:
        ConnectorError: no node of the cluster can be connected to.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        cassandra = CASSANDRA.load()
        self._options = options
        login = None
        if options.user is not None:
            login = cassandra.auth.PlainTextAuthProvider(options.user, options.password or "")
        level = cassandra.ConsistencyLevel.name_to_value[options.consistency or "LOCAL_ONE"]
        profile = cassandra.cluster.ExecutionProfile(
            consistency_level=level, request_timeout=_REQUEST_TIMEOUT_S
        )
        self._cluster: Any = None
        try:
            # It gives each row a timestamp as it is sent: of two rows for one key the later one stays.
            self._cluster = cassandra.cluster.Cluster(
                list(options.hosts),
                port=options.port,
                auth_provider=login,
                execution_profiles={cassandra.cluster.EXEC_PROFILE_DEFAULT: profile},
                connect_timeout=_CONNECT_TIMEOUT_S,
            )
            self._session = self._cluster.connect()
        except Exception as error:
            if self._cluster is not None:
                self._cluster.shutdown()
            raise _failure(options, error) from None
        self.execute_async: Callable[[Any], Any] = self._session.execute_async

    def prepared(self, query: str) -> Any:
        """The statement.

        Raises:
            ConfigurationError: the cluster does not understand it, or has no such table.
        """
        cassandra = CASSANDRA.load()
        try:
            return self._session.prepare(query)
        except (
            cassandra.InvalidRequest,
            cassandra.protocol.SyntaxException,
            cassandra.Unauthorized,
        ) as error:
            raise ConfigurationError(f"{self._options.where}: {_text(error)}; query: {query}") from None
        except Exception as error:
            raise _failure(self._options, error) from None

    def close(self) -> None:
        """End it."""
        self._cluster.shutdown()


def _connected(options: ConnectionOptions, sleep: Callable[[float], None] = time.sleep) -> _Session:
    """A session, after some tries: a cluster that is being restarted comes back."""
    return reconnecting.connected(lambda: _Session(options), options.where, _TRY_AGAIN_S, sleep)


def _failure(options: ConnectionOptions, error: Exception) -> ConnectorError:
    cassandra = CASSANDRA.load()
    causes = [error]
    if isinstance(error, cassandra.cluster.NoHostAvailable) and isinstance(error.errors, dict):
        causes = list(error.errors.values()) or causes
    for cause in causes:
        if isinstance(cause, cassandra.AuthenticationFailed) or "authentication" in str(cause):
            who = (
                f"user {options.user!r}" if options.user is not None else "a client without user and password"
            )
            return RefusedForGoodError(f"{options.where} refuses {who}: {_text(cause)}")
    unknown = isinstance(error, cassandra.UnresolvableContactPoints)
    text = "no address is known of any of these hosts" if unknown else _text(causes[0])
    return UnreachableError(
        f"{options.where} cannot be reached: {text}. Is it running, and does it listen there for CQL clients?"
    )


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
