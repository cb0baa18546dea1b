"""Local recovery: a subtask whose process lives keeps its state, and takes from storage what changed since the checkpoint.

A store remembers which keys its mutations changed since the newest durable checkpoint (``RecentChanges``). After a failure
the next attempt's store gets the tables of the last one's (``KeptState``). For the keys that changed, and for timers of the
timestamps that changed, the rows of the checkpoint are read and folded as in any restore; all others stay.

Invariants:
    * A state is kept only where it is known which checkpoint of which attempt it was changed from, and by which mutations.
      Where any of it is in doubt, all of it is restored from storage.
    * Mutations are in the log before a table changes, so the log names at least the keys that differ.
    * Whoever still holds a handle of the attempt before can change nothing: its cursors stand nowhere.
    * The sizes of tables that know theirs, those on the heap, are compared with those at the checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.changelog.changed_keys import ChangedKeys
from changelog_engine.changelog.conversion import TypeVersions
from changelog_engine.changelog.fold import (
    RowsByState,
    fill_state,
    group_by_state,
    identities_of,
    timers_of,
)
from changelog_engine.changelog.model import CheckpointMark, RestorePoint
from changelog_engine.changelog.row_filter import OfEntries
from changelog_engine.changelog.rows import LogColumns
from changelog_engine.codec.columns import as_strings
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.errors import RestoreError
from changelog_engine.graph.descriptions import DescribedOperator, states_of
from changelog_engine.graph.key_groups import KeyGroups, key_groups
from changelog_engine.graph.nodes import StateId, StateSpec
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.reading import Tell, read_parts
from changelog_engine.operators.failures import errors_within
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.operators.state_types import restored_versions
from changelog_engine.state.backend import TIMER_STATES, KeptBackend, StateTable
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.timer_table import Timer
from changelog_engine.types import TypeInformation

log = logging.getLogger("changelog_engine")

_FEW = 1_000  # keys; as many are always read
_WORTH = 8  # where a larger share of all keys changed, a whole restore takes less time

Sizes = dict[StateId, int]


def mark_of(point: RestorePoint | None) -> CheckpointMark | None:
    """The checkpoint of a restore point; None for empty state."""
    if point is None or point.checkpoint is None:
        return None
    return CheckpointMark(point.checkpoint, point.lineage[-1].attempt)


class Sealed(NamedTuple):
    """What changed before a barrier and behind the checkpoint before it.

    Args:
        epoch: that ended with the barrier.
        mark: of the barrier's checkpoint; None where it would not say of which epoch it is.
        sizes: of all tables at the barrier.
    """

    epoch: int
    mark: CheckpointMark | None
    sizes: Sizes
    changes: ChangedKeys


class RecentChanges:
    """Which keys changed since the newest checkpoint that is known to be durable, and since each barrier after it.

    Whether the checkpoint of a barrier was committed, the store hears with the next epoch, or with the one behind it where
    the next one runs ahead of the commit; or, where the attempt fails before that, from the next attempt, which starts from
    it or from one before.
    """

    def __init__(self) -> None:
        self._base: CheckpointMark | None = None
        self._base_sizes: Sizes = {}
        self._certain = True
        self._open = ChangedKeys()
        self._sealed: list[Sealed] = []  # between the base and the last barrier, in order; two at most
        self._left_out = False  # a checkpoint since the base failed, so that one more barrier has its number

    def begin(self, order: EpochOrder) -> None:
        """The order's restore point is what was taken."""
        self._base = mark_of(order.restore)

    def declared(self, name: StateId, size: int) -> None:
        """A state has its table, as large as it is at the base and ever since."""
        for sizes in (self._base_sizes, *(each.sizes for each in self._sealed)):
            sizes[name] = size

    def taken(self, drain: Callable[[], list[LogColumns]]) -> list[LogColumns]:
        """What is taken out of the logs, whose keys are kept. If that fails half-way, nothing is known any more.

        Args:
            drain: takes it out, or raises and leaves all of it.
        """
        self._certain = False
        try:
            drained = drain()
        except Exception:
            self._certain = True
            raise
        self._open.add(drained)
        self._certain = True
        return drained

    def barrier(self, order: EpochOrder, sizes: Sizes) -> None:
        """The epoch has ended with a barrier, and all mutations were added.

        Args:
            order: the epoch's.
        """
        mark = None if self._left_out else CheckpointMark(order.checkpoint_id, order.attempt)
        self._sealed.append(Sealed(order.epoch, mark, sizes, self._open))
        self._open = ChangedKeys()

    def next_epoch(self, order: EpochOrder) -> None:
        """The attempt goes on: which checkpoints are durable is known, but for one that the epoch runs ahead of."""
        while self._sealed and order.committed_epoch >= self._sealed[0].epoch:
            self._base, self._base_sizes = mark_of(order.restore), self._sealed.pop(0).sizes
            self._left_out = False
        if self._sealed and not (order.goes_on and self._sealed[0].epoch == order.epoch - 1):
            for failed in reversed(self._sealed):
                failed.changes.join(self._open)
                self._open = failed.changes
            self._sealed, self._left_out = [], True

    def since(self, mark: CheckpointMark) -> tuple[list[ChangedKeys], Sizes] | None:
        """What changed since a checkpoint, and the sizes of the tables then; None when that is not known."""
        marks = [self._base, *(each.mark for each in self._sealed)]
        if mark not in marks:
            return None
        behind = len(marks) - 1 - marks[::-1].index(mark)  # a barrier's own, where both have it
        sizes = self._sealed[behind - 1].sizes if behind else self._base_sizes
        changes = [*(each.changes for each in self._sealed[behind:]), self._open]
        known = self._certain and all(each.complete for each in changes)
        return (changes, sizes) if known else None


class KeptTable(NamedTuple):
    """The table of a state."""

    declared: StateSpec  # the state as the user declared it
    stored: StateSpec
    table: StateTable
    namespaces: NamespaceCodec | None


@dataclass(kw_only=True)
class KeptState:
    """What a store leaves to that of the next attempt."""

    owner: object  # whose state it is: equal to that of the store that takes it
    key_type: TypeInformation | None
    key_groups: range
    max_parallelism: int
    changes: RecentChanges
    backend: KeptBackend
    buffer: ChangelogBuffer  # the mutations that were not written yet
    tables: dict[StateId, KeptTable]  # of the states that were declared in this attempt or one before
    timers: dict[StateId, Iterable[Timer]]  # pending timers, in the order of their registration, by table
    timer_namespaces: Mapping[StateId, NamespaceCodec]
    rows: RowsByState  # of states that nobody declared
    cursors: list[Cursor]
    _identities: dict[StateId, set[Any]] = field(default_factory=dict)
    _versions: dict[StateId, TypeVersions] = field(default_factory=dict)
    _texts: dict[StateId, list[pa.Array]] = field(default_factory=dict)
    _stamps: dict[StateId, set[int]] = field(default_factory=dict)

    def seal(self) -> None:
        """The attempt is over and its functions are closed: nobody changes the state through their handles from now on."""
        for cursor in self.cursors:
            cursor.leave()

    def let_go(self) -> None:
        """It will not be used: its memory is free for what is read instead."""
        for kept in self.tables.values():
            if isinstance(kept.table, dict):
                kept.table.clear()
        self.tables, self.timers, self.rows = {}, {}, {}
        self.backend.close()

    def roll_back(self, point: RestorePoint, described: list[DescribedOperator], tell: Tell | None) -> bool:
        """Make the tables what they were at a checkpoint.

        Args:
            tell: see ``read_parts``.

        Returns:
            Whether it was possible. If not, the tables cannot be used.

        Raises:
            CorruptChangelogError: what had to be read is missing or is not what it was.
        """
        mark = mark_of(point)
        since = None if mark is None else self.changes.since(mark)
        if since is None or not self.backend.is_whole() or not self._as_described(described):
            return False
        if not self._find(since[0]) or not self._worth_it():
            return False
        rows = self._changed_rows(point, tell)
        if not all(versions.plain(rows.get(name, [])) for name, versions in self._versions.items()):
            return False
        for name, identities in self._identities.items():
            self._put_back(name, identities, rows.get(name, []))
        for name, stamps in self._stamps.items():
            self._put_back_timers(name, stamps, rows.get(name, []))
        return self._as_large(since[1], point)

    def _as_described(self, described: list[DescribedOperator]) -> bool:
        """Whether the checkpoint has every state in the type in which it is kept."""
        for name, (operator, state) in states_of(described).items():
            kept = self.tables.get(name)
            if state.removed:
                return False
            if kept is None:
                continue
            try:
                versions = restored_versions(
                    operator.uid, state, operator.key_type, kept.declared, self.key_type
                )
            except RestoreError:
                return False
            if versions.earlier or versions.newest.convert is not None:
                return False
            self._versions[name] = versions
        return True

    def _find(self, changes: list[ChangedKeys]) -> bool:
        """Find the keys and timestamps that changed; False where the log is not whole."""
        for waiting in self.buffer.logs:
            waiting.collect()
            name = waiting.operator, waiting.state
            if len(waiting.keys) != len(waiting.values) or not self._has(name):
                return False
            if name[1] in TIMER_STATES:
                self._stamps.setdefault(name, set()).update(waiting.values)
            elif waiting.keys:
                own = set(waiting.keys)
                self._identities.setdefault(name, set()).update(own)
                self._texts.setdefault(name, []).append(self._texts_of(name, own))
        for each in changes:
            for name, columns in each.tables().items():
                if not self._has(name):
                    return False
                if name[1] in TIMER_STATES:
                    stamps = columns["value"].cast(pa.int64()).to_pylist()
                    self._stamps.setdefault(name, set()).update(stamps)
                else:
                    keys, namespaces = key_codec_for(self.key_type), self.tables[name].namespaces
                    identities = identities_of(columns, keys, namespaces)
                    self._identities.setdefault(name, set()).update(identities)
                    self._texts.setdefault(name, []).append(as_strings(columns["key"]))
        return True

    def _has(self, name: StateId) -> bool:
        return name in (self.timers if name[1] in TIMER_STATES else self.tables)

    def _texts_of(self, name: StateId, identities: set[Any]) -> pa.Array:
        """The texts of the keys of some identities."""
        if self.tables[name].namespaces is not None:
            identities = {identity[0] for identity in identities}
        return as_strings(key_codec_for(self.key_type).texts(list(identities)))

    def _worth_it(self) -> bool:
        """Whether it is less work to read what changed again than everything."""
        changed = sum(len(identities) for identities in self._identities.values())
        whole = sum(len(kept.table) for kept in self.tables.values() if isinstance(kept.table, dict))
        whole += sum(int(size.entries or 0) for size in self.backend.sizes().values())
        return changed <= max(_FEW, whole // _WORTH)

    def _changed_rows(self, point: RestorePoint, tell: Tell | None) -> RowsByState:
        """The checkpoint's rows of what changed."""
        wanted = {name: pa.concat_arrays(texts) for name, texts in self._texts.items()}
        for name, stamps in self._stamps.items():
            if stamps:
                wanted[name] = pa.array(sorted(stamps), pa.int64()).cast(pa.string())
        if not wanted:
            return {}
        operators = frozenset(operator for operator, _ in wanted)
        entries = OfEntries(wanted, self._groups())

        def read(_: str) -> RowsByState:
            return group_by_state(read_parts(point, self.key_groups, operators, tell=tell, wanted=entries))

        return read_again(read)(point.table)

    def _groups(self) -> KeyGroups | None:
        """The key groups of what changed; None where timers may be of any, or there are too many keys to tell them apart."""
        if self._stamps or sum(map(len, self._identities.values())) > _FEW:
            return None
        keys = {
            identity[0] if self.tables[name].namespaces is not None else identity
            for name, identities in self._identities.items()
            for identity in identities
        }
        return key_groups(list(keys), self.max_parallelism)

    def _put_back(self, name: StateId, identities: set[Any], rows: list[pa.Table]) -> None:
        kept = self.tables[name]
        before: dict[Any, Any] = {}
        if rows:
            fill_state(rows, kept.stored, self.key_type, before, kept.namespaces)
        if kept.namespaces is not None:  # rows of a key have namespaces that did not change
            before = {identity: before[identity] for identity in before.keys() & identities}
        table = kept.table
        for identity in identities - before.keys():
            table.pop(identity, None)
        if isinstance(table, dict):
            table.update(before)
            return
        for identity, entry in before.items():
            table[identity] = entry

    def _put_back_timers(self, name: StateId, stamps: set[int], rows: list[pa.Table]) -> None:
        timers = [timer for timer in self.timers[name] if timer[0] not in stamps]
        timers += timers_of(rows, self.key_type, self.timer_namespaces.get(name))  # of one time, all are here
        self.timers[name] = timers

    def _as_large(self, sizes: Sizes, point: RestorePoint) -> bool:
        """Whether the tables have as many entries as they had at the checkpoint."""
        found = {name: len(kept.table) for name, kept in self.tables.items() if isinstance(kept.table, dict)}
        for name, timers in self.timers.items():
            self.timers[name] = found_timers = list(timers)
            found[name] = len(found_timers)
        for name, size in sizes.items():
            if name in found and found[name] != size:
                log.warning(
                    "state %r of operator %r has %d entries after local recovery and had %d at checkpoint %s: the subtask's "
                    "state is read from storage instead. Please report it",
                    name[1],
                    name[0],
                    found[name],
                    size,
                    point.checkpoint,
                )
                return False
        return True


def is_doubtful(error: BaseException) -> bool:
    """Whether an error may have come between a mutation's logging and the change of its table.

    Errors of users' functions, of types, of sinks and of disks come where the engine calls them. What the interpreter raises
    may come anywhere.
    """
    return any(
        not isinstance(each, Exception) or isinstance(each, (MemoryError, RecursionError))
        for each in errors_within(error, suppressed=True)
    )
