"""One round of upkeep of a job: a snapshot, then a truncation. The schedule beside a job and the console both run this."""

from __future__ import annotations

from collections.abc import Callable

from changelog_engine.clock import wall_s
from changelog_engine.ledger.job_folder import JobFolder
from materializer.materialize import Materialization, materialize
from materializer.retention import Retention
from materializer.runner import TaskRunner
from materializer.truncation import Truncation, sweep_expired, truncate


def upkeep(
    folder: JobFolder,
    run: TaskRunner,
    retention: Retention | None,
    told: Callable[[Materialization | None], None],
    clock: Callable[[], float] = wall_s,
    checkpoint_id: int | None = None,
) -> Truncation | None:
    """Make the snapshot of a checkpoint, then truncate; what takes long goes to tasks.

    Args:
        run: runs the tasks: the folds, and the truncation, which merges small files.
        retention: what truncation keeps; None truncates nothing.
        told: called with what was materialized, None for nothing to do, before the truncation begins.
        clock: seconds since 1970.
        checkpoint_id: of which; None for the one that the job would go on from.

    Raises:
        MaterializerBusyError: another process materializes or truncates this job.
        ChangelogEngineError: see ``materialize`` and ``truncate``.
    """
    if retention is not None:
        sweep_expired(folder, retention, clock)  # room for what is written now
    told(materialize(folder, checkpoint_id, run))
    if retention is None:
        return None
    (truncation,) = run.map(_truncate, [(folder, retention, clock())])
    return truncation


def _truncate(task: tuple[JobFolder, Retention, float]) -> Truncation:
    folder, retention, now_s = task
    return truncate(folder, retention, lambda: now_s)
