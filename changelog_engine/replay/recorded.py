"""A recorded piece of a job's history: its checkpoints, and the mutations that the log has of them.

Invariant: the job's folder is only read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.model import Checkpoint, RestorePoint
from changelog_engine.changelog.segments import ids_after, on_lineage
from changelog_engine.errors import RestoreError
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.graph.nodes import JobGraph, JobSettings
from changelog_engine.ledger.described import parallelism_of
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.points import At, checkpoint_at
from changelog_engine.ledger.reading import read_suffix
from changelog_engine.storage.delta_log import DeltaLog


def recorded_folder(graph: JobGraph, settings: JobSettings, asked: str) -> JobFolder:
    """The folder of a job's recorded history.

    Args:
        asked: what is to be done with it, for the message.

    Raises:
        RestoreError: there is none.
    """
    folder = find_job_folder(settings.base_path, graph.name)
    if not DeltaLog.exists(folder.changelog):
        raise RestoreError(
            f"there is nothing to {asked}: job {graph.name!r} has no changelog in {folder.changelog.root}"
        )
    return folder


class RecordedPiece(NamedTuple):
    """Consecutive checkpoints of one parallelism."""

    start: Checkpoint | None  # the checkpoint before the first; None for the start of the job
    checkpoints: list[Checkpoint]  # at least one


class RecordedRange:
    """The checkpoints after one up to another on its branch, and their mutations.

    Args:
        start: the checkpoint before the first, see ``ledger.points``; None or 0 for the start of the job.
        end: the last one, likewise; None for the newest.

    Raises:
        RestoreError: there is no such piece, or its mutations are not known.
    """

    def __init__(self, folder: JobFolder, start: At, end: At = None) -> None:
        self.folder = folder
        lineage = folder.open_lineage()
        self.end = newest = checkpoint_at(lineage, end)
        empty = start is None or str(start).strip() == "0"
        self.start = None if empty else checkpoint_at(lineage, start)
        if self.start is not None and not on_lineage(newest.lineage, self.start.attempt, self.start.id):
            raise RestoreError(
                f"checkpoint {newest.id} does not come after checkpoint {self.start.id} on one branch: its ancestors are "
                f"{', '.join(f'{s.first} to {s.last}' for s in newest.lineage)}"
            )
        self.start_id = None if self.start is None else self.start.id
        after = self.start_id or 0
        ids = list(ids_after(newest.lineage, after))
        if not ids:
            raise RestoreError(
                f"there is nothing to replay between checkpoints {after} and {newest.id}: begin at an earlier one, or at 0, "
                "where the job began"
            )
        self.checkpoints = [lineage.checkpoint(number) for number in ids]
        for row in self.checkpoints:
            if row.snapshot == row.id:
                raise RestoreError(
                    f"checkpoint {row.id} was made without the changelog, so its mutations are not known: choose a range "
                    "that was recorded with state.changelog.enabled=true"
                )
            if row.correction is not None:
                raise RestoreError(
                    f"the mutations of checkpoint {row.id} are corrections that {row.correction.get('who')} made: no "
                    f"input led to them, so a replay can't. Begin with checkpoint {row.id}, or end before it"
                )

    def pieces(self) -> Iterator[RecordedPiece]:
        """The range in pieces, each of one parallelism, in order."""
        start = self.start
        for _, rows in itertools.groupby(self.checkpoints, parallelism_of):  # drives our own code
            checkpoints = list(rows)
            yield RecordedPiece(start, checkpoints)
            start = checkpoints[-1]

    def point(self, checkpoint: Checkpoint | None) -> RestorePoint:
        """Where the state of a checkpoint is read."""
        return plan_restore(self.folder, checkpoint)

    def mutations(
        self, key_groups: range = ALL_KEY_GROUPS, operators: frozenset[str] | None = None
    ) -> dict[int, list[pa.Table]]:
        """The log's rows by checkpoint.

        Args:
            key_groups: only of these; all by default.
            operators: only of those with these uids; None, the default, for all.
        """
        found: dict[int, list[pa.Table]] = {row.id: [] for row in self.checkpoints}
        for table in read_suffix(self.point(self.end), self.start_id, key_groups, operators):
            for number in pc.unique(table["checkpoint_id"]).to_pylist():
                found[number].append(table.filter(pc.equal(table["checkpoint_id"], number)))
        return found
