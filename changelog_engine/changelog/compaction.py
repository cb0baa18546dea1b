"""The fold of log rows into live rows, in bulk: what a snapshot keeps of a log.

The rows that come out are puts, appends and timer registrations; filled into empty tables (``replay``) they give the same
state as all the rows that went in. So live rows and later log rows can be folded again.

Invariants:
    * Rows go in in log order, all rows of a key together: a range of key groups is folded by itself.
    * What a key inserted first comes out first, as dicts and lists keep it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog import rows
from changelog_engine.changelog.replay import group_by_state

_LIST = frozenset({rows.APPEND, rows.REPLACE})
_TIMERS = frozenset({rows.REGISTER_TIMER, rows.DELETE_TIMER})


def live_rows(tables: list[pa.Table]) -> dict[tuple[str, str], pa.Table]:
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


def condensed(table: pa.Table) -> pa.Table:
    """The rows of a piece of one state's log that matter to what follows.

    Cuts come first (the last clear of a key, the last removal of an entry), then the live rows. Folding the condensed
    pieces gives what folding the pieces gives, so a long log is folded piece by piece in bounded memory.

    Args:
        table: rows of one state, in log order.
    """
    return _fold(table, cuts=True)


def fold_state(pieces: list[pa.Table]) -> pa.Table:
    """The live rows of one state.

    Args:
        pieces: its rows, in log order.
    """
    return _fold(pa.concat_tables(pieces), cuts=False)


def _fold(table: pa.Table, cuts: bool) -> pa.Table:
    table = table.unify_dictionaries().combine_chunks()
    operation = _codes(table["operation"])
    operations = operation.indices.to_numpy(zero_copy_only=False)
    texts = operation.dictionary.to_pylist()  # some of them other states' only
    used = np.flatnonzero(np.bincount(operations, minlength=len(texts)))
    code_of = {texts[code]: int(code) for code in used}
    keys, count = _key_codes(table)
    index = np.arange(len(operations))
    if code_of.keys() <= {rows.PUT} and table["map_key"].null_count == table.num_rows:
        return table.take(pa.array(_last_by_first(index, keys, count)))
    reset = np.full(count, -1)
    cut = _any(operations, code_of, (rows.CLEAR, rows.REPLACE))
    reset[keys[cut]] = index[cut]  # of several rows of a key the last one stays: rows are in order
    after_reset = index > reset[keys]
    cleared = reset[reset >= 0]
    if code_of.keys() & _LIST:
        replaced = _any(operations, code_of, (rows.REPLACE,)) & (index == reset[keys])
        live = index[replaced | (after_reset & _any(operations, code_of, (rows.APPEND,)))]
        appended = _with_operation(table.take(pa.array(live)), rows.APPEND)
        return _after_cuts(table, [(cleared, rows.CLEAR)], appended) if cuts else appended
    if code_of.keys() & _TIMERS:
        added, taken, kept = rows.REGISTER_TIMER, rows.DELETE_TIMER, rows.REGISTER_TIMER
        entries, entry_count = _pair_codes(keys, table["value"])
    elif table["map_key"].null_count < table.num_rows:
        added, taken, kept = rows.PUT, rows.REMOVE, rows.PUT
        entries, entry_count = _pair_codes(keys, table["map_key"])
    else:
        added, taken, kept = rows.PUT, rows.CLEAR, rows.PUT
        entries, entry_count = keys, count
    puts = _any(operations, code_of, (added,)) & after_reset
    gone = np.full(entry_count, -1)
    takes = _any(operations, code_of, (taken,))
    gone[entries[takes]] = index[takes]
    puts &= index > gone[entries]
    live = _last_by_first(index[puts], entries[puts], entry_count)
    folded = _with_operation(table.take(pa.array(live)), kept)
    if not cuts:
        return folded
    removed = [] if taken == rows.CLEAR else [(gone[gone >= 0], taken)]
    return _after_cuts(table, [(cleared, rows.CLEAR), *removed], folded)


def _last_by_first(index: Any, entries: Any, count: int) -> Any:
    """Of each entry its last row, in the order of the entries' first rows."""
    last = np.full(count, -1)
    last[entries] = index
    first = np.full(count, -1)
    first[entries[::-1]] = index[::-1]
    present = np.flatnonzero(last >= 0)
    return last[present][np.argsort(first[present], kind="stable")]


def _after_cuts(table: pa.Table, cuts: list[tuple[Any, str]], live: pa.Table) -> pa.Table:
    """Cuts, each by the positions of its rows and its operation, and the live rows."""
    heads = [_with_operation(table.take(pa.array(at)), operation) for at, operation in cuts if len(at)]
    return pa.concat_tables([*heads, live]) if heads else live


def _key_codes(table: pa.Table) -> tuple[Any, int]:
    """A number for each (key, namespace), and how many there are."""
    keys = _codes(table["key"])
    codes = keys.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if table["namespace"].null_count == table.num_rows:
        return codes, len(keys.dictionary)
    return _pair_codes(codes, table["namespace"])


def _pair_codes(codes: Any, column: pa.ChunkedArray) -> tuple[Any, int]:
    """A number for each pair of a number and a text; null is a text of its own."""
    texts = _codes(column)
    second = texts.indices.fill_null(len(texts.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = _codes(pa.chunked_array([pa.array(codes * (len(texts.dictionary) + 1) + second)]))
    return pairs.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(pairs.dictionary)


def _codes(column: pa.ChunkedArray) -> pa.DictionaryArray:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)


def _any(operations: Any, code_of: dict[str, int], wanted: tuple[str, ...]) -> Any:
    """Which rows have one of these operations."""
    mask = np.zeros(len(operations), bool)
    for name in wanted:
        if name in code_of:
            mask |= operations == code_of[name]
    return mask


def _with_operation(table: pa.Table, operation: str) -> pa.Table:
    position = table.schema.get_field_index("operation")
    field = table.schema.field(position)
    column = pa.DictionaryArray.from_arrays(np.zeros(table.num_rows, np.int32), [operation])
    return table.set_column(position, field, column.cast(field.type))
