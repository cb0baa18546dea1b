"""Where a run of a job starts: the checks, the job's folder, and the checkpoint, in that order.

Invariant: a start that cannot work is refused before anything is made or changed, as far as the driver can tell.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.driver.compatibility import (
    check_restorable,
    claimed_state,
    fitted,
    placed,
    without_removed,
)
from changelog_engine.driver.journal import JobJournal
from changelog_engine.driver.sinks import check_sinks
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.graph.plan import JobPlan
from changelog_engine.savepoints.folder import Savepoint, is_savepoint_path, open_savepoint
from changelog_engine.savepoints.restore import pickled_states

log = logging.getLogger("changelog_engine")


class Start(NamedTuple):
    """How a run starts."""

    plan: JobPlan  # the job, with the max parallelism that its state has
    journal: JobJournal | None  # open, or None for a job without checkpoints
    checkpoint: Checkpoint | None  # where it goes on; None starts empty


def prepare_start(plan: JobPlan, settings: JobSettings) -> Start:
    """Open the job's folder and decide where the run starts; a savepoint is imported.

    Raises:
        ConfigurationError: a savepoint is to be restored by a job that makes no checkpoints.
        RestoreError: the restore cannot work; says why.
        CorruptChangelogError: a file that it needs is damaged.
        FencedError, ForeignPathError, FormatVersionError, StorageError: as JobJournal.open.
    """
    savepoint = None
    if is_savepoint_path(settings.restore):
        plan, savepoint, checkpoint = _check_savepoint(plan, settings)
    if settings.checkpoint_interval_ms is None:
        return Start(plan, None, None)
    name = plan.graph.name
    journal = JobJournal.open(settings.base_path, name, settings.changelog, settings.retained_checkpoints)
    try:
        if savepoint is not None:
            start: Checkpoint | None = journal.adopt(savepoint, checkpoint, settings.claim_savepoint)
            assert start is not None
            log.info(
                "job %r starts from the savepoint %s, now its checkpoint %d", name, savepoint.path, start.id
            )
        else:
            start = journal.start_point(settings.restore)
            if start is not None:
                start = placed(plan, start)
                plan = fitted(plan, start)
                check_restorable(plan, start)
                check_sinks(plan, start, journal.has_ended_with(start))
                pickled = ", ".join(pickled_states(start))
                loads = f", and may load pickled values of {pickled}" if pickled else ""
                log.info("job %r goes on from checkpoint %d%s", name, start.id, loads)
    except BaseException as error:
        journal.note_failed_start(error)
        journal.close()
        raise
    if start is not None and settings.drop_removed_state:
        start = without_removed(plan, start)
    return Start(plan, journal, start)


def _check_savepoint(plan: JobPlan, settings: JobSettings) -> tuple[JobPlan, Savepoint, Checkpoint]:
    if settings.checkpoint_interval_ms is None:
        raise ConfigurationError(
            f"the savepoint {settings.restore} can't be restored by a job that makes no checkpoints: call "
            "env.enable_checkpointing(interval); BATCH mode starts empty"
        )
    savepoint = open_savepoint(settings.restore)
    checkpoint = placed(plan, savepoint.checkpoint)
    if settings.ignore_unclaimed_state:
        checkpoint = claimed_state(plan, checkpoint)
    plan = fitted(plan, checkpoint)
    check_restorable(plan, checkpoint)
    check_sinks(plan, checkpoint, checkpoint.ends)
    savepoint.verify()
    return plan, savepoint, checkpoint
