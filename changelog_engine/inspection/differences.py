"""What two points of a job, of its branches or of two jobs do not share.

Entries are compared as the log's texts, in arrays; only those that differ and are shown become values. Of two points of one
job only the key groups that changed since their common checkpoint are read. As in the Spark views, the time of the last
access is not a difference, and entries whose time to live had ended are not there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog import segments
from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.coded import coded
from changelog_engine.changelog.fold import RowsByState, group_by_state
from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.changelog.segments import last_of
from changelog_engine.codec.arrow_columns import without_dictionary
from changelog_engine.config.numbers import whole_number
from changelog_engine.display import Displayed, Document, Grid, Literal
from changelog_engine.errors import NotLoggedError, RestoreError
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    key_type_of,
    keyed_operators,
    map_key_type_of,
    states_of,
)
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.graph.nodes import StateId
from changelog_engine.history.pickles import untimed
from changelog_engine.inspection.live import accessed_since
from changelog_engine.inspection.points import Point, open_ledger, open_other, other_of
from changelog_engine.inspection.states import key_name
from changelog_engine.inspection.values import EntryName, Withheld, below_keys, keys_of, value_cell, values_of
from changelog_engine.ledger.points import At
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.reading import read_parts, read_suffix
from changelog_engine.nearest import named
from changelog_engine.state.backend import TIMER_STATES
from changelog_engine.state.ttl import user_type
from changelog_engine.types import type_from_spec
from changelog_engine.types.typeinfo import declared_name

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_COLUMNS = ["key_group", "key", "namespace", "map_key", "operation", "value", "payload"]
_TIMER = "timer"

_READ = ["operator", "state", *_COLUMNS]

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EntryDifference(EntryName):
    """One entry that differs; timers have the state ``(event time timers)`` or ``(processing time timers)``.

    Args:
        before, after: typed; None for nothing. Of a list the whole list, of a timer its time in epoch milliseconds.
    """

    change: str
    before: Any
    after: Any


@dataclass(frozen=True)
class StateDifference:
    """How a state differs between two points.

    Args:
        operator, state, kind: which; ``timer`` of timers.
        added, removed, changed: how many entries; of a map state entries of its maps.
        uncompared: why it was not compared; None where it was.
    """

    operator: str
    state: str
    kind: str
    added: int = 0
    removed: int = 0
    changed: int = 0
    entries: tuple[EntryDifference, ...] = ()
    uncompared: str | None = None


@dataclass(frozen=True, repr=False)
class Differences(Displayed):
    """What two points do not share.

    Args:
        common: the newest checkpoint that is on both lineages; None for none, and for two jobs.
        states: of all states that are in either, those that don't differ included; timers where there are some.
    """

    before: Checkpoint
    after: Checkpoint
    common: int | None
    states: tuple[StateDifference, ...]

    def grids(self) -> list[Grid]:
        """A row for each entry that is given; a row for each state."""
        entries = [entry for each in self.states for entry in each.entries]
        below, belows = below_keys(entries)
        columns = ("change", "operator", "state", "key", *below, "before", "after")
        rows = []
        for entry, cells in zip(entries, belows, strict=True):
            values = [value_cell(entry.kind, each) for each in (entry.before, entry.after)]
            rows.append((entry.change, entry.operator, entry.state, Literal(entry.key), *cells, *values))
        counts = [
            (each.added, each.removed, each.changed, each.operator, each.state, each.kind)
            for each in self.states
        ]
        total = sum(each.added + each.removed + each.changed for each in self.states)
        counted = ("added", "removed", "changed", "operator", "state", "kind")
        return [Grid(columns, rows, total), Grid(counted, counts, right=3)]

    def refused(self) -> list[str]:
        """What to say of states that were not compared."""
        return [
            f"{each.state!r} of {each.operator!r} was not compared: {each.uncompared}"
            for each in self.states
            if each.uncompared is not None
        ]

    def display(self) -> Document:
        facts = ["nothing differs"] if self.equal else self.refused()
        if self.common is not None and self.common not in (self.before.id, self.after.id):
            facts.append(f"they are on two branches, which part at checkpoint {self.common}")
        title = f"checkpoint {self.before.id} and checkpoint {self.after.id}"
        return Document(title, facts, self.grids())

    @property
    def equal(self) -> bool:
        """Whether everything was compared and nothing differs."""
        return not any(each.added or each.removed or each.changed or each.uncompared for each in self.states)


def _other_jobs(given: Mapping[str, Any]) -> list[str]:
    """The paths of other jobs that are compared."""
    found = [other_of(given["path"], given[name])[0] for name in ("before", "after")]
    return [other for other in found if other is not None]


@functools.partial(read_again, others=_other_jobs)
def differences(
    path: str,
    before: At,
    after: At,
    *,
    operator: str | None = None,
    state: str | None = None,
    limit: int = 20,
    allow_pickle: bool = False,
) -> Differences:
    """Compare the states at two points.

    Args:
        before: the one point, see ``ledger.points``; also ``OTHER@POINT`` of another job.
        operator: only of the one with this uid.
        state: only the one of this name.
        limit: the most entries that are given of each state.
        allow_pickle: load pickled values, which runs what is in them. They are compared byte by byte without.

    Raises:
        RestoreError: there is no such checkpoint, operator or state; the error suggests the closest match.
        CorruptChangelogError: a file is missing or damaged.
        ConfigurationError: ``limit`` is below 0.
    """
    whole_number(limit, "limit", 0)
    known = open_ledger(path)
    first, second = (open_other(path, text, known) for text in (before, after))
    same_job = first.ledger.storage.root == second.ledger.storage.root
    lines = first.checkpoint.lineage, second.checkpoint.lineage
    common = (last_of(segments.common(*lines)) or None) if same_job else None
    shapes = [_described(point.checkpoint) for point in (first, second)]
    wanted = [name for name in dict.fromkeys([*shapes[0], *shapes[1]]) if operator in (None, name[0])]
    if operator is not None and not wanted:
        raise RestoreError(
            named("operator with state", operator, [uid for shape in shapes for uid, _ in shape])
        )
    if state is not None and state not in {name for _, name in wanted}:
        raise RestoreError(named("state", state, [name for _, name in wanted]))
    wanted = [name for name in wanted if state in (None, name[1])]
    operators = frozenset(uid for uid, _ in wanted)
    live = _live((first, second), shapes, operators, _parted(first, second, common, operators))
    found = []
    for name in wanted:
        descriptions = [shape.get(name) for shape in shapes]
        sides = [tables.get(name) for tables in live]
        if name[1] in TIMER_STATES.values() and not any(side is not None and side.num_rows for side in sides):
            continue
        found.append(_state(name, descriptions, sides, limit, allow_pickle))
    return Differences(first.checkpoint, second.checkpoint, common, tuple(found))


class _Described(NamedTuple):
    """What a checkpoint says of a state."""

    operator: DescribedOperator
    state: DescribedState | None  # None: timers

    @property
    def kind(self) -> str:
        return _TIMER if self.state is None else self.state.kind

    @property
    def ttl_ms(self) -> int | None:
        return None if self.state is None else self.state.ttl_ms

    @property
    def declared(self) -> tuple[Any, ...]:
        """What must be the same for texts to be comparable."""
        key_type, of = self.operator.key_type, self.state
        if of is None:
            return _TIMER, key_type
        types = [key_type, of.value_type, of.map_key_type, of.namespace]
        return of.kind, *types, self.ttl_ms is not None


class _Entries(NamedTuple):
    """Two lists of rows as numbers: rows of the same entry have the same number."""

    codes: Numbers
    distinct: int


_Shape = dict[StateId, _Described]


def _described(checkpoint: Checkpoint) -> dict[StateId, _Described]:
    found = {name: _Described(*described) for name, described in states_of(checkpoint.operators).items()}
    for operator in keyed_operators(checkpoint.operators):
        found |= {(operator.uid, name): _Described(operator, None) for name in TIMER_STATES.values()}
    return found


class _Common(NamedTuple):
    """What two points of one job have in common, and the mutations of each after it."""

    point: Point
    after: tuple[list[pa.Table], list[pa.Table]]

    @property
    def touched(self) -> Mask:
        """Which key groups have mutations after it."""
        mask = np.zeros(len(ALL_KEY_GROUPS), bool)
        for tables in self.after:
            for table in tables:
                mask[pc.unique(table["key_group"]).to_numpy()] = True
        return mask


def _parted(first: Point, second: Point, common: int | None, operators: frozenset[str]) -> _Common | None:
    """Where two points parted; None when both have to be read whole."""
    if common is None or common not in first.ledger.lineage.checkpoints:
        return None
    try:
        after = [
            []
            if point.checkpoint.id == common
            else list(read_suffix(_restore(point), common, ALL_KEY_GROUPS, operators, columns=_READ))
            for point in (first, second)
        ]
    except NotLoggedError:
        return None  # truncated, or made without the changelog: the snapshots are compared
    return _Common(Point(first.ledger, first.ledger.lineage.checkpoint(common)), (after[0], after[1]))


def _restore(point: Point) -> RestorePoint:
    return RestorePoint(
        point.ledger.storage.root, point.checkpoint.id, point.checkpoint.lineage, point.checkpoint.snapshot
    )


def _live(
    points: tuple[Point, Point], shapes: Sequence[_Shape], operators: frozenset[str], parted: _Common | None
) -> list[dict[StateId, pa.Table]]:
    """The live rows of each state at both points; of the key groups that may differ."""
    if parted is None:
        tables = [_folded(_restored(point, ALL_KEY_GROUPS, operators)) for point in points]
    else:
        expires = any(each.ttl_ms is not None for shape in shapes for each in shape.values())
        touched = None if expires else parted.touched  # what expires does so without a mutation
        groups = ALL_KEY_GROUPS if touched is None else _hull(touched)
        base = {} if not len(groups) else _folded(_restored(parted.point, groups, operators), touched)
        tables = [_folded(_by_state(after), base=base) if after else base for after in parted.after]
    return [
        {name: _shown(live, shape[name], point) for name, live in found.items() if name in shape}
        for found, shape, point in zip(tables, shapes, points, strict=True)
    ]


def _restored(point: Point, groups: range, operators: frozenset[str]) -> RowsByState:
    point.ledger.restore_point(point.checkpoint)  # says it where what is missing was let go on purpose
    return _by_state(read_parts(_restore(point), groups, operators, point.ledger))


def _by_state(tables: Iterable[pa.Table]) -> RowsByState:
    return {
        (uid, TIMER_STATES.get(name, name)): [_comparable(each) for each in pieces]
        for (uid, name), pieces in group_by_state(tables).items()
    }


def _comparable(piece: pa.Table) -> pa.Table:
    """The columns that count, of the same types whether they come from the log or a snapshot."""
    columns = [piece[name] if name == "operation" else without_dictionary(piece[name]) for name in _COLUMNS]
    return pa.table(columns, names=_COLUMNS)


def _folded(
    pieces: RowsByState, touched: Mask | None = None, base: dict[StateId, pa.Table] | None = None
) -> dict[StateId, pa.Table]:
    base = base or {}
    found = dict(base)
    for name, tables in pieces.items():
        if touched is not None:
            tables = [_of_groups(each, touched) for each in tables]
        found[name] = fold_state([base[name], *tables] if name in base else tables)
    return found


def _hull(touched: Mask) -> range:
    at = np.flatnonzero(touched)
    return range(int(at[0]), int(at[-1]) + 1) if len(at) else range(0)


def _shown(live: pa.Table, described: _Described, point: Point) -> pa.Table:
    ttl_ms = described.ttl_ms
    return live if ttl_ms is None else accessed_since(live, point.checkpoint.wall_clock_ms - ttl_ms)


def _of_groups(table: pa.Table, touched: npt.NDArray[np.bool_]) -> pa.Table:
    mask = touched[table["key_group"].to_numpy()]
    return table if mask.all() else table.filter(pa.array(mask))


def _state(
    name: StateId,
    descriptions: Sequence[_Described | None],
    sides: Sequence[pa.Table | None],
    limit: int,
    allow_pickle: bool,
) -> StateDifference:
    known = [each for each in descriptions if each is not None]
    kind = known[-1].kind
    if len(known) == 2 and known[0].declared != known[1].declared:
        why = f"it was declared {_declared(known[0])} at the one point and {_declared(known[1])} at the other"
        return StateDifference(*name, kind, uncompared=why)
    if any(each.state is not None and each.state.earlier for each in known):
        return StateDifference(*name, kind, uncompared="some of its entries are in an earlier type still")
    filled = next((side for side in sides if side is not None), None)
    if filled is None:
        return StateDifference(*name, kind)
    empty = filled.slice(0, 0)
    first, second = (_plain(empty if side is None else side) for side in sides)
    both = pa.concat_tables([first, second])
    entries = _numbered(both, kind)
    compare = _lists if kind == "list" else _singles
    expires = any(each.ttl_ms is not None for each in known)
    compared = _untimed(both) if expires and both["payload"].null_count < both.num_rows else both
    added, removed, changed = compare(compared, entries, first.num_rows)
    shown = [(ADDED, code) for code in added[:limit]] + [(REMOVED, code) for code in removed[:limit]]
    shown += [(CHANGED, code) for code in changed[:limit]]
    shown = shown[:limit] if len(shown) > limit else shown
    found = _values(name, known[-1], both, entries, first.num_rows, shown, allow_pickle)
    return StateDifference(*name, kind, len(added), len(removed), len(changed), tuple(found))


def _declared(described: _Described) -> str:
    value_type = None if described.state is None else type_from_spec(described.state.value_type)
    return f"{described.kind} of {declared_name(value_type)} by {key_name(described.operator)}"


def _plain(table: pa.Table) -> pa.Table:
    """No column has a dictionary any more, so that two tables go together."""
    return pa.table([without_dictionary(each) for each in table.columns], names=table.column_names)


def _numbered(both: pa.Table, kind: str) -> _Entries:
    keys = coded(both["key"])
    codes, count = keys.codes.astype(np.int64), len(keys.values)
    more_names = {"map": ["map_key"], _TIMER: ["value"]}.get(kind, [])
    for name in ("namespace", *more_names):
        if both[name].null_count < both.num_rows:
            more = coded(both[name])
            encoded = pc.dictionary_encode(pa.array(codes * (len(more.values) + 1) + more.codes))
            codes, count = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    return _Entries(codes, count)


def _singles(both: pa.Table, entries: _Entries, split: int) -> tuple[Numbers, Numbers, Numbers]:
    """Entries of one row: which were added, removed and changed, by number."""
    at = _places(entries, split)
    before, after = at[0] >= 0, at[1] >= 0
    shared = np.flatnonzero(before & after)
    same = _same(both, at[0][shared], at[1][shared])
    return np.flatnonzero(after & ~before), np.flatnonzero(before & ~after), shared[~same]


def _places(entries: _Entries, split: int) -> list[Numbers]:
    """Of each entry its row on either side; -1 for none."""
    found = []
    for codes, start in ((entries.codes[:split], 0), (entries.codes[split:], split)):
        at = np.full(entries.distinct, -1, np.int64)
        at[codes] = np.arange(len(codes)) + start
        found.append(at)
    return found


def _lists(both: pa.Table, entries: _Entries, split: int) -> tuple[Numbers, Numbers, Numbers]:
    """As ``_singles``, of entries with a row for each element."""
    orders, counts = [], []
    for codes, start in ((entries.codes[:split], 0), (entries.codes[split:], split)):
        orders.append(np.argsort(codes, kind="stable") + start)
        counts.append(np.bincount(codes, minlength=entries.distinct))
    before, after = counts[0] > 0, counts[1] > 0
    alike = (counts[0] == counts[1]) & before
    rows = [order[alike[entries.codes[order]]] for order in orders]
    same = np.ones(entries.distinct, bool)
    same[entries.codes[rows[0][~_same(both, rows[0], rows[1])]]] = False
    changed = before & after & ~(alike & same)
    return np.flatnonzero(after & ~before), np.flatnonzero(before & ~after), np.flatnonzero(changed)


def _same(both: pa.Table, first: Numbers, second: Numbers) -> npt.NDArray[np.bool_]:
    """Whether rows have the same value: of pickles the same bytes, else the same text."""
    same = _equal(both["value"], first, second)
    payloads = both["payload"]
    if payloads.null_count == both.num_rows:
        return same
    pickled = pc.is_valid(payloads).to_numpy()
    text = ~(pickled[first] | pickled[second])
    return np.where(text, same, _equal(payloads, first, second))


def _equal(column: pa.ChunkedArray, first: Numbers, second: Numbers) -> npt.NDArray[np.bool_]:
    one, two = column.take(pa.array(first)), column.take(pa.array(second))
    equal = pc.fill_null(pc.equal(one, two), False)
    found: npt.NDArray[np.bool_] = pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(two))).to_numpy()
    return found


def _untimed(both: pa.Table) -> pa.Table:
    """Without the times of the last access, which those of the texts have left already."""
    place = both.schema.get_field_index("payload")
    payloads = [untimed(payload) for payload in both["payload"].to_pylist()]
    return both.set_column(place, "payload", pa.chunked_array([pa.array(payloads, both["payload"].type)]))


def _values(
    name: StateId,
    described: _Described,
    both: pa.Table,
    entries: _Entries,
    split: int,
    shown: Sequence[tuple[str, int]],
    allow_pickle: bool,
) -> list[EntryDifference]:
    """The entries to show, typed."""
    if not shown:
        return []
    wanted = np.array([code for _, code in shown])
    rows = np.flatnonzero(np.isin(entries.codes, wanted))
    table = both.take(pa.array(rows))
    values = _of_rows(table, described, allow_pickle)
    sides: dict[int, list[list[Any]]] = {}
    first_row: dict[int, int] = {}
    for place, (row, value) in enumerate(zip(rows.tolist(), values, strict=True)):
        code = int(entries.codes[row])
        first_row.setdefault(code, place)
        sides.setdefault(code, [[], []])[row >= split].append(value)
    key_type = key_type_of(described.operator)
    at = [first_row[int(code)] for _, code in shown]
    keys = keys_of([table["key"][i].as_py() for i in at], key_type, allow_pickle)
    map_keys = keys_of(
        [table["map_key"][i].as_py() for i in at],
        None if described.state is None else map_key_type_of(described.state),
        allow_pickle,
    )
    is_list = described.kind == "list"
    found = []
    for (change, code), i, key, map_key in zip(shown, at, keys, map_keys, strict=True):
        before, after = ((side if is_list else side[0]) if side else None for side in sides[int(code)])
        namespace = table["namespace"][i].as_py()
        found.append(EntryDifference(*name, described.kind, key, namespace, map_key, change, before, after))
    return found


def _of_rows(table: pa.Table, described: _Described, allow_pickle: bool) -> list[Any]:
    """The value of each row, typed."""
    texts, payloads = table["value"].to_pylist(), table["payload"].to_pylist()
    if described.state is None:
        return [int(text) for text in texts]
    values = values_of(texts, payloads, user_type(described.state), allow_pickle)
    if described.ttl_ms is None:
        return values
    return [  # a pickle holds the pair
        value[1] if payload is not None and not isinstance(value, Withheld) else value
        for value, payload in zip(values, payloads, strict=True)
    ]
