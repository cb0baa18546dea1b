"""What a job did between two checkpoints, as the later one's row has it: for people, restores do not read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

Watermark = int | None  # epoch milliseconds; None before the first


class CorrectionNote(TypedDict, total=False):
    """Who made the mutations of a checkpoint, and why, where a person did; see ``changelog_engine.corrections``."""

    who: str
    why: str
    entries: int
    of: str


class Figures(TypedDict, total=False):
    """The field ``figures`` of a checkpoint's row; docs/table-format.md has the meaning of each.

    Any of them may be missing: an older engine wrote none, and a newer one may write others. What is a tuple here was a list
    in JSON.
    """

    elapsed_ms: int
    epochs: int
    records_in: int
    records_out: int
    times_ms: dict[str, float]
    mutations: dict[str, dict[str, int]]
    sizes: dict[str, dict[str, tuple[int | None, int | None]]]
    sources: dict[str, tuple[int, int | None, Watermark]]
    stages: dict[str, tuple[float, Watermark]]
    restarts: int
    correction: CorrectionNote


_STORAGE, _WORK = ("write", "commit"), ("read", "process", "encode")  # parts of an epoch's time
_MUCH = 0.3  # of the time: less of it holds nobody up


def storage_share(times_ms: Mapping[str, float], elapsed_ms: float) -> float | None:
    """The storage's share of the time, where the job waits for it more than for all its operators; else None.

    Args:
        times_ms: parts of epochs' time; those of ``Figures``, say.
    """
    storage, work = (sum(times_ms.get(part, 0.0) for part in parts) for parts in (_STORAGE, _WORK))
    total = sum(times_ms.values())
    return storage / total if storage > max(work, _MUCH * total, _MUCH * elapsed_ms) else None
