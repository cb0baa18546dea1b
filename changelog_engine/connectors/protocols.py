"""What a source and a sink promise the engine.

A source is cut into splits; a reader reads one split, range by range. Positions are small JSON values (int,
str, list or dict) that a checkpoint keeps. Reading again from a position gives the same elements in the same
order: that is what makes the job's result exact after a crash.

A sink writes. A committing sink does so exactly once, in two phases: what was written is made durable before a
checkpoint's commit, under names that the checkpoint keeps, and shown to the world after it.

Sources and sinks are pickled and shipped; they hold no open files. Readers and writers live in one worker process
and are used by one thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from changelog_engine.types import TypeInformation

Position = Any
Committable = Any  # JSON: names what is prepared and not yet committed, such as a file or a transaction


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


class SplitReader(Protocol):
    """Reads one split. `read` may be called with any position that was given out before.

    Three members more are optional. ``watermark``: an int in ms, or None, looked at after each read: no element at or before
    it will follow (for sources of one split). ``begin_epoch(durable)``: called before the first read of each epoch;
    ``durable`` says that what was read before is part of a checkpoint at the end of this epoch, or that there are none.
    ``acknowledged(position)``: a checkpoint with this position of the split is durable; see `Source` for ``acknowledges``.
    """

    def read(self, position: Position, max_records: int) -> Range:
        """Return at most max_records elements from position on; fewer (or none) when no more are at hand."""

    def close(self) -> None:
        """Let go of files and connections."""


@runtime_checkable
class Source(Protocol):
    """A source: plans its splits on the driver, opens readers in the workers.

    Members more are optional:
        * ``timed``: True when elements come with timestamps.
        * ``acknowledges``: True when readers have ``acknowledged``.
        * ``watermarks_by_split``: True when a watermark strategy right after the source watches each split for itself: the
          watermark is the smallest over the splits that are not idle.
        * ``discovery_interval_ms`` and ``discover(known)``: see `DiscoveringSource`.
        * ``with_options(entries)``: a source like this one that knows the configuration. Sinks may have it too.
        * ``check_before_start()``: raises when the job cannot work, before it starts. Sinks may have it too.
        * ``job_ended()``: on the driver, when the job has ended, however it did.
    """

    bounded: bool
    parallel: bool  # False: one subtask whatever the parallelism asked for
    output_type: TypeInformation | None

    def splits(self, parallelism: int) -> list[Split]:
        """The splits, planned once on the driver when the job starts from nothing."""

    def reader(self, split: Split) -> SplitReader:
        """A reader of the split, in the worker."""


@runtime_checkable
class DiscoveringSource(Source, Protocol):
    """A source that finds new splits while the job runs. If it isn't bounded it never ends, even with all splits read."""

    discovery_interval_ms: int | None  # between two looks, in ms; None for none

    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """Splits that are new, on the driver between two epochs.

        Args:
            known: split id to (position, finished), of every split so far.
        """


@runtime_checkable
class SourceOfParts(Source, Protocol):
    """A source that is several, which are read one after the other.

    A part begins when all splits of the part before have ended. Its first splits go into a checkpoint before anything of
    them is read, so that what was decided then, such as where the end of a topic is, stays as it is. While a part is read
    the engine goes by the part's members (``bounded``, ``watermarks_by_split``, ``acknowledges``, ``discover``), not by the
    source's, and a subtask that has no split in it waits for the next part with its watermark.
    """

    parts: Sequence[Source]

    def part_of(self, split: str) -> int:
        """The number of the part that a split belongs to. Of splits in the order in which they came it never falls."""

    def begin(self, part: int, parallelism: int) -> list[Split]:
        """The first splits of a part, at least one; on the driver. Those of part 0 are what `splits` gives."""

    def discover_in(self, part: int, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """As `DiscoveringSource.discover`, for a part that has it."""


def is_endless(source: Any) -> bool:
    """Whether new splits may come for ever, so that a job doesn't end even when all splits were read."""
    last = source.parts[-1] if isinstance(source, SourceOfParts) else source
    return not getattr(last, "bounded", True) and hasattr(last, "discover")


class SinkWriter(Protocol):
    """Writes one subtask's elements.

    One member more is optional: ``write_timed(values, timestamps, watermark)``, called in place of ``write``;
    timestamps is None for elements without.
    """

    def write(self, values: Sequence[Any]) -> None:
        """Take the elements of part of an epoch, in order."""

    def flush(self) -> None:
        """End of an epoch: what was written must have left the process (at-least-once)."""

    def close(self) -> None:
        """Let go of files and connections."""


@runtime_checkable
class Sink(Protocol):
    """A sink: opens writers in the workers."""

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


class CommittingWriter(Protocol):
    """Writes one subtask's elements exactly once.

    The order of calls: ``write``; at a barrier ``prepare``; when that checkpoint is durable ``commit``, before anything is
    written again. A checkpoint that failed is followed by another ``prepare`` without ``commit``: its committables are
    given with the next ``commit`` as well. ``write_timed`` is optional, as for `SinkWriter`.
    """

    def write(self, values: Sequence[Any]) -> None:
        """Take the elements of part of an epoch, in order."""

    def end_epoch(self) -> None:
        """The end of an epoch without a barrier; time for what hangs on time."""

    def prepare(self, final: bool) -> Prepared:
        """A barrier: make everything written durable, visible to nobody.

        Args:
            final: the job ends with this checkpoint.
        """

    def commit(self, committables: Sequence[Committable]) -> None:
        """The checkpoint is durable: show what was prepared.

        A second call with the same committables, by any writer of any later run, changes nothing.
        """

    def close(self) -> None:
        """Let go of files and connections; take back what was not prepared. What was prepared stays as it is."""


@runtime_checkable
class CommittingSink(Protocol):
    """A sink that writes exactly once, by two phases.

    One member more is optional: ``commit_all(context, committables)``, called on the driver with the committables of all
    subtasks once their checkpoint is durable, before the writers' own ``commit``, and again after a restore. It is for
    systems in which one commit shows the output of all subtasks. Its context has subtask -1 and nothing restored.
    """

    def committing_writer(self, context: SinkContext) -> CommittingWriter:
        """A writer for one subtask. It begins with committing what the writers before it had prepared."""
