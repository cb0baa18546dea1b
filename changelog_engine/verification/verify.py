"""Verification: every file of a job's tables is read and compared with what the tables and its name say.

Invariants:
    * It only reads, and may run beside the job; what the job commits meanwhile is not looked at.
    * Nothing is unpickled: values are compared as text and bytes.
    * What was truncated is not a fault; a file that is listed and isn't what it was is one, and so is a newest checkpoint
      that can't be restored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from changelog_engine.changelog.log_files import (
    SNAPSHOT,
    RowName,
    checksum_of,
    parse_merged_rows,
    parse_pack,
    parse_row,
    read_unchanged,
)
from changelog_engine.changelog.model import Attempt, Checkpoint, CheckpointMark
from changelog_engine.changelog.one_row_files import read_row
from changelog_engine.changelog.part_reader import read_part
from changelog_engine.changelog.part_selection import PartFile, Within, part_files
from changelog_engine.changelog.part_stats import delta_stats, footer_of
from changelog_engine.changelog.row_files import moved_rows, read_merged_rows
from changelog_engine.changelog.rows import ATTEMPT, CHECKPOINT
from changelog_engine.changelog.segments import extend, segment_of
from changelog_engine.changelog.snapshot_row import read_snapshot_row
from changelog_engine.errors import ChangelogEngineError, CorruptChangelogError
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.restore_decision import lost_end
from changelog_engine.ledger.snapshots import newest_of
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage
from changelog_engine.verification.snapshot_check import differences

T = TypeVar("T")
_TRIES = 3


class _Base(NamedTuple):
    """Where a restore begins: with the snapshot of a checkpoint; None for the beginning of the log."""

    snapshot: int | None


class Fault(NamedTuple):
    """Something that is wrong: with which file, and what."""

    file: str
    what: str


@dataclass
class Verification:
    """What a verification found.

    Args:
        files, rows, bytes: of the parts that were read, those of snapshots included.
        compared: how many snapshots were compared with the fold of the log.
        restorable: ids of the checkpoints that can be restored.
        lost_end: what to say where the changelog lacks its rows, or attempts or checkpoints that there are snapshots of.
    """

    attempts: int = 0
    checkpoints: int = 0
    snapshots: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    compared: int = 0
    restorable: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lost_end: str | None = None


def verify(folder: JobFolder) -> Verification:
    """Verify a job's folder, or a savepoint's.

    Returns:
        What was found; it is whole when there are no faults.

    Raises:
        StorageError: the list of files itself can't be read.
    """
    for _ in range(_TRIES - 1):
        found = _Verifier(folder).run()
        if not found.faults or not _vanished(folder, found.faults):
            return found
    return _Verifier(folder).run()


def _vanished(folder: JobFolder, faults: list[Fault]) -> bool:
    """Whether a file with a fault has left its table meanwhile: the job retired or truncated it while it was looked for."""
    listed: set[str] = set()
    for table in (folder.snapshots, folder.changelog):
        listing = _listing(table)
        if listing is not None:
            listed.update(table.join(path) for path in listing["path"].to_pylist())
    return any(fault.file not in listed for fault in faults)


class _Verifier:
    """One verification."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self.found = Verification()
        self.checkpoints: dict[int, Checkpoint] = {}
        self.paths: dict[int, str] = {}
        self.attempts: dict[int, Attempt] = {}
        self.logged: dict[CheckpointMark, int] = {}  # rows that are there and good
        self.damaged: set[CheckpointMark] = set()  # with a part that isn't
        self._packs: set[str] = set()  # that were read
        self.merged = False
        self.snapshots: dict[CheckpointMark, tuple[str, list[PartFile]]] = {}  # good ones
        self._times: dict[tuple[str, int, int], int] = {}  # of rows with files of their own, as they say
        self.bases: dict[int, _Base] = {}  # of the checkpoints that can be restored

    def run(self) -> Verification:
        """All steps."""
        # The snapshots first: what a truncation removes meanwhile is needed by no later list of the log.
        snapshots = _listing(self.folder.snapshots)
        log = self.folder.open_changelog()
        listing = log.files()
        ledger = self._ledger(log)
        self._rows_about_the_log(listing)
        self._lineages()
        self._parts(part_files(listing))
        if snapshots is not None:
            self._snapshots(snapshots)
        self._listed(self.folder.changelog, listing)
        if snapshots is not None:
            self._listed(self.folder.snapshots, snapshots)
        self._restorable()
        if ledger is None:
            return self.found
        named = [] if snapshots is None else snapshots["path"].to_pylist()
        self.found.lost_end = lost_end(ledger.lineage, newest_of(named))
        self._asked(ledger)
        for mark in sorted(self.snapshots):
            self._compare(mark)
        return self.found

    def _ledger(self, log: DeltaLog) -> Ledger | None:
        """What every reader asks; None when it refuses the log as a whole, which is a fault."""
        try:
            ledger = Ledger(log)
            _ = ledger.snapshots
        except CorruptChangelogError as error:
            self._refused(error)
            return None
        return ledger

    def _refused(self, error: CorruptChangelogError) -> None:
        path = error.path or self.folder.changelog.root
        if all(fault.file != path for fault in self.found.faults):
            self.found.faults.append(Fault(path, error.fault))

    def _asked(self, ledger: Ledger) -> None:
        """What the ledger refuses to restore is lost, whatever was counted here: it is asked for each attempt's newest."""
        newest: dict[int, Checkpoint] = {}
        for row in self.checkpoints.values():
            if row.attempt not in newest or newest[row.attempt].id < row.id:
                newest[row.attempt] = row
        for row in newest.values():
            if row.id in self.bases:
                try:
                    ledger.base(row)
                except CorruptChangelogError as error:
                    self._refused(error)
                    self.found.restorable.remove(row.id)
                    self.found.lost = sorted([*self.found.lost, row.id])

    def _listed(self, storage: Storage, listing: pa.Table) -> None:
        """Compare what the list of files says with the files: size, times of rows, statistics."""
        faulty = {fault.file for fault in self.found.faults}
        columns = {name: listing[name].to_pylist() for name in listing.column_names}
        for place, path in enumerate(columns["path"]):
            if storage.join(path) in faulty:
                continue
            said = {name: values[place] for name, values in columns.items()}
            wrong = self._try(storage, path, partial(self._differs, storage, path, said))
            if wrong:
                self._fault(storage, path, f"is not what the table's list of files says: {wrong}")

    def _differs(self, storage: Storage, path: str, said: dict[str, Any]) -> str:
        with reading(storage.join(path)):
            size = storage.size(path)
            there = delta_stats(storage.read_footer(path))
        pairs = [
            ("size", said["size_bytes"], size),
            ("number of rows", said["num_records"], there["numRecords"]),
        ]
        for prefix, values in (
            ("min.", there["minValues"]),
            ("max.", there["maxValues"]),
            ("null_count.", there["nullCount"]),
        ):
            pairs += [
                (f"{prefix}{name}", said.get(f"{prefix}{name}"), value) for name, value in values.items()
            ]
        row = parse_row(path)
        time_ms = None if row is None else self._times.get((row.operation, row.checkpoint, row.attempt))
        if time_ms is not None:
            pairs.append(("modification time", said["modification_time"], time_ms))
        wrong = [
            f"its {what} is {found}, the list says {listed}"
            for what, listed, found in pairs
            if listed is not None and listed != found
        ]
        return "; ".join(wrong)

    def _fault(self, storage: Storage, path: str, what: str) -> None:
        self.found.faults.append(Fault(storage.join(path), what))

    def _try(self, storage: Storage, path: str, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except CorruptChangelogError as error:
            self.found.faults.append(Fault(error.path or storage.join(path), error.fault))
        except ChangelogEngineError as error:
            self._fault(storage, path, str(error))
        except (ValueError, KeyError, TypeError) as error:
            self._fault(storage, path, f"does not hold what its name says: {error!r}")
        return None

    def _rows_about_the_log(self, listing: pa.Table) -> None:
        storage = self.folder.changelog
        for path in listing["path"].to_pylist():
            name, many = parse_row(path), parse_merged_rows(path)
            if many is not None:
                table = self._try(storage, path, partial(read_merged_rows, storage, path))
                self._take_rows(path, [] if table is None else table.to_pylist(), many.crc)
                continue
            if name is None:
                self._take_rows(path, self._try(storage, path, partial(moved_rows, storage, path)) or [])
                continue
            if name.operation not in (CHECKPOINT, ATTEMPT):
                continue
            document = self._try(storage, path, partial(read_row, storage, path))
            if document is not None:
                self._take_row(path, name, document)
        self.found.attempts, self.found.checkpoints = len(self.attempts), len(self.checkpoints)

    def _take_rows(self, path: str, rows: list[dict[str, Any]], crc: int = 0) -> None:
        for row in rows:
            checkpoint = row["checkpoint_id"] if row["operation"] == CHECKPOINT else 0
            self._take_row(path, RowName(row["operation"], checkpoint, row["attempt"], crc), row["value"])

    def _take_row(self, path: str, name: RowName, document: str) -> None:
        storage = self.folder.changelog
        if name.operation == ATTEMPT:
            attempt = self._try(storage, path, lambda: Attempt.from_json(document))
            if attempt is not None:
                self._times[name[:3]] = attempt.time_ms
            if attempt is not None and attempt.id != name.attempt:
                self._fault(storage, path, f"holds the row of attempt {attempt.id}")
            elif attempt is not None:
                self.attempts[attempt.id] = attempt
            return
        row = self._try(storage, path, lambda: Checkpoint.from_json(document))
        if row is None:
            return
        self._times[name[:3]] = row.time_ms
        if (row.id, row.attempt) != (name.checkpoint, name.attempt):
            self._fault(storage, path, f"holds the row of checkpoint {row.id} of attempt {row.attempt}")
        elif row.id in self.checkpoints:
            self._fault(storage, path, f"is the second row of checkpoint {row.id}: see {self.paths[row.id]}")
        else:
            self.checkpoints[row.id], self.paths[row.id] = row, path

    def _lineages(self) -> None:
        for row in self.checkpoints.values():
            parent = None if row.parent is None else self.checkpoints.get(row.parent)
            if row.parent is not None and parent is None:
                wrong = not row.lineage or (row.lineage[-1].attempt, row.lineage[-1].last) != (
                    row.attempt,
                    row.id,
                )
            else:
                wrong = row.lineage != extend(() if parent is None else parent.lineage, row.attempt, row.id)
            if wrong:
                said = [list(segment) for segment in row.lineage]
                self._fault(
                    self.folder.changelog,
                    self.paths[row.id],
                    f"has the lineage {said}, which does not follow on that of its parent {row.parent}",
                )

    def _parts(self, files: list[PartFile]) -> None:
        storage = self.folder.changelog
        # writer -> its last part's number, next sequence number.
        ends: dict[tuple[int, int, int], tuple[int, int]] = {}
        for file in sorted(files, key=lambda file: file.name[1:5] if file.name else ()):
            table = self._read(storage, file)
            if file.name is None:
                self.merged = True
                self._merged(file, table)
                continue
            mark = file.name.mark
            row = self.checkpoints.get(mark.checkpoint)
            if row is not None and row.attempt != mark.attempt:
                self._fault(
                    storage, file.path, f"is of attempt {mark.attempt}, its checkpoint of {row.attempt}"
                )
            if table is None:
                self.damaged.add(mark)
                continue
            self.logged[mark] = self.logged.get(mark, 0) + table.num_rows
            writer, number = (file.name.attempt, file.name.stage, file.name.subtask), file.name.number
            first = int(table["sequence"][0].as_py()) if table.num_rows else ends.get(writer, (0, 0))[1]
            before = ends.get(writer, (0, 0) if number == 1 else (number, 0))
            if before[0] == number - 1 and before[1] != first:
                self._fault(storage, file.path, f"begins at sequence number {first}, {before[1]} is due")
                self.damaged.add(mark)
            ends[writer] = (number, first + table.num_rows)

    def _merged(self, file: PartFile, table: pa.Table | None) -> None:
        if table is None:
            first, last = file.first_checkpoint or 0, file.last_checkpoint
            self.damaged |= {
                row.mark
                for row in self.checkpoints.values()
                if row.id >= first and (last is None or row.id <= last)
            }
            return
        counts = table.group_by(["checkpoint_id", "attempt"]).aggregate([([], "count_all")])
        for *who, count in zip(*(counts[name].to_pylist() for name in counts.column_names), strict=True):
            mark = CheckpointMark(*who)
            self.logged[mark] = self.logged.get(mark, 0) + count

    def _read(self, storage: Storage, file: PartFile) -> pa.Table | None:
        if file.within is not None and file.path not in self._packs:
            self._packs.add(file.path)
            self._try(storage, file.path, partial(_read_pack, storage, file.path, file.within))
        table = self._try(storage, file.path, lambda: read_part(storage, file))
        if table is not None:
            if file.name is None:  # others' compactions put rows about the log beside mutations
                table = table.filter(table["sequence"].is_valid())
            self.found.files += 1
            self.found.rows += table.num_rows
            self.found.bytes += file.size
        return table

    def _snapshots(self, listing: pa.Table) -> None:
        storage = self.folder.snapshots
        files = {file.path: file for file in part_files(listing)}
        good = {path: self._read(storage, file) is not None for path, file in files.items()}
        for path in listing["path"].to_pylist():
            name = parse_row(path)
            if name is None or name.operation != SNAPSHOT:
                continue
            self.found.snapshots += 1
            row = self._try(storage, path, partial(read_snapshot_row, storage, path))
            if row is None:
                continue
            mark = name.mark
            if row.pieces is not None:
                wanted = [piece.path for piece in row.pieces]
            else:
                wanted = [p for p, f in files.items() if f.name and f.name.mark == mark]
            missing = [path for path in wanted if path not in files]
            if missing or len(wanted) != row.parts:
                lacks = (
                    f"lacks {', '.join(missing)}" if missing else f"has {len(wanted)} parts, not {row.parts}"
                )
                self._fault(storage, path, f"the snapshot of checkpoint {name.checkpoint} {lacks}")
            elif all(good[path] for path in wanted):
                self.snapshots[mark] = (path, [files[path] for path in wanted])

    def _complete(self, row: Checkpoint) -> bool:
        """Whether the log has all mutations of a checkpoint."""
        mark = row.mark
        return row.snapshot != row.id and mark not in self.damaged and self.logged.get(mark, 0) == row.rows

    def _restorable(self) -> None:
        for identity in sorted(self.checkpoints):
            row = self.checkpoints[identity]
            self._check_count(row)
            if row.mark in self.snapshots:
                self.bases[row.id] = _Base(row.id)
            elif self._complete(row):
                base = self._base_before(row)
                if base is not None:
                    self.bases[row.id] = base
        self.found.restorable = sorted(self.bases)
        self.found.lost = sorted(self.checkpoints.keys() - self.bases.keys())
        newest = max(self.checkpoints, default=None)
        if newest is not None and newest not in self.bases:
            self._fault(
                self.folder.changelog,
                self.paths[newest],
                f"the newest checkpoint, {newest}, can't be restored: no good snapshot on its lineage has a complete log "
                "after it",
            )

    def _check_count(self, row: Checkpoint) -> None:
        mark = row.mark
        there = self.logged.get(mark, 0)
        expected = 0 if row.snapshot == row.id else row.rows
        if there > expected or (0 < there < expected and not self.merged and mark not in self.damaged):
            self._fault(
                self.folder.changelog,
                self.paths[row.id],
                f"checkpoint {row.id} has {expected} mutations, and the log has {there} of it",
            )

    def _base_before(self, row: Checkpoint) -> _Base | None:
        """Where the restore of a checkpoint's parent begins; None when the parent can't be restored."""
        if row.parent is None:
            return _Base(None)
        if row.parent in self.bases:
            return self.bases[row.parent]
        found = segment_of(row.lineage, row.parent)
        if found is not None and CheckpointMark(row.parent, found.attempt) in self.snapshots:
            return _Base(row.parent)
        return None

    def _compare(self, mark: CheckpointMark) -> None:
        """Compare a snapshot with the fold of what comes before it, where the log has that."""
        row = self.checkpoints.get(mark.checkpoint)
        if row is None or row.attempt != mark.attempt or not self._complete(row):
            return
        base = self._base_before(row)
        if base is None:
            return
        path, files = self.snapshots[mark]
        before: list[PartFile] = []
        if base.snapshot is not None:
            found = segment_of(row.lineage, base.snapshot)
            assert found is not None
            before = self.snapshots[CheckpointMark(base.snapshot, found.attempt)][1]
        told = self._try(
            self.folder.snapshots, path, lambda: differences(self.folder, row, base.snapshot, before, files)
        )
        if told is not None:
            self.found.compared += 1
            for what in told:
                self._fault(
                    self.folder.snapshots,
                    path,
                    f"the snapshot of checkpoint {row.id} is not the fold: {what}",
                )


def _read_pack(storage: Storage, path: str, within: Within) -> None:
    """The whole of a pack, and the footer by which others read it."""
    data = read_unchanged(storage, path, checksum_of(path), within.pack_size)
    with reading(storage.join(path)):
        rows, packed = footer_of(data).num_rows, sum(part.rows for part in parse_pack(path) or ())
    if rows != packed:
        raise CorruptChangelogError(f"has {rows} rows, its name says {packed}", storage.join(path))


def _listing(storage: Storage) -> pa.Table | None:
    return DeltaLog(storage).files() if DeltaLog.exists(storage) else None
