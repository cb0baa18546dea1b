"""Log rows back into state: the fold that restore runs, one state at a time.

Invariants:
    * Rows are applied in the order in which they were logged, so the tables come out as they were, order of insertion
      included.
    * Snapshot rows are put, append and register_timer rows: the same code reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.coded import coded
from changelog_engine.changelog.oversized import pieces
from changelog_engine.codec.arrow_columns import as_array, without_dictionary
from changelog_engine.codec.keys import KeyCodec, key_codec_for
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.codec.values import codec_for
from changelog_engine.graph.nodes import StateId, StateKind, StateSpec
from changelog_engine.state import mutation_log
from changelog_engine.state.backend import KeyIdentity, StateTable
from changelog_engine.types import TypeInformation

RowsByState = dict[StateId, list[pa.Table]]
_MOST_RUNS = 256


def group_by_state(tables: Iterable[pa.Table]) -> RowsByState:
    """Sort log rows by (operator, state), each in log order; a run of rows of one state is not copied."""
    found: RowsByState = {}
    for table in tables:
        for name, part in by_state(table):
            found.setdefault(name, []).append(part)
    return found


def by_state(table: pa.Table) -> Iterator[tuple[StateId, pa.Table]]:
    """The rows of a table for each (operator, state) that it has, in their order."""
    if not table.num_rows:
        return
    operators, states = coded(table["operator"]), coded(table["state"])
    if len(operators.values) == len(states.values) == 1:
        yield (operators.values[0].as_py(), states.values[0].as_py()), table
        return
    count = len(states.values)
    codes = operators.codes.astype(np.int64) * count + states.codes
    bounds = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    runs = bounds.size < _MOST_RUNS
    starts = np.concatenate(([0], bounds)) if runs else np.arange(0)
    lengths = np.diff(np.append(starts, len(codes)))
    for code in np.unique(codes[starts] if runs else codes).tolist():
        name = operators.values[code // count].as_py(), states.values[code % count].as_py()
        if runs:
            here = codes[starts] == code
            pieces = [
                table.slice(*run) for run in zip(starts[here].tolist(), lengths[here].tolist(), strict=True)
            ]
            yield name, pa.concat_tables(pieces)
        else:
            yield name, table.filter(pa.array(codes == code))


def fill_state(
    tables: list[pa.Table],
    spec: StateSpec,
    key_type: TypeInformation | None,
    state: StateTable,
    namespaces: NamespaceCodec | None = None,
) -> None:
    """Apply a state's rows to its table; with a codec of namespaces, that of namespaced state."""
    codec = codec_for(spec.value_type)
    for table in chain.from_iterable(map(pieces, tables)):  # drives our own code
        values = codec.decode_many(column_of(table, "value"), column_of(table, "payload"))
        fill_decoded(table, values, spec, key_type, state, namespaces)


def fill_decoded(
    table: pa.Table,
    values: list[Any],
    spec: StateSpec,
    key_type: TypeInformation | None,
    state: StateTable,
    namespaces: NamespaceCodec | None = None,
) -> None:
    """As fill_state, of rows whose values are there."""
    identities = identities_of(table, key_codec_for(key_type), namespaces)
    operations = table["operation"]
    if spec.kind is StateKind.LIST:
        _fill_lists(state, identities, values, operations.to_pylist())
    elif spec.kind is StateKind.MAP:
        _fill_maps(state, identities, map_identities_of(table, spec), values, operations.to_pylist())
    elif not pc.all(pc.equal(operations, mutation_log.PUT)).as_py():
        for identity, value, operation in zip(identities, values, operations.to_pylist(), strict=True):
            if operation == mutation_log.PUT:
                state[identity] = value
            else:
                state.pop(identity, None)
    elif type(state) is dict:
        state.update(zip(identities, values, strict=True))
    else:
        for identity, value in zip(identities, values, strict=True):
            state[identity] = value


def timers_of(
    tables: list[pa.Table], key_type: TypeInformation | None, namespaces: NamespaceCodec | None = None
) -> list[tuple[int, KeyIdentity]]:
    """The pending timers that a timer state's rows leave, in order of registration."""
    keys = key_codec_for(key_type)
    live: dict[tuple[int, KeyIdentity], None] = {}
    for table in tables:
        timestamps = column_of(table, "value").cast(pa.int64()).to_pylist()
        identities = identities_of(table, keys, namespaces)
        for timestamp, identity, operation in zip(
            timestamps, identities, table["operation"].to_pylist(), strict=True
        ):
            if operation == mutation_log.REGISTER_TIMER:
                live[timestamp, identity] = None
            else:
                live.pop((timestamp, identity), None)
    return list(live)


def identities_of(table: pa.Table, keys: KeyCodec, namespaces: NamespaceCodec | None) -> list[Any]:
    """The identities of the rows' keys; with a codec of namespaces, pairs of those and the namespaces'."""
    identities = keys.from_texts(column_of(table, "key"))
    if namespaces is None:
        return identities
    return list(zip(identities, namespaces.from_texts(column_of(table, "namespace")), strict=True))


def column_of(table: pa.Table, name: str) -> pa.Array:
    """A column as one array, without a dictionary."""
    return without_dictionary(as_array(table[name]))


def map_identities_of(table: pa.Table, spec: StateSpec) -> list[Any]:
    """The identities of the rows' map keys; None for rows without one."""
    codec, texts = key_codec_for(spec.map_key_type), column_of(table, "map_key")
    if not texts.null_count:
        return codec.from_texts(texts)
    present = iter(codec.from_texts(texts.drop_null()))
    return [next(present) if valid else None for valid in texts.is_valid().to_pylist()]


def _fill_lists(state: StateTable, identities: list[Any], values: list[Any], operations: list[str]) -> None:
    """Apply rows of lists; see fill_state."""
    for identity, value, operation in zip(identities, values, operations, strict=True):
        if operation == mutation_log.APPEND:
            entry = state.get(identity)
            if entry is None:
                state[identity] = [value]
            else:
                entry.append(value)
                state[identity] = entry
        elif operation == mutation_log.REPLACE:
            state[identity] = [value]
        else:
            state.pop(identity, None)


def _fill_maps(
    state: StateTable, identities: list[Any], map_keys: list[Any], values: list[Any], operations: list[str]
) -> None:
    """Apply rows of maps; see fill_state."""
    for identity, map_key, value, operation in zip(identities, map_keys, values, operations, strict=True):
        if operation == mutation_log.PUT:
            entry = state.get(identity)
            if entry is None:
                entry = {}
            entry[map_key] = value
            state[identity] = entry
        elif operation == mutation_log.REMOVE:
            entry = state.get(identity)
            if entry is not None:
                entry.pop(map_key, None)
                if entry:
                    state[identity] = entry
                else:
                    state.pop(identity, None)
        else:
            state.pop(identity, None)
