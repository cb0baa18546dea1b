"""Helpers of the durable side's tests: a small job whose parts and checkpoints are made by hand. No tests here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from changelog_engine.changelog.model import Attempt, Checkpoint, Part, RestorePoint
from changelog_engine.changelog.part_writer import PartWriter
from changelog_engine.changelog.segments import extend
from changelog_engine.changelog.small_state import LogPosition, SmallState, StageState
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.ledger.committer import CheckpointCommitter
from changelog_engine.ledger.job_folder import JobFolder, open_job_folder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.ownership import begin_attempt
from changelog_engine.ledger.reading import read_parts
from changelog_engine.ledger.restore_decision import decide_restore
from changelog_engine.storage.delta_log import DeltaLog

KEY_GROUPS = 8


@dataclass
class Driver:
    """One driver of a job: an attempt, its committer, and the counters its subtasks would keep."""

    folder: JobFolder
    log: DeltaLog
    attempt: Attempt
    committer: CheckpointCommitter
    last: Checkpoint | None
    sequence: dict[int, int] = field(default_factory=dict)
    number: dict[int, int] = field(default_factory=dict)
    operators: list[DescribedOperator] = field(default_factory=list)

    @classmethod
    def start(cls, base: Path | str, restore: str = "auto", name: str = "job") -> Driver:
        folder = open_job_folder(str(base), name)
        log = folder.open_changelog()
        lineage = Lineage(log)
        last = decide_restore(lineage, restore).checkpoint
        attempt = begin_attempt(log, lineage.newest_attempt_id, None if last is None else last.id)
        committer = CheckpointCommitter(folder, log, attempt, lineage.newest_checkpoint_id)
        return cls(folder, log, attempt, committer, last)

    def part(
        self, rows: dict[str, int], subtask: int = 0, snapshot: bool = False, operator: str = "count"
    ) -> Part:
        """A part of puts; the key group of a key is its length modulo 8."""
        self.number[subtask] = self.number.get(subtask, 0) + 1
        first = self.sequence.get(subtask, 0)
        self.sequence[subtask] = first + len(rows)
        table = self.folder.snapshots if snapshot else self.folder.changelog
        if snapshot:
            self.folder.open_snapshots()
        writer = PartWriter(
            table.root,
            checkpoint_id=self.committer.next_id,
            attempt=self.attempt.id,
            stage=1,
            subtask=subtask,
            number=self.number[subtask],
            first_sequence=first,
            key_groups=range(KEY_GROUPS),
        )
        columns = {
            "operator": operator,
            "state": "n",
            "operation": "put",
            "key": pa.array(list(rows), pa.string()),
            "key_group": pa.array([len(key) % KEY_GROUPS for key in rows], pa.int32()),
            "value": pa.array([str(value) for value in rows.values()], pa.string()),
        }
        writer.write(len(rows), columns)
        return writer.finish()

    def row(
        self, parts: list[Part], time_ms: int = 0, snapshot: int | None = None, **more: bool
    ) -> Checkpoint:
        """The next checkpoint's row."""
        identity = self.committer.next_id
        lineage = () if self.last is None else self.last.lineage
        return Checkpoint(
            id=identity,
            attempt=self.attempt.id,
            parent=None if self.last is None else self.last.id,
            lineage=extend(lineage, self.attempt.id, identity),
            time_ms=time_ms or identity * 1000,
            rows=sum(part.rows for part in parts),
            bytes=sum(part.size for part in parts),
            parts=len(parts),
            snapshot=snapshot,
            operator_state={"count": self.written()},
            operators=self.operators,
            **more,
        )

    def written(self) -> StageState:
        """How far each subtask has come."""
        return StageState(
            {s: SmallState(LogPosition(self.sequence[s], number)) for s, number in self.number.items()}
        )

    def checkpoint(self, rows: dict[str, int], time_ms: int = 0, **more: bool) -> Checkpoint:
        """Commit a checkpoint of one part."""
        parts = [self.part(rows)]
        row = self.row(parts, time_ms, **more)
        self.committer.commit(row, parts)
        self.last = row
        return row

    def snapshot(self, rows: dict[str, int]) -> Checkpoint:
        """Commit a checkpoint that is a full snapshot."""
        parts = [self.part(rows, snapshot=True)]
        row = self.row(parts, snapshot=self.committer.next_id)
        self.committer.commit_snapshot(row, parts)
        self.last = row
        return row


def state_at(folder: JobFolder, checkpoint: Checkpoint | None) -> dict[str, int]:
    """Fold the rows that a restore reads."""
    return fold(plan_restore(folder, checkpoint))


def fold(point: RestorePoint, key_groups: range = range(KEY_GROUPS)) -> dict[str, int]:
    """Last value of each key."""
    state: dict[str, int] = {}
    for table in read_parts(point, key_groups):
        state.update(zip(table["key"].to_pylist(), map(int, table["value"].to_pylist()), strict=True))
    return state
