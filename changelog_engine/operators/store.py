"""The keyed state of one subtask and how it becomes durable: the changelog, or a full snapshot at each checkpoint.

Invariants:
    * With the changelog, every mutation since the last checkpoint is in the buffer, in an open part, or in a part that was
      handed to the driver; never in two of them.
    * Sequence numbers of a subtask's rows are contiguous within an attempt.
    * The state held equals the fold of the lineage's rows up to the last checkpoint plus those mutations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from changelog_engine.changelog.buffer import ChangelogBuffer, StateLog
from changelog_engine.changelog.compaction import fold_state
from changelog_engine.changelog.conversion import Versions, clear_all, fill_versions
from changelog_engine.changelog.model import Part, RestorePoint
from changelog_engine.changelog.part_writer import PartWriter
from changelog_engine.changelog.replay import Pending, fill_state, group_by_state, timers_of
from changelog_engine.changelog.snapshot import StateSizes, snapshot_columns
from changelog_engine.changelog.spilled_rows import spilled
from changelog_engine.changelog.wrapper import ChangelogBackend
from changelog_engine.clock import WallClock, wall_ms
from changelog_engine.codec.namespaces import NamespaceCodec
from changelog_engine.graph.nodes import StateSpec
from changelog_engine.ledger.reading import give_parts, read_parts
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.operators.state_types import REMOVED, describe, restored_versions, spec_of
from changelog_engine.state.backend import NamespaceScope, StateBackend
from changelog_engine.state.heap import HeapBackend
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.timers import TimerQueue
from changelog_engine.state.ttl import TtlStates, stored_spec
from changelog_engine.types import TypeInformation

__all__ = ["KeyedStore", "describe"]

FLUSH_ROWS = 131_072


class KeyedStore:
    """State tables, their backend, and the log.

    Args:
        folder: the table's folder where parts go; None when nothing is logged (checkpointing is off).
        changelog: log mutations (True), or write full snapshots (False).
        stage, subtask: who writes.
        key_groups: the range this subtask owns.
        key_type: declared type of the keys.
        timed: the stream has timestamps.
        max_parallelism: number of key groups.
        part_max_bytes: a part that grows past it is closed ahead of the checkpoint.
        operators: uids of the stage's operators; rows of others are not read.
        clock: wall clock in ms, for state with a time to live.
        backend: keeps the tables; None for one on the heap.
        max_state_bytes: bound of one state in a full snapshot; None for none.
    """

    def __init__(
        self,
        folder: str | None,
        changelog: bool,
        stage: int,
        subtask: int,
        key_groups: range,
        key_type: TypeInformation | None,
        timed: bool,
        max_parallelism: int,
        part_max_bytes: int,
        operators: frozenset[str],
        clock: WallClock = wall_ms,
        backend: StateBackend | None = None,
        max_state_bytes: int | None = None,
    ) -> None:
        self.operators = operators
        self.expiring = TtlStates(clock)
        self.folder = folder
        self.changelog = changelog and folder is not None
        self.stage = stage
        self.subtask = subtask
        self.key_groups = key_groups
        self.key_type = key_type
        self.part_max_bytes = part_max_bytes
        self.max_parallelism = max_parallelism
        self.max_state_bytes = max_state_bytes
        self.inner: StateBackend = backend or HeapBackend()
        self._rows_folder: Callable[[], LocalFolder] | None = getattr(self.inner, "rows_folder", None)
        self.cursor = self.inner.cursor
        self.buffer = ChangelogBuffer(self.cursor, key_type, timed, max_parallelism)
        self.backend: Any = ChangelogBackend(self.inner, self.buffer) if self.changelog else self.inner
        self.specs: dict[tuple[str, str], StateSpec] = {}
        self.namespaces: dict[tuple[str, str], NamespaceCodec] = {}
        self._pending: Pending = {}
        self._described: dict[tuple[str, str], dict[str, Any]] = {}
        self._sequence = 0
        self._part_number = 0
        self._count = 0
        self._attempt = 0
        self._checkpoint_id = 0
        self._writer: PartWriter | None = None
        self._closed: list[Part] = []

    def state(self, operator: str, spec: StateSpec, scope: NamespaceScope | None = None) -> Any:
        """The handle of a state; with a scope, of namespaced state. What a restore left for it is decoded now."""
        name = operator, spec.name
        found = self._described.get(name)
        versions = None if found is None else restored_versions(operator, found, spec, self.key_type)
        user, spec = spec, stored_spec(spec)
        self.specs[name] = spec
        if scope is not None:
            self.namespaces[name] = scope.codec
        handle = self.backend.state(operator, spec, self.key_type, scope)
        self._fill(name, spec, versions)
        if user.ttl is not None:
            cursor = self.cursor if scope is None else scope.cursor
            handle = self.expiring.handle(operator, user, handle, self.inner.table(*name), cursor)
        return handle

    def _fill(self, name: tuple[str, str], spec: StateSpec, versions: Versions | None) -> None:
        """Decode what a restore left for a state; what is converted meanwhile goes into the log."""
        waiting = self._pending.pop(name, None)
        if not waiting:
            return
        table, namespaces = self.inner.table(*name), self.namespaces.get(name)
        if versions is None:  # the rows are of one with its name that was dropped, and cleared
            fill_state([fold_state(waiting)], spec, self.key_type, table, namespaces)
            return
        log = self._log_of(name) if self.changelog else None
        fill_versions(waiting, versions, name[0], spec, self.key_type, table, namespaces, log)

    def _log_of(self, name: tuple[str, str]) -> StateLog:
        return next(log for log in self.buffer.logs if (log.operator, log.state) == name)

    def timers(self, operator: str, domain: str, scope: NamespaceScope | None = None) -> TimerQueue:
        """An operator's timer queue; with a scope, of timers by key and namespace."""
        if scope is not None:
            self.namespaces[operator, domain] = scope.codec
        queue: TimerQueue = self.backend.timers(operator, domain, self.key_type, scope)
        self._restore_timers((operator, domain), queue)
        return queue

    def _restore_timers(self, name: tuple[str, str], queue: TimerQueue) -> None:
        waiting = self._pending.pop(name, None)
        if waiting:
            queue.restore(timers_of(waiting, self.key_type, self.namespaces.get(name)))

    def load(self, point: RestorePoint | None, described: list[dict[str, Any]]) -> None:
        """Read the rows of a restore point; states take theirs when they are declared.

        Args:
            point: the restore point.
            described: Checkpoint.operators there.
        """
        if point is not None and point.checkpoint is not None:
            self._describe(described)
            folder = self._rows_folder
            if folder is None:
                self._pending = group_by_state(read_parts(point, self.key_groups, self.operators))
            else:
                self._pending = give_parts(
                    lambda tables: spilled(tables, folder()), point, self.key_groups, self.operators
                )
        for name, queue in self.inner.queues.items():
            self._restore_timers(name, queue)

    def take(self, tables: Iterable[Any], described: list[dict[str, Any]]) -> None:
        """Keep log rows for the states that will be declared; see load."""
        self._describe(described)
        self._pending = group_by_state(tables)

    def _describe(self, described: list[dict[str, Any]]) -> None:
        self._described = {
            (operator["uid"], state["name"]): {**state, "key_type": operator.get("key_type")}
            for operator in described
            for state in operator.get("states", ())
        }

    def _drop_removed(self) -> None:
        """Remove the states that are to go because nobody declared them while the functions were opened."""
        marked = [name for name, described in self._described.items() if described.get(REMOVED)]
        for name in [name for name in marked if name not in self.specs]:
            described, tables = self._described.pop(name), self._pending.pop(name, [])
            if tables and self.changelog:
                log = self.buffer.log_of(name[0], spec_of(described))
                clear_all(log, fold_state(tables), self.key_type)

    def begin(self, order: EpochOrder) -> None:
        """The attempt's first epoch in this process comes next."""
        self._drop_removed()
        self._attempt = order.attempt
        lineage = order.restore.lineage if order.restore is not None else ()
        if (
            lineage and lineage[-1].attempt == order.attempt
        ):  # a new process within the attempt: go on counting
            self._sequence, self._part_number = order.operator_state.get("log", (0, 0))

    def position(self) -> tuple[int, int]:
        """Next sequence number and the last part's number, for the checkpoint."""
        return self._sequence, self._part_number

    def begin_epoch(self, order: EpochOrder) -> None:
        """What is written from now on belongs to the order's next checkpoint."""
        self._checkpoint_id = order.checkpoint_id

    def flush_when_full(self) -> None:
        """Encode waiting mutations when there are many, so that the barrier finds few."""
        if self.changelog and self.buffer.rows() >= FLUSH_ROWS:
            self._flush()

    def end_epoch(self, order: EpochOrder) -> list[Part]:
        """Parts that became durable; at a barrier, that is everything."""
        self.expiring.end_epoch(order.barrier and not self.changelog and self.folder is not None)
        self.inner.end_epoch()
        if self.folder is None:
            self.buffer.drain()
            return []
        if self.changelog:
            if order.barrier or self.buffer.rows() >= FLUSH_ROWS:
                self._flush()
            if order.barrier:
                self._close_part()
        elif order.barrier:
            sizes = StateSizes(self.max_state_bytes)
            for rows, columns in self.live_columns():
                sizes.add(columns)
                self._write(rows, columns)
            self._close_part()
        closed, self._closed = self._closed, []
        return closed

    def take_count(self) -> int:
        """Rows written since the last call."""
        count, self._count = self._count, 0
        return count

    def close(self) -> None:
        """Let go of the state."""
        self.expiring.close()
        self.backend.close()
        self._pending.clear()

    def _flush(self) -> None:
        for rows, columns in self.buffer.drain():
            self._write(rows, columns)

    def live_columns(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every live entry as columns of the changelog; see snapshot_columns."""
        yield from snapshot_columns(
            self.inner, self.specs, self.key_type, self.max_parallelism, self.namespaces
        )
        for (operator, state), tables in self._pending.items():  # restored, and not declared until now
            table = fold_state(tables)
            self._pending[operator, state] = [table]
            columns = {name: table[name].combine_chunks() for name in table.column_names}
            for name in ("checkpoint_id", "attempt", "sequence"):
                columns.pop(name)
            if table.num_rows:
                yield table.num_rows, {**columns, "operator": operator, "state": state}

    def _write(self, rows: int, columns: dict[str, Any]) -> None:
        if self._writer is None:
            assert self.folder is not None
            self._part_number += 1
            self._writer = PartWriter(
                self.folder,
                checkpoint_id=self._checkpoint_id,
                attempt=self._attempt,
                stage=self.stage,
                subtask=self.subtask,
                number=self._part_number,
                first_sequence=self._sequence,
                key_groups=self.key_groups,
            )
        self._writer.write(rows, columns)
        self._sequence += rows
        self._count += rows
        if self._writer.size >= self.part_max_bytes:
            self._close_part()

    def _close_part(self) -> None:
        if self._writer is not None:
            self._closed.append(self._writer.finish())
            self._writer = None
