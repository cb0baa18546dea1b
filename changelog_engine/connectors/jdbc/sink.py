"""A sink that writes batches: at least once.

Invariants:
    * What came before a barrier is in the database when the checkpoint is made.
    * A batch is one transaction. After a failure the batches since the last checkpoint are written again.
    * An INSERT that names no columns writes into those that the table had when the program was started, or into none.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from changelog_engine.connectors.collecting import CollectingWriter
from changelog_engine.connectors.jdbc.dialects import dialect_of
from changelog_engine.connectors.jdbc.options import ConnectionOptions, ExecutionOptions
from changelog_engine.connectors.jdbc.rows import Statement, table_without_columns
from changelog_engine.connectors.jdbc.session import Session
from changelog_engine.connectors.jdbc.urls import driver_arguments
from changelog_engine.connectors.protocols import CommittingSink, CommittingWriter, SinkContext
from changelog_engine.connectors.still_ours import check_still_ours
from changelog_engine.errors import ConnectorError
from changelog_engine.types import TypeInformation

log = logging.getLogger("changelog_engine")

LARGEST_BATCH = 50_000  # rows, where no batch size is asked for


@dataclass(eq=False)
class BatchingSink(CommittingSink):
    """Writes rows with a statement, in batches.

    Args:
        sql: with a ``?`` for each field.

    Raises:
        ConfigurationError, NotSupportedError: see `Statement` and `urls`.
    """

    sql: str
    type_info: TypeInformation = field(repr=False)
    connection: ConnectionOptions
    execution: ExecutionOptions = field(repr=False)
    columns: tuple[str, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        driver_arguments(self.connection)
        self.statement()
        dialect_of(self.connection).check_installed()

    def statement(self) -> Statement:
        """The statement, in the worker."""
        return Statement(self.sql, self.type_info, dialect_of(self.connection), self.columns)

    def check_before_start(self) -> None:
        """Look at the columns of an INSERT that names none: else values go into others once somebody changes the table."""
        self.columns = ()
        unnamed = table_without_columns(self.sql)
        if unnamed is None:
            return
        table, count = unnamed
        dialect = dialect_of(self.connection)
        with contextlib.closing(Session(self.connection, 0)) as session:
            try:
                columns = session.run(
                    lambda connection: dialect.columns(connection, table), "looking at columns"
                )
                why = f"there is no table {table} yet"
            except ConnectorError as error:
                columns, why = (), str(error)
        if not columns:
            log.warning(
                "the SQL names no columns, and those of the table could not be looked at (%s): values go into whichever "
                "columns it has when they are written. Name the columns. SQL: %s",
                why,
                self.sql,
            )
        elif count == len(columns) or (count < len(columns) and dialect.takes_fewer):
            self.columns = tuple(columns[:count])

    def committing_writer(self, context: SinkContext) -> CommittingWriter:
        return BatchingWriter(self)


class BatchingWriter(CollectingWriter):
    """Collects rows, and writes a batch when it is full, old enough, or a barrier comes."""

    def __init__(self, sink: BatchingSink) -> None:
        super().__init__(sink.execution.batch_interval_ms / 1000 or None)
        self._session = Session(sink.connection, sink.execution.max_retries)
        self._statement = sink.statement()
        self._size = sink.execution.batch_size or LARGEST_BATCH

    def write(self, values: Sequence[Any]) -> None:
        if not self._waiting:
            self._oldest_s = self._clock()
        self._waiting += self._statement.fitted(values)
        written = 0
        while len(self._waiting) - written >= self._size:
            self._send(self._waiting[written : written + self._size])
            written += self._size
        if written:
            del self._waiting[:written]
            self._oldest_s = self._clock()
        self.end_epoch()

    def close(self) -> None:
        super().close()
        self._session.close()

    def _send(self, rows: Sequence[tuple[Any, ...]]) -> None:
        def work(connection: Any) -> None:
            check_still_ours()  # at each try: the server ended the transaction of a process that stood still
            self._session.write(connection, self._statement, rows)

        self._session.run(work, "writing rows")
