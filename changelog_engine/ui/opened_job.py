"""What the page remembers of a job between two requests, so that a step of the slider reads nothing again.

Invariant: what is remembered is a cache: the log is asked whether it has a newer version before anything of it is shown.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.segments import on_lineage
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.graph.descriptions import states_of
from changelog_engine.inspection.moments import StateOverTime
from changelog_engine.inspection.points import open_ledger
from changelog_engine.inspection.timeline import CheckpointRow, Timeline
from changelog_engine.ledger.attempt_notes import AttemptNote, note_file
from changelog_engine.ledger.job_path import open_changelog, open_job
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.ownership import driver_of
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.ui.tree import Tree, build_tree

_MOST_STATES = 3  # in memory, of all jobs
_MOST_DETAILS = 20_000


class Detail(NamedTuple):
    """What a checkpoint's row says besides its times.

    Args:
        rows_are: what they are, in words.
        rate: elements read from sources in a second since the one before; mutations where its engine did not count elements;
            None where there is none before it.
    """

    duration_ms: int
    rows: int
    rows_are: str
    bytes: int
    rate: float | None


class OpenedJob:
    """A job as its log was when it was looked at last."""

    def __init__(self, path: str) -> None:
        folder = open_job(path)
        self.root, self.name = folder.storage.root, folder.name
        self.lock = threading.RLock()
        self._details: dict[int, Detail] = {}
        self.notes: dict[int, AttemptNote] = {}  # of attempts of which nothing more will be noted
        self._load()

    def _load(self) -> None:
        self.table = open_changelog(self.root).table_id()
        self.timeline = Timeline(self.root, self.notes)
        self.rows: list[CheckpointRow] = self.timeline.checkpoints()
        self.tree: Tree = build_tree(
            [row.id for row in self.rows],
            [row.attempt for row in self.rows],
            [row.parent for row in self.rows],
        )
        self.ledger: Ledger = self.timeline.ledger
        self._ends = self._attempts_end()
        self.version = self.ledger.lineage.version

    def refresh(self) -> None:
        """Look whether there is more."""
        with self.lock:
            log = open_changelog(self.root)
            if log.table_id() != self.table:  # the folder was made anew
                self._details.clear()
                self.notes = {}
                self._load()
            elif log.version != self.version or self._attempts_end() != self._ends:
                self._load()

    def _attempts_end(self) -> object:
        """Changes when the newest attempt ends: no commit tells of that."""
        newest = note_file(self.ledger.lineage.newest_attempt_id)
        return driver_of(open_job(self.root)).running, self.ledger.storage.stamp(newest)

    def states(self, place: int) -> list[tuple[str, str]]:
        """Operators and states of a checkpoint; none where its row can't be read."""
        with self.lock:
            found = self.ledger.lineage.readable([self.rows[place].id], self.timeline.lost)
        return [name for checkpoint in found.values() for name in states_of(checkpoint.operators)]

    def checkpoint(self, at: str | int | None) -> Checkpoint:
        """A moment."""
        with self.lock:
            return checkpoint_at(self.ledger.lineage, at)

    def details(self, places: Sequence[int]) -> list[Detail | None]:
        """Durations and sizes of checkpoints; None where a row can't be read, which ``timeline.lost`` has then."""
        found: list[Detail | None] = []
        with self.lock:
            if len(self._details) > _MOST_DETAILS:
                self._details.clear()
            for place in places:
                row = self.rows[place]
                if row.id not in self._details:
                    before = (
                        self.rows[place - 1]
                        if place and self.rows[place - 1].attempt == row.attempt
                        else None
                    )
                    read = self.ledger.lineage.readable([row.id], self.timeline.lost).get(row.id)
                    if read is None:
                        found.append(None)
                        continue
                    self._details[row.id] = Detail(
                        read.duration_ms,
                        read.rows,
                        read.rows_are,
                        read.bytes,
                        rate_of(read, None if before is None else before.time_ms),
                    )
                found.append(self._details[row.id])
        return found

    def tip(self, checkpoint: Checkpoint) -> Checkpoint:
        """The end of the branch that a moment is on: the newest checkpoint's where that has it."""
        with self.lock:
            lineage = self.ledger.lineage
            ends = lineage.newest_checkpoint_id, lineage.checkpoints.newest_of(checkpoint.attempt)
            for end in lineage.readable([each for each in ends if each], self.timeline.lost).values():
                if on_lineage(end.lineage, checkpoint.attempt, checkpoint.id):
                    return end
            return checkpoint


def rate_of(checkpoint: Checkpoint, since_ms: int | None) -> float | None:
    """Elements, or mutations, in a second; see ``Detail``.

    Args:
        checkpoint: with its figures, where its engine noted some.
        since_ms: when the checkpoint before it was.
    """
    elapsed = checkpoint.figures.get("elapsed_ms")
    if elapsed and "records_in" in checkpoint.figures:
        return 1000 * float(checkpoint.figures["records_in"]) / float(elapsed)
    if since_ms is None or checkpoint.time_ms <= since_ms:
        return None
    return 1000 * checkpoint.rows / (checkpoint.time_ms - since_ms)


class States:
    """States over time, the last few that were asked for.

    While one is read, others can be asked for, and so can the rest of the page: it is read from a ledger of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str, str], _Kept] = OrderedDict()

    def get(self, job: OpenedJob, checkpoint: Checkpoint, operator: str, state: str) -> StateOverTime:
        """A state on the branch of a moment; one that is remembered if it covers the moment."""
        name = (job.table, job.root, operator, state)
        with self._lock:
            kept = self._kept.setdefault(name, _Kept())
            self._kept.move_to_end(name)
            while len(self._kept) > _MOST_STATES:
                self._kept.popitem(last=False)
        with kept.lock:
            found = next((each for each in kept.states if each.covers(checkpoint)), None)
            if found is None:
                tip = job.tip(checkpoint)
                # As little as the moment needs; all of the branch once an earlier one is asked for.
                since = None if any(each.tip.id == tip.id for each in kept.states) else checkpoint
                # One that ends where this one goes on is of no use any more.
                kept.states = [
                    each for each in kept.states if not on_lineage(tip.lineage, each.tip.attempt, each.tip.id)
                ][-1:]
                ledger = open_ledger(job.root)
                try:
                    found = StateOverTime(ledger, tip, operator, state, since)
                except CorruptChangelogError:  # an older snapshot may do
                    found = StateOverTime(ledger, tip, operator, state)
                if not found.covers(checkpoint):  # the log between it and the tip is not whole any more
                    found = StateOverTime(ledger, checkpoint, operator, state)
                kept.states.append(found)
            return found


class _Kept:
    """A state on up to two branches."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.states: list[StateOverTime] = []
