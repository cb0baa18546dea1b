"""What must stay: which checkpoints can be asked for, and which snapshots and log rows these need.

Invariants:
    * Every checkpoint whose row stays can be restored from the snapshots and parts that stay.
    * The checkpoint that the job goes on from, and the newest id there ever was, stay whatever the settings say.
    * Times are those that the rows of checkpoints have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from changelog_engine.changelog.model import CheckpointMark, Segment
from changelog_engine.changelog.row_files import Index, Numbers
from changelog_engine.changelog.segments import after, on_lineage, up_to
from changelog_engine.ledger.lineage import Lineage

Mask = npt.NDArray[np.bool_]

_SPREAD = 1.25  # a snapshot is removed when the one before it is at most this many times older than the one after it


class Retention(NamedTuple):
    """What truncation keeps.

    Args:
        history_ms: how long checkpoints, mutations and state stay; 0: none but what a restore needs.
        retained: how many checkpoints of the newest attempt's lineage can be restored.
        grace_ms: how long a file stays on the disk after it left the table, for those who read it.
    """

    history_ms: int = 7 * 86_400_000
    retained: int = 1
    grace_ms: int = 300_000


class Needed(NamedTuple):
    """What stays.

    Args:
        log: runs of checkpoints whose mutations and rows stay.
        singles: checkpoints whose rows stay besides.
        settled: mutations up to this checkpoint are of use to the history only, and may be merged.
    """

    log: frozenset[Segment]
    singles: frozenset[int]
    attempts: frozenset[int]
    snapshots: frozenset[CheckpointMark]
    settled: int

    def logs(self, mark: CheckpointMark) -> bool:
        """Whether the mutations of a checkpoint stay."""
        return on_lineage(self.log, mark.attempt, mark.checkpoint)

    def logs_any(self, first: int, last: int) -> bool:
        """Whether mutations of any of these checkpoints stay."""
        return any(run.first <= last and run.last >= first for run in self.log)

    def logged(self, attempts: Numbers, checkpoints: Numbers) -> Mask:
        """``logs`` of many."""
        return _within(self.log, attempts, checkpoints)

    def rows(self, index: Index) -> Mask:
        """Which rows of checkpoints stay."""
        single = np.isin(index.ids, np.fromiter(self.singles, np.int64))
        mask: Mask = single | self.logged(index.attempts, index.ids)
        return mask

    def attempt_rows(self, index: Index) -> Mask:
        """Which rows of attempts stay."""
        mask: Mask = np.isin(index.ids, np.fromiter(self.attempts, np.int64))
        return mask


def needed(
    lineage: Lineage,
    snapshots: Iterable[CheckpointMark],
    retention: Retention,
    protected: set[int],
    protected_snapshots: set[int],
    now_ms: int,
) -> Needed:
    """Decide what stays.

    Args:
        snapshots: complete ones.
        protected_snapshots: checkpoints whose snapshots somebody copies.
        now_ms: epoch milliseconds.
    """
    there = set(snapshots)
    index = lineage.checkpoints.index()
    chains = _Chains(lineage, index)
    singles = {id for id in protected if id in lineage.checkpoints}
    newest = lineage.newest_point()
    line = () if newest is None else newest.lineage
    own = index.ids[_within(line, index.attempts, index.ids)]
    singles.update(own[::-1][: retention.retained].tolist())
    if len(index.ids):
        singles.add(lineage.newest_checkpoint_id)
    history = _history(index, retention, now_ms)
    snapshot_times = {mark: _time_of(lineage, mark) for mark in there}
    kept = {mark for mark in there if mark.checkpoint in protected_snapshots}
    kept |= _spread(snapshot_times, history, now_ms)
    for point in singles | {first for first, _ in history.values()}:
        base = _base(there, chains.of(point))
        if base is not None:
            kept.add(base)
    log: set[Segment] = set()
    for point in singles:
        log |= _after(_base(kept, chains.of(point)), chains.of(point))
    begun = {mark for mark in kept if mark.checkpoint in protected_snapshots}
    for point in protected & singles:  # a copy goes by the snapshot that was there when it began, or by none
        chain = chains.of(point)
        if chain[0].first in lineage.checkpoints:
            log |= _after(None, chain)
        elif (base := _oldest(begun, chain)) is not None:
            log |= _after(base, chain)
    for attempt, (first, last) in history.items():
        log |= _after(_base(kept, chains.of(first)), chains.of(last))
        log.add(Segment(attempt, first, last))
    singles |= {id for id, _ in kept}
    on_line = sorted(id for id, attempt in kept if on_lineage(line, attempt, id))
    settled = on_line[-2] if len(on_line) > 1 else 0
    stays = Needed(frozenset(log), frozenset(singles), frozenset(), frozenset(kept), settled)
    attempts = {*np.unique(index.attempts[stays.rows(index)]).tolist(), lineage.newest_attempt_id}
    return stays._replace(attempts=frozenset(attempts))


class _Chains:
    """Lineages of checkpoints: within an attempt each is the beginning of its newest checkpoint's."""

    def __init__(self, lineage: Lineage, index: Index) -> None:
        self._lineage = lineage
        self._newest = {attempt: last for attempt, (_, last) in _runs(index.attempts, index.ids).items()}
        self._read: dict[int, tuple[Segment, ...]] = {}

    def of(self, checkpoint: int) -> tuple[Segment, ...]:
        """The lineage of a checkpoint."""
        attempt = self._lineage.checkpoints[checkpoint].attempt
        if attempt not in self._read:
            self._read[attempt] = self._lineage.checkpoint(self._newest[attempt]).lineage
        return up_to(self._read[attempt], checkpoint)


def _runs(attempts: Numbers, ids: Numbers) -> dict[int, tuple[int, int]]:
    """Attempt -> its first and last id; the ids ascend."""
    found, first = np.unique(attempts, return_index=True)
    _, from_end = np.unique(attempts[::-1], return_index=True)
    bounds = zip(ids[first].tolist(), ids[::-1][from_end].tolist(), strict=True)
    return dict(zip(found.tolist(), bounds, strict=True))


def _within(runs: Iterable[Segment], attempts: Numbers, checkpoints: Numbers) -> Mask:
    """``on_lineage`` of many."""
    mask: Mask = np.zeros(len(checkpoints), np.bool_)
    for run in runs:
        mask |= (attempts == run.attempt) & (checkpoints >= run.first) & (checkpoints <= run.last)
    return mask


def _history(index: Index, retention: Retention, now_ms: int) -> dict[int, tuple[int, int]]:
    """Attempt -> its first and last checkpoint within the history; the one before the window's beginning belongs to it."""
    if not retention.history_ms:
        return {}
    inside = index.times >= now_ms - retention.history_ms
    found = _runs(index.attempts[inside], index.ids[inside])
    before = index.ids[~inside]
    if len(before) and before[-1] < min((first for first, _ in found.values()), default=1 << 62):
        newest = int(before[-1])
        attempt = int(index.attempts[~inside][-1])
        found[attempt] = (newest, found.get(attempt, (newest, newest))[1])
    return found


def _time_of(lineage: Lineage, snapshot: CheckpointMark) -> int:
    entry = lineage.checkpoints.get(snapshot.checkpoint)
    rows = lineage.checkpoints
    return rows.time_of(entry) if entry is not None and entry.attempt == snapshot.attempt else 0


def _spread(
    times: dict[CheckpointMark, int], history: dict[int, tuple[int, int]], now_ms: int
) -> set[CheckpointMark]:
    """Snapshots that make old states quick to reach: the two newest, and ever fewer the older they are."""
    within = [
        mark for mark in sorted(times, reverse=True)
        if times[mark] and any(first <= mark.checkpoint <= last for first, last in history.values())
    ]  # fmt: skip
    kept = list(within[-1:])  # from the oldest on, so that each neighbour that stays is known
    for mark, newer in zip(reversed(within[2:-1]), reversed(within[1:-2]), strict=True):
        if now_ms - times[kept[-1]] > _SPREAD * (now_ms - times[newer]):
            kept.append(mark)
    return {*kept, *within[:2]}


def _base(snapshots: set[CheckpointMark], line: tuple[Segment, ...]) -> CheckpointMark | None:
    return max((mark for mark in snapshots if on_lineage(line, mark.attempt, mark.checkpoint)), default=None)


def _oldest(snapshots: set[CheckpointMark], line: tuple[Segment, ...]) -> CheckpointMark | None:
    return min((mark for mark in snapshots if on_lineage(line, mark.attempt, mark.checkpoint)), default=None)


def _after(base: CheckpointMark | None, line: tuple[Segment, ...]) -> set[Segment]:
    """The runs of a lineage after a snapshot."""
    return set(after(line, 0 if base is None else base.checkpoint))
