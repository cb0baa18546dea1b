"""The acknowledgement: one Delta commit that makes parts, source positions and watermarks durable together.

Invariants:
    * Each checkpoint is one commit: its parts and its row, all or nothing.
    * Nothing is committed after another driver took the job over.
    * Ids grow by one; a part's sequence numbers follow on those of the same subtask committed before in the attempt.
    * A commit that succeeded but was reported as failed counts as a success: the log decides.

Steps of ``commit`` (a crash after any of them leaves the checkpoint whole or absent):
    1. Verify each part: it exists with its size, its footer has its rows, its numbers follow on.
    2. Write the checkpoint's row as a file, durably.
    3. Look whether somebody else committed; refuse if it was another driver.
    4. Commit parts and row by compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from changelog_engine.changelog.log_files import parse_pack
from changelog_engine.changelog.model import Attempt, Checkpoint, Part
from changelog_engine.changelog.part_stats import delta_stats
from changelog_engine.clock import wall_ms
from changelog_engine.errors import CorruptChangelogError, StorageError, UncommittedPartError
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ownership import check_fence, checkpoint_row, commit_fenced
from changelog_engine.ledger.snapshot_store import SnapshotStore
from changelog_engine.storage.damaged import reading
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.protocol import Storage
from changelog_engine.storage.side_by_side import side_by_side

_GONE = (
    "is missing: somebody deleted it, as by VACUUM, before its checkpoint was committed, and that is not committed now. The "
    "job goes on from the checkpoint before, by itself if it restarts, else when it is run again"
)


class CheckpointCommitter:
    """Commits the checkpoints of one attempt.

    Threads: one at a time.

    Args:
        log: the changelog as ``begin_attempt`` left it.
        newest_checkpoint: newest checkpoint id of the job, over all attempts; 0 for none.
    """

    def __init__(self, folder: JobFolder, log: DeltaLog, attempt: Attempt, newest_checkpoint: int) -> None:
        self.folder = folder
        self.attempt = attempt
        self._log = log
        self._newest = newest_checkpoint
        self._parent = attempt.parent
        self._next_sequence: dict[tuple[int, int], int] = {}
        self._snapshots: SnapshotStore | None = None

    @property
    def next_id(self) -> int:
        """The id of the next checkpoint."""
        return self._newest + 1

    def commit(self, checkpoint: Checkpoint, parts: Sequence[Part]) -> None:
        """Make a checkpoint durable. When this returns, it is acknowledged.

        Args:
            checkpoint: its row; ``parts``, ``rows`` and ``bytes`` agree with the parts.
            parts: every part since the last checkpoint.

        Raises:
            FencedError: another driver took the job over; nothing was committed, this driver must stop.
            CorruptChangelogError: a part's numbers don't follow on.
            UncommittedPartError: a part is missing or not what was said.
            StorageError: storage failed. Ask ``Lineage`` for the attempt's newest checkpoint before going on from an
                older one.
        """
        self._check_id(checkpoint)
        if checkpoint.parts != len(parts):
            raise CorruptChangelogError(
                f"checkpoint {checkpoint.id} says {checkpoint.parts} parts, {len(parts)} came"
            )
        next_sequence = self._check_sequences(checkpoint, parts)
        adds = verify_parts(self.folder.changelog, parts)
        self._commit_row(checkpoint, adds)
        self._next_sequence = next_sequence

    def commit_snapshot(self, checkpoint: Checkpoint, parts: Sequence[Part]) -> None:
        """Make a checkpoint of a job without changelog durable: its parts are the full state.

        The snapshot is committed first, then the row that makes it the job's newest checkpoint. A crash in between leaves
        a snapshot that no checkpoint refers to; ``retire_snapshots`` removes it later.

        Args:
            checkpoint: its row, with ``snapshot`` equal to ``id``.
            parts: the state, as parts in the snapshots table.

        Raises:
            FencedError, CorruptChangelogError, StorageError: as ``commit``.
        """
        self._check_id(checkpoint)
        if checkpoint.snapshot != checkpoint.id:
            raise ValueError(
                f"checkpoint {checkpoint.id} has snapshot {checkpoint.snapshot}: it is its own snapshot"
            )
        self._check_owner(checkpoint, parts)
        adds = verify_parts(self.folder.snapshots, parts)
        self.refuse_if_fenced(f"snapshot {checkpoint.id}")
        self._snapshot_store().commit(checkpoint, parts, adds)
        self._commit_row(checkpoint, [])

    def retire_snapshots(self, keep: set[int]) -> list[str]:
        """Remove snapshots that are older than the newest kept one and not kept, from the table and from the disk.

        Args:
            keep: checkpoint ids of the snapshots that must stay.

        Returns:
            Paths of the deleted files.

        Raises:
            FencedError: another driver took the job over.
            StorageError: storage failed; the next call finishes.
        """
        self.refuse_if_fenced("retiring snapshots")
        return self._snapshot_store().retire(keep)

    def logs(self) -> list[DeltaLog]:
        """The Delta logs that were committed to: see ``DeltaLog.maintain``."""
        return [self._log] if self._snapshots is None else [self._log, self._snapshots.log]

    def _commit_row(self, checkpoint: Checkpoint, adds: list[AddFile]) -> None:
        row = checkpoint_row(self.folder.changelog, checkpoint)
        metadata: dict[str, object] = {"checkpoint": checkpoint.id, "attempt": checkpoint.attempt}
        commit_fenced(self._log, [*adds, row], metadata, lambda: f"checkpoint {checkpoint.id}")
        self._newest = checkpoint.id
        self._parent = checkpoint.id

    def refuse_if_fenced(self, who: str) -> None:
        """Raise a FencedError when another driver took the job over.

        Args:
            who: what this driver is about to do, for the message.
        """
        seen = self._log.version
        self._log.refresh()
        check_fence(self._log, seen, "", who)

    def _check_id(self, checkpoint: Checkpoint) -> None:
        if (
            checkpoint.attempt != self.attempt.id
            or checkpoint.id != self.next_id
            or checkpoint.parent != self._parent
        ):
            raise StorageError(
                f"checkpoint {checkpoint.id} of attempt {checkpoint.attempt} after {checkpoint.parent} is not the next one: "
                f"{self.next_id} of attempt {self.attempt.id} after {self._parent} is"
            )

    def _check_owner(self, checkpoint: Checkpoint, parts: Sequence[Part]) -> None:
        for part in parts:
            if part.checkpoint_id != checkpoint.id or part.attempt != checkpoint.attempt:
                raise CorruptChangelogError(
                    f"belongs to checkpoint {part.checkpoint_id} of attempt {part.attempt}, not to checkpoint "
                    f"{checkpoint.id} of attempt {checkpoint.attempt}",
                    self._log.storage.join(part.path),
                )

    def _check_sequences(self, checkpoint: Checkpoint, parts: Sequence[Part]) -> dict[tuple[int, int], int]:
        self._check_owner(checkpoint, parts)
        expected = dict(self._next_sequence)
        for part in sorted(parts, key=lambda part: part.first_sequence):
            writer = (part.stage, part.subtask)
            due = expected.get(writer, 0)
            if part.first_sequence != due:
                raise CorruptChangelogError(
                    f"begins at sequence number {part.first_sequence}, {due} is due for subtask {part.subtask} of stage "
                    f"{part.stage}: mutations were lost or sent twice",
                    self._log.storage.join(part.path),
                )
            expected[writer] = due + part.rows
        return expected

    def _snapshot_store(self) -> SnapshotStore:
        if self._snapshots is None:
            self._snapshots = SnapshotStore(self.folder.open_snapshots())
        return self._snapshots


def verify_parts(storage: Storage, parts: Sequence[Part]) -> list[AddFile]:
    """Look at every part and describe it for the Delta log.

    Raises:
        UncommittedPartError: a file is missing, or its size or number of rows is another.
        StorageError: a pack has other parts than those that were reported: a subtask ended while it was written.
    """
    files: dict[str, list[Part]] = {}
    for part in parts:
        files.setdefault(part.path, []).append(part)
    return side_by_side(storage, partial(_verify, storage), files.values())


def _verify(storage: Storage, parts: Sequence[Part]) -> AddFile:
    """One file, which is a part, or a pack of all these."""
    path, rows = parts[0].path, sum(part.rows for part in parts)
    size = parts[0].pack_size or parts[0].size
    full = storage.join(path)
    if len(parts) > 1 or parts[0].pack_size:
        _check_pack(parts, full)
    try:
        with reading(full, missing=_GONE, consequence="The checkpoint is not committed"):
            stats = delta_stats(storage.read_footer(path, size))
    except CorruptChangelogError as error:
        raise UncommittedPartError(error.fault, error.path) from error
    if stats["numRecords"] != rows:
        raise UncommittedPartError(f"has {stats['numRecords']} rows, its subtask wrote {rows}", full)
    return AddFile(path, size, wall_ms(), stats)


def _check_pack(parts: Sequence[Part], full: str) -> None:
    """What is in a pack is what its subtasks reported, each part once: rows of others would be committed with it."""
    packed = sorted(
        (each.name.checkpoint, each.name.attempt, each.name.stage, each.name.subtask, each.rows, each.size)
        for each in parse_pack(parts[0].path) or ()
    )
    reported = sorted(
        (part.checkpoint_id, part.attempt, part.stage, part.subtask, part.rows, part.size) for part in parts
    )
    if packed != reported or len({part.pack_size for part in parts}) != 1:
        raise StorageError(
            f"{full} has parts of the subtasks {[each[3] for each in packed]}, and those that reported one in it are "
            f"{[each[3] for each in reported]}. The checkpoint is not committed",
            full,
        )
