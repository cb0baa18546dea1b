"""A job's attempts and checkpoints as a tree: what followed on what, and where it was killed, rewound and materialized.

Ids, attempts and times come from an index, so a hundred thousand merged checkpoints are listed without opening their rows;
sizes and durations are read for those that are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from changelog_engine.changelog.log_files import parse_row
from changelog_engine.changelog.model import Attempt, Checkpoint
from changelog_engine.changelog.row_files import Index
from changelog_engine.changelog.rows import ATTEMPT
from changelog_engine.config.numbers import whole_number
from changelog_engine.display import MOST_ROWS, Displayed, Document, Grid
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.graph.rescaling import in_words
from changelog_engine.inspection.points import open_ledger
from changelog_engine.inspection.ranges import range_of
from changelog_engine.ledger.attempt_notes import (
    FINISHED,
    RESCALED,
    STOPPED,
    AttemptFailure,
    AttemptNote,
    read_notes,
)
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.ownership import driver_of
from changelog_engine.ledger.points import At
from changelog_engine.ledger.read_again import read_again
from changelog_engine.readable import counted, iso
from changelog_engine.savepoints.folder import MARKER
from changelog_engine.storage.delta_actions import metadata_of
from changelog_engine.storage.delta_names import commit_path
from changelog_engine.storage.protocol import Storage

BEGAN, RESTORED, CONTINUED, REWOUND = "began", "restored", "continued", "rewound"
IMPORTED, FORKED, NOT_KNOWN = "imported", "forked", "not known"
ENDED, RUNNING = "killed or failed", "running"
FAILED, KILLED, CANCELLED = "failed", "killed", "cancelled"
UNTOLD = "killed or running"
NOT_RUN = "not run yet"
SAVEPOINT = "savepoint"
UNREADABLE = "its row can't be read"


@dataclass(frozen=True)
class AttemptRow:
    """One attempt: a run of checkpoints.

    Args:
        parent: the checkpoint it started from; None for empty.
        how: ``began`` (empty), ``restored`` (after a failure, from the newest checkpoint of the one before), ``continued``
            (likewise, after a stop or an end), ``rewound`` (to an earlier checkpoint, or another branch), ``imported`` (its
            first checkpoint came out of a savepoint), ``forked`` (the job was made with it, out of another; seen while the
            first commits of the log are kept), ``rescaled`` (the job went on with another parallelism; seen of one of the
            newest 50, restored else), ``not known`` (its row can't be read; what checkpoints and its note say is there).
        end: ``finished``, ``stopped``, ``rescaled`` (likewise), ``running``, ``failed`` (with an error), ``cancelled`` (at
            once, by somebody), ``killed`` (it left no error: as SIGKILL does, or a full disk), ``killed or running`` (the
            newest, which left none, and may run elsewhere: see ``ledger.ownership.Driver``), or ``killed or failed``,
            where nothing was noted of it; of a fork, ``forked`` (the other job's, up to the fork) and ``not run yet``;
            ``imported`` of one that only took a savepoint in, which runs nothing; ``savepoint`` in a savepoint of a
            checkpoint after which the job went on.
        first, last: its checkpoints that are there; None for none.
        time_ms, host, pid, engine: when, where and by what it began; None where its row can't be read.
        on_line: how many of them are on the newest checkpoint's lineage.
        failure: the error that ended it, of one of the newest 50; None for none.
        rescaled: such as ``2 -> 4``, of one that was rescaled; None for others.
    """

    attempt: int
    parent: int | None
    how: str
    end: str
    first: int | None
    last: int | None
    checkpoints: int
    on_line: int
    time_ms: int | None
    host: str | None
    pid: int | None
    engine: str | None
    failure: AttemptFailure | None = None
    rescaled: str | None = None


@dataclass(frozen=True)
class CheckpointRow:
    """One checkpoint.

    Args:
        id, attempt, parent: its number, whose it is, and the one before it; None where its lineage begins.
        time_ms: when its barrier was; None where its row can't be read.
        on_line: whether it is on the newest checkpoint's lineage.
        marks: what happened at it: how its attempt began, if it is the first; how it ended, if it is the last.
        lost: its row can't be read.
        duration_ms, rows, bytes, parts: of it; None where they were not asked for.
    """

    id: int
    attempt: int
    parent: int | None
    time_ms: int | None
    on_line: bool
    materialized: bool
    marks: tuple[str, ...]
    duration_ms: int | None = None
    rows: int | None = None
    bytes: int | None = None
    parts: int | None = None
    lost: bool = False


class Timeline(Displayed):
    """A job's attempts and checkpoints as they are now.

    Raises:
        StorageError, ForeignPathError, FormatVersionError: as ``ledger.job_path.open_changelog``.
        CorruptChangelogError: the list of files or the newest attempt's row can't be read.

    Attributes:
        ledger: the log that it was read from.
        newest: the newest checkpoint's id; None for none.
        lost, lost_attempts: checkpoints and attempts whose rows can't be read, and why; of a file of many rows the first.
            What is said of the others is right, but for ends and beginnings that only such a row has.
    """

    def __init__(self, path: str, known: dict[int, AttemptNote] | None = None) -> None:
        read_again(self._read)(path, known)

    def _read(self, path: str, known: dict[int, AttemptNote] | None) -> Timeline:
        self.ledger = open_ledger(path)
        lineage = self.ledger.lineage
        self.newest = lineage.newest_checkpoint_id or None
        self.lost: dict[int, CorruptChangelogError] = {}
        self.lost_attempts: dict[int, CorruptChangelogError] = {}
        self._index: Index = lineage.checkpoints.index(self.lost)
        ids = self._index.ids
        self._on_line = np.zeros(len(ids), bool)
        newest = None
        for number in reversed(ids.tolist()):
            newest = lineage.readable([number], self.lost).get(number)
            if newest is not None:
                break
        for attempt, first, last in () if newest is None else newest.lineage:
            self._on_line |= (self._index.attempts == attempt) & (ids >= first) & (ids <= last)
        if newest is not None:  # what can't be read behind it and is its attempt's
            self._on_line |= (self._index.attempts == newest.attempt) & (ids > newest.id)
        self._snapshots = {number for number, _ in self.ledger.snapshots.markers}
        self.attempts = tuple(
            _Attempts(
                open_job(path), self.ledger, self._index, self._on_line, known, self.lost, self.lost_attempts
            ).rows()
        )
        self._by_number = {row.attempt: row for row in self.attempts}
        firsts = lineage.readable([row.first for row in self.attempts if row.first is not None], self.lost)
        self._cut = {  # attempts whose first checkpoints were truncated: the first that is left did not begin them
            row.attempt
            for row in self.attempts
            if row.first in firsts and row.how != IMPORTED and firsts[row.first].parent != row.parent
        }
        return self

    @property
    def faults(self) -> list[str]:
        """What can't be read, in words."""
        return [*left_out(self.lost), *left_out(self.lost_attempts, "attempt")]

    def display(self) -> Document:
        attempts = [
            (
                str(each.attempt),
                None if each.time_ms is None else iso(each.time_ms),
                each.how if each.rescaled is None else f"{each.how} {each.rescaled}",
                None if each.parent is None else str(each.parent),
                _span(each),
                each.end,
            )
            for each in self.attempts
        ]
        rows = [
            (
                str(each.id),
                str(each.attempt),
                None if each.parent is None else str(each.parent),
                None if each.time_ms is None else iso(each.time_ms),
                ", ".join(
                    [
                        *each.marks,
                        *(["snapshot"] if each.materialized else []),
                        *([UNREADABLE] if each.lost else []),
                    ]
                ),
            )
            for each in self.checkpoints(limit=MOST_ROWS)
        ]
        count = len(self._index.ids)
        return Document(
            f"{counted(count, 'checkpoint')} in {counted(len(attempts), 'attempt')} of {self.ledger.storage.root}",
            self.faults,
            [
                Grid(("attempt", "began (UTC)", "how", "from", "checkpoints", "end"), attempts, newest=True),
                Grid(("checkpoint", "attempt", "after", "time (UTC)", "what"), rows, count, newest=True),
            ],
        )

    @property
    def ids(self) -> list[int]:
        """The checkpoints that are there, ascending."""
        found: list[int] = self._index.ids.tolist()
        return found

    def between(self, start: At = None, end: At = None) -> tuple[int | None, int | None]:
        """The lowest and the highest id between two points; None where there is no bound.

        Raises:
            RestoreError: as ``range_of``.
        """
        asked = range_of(self.ledger.lineage, start, end)
        ids, times = self._index.ids, self._index.times
        low = high = None
        if asked.start is not None:
            first = ids[times >= asked.start.time_ms][:1].tolist() or [int(ids[-1]) + 1 if len(ids) else 1]
            low = first[0] if asked.start.checkpoint is None else asked.start.checkpoint
        if asked.end is not None:
            last = ids[times <= asked.end.time_ms][-1:].tolist() or [0]
            high = last[0] if asked.end.checkpoint is None else asked.end.checkpoint
        return low, high

    def checkpoints(
        self,
        first: int | None = None,
        last: int | None = None,
        limit: int | None = None,
        *,
        details: bool = False,
    ) -> list[CheckpointRow]:
        """Checkpoints by id, ascending.

        Args:
            first: the lowest id; None for all.
            last: the highest id; None for all.
            limit: the most that are given, the newest of them; None for all.
            details: with durations and sizes, which reads their rows.

        Raises:
            ConfigurationError: ``limit`` is below 0.
        """
        ids = self._index.ids
        low = 0 if first is None else int(np.searchsorted(ids, first))
        high = len(ids) if last is None else int(np.searchsorted(ids, last, side="right"))
        if limit is not None:
            low = max(low, high - whole_number(limit, "limit", 0))
        return [self._row(place, details) for place in range(low, high)]

    def _row(self, place: int, details: bool) -> CheckpointRow:
        number, attempt = int(self._index.ids[place]), int(self._index.attempts[place])
        of = self._by_number.get(attempt)
        begins = attempt not in self._cut and (place == 0 or self._index.attempts[place - 1] != attempt)
        parent: int | None = None if place == 0 else int(self._index.ids[place - 1])
        marks = []
        if begins:
            parent = None if of is None or of.how == IMPORTED else of.parent
            marks.append(BEGAN if of is None else of.how)
        if of is not None and number == of.last and of.end not in (RUNNING, IMPORTED):
            marks.append(of.end)
        read = self.ledger.lineage.readable([number], self.lost).get(number) if details else None
        lost = number in self.lost
        row = CheckpointRow(
            number,
            attempt,
            parent,
            None if lost else int(self._index.times[place]),
            bool(self._on_line[place]),
            number in self._snapshots,
            tuple(marks),
            lost=lost,
        )
        if read is None:
            return row
        return replace(
            row,
            parent=read.parent,
            duration_ms=read.duration_ms,
            rows=read.rows,
            bytes=read.bytes,
            parts=read.parts,
        )


def _span(attempt: AttemptRow) -> str:
    """Which checkpoints an attempt has."""
    if attempt.first is None:
        return "none"
    return f"{attempt.first}" if attempt.last == attempt.first else f"{attempt.first} to {attempt.last}"


def left_out(lost: Mapping[int, CorruptChangelogError], kind: str = "checkpoint") -> list[str]:
    """Notes on checkpoints, or attempts, whose rows can't be read, which an answer says nothing more of."""
    return [f"{kind} {number} can't be read: {error}" for number, error in sorted(lost.items())]


class _Attempts:
    """The attempts of a job as rows.

    Args:
        on_line: which of them are on the newest one's lineage.
        known: notes of attempts that were read before.
        lost, lost_attempts: get the checkpoints and the attempts whose rows can't be read.
    """

    def __init__(
        self,
        job: JobFolder,
        ledger: Ledger,
        index: Index,
        on_line: npt.NDArray[np.bool_],
        known: dict[int, AttemptNote] | None,
        lost: dict[int, CorruptChangelogError],
        lost_attempts: dict[int, CorruptChangelogError],
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._on_line = on_line
        self._running = driver_of(job).running  # None where this machine cannot see it
        self._ended = SAVEPOINT if job.storage.exists(MARKER) else ENDED
        self._lost = lost
        self._read = ledger.lineage.readable_attempts(lost_attempts)
        self._numbers = sorted({*self._read, *lost_attempts, *index.attempts.tolist()})
        self._notes = read_notes(ledger.storage, self._numbers, known)
        self._forked = forked_attempt(ledger.storage)

    def rows(self) -> list[AttemptRow]:
        """One for each, oldest first."""
        found: list[AttemptRow] = []
        for number in self._numbers:
            found.append(self._row(number, found[-1] if found else None))
        return found

    def _row(self, number: int, before: AttemptRow | None) -> AttemptRow:
        attempt, note = self._read.get(number), self._notes.get(number)
        mine = self._index.attempts == number
        ids = self._index.ids[mine]
        ends = self._ledger.lineage.readable([int(each) for each in {*ids[:1], *ids[-1:]}], self._lost)
        first, last = (ends.get(int(each[0])) if len(each) else None for each in (ids[:1], ids[-1:]))
        how, end = _how(attempt, first, before), self._end(number, last, note)
        if end == ENDED:
            end = IMPORTED if how == IMPORTED and len(ids) == 1 else self._ended
        changes = in_words(note.rescaled) if note is not None and note.rescaled else None
        parent = attempt.parent if attempt is not None else None if first is None else first.parent
        return AttemptRow(
            number,
            parent,
            FORKED if number == self._forked else RESCALED if changes else how,
            end,
            int(ids[0]) if len(ids) else None,
            int(ids[-1]) if len(ids) else None,
            len(ids),
            int(self._on_line[mine].sum()),
            None if attempt is None else attempt.time_ms,
            None if attempt is None else attempt.host,
            None if attempt is None else attempt.pid,
            None if attempt is None else attempt.engine,
            None if note is None else note.failure,
            changes,
        )

    def _end(self, number: int, last: Checkpoint | None, note: AttemptNote | None) -> str:
        """How an attempt ended.

        Args:
            last: its last checkpoint; None where it has none, or that can't be read.
        """
        end = end_of(last, note, number == self._numbers[-1], self._running)
        if last is not None and last.id == self._forked_at() and end not in (FINISHED, STOPPED):
            return FORKED
        if number == self._forked and number != self._numbers[-1] and note is None:
            return FORKED  # what made the fork ran nothing; the next attempt did
        unused = number == self._forked and end != RUNNING and is_unused(self._ledger, note)
        return NOT_RUN if unused else end

    def _forked_at(self) -> int | None:
        """The checkpoint at which the job left the one that it is a fork of."""
        forked = None if self._forked is None else self._read.get(self._forked)
        return None if forked is None else forked.parent


def end_of(
    last: Checkpoint | None, note: AttemptNote | None, newest: bool = False, running: bool | None = False
) -> str:
    """How an attempt ended: the one rule for all who say it.

    Args:
        last: its last checkpoint; None where it has none, or that can't be read.
        note: of it; None for none.
        newest: no attempt followed.
        running: whether a driver runs the job; None where this machine cannot see it.
    """
    if newest and running:
        return RUNNING
    if last is not None and last.correction is not None:
        return STOPPED  # what made corrections ran nothing
    if note is None or note.fault is not None:
        return ENDED if last is None or not last.ends else FINISHED if last.finished else STOPPED
    if note.ended is not None:
        return KILLED if newest and note.ended == RESCALED else note.ended
    if note.failure is None:
        return UNTOLD if newest and running is None else KILLED
    return CANCELLED if note.failure.cancelled else FAILED


def _how(attempt: Attempt | None, first: Checkpoint | None, before: AttemptRow | None) -> str:
    if first is not None and first.snapshot == first.id and first.parent is None and _unmeasured(first):
        return IMPORTED
    if attempt is None:
        return NOT_KNOWN
    if attempt.parent is None:
        return BEGAN
    if before is None:
        return RESTORED
    newest = before.parent if before.last is None else before.last
    if attempt.parent != newest:
        return REWOUND
    return CONTINUED if before.end in (FINISHED, STOPPED) else RESTORED


def is_unused(ledger: Ledger, last: AttemptNote | None) -> bool:
    """Whether a job is a fork that nobody ran, by the note of its newest attempt."""
    newest = ledger.lineage.newest_attempt_id
    return (
        last is None
        and not ledger.lineage.newest_checkpoint(newest)
        and forked_attempt(ledger.storage) == newest
    )


def forked_attempt(changelog: Storage) -> int | None:
    """The attempt with which a fork was made, where the commit that says so is still there."""
    try:
        actions = [json.loads(line) for line in changelog.read(commit_path(1)).to_pybytes().splitlines()]
        if "fork" not in metadata_of(actions):
            return None
        rows = [parse_row(action["add"]["path"]) for action in actions if "add" in action]
        return max(
            (row.attempt for row in rows if row is not None and row.operation == ATTEMPT), default=None
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _unmeasured(first: Checkpoint) -> bool:
    """A checkpoint that was copied in has no times of its own: nobody ran it."""
    return not first.duration_ms and first.parent_acknowledged_ms is None and first.restored_ms is None
