"""What must stay: which checkpoints can be asked for, and which snapshots and log rows these need.

Invariants:
    * Every checkpoint whose row stays can be restored from the snapshots and parts that stay.
    * The checkpoint that the job goes on from, and the newest id there ever was, stay whatever the settings say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from changelog_engine.changelog.model import Segment
from changelog_engine.changelog.part_selection import on_lineage
from changelog_engine.checkpoint.lineage import Lineage
from materializer.snapshot_plan import newest_point

_SPREAD = 1.25  # a snapshot goes when the one before it is at most so many times older than the one after it


class Retention(NamedTuple):
    """What truncation keeps.

    Args:
        history_ms: checkpoints, mutations and state of so long stay; 0: none but what a restore needs.
        retained: so many checkpoints of the newest attempt's lineage can be restored.
        grace_ms: how long a file stays on the disk after it left the table, for those who read it.
    """

    history_ms: int = 7 * 86_400_000
    retained: int = 1
    grace_ms: int = 300_000


class Needed(NamedTuple):
    """What stays.

    Args:
        log: runs of checkpoints whose mutations stay.
        checkpoints: ids whose rows stay.
        attempts: whose rows stay.
        snapshots: (checkpoint, attempt) of those that stay.
        settled: mutations up to this checkpoint are of use to the history only, and may be merged.
    """

    log: frozenset[Segment]
    checkpoints: frozenset[int]
    attempts: frozenset[int]
    snapshots: frozenset[tuple[int, int]]
    settled: int

    def logs(self, attempt: int, checkpoint: int) -> bool:
        """Whether the mutations of a checkpoint stay."""
        return on_lineage(self.log, attempt, checkpoint)

    def logs_any(self, first: int, last: int) -> bool:
        """Whether mutations of any of these checkpoints stay."""
        return any(run.first <= last and run.last >= first for run in self.log)


def needed(
    lineage: Lineage,
    snapshots: Iterable[tuple[int, int]],
    retention: Retention,
    protected: set[int],
    protected_snapshots: set[int],
    now_ms: int,
) -> Needed:
    """Decide what stays.

    Args:
        lineage: checkpoints and attempts there are.
        snapshots: (checkpoint, attempt) of complete snapshots.
        retention: the settings.
        protected: checkpoints that somebody copies.
        protected_snapshots: checkpoints whose snapshots somebody copies.
        now_ms: epoch milliseconds.
    """
    there = set(snapshots)
    chains = _Chains(lineage)
    singles = {id for id in protected if id in lineage.checkpoints}
    newest = newest_point(lineage)
    line = () if newest is None else newest.lineage
    own = [id for id in sorted(lineage.checkpoints, reverse=True) if _holds(line, lineage, id)]
    singles.update(own[: retention.retained])
    if lineage.checkpoints:
        singles.add(lineage.newest_checkpoint_id)
    history = _history(lineage, retention, now_ms)
    snapshot_times = {pair: _time_of(lineage, pair) for pair in there}
    kept = {pair for pair in there if pair[0] in protected_snapshots}
    kept |= _spread(snapshot_times, history, now_ms)
    for point in singles | {first for first, _ in history.values()}:
        base = _base(there, chains.of(point))
        if base is not None:
            kept.add(base)
    log: set[Segment] = set()
    for point in singles:
        log |= _after(_base(kept, chains.of(point)), chains.of(point))
    for attempt, (first, last) in history.items():
        log |= _after(_base(kept, chains.of(first)), chains.of(last))
        log.add(Segment(attempt, first, last))
    rows = singles | {id for id, _ in kept}
    rows |= {entry.id for entry in lineage.checkpoints.values() if on_lineage(log, entry.attempt, entry.id)}
    rows &= set(lineage.checkpoints)
    attempts = {lineage.checkpoints[id].attempt for id in rows} | {lineage.newest_attempt_id}
    on_line = sorted(id for id, attempt in kept if on_lineage(line, attempt, id))
    settled = on_line[-2] if len(on_line) > 1 else 0
    return Needed(frozenset(log), frozenset(rows), frozenset(attempts), frozenset(kept), settled)


class _Chains:
    """Lineages of checkpoints: within an attempt each is the beginning of its newest checkpoint's."""

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._newest: dict[int, int] = {}
        for entry in lineage.checkpoints.values():
            self._newest[entry.attempt] = max(self._newest.get(entry.attempt, 0), entry.id)
        self._read: dict[int, tuple[Segment, ...]] = {}

    def of(self, checkpoint: int) -> tuple[Segment, ...]:
        """The lineage of a checkpoint."""
        attempt = self._lineage.checkpoints[checkpoint].attempt
        if attempt not in self._read:
            self._read[attempt] = self._lineage.checkpoint(self._newest[attempt]).lineage
        return tuple(
            segment._replace(last=min(segment.last, checkpoint))
            for segment in self._read[attempt]
            if segment.first <= checkpoint
        )


def _holds(line: tuple[Segment, ...], lineage: Lineage, checkpoint: int) -> bool:
    return on_lineage(line, lineage.checkpoints[checkpoint].attempt, checkpoint)


def _history(lineage: Lineage, retention: Retention, now_ms: int) -> dict[int, tuple[int, int]]:
    """Attempt -> its first and last checkpoint within the history; the one before the window's beginning belongs to it."""
    if not retention.history_ms:
        return {}
    begin = now_ms - retention.history_ms
    found: dict[int, tuple[int, int]] = {}
    before: dict[int, int] = {}
    for entry in lineage.checkpoints.values():
        if entry.time_ms >= begin:
            first, last = found.get(entry.attempt, (entry.id, entry.id))
            found[entry.attempt] = (min(first, entry.id), max(last, entry.id))
        else:
            before[entry.attempt] = max(before.get(entry.attempt, 0), entry.id)
    if before and max(before.values()) < min((first for first, _ in found.values()), default=1 << 62):
        attempt = max(before, key=lambda attempt: before[attempt])
        first, last = found.get(attempt, (before[attempt], before[attempt]))
        found[attempt] = (min(before[attempt], first), last)
    return found


def _time_of(lineage: Lineage, snapshot: tuple[int, int]) -> int:
    entry = lineage.checkpoints.get(snapshot[0])
    return entry.time_ms if entry is not None and entry.attempt == snapshot[1] else 0


def _spread(
    times: dict[tuple[int, int], int], history: dict[int, tuple[int, int]], now_ms: int
) -> set[tuple[int, int]]:
    """Snapshots that make old states quick to reach: the two newest, and ever fewer the older they are."""
    within = [
        pair for pair in sorted(times, reverse=True)
        if times[pair] and any(first <= pair[0] <= last for first, last in history.values())
    ]  # fmt: skip
    kept = list(within[-1:])  # from the oldest on, so that each neighbour that stays is known
    for pair, newer in zip(reversed(within[2:-1]), reversed(within[1:-2]), strict=True):
        if now_ms - times[kept[-1]] > _SPREAD * (now_ms - times[newer]):
            kept.append(pair)
    return {*kept, *within[:2]}


def _base(snapshots: set[tuple[int, int]], line: tuple[Segment, ...]) -> tuple[int, int] | None:
    return max((s for s in snapshots if on_lineage(line, s[1], s[0])), default=None)


def _after(base: tuple[int, int] | None, line: tuple[Segment, ...]) -> set[Segment]:
    """The runs of a lineage after a snapshot."""
    start = 0 if base is None else base[0]
    return {segment._replace(first=max(segment.first, start + 1)) for segment in line if segment.last > start}
