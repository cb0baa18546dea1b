"""Transactions on a connection that is made anew when it is lost.

Invariants:
    * A transaction succeeds as a whole, or an error is raised and it left nothing; it may have been tried more than once.
    * No message has the password.
    * A transaction of a process that was stopped is ended by the server (except by SQLite, which has none).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.jdbc import dialects
from changelog_engine.connectors.jdbc.dialects import Dialect, dialect_of
from changelog_engine.connectors.jdbc.options import ConnectionOptions
from changelog_engine.connectors.jdbc.replaced import Replaced
from changelog_engine.connectors.jdbc.rows import Statement
from changelog_engine.connectors.jdbc.urls import driver_arguments
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.errors import ChangelogEngineError, ConnectorError, RefusedForGoodError
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.types.typeinfo import shown

log = logging.getLogger("changelog_engine")

T = TypeVar("T")
_FIRST_WAIT_S = 1.0
_LEFT_OUT = "a trigger, a rule or a conflict clause of the table leaves rows out, or stores them elsewhere"
_ADVICE = (
    "Make the table and the rights of the user fit, change the SQL, or leave such rows out by a filter(); run again, the "
    "job goes on from its last checkpoint, and nothing is lost"
)
_FOUND_NONE = "the UPDATE's condition finds none for them, so that nothing is stored of these elements"


class Session:
    """A connection and its transactions.

    Args:
        max_retries: how often a transaction is tried again; waits grow by a second each time.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        max_retries: int,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = monotonic_s,
    ) -> None:
        self.dialect: Dialect = dialect_of(options)
        self._options = options
        self._max_retries = max_retries
        self._sleep = sleep
        self._clock = clock
        self._used_s = 0.0
        self._trouble = Trouble(f"the database at {options.shown_url}", clock)
        self._connection: Any = None
        self._said_left_out = False
        self._written: Statement | None = None  # whose types the database was not asked for
        self._asked: dict[str, tuple[float, Sequence[tuple[int, str]]]] = {}  # when, and what was found
        self._replaced: dict[str, tuple[float, Mapping[int, Replaced]]] = {}  # likewise
        self._said_replaced: set[tuple[str, int]] = set()

    def run(self, work: Callable[[Any], T], what: str, again: bool = True) -> T:
        """Run a transaction.

        Args:
            work: is given the connection; it may be called more than once.
            again: whether it is tried again.

        Raises:
            ConnectorError: it failed for good, or too often.
        """
        tries = 0
        while True:
            try:
                connection = self._connected()
                self.dialect.begin(connection)
                result = work(connection)
                connection.commit()
                self._used_s = self._clock()
                self._trouble.over()
                self._say_rounded(connection)
                return result
            except ChangelogEngineError:
                self._roll_back()
                raise
            except Exception as error:
                passing = self.dialect.may_pass(error)
                if passing:
                    self.close()  # a server that does not answer would not answer ROLLBACK either
                else:
                    self._roll_back()
                if not passing:
                    raise RefusedForGoodError(self._message(what, error, tries), _reason(error)) from None
                if not again or tries >= self._max_retries:
                    raise ConnectorError(self._message(what, error, tries)) from None
                tries += 1
                self._trouble.again(self._message(what, error, 0))
                self._sleep(_FIRST_WAIT_S * tries)

    def write(self, connection: Any, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for fitted rows, as part of a transaction.

        Raises:
            RefusedForGoodError: the database refuses a row; the message names it. The transaction is rolled back.
        """
        parameters = statement.parameters(rows)
        self._look_at_replaced(connection, statement)
        try:
            stored = self.dialect.write(connection, statement.sql, parameters)
        except Exception as error:
            if self.dialect.may_pass(error):
                raise
            connection.rollback()
            self._name_the_row(connection, statement, rows, parameters)
            raise self._refused(f"{len(rows)} rows", error, f"SQL: {statement.given}") from None
        if (
            not self._said_left_out
            and 0 <= stored < len(rows)
            and (statement.inserts_each or statement.updates)
        ):
            self._said_left_out = True
            warn(
                f"left out by {statement.given}",
                f"the database at %s {'found' if statement.updates else 'stored'} %d of %d rows, and says nothing of the "
                f"others: {_FOUND_NONE if statement.updates else _LEFT_OUT}. SQL: %s",
                self._options.shown_url,
                stored,
                len(rows),
                statement.given,
            )
        self._written = statement
        self._say_replaced(statement, rows)

    def _look_at_replaced(self, connection: Any, statement: Statement) -> None:
        now_s = self._clock()
        asked_s, _ = self._replaced.get(statement.sql, (float("-inf"), {}))
        if now_s - asked_s < dialects.LOOK_AGAIN_S:
            return
        try:
            found = self.dialect.replaced(connection, statement.sql, statement.kinds)
        except Exception as error:
            if self.dialect.may_pass(error):
                raise
            found = {}  # the statement itself will say why
        self._replaced[statement.sql] = now_s, found

    def _say_replaced(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """Say once of a field that the server makes another value of one that it took."""
        _, replaced = self._replaced[statement.sql]
        for position, column in replaced.items():
            which = statement.sql, position
            if which in self._said_replaced:
                continue
            values = [row[position] for row in rows if column.of(row[position])]
            if values:
                self._said_replaced.add(which)
                warn(
                    f"values of field {position} of {statement.given}",
                    "the database at %s makes another value of %s in field %r without a word: %s. SQL: %s",
                    self._options.shown_url,
                    shown(values[0]),
                    statement.names[position],
                    column.becomes,
                    statement.given,
                )

    def _say_rounded(self, connection: Any) -> None:
        """Say what the server does to a statement's values without a word: once, and again where columns were changed."""
        statement, self._written = self._written, None
        if statement is None:
            return
        now_s = self._clock()
        asked_s, said = self._asked.get(statement.sql, (None, ()))
        if asked_s is not None and now_s - asked_s < dialects.LOOK_AGAIN_S:
            return
        self._asked[statement.sql] = now_s, said
        try:
            found = self.dialect.rounded(connection, statement.sql, statement.kinds)
        except Exception as error:
            log.debug("%s", self._message("looking at a statement's types", error, 0))
            self.close()
            return
        self._asked[statement.sql] = now_s, found
        if found and found != said:
            fields = ", ".join(
                f"field {statement.names[at]!r} is {statement.fields[at].name}, and becomes {type_}"
                for at, type_ in found
            )
            warn(
                f"{fields} of {statement.given}",
                "the database at %s may round or cut values without a word: %s. SQL: %s",
                self._options.shown_url,
                fields,
                statement.given,
            )

    def _name_the_row(
        self,
        connection: Any,
        statement: Statement,
        rows: Sequence[Sequence[Any]],
        parameters: Sequence[Sequence[Any]],
    ) -> None:
        """Write row by row, to find the one that is refused, and take all back."""
        for row, values in zip(rows, parameters, strict=True):
            try:
                self.dialect.write(connection, statement.sql, [values])
            except Exception as error:
                if self.dialect.may_pass(error):
                    raise
                connection.rollback()
                raise self._refused("a row", error, statement.shown(row)) from None
        connection.rollback()

    def _refused(self, what: str, error: Exception, which: str) -> RefusedForGoodError:
        text = f"{type(error).__name__}: {error}. {which}. {_ADVICE}"
        where = f"the database at {self._options.shown_url}"
        return RefusedForGoodError(self.without_secrets(f"{where} refused {what}: {text}"), _reason(error))

    def close(self) -> None:
        """Let go of the connection; what was not committed is lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def without_secrets(self, text: str) -> str:
        """A text without the password."""
        secret = driver_arguments(self._options).get("password")
        return text.replace(secret, "***") if secret else text

    def _connected(self) -> Any:
        if self.dialect.closes_idle and self._clock() - self._used_s > dialects.ABANDONED_S / 2:
            self.close()
        if self._connection is None:
            self._connection = self.dialect.connect(self._options)
            self._used_s = self._clock()
        return self._connection

    def _roll_back(self) -> None:
        if self._connection is not None:
            try:
                self._connection.rollback()
            except Exception:  # it is lost
                self.close()

    def _message(self, what: str, error: Exception, tries: int) -> str:
        often = f" ({tries + 1} times)" if tries else ""
        bound = self.dialect.bound_of(error)
        longer = f". Where the server takes longer to answer, give the URL a longer {bound}" if bound else ""
        return self.without_secrets(
            f"{what} failed{often} at {self._options.shown_url}: {type(error).__name__}: {str(error).strip()}{longer}"
        )


def _reason(error: Exception) -> str:
    """What a database says of any row: PostgreSQL tells of the row in the lines behind."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
