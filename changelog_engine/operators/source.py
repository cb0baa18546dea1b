"""Reading a source in an epoch: ranges of its splits, in steps that keep to the epoch's time.

Invariants:
    * An epoch ends where the reader says, never inside an element: the position after it is what the checkpoint keeps.
    * Splits are read in the order in which they were planned: those of a bounded source one after the other to their
      ends, those of an unbounded one each for its share of the epoch. Of a source of parts the part decides.
    * An epoch is bounded in records, in time and in bytes. An unbounded split whose reader knows that nothing waits any
      more is left at once.
    * A checkpoint that covers several epochs keeps where each of them ended, so that it can be replayed as it ran.
    * Elements stay as they were given, and a position that was reached as it is, also where a reader changes in place what
      it was given or gave.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from changelog_engine.changelog.split_ends import EpochEnds, KeptSource, SplitEnd, SplitEnds
from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.inherits import check_inherits
from changelog_engine.connectors.kept_values import kept_copy
from changelog_engine.connectors.protocols import Source, SourceOfParts, Split, SplitReader, is_endless
from changelog_engine.errors import TypeMismatchError
from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK
from changelog_engine.operators.context import milliseconds
from changelog_engine.operators.failures import UsersCode
from changelog_engine.operators.messages import Positions
from changelog_engine.operators.stateless import PassOperator, TimestampsOperator
from changelog_engine.types.copies import copied, each_as_given
from changelog_engine.types.typeinfo import shown

_FIRST_STEP = 64
_LARGEST_STEP = 32_768
_STEP_SECONDS = 0.02
_IMMUTABLE = (int, str, float, type(None))
_SLICED = (list, tuple, range)  # of which a part can be taken, as not of every sequence
_LARGEST_EPOCH_BYTES = 256 * 1024 * 1024
_SAMPLE = 4
_OUR_READERS = "changelog_engine.connectors."  # which give new elements


class SourceStart(PassOperator):
    """Passes a source's elements on.

    It keeps the watermark that the readers gave, and where the epochs ended that no checkpoint has, which a replay needs: of
    a checkpoint that failed and is tolerated they are the next one's.
    """

    def __init__(self, name: str, output: Any) -> None:
        super().__init__(name, output)
        self._epoch = 0
        self._ends: EpochEnds = []

    def turn_to(self, split: str) -> None:
        """The elements that follow are of this split."""
        for receiver in self.receivers:
            if isinstance(receiver, TimestampsOperator):
                receiver.turn_to(split)

    def only_splits(self, splits: Iterable[str] | None) -> None:
        """These are the splits that are read from now on; None: it doesn't matter which."""
        for receiver in self.receivers:
            if isinstance(receiver, TimestampsOperator):
                receiver.only_splits(splits)

    def note(self, epoch: int, committed: int, before: Positions, reached: SplitEnds) -> None:
        """An epoch read from these positions to those.

        Args:
            committed: the newest epoch that is known to be part of a checkpoint.
        """
        self._epoch = epoch
        self._ends = [end for end in self._ends if end[0] > committed]
        moved = {split: end for split, end in reached.items() if end != (before[split], False)}
        if moved:
            self._ends.append((self._epoch, moved))

    def snapshot(self) -> KeptSource | None:
        """The ends of all epochs but the last, by the attempt's numbers; with the watermark, if there is one.

        The driver numbers them anew (see Checkpointer).
        """
        ends = [end for end in self._ends if end[0] < self._epoch]
        if self.current_watermark in (MIN_WATERMARK, MAX_WATERMARK):  # the end of the input is told again
            return ends or None
        return {"ends": ends, "watermark": self.current_watermark}

    def restore(self, state: KeptSource) -> None:
        """Functions behind the source see the watermark again before a reader gives the next one."""
        if isinstance(state, dict):
            self.resume(state["watermark"])


@dataclass(slots=True)
class _Room:
    """What may still be read: a number of elements, about a number of bytes, until a time of the monotonic clock."""

    records: int
    bytes: float
    deadline: float


class SourceHead:
    """Reads the splits of one source that belong to this subtask and pushes them down the chain.

    Args:
        monotonic: the clock in seconds that ends epochs.
        one_first: the first step is of one element, as functions that nobody has seen run yet may take seconds for each.
    """

    def __init__(
        self,
        uid: str,
        name: str,
        source: Source,
        head: SourceStart,
        monotonic: Callable[[], float] = monotonic_s,
        one_first: bool = False,
    ) -> None:
        self._monotonic = monotonic
        self.uid = uid
        self.name = name
        self.source = source
        self.head = head
        self.records = 0
        self.read_s = 0.0  # spent in readers
        self.endless = is_endless(source)
        self.unfinished: Positions = {}  # where the last epoch ended
        self.idle = False
        self._parts = source if isinstance(source, SourceOfParts) else None
        self._go_by(source if self._parts is None else self._parts.parts[0])
        self._reached: Positions = {}  # since the last acknowledgement
        self._readers: dict[str, SplitReader] = {}
        # Splits whose readers are users', who may fill one object again and again.
        self._strange: set[str] = set()
        self._step = 1 if one_first else _FIRST_STEP

    def _go_by(self, source: Source) -> None:
        self._acknowledges = source.acknowledges
        self._by_split = source.watermarks_by_split
        self._in_turn = not source.bounded or self._by_split

    def more_may_come(self, positions: Positions | None) -> bool:
        """Whether parts of the source follow on the one that is read.

        Args:
            positions: as the order has them; None when it names the source not.
        """
        if self._parts is None or positions is None:
            return False
        return not positions or self._part(positions) < len(self._parts.parts) - 1

    def _part(self, positions: Positions) -> int:
        """Which part is read. One ends before the next begins, so any split will tell."""
        assert self._parts is not None
        return self._parts.part_of(next(iter(positions)))

    def read(self, positions: Positions, max_records: int, budget_ms: int, durable: bool = True) -> SplitEnds:
        """Read from the positions on.

        Args:
            positions: split id to position; only splits that have not ended.
            max_records: bound for all splits together.
            durable: a barrier ends this epoch, or the job makes no checkpoints.
        """
        began = self._monotonic()
        left = _Room(max_records, _LARGEST_EPOCH_BYTES, began + budget_ms / 1000)
        reached: SplitEnds = {split: SplitEnd(position) for split, position in positions.items()}
        if self._parts is not None:
            self._go_by(self._parts.parts[self._part(positions)])
            self.head.only_splits(positions if self._by_split else None)
        elif self._by_split:
            self.head.only_splits(positions)
        for place, split in enumerate(positions):
            if not self._in_turn:
                if self._read_split(split, reached, left, durable):
                    break
                continue
            # Splits without an end get equal shares, or the first would keep the others waiting for ever.
            share, until = len(positions) - place, (place + 1) / len(positions)
            records, size = -(-left.records // share), left.bytes / share
            room = _Room(records, size, began + until * budget_ms / 1000)
            self._read_split(split, reached, room, durable)
            left.records -= records - room.records
            left.bytes -= size - room.bytes
        return reached

    def _read_split(self, split: str, reached: SplitEnds, room: _Room, durable: bool) -> bool:
        """Read a split from where it was reached; returns whether there was no more room for it."""
        reader = self._reader(split)
        monotonic, strange = self._monotonic, split in self._strange
        if self._by_split:
            self.head.turn_to(split)
        with UsersCode(self.name, f"beginning an epoch of split {split!r}"):
            position = _kept(reached[split].position)
            reader.begin_epoch(durable)
        finished = over = False
        left, bytes_left, deadline = room.records, room.bytes, room.deadline
        while left > 0 and not finished:
            began = monotonic()
            wanted = min(left, self._step)
            with UsersCode(self.name, f"reading split {split!r}"):
                values, position, finished, times, aside = reader.read(position, wanted)
                values = _in_order(values)
                if strange:
                    values, times = each_as_given(values), _milliseconds(times)
                _check_times(times, len(values))
                kept = _kept(position)
            count = len(values)
            self.read_s += monotonic() - began
            if count:
                left -= count
                bytes_left -= count * _pickled_size(values)
                self.records += count
                self.head.process(values, times)
            if aside:
                for tag, element in aside:
                    self.head.emit_aside(tag, [copied(element) if strange else element], None)
            watermark = reader.watermark
            if watermark is not None and watermark > self.head.current_watermark:
                self.head.watermark(watermark)
            reached[split] = SplitEnd(kept, finished)
            if self._acknowledges:
                self._reached[split] = position
            now = monotonic()
            self._adapt(now - began, count)
            over = now >= deadline or bytes_left <= 0
            if over or not count:
                break
            if count < wanted and self._in_turn and _behind(reader) == 0:
                break  # what comes from now on is the next epoch's: results are not kept waiting for it
        room.records, room.bytes = left, bytes_left
        return over

    def behind(self, splits: Iterable[str]) -> int | None:
        """How many elements are known to wait in these splits; None when a reader doesn't know, or can't say."""
        total = 0
        for split in splits:
            reader = self._readers.get(split)
            behind = None if reader is None else _behind(reader)
            if behind is None:
                return None
            total += behind
        return total

    @property
    def watermark(self) -> int:
        """The largest watermark that left the source, or the assigner of timestamps right behind it."""
        marks = [
            each.current_watermark for each in self.head.receivers if isinstance(each, TimestampsOperator)
        ]
        return max(marks, default=self.head.current_watermark)

    def at_barrier(self, reached: SplitEnds) -> None:
        """Put in the positions that a checkpoint is to keep for those that an epoch ended at."""
        for split, (position, finished) in reached.items():
            with UsersCode(self.name, f"preparing a checkpoint of split {split!r}"):
                position = self._reader(split).at_barrier(position)
                kept_copy(position, "the position")
                reached[split] = SplitEnd(position, finished)

    def acknowledge(self) -> None:
        """All that was read is part of a durable checkpoint."""
        reached, self._reached = self._reached, {}
        for split, position in reached.items():
            with UsersCode(self.name, f"acknowledging split {split!r}"):
                self._reader(split).acknowledged(position)

    def _reader(self, split: str) -> SplitReader:
        reader = self._readers.get(split)
        if reader is None:
            with UsersCode(self.name, f"opening split {split!r}"):
                reader = self.source.reader(Split(split, None))
                check_inherits(reader, f"{type(self.source).__name__}.reader() must return", SplitReader)
                self._readers[split] = reader
                if not type(reader).__module__.startswith(_OUR_READERS):
                    self._strange.add(split)
        return reader

    def _adapt(self, seconds: float, count: int) -> None:
        """Steps take a fiftieth of a second, so that a slow function doesn't hold the epoch up."""
        if seconds > 2 * _STEP_SECONDS:
            self._step = max(1, min(self._step // 4, int(count * _STEP_SECONDS / seconds)))
        elif seconds < _STEP_SECONDS and count >= self._step:
            self._step = min(_LARGEST_STEP, self._step * 4)

    def close(self) -> None:
        """Close all readers."""
        while self._readers:
            split, reader = self._readers.popitem()
            with UsersCode(self.name, f"closing split {split!r}"):
                reader.close()


def _in_order(values: Any) -> Sequence[Any]:
    """A reader's elements; a str or a dict would be taken for its characters or keys."""
    if type(values) in _SLICED:
        found: Sequence[Any] = values
        return found
    if isinstance(values, (str, bytes, bytearray, Mapping)):
        raise TypeMismatchError(
            f"read() gave {shown(values)} as the elements of a Range: they are a sequence, such as a list"
        )
    return list(values)


def _milliseconds(times: Sequence[Any] | None) -> Sequence[int] | None:
    """Timestamps that a user's reader gave as 64-bit ints."""
    found: list[int] = []
    for time in () if times is None else times:
        whole = milliseconds(time)
        if whole is None:
            raise TypeMismatchError(
                f"read() gave {shown(time)} as a timestamp: it is a number of milliseconds since 1970"
            )
        found.append(whole)
    return None if times is None else found


def _check_times(times: Sequence[int] | None, count: int) -> None:
    """Refuse timestamps that are not one for each element: others would be taken for these, or left out."""
    if times is not None and len(times) != count:
        raise TypeMismatchError(f"read() gave {count} elements and {len(times)} timestamps: each has one")


def _kept(position: Any) -> Any:
    """A position that nobody else can change."""
    return position if type(position) in _IMMUTABLE else deepcopy(position)


def _behind(reader: SplitReader) -> int | None:
    """How many elements are known to wait; None when the reader doesn't know, or can't say."""
    try:
        behind = reader.behind
    except Exception:  # it is for people and for pace, and must not fail the job
        return None
    return behind if type(behind) is int else None


def _pickled_size(values: Sequence[Any]) -> float:
    """About how many bytes one element takes in a block, from a few of them."""
    sample = values[:: max(1, len(values) // _SAMPLE)][:_SAMPLE]
    try:
        return len(pickle.dumps(list(sample), 5)) / len(sample)
    except BaseException:  # what can't be moved fails where it is moved, with a message that names it
        return 0.0
