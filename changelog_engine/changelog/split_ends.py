"""How far the splits of sources were read: as subtasks report it, and as a checkpoint's row keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict


class SplitEnd(NamedTuple):
    """Where the reading of a split came to."""

    position: Any  # small JSON, as its reader gave it: the reading goes on there
    finished: bool = False  # whether the split will never have more


SplitEnds = dict[str, SplitEnd]  # by the splits' ids
EpochEnds = list[tuple[int, SplitEnds]]  # number of an epoch, and the splits that moved in it


class _EndsAndWatermark(TypedDict):
    ends: EpochEnds
    watermark: int  # that readers gave


KeptSource = EpochEnds | _EndsAndWatermark
"""What the small state of a subtask has of a source that it reads.

A replay needs to know where all epochs since the checkpoint before have ended. Where the last one did, stands in the row's
own field.
"""


def split_ends(document: Mapping[str, Sequence[Any]]) -> SplitEnds:
    """What a row says of the splits of a source."""
    return {split: SplitEnd(position, finished) for split, (position, finished) in document.items()}


def ends_of(kept: KeptSource | None) -> EpochEnds:
    """Where epochs ended; none where nothing was kept."""
    ends = kept["ends"] if isinstance(kept, dict) else kept or []
    return [(number, split_ends(moved)) for number, moved in ends]


def with_ends(kept: KeptSource, ends: EpochEnds) -> KeptSource | None:
    """The same with other ends of epochs; None for nothing."""
    return {**kept, "ends": ends} if isinstance(kept, dict) else ends or None
