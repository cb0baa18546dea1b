"""The operators of a job as they are now, out of the newest checkpoint's row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.event_time import has_ended, moment_of
from changelog_engine.readable import iso, per_second, size_text


class OperatorNow(NamedTuple):
    """An operator as it is drawn.

    Args:
        share: of the stages' work in the last checkpoint, if it begins a stage.
        slowest: whether it is the one that the others waited for.
        entries, bytes: of its state; None where not known.
        watermark: epoch milliseconds; None for none.
        records, behind: of a source: read in a second; known to wait.
    """

    uid: str
    name: str
    kind: str
    parallelism: int
    share: float | None
    slowest: bool
    mutations: float | None
    entries: int | None
    bytes: int | None
    watermark: int | None
    ended: bool
    records: float | None
    behind: int | None

    @property
    def tip(self) -> str:
        """All that is known of it; its box has room for a part."""
        lines = [self.name, f"uid {self.uid}"]
        if self.behind is not None:
            lines.append(f"{self.behind:,} elements behind")
        if self.mutations is not None:
            lines.append(f"{per_second(self.mutations)} mutations/s")
        if self.bytes is not None:
            lines.append(f"state {size_text(self.bytes)}")
        if self.ended:
            lines.append("input ended")
        elif self.watermark is not None:
            lines.append(f"watermark {iso(self.watermark)} UTC")
        return "\n".join(lines)


def operators_now(checkpoint: Checkpoint, marked: bool) -> list[OperatorNow]:
    """The operators of a checkpoint, in the plan's order; if ``marked``, with a mark on the slowest."""
    figures = checkpoint.figures
    stages: Mapping[str, Sequence[Any]] = figures.get("stages", {})
    busy = {uid: float(stage[0]) for uid, stage in stages.items()}
    total = sum(busy.values())
    slowest = max(busy, key=busy.__getitem__, default=None) if total > 0 and marked else None
    seconds = float(figures.get("elapsed_ms") or 0) / 1000
    found = []
    for operator in checkpoint.operators:
        uid = operator.uid
        mutations = figures.get("mutations", {}).get(uid)
        source: Sequence[Any] | None = figures.get("sources", {}).get(uid)
        sizes = figures.get("sizes", {}).get(uid)
        mark = stages[uid][1] if uid in stages else None if source is None else source[2]
        found.append(
            OperatorNow(
                uid,
                operator.name,
                operator.kind,
                operator.parallelism,
                busy[uid] / total if uid in busy and total else None,
                uid == slowest,
                sum(mutations.values()) / seconds if mutations is not None and seconds else None,
                *_size(sizes),
                moment_of(mark),
                has_ended(mark),
                float(source[0]) / seconds if source is not None and seconds else None,
                None if source is None else source[1],
            )
        )
    return found


def _size(sizes: Mapping[str, Sequence[int | None]] | None) -> tuple[int | None, int | None]:
    if not sizes:
        return None, None
    entries, size = ([each[index] for each in sizes.values()] for index in (0, 1))
    return (
        None if None in entries else sum(each or 0 for each in entries),
        None if None in size else sum(each or 0 for each in size),
    )
