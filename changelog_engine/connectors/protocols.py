"""What a source and a sink promise the engine.

A source is cut into splits; a reader reads one split, range by range. Positions are small JSON values (int,
str, list or dict) that a checkpoint keeps. Reading again from a position gives the same elements in the same
order: that is what makes the job's result exact after a crash. Sources and sinks are pickled and shipped; they
hold no open files. Readers and writers live in one worker process and are used by one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from changelog_engine.types import TypeInformation

Position = Any


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
    """

    values: Sequence[Any]
    next: Position
    finished: bool
    timestamps: Sequence[int] | None = None


class SplitReader(Protocol):
    """Reads one split. `read` may be called with any position that was given out before.

    Two members more are optional. ``watermark``: an int in ms, or None, looked at after each read: no element at or before
    it will follow (for sources of one split). ``begin_epoch(durable)``: called before the first read of each epoch;
    ``durable`` says that what was read before is part of a checkpoint at the end of this epoch, or that there are none.
    """

    def read(self, position: Position, max_records: int) -> Range:
        """Return at most max_records elements from position on; fewer (or none) when no more are at hand."""

    def close(self) -> None:
        """Let go of files and connections."""


@runtime_checkable
class Source(Protocol):
    """A source: plans its splits on the driver, opens readers in the workers."""

    bounded: bool
    parallel: bool  # False: one subtask whatever the parallelism asked for
    output_type: TypeInformation | None

    def splits(self, parallelism: int) -> list[Split]:
        """The splits, planned once on the driver when the job starts from nothing."""

    def reader(self, split: Split) -> SplitReader:
        """A reader of the split, in the worker."""


class SinkWriter(Protocol):
    """Writes one subtask's elements."""

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
