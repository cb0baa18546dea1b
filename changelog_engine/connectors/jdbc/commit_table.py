"""The tables behind exactly-once: what writers staged, and how far it was committed.

``<name>``: a row for each writer that ever staged anything: ``committed`` is the number of its newest committed portion.
``<name>_staged``: the rows of portions that were staged and not yet committed, in chunks.

Invariants:
    * A portion's rows reach the user's table in the transaction that raises ``committed`` to the portion's number, or not
      at all: of any number of commits of one portion one does something.
    * A writer's portions are committed in the order of their numbers, none left out: a number that is older than the one
      before is a database that lost what it had acknowledged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from changelog_engine.clock import wall_ms
from changelog_engine.connectors.jdbc.dialects import Dialect
from changelog_engine.connectors.jdbc.session import Session
from changelog_engine.errors import RefusedForGoodError

_NAME_CHARS = 200


class CommitTable:
    """Both tables, by the name of the first, with or without a schema."""

    def __init__(self, name: str, session: Session) -> None:
        self.name = name
        self._staged = f"{name}_staged"
        self._session = session
        self._mark = session.dialect.grammar.placeholder

    def create(self) -> None:
        """Make the tables unless they are there."""
        for table, ddl in ddl_of(self.name, self._session.dialect).items():
            if self._exists(table):
                continue
            try:
                self._session.run(partial(self._execute, sql=ddl), "making a table")
            except Exception:
                if not self._exists(table):  # somebody else was faster
                    raise

    def _exists(self, table: str) -> bool:
        def look(connection: Any) -> bool:
            try:
                self._execute(connection, f"SELECT 1 FROM {table} WHERE 1 = 0")
            except Exception as error:
                if self._session.dialect.may_pass(error):
                    raise
                connection.rollback()
                return False
            return True

        return self._session.run(look, "looking for a table")

    def register(self, writer: str, job: str, sink: str, subtask: int) -> None:
        """Note a writer before it stages anything."""
        self._session.run(
            lambda connection: self._register(connection, writer, job, sink, subtask), "registering a writer"
        )

    def _register(self, connection: Any, writer: str, job: str, sink: str, subtask: int) -> None:
        self._execute(connection, f"DELETE FROM {self.name} WHERE writer = ?", writer)  # of a try before
        self._execute(
            connection,
            f"INSERT INTO {self.name} (writer, job, sink, subtask, committed, changed_ms) VALUES (?, ?, ?, ?, 0, ?)",
            writer,
            job[:_NAME_CHARS],
            sink[:_NAME_CHARS],
            subtask,
            wall_ms(),
        )

    def stage(self, writer: str, number: int, chunk: int, payload: bytes) -> None:
        """Make a chunk of a portion durable."""

        def work(connection: Any) -> None:
            place = (writer, number, chunk)
            where = "writer = ? AND portion_number = ? AND chunk = ?"
            self._execute(connection, f"DELETE FROM {self._staged} WHERE {where}", *place)  # of a try before
            self._execute(
                connection,
                f"INSERT INTO {self._staged} (writer, portion_number, chunk, staged_ms, payload) VALUES (?, ?, ?, ?, ?)",
                *place,
                wall_ms(),
                payload,
            )

        self._session.run(work, "staging rows")

    def claim(self, connection: Any, writer: str, number: int) -> bool | None:
        """Within a transaction: become the one that commits a portion.

        Returns:
            True when it is this transaction's to commit, False when it is committed.

        Raises:
            RefusedForGoodError: the writer is not known, or a portion before this one is not committed.
        """
        changed = self._execute(
            connection,
            f"UPDATE {self.name} SET committed = ?, changed_ms = ? WHERE writer = ? AND committed = ?",
            number,
            wall_ms(),
            writer,
            number - 1,
        )
        if changed:
            return True
        found = self._row(connection, f"SELECT committed FROM {self.name} WHERE writer = ?", writer)
        if found is None:
            raise RefusedForGoodError(
                f"the commit table {self.name} does not know the writer {writer} of the checkpoint that the job "
                "goes on from: it was emptied, or is another database's; bring it back, or give the sink another uid(), "
                "to go on without those rows"
            )
        if found[0] < number - 1:
            raise RefusedForGoodError(
                f"the database has lost rows that it had acknowledged: the commit table {self.name} has portion {found[0]} "
                f"of writer {writer} as its newest, and portion {number - 1} was committed. It was put back from a backup, "
                "or a replica took over that was behind. Nothing was written; restore a checkpoint from before the loss"
            )
        return False

    def chunks(self, connection: Any, writer: str, number: int, count: int) -> Iterable[bytes]:
        """Within a transaction: the chunks of a portion, in order; those that are missing are left out."""
        where = "writer = ? AND portion_number = ? AND chunk = ?"
        for chunk in range(count):
            query = f"SELECT payload FROM {self._staged} WHERE {where}"
            found = self._row(connection, query, writer, number, chunk)
            if found is not None:
                yield bytes(found[0])

    def forget(self, connection: Any, writer: str, number: int) -> None:
        """Within a transaction: a portion's chunks are no longer needed."""
        self._execute(
            connection, f"DELETE FROM {self._staged} WHERE writer = ? AND portion_number = ?", writer, number
        )

    def discard(self, writer: str, number: int) -> None:
        """Take back what was staged for a portion that nothing refers to; tried once, as a restart waits for it."""
        self._session.run(
            lambda connection: self.forget(connection, writer, number), "taking back rows", again=False
        )

    def clean(self, job: str, sink: str, older_than_ms: int) -> None:
        """Remove what dead writers of a sink staged so long ago that no checkpoint to restore needs it."""
        self._session.run(
            lambda connection: self._execute(
                connection,
                f"DELETE FROM {self._staged} WHERE staged_ms < ? AND writer IN "
                f"(SELECT writer FROM {self.name} WHERE job = ? AND sink = ?)",
                wall_ms() - older_than_ms,
                job[:_NAME_CHARS],
                sink[:_NAME_CHARS],
            ),
            "removing rows that were staged long ago",
        )

    def _execute(self, connection: Any, sql: str, *parameters: Any) -> int:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(sql.replace("?", self._mark), parameters)
            return int(cursor.rowcount)

    def _row(self, connection: Any, sql: str, *parameters: Any) -> Any:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(sql.replace("?", self._mark), parameters)
            return cursor.fetchone()


def ddl_of(name: str, dialect: Dialect) -> dict[str, str]:
    """Table to the statement that makes it."""
    engine = " ENGINE=InnoDB" if dialect.name == "mysql" else ""
    return {
        name: f"CREATE TABLE {name} (writer VARCHAR(32) NOT NULL PRIMARY KEY, job VARCHAR({_NAME_CHARS}) NOT NULL, "
        f"sink VARCHAR({_NAME_CHARS}) NOT NULL, subtask INTEGER NOT NULL, committed BIGINT NOT NULL, "
        f"changed_ms BIGINT NOT NULL){engine}",
        f"{name}_staged": f"CREATE TABLE {name}_staged (writer VARCHAR(32) NOT NULL, portion_number BIGINT NOT NULL, "
        f"chunk INTEGER NOT NULL, staged_ms BIGINT NOT NULL, payload {dialect.binary} NOT NULL, "
        f"PRIMARY KEY (writer, portion_number, chunk)){engine}",
    }
