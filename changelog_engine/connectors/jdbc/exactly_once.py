"""A sink whose rows are in the database exactly once.

1. Rows are staged, in the database itself, as they come; at a barrier the last of them, so that all are durable.
2. The checkpoint keeps the name of the staged portion: writer and number.
3. Once the checkpoint is durable, one transaction raises the writer's number in the commit table, runs the statement for
   the portion's rows and removes them from the staging table. Who comes second finds the number raised, and does nothing.

Why rows are staged in the database: every writer reaches it, whatever machine it runs on; it is as durable as the rows
are to be; and they are moved within one transaction. A folder would have to be shared by all workers; a transaction that
is prepared and waits for the checkpoint holds locks, and few servers allow it.

Invariants:
    * A row is visible in the user's table only if the checkpoint that covers it is durable.
    * A portion is staged whole before a checkpoint names it.
    * Rows are written by a statement of the type that they were staged as, or by none; so are they into the columns.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from changelog_engine.codec.arrow_columns import without_dictionary
from changelog_engine.codec.values import Codec, codec_for
from changelog_engine.connectors.jdbc.commit_table import CommitTable
from changelog_engine.connectors.jdbc.session import Session
from changelog_engine.connectors.jdbc.sink import BatchingSink
from changelog_engine.connectors.protocols import Committable, CommittingWriter, Prepared, SinkContext
from changelog_engine.errors import RefusedForGoodError
from changelog_engine.types import Types

DEFAULT_COMMIT_TABLE = "changelog_engine_commits"
DEFAULT_RETENTION_MS = 7 * 24 * 3600 * 1000
_CHUNK_ROWS = 4_096
_CHUNK_BYTES = 4 << 20
# Of the rows of a chunk, in its metadata:
_ROW_TYPE = b"row type"
_COLUMNS = b"columns"  # where the SQL names none


@dataclass(eq=False)
class CommitTableSink(BatchingSink):
    """Writes rows with a statement, exactly once.

    Args:
        sql, type_info, connection, execution: as for `BatchingSink`.
        commit_table: name of the commit table; the staging table's is ``<name>_staged``.
        retention_ms: how long rows stay staged that no checkpoint has committed.
    """

    commit_table: str = field(default=DEFAULT_COMMIT_TABLE, repr=False)
    retention_ms: int = field(default=DEFAULT_RETENTION_MS, repr=False)

    def committing_writer(self, context: SinkContext) -> CommitTableWriter:
        return CommitTableWriter(self, context)


class CommitTableWriter(CommittingWriter):
    """Stages rows, and commits portions of them."""

    def __init__(self, sink: CommitTableSink, context: SinkContext) -> None:
        self._session = Session(sink.connection, sink.execution.max_retries)
        self._statement = sink.statement()
        self._codec: Codec = codec_for(Types.TUPLE(self._statement.fields))
        self._context = context
        self._batch = sink.execution.batch_size or _CHUNK_ROWS
        self._table = CommitTable(sink.commit_table, self._session)
        self._id = uuid.uuid4().hex
        self._registered = False
        self._rows: list[tuple[Any, ...]] = []
        self._number = 1  # of the portion that is being staged
        self._staged_chunks = 0
        self._staged_rows = 0
        self._retention_ms = sink.retention_ms if context.subtask == 0 else None
        try:
            self._table.create()
            self._session.run(self._check_transactions, "looking at the table")
            self.commit(
                [committable for one in context.restored for committable in one.prepared.committables]
            )
        except BaseException:
            self._session.close()
            raise

    def write(self, values: Sequence[Any]) -> None:
        self._rows += self._statement.fitted(values)
        while len(self._rows) >= _CHUNK_ROWS:
            self._stage(self._rows[:_CHUNK_ROWS])
            del self._rows[:_CHUNK_ROWS]

    def prepare(self, final: bool) -> Prepared:
        if self._rows:
            self._stage(self._rows)
            self._rows = []
        if not self._staged_rows:
            return Prepared()
        portion = {
            "writer": self._id,
            "portion": self._number,
            "chunks": self._staged_chunks,
            "rows": self._staged_rows,
        }
        self._number += 1
        self._staged_chunks = self._staged_rows = 0
        return Prepared([portion])

    def commit(self, committables: Sequence[Committable]) -> None:
        for portion in sorted(committables, key=lambda one: (one["writer"], one["portion"])):
            self._session.run(partial(self._commit, portion=portion), "committing rows")
        # Once a writer has staged anything itself, all have committed what was prepared before them.
        if self._registered and self._retention_ms is not None:
            self._table.clean(self._context.job, self._context.uid, self._retention_ms)
            self._retention_ms = None

    def close(self) -> None:
        self._rows.clear()
        if self._staged_chunks:
            with contextlib.suppress(Exception):  # what stays is removed when it is old
                self._table.discard(self._id, self._number)
        self._session.close()

    def _stage(self, rows: list[tuple[Any, ...]]) -> None:
        payload = self._encoded(rows)
        if len(payload) > _CHUNK_BYTES and len(rows) > 1:
            half = len(rows) // 2
            self._stage(rows[:half])
            self._stage(rows[half:])
            return
        if not self._registered:
            context = self._context
            self._table.register(self._id, context.job, context.uid, context.subtask)
            self._registered = True
        self._table.stage(self._id, self._number, self._staged_chunks, payload)
        self._staged_chunks += 1
        self._staged_rows += len(rows)

    def _commit(self, connection: Any, portion: dict[str, Any]) -> None:
        writer, number = portion["writer"], portion["portion"]
        if not self._table.claim(connection, writer, number):
            return
        seen = 0
        for payload in self._table.chunks(connection, writer, number, portion["chunks"]):
            rows = self._decoded(payload)
            seen += len(rows)
            for start in range(0, len(rows), self._batch):
                self._session.write(connection, self._statement, rows[start : start + self._batch])
        if seen != portion["rows"]:
            raise RefusedForGoodError(
                f"{portion['rows']} rows were staged as portion {number} of writer {writer}, and {seen} are in "
                f"{self._table.name}_staged: they were removed, or were older than the retention time; nothing was "
                "written. Start from another checkpoint"
            )
        self._table.forget(connection, writer, number)

    def _check_transactions(self, connection: Any) -> None:
        dialect, statement = self._session.dialect, self._statement
        try:
            table = dialect.without_transactions(connection, statement.sql)
        except Exception as error:
            if dialect.may_pass(error):
                raise
            return  # the table is not there yet, or this user may not look
        if table:
            raise RefusedForGoodError(
                f"the table {table}, which has no transactions: after a failure rows of a commit would be in it twice. "
                f"Let it be InnoDB (ALTER TABLE ... ENGINE=InnoDB), or write by JdbcSink.sink. SQL: {statement.given}"
            )

    def _encoded(self, rows: list[tuple[Any, ...]]) -> bytes:
        texts, payloads = self._codec.encode_many(rows)
        texts = without_dictionary(texts)
        payloads = pa.nulls(len(texts), pa.binary()) if payloads is None else payloads
        batch = pa.record_batch([texts, payloads], names=["value", "payload"])
        statement = self._statement
        batch = batch.replace_schema_metadata(
            {_ROW_TYPE: statement.type.name, _COLUMNS: ", ".join(statement.columns)}
        )
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def _decoded(self, payload: bytes) -> list[tuple[Any, ...]]:
        batch = pa.ipc.open_stream(payload).read_all().combine_chunks()
        own, columns = self._statement.type.name, ", ".join(self._statement.columns)
        metadata = batch.schema.metadata or {}
        staged = metadata.get(_ROW_TYPE, own.encode()).decode()
        if staged != own:
            raise RefusedForGoodError(
                f"the run before staged rows as {staged}, which its checkpoint is to commit, and the sink writes {own} now: "
                "their values would go into other columns or types. Start the program as it was, which commits them when it "
                f"begins, stop it in good order (Ctrl-C), and change it then. SQL: {self._statement.given}"
            )
        staged = metadata.get(_COLUMNS, b"").decode()
        if staged and columns and staged != columns:
            raise RefusedForGoodError(
                f"the run before staged rows for columns {staged}, which its checkpoint is to commit, and the table was "
                f"changed: by their position they would go into {columns}. Name the columns in the SQL. "
                f"SQL: {self._statement.given}"
            )
        return self._codec.decode_many(batch["value"], batch["payload"])
