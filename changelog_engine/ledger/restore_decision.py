"""Where a run starts: what ``changelog.restore`` asks for, or what the newest attempt left.

Invariants:
    * An attempt whose input ended has finished once its note says so: until then its sinks may have output to commit, and
      a run that begins anew would give all of it twice.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from changelog_engine.changelog.model import Checkpoint, CheckpointMark
from changelog_engine.errors import CorruptChangelogError, RestoreError
from changelog_engine.ledger.attempt_notes import read_notes
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.points import checkpoint_at, is_point
from changelog_engine.ledger.snapshots import beside, newest_named
from changelog_engine.storage.delta_log import DeltaLog


class RestoreDecision(NamedTuple):
    """Where a run starts: a checkpoint, or None for empty; and why, for people; and what is gone, if anything."""

    checkpoint: Checkpoint | None
    reason: str
    lost: str | None = None


def decide_restore(lineage: Lineage, restore: str) -> RestoreDecision:
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
        return _as_far_as_known(lineage, _auto(lineage))
    if wanted == "latest":
        newest = lineage.newest_checkpoint()
        why = "there is no checkpoint yet" if newest is None else "changelog.restore = latest"
        return _as_far_as_known(lineage, RestoreDecision(newest, why))
    try:
        return RestoreDecision(checkpoint_at(lineage, wanted), f"changelog.restore = {wanted}")
    except RestoreError as error:
        others = "" if is_point(wanted) else ", or auto, or none"
        raise RestoreError(f"changelog.restore = {restore}: {error}{others}") from error


def _auto(lineage: Lineage) -> RestoreDecision:
    attempt = lineage.newest_attempt()
    if attempt is None:
        return RestoreDecision(None, "the job's first run")
    newest = lineage.newest_checkpoint(attempt.id)
    if newest is not None and newest.finished:
        note = read_notes(lineage.storage, [attempt.id]).get(attempt.id)
        if note is None or note.ended is not None:
            return RestoreDecision(None, f"attempt {attempt.id} finished")
        why = f"attempt {attempt.id} has read all of its input but did not finish: this completes it"
        return RestoreDecision(newest, why)
    if newest is not None:
        return RestoreDecision(newest, f"attempt {attempt.id} did not finish")
    if attempt.parent is None:
        return RestoreDecision(None, f"attempt {attempt.id} made no checkpoint")
    return RestoreDecision(
        lineage.checkpoint(attempt.parent), f"attempt {attempt.id} made no checkpoint of its own"
    )


def lost_end(lineage: Lineage, named: CheckpointMark) -> str | None:
    """What to say where attempts or checkpoints are missing from the changelog, of which there are snapshots; else None.

    A changelog with commits and no attempt lost its rows, too, with snapshots or without: each job's first commit to its
    table is an attempt.

    Args:
        named: the newest of the newest attempt that files of snapshots are named after.
    """
    if not lineage.newest_attempt_id and lineage.version > 0 and not named.attempt:
        return f"{lineage.root} has {lineage.version} commits and no attempt: its rows were deleted or its files replaced"
    if not _is_beyond(lineage, named):
        return None
    lineage = Lineage(DeltaLog(lineage.storage))  # a job that runs may have come to it since
    if not _is_beyond(lineage, named):
        return None
    attempt = lineage.newest_attempt_id
    if named.attempt > attempt:
        what, known = (
            f"attempt {named.attempt}",
            f"goes to attempt {attempt}" if attempt else "has no attempt",
        )
    else:
        newest = lineage.newest_checkpoint_id
        what = f"checkpoint {named.checkpoint} of attempt {attempt}"
        known = f"goes to checkpoint {newest}" if newest else "has no checkpoint"
    return (
        f"{beside(lineage.storage).root} has files of {what}, and {lineage.root} {known}: it was removed, "
        "repaired or put back from an older copy"
    )


def _is_beyond(lineage: Lineage, named: CheckpointMark) -> bool:
    """Whether the changelog never lacked it while it was whole."""
    if named.attempt != lineage.newest_attempt_id:
        return named.attempt > lineage.newest_attempt_id
    if named.checkpoint != lineage.newest_checkpoint_id + 1:
        return named.checkpoint > lineage.newest_checkpoint_id
    # With the changelog off a checkpoint's files come before its row: a driver may have died in between.
    with suppress(CorruptChangelogError):
        newest = lineage.newest_checkpoint(named.attempt)
        return newest is not None and newest.snapshot is None
    return False


def _as_far_as_known(lineage: Lineage, decision: RestoreDecision) -> RestoreDecision:
    """A decision that goes by what is newest, where the newest may be missing from the changelog."""
    lost = lost_end(lineage, newest_named(lineage.storage))
    if lost is None:
        return decision
    if decision.checkpoint is None:
        raise RestoreError(
            f"{lost}, and the run would begin empty. Put the newer copy of the changelog back; or, to begin empty, set "
            "changelog.restore = none (changelog-engine run --restore none)"
        )
    return RestoreDecision(decision.checkpoint, decision.reason, f"{lost}. What came after is not restored")
