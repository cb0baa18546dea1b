"""The tree of checkpoints: which there are, and which is newest.

Invariants:
    * Ids and attempts come from names, times from the rows themselves; only the rows that are asked for are opened.
    * A list of files that lost its end, the newest commit or the newest rows, is an error, never taken for one checkpoint
      less.
    * Rows that were merged into other files are found all the same. The newest never are, so a start opens two small
      files, however many checkpoints there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.model import Attempt, Checkpoint, Segment
from changelog_engine.changelog.one_row_files import column_of_one
from changelog_engine.changelog.part_stats import delta_stats, footer_of
from changelog_engine.changelog.row_files import Rows, merged_rows_file, rows_of
from changelog_engine.changelog.rows import ATTEMPT, CHECKPOINT
from changelog_engine.clock import wall_ms
from changelog_engine.errors import CorruptChangelogError, RestoreError, RetiredError
from changelog_engine.ledger.commits import check_commits
from changelog_engine.readable import iso
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage

_HEAD = r"^(?:part|pack)-(?P<checkpoint>\d{1,18})-"
_PART = rf"{_HEAD}\d+-\d+-[0-9a-z._-]+-[0-9a-f]{{8}}\.parquet$"
_CLOCKS_DIFFER_MS = 60_000  # of machines whose clocks nobody set
_LOOKED_AT = 20  # checkpoints before one whose row can't be read


def write_merged_rows(storage: Storage, operation: str, rows: pa.Table) -> AddFile:
    """Write rows of checkpoints or attempts, at least one, as one file, durably; nothing refers to it yet."""
    path, data = merged_rows_file(operation, rows)
    storage.write_durable(path, data)
    newest = max(rows["event_time"].cast(pa.int64()).to_pylist()) // 1000
    return AddFile(path, data.size, newest, delta_stats(footer_of(data)))


class Lineage:
    """Checkpoints and attempts of a job at one version of its changelog.

    Args:
        log: the changelog; it moves to the newest version.

    Raises:
        CorruptChangelogError: the newest commit is damaged, or lists mutations or checkpoints without their rows.
    """

    def __init__(self, log: DeltaLog) -> None:
        self.storage = log.storage
        self.files = log.files()
        self.version = log.version
        self.checkpoints: Rows
        self.attempts: Rows
        said = check_commits(log)
        self.checkpoints, self.attempts = rows_of(log.storage, self.files)
        self._check_newest_rows()
        for kind, rows in ((CHECKPOINT, self.checkpoints), (ATTEMPT, self.attempts)):
            path, row = said.get(kind, ("", ""))
            if row and not row.startswith(f"{kind}-{rows.newest}-"):
                raise CorruptChangelogError(
                    f"adds {row}..., and the table's list of files goes to {kind} {rows.newest}: it is an older commit in "
                    "the place of a newer one. Put the file back from a copy",
                    path,
                )

    @property
    def root(self) -> str:
        """The changelog's folder or URI."""
        return self.storage.root

    @property
    def newest_checkpoint_id(self) -> int:
        """Newest checkpoint id over all attempts; 0 for none."""
        return self.checkpoints.newest

    @property
    def newest_attempt_id(self) -> int:
        """Newest attempt; 0 for none."""
        return self.attempts.newest

    def newest_attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempt(self.newest_attempt_id) if self.newest_attempt_id else None

    def attempt(self, attempt: int) -> Attempt:
        """An attempt.

        Raises:
            RestoreError: no attempt has that number.
            CorruptChangelogError: its row can't be read.
        """
        entry = self.attempts.get(attempt)
        if entry is None:
            raise RestoreError(f"there is no attempt {attempt} in {self.storage.root}")
        return Attempt.from_json(self.attempts.document(entry))

    def newest_checkpoint(self, attempt: int | None = None) -> Checkpoint | None:
        """The newest checkpoint, of one attempt or of all."""
        newest = self.checkpoints.newest if attempt is None else self.checkpoints.newest_of(attempt)
        return self.checkpoint(newest) if newest else None

    def newest_point(self) -> Checkpoint | None:
        """The checkpoint that the newest attempt stands on: its newest, or the one that it started from."""
        attempt = self.newest_attempt()
        if attempt is None:
            return None
        newest = self.newest_checkpoint(attempt.id)
        if newest is None and attempt.parent is not None:
            return self.checkpoint(attempt.parent)
        return newest

    def branches(self, lineage: tuple[Segment, ...]) -> frozenset[int]:
        """Attempts that have checkpoints beside a lineage.

        Raises:
            CorruptChangelogError: a file of merged rows can't be read.
        """
        ids, attempts = self.checkpoints.attempts()
        beside = np.ones(len(ids), bool)
        for attempt, first, last in lineage:
            beside &= (attempts != attempt) | (ids < first) | (ids > last)
        return frozenset(np.unique(attempts[beside]).tolist())

    def checkpoint(self, checkpoint: int) -> Checkpoint:
        """A checkpoint.

        Raises:
            RestoreError: there is none of that id; lists what there is.
            CorruptChangelogError: its row is missing or was changed; names the file.
        """
        entry = self.checkpoints.get(checkpoint)
        if entry is None:
            raise (RetiredError if checkpoint < self.newest_checkpoint_id else RestoreError)(
                f"there is no checkpoint {checkpoint} in {self.storage.root}: {self._available()}"
            )
        try:
            return Checkpoint.from_json(self.checkpoints.document(entry))
        except CorruptChangelogError as error:
            fault = f"{error.fault}. It has the row of checkpoint {checkpoint}. {self._before(checkpoint)}"
            raise CorruptChangelogError(fault, error.path) from error

    def readable_attempts(self, lost: dict[int, CorruptChangelogError]) -> dict[int, Attempt]:
        """The attempts whose rows can be read, ascending: for displays.

        Args:
            lost: takes the others, by number; of a file of many rows that can't be read the first one.

        Raises:
            CorruptChangelogError: the newest one's can't be read.
        """
        found = {}
        for number in self.attempts.ids(lost):
            try:
                found[number] = self.attempt(number)
            except CorruptChangelogError as error:
                if number == self.newest_attempt_id:
                    raise
                lost[number] = error
        return found

    def readable(self, ids: Sequence[int], faults: dict[int, CorruptChangelogError]) -> dict[int, Checkpoint]:
        """Those of some checkpoints whose rows can be read: for displays; ``faults`` takes the others, by id."""
        found = {}
        for each in ids:
            try:
                found[each] = self.checkpoint(each)
            except CorruptChangelogError as error:
                faults[each] = error
        return found

    def at_or_before(self, time_ms: int) -> Checkpoint | None:
        """The newest checkpoint whose barrier was at or before a time (epoch milliseconds); None for none.

        Raises:
            RestoreError: the one after it is not there any more, and may have been the newest then. Or that one's time is
                yet to come: a clock was set, and it and those after it may be older. Or the time itself is yet to come,
                and after all checkpoints: mostly one of another zone.
            CorruptChangelogError: a row can't be read.
        """
        later, later_ms = None, 0
        for identity in reversed(self.checkpoints.ids()):
            found_ms = self.checkpoints.time_of(self.checkpoints[identity])
            if found_ms <= time_ms:
                if later is None and time_ms > max(found_ms, (now := wall_ms()) + _CLOCKS_DIFFER_MS):
                    raise RestoreError(
                        f"{iso(time_ms)} is in the future: it is {iso(now)} now, and a time without a zone is UTC. For the "
                        f"newest checkpoint of {self.storage.root}, {identity}, give latest"
                    )
                if later is not None and later > identity + 1:
                    raise RestoreError(
                        f"checkpoints {identity + 1} to {later - 1} of {self.storage.root} were truncated, and one of them "
                        f"may have been the newest then: ask for {identity} or {later}"
                    )
                if later is not None and later_ms > wall_ms() + _CLOCKS_DIFFER_MS:
                    raise RestoreError(
                        f"checkpoint {later} of {self.storage.root} has a time that is yet to come, {iso(later_ms)}: a "
                        "clock was set, and it and those after it may be older than that. Ask for an id: the one before it "
                        f"is {identity} ({iso(found_ms)}), the newest {self.newest_checkpoint_id}"
                    )
                return self.checkpoint(identity)
            later, later_ms = identity, found_ms
        return None

    def _before(self, checkpoint: int) -> str:
        """What to do where a checkpoint's row can't be read. What other branches have is another run's state."""
        with suppress(CorruptChangelogError, RestoreError):
            earlier = self._parent_of(checkpoint)
            for _ in range(_LOOKED_AT):
                if earlier is None:
                    break
                with suppress(CorruptChangelogError):
                    self.checkpoints.document(self.checkpoints[earlier])
                    return (
                        f"Put the file back from a copy, or begin at the checkpoint before it, whose row is there: set "
                        f"changelog.restore = {earlier} (changelog-engine run --restore {earlier}). Nothing was changed"
                    )
                earlier = self._parent_of(earlier)
        return "Put the file back from a copy. Nothing was changed"

    def _parent_of(self, checkpoint: int) -> int | None:
        """The checkpoint before one of the same line, without its row: of its attempt, or where that began."""
        attempt = self.checkpoints[checkpoint].attempt
        before = max((each for each in self.checkpoints.ids() if each < checkpoint), default=None)
        if before is None or self.checkpoints[before].attempt == attempt:
            return before
        parent = self.attempt(attempt).parent
        return parent if parent in self.checkpoints else None

    def _available(self) -> str:
        ids = sorted(self.checkpoints)
        if not ids:
            return "there are no checkpoints"
        first, last = (iso(self.checkpoints.time_of(self.checkpoints[each])) for each in (ids[0], ids[-1]))
        gaps = "" if len(ids) == ids[-1] - ids[0] + 1 else f" ({len(ids)} of them)"
        return f"there are checkpoints {ids[0]} ({first}) to {ids[-1]} ({last}){gaps}"

    def _check_newest_rows(self) -> None:
        """The newest checkpoint and the newest attempt have rows as long as there is anything of them."""
        paths = self.files["path"]
        # The heads alone are a tenth of the work; names of others may begin so.
        known = column_of_one(self.newest_checkpoint_id, pa.int64())[0]  # an int would import pandas
        later = paths.filter(pc.greater(_checkpoints_in(paths, _HEAD), known))
        newest = pc.max(_checkpoints_in(later, _PART)).as_py()
        if newest is not None:
            path = next(p for p in later.to_pylist() if p.startswith((f"part-{newest}-", f"pack-{newest}-")))
            self._lost(path, f"checkpoint {newest}", self.newest_checkpoint_id)
        for entry in self.checkpoints.own.values():
            if entry.attempt > self.newest_attempt_id:
                self._lost(entry.path or "", f"attempt {entry.attempt}", self.newest_attempt_id)

    def _lost(self, path: str, what: str, newest: int) -> None:
        full = self.storage.join(path)
        raise CorruptChangelogError(
            f"belongs to {what}, whose row is not in the table's list of files any more (the newest there is "
            f"{newest}): a commit of {self.storage.root} was lost or damaged",
            full,
        )


def _checkpoints_in(paths: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    """The numbers of checkpoints in paths; null where there is none."""
    return pc.cast(pc.struct_field(pc.extract_regex(paths, pattern), "checkpoint"), pa.int64())
