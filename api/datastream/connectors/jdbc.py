"""Sinks that write rows to databases."""

from __future__ import annotations

from typing import Annotated, Self

from changelog_engine.connectors.jdbc import (
    BatchingSink,
    CommitTableSink,
    ConnectionOptions,
    ExecutionOptions,
)
from changelog_engine.connectors.jdbc.dialects import package_of
from changelog_engine.connectors.jdbc.options import (
    DEFAULT_BATCH_INTERVAL_MS,
    DEFAULT_BATCH_SIZE,
    DEFAULT_MAX_RETRIES,
)
from changelog_engine.types.composite import RowTypeInfo

from ..._arguments import Millis, Password, Whole, checked, checked_later, required
from ..._kept_settings import kept
from ..._needs import needs
from ..functions import SinkFunction
from ._jdbc_exactly_once import JdbcExactlyOnceOptions as JdbcExactlyOnceOptions


@checked
class JdbcSink(SinkFunction):
    """A sink that runs a statement for each row, in a database: PostgreSQL, MySQL, MariaDB or SQLite.

    The Python drivers come with ``pip install 'changelog-engine[jdbc]'``; no Java driver is needed.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> from changelog_engine.api.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
        >>> options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/data/rows.db").build()
        >>> sink = JdbcSink.sink("INSERT INTO counts VALUES (?, ?)", Types.ROW([Types.STRING(), Types.LONG()]), options)
    """

    def __init__(self, jdbc_sink: BatchingSink) -> None:
        super().__init__(jdbc_sink)

    @staticmethod
    def sink(
        sql: str,
        type_info: Annotated[RowTypeInfo, checked_later],
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """A sink that writes at least once: after a failure some rows are written again.

        With a statement that gives the same result when it is run again, such as an upsert, the table ends up exact.

        Args:
            sql: a statement with a ``?`` for each field of the rows. In PostgreSQL ``??`` is an operator's ``?``.
            jdbc_connection_options: where the database is.
            jdbc_execution_options: in which portions rows are written; None for `JdbcExecutionOptions.defaults`.

        Raises:
            ConfigurationError: not as many ``?`` as fields, an argument that cannot be used, or a Python driver that is not
                installed.
            NotSupportedError: another database, or a field that it has no values for.
        """
        return JdbcSink(
            BatchingSink(sql, type_info, jdbc_connection_options._options, _execution(jdbc_execution_options))
        )

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: Annotated[RowTypeInfo, checked_later],
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        jdbc_exactly_once_options: JdbcExactlyOnceOptions | None = None,
    ) -> JdbcSink:
        """A sink that writes exactly once. Beyond PyFlink; Flink's Java API has one of this name.

        Rows are staged in the database and appear in the table when their checkpoint is durable, in one transaction with a
        note in a commit table. Jobs without checkpoints write when the input ends.

        Args:
            sql: a statement with a ``?`` for each field of the rows.
            jdbc_connection_options: where the database is.
            jdbc_execution_options: in which portions rows are written; None for `JdbcExecutionOptions.defaults`.
            jdbc_exactly_once_options: names of the tables; None for `JdbcExactlyOnceOptions.defaults`.

        Raises:
            ConfigurationError, NotSupportedError: as for `sink`.
        """
        options = jdbc_exactly_once_options or JdbcExactlyOnceOptions.defaults()
        return JdbcSink(
            CommitTableSink(
                sql,
                type_info,
                jdbc_connection_options._options,
                _execution(jdbc_execution_options),
                options.get_commit_table(),
                options.get_retention_ms(),
            )
        )


class JdbcConnectionOptions:
    """Where a database is; made by its builder.

    Example:
        >>> builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        >>> builder.with_url("jdbc:postgresql://localhost:5432/shop").with_user_name("me").with_password("x").build()
        JdbcConnectionOptions(url='jdbc:postgresql://localhost:5432/shop', driver_name=None, user='me')
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options

    def get_db_url(self) -> str:
        """The URL."""
        return self._options.url

    def get_driver_name(self) -> str | None:
        """The name given, or None."""
        return self._options.driver_name

    def get_user_name(self) -> str | None:
        """The user, or None."""
        return self._options.user

    def get_password(self) -> str | None:
        """The password, or None."""
        return self._options.password

    def __repr__(self) -> str:
        return repr(self._options)

    @checked
    class JdbcConnectionOptionsBuilder:
        """Builds `JdbcConnectionOptions`. Its methods return the builder."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user: str | None = None
            self._password: str | None = None

        @needs(package_of)
        def with_url(self, url: str) -> Self:
            """Set the URL.

            Args:
                url: ``jdbc:postgresql://host:port/database``, ``jdbc:mysql://...``, ``jdbc:mariadb://...`` or
                    ``jdbc:sqlite:path``, with parameters after ``?``.
            """
            self._url = url
            return self

        @kept
        def with_driver_name(self, driver_name: str) -> Self:
            """Set the name of the Java driver. Kept, without effect: the URL says which Python driver it is.

            Args:
                driver_name: such as ``org.postgresql.Driver``.
            """
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> Self:
            """Set the user.

            Args:
                user_name: goes before the URL's.
            """
            self._user = user_name
            return self

        def with_password(self, password: Password) -> Self:
            """Set the password. It is shipped to the workers, and is in no message and no table.

            Args:
                password: goes before the URL's.
            """
            self._password = password
            return self

        def build(self) -> JdbcConnectionOptions:
            """The options.

            Raises:
                ConfigurationError: no URL was given.
            """
            url = required(self._url, "JdbcConnectionOptionsBuilder.build", "give a URL by with_url()")
            return JdbcConnectionOptions(
                ConnectionOptions(url, self._driver_name, self._user, self._password)
            )


class JdbcExecutionOptions:
    """In which portions rows are written; made by its builder.

    Example:
        >>> JdbcExecutionOptions.builder().with_batch_size(200).with_batch_interval_ms(500).build()
        JdbcExecutionOptions(batch_size=200, batch_interval_ms=500, max_retries=3)
    """

    def __init__(self, options: ExecutionOptions) -> None:
        self._options = options

    def get_batch_interval_ms(self) -> int:
        """How long rows wait at most, in ms; 0 for no such bound."""
        return self._options.batch_interval_ms

    def get_batch_size(self) -> int:
        """How many rows are written at a time; 0 for no such bound."""
        return self._options.batch_size

    def get_max_retries(self) -> int:
        """How often a batch is tried again."""
        return self._options.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Batches of 5,000 rows, no interval, 3 retries."""
        return JdbcExecutionOptions(ExecutionOptions())

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """A builder with the defaults."""
        return JdbcExecutionOptions.Builder()

    def __repr__(self) -> str:
        options = self._options
        return (
            f"JdbcExecutionOptions(batch_size={options.batch_size}, "
            f"batch_interval_ms={options.batch_interval_ms}, max_retries={options.max_retries})"
        )

    @checked
    class Builder:
        """Builds `JdbcExecutionOptions`. Its methods return the builder."""

        def __init__(self) -> None:
            self._size = DEFAULT_BATCH_SIZE
            self._interval_ms = DEFAULT_BATCH_INTERVAL_MS
            self._max_retries = DEFAULT_MAX_RETRIES

        def with_batch_size(self, size: Annotated[int, Whole(0)]) -> Self:
            """Set how many rows are written at a time.

            Args:
                size: 5,000 by default. 0: rows wait for the interval or the checkpoint, at most 50,000 of them.
            """
            self._size = size
            return self

        def with_batch_interval_ms(self, interval_ms: Millis) -> Self:
            """Set how long rows wait at most. Epochs last up to a second, and are the grain of it.

            Args:
                interval_ms: in ms. 0, the default: rows wait for a full batch or the checkpoint.
            """
            self._interval_ms = interval_ms
            return self

        def with_max_retries(self, max_retries: Annotated[int, Whole(0)]) -> Self:
            """Set how often a batch is tried again that failed for a reason that may pass, such as a lost connection.

            Args:
                max_retries: 3 by default. The n-th comes after n seconds, on a new connection.
            """
            self._max_retries = max_retries
            return self

        def build(self) -> JdbcExecutionOptions:
            """The options."""
            return JdbcExecutionOptions(ExecutionOptions(self._size, self._interval_ms, self._max_retries))


def _execution(options: JdbcExecutionOptions | None) -> ExecutionOptions:
    return ExecutionOptions() if options is None else options._options
