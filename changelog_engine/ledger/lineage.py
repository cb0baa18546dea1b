"""The tree of checkpoints: which there are, which is newest, and where a run starts.

Invariants:
    * Ids and attempts come from names, times from the rows themselves; only the rows that are asked for are opened.
    * A list of files that lost its end, the newest commit or the newest rows, is an error, never taken for one checkpoint
      less.
    * Rows that were merged into other files are found all the same. The newest never are, so a start opens two small
      files, however many checkpoints there are.
    * An attempt whose input ended has finished once its note says so: until then its sinks may have output to commit, and
      a run that begins anew would give all of it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.model import Attempt, Checkpoint, Segment
from changelog_engine.changelog.part_stats import delta_stats, footer_of
from changelog_engine.changelog.row_files import Rows, merged_rows_file, rows_of
from changelog_engine.errors import CorruptChangelogError, RestoreError
from changelog_engine.ledger.attempt_notes import read_notes
from changelog_engine.ledger.commits import check_commits
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.ledger.snapshots import beside, newest_attempt_named
from changelog_engine.readable import iso
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage

_PART = r"^(?:part|pack)-(?P<checkpoint>\d{1,18})-\d+-\d+-[0-9a-z._-]+-[0-9a-f]{8}\.parquet$"
_LOOKED_AT = 20  # checkpoints before one whose row can't be read


def write_merged_rows(storage: Storage, operation: str, rows: pa.Table) -> AddFile:
    """Write rows of checkpoints or attempts as one file, durably; nothing refers to it yet.

    Args:
        storage: the changelog.
        rows: as ``read_merged_rows`` gives them, at least one.

    Raises:
        StorageError: it could not be written.
    """
    path, data = merged_rows_file(operation, rows)
    storage.write_durable(path, data)
    newest = max(rows["event_time"].cast(pa.int64()).to_pylist()) // 1000
    return AddFile(path, data.size, newest, delta_stats(footer_of(data)))


class RestoreDecision(NamedTuple):
    """Where a run starts: a checkpoint, or None for empty; and why, for people; and what is gone, if anything."""

    checkpoint: Checkpoint | None
    reason: str
    lost: str | None = None


class Lineage:
    """Checkpoints and attempts of a job at one version of its changelog.

    Args:
        log: the changelog; it moves to the newest version.

    Raises:
        CorruptChangelogError: the newest commit is damaged, or lists mutations or checkpoints without their rows.
    """

    def __init__(self, log: DeltaLog) -> None:
        self._storage = log.storage
        self.files = log.files()
        self.version = log.version
        self.checkpoints: Rows
        self.attempts: Rows
        check_commits(log)
        self.checkpoints, self.attempts = rows_of(log.storage, self.files)
        self._check_newest_rows()

    @property
    def root(self) -> str:
        """The changelog's folder or URI."""
        return self._storage.root

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
            raise RestoreError(f"there is no attempt {attempt} in {self._storage.root}")
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
        """Attempts that have checkpoints beside a lineage."""
        found = self.checkpoints.index()
        beside = np.ones(len(found.ids), bool)
        for attempt, first, last in lineage:
            beside &= (found.attempts != attempt) | (found.ids < first) | (found.ids > last)
        return frozenset(np.unique(found.attempts[beside]).tolist())

    def checkpoint(self, checkpoint: int) -> Checkpoint:
        """A checkpoint.

        Raises:
            RestoreError: there is none of that id; lists what there is.
            CorruptChangelogError: its row is missing or was changed; names the file.
        """
        entry = self.checkpoints.get(checkpoint)
        if entry is None:
            raise RestoreError(
                f"there is no checkpoint {checkpoint} in {self._storage.root}: {self._available()}"
            )
        try:
            return Checkpoint.from_json(self.checkpoints.document(entry))
        except CorruptChangelogError as error:
            fault = f"{error.fault}. It has the row of checkpoint {checkpoint}. {self._before(checkpoint)}"
            raise CorruptChangelogError(fault, error.path) from error

    def readable(self, ids: Sequence[int], faults: dict[int, CorruptChangelogError]) -> dict[int, Checkpoint]:
        """Those of some checkpoints whose rows can be read, for who shows them.

        Args:
            ids: checkpoints that there are.
            faults: takes the others, by id.
        """
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
            RestoreError: the one after it is not there any more, and may have been the newest then.
            CorruptChangelogError: a row can't be read.
        """
        later = None
        for identity in reversed(self.checkpoints.ids()):
            if self.checkpoints.time_of(self.checkpoints[identity]) <= time_ms:
                if later is not None and later > identity + 1:
                    raise RestoreError(
                        f"checkpoints {identity + 1} to {later - 1} of {self._storage.root} were truncated, and one of them "
                        f"may have been the newest then: ask for {identity} or {later}"
                    )
                return self.checkpoint(identity)
            later = identity
        return None

    def decide_restore(self, restore: str) -> RestoreDecision:
        """Where a run starts.

        Args:
            restore: ``auto`` (go on with the newest attempt unless it finished), ``none``, or a point, see
                ``ledger.points``.

        Raises:
            RestoreError: there is no such checkpoint; the error suggests the closest match. Or the run would begin empty
                because the changelog is not there any more.
            CorruptChangelogError: its row can't be read.
        """
        wanted = restore.strip()
        if wanted == "none":
            return RestoreDecision(None, "changelog.restore = none")
        if wanted == "auto":
            return self._as_far_as_known(self._auto())
        if wanted == "latest":
            newest = self.newest_checkpoint()
            why = "there is no checkpoint yet" if newest is None else "changelog.restore = latest"
            return self._as_far_as_known(RestoreDecision(newest, why))
        try:
            return RestoreDecision(checkpoint_at(self, wanted), f"changelog.restore = {wanted}")
        except RestoreError as error:
            raise RestoreError(
                f"changelog.restore = {restore} is neither auto nor none, and as a point: {error}"
            ) from error

    def _auto(self) -> RestoreDecision:
        attempt = self.newest_attempt()
        if attempt is None:
            return RestoreDecision(None, "the job's first run")
        newest = self.newest_checkpoint(attempt.id)
        if newest is not None and newest.finished:
            note = read_notes(self._storage, [attempt.id]).get(attempt.id)
            if note is None or note.ended is not None:
                return RestoreDecision(None, f"attempt {attempt.id} finished")
            why = f"attempt {attempt.id} has read all of its input but did not finish: this completes it"
            return RestoreDecision(newest, why)
        if newest is not None:
            return RestoreDecision(newest, f"attempt {attempt.id} did not finish")
        if attempt.parent is None:
            return RestoreDecision(None, f"attempt {attempt.id} made no checkpoint")
        return RestoreDecision(
            self.checkpoint(attempt.parent), f"attempt {attempt.id} made no checkpoint of its own"
        )

    def _as_far_as_known(self, decision: RestoreDecision) -> RestoreDecision:
        """A decision that goes by what is newest, where attempts may be missing from the changelog."""
        named = newest_attempt_named(self._storage)
        if named <= self.newest_attempt_id:
            return decision
        known = f"goes to attempt {self.newest_attempt_id}" if self.newest_attempt_id else "has no attempt"
        lost = (
            f"{beside(self._storage).root} has files of attempt {named}, and {self.root} {known}: it was removed, "
            "repaired or put back from an older copy"
        )
        if decision.checkpoint is None:
            raise RestoreError(
                f"{lost}, and the run would begin empty. Put the newer copy of the changelog back; or, to begin empty, set "
                "changelog.restore = none (changelog-engine run --restore none)"
            )
        return RestoreDecision(
            decision.checkpoint, decision.reason, f"{lost}. What came after is not restored"
        )

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
        named = pc.drop_null(pc.extract_regex(paths, _PART))
        numbers = pc.cast(pc.struct_field(named, "checkpoint"), pa.int64())
        newest = pc.max(numbers).as_py() or 0
        if newest > self.newest_checkpoint_id:
            path = next(p for p in paths.to_pylist() if p.startswith((f"part-{newest}-", f"pack-{newest}-")))
            self._lost(path, f"checkpoint {newest}", self.newest_checkpoint_id)
        for entry in self.checkpoints.own.values():
            if entry.attempt > self.newest_attempt_id:
                self._lost(entry.path or "", f"attempt {entry.attempt}", self.newest_attempt_id)

    def _lost(self, path: str, what: str, newest: int) -> None:
        full = self._storage.join(path)
        raise CorruptChangelogError(
            f"belongs to {what}, whose row is not in the table's list of files any more (the newest there is "
            f"{newest}): a commit of {self._storage.root} was lost or damaged",
            full,
        )
