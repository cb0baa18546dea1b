"""The fold of log rows into live rows, in bulk: what a snapshot keeps of a log.

The rows that come out are puts, appends and timer registrations; filled into empty tables (``fold.fill_state``) they give
the same state as all the rows that went in. So live rows and later log rows can be folded again.

Invariants:
    * Rows go in in log order, all rows of a key together: a range of key groups is folded by itself.
    * What a key inserted first comes out first, as dicts and lists keep it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from changelog_engine.changelog.coded import Coded, coded, pair_codes
from changelog_engine.changelog.fold import group_by_state
from changelog_engine.changelog.oversized import ARRAY_BYTES, takeable, taken, text_bytes
from changelog_engine.codec.arrow_columns import of_type
from changelog_engine.errors import StateTooLargeError
from changelog_engine.graph.nodes import StateId
from changelog_engine.state import mutation_log

_LIST = frozenset({mutation_log.APPEND, mutation_log.REPLACE})
_TIMERS = frozenset({mutation_log.REGISTER_TIMER, mutation_log.DELETE_TIMER})
_TEXTS = ("key", "namespace", "map_key", "value", "payload")


def live_rows(tables: list[pa.Table]) -> dict[StateId, pa.Table]:
    """Fold log rows.

    Args:
        tables: rows of the changelog, in log order; string columns may be dictionaries.

    Returns:
        (operator, state) to its live rows, with the columns that went in; states without any are left out.
    """
    folded = {}
    for name, pieces in group_by_state(tables).items():
        live = fold_state(pieces)
        if live.num_rows:
            folded[name] = live
    return folded


def condensed(pieces: list[pa.Table]) -> pa.Table:
    """The rows of a piece of one state's log that matter to what follows.

    Cuts come first (the last clear of a key, the last removal of an entry), then the live rows. Folding the condensed
    pieces gives what folding the pieces gives, so a long log is folded piece by piece in bounded memory.

    Args:
        pieces: rows of one state, in log order.

    Raises:
        StateTooLargeError: as ``fold_state``.
    """
    return _fold(pa.concat_tables(pieces), cuts=True)


def fold_state(pieces: list[pa.Table]) -> pa.Table:
    """The live rows of one state.

    Args:
        pieces: its rows, in log order.

    Raises:
        StateTooLargeError: its keys have more text than Arrow's arrays hold; names the state.
    """
    return _fold(pa.concat_tables(pieces), cuts=False)


def _fold(table: pa.Table, cuts: bool) -> pa.Table:
    try:
        return _folded(table, cuts)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        texts = [name for name in _TEXTS if name in table.column_names]
        sizes = {name: text_bytes(table[name]) for name in texts}
        if max(sizes.values()) <= ARRAY_BYTES:
            raise  # it is something else: a fault of this engine's
        raise StateTooLargeError(_too_large(table, sizes, error)) from error


def _too_large(table: pa.Table, sizes: dict[str, int], error: Exception) -> str:
    names = [name for name in ("state", "operator") if name in table.column_names and table.num_rows]
    whose = " of ".join([f"{name} {table[name][0].as_py()!r}" for name in names]) or "a state"
    listed = ", ".join([f"{name} {size:,}" for name, size in sizes.items()])
    return (
        f"{table.num_rows:,} rows of {whose} could not be folded at once ({error}); bytes by column: {listed}. "
        "Arrow's arrays hold 2 GiB of text: have more subtasks keep the state, or keep it under shorter keys"
    )


def _folded(table: pa.Table, cuts: bool) -> pa.Table:
    operation = coded(table["operation"])
    texts = operation.values.to_pylist()  # some of them other states' only
    used = [0] if len(texts) == 1 else np.flatnonzero(np.bincount(operation.codes, minlength=len(texts)))
    code_of = {texts[code]: int(code) for code in used}
    rows_ = _Rows(table)
    keys, count = rows_.keys, rows_.key_count
    index = np.arange(table.num_rows, dtype=np.int32)
    if code_of.keys() <= {mutation_log.PUT} and table["map_key"].null_count == table.num_rows:
        return rows_.taken(_last_by_first(index, keys, count), mutation_log.PUT)
    operations = operation.codes
    reset = np.full(count, -1, np.int32)
    cut = _any(operations, code_of, (mutation_log.CLEAR, mutation_log.REPLACE))
    reset[keys[cut]] = index[cut]  # of several rows of a key the last one stays: rows are in order
    after_reset = index > reset[keys]
    cleared = reset[reset >= 0]
    if code_of.keys() & _LIST:
        replaced = _any(operations, code_of, (mutation_log.REPLACE,)) & (index == reset[keys])
        live = index[replaced | (after_reset & _any(operations, code_of, (mutation_log.APPEND,)))]
        return rows_.after_cuts([(cleared, mutation_log.CLEAR)] if cuts else [], live, mutation_log.APPEND)
    if code_of.keys() & _TIMERS:
        added, taken, kept = (
            mutation_log.REGISTER_TIMER,
            mutation_log.DELETE_TIMER,
            mutation_log.REGISTER_TIMER,
        )
        entries, entry_count = pair_codes(keys, coded(table["value"]))
    elif table["map_key"].null_count < table.num_rows:
        added, taken, kept = mutation_log.PUT, mutation_log.REMOVE, mutation_log.PUT
        entries, entry_count = pair_codes(keys, rows_.coded("map_key"))
    else:
        added, taken, kept = mutation_log.PUT, mutation_log.CLEAR, mutation_log.PUT
        entries, entry_count = keys, count
    puts = _any(operations, code_of, (added,)) & after_reset
    gone = np.full(entry_count, -1, np.int32)
    takes = _any(operations, code_of, (taken,))
    gone[entries[takes]] = index[takes]
    puts &= index > gone[entries]
    live = _last_by_first(index[puts], entries[puts], entry_count)
    removed = [] if taken == mutation_log.CLEAR else [(gone[gone >= 0], taken)]
    return rows_.after_cuts([(cleared, mutation_log.CLEAR), *removed] if cuts else [], live, kept)


def _last_by_first(index: Any, entries: Any, count: int) -> Any:
    """Of each entry its last row, in the order of the entries' first rows."""
    last = np.full(count, -1, np.int32)
    last[entries] = index
    first = np.full(count, -1, np.int32)
    first[entries[::-1]] = index[::-1]
    present = np.flatnonzero(last >= 0)
    return last[present][np.argsort(first[present], kind="stable")]


class _Rows:
    """Rows of one state, some of which are taken; repeated columns are numbered once."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._coded: dict[str, Coded] = {}
        keys = self.coded("key")
        self.keys, self.key_count = keys.codes, len(keys.values)
        if table["namespace"].null_count < table.num_rows:
            self.keys, self.key_count = pair_codes(self.keys, self.coded("namespace"))

    def coded(self, name: str) -> Coded:
        """A column as numbers."""
        found = self._coded.get(name)
        if found is None:
            found = self._coded[name] = coded(self._table[name])
        return found

    def taken(self, at: Any, operation: str) -> pa.Table:
        """The rows at these positions, with another operation."""
        indices = pa.array(at)
        columns = []
        for field, column in zip(self._table.schema, self._table.columns, strict=True):
            if field.name == "operation":
                constant = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(at), np.int32)), [operation])
                columns.append(of_type(constant, field.type))
            elif column.null_count == len(column):
                columns.append(pa.nulls(len(at), field.type))
            elif field.name == "key" or pa.types.is_dictionary(field.type):
                columns.append(self.coded(field.name).taken(at, field.type))
            else:
                columns.append(taken(takeable(column), indices, field.type))
        return pa.table(columns, schema=self._table.schema)

    def after_cuts(self, cuts: list[tuple[Any, str]], live: Any, kept: str) -> pa.Table:
        """Cuts, each by the positions of its rows and its operation, and the live rows."""
        return pa.concat_tables(
            [*(self.taken(at, operation) for at, operation in cuts if len(at)), self.taken(live, kept)]
        )


def _any(operations: Any, code_of: dict[str, int], wanted: tuple[str, ...]) -> Any:
    """Which rows have one of these operations."""
    mask = np.zeros(len(operations), bool)
    for name in wanted:
        if name in code_of:
            mask |= operations == code_of[name]
    return mask
