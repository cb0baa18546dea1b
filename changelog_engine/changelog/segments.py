"""A lineage as segments: what is on it, its ends at a checkpoint, and what two lineages have in common.

Segments are in the order of their ids. See ``changelog.model`` for what a lineage is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from changelog_engine.changelog.model import Segment


def extend(lineage: tuple[Segment, ...], attempt: int, checkpoint: int) -> tuple[Segment, ...]:
    """The lineage of a new checkpoint whose parent has this lineage.

    Example:
        >>> extend((Segment(1, 1, 4),), 1, 5)
        (Segment(attempt=1, first=1, last=5),)
        >>> extend((Segment(1, 1, 5),), 2, 8)
        (Segment(attempt=1, first=1, last=5), Segment(attempt=2, first=8, last=8))
    """
    if lineage and lineage[-1].attempt == attempt and lineage[-1].last == checkpoint - 1:
        return (*lineage[:-1], lineage[-1]._replace(last=checkpoint))
    return (*lineage, Segment(attempt, checkpoint, checkpoint))


def segment_of(lineage: Iterable[Segment], checkpoint: int) -> Segment | None:
    """The segment that a checkpoint is in, or None when it isn't on the lineage."""
    return next((s for s in lineage if s.first <= checkpoint <= s.last), None)


def on_lineage(segments: Iterable[Segment], attempt: int, checkpoint: int) -> bool:
    """Whether an attempt's checkpoint is on a lineage, or on one of several whose segments are given."""
    return any(s.attempt == attempt and s.first <= checkpoint <= s.last for s in segments)


def ids_after(lineage: Iterable[Segment], checkpoint: int = 0) -> Iterator[int]:
    """The ids of the lineage's checkpoints after this one, in order; of all by default."""
    for segment in after(lineage, checkpoint):
        yield from range(segment.first, segment.last + 1)


def last_of(lineage: Sequence[Segment]) -> int:
    """The lineage's last checkpoint; 0 for none."""
    return lineage[-1].last if lineage else 0


def before(lineage: Sequence[Segment], checkpoint: int) -> int:
    """The newest checkpoint of the lineage before this one; 0 for none."""
    return last_of(up_to(lineage, checkpoint - 1))


def up_to(lineage: Iterable[Segment], checkpoint: int) -> tuple[Segment, ...]:
    """The lineage cut off after a checkpoint.

    Example:
        >>> up_to((Segment(1, 1, 4), Segment(2, 7, 9)), 3)
        (Segment(attempt=1, first=1, last=3),)
    """
    return tuple(s._replace(last=min(s.last, checkpoint)) for s in lineage if s.first <= checkpoint)


def after(lineage: Iterable[Segment], checkpoint: int) -> tuple[Segment, ...]:
    """The lineage cut off up to a checkpoint.

    Example:
        >>> after((Segment(1, 1, 4), Segment(2, 7, 9)), 3)
        (Segment(attempt=1, first=4, last=4), Segment(attempt=2, first=7, last=9))
    """
    return tuple(s._replace(first=max(s.first, checkpoint + 1)) for s in lineage if s.last > checkpoint)


def common(one: Sequence[Segment], other: Sequence[Segment]) -> tuple[Segment, ...]:
    """The checkpoints with which two lineages begin alike."""
    shared: list[Segment] = []
    for mine, theirs in zip(one, other, strict=False):
        if mine[:2] != theirs[:2]:
            break
        shared.append(mine._replace(last=min(mine.last, theirs.last)))
        if mine.last != theirs.last:
            break
    return tuple(shared)
