"""Which jobs there are below a base path, and how one of them is: out of its tables, its lock and its notes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from changelog_engine.changelog.figures import Figures
from changelog_engine.changelog.model import Attempt, Checkpoint
from changelog_engine.changelog.row_files import Index
from changelog_engine.changelog.small_state import KeptInputs
from changelog_engine.errors import ChangelogEngineError, CorruptChangelogError, StorageError
from changelog_engine.event_time import has_ended, moment_of
from changelog_engine.graph.rescaling import in_words
from changelog_engine.inspection.timeline import ENDED, FAILED, NOT_RUN, end_of, is_unused
from changelog_engine.ledger.attempt_notes import (
    AttemptFailure,
    AttemptNote,
    OperatorEdge,
    read_failed_start,
    read_notes,
)
from changelog_engine.ledger.job_folder import CHANGELOG, JobFolder
from changelog_engine.ledger.job_path import folders_in, nearest_hint, open_job, refuse_file
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import Driver, driver_of
from changelog_engine.ledger.read_again import read_again
from changelog_engine.ledger.restore_decision import RestoreDecision, decide_restore
from changelog_engine.readable import duration
from changelog_engine.savepoints.folder import MARKER
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.locks import is_locked
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage
from materializer.lock import LOCK
from materializer.remembered import recall
from materializer.retention import Retention
from materializer.rounds import Rounds, last_round

NOT_BEGUN = "empty"


@dataclass(frozen=True)
class JobSummary:
    """One folder below a base path.

    Args:
        kind: job or savepoint.
        state: running, finished, stopped, failed, cancelled, killed (it left no error), killed or running (likewise; on an
            object store or another machine it may run, though it gave no sign of life of late), ended (killed or failed:
            nothing was noted; there, it may run as well), not run yet (a fork), empty (no attempt has begun), damaged,
            unreadable (no right to read it, or somebody else's table). Failed also when the last start was.
        newest: the newest checkpoint; None for none.
        bytes: of the files that its tables list.
        fault: what is wrong with a damaged or unreadable one, or what could not be counted of another: rows of checkpoints
            or attempts that can't be read.
    """

    name: str
    path: str
    kind: str
    state: str
    attempts: int = 0
    checkpoints: int = 0
    newest: int | None = None
    time_ms: int | None = None
    bytes: int = 0
    fault: str | None = None


@dataclass(frozen=True)
class SourcePosition:
    """How far a source has read one of its splits."""

    source: str
    split: str
    position: Any
    finished: bool


@dataclass(frozen=True)
class OperatorWatermark:
    """The watermark of an operator: the least of its subtasks'.

    Args:
        operator: uid of the first of its stage.
        time_ms: None: there is none yet; the end of time when the input has ended.
        idle: how many of its inputs are idle.
    """

    operator: str
    time_ms: int | None
    ended: bool
    idle: int


@dataclass(frozen=True)
class Upkeep:
    """The materializer's work.

    Args:
        snapshot: the newest snapshot on the lineage; None for none.
        log_rows: mutations since, which a restore reads.
        running: whether one materializes just now; None where that cannot be told.
        rounds: the last round of ``changelog-engine materialize --every``; None where none is known.
        retention: None where the note of it is damaged.
        oldest, oldest_time_ms: the oldest checkpoint that is there; its time is None where its row can't be read.
    """

    snapshot: int | None
    snapshot_time_ms: int | None
    snapshots: int
    log_rows: int | None
    running: bool | None
    rounds: Rounds | None
    retention: Retention | None
    oldest: int | None
    oldest_time_ms: int | None


@dataclass(frozen=True)
class FailedAttempt:
    """An attempt that an error ended, and the error."""

    attempt: int
    failure: AttemptFailure


@dataclass(frozen=True)
class JobStatus:
    """How a job is.

    Args:
        driver: who runs it, or ran it last.
        failures: those of the newest 50 attempts that an error ended, oldest first.
        failed_start: the error that ended a start, before an attempt began; None where an attempt has begun since.
        edges: how the operators are connected, in the newest attempt; empty where nothing was noted of it.
        restarts: attempts that went on from a checkpoint; those of the newest 50 that were rescaled are left out.
        rescales: how the job was rescaled, as far as the newest 50 attempts tell, oldest first.
        branches: attempts with checkpoints that are not on the newest one's lineage.
        sources, watermarks: at the newest checkpoint.
        upkeep: the materializer's work; None when there is no checkpoint.
        faults: what could not be found out, and why.
        unreadable: notes of attempts that can't be read; the job does not need them.
        metrics: of the newest checkpoint; empty where there is none.
        next_run: where a run would begin that is started with ``changelog.restore`` as it is by default; None for a
            savepoint, and where it can't be found out.
    """

    summary: JobSummary
    driver: Driver
    attempts: tuple[Attempt, ...] = ()
    failures: tuple[FailedAttempt, ...] = ()
    failed_start: AttemptFailure | None = None
    edges: tuple[OperatorEdge, ...] = ()
    restarts: int = 0
    rescales: tuple[str, ...] = ()
    branches: tuple[int, ...] = ()
    newest: Checkpoint | None = None
    sources: tuple[SourcePosition, ...] = ()
    watermarks: tuple[OperatorWatermark, ...] = ()
    upkeep: Upkeep | None = None
    log_files: int = 0
    log_bytes: int = 0
    snapshot_files: int = 0
    snapshot_bytes: int = 0
    faults: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    metrics: Figures = field(default_factory=Figures)
    next_run: RestoreDecision | None = None

    @property
    def newest_failure(self) -> FailedAttempt | None:
        """Of the newest attempt, where an error ended it: a job that runs is between two attempts then."""
        if not self.failures or self.failures[-1].attempt != self.attempts[-1].id:
            return None
        return self.failures[-1]

    def stopped_upkeep(self, now_ms: int) -> str | None:
        """That a materializer elsewhere makes no snapshots any more although there is something to do; None for no."""
        upkeep, newest = self.upkeep, self.newest
        rounds = None if upkeep is None else upkeep.rounds
        if upkeep is None or newest is None or rounds is None or not upkeep.log_rows:
            return None
        if (upkeep.snapshot_time_ms or 0) > rounds.time_ms or newest.time_ms <= rounds.time_ms:
            return None  # another one makes them, or nothing came since
        ago = duration(now_ms - rounds.time_ms)
        if rounds.has_stopped(now_ms):
            said = f"`changelog-engine materialize --every` ({rounds.who}) has stopped: its last round ended {ago} ago"
            return f"{said}. Start it again; until then the log grows, and a restore reads all of it"
        return None

    def first_splits(self, most: int) -> Sequence[SourcePosition]:
        """So many splits; where there are more, those that are not read to their end before the newest others."""
        if len(self.sources) <= most:
            return self.sources
        going_on = [each for each in self.sources if not each.finished]
        return [*going_on, *(each for each in reversed(self.sources) if each.finished)][:most]


def list_jobs(base: str) -> list[JobSummary]:
    """The jobs and savepoints right below a base path, by name. A damaged one is listed as such.

    Raises:
        StorageError: there is no such folder, or it is a job's own; the error suggests the closest match.
        ForeignPathError: it is a Delta table of somebody else.
    """
    storage = open_storage(base)
    refuse_file(storage)
    if not storage.exists():
        raise StorageError(f"{storage.root}: no such folder{nearest_hint(storage)}")
    if DeltaLog.exists(storage) or DeltaLog.exists(storage.child(CHANGELOG)):
        own = open_job(base).storage.root
        above = own.rpartition("/")[0]
        raise StorageError(f"{storage.root} is a job's own folder: name the base path, {above}")
    found = []
    for name in folders_in(storage):
        folder = open_storage(storage.join(name))
        try:
            there = DeltaLog.exists(folder.child(CHANGELOG))
        except ChangelogEngineError as error:
            found.append(_not_read(folder, error))
        else:
            found += [_listed(folder)] if there else []
    return found


@read_again
def job_status(path: str, known: dict[int, AttemptNote] | None = None) -> JobStatus:
    """How a job is.

    Args:
        path: the job's folder, or the changelog folder in it.
        known: notes of its attempts, see ``attempt_notes.read_notes``.

    Raises:
        StorageError, ForeignPathError, FormatVersionError: as ``ledger.job_path.open_changelog``.
        CorruptChangelogError: its list of files, or the row of its newest checkpoint or attempt, can't be read.
    """
    folder = open_job(path)
    ledger = Ledger(folder.open_changelog())
    lineage = ledger.lineage
    newest = lineage.newest_checkpoint()
    driver = driver_of(folder)
    faults: list[str] = []
    lost: dict[int, CorruptChangelogError] = {}
    lost_attempts: dict[int, CorruptChangelogError] = {}
    index = lineage.checkpoints.index(lost)
    by_number = lineage.readable_attempts(lost_attempts)
    attempts = tuple(by_number.values())
    for each, what in ((lost, "checkpoint"), (lost_attempts, "attempt")):
        faults += _first_of(each, what)
    upkeep = None if newest is None else _upkeep(folder, ledger, newest, index, lost, faults)
    listing = ledger.snapshots.listing
    notes = read_notes(folder.changelog, {*by_number, *lost_attempts, *index.attempts.tolist()}, known)
    last = notes.get(lineage.newest_attempt_id)
    rescales = tuple(
        f"rescaled {in_words(notes[attempt.id].rescaled)} at checkpoint {attempt.parent}"
        for attempt in attempts
        if attempt.id in notes and notes[attempt.id].rescaled
    )
    failed_start = _failed_start(folder, lineage, driver)
    summary = _summary(folder, ledger, newest, driver, last, failed_start)
    return JobStatus(
        summary,
        driver,
        attempts=attempts,
        failures=tuple(FailedAttempt(n, note.failure) for n, note in notes.items() if note.failure),
        failed_start=failed_start,
        edges=() if last is None else last.edges,
        restarts=sum(attempt.parent is not None for attempt in attempts) - len(rescales),
        rescales=rescales,
        branches=_branches(lineage, newest),
        newest=newest,
        sources=() if newest is None else tuple(_positions(newest)),
        watermarks=() if newest is None else tuple(_watermarks(newest)),
        upkeep=upkeep,
        log_files=lineage.files.num_rows,
        log_bytes=_bytes(lineage.files),
        snapshot_files=0 if listing is None else listing.num_rows,
        snapshot_bytes=0 if listing is None else _bytes(listing),
        next_run=_next_run(summary, ledger, faults),
        faults=tuple(faults),
        unreadable=tuple(note.fault for note in notes.values() if note.fault is not None),
        metrics=Figures() if newest is None else newest.figures,
    )


def _first_of(lost: dict[int, CorruptChangelogError], what: str) -> list[str]:
    """Rows that can't be read, as one fault; the job goes on without old ones."""
    if not lost:
        return []
    more = "" if len(lost) == 1 else f". And {len(lost) - 1} more, which changelog-engine verify names"
    return [f"the row of {what} {min(lost)} can't be read: {lost[min(lost)]}{more}"]


def _branches(lineage: Lineage, newest: Checkpoint | None) -> tuple[int, ...]:
    if newest is None:
        return ()
    try:
        return tuple(sorted(lineage.branches(newest.lineage)))
    except CorruptChangelogError:  # rows that were merged are damaged, which was told
        return ()


def _next_run(summary: JobSummary, ledger: Ledger, faults: list[str]) -> RestoreDecision | None:
    if summary.kind == "savepoint":
        return None
    try:
        decision = decide_restore(ledger.lineage, "auto")
    except ChangelogEngineError as error:
        faults.append(f"where the next run begins: {error}")
        return None
    if decision.lost is not None:
        faults.append(decision.lost)
    return decision


def _listed(folder: Storage) -> JobSummary:
    try:
        return _summary_of(folder.root)
    except ChangelogEngineError as error:
        return _not_read(folder, error)


@read_again
def _summary_of(path: str) -> JobSummary:
    job = open_job(path)
    ledger = Ledger(job.open_changelog())
    last = ledger.lineage.newest_attempt_id
    note = read_notes(job.changelog, [last]).get(last)
    driver = driver_of(job)
    failed_start = _failed_start(job, ledger.lineage, driver)
    return _summary(job, ledger, ledger.lineage.newest_checkpoint(), driver, note, failed_start)


def _failed_start(job: JobFolder, lineage: Lineage, driver: Driver) -> AttemptFailure | None:
    """Of a job that does not run: what ended its last start, where no attempt began."""
    return None if driver.running else read_failed_start(job.changelog, lineage.newest_attempt_id)


def _not_read(folder: Storage, error: ChangelogEngineError) -> JobSummary:
    state = "damaged" if isinstance(error, CorruptChangelogError) else "unreadable"
    return JobSummary(folder.root.rpartition("/")[2], folder.root, "job", state, fault=str(error))


def _summary(
    folder: JobFolder,
    ledger: Ledger,
    newest: Checkpoint | None,
    driver: Driver,
    last: AttemptNote | None,
    failed_start: AttemptFailure | None,
) -> JobSummary:
    lineage, listing = ledger.lineage, ledger.snapshots.listing
    savepoint = folder.storage.exists(MARKER)
    lost: dict[int, CorruptChangelogError] = {}
    lost_attempts: dict[int, CorruptChangelogError] = {}
    attempts, checkpoints = lineage.attempts.ids(lost_attempts), lineage.checkpoints.ids(lost)
    faults = [str(error) for error in (*lost.values(), *lost_attempts.values())]
    of_last = lineage.newest_checkpoint(lineage.newest_attempt_id)
    state = end_of(of_last, last, True, driver.running)
    if state == ENDED and last is None:  # nothing says how
        state = NOT_BEGUN if newest is None else NOT_RUN if is_unused(ledger, last) else "ended"
    elif of_last is not None and of_last.correction is not None and not driver.running:
        state = NOT_RUN  # what made corrections ran nothing
    if failed_start is not None and not failed_start.cancelled:
        state = FAILED
    return JobSummary(
        folder.name,
        folder.storage.root,
        "savepoint" if savepoint else "job",
        "complete" if savepoint else state,
        attempts=len(attempts),
        checkpoints=len(checkpoints),
        newest=None if newest is None else newest.id,
        time_ms=None if newest is None else newest.time_ms,
        bytes=_bytes(lineage.files) + (0 if listing is None else _bytes(listing)),
        fault="; ".join(faults) or None,
    )


def _bytes(listing: Any) -> int:
    return sum(listing["size_bytes"].to_pylist())


def _positions(checkpoint: Checkpoint) -> list[SourcePosition]:
    return [
        SourcePosition(uid, split, end.position, bool(end.finished))
        for uid, splits in checkpoint.sources.items()
        for split, end in splits.items()
    ]


def _watermarks(checkpoint: Checkpoint) -> list[OperatorWatermark]:
    inputs_of: dict[str, list[KeptInputs]] = {}
    for uid, _, state in checkpoint.small_states():
        if state.inputs is not None:
            inputs_of.setdefault(uid, []).append(state.inputs)
    found = []
    for uid, inputs in inputs_of.items():
        least = min(each["current"] for each in inputs)
        idle = sum(len(each["idle"]) for each in inputs)
        found.append(OperatorWatermark(uid, moment_of(least), has_ended(least), idle))
    return found


def _upkeep(
    folder: JobFolder,
    ledger: Ledger,
    newest: Checkpoint,
    index: Index,
    lost: dict[int, CorruptChangelogError],
    faults: list[str],
) -> Upkeep:
    snapshot = log_rows = None
    try:
        base = ledger.base(newest)
        snapshot, log_rows = base.checkpoint, base.suffix.rows
    except ChangelogEngineError as error:
        faults.append(f"the newest checkpoint cannot be restored: {error}")
    retention = None
    # The next run writes it anew, and until then nothing is truncated.
    with contextlib.suppress(CorruptChangelogError):
        retention = recall(folder)
    local = folder.storage.local
    times = {
        each: int(time)
        for each, time in zip(index.ids.tolist(), index.times.tolist(), strict=True)
        if each not in lost
    }
    oldest = min([*index.ids.tolist(), *lost])
    return Upkeep(
        snapshot,
        None if snapshot is None else times.get(snapshot),
        len(ledger.snapshots.markers),
        log_rows,
        None if local is None else is_locked(f"{folder.snapshots.root}/{LOCK}"),
        last_round(folder),
        retention,
        oldest,
        times.get(oldest),
    )
