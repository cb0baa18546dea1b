"""Encoded rows of one state as parts of a savepoint, in this process or in tasks of Spark.

Invariant: each key group of a state is in one part, and the part's subtask is its first key group, so no two parts have one
name, whoever writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.model import Part
from changelog_engine.errors import (
    ChangelogEngineError,
    ConfigurationError,
    NotSerializableError,
    TypeMismatchError,
)
from changelog_engine.graph.nodes import StateKind
from changelog_engine.savepoints.given_tables import Batch, check_columns
from changelog_engine.savepoints.state_rows import (
    POSITION,
    SCHEMA_OF_ROWS,
    StateShape,
    encoded_rows,
    in_order,
    refuse_repeated,
)
from changelog_engine.savepoints.writer import SnapshotWriter
from changelog_engine.state import mutation_log
from changelog_engine.storage.delta_names import SNAPSHOTS
from changelog_engine.storage.opening import open_storage

PART_ROWS = 1_000_000  # rows of a state in one part, about
_THREADS = 2
_MOST_CUTS = 32  # tasks that write a state
_CUT, _FAULT, _FAULT_KIND = "cut", "fault", "fault_kind"
_FAULTS = {kind.__name__: kind for kind in (TypeMismatchError, NotSerializableError)}
_ENCODED = (
    "cut int, key_group int, key string, map_key string, value string, payload binary, position bigint, fault string, "
    "fault_kind string"
)
_TEXTS = ("path", _FAULT, _FAULT_KIND)
_SMALL = ("attempt", "stage", "subtask", "first_key_group", "last_key_group")
_WRITTEN = {  # the columns of what tasks tell of parts, by Spark's types
    name: "string" if name in _TEXTS else "int" if name in _SMALL else "bigint"
    for name in (*Part._fields, _FAULT, _FAULT_KIND)
}
_ARROW = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}


class Place(NamedTuple):
    """Where the rows of a state go."""

    root: str
    checkpoint: int
    attempt: int
    stage: int  # goes into the names of parts; of this state alone
    operator: str
    state: str


def write_rows(place: Place, shape: StateShape, rows: pa.Table, numbered: bool) -> list[Part]:
    """Rows of one state as parts of about PART_ROWS rows, each of a range of key groups; timers in one.

    Args:
        rows: all of the state that have these key groups.
        numbered: their places are their numbers in the user's table.

    Raises:
        TypeMismatchError: two rows are for the same entry.
    """
    operation = {None: mutation_log.REGISTER_TIMER, StateKind.LIST: mutation_log.APPEND}.get(
        shape.kind, mutation_log.PUT
    )
    storage = open_storage(place.root).child(SNAPSHOTS)
    rows = rows.combine_chunks()
    order = in_order(shape, rows)
    columns = [name for name in rows.column_names if name != POSITION]

    def write(cut: tuple[int, int]) -> list[Part]:
        places = order[slice(*cut)]
        some = rows.take(pa.array(places)).combine_chunks()
        refuse_repeated(shape, some, places if numbered else None)
        same = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), some.num_rows), [operation])
        bounds = pc.min_max(some["key_group"]).as_py()
        groups = range(bounds["min"], bounds["max"] + 1)
        writer = SnapshotWriter(storage, place.checkpoint, place.attempt, place.stage, groups.start, groups)
        writer.write(some.select(columns).append_column("operation", same), place.operator, place.state)
        return writer.finish()

    with ThreadPoolExecutor(_THREADS) as pool:  # Arrow does the work, without holding the interpreter
        written = list(pool.map(write, _cuts(shape, rows["key_group"].to_numpy()[order])))
    return [part for parts in written for part in parts]


def _cuts(shape: StateShape, groups: npt.NDArray[np.int32]) -> list[tuple[int, int]]:
    """Where parts begin and end, by the rows' groups, sorted: no key group is in two."""
    if not len(groups):
        return []
    if shape.kind is None:
        return [(0, len(groups))]
    starts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
    cuts, begin = [], 0
    for start, end in zip(starts, [*starts[1:], len(groups)], strict=True):
        if end - begin > PART_ROWS and start > begin:
            cuts.append((begin, start))
            begin = start
    return [*cuts, (begin, len(groups))]


def write_in_tasks(place: Place, shape: StateShape, frame: Any) -> list[Part]:
    """The rows of a DataFrame of Spark as parts that its tasks write.

    Tasks must find the savepoint's folder under the same path, and the engine.

    Args:
        frame: the DataFrame; the order of its rows means nothing.

    Raises:
        TypeMismatchError: a value does not fit, or two rows are for the same entry; names the key.
        ConfigurationError: columns are missing or unknown, or the elements of lists have no position.
    """
    needs = (*shape.wanted, POSITION) if shape.kind is StateKind.LIST else shape.wanted
    if shape.kind is StateKind.LIST and POSITION not in frame.columns:
        raise ConfigurationError(
            f"{shape.where} is a DataFrame of Spark, whose rows have no order: give it a column {POSITION!r} with "
            "whole numbers that say the order of each key's elements"
        )
    check_columns(frame.columns, shape.where, needs, ())
    cuts = min(shape.max_parallelism, _MOST_CUTS)
    encoded = frame.mapInArrow(partial(_encode_in_task, shape, cuts), _ENCODED)
    if shape.kind is None:  # in one part, since their order is that of registration: by time, then key
        rows = encoded.toArrow()
        _raise_fault(rows.filter(pc.is_valid(rows[_FAULT])).to_pylist())
        timers = _plain(rows).sort_by([("key", "ascending")])
        order = np.argsort(timers["value"].cast(pa.int64()).to_numpy(), kind="stable")
        return write_rows(place, shape, timers.take(pa.array(order)), numbered=False)
    columns = ", ".join(f"{name} {type_name}" for name, type_name in _WRITTEN.items())
    written = encoded.repartition(_CUT).mapInArrow(partial(_write_in_task, place, shape), columns)
    found = [row.asDict() for row in written.collect()]
    _raise_fault([row for row in found if row[_FAULT] is not None])
    return [Part(**{name: row[name] for name in Part._fields}) for row in found]


def _raise_fault(faults: list[dict[str, Any]]) -> None:
    if faults:
        raise _FAULTS.get(faults[0][_FAULT_KIND], ChangelogEngineError)(faults[0][_FAULT])


def _encode_in_task(
    shape: StateShape, cuts: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What does not fit is told in a row: a task that raised would be tried again."""
    names = [*(field.name for field in SCHEMA_OF_ROWS), _FAULT, _FAULT_KIND]
    types = [pa.int32(), *[pa.string()] * 3, pa.binary(), pa.int64(), *[pa.string()] * 2]
    for batch in batches:
        given = dict(zip(batch.schema.names, batch.columns, strict=True))
        try:
            rows = encoded_rows(shape, Batch(None, batch.num_rows, given))
        except ChangelogEngineError as error:
            rows = pa.table({_FAULT: [str(error)], _FAULT_KIND: [type(error).__name__]})
        cut = pa.array([0] * rows.num_rows, pa.int32())
        if "key_group" in rows.column_names:
            groups = rows["key_group"].to_numpy().astype(np.int64)
            cut = pa.array((groups * cuts // shape.max_parallelism).astype(np.int32))
        arrays = [
            rows[name].combine_chunks().cast(wanted)
            if name in rows.column_names
            else pa.nulls(rows.num_rows, wanted)
            for name, wanted in zip(names, types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays([cut, *arrays], [_CUT, *names])


def _write_in_task(
    place: Place, shape: StateShape, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One task has whole cuts, and so all rows of its key groups."""
    got = list(batches)
    if not got:
        return
    rows = pa.Table.from_batches(got)
    written: list[dict[str, Any]] = (
        rows.filter(pc.is_valid(rows[_FAULT])).select([_FAULT, _FAULT_KIND]).to_pylist()
    )
    if not written:
        try:
            for cut in pc.unique(rows[_CUT]).to_pylist():
                some = _plain(rows.filter(pc.equal(rows[_CUT], cut)))
                written += [part._asdict() for part in write_rows(place, shape, some, numbered=False)]
        except ChangelogEngineError as error:
            written = [{_FAULT: str(error), _FAULT_KIND: type(error).__name__}]
    arrays = [
        pa.array([row.get(name) for row in written], _ARROW[type_name])
        for name, type_name in _WRITTEN.items()
    ]
    yield pa.RecordBatch.from_arrays(arrays, list(_WRITTEN))


def _plain(rows: pa.Table) -> pa.Table:
    """The columns of encoded rows that have something."""
    fields = [
        field
        for field in SCHEMA_OF_ROWS
        if field.name in ("key_group", "key", "value") or rows[field.name].null_count < rows.num_rows
    ]
    return rows.select([field.name for field in fields]).cast(pa.schema(fields))
