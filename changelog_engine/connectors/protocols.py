"""What a source and a sink promise the engine: base classes that all of them inherit, the user's own too.

A source is cut into splits; a reader reads one split, range by range. Positions are small JSON values (int,
str, list or dict) that a checkpoint keeps. Reading again from a position gives the same elements in the same
order: that is what makes the job's result exact after a crash.

A sink writes. A committing sink does so exactly once, in two phases: what was written is made durable before a
checkpoint's commit, under names that the checkpoint keeps, and shown to the world after it.

What a class must give is abstract. What it may give has a default here, so the engine never asks whether it is there.

Sources and sinks are pickled and shipped; they hold no open files. Readers and writers live in one worker process
and are used by one thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from changelog_engine.event_time import MAX_WATERMARK
from changelog_engine.types import TypeInformation

Position = Any
Committable = Any  # JSON: names what is prepared and not yet committed, such as a file or a transaction
INPUT_END_MS = MAX_WATERMARK  # timestamp of results of the input's end


class Split(NamedTuple):
    """An independent piece of a source: a stable id and the position where reading starts."""

    id: str
    start: Position


class Range(NamedTuple):
    """What one read gave.

    Args:
        values: the elements, in order.
        next: the position after them.
        finished: True when this split will never have more.
        timestamps: ms for each element, or None.
        aside: (tag id, element) pairs for side outputs, such as records that can't be decoded; or None.
    """

    values: Sequence[Any]
    next: Position
    finished: bool
    timestamps: Sequence[int] | None = None
    aside: Sequence[tuple[str, Any]] | None = None


class SplitReader(ABC):
    """Reads one split. `read` may be called with any position that was given out before.

    Attributes:
        watermark: looked at after each read: ms, and no element at or before it will follow; None when the reader knows
            none. For sources of one split.
        behind: how many elements are known to wait behind the last one that was read, as far as that is known without
            asking anybody; None when it is not. Looked at after each epoch, and shown as the source's lag. Also after a read
            of an unbounded split that gave fewer than were asked for: where 0 wait, the epoch reads no more of it.
    """

    watermark: int | None = None
    behind: int | None = None

    @abstractmethod
    def read(self, position: Position, max_records: int) -> Range:
        """Return at most max_records elements from position on; fewer (or none) when no more are at hand."""

    def begin_epoch(self, durable: bool) -> None:
        """Called before the first read of each epoch.

        Args:
            durable: what was read before is part of a checkpoint at the end of this epoch; or the job makes none. Where
                sources read ahead, the next epoch may begin before that checkpoint is there: see ``acknowledged``.
        """

    def acknowledged(self, position: Position) -> None:
        """A checkpoint with this position of the split is durable. Called if the source ``acknowledges``."""

    def at_barrier(self, position: Position) -> Position:
        """The position as a checkpoint is to keep it: with what only a restore needs.

        Called at the end of each epoch with a barrier, also when nothing was read in it.
        """
        return position

    def close(self) -> None:
        """Let go of files and connections."""


class Connector(ABC):
    """What sources and sinks have in common."""

    def with_options(self, options: Mapping[str, str]) -> Self:
        """A connector like this one that knows the job's configuration.

        Args:
            options: the configuration's keys and values.
        """
        return self

    def check_before_start(self) -> None:
        """Raise when the job cannot work with it. Called before the job starts, after `with_options`."""


class Source(Connector):
    """A source: plans its splits on the driver, opens readers in the workers.

    Its attributes are set on the class or in ``__init__``, and stay as they are.

    Attributes:
        bounded: whether it ends. What does not end cannot run in BATCH mode, and its splits are read in turn.
        parallel: False: one subtask reads it, whatever the parallelism asked for.
        output_type: declared type of the elements; None for an undeclared one.
        timed: whether elements come with timestamps, see `Range`.
        replayable: False when what was read once may be gone, as from a queue. Such a source promises less: after a restore
            its reader gives each element that the checkpoint does not cover, in whatever order. Replays are refused.
        acknowledges: whether readers are told which positions are durable, by `SplitReader.acknowledged`.
        watermarks_by_split: whether a watermark strategy right after the source watches each split for itself: the watermark
            is the smallest over the splits that are not idle.
        bad_tag: id of the side output that ``Range.aside`` sends records to, which ``get_side_output()`` finds; or None.
    """

    bounded: bool = False
    parallel: bool = True
    output_type: TypeInformation | None = None
    timed: bool = False
    replayable: bool = True
    acknowledges: bool = False
    watermarks_by_split: bool = False
    bad_tag: str | None = None

    @abstractmethod
    def splits(self, parallelism: int) -> list[Split]:
        """The splits, planned once on the driver when the job starts from nothing."""

    @abstractmethod
    def reader(self, split: Split) -> SplitReader:
        """A reader of the split, in the worker. Only the split's id says which: its start may be None."""

    def job_ended(self) -> None:
        """Called on the driver when the job has ended, however it did."""


class DiscoveringSource(Source):
    """A source that finds new splits while the job runs. If it isn't bounded it never ends, even with all splits read.

    Attributes:
        discovery_interval_ms: between two looks; None for none.
    """

    discovery_interval_ms: int | None = None

    @abstractmethod
    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """Splits that are new, on the driver between two epochs.

        Args:
            known: split id to (position, finished), of every split so far.
        """

    def start_of(self, split: str, position: Position) -> Position | None:
        """Where the reading of a split began that `discover` found; a replay of checkpoints in which it came needs that.

        Args:
            split: its id.
            position: one that was given out for it.

        Returns:
            Its position then; None where nobody knows it any more.
        """
        return None


class SourceOfParts(Source):
    """A source that is several, which are read one after the other.

    A part begins when all splits of the part before have ended. Its first splits go into a checkpoint before anything of
    them is read, so that what was decided then, such as where the end of a topic is, stays as it is. While a part is read
    the engine goes by the part's members (``bounded``, ``watermarks_by_split``, ``acknowledges``, ``discover``), not by the
    source's, and a subtask that has no split in it waits for the next part with its watermark.

    Attributes:
        parts: at least one.
    """

    parts: Sequence[Source] = ()

    @abstractmethod
    def part_of(self, split: str) -> int:
        """The number of the part that a split belongs to. Of splits in the order in which they came it never falls."""

    @abstractmethod
    def begin(self, part: int, parallelism: int) -> list[Split]:
        """The first splits of a part, at least one; on the driver."""

    @abstractmethod
    def discover_in(self, part: int, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """As `DiscoveringSource.discover`, for a part that is one."""

    def splits(self, parallelism: int) -> list[Split]:
        return self.begin(0, parallelism)


def is_endless(source: Source) -> bool:
    """Whether new splits may come for ever, so that a job doesn't end even when all splits were read."""
    last = source.parts[-1] if isinstance(source, SourceOfParts) else source
    return not last.bounded and isinstance(last, DiscoveringSource)


class Writer(ABC):
    """Writes one subtask's elements: what the writers of all sinks have in common."""

    @abstractmethod
    def write(self, values: Sequence[Any]) -> None:
        """Take the elements of part of an epoch, in order."""

    def write_timed(self, values: Sequence[Any], timestamps: Sequence[int] | None, watermark: int) -> None:
        """Take the elements of part of an epoch with their times: this is what the engine calls.

        Args:
            values: in order.
            timestamps: ms for each, or None for elements without.
            watermark: ms, as it stands before them.
        """
        self.write(values)

    def close(self) -> None:
        """Let go of files and connections."""


class SinkWriter(Writer):
    """Writes one subtask's elements, at least once."""

    @abstractmethod
    def flush(self) -> None:
        """End of an epoch: what was written must have left the process."""


class AnySink(Connector):
    """What all sinks have in common. A sink of one's own is a `Sink` or a `CommittingSink`.

    Attributes:
        goes_along: it needs no subtasks of its own: behind a union it runs in the stage of each stream.
        collects: it brings the elements to the driver.
    """

    goes_along = False
    collects = False

    def for_type(self, type_info: TypeInformation | None) -> Self:
        """A sink like this one for a stream's elements.

        Args:
            type_info: their declared type; None for an undeclared one.
        """
        return self


class Sink(AnySink):
    """A sink: opens writers in the workers."""

    @abstractmethod
    def writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """A writer for one subtask."""


class Prepared(NamedTuple):
    """What a writer made durable at a checkpoint's barrier. Both parts are small JSON values that the checkpoint keeps.

    Args:
        committables: what is to be committed once the checkpoint is.
        state: what a writer needs to go on after a restore, such as the file it was writing and how much of it counts.
    """

    committables: Sequence[Committable] = ()
    state: Any = None


class RestoredSink(NamedTuple):
    """What one subtask's writer had prepared in the checkpoint that the job is restored from.

    Args:
        subtask: whose it was; the parallelism may have been another.
        prepared: what it was. Its committables may have been committed already, or not.
    """

    subtask: int
    prepared: Prepared


class SinkContext(NamedTuple):
    """Where a committing writer stands.

    Args:
        job: name of the job.
        uid: of the sink's operator, which is stable over the job's runs.
        subtask, parallelism: which writer of how many.
        run: unique id of this run of the job.
        attempt: the attempt; it grows with each restart and each run of a job with checkpoints.
        checkpoints: False when the job makes none: all is committed when the input ends.
        restored: what the writers before had prepared. Every one of theirs is given to exactly one writer: that of subtask
            n % parallelism, n being theirs.
        folder: stands for the job's folder, where it lies: the same for all runs that go on from each other, another for
            forks and copies. "" for a job without checkpoints.
        branches: earlier attempts of which there are checkpoints that this attempt does not go on from. They may be restored
            later, so what they had prepared must stay.
        beside: what the other writers take over; None where nobody says so, as to a writer that takes the place of one that
            was lost in the middle of an attempt.
    """

    job: str
    uid: str
    subtask: int
    parallelism: int
    run: str
    attempt: int
    checkpoints: bool
    restored: Sequence[RestoredSink]
    folder: str = ""
    branches: frozenset[int] = frozenset()
    beside: Sequence[RestoredSink] | None = ()


class CommittingWriter(Writer):
    """Writes one subtask's elements exactly once.

    The order of calls: ``write_timed``; at a barrier ``prepare``; when that checkpoint is durable ``commit``, before
    anything is written again. A checkpoint that failed is followed by another ``prepare`` without ``commit``: its
    committables are given with the next ``commit`` as well. ``close`` takes back what was not prepared; what was prepared
    stays as it is.
    """

    def end_epoch(self) -> None:
        """The end of an epoch, with a barrier or without; time for what hangs on time."""

    @abstractmethod
    def prepare(self, final: bool) -> Prepared:
        """A barrier: make everything written durable, visible to nobody.

        Args:
            final: the job ends with this checkpoint.
        """

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> None:
        """The checkpoint is durable: show what was prepared.

        A second call with the same committables, by any writer of any later run, changes nothing. It may come while the
        first one is under way: a writer whose job has failed or is rescaled may still be at it when another takes its place.
        """


class CommittingSink(AnySink):
    """A sink that writes exactly once, by two phases."""

    @abstractmethod
    def committing_writer(self, context: SinkContext) -> CommittingWriter:
        """A writer for one subtask. It begins with committing what the writers before it had prepared."""

    def commit_all(self, context: SinkContext, committables: Sequence[Committable]) -> None:
        """One commit for all subtasks, for systems in which one commit shows the output of all.

        Called on the driver once a checkpoint is durable, before the writers' own ``commit``, and again after a restore.

        Args:
            context: with subtask -1; `restored` is empty but after a restore, where it is what the committables are of.
            committables: of all subtasks, at least one.
        """
