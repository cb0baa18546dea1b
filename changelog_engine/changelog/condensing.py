"""A long log as it is read, kept small: rows that newer ones replace are dropped on the way.

Invariant: memory is bounded by the live rows, the rows that cut others off, and one part, however long the log is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from changelog_engine.changelog.bulk_fold import condensed
from changelog_engine.changelog.fold import RowsByState, group_by_state
from changelog_engine.codec.arrow_columns import without_dictionary
from changelog_engine.graph.nodes import StateId

CONDENSE_ROWS = 1_000_000
# Columns that are condensed faster when they come as dictionaries.
DICTIONARIES = ("key", "namespace", "map_key")


class Condensing:
    """Rows of the log by state; they are condensed once they are many, and again once what was left has doubled.

    Args:
        at_once: condense each table as it comes, too.
    """

    def __init__(self, at_once: bool = False) -> None:
        self.rows = 0
        self._at_once = at_once
        self._waiting: RowsByState = {}
        self._condensed_rows: dict[StateId, int] = {}

    def add(self, table: pa.Table) -> None:
        """Take rows that come after those before."""
        self.rows += table.num_rows
        for name, pieces in group_by_state([table]).items():
            waiting = self._waiting.setdefault(name, [])
            waiting.extend([condensed(pieces)] if self._at_once else pieces)
            total = sum(piece.num_rows for piece in waiting)
            if total > max(CONDENSE_ROWS, 2 * self._condensed_rows.get(name, 0)):
                waiting[:] = [condensed(waiting)]
                self._condensed_rows[name] = waiting[0].num_rows

    def tables(self) -> RowsByState:
        """(operator, state) to the rows that are left, in log order."""
        return self._waiting


def without_passed(tables: Iterable[pa.Table], at_a_time: int | None = None) -> Iterator[pa.Table]:
    """Rows of the log for one who wants the state that they lead to.

    Args:
        tables: rows in log order, with ``DICTIONARIES`` as dictionaries.
        at_a_time: how many rows, and those of one table, are held at the most; None for all that matter.

    Yields:
        Rows that lead to the same, in log order for each state, with those columns as plain text.
    """
    log = Condensing()
    for table in tables:
        log.add(table)
        if at_a_time is not None and log.rows > at_a_time:
            for pieces in log.tables().values():
                yield _plain(condensed(pieces))
            log = Condensing()
    for pieces in log.tables().values():
        yield from (_plain(piece) for piece in pieces)


def _plain(table: pa.Table) -> pa.Table:
    """``DICTIONARIES`` as text. Other columns keep their dictionaries, which rows of snapshots have, too."""
    for name in DICTIONARIES:
        position = table.schema.get_field_index(name)
        table = table.set_column(position, name, without_dictionary(table.column(position)))
    return table
