"""The parts that a subtask writes: what waits in its logs is encoded and written, most of it ahead of a barrier.

Invariants:
    * Sequence numbers of a subtask's rows are contiguous within an attempt.
    * A mutation is in the buffer, in the open part, or in a part that was handed over; never in two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.changelog.model import Part
from changelog_engine.changelog.pack_queue import PackQueue
from changelog_engine.changelog.part_writer import PartWriter
from changelog_engine.changelog.rows import LogColumns
from changelog_engine.changelog.small_state import LogPosition
from changelog_engine.clock import monotonic_ms
from changelog_engine.graph.nodes import StateId
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.operators.store_config import StoreConfig
from changelog_engine.storage.opening import open_storage

Drain = Callable[[], list[LogColumns]]

FLUSH_ROWS = 131_072
FLUSH_BYTES = 8 << 20  # of columns, by what those encoded before had
_FIRST_ROWS = 1_024  # while it is not known how large mutations are
_CLOSED_AHEAD = 2  # a part that has this share of a whole one is made durable ahead of a barrier, too
_SNAPSHOT_PARTS = 8  # times as large as those of a log: what a barrier finds of these does not depend on it
_LAST_SHARE = 8  # of what is encoded at once, the part that may wait for a barrier: what comes before it is encoded ahead


class PartStream:
    """Writes parts of one subtask.

    Args:
        taken: sees what is taken out of the buffer; see RecentChanges.taken.
    """

    def __init__(
        self,
        config: StoreConfig,
        buffer: ChangelogBuffer,
        taken: Callable[[Drain], list[LogColumns]] | None = None,
    ) -> None:
        self._config = config
        self._buffer = buffer
        self._taken = taken
        self._logs = config.logs
        self._sequence = 0
        self._part_number = 0
        self._counts: dict[StateId, int] = {}
        self._encode_ms = 0.0
        self._write_ms = 0.0
        self._flush_rows = min(FLUSH_ROWS, _FIRST_ROWS) if self._logs else FLUSH_ROWS
        self._part_bytes = config.part_max_bytes * (1 if self._logs else _SNAPSHOT_PARTS)
        self._attempt = 0
        self._checkpoint_id = 0
        self._writer: PartWriter | None = None
        self._closed: list[Part] = []
        folder = config.folder if config.packs and self._logs else None
        self._packs = None if folder is None else PackQueue(open_storage(folder))

    def begin(self, order: EpochOrder) -> None:
        """The attempt's first epoch in this process comes next."""
        self._attempt = order.attempt
        lineage = order.restore.lineage if order.restore is not None else ()
        # A new process within the attempt: go on counting.
        if lineage and lineage[-1].attempt == order.attempt:
            self._sequence, self._part_number = order.operator_state.log or LogPosition()

    def begin_epoch(self, order: EpochOrder) -> None:
        """What is written from now on belongs to the order's next checkpoint."""
        self._checkpoint_id = order.checkpoint_id
        if self._packs is not None and order.kind.barrier:
            self._packs.announce(
                order.checkpoint_id, order.attempt, self._config.stage, self._config.subtask, order.run
            )

    def position(self) -> LogPosition:
        """How much was written, for the checkpoint."""
        return LogPosition(self._sequence, self._part_number)

    def step(self, most: int, left: int | None) -> int:
        """How many elements to process before `flush_when_full` and `flush_ahead`.

        Args:
            most: this many, or fewer where mutations are large.
            left: how many there are before a barrier; None where none comes.
        """
        length, last = min(most, self._flush_rows), self._last()
        return length if left is None or left > length or left <= last else left - last

    def _last(self) -> int:
        """So many elements before a barrier are left to it."""
        return max(1, self._flush_rows // _LAST_SHARE)

    def flush_when_full(self) -> None:
        """Encode waiting mutations when there are many, so that the barrier finds few."""
        if self._logs and self._buffer.rows() >= self._flush_rows:
            self._flush()

    def flush_ahead(self, left: int) -> None:
        """Encode and compress what waits when few elements are left, so that the barrier waits for what these change alone.

        Args:
            left: how many come before the barrier.
        """
        if not self._logs or not 0 < left <= self._last():
            return
        if self._buffer.rows() >= self._last():
            self._flush()
        if self._writer is not None:
            began_ms = monotonic_ms()
            self._writer.end_row_group()
            self._write_ms += monotonic_ms() - began_ms
            if self._packs is None and self._writer.size >= self._part_bytes // _CLOSED_AHEAD:
                self._close_part()

    def end_epoch(self, barrier: bool) -> None:
        """Write the mutations of an epoch: at a barrier all of them."""
        if barrier or self._buffer.rows() >= self._flush_rows:
            self._flush()
        if barrier:
            self._close_part(self._packs)

    def write_all(self, live: Iterable[LogColumns]) -> None:
        """Write a full snapshot."""
        began_ms, written_ms = monotonic_ms(), self._write_ms
        for each in live:
            self._write(each)
        self._encode_ms += monotonic_ms() - began_ms - (self._write_ms - written_ms)
        self._close_part()

    def take_closed(self) -> list[Part]:
        """Parts that became durable since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def take_counts(self) -> dict[str, dict[str, int]]:
        """Mutations written since the last call, by operator and state; none without the changelog."""
        counts, self._counts = self._counts, {}
        found: dict[str, dict[str, int]] = {}
        for (operator, state), count in counts.items():
            found.setdefault(operator, {})[state] = count
        return found

    def take_times(self) -> tuple[float, float]:
        """Milliseconds since the last call: spent encoding what changed, and writing it."""
        times = self._encode_ms, self._write_ms
        self._encode_ms = self._write_ms = 0.0
        return times

    def close(self) -> None:
        """Leave the machine's packs."""
        if self._packs is not None:
            self._packs.close()

    def _flush(self) -> None:
        began_ms = monotonic_ms()
        drain = self._buffer.drain
        drained = drain() if self._taken is None else self._taken(drain)
        self._encode_ms += monotonic_ms() - began_ms
        flushed_rows = flushed_bytes = 0
        for each in drained:
            flushed_bytes += self._write(each)
            flushed_rows += each.rows
            self._counts[each.name] = self._counts.get(each.name, 0) + each.rows
        if flushed_rows:
            fitting = FLUSH_BYTES * flushed_rows // max(1, flushed_bytes)
            self._flush_rows = min(FLUSH_ROWS, max(1, fitting))

    def _write(self, given: LogColumns) -> int:
        """Append to the open part; how many bytes the columns have in memory."""
        began_ms = monotonic_ms()
        if self._writer is None:
            assert self._config.folder is not None
            self._part_number += 1
            self._writer = PartWriter(
                self._config.folder,
                checkpoint_id=self._checkpoint_id,
                attempt=self._attempt,
                stage=self._config.stage,
                subtask=self._config.subtask,
                number=self._part_number,
                first_sequence=self._sequence,
                key_groups=self._config.key_groups,
            )
        size = self._writer.write(*given)
        self._sequence += given.rows
        self._write_ms += monotonic_ms() - began_ms
        if self._writer.size >= self._part_bytes:
            self._close_part()
        return size

    def _close_part(self, packs: PackQueue | None = None) -> None:
        if self._writer is None:
            if packs is not None:
                packs.leave()
        else:
            began_ms = monotonic_ms()
            self._closed.append(
                self._writer.finish() if packs is None else packs.write(self._writer.sealed())
            )
            self._writer = None
            self._write_ms += monotonic_ms() - began_ms
