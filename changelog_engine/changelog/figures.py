"""What a job did between two checkpoints, as the later one's row has it: for people, restores do not read it."""

from __future__ import annotations

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
