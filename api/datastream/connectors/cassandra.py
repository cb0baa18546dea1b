"""A sink for Cassandra. It needs ``pip install 'changelog-engine[cassandra]'``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Self

from changelog_engine.connectors import cassandra as engine
from changelog_engine.connectors import packages
from changelog_engine.errors import ArgumentTypeError, ConfigurationError

from ..._arguments import Password, SuchAs, Whole, checked, required, text
from ..._needs import needs
from ..._unsupported import NamesOfPyFlink
from ...common.time import Duration
from ..data_stream import DataStream, DataStreamSink
from .base import Sink

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]

_LOG = logging.getLogger("changelog_engine")
_PORT = 9042
_LARGEST = 2**31 - 1
_Port = Annotated[int, Whole(1, 65_535)]
_NO_LOG = (
    "is of the write-ahead log, which is not here: rows are written as they come, and again after a failure, which changes "
    "nothing if the query is an upsert and its values are computed alike again. For values that differ then use "
    "JdbcSink.exactly_once_sink() or a CommittingSink of your own"
)


class ConsistencyLevel(Enum):
    """How many replicas must have a row before it counts as written."""

    ANY = 0
    ONE = 1
    TWO = 2
    THREE = 3
    QUORUM = 4
    ALL = 5
    LOCAL_QUORUM = 6
    EACH_QUORUM = 7
    SERIAL = 8
    LOCAL_SERIAL = 9
    LOCAL_ONE = 10


@checked
class MapperOptions:
    """Settings of the mapper that writes Java's POJOs. They have no effect on rows and tuples, as in PyFlink.

    Say in the query what they would say: ``USING TTL 1800``, ``USING TIMESTAMP ?``, ``IF NOT EXISTS``. `ClusterBuilder`
    takes a consistency level.
    """

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}

    def ttl(self, ttl: Annotated[int, Whole(0, _LARGEST)]) -> Self:
        """How long rows live, in seconds."""
        return self._set("ttl", ttl)

    def timestamp(self, timestamp: Annotated[int, Whole(0)]) -> Self:
        """The time of writing, in microseconds."""
        return self._set("timestamp", timestamp)

    def consistency_level(self, cl: ConsistencyLevel) -> Self:
        """The consistency level."""
        return self._set("consistency_level", cl)

    def tracing(self, enabled: bool) -> Self:
        """Whether requests are traced."""
        return self._set("tracing", enabled)

    def save_null_fields(self, enabled: bool) -> Self:
        """Whether nulls are written."""
        return self._set("save_null_fields", enabled)

    def if_not_exists(self, enabled: bool) -> Self:
        """Whether rows that are there stay as they are."""
        return self._set("if_not_exists", enabled)

    def _set(self, name: str, value: Any) -> Self:
        self._given[name] = value
        return self


@checked
class ClusterBuilder:
    """Where a cluster is, and how it is spoken to. In PyFlink it wraps a Java object, here it has arguments of its own.

    Args:
        hosts: a node, or several; the others are found.
        port: of all nodes.
        user_name, password: of a cluster that asks for them.
        consistency_level: how many replicas must have a row; None for LOCAL_ONE.

    Example:
        >>> ClusterBuilder(["db1", "db2"], user_name="me", password="x", consistency_level=ConsistencyLevel.QUORUM)
        ClusterBuilder(hosts=['db1', 'db2'], port=9042, user_name='me')
    """

    def __init__(
        self,
        hosts: str | Sequence[str],
        port: _Port = _PORT,
        user_name: str | None = None,
        password: Password | None = None,
        consistency_level: ConsistencyLevel | None = None,
    ) -> None:
        names = [hosts] if isinstance(hosts, str) else hosts
        if not isinstance(names, (list, tuple)) or not names:
            raise ArgumentTypeError(
                f"ClusterBuilder: hosts must be a host or several, got a {type(hosts).__name__}; Java's builders cannot be "
                "used"
            )
        if (user_name is None) != (password is None):
            raise ConfigurationError("ClusterBuilder: give both user_name and password, or neither")
        if consistency_level in (ConsistencyLevel.SERIAL, ConsistencyLevel.LOCAL_SERIAL):
            raise ConfigurationError(
                f"ClusterBuilder: consistency_level {consistency_level.name} is for reads; "
                "choose one for writes, such as QUORUM"
            )
        self._options = engine.ConnectionOptions(
            tuple(text(name, "ClusterBuilder: hosts") for name in names),
            port,
            user_name,
            password,
            None if consistency_level is None else consistency_level.name,
        )

    def __repr__(self) -> str:
        options = self._options
        return (
            f"ClusterBuilder(hosts={list(options.hosts)!r}, port={options.port}, user_name={options.user!r})"
        )


class CassandraCommitter(NamesOfPyFlink):
    """Notes in a table which checkpoints were written, for the write-ahead log, which is not here."""

    _not_here: Mapping[str, str] = {"default_checkpoint_committer": _NO_LOG}


class CassandraFailureHandler:
    """What happens when a row cannot be written: the job fails."""

    @staticmethod
    def no_op() -> CassandraFailureHandler:
        """Fails the job, as without a handler."""
        return CassandraFailureHandler()


_FailureHandler = Annotated[CassandraFailureHandler, SuchAs("CassandraFailureHandler.no_op()")]


@checked
@needs(packages.CASSANDRA)
class CassandraSink(DataStreamSink):
    """A sink of rows and tuples that runs a CQL statement for each: at least once.

    An epoch ends only when the cluster has acknowledged its rows. After a failure those since the last checkpoint are
    written again, which changes nothing if the statement is an upsert, as INSERT and UPDATE are, except of counters.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> words = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> builder = CassandraSink.add_sink(words).set_query("INSERT INTO shop.words (word, n) VALUES (?, ?)")
        >>> sink = builder.set_host("localhost").build().uid("words")
    """

    def __init__(self, sink: DataStreamSink) -> None:
        super().__init__(sink._transformation)

    @staticmethod
    def add_sink(input: DataStream) -> CassandraSink.CassandraSinkBuilder:
        """Begin a sink for a stream; `CassandraSinkBuilder.build` adds it.

        Args:
            input: a stream of rows or tuples.
        """
        return CassandraSink.CassandraSinkBuilder(input)

    @checked
    class CassandraSinkBuilder(NamesOfPyFlink):
        """Builds a `CassandraSink`. Its methods return the builder."""

        _not_here: Mapping[str, str] = {"enable_write_ahead_log": _NO_LOG}

        def __init__(self, input: DataStream) -> None:
            self._input = input
            self._query: str | None = None
            self._cluster: ClusterBuilder | None = None
            self._most_requests = engine.DEFAULT_REQUESTS
            self._wait_s: float | None = None
            self._ignores_none = False

        def set_query(self, query: str) -> Self:
            """Set the statement.

            Args:
                query: CQL with a ``?`` for each field, in their order, and the key space: ``INSERT INTO shop.words (word, n)
                    VALUES (?, ?)``.
            """
            self._query = query
            return self

        def set_host(self, host: str, port: int = _PORT) -> Self:
            """Set where the cluster is, instead of a cluster builder.

            Args:
                host: a node; the others are found.
                port: of all nodes.
            """
            return self._located(ClusterBuilder(host, port), "set_host")

        def set_cluster_builder(self, builder: ClusterBuilder) -> Self:
            """Set where the cluster is, the login and the consistency level, instead of a host."""
            return self._located(builder, "set_cluster_builder")

        def _located(self, cluster: ClusterBuilder, method: str) -> Self:
            if self._cluster is not None:
                raise ConfigurationError(
                    f"CassandraSinkBuilder.{method}: the cluster is set already; give a host or a cluster builder, once"
                )
            self._cluster = cluster
            return self

        def set_mapper_options(self, options: MapperOptions) -> Self:
            """Without effect on rows and tuples, as in PyFlink; the log says so.

            Args:
                options: see `MapperOptions` for what to use.
            """
            if options._given:
                _LOG.warning(
                    "CassandraSinkBuilder.set_mapper_options: %s have no effect: they are for Java's POJOs, as in PyFlink. "
                    "Say it in the query (USING TTL, USING TIMESTAMP, IF NOT EXISTS), or to ClusterBuilder "
                    "(consistency_level)",
                    ", ".join(options._given),
                )
            return self

        def set_failure_handler(self, failure_handler: _FailureHandler) -> Self:
            """Set what happens when a row cannot be written.

            Args:
                failure_handler: `CassandraFailureHandler.no_op`, the only one: the job fails.
            """
            return self

        def set_max_concurrent_requests(
            self,
            max_concurrent_requests: Annotated[int, Whole(1, _LARGEST)],
            duration: Duration | None = None,
        ) -> Self:
            """Set how many rows of a subtask may be on their way.

            Args:
                max_concurrent_requests: 256 by default.
                duration: how long a row waits for its turn before the job fails; None for as long as requests take.
            """
            self._most_requests = max_concurrent_requests
            self._wait_s = None if duration is None else duration.to_milliseconds() / 1000
            return self

        def enable_ignore_null_fields(self) -> Self:
            """Let None leave a column as it is; by default it writes a null, which deletes what is there."""
            self._ignores_none = True
            return self

        def build(self) -> CassandraSink:
            """Add the sink to the stream.

            Raises:
                ConfigurationError: the query or the hosts were not given.
                NotSupportedError: a stream whose elements are declared as neither rows nor tuples.
            """
            what = "CassandraSinkBuilder.build"
            query = required(self._query, what, "give a query by set_query()")
            cluster = required(self._cluster, what, "give a host by set_host(), or set_cluster_builder(),")
            sink = engine.CassandraSink(
                query, cluster._options, self._most_requests, self._wait_s, self._ignores_none
            )
            return CassandraSink(self._input.sink_to(Sink(sink)).name("Cassandra Sink"))
