"""One round of upkeep of a job: a snapshot, then a truncation. The schedule beside a job and the console both run this."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from changelog_engine.clock import wall_s
from changelog_engine.ledger.job_folder import JobFolder
from materializer.materialize import Materialization, materialize
from materializer.retention import Retention
from materializer.runner import HERE, TaskRunner
from materializer.truncation import Truncation, sweep_expired, truncate

log = logging.getLogger("changelog_engine")


class _Task(NamedTuple):
    folder: JobFolder
    checkpoint_id: int | None
    retention: Retention | None
    now_s: float


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
        run: runs the tasks: the materialization, as one where no two run side by side, so that a job's driver has nothing of
            it to do while it commits checkpoints; else the folds; and the truncation, which merges small files.
        retention: what truncation keeps; None truncates nothing.
        told: called with what was materialized, None for nothing to do, before the truncation begins.
        clock: seconds since 1970.
        checkpoint_id: of which; None for the one that the job would go on from.

    Returns:
        What the truncation did, with what was deleted ahead of the snapshot.

    Raises:
        MaterializerBusyError: another process materializes or truncates this job.
        ChangelogEngineError: see ``materialize`` and ``truncate``.
    """
    task = _Task(folder, checkpoint_id, retention, clock())
    deleted, done = _materialize(task, run) if run.parallel else _by_task(run, _materialize, task)
    told(done)
    if retention is None:
        return None
    truncation: Truncation = _by_task(run, _truncate, task._replace(now_s=clock()))
    return truncation._replace(deleted=deleted + truncation.deleted)


def _materialize(task: _Task, run: TaskRunner = HERE) -> tuple[int, Materialization | None]:
    """How many files were deleted, so that there is room for what is written now, and what was."""
    deleted = 0
    if task.retention is not None:
        deleted = sweep_expired(task.folder, task.retention, lambda: task.now_s)
    return deleted, materialize(task.folder, task.checkpoint_id, run)


def _truncate(task: _Task) -> Truncation:
    assert task.retention is not None
    return truncate(task.folder, task.retention, lambda: task.now_s)


class _Warnings(logging.Handler):
    """Keeps what the engine warns of in a task: the log is the caller's."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def _by_task(run: TaskRunner, function: Callable[[_Task], Any], task: _Task) -> Any:
    """What a function gives in a task; what it warned of is told here."""
    ((result, said),) = run.map(_with_warnings, [(function, task)])
    for words in said:
        log.warning("%s", words)
    return result


def _with_warnings(called: tuple[Callable[[_Task], Any], _Task]) -> tuple[Any, list[str]]:
    function, task = called
    warnings = _Warnings()
    before, log.propagate = log.propagate, False
    log.addHandler(warnings)
    try:
        result = function(task)
        said, warnings.said = warnings.said, []
        return result, said
    finally:
        log.removeHandler(warnings)
        log.propagate = before
        for words in warnings.said:  # it failed, and its failure is all that the caller gets
            log.warning("%s", words)
