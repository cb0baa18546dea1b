"""Looking at the demo's job from outside: its log is there for all to read while it runs."""

from __future__ import annotations

from typing import NamedTuple

from changelog_engine.demo.payments import LINE_BYTES
from changelog_engine.inspection.points import open_ledger
from changelog_engine.inspection.states import entries_at
from changelog_engine.ledger.job_folder import CHANGELOG
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage


class JobSeen(NamedTuple):
    """How far the job is."""

    checkpoint: int = 0  # id of the newest; 0 before the first
    attempt: int = 0
    payments: int = 0
    mutations: int = 0  # changes of state that are in the log
    bytes: int = 0
    finished: bool = False  # whether the input has ended


def look(job: str) -> JobSeen:
    """How far a job is, by the rows of its checkpoints.

    Args:
        job: its folder, which need not be there yet.

    Raises:
        CorruptChangelogError: a file is missing or damaged.
    """
    if not DeltaLog.exists(open_storage(job).child(CHANGELOG)):
        return JobSeen()
    lineage = open_ledger(job).lineage
    newest = lineage.newest_checkpoint()
    if newest is None:
        return JobSeen()
    read = sum(
        end.position[0] for splits in newest.sources.values() for end in splits.values() if end.position
    )
    made = [lineage.checkpoint(each) for each in lineage.checkpoints.ids()]
    return JobSeen(
        newest.id,
        newest.attempt,
        read // LINE_BYTES,
        sum(each.rows for each in made),
        sum(each.bytes for each in made),
        newest.finished,
    )


def counters(job: str, at: int, accounts: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """The states of some accounts at a checkpoint; only the files that can have them are read."""
    found = {name: entries_at(job, at, operator="accounts", key=name).entries for name in accounts}
    return {name: {entry.state: entry.value for entry in entries} for name, entries in found.items()}
