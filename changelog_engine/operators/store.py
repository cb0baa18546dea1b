"""The keyed state of one subtask and how it becomes durable: the changelog, or a full snapshot at each checkpoint.

Invariants:
    * With the changelog, every mutation since the last checkpoint is in the buffer or its parts (``part_stream``).
    * The state held equals the fold of the lineage's rows up to the last checkpoint plus those mutations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.conversion import clear_all
from changelog_engine.changelog.fold import RowsByState, group_by_state
from changelog_engine.changelog.model import Part, RestorePoint
from changelog_engine.changelog.row_filter import OfState, RowFilter
from changelog_engine.changelog.rows import LogColumns
from changelog_engine.changelog.snapshot import StateSizes, snapshot_columns
from changelog_engine.changelog.spilled_rows import spilled
from changelog_engine.clock import WallClock, wall_ms
from changelog_engine.codec.keys import KeyIdentity, key_codec_for
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.graph.nodes import StateId, StateSpec
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.reading import Tell, give_parts, read_parts
from changelog_engine.operators.failures import backend_failure, table_failure, unfinished_change
from changelog_engine.operators.kept_state import KeptState, KeptTable, RecentChanges
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.operators.part_stream import PartStream
from changelog_engine.operators.restored_states import RestoredStates
from changelog_engine.operators.state_types import spec_of
from changelog_engine.operators.store_config import StoreConfig
from changelog_engine.state.backend import KeptBackend, StateBackend, StateTable
from changelog_engine.state.changed_in_place import ChangesInPlace
from changelog_engine.state.cursor import Cursor, NamespaceScope, key_words
from changelog_engine.state.factory import HandleFactory
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.sizes import TableSize, size_of_dict
from changelog_engine.state.timer_table import TimerTable
from changelog_engine.state.timers import TimerQueue
from changelog_engine.state.ttl import TtlStates

_T = TypeVar("_T")


def _count(number: Any) -> int | None:
    return None if number is None else int(number)  # it becomes JSON


class KeyedStore:
    """State tables, their backend, and the log.

    Args:
        config: whose state it is, and how it is logged.
        clock: wall clock in ms, for state with a time to live.
        backend: keeps the tables; None for one on the heap.
        only: the rows that are restored, for a replay of one key; None for all.
    """

    def __init__(
        self,
        config: StoreConfig,
        clock: WallClock = wall_ms,
        backend: StateBackend | None = None,
        only: RowFilter | None = None,
    ) -> None:
        self.config = config
        self._only = only
        self.key_type = config.key_type
        self.changelog = config.logs
        self.expiring = TtlStates(clock)
        self.backend: StateBackend = backend or HeapBackend()
        self.cursor = Cursor()
        self.cursor.words = self._key_words
        self.buffer = self._make_buffer()
        self._handles = self._make_handles(self.buffer if self.changelog else None)
        self.specs: dict[StateId, StateSpec] = {}
        self.namespaces: dict[StateId, NamespaceCodec] = {}
        self._restored = RestoredStates(config.key_type)
        self._declared: dict[StateId, StateSpec] = {}
        self._in_place = ChangesInPlace()
        self._unfinished: set[StateId] = set()  # states whose declaration has failed
        self._cursors = [self.cursor]
        self._point: RestorePoint | None = None
        keeps = self.changelog and config.local_recovery and isinstance(self.backend, KeptBackend)
        self._recent = RecentChanges() if keeps else None
        self.parts = PartStream(config, self.buffer, None if self._recent is None else self._recent.taken)
        self._left = False  # whether the tables are the next attempt's

    def _make_buffer(self) -> ChangelogBuffer:
        return ChangelogBuffer(self.config.key_type, self.config.timed, self.config.max_parallelism)

    def _make_handles(self, logs: ChangelogBuffer | None) -> HandleFactory:
        return HandleFactory(self.backend, self.cursor, logs, self.expiring)

    def _key_words(self, identity: KeyIdentity) -> str:
        return key_words(key_codec_for(self.key_type).key_of(identity))

    def _words_in(self, namespaces: NamespaceCodec) -> Callable[[Any], str]:
        """The words for pairs of key and namespace."""
        return lambda pair: f"{self._key_words(pair[0])}, window {namespaces.texts([pair[1]])[0]}"

    @property
    def tables(self) -> Mapping[StateId, StateTable]:
        """The tables of the states that are declared, by (operator, state)."""
        return self._handles.tables

    @property
    def timer_tables(self) -> Mapping[StateId, TimerTable]:
        """The tables of timers, by (operator, domain)."""
        return self._handles.timer_tables

    def state(self, operator: str, spec: StateSpec, scope: NamespaceScope | None = None) -> Any:
        """The handle of a state; with a scope, of namespaced state. What a restore left for it is decoded now."""
        name = operator, spec.name
        self._unfinished.add(name)
        versions = self._restored.versions(name, spec)
        kept = self._restored.take_table(name, spec, self._read_again)
        state = self._handles.opened(operator, spec, scope, kept)
        self._declared[name] = spec
        self.specs[name] = state.stored
        namespaces = None if scope is None else scope.codec
        if namespaces is not None:
            self.namespaces[name] = namespaces
        if scope is not None:
            self._cursors.append(scope.cursor)
            scope.cursor.words = self._words_in(scope.codec)
        self._restored.fill(state, versions, namespaces)
        if self._recent is not None and isinstance(state.table, dict):
            self._recent.declared(name, len(state.table))
        handle = self._handles.handle(state)
        self._in_place.watch(state, handle)
        self._unfinished.discard(name)
        return handle

    def _read_again(self, name: StateId, kept: StateTable) -> RowsByState:
        """The rows of a state whose table was kept, which nobody uses any more."""
        assert self._point is not None and isinstance(self.backend, KeptBackend)
        self.backend.remove(kept)
        return self._rows(self._point, frozenset([name[0]]), wanted=OfState(name[1]))

    def _rows(
        self,
        point: RestorePoint,
        operators: frozenset[str],
        tell: Tell | None = None,
        wanted: RowFilter | None = None,
    ) -> RowsByState:
        """The subtask's rows of a restore point, where the backend wants them to wait."""
        root, groups = self._call_backend(self.backend.rows_folder), self.config.key_groups
        folder = f"rows-stage-{self.config.stage}-subtask-{self.config.subtask}"

        def read(_: str) -> RowsByState:
            if root is None:
                return group_by_state(read_parts(point, groups, operators, tell=tell, wanted=wanted))
            return give_parts(
                lambda tables: spilled(tables, LocalFolder(root, folder)),
                point,
                groups,
                operators,
                tell,
                wanted,
            )

        return read_again(read)(point.table)

    def timers(
        self, operator: str, domain: str, scope: NamespaceScope | None = None, net: bool = False
    ) -> TimerQueue:
        """An operator's timers; with a scope, those by key and namespace; with ``net``, only net changes are logged."""
        name = operator, domain
        if scope is not None:
            self.namespaces[name] = scope.codec
            self._cursors.append(scope.cursor)
        queue = self._handles.timers(operator, domain, scope, net)
        self._restore_timers(name)
        return queue

    def _restore_timers(self, name: StateId) -> None:
        timers = self._restored.take_timers(name, self.namespaces.get(name))
        if timers:
            self.timer_tables[name].fill(timers)

    def load(
        self,
        point: RestorePoint | None,
        described: list[DescribedOperator],
        tell: Tell | None = None,
        kept: KeptState | None = None,
    ) -> bool:
        """Read the rows of a restore point; states take theirs when they are declared.

        Args:
            tell: see ``read_parts``.
            kept: what the store of an attempt before left, if anything.

        Returns:
            Whether it could be used: what did not change since the checkpoint was not read.
        """
        self._point, used = point, False
        if point is not None and point.checkpoint is not None:
            self._restored.describe(described)
            if kept is not None and self._recent is not None and kept.owner == self.config:
                used = kept.roll_back(point, described, tell)
        if kept is not None and used:
            self._restored.take(kept)
            self.backend.close()
            self.backend = self._handles.backend = kept.backend
        elif kept is not None:
            kept.let_go()
        if not used and point is not None and point.checkpoint is not None:
            self._restored.rows = self._rows(point, self.config.operators, tell, self._only)
        for timers in self.timer_tables:
            self._restore_timers(timers)
        return used

    def leave(self) -> KeptState | None:
        """What this store leaves to that of the next attempt, which no longer uses this one; None for nothing."""
        if self._recent is None or self._unfinished or self._handles.unfinished() is not None:
            return None
        assert isinstance(self.backend, KeptBackend)
        self._left = True
        tables = {
            name: KeptTable(self._declared[name], self.specs[name], table, self.namespaces.get(name))
            for name, table in self.tables.items()
        }
        return KeptState(
            owner=self.config,
            key_type=self.key_type,
            key_groups=self.config.key_groups,
            max_parallelism=self.config.max_parallelism,
            changes=self._recent,
            backend=self.backend,
            buffer=self.buffer,
            tables={**self._restored.tables, **tables},
            timers={**self._restored.timers, **self.timer_tables},
            timer_namespaces=self.namespaces,
            rows=self._restored.rows,
            cursors=self._cursors,
        )

    def take(self, tables: Iterable[Any], described: list[DescribedOperator]) -> None:
        """Keep log rows for the states that will be declared; see load."""
        self._restored.describe(described)
        self._restored.rows = group_by_state(tables)

    def begin(self, order: EpochOrder) -> None:
        """The attempt's first epoch in this process comes next."""
        for (operator, _), described, rows in self._restored.take_removed(self.specs):
            if rows and self.changelog:
                log = self.buffer.log_of(operator, spec_of(described))
                clear_all(log, fold_state(rows), self.key_type)
        self.parts.begin(order)
        if self._recent is not None:
            self._recent.begin(order)
            for name, timers in self.timer_tables.items():
                if isinstance(timers, dict):
                    self._recent.declared(name, len(timers))

    def begin_epoch(self, order: EpochOrder) -> None:
        """What is written from now on belongs to the order's next checkpoint."""
        if self._recent is not None:
            self._recent.next_epoch(order)
        self._call_backend(self.backend.begin_epoch)
        self.parts.begin_epoch(order)

    def end_epoch(self, order: EpochOrder) -> list[Part]:
        """Parts that became durable; at a barrier, that is everything."""
        self._in_place.end_epoch()
        self.expiring.end_epoch(order.kind.barrier and not self.changelog and self.config.folder is not None)
        self._call_backend(self.backend.end_epoch)
        if (failed := self._handles.failed()) is not None:
            raise table_failure(self.backend, *failed)
        unfinished = self._handles.unfinished()
        if unfinished is not None:
            raise unfinished_change(*unfinished)
        if self.config.folder is None:
            self.buffer.drain()
            return []
        if self.changelog:
            self.parts.end_epoch(order.kind.barrier)
            if order.kind.barrier and self._recent is not None:
                self._recent.barrier(order, self._lengths())
        elif order.kind.barrier:
            self.parts.write_all(self._bounded(self.live_columns()))
        return self.parts.take_closed()

    def _bounded(self, live: Iterable[LogColumns]) -> Iterator[LogColumns]:
        """The columns of a full snapshot, as long as no state is too large for one."""
        sizes = StateSizes(self.config.max_state_bytes)
        for each in live:
            sizes.add(each)
            yield each

    def sizes(self) -> dict[str, dict[str, TableSize]]:
        """About how large the tables are, by operator and state; those of which nothing is known are left out."""
        found: dict[str, dict[str, TableSize]] = {}
        try:
            known = dict(self.backend.sizes())
            for tables in (self.tables, self.timer_tables):
                for name, table in tables.items():
                    if isinstance(table, dict):
                        known[name] = size_of_dict(table)
            for (operator, state), (entries, size) in known.items():
                found.setdefault(operator, {})[state] = TableSize(_count(entries), _count(size))
        except Exception:  # a backend, or objects, of the user's: it is for people, and must not fail the job
            return {}
        return found

    def _lengths(self) -> dict[StateId, int]:
        """How many entries there are, in tables that are dicts."""
        tables = {**self.tables, **self.timer_tables}
        return {name: len(table) for name, table in tables.items() if isinstance(table, dict)}

    def close(self) -> None:
        """Let go of the state."""
        self.expiring.close()
        # Handles have the tables as well, and stay until garbage is looked for.
        if type(self.backend) is HeapBackend and not self._left:
            for table in (*self.tables.values(), *self.timer_tables.values()):
                if isinstance(table, dict):
                    table.clear()
        self._handles.close()
        if not self._left:
            self._call_backend(self.backend.close)
        self.parts.close()
        self._restored = RestoredStates(self.key_type)

    def _call_backend(self, method: Callable[[], _T]) -> _T:
        """What a method of the backend gives; what it raises names it."""
        try:
            return method()
        except Exception as error:
            raise backend_failure(self.backend, method.__name__, error) from error

    def live_columns(self) -> Iterator[LogColumns]:
        """Every live entry as columns of the changelog; see snapshot_columns."""
        yield from snapshot_columns(
            self.tables,
            self.timer_tables,
            self.specs,
            self.key_type,
            self.config.max_parallelism,
            self.namespaces,
        )
        yield from self._restored.live_columns()
