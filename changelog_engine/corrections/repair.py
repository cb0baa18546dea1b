"""A fork with corrected entries: the corrections are mutations of its first checkpoint, which says who made them and why.

Steps (a crash after 1 or 2 leaves what a fork leaves that was not completed: no job):
    1. The state of the checkpoint is folded and the fix asked what it changes; nothing is written yet.
    2. A fork is begun (``savepoints.forks``), and the corrections are written as parts into it.
    3. The fork's one commit has the corrections' checkpoint, too: the fork is there with all of them, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from changelog_engine.changelog.figures import CorrectionNote
from changelog_engine.changelog.model import Attempt, Checkpoint, Part, Segment
from changelog_engine.changelog.small_state import LogPosition, SmallState, StageState
from changelog_engine.changelog.split_ends import with_ends
from changelog_engine.clock import wall_s
from changelog_engine.codec.arrow_columns import without_dictionary
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import CLEARED, codec_for
from changelog_engine.config.names import writable
from changelog_engine.corrections.fixes import Correction, Fix, StateChanges, changes_of
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.descriptions import key_type_of, map_key_type_of
from changelog_engine.graph.key_groups import key_group_range, key_groups
from changelog_engine.graph.nodes import StateKind
from changelog_engine.ledger.described import check_names
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.points import At, checkpoint_at
from changelog_engine.ledger.read_again import read_again
from changelog_engine.savepoints.forks import Amendment, Fork, fork_job
from changelog_engine.savepoints.writer import SnapshotWriter
from changelog_engine.state import mutation_log
from changelog_engine.types import type_from_spec
from changelog_engine.types.typeinfo import shown
from materializer.fold import FoldedState, fold_at

_MOST_CHARACTERS = 10_000  # of who and why: they are in the checkpoint's row


@dataclass(frozen=True)
class Repaired:
    """What a repair does, or would do.

    Args:
        parent: the checkpoint that it begins with.
        corrections: every entry that is changed, with what it was.
        fork: the new job; None after a dry run.
        checkpoint: the new job's, which has the corrections; None after a dry run.
    """

    parent: Checkpoint
    corrections: tuple[Correction, ...]
    fork: Fork | None = None
    checkpoint: Checkpoint | None = None

    @property
    def path(self) -> str | None:
        """The new job's folder; None after a dry run."""
        return None if self.fork is None else self.fork.folder.storage.root


def repair(
    path: str,
    at: At,
    fix: Fix,
    *,
    who: str,
    why: str,
    target: str | None = None,
    name: str | None = None,
    operator: str | None = None,
    state: str | None = None,
    dry_run: bool = False,
    allow_pickle: bool = False,
    clock: Callable[[], float] = wall_s,
) -> Repaired:
    """Fork a job at a checkpoint with corrected entries of state.

    The job itself is not changed, and may be running. The corrections are mutations of the new job's first checkpoint;
    ``changelog-engine history`` shows them with who made them and why.

    Args:
        path: the job's folder, or a savepoint's.
        at: the checkpoint: an id, ``-1``, ``latest``, a time; None for the newest.
        fix: called with each entry as a ``FixedEntry``; returns the new value, ``DELETE`` or ``UNCHANGED``. Or tables of
            corrections, uid -> name of a state -> a table as ``bootstrap`` takes it, but none of Spark: a row sets an entry,
            there or not, the rows of a key of a ListState are its new list, and a column ``delete`` says true where the
            entry is to go.
        who: makes the corrections.
        why: they are made.
        target: the new job's folder, ``<base>/<job>``; there is none yet. Not needed for a dry run.
        name: the new job's name; by default the last part of target.
        operator: only entries of the one with this uid, where fix is a function.
        state: only entries of the state of this name, likewise.
        dry_run: say what would be changed, and change nothing.
        allow_pickle: load pickled values, which runs what is in them: only of your own jobs.
        clock: seconds since 1970.

    Raises:
        ConfigurationError: nothing would be changed, fix says nothing, a state is withheld, or an argument is missing.
        TypeMismatchError: a new value is not of its type.
        RestoreError: there is no such checkpoint, or it can't be restored.
        CorruptChangelogError: a file of the job is missing or damaged.
        StorageError: target is taken, or can't be written.

    Example:
        >>> import changelog_engine
        >>> from changelog_engine.corrections import UNCHANGED
        >>> def fix(entry):
        ...     return 0 if entry.value < 0 else UNCHANGED
        >>> changelog_engine.repair(  # doctest: +SKIP
        ...     "changelog-data/accounts", 12, fix, who="ann", why="refund 17 was booked twice",
        ...     target="changelog-data/accounts-mended", operator="account", state="balance",
        ... ).corrections
    """
    _check(fix, who, why, operator, state)
    if target is None and not dry_run:
        raise ConfigurationError("target is missing: name the folder of the new job, or ask for a dry_run")
    job = open_job(path)
    uids = None if operator is None else frozenset([operator])
    if not callable(fix):
        uids = frozenset(fix)

    def fold(_: str) -> FoldedState:
        ledger = Ledger(job.open_changelog())
        checkpoint = checkpoint_at(ledger.lineage, at)
        check_names(checkpoint, operator, state)
        return fold_at(ledger, checkpoint, allow_pickle=allow_pickle, operators=uids, state=state)

    folded = read_again(fold)(job.changelog.root)
    checkpoint = folded.checkpoint
    changes = changes_of(folded, fix, operator, state)
    corrections = tuple(correction for some in changes for correction in some.corrections)
    if dry_run or target is None:
        return Repaired(checkpoint, corrections)
    if not corrections:
        raise ConfigurationError(
            f"fix changes nothing at checkpoint {checkpoint.id} of {job.storage.root}: no job was made"
        )
    made: list[Checkpoint] = []

    def amend(folder: JobFolder, attempt: Attempt) -> Amendment:
        note = CorrectionNote(who=who, why=why, entries=len(corrections), of=job.name)
        amendment = _written(folder, attempt, checkpoint, changes, note)
        made.append(amendment.checkpoint)
        return amendment

    fork = fork_job(job, checkpoint, target, name, clock, amend)
    return Repaired(checkpoint, corrections, fork, made[-1])


def _check(fix: Fix, who: str, why: str, operator: str | None, state: str | None) -> None:
    """Refuse arguments that cannot be used, before anything is read."""
    said: list[tuple[str, Any]] = [("who", who), ("why", why)]
    for argument, text in said:
        if not isinstance(text, str) or not text.strip() or len(text) > _MOST_CHARACTERS:
            raise ArgumentTypeError(
                f"{argument} must be a str of 1 to {_MOST_CHARACTERS:,} characters that says it to whoever looks at the "
                f"history later, got {text!r:.80}"
            )
        writable(text, argument)
    if not callable(fix):
        tables: Any = fix
        if not isinstance(tables, Mapping) or not all(isinstance(each, Mapping) for each in tables.values()):
            raise ArgumentTypeError(
                f"fix must be a function, or tables of corrections, uid -> name of a state -> table; got {shown(fix)}"
            )
        if operator is not None or state is not None:
            raise ConfigurationError(
                "operator and state go with a function as fix: tables of corrections say themselves what they are of"
            )


def _written(
    folder: JobFolder, attempt: Attempt, parent: Checkpoint, changes: list[StateChanges], note: CorrectionNote
) -> Amendment:
    """The corrections as parts, each subtask's in its own, and their checkpoint."""
    parts: list[Part] = []
    small = _without_what_was_written(parent)
    for stage, operator in enumerate(parent.operators):
        rows = [_rows(one) for one in changes if one.operator.uid == operator.uid]
        for subtask in range(operator.parallelism if rows else 0):
            groups = key_group_range(subtask, operator.max_parallelism, operator.parallelism)
            writer = SnapshotWriter(folder.changelog, parent.id + 1, attempt.id, stage, subtask, groups)
            for state, table in rows:
                of = table["key_group"].to_numpy()
                writer.write(
                    table.filter(pa.array((of >= groups.start) & (of < groups.stop))), operator.uid, state
                )
            if made := writer.finish():
                parts += made
                stage_state = small.get(operator.uid, StageState())
                log = LogPosition(sum(part.rows for part in made), len(made))
                written = replace(stage_state.subtasks.get(subtask, SmallState()), log=log)
                small[operator.uid] = replace(
                    stage_state, subtasks={**stage_state.subtasks, subtask: written}
                )
    return Amendment(_corrected(parent, attempt, parts, small, note), parts)


def _corrected(
    parent: Checkpoint,
    attempt: Attempt,
    parts: list[Part],
    small: dict[str, StageState],
    note: CorrectionNote,
) -> Checkpoint:
    """The checkpoint with the corrections."""
    return replace(
        parent.of_parts(parts),
        id=parent.id + 1,
        attempt=attempt.id,
        parent=parent.id,
        lineage=(*parent.lineage, Segment(attempt.id, parent.id + 1, parent.id + 1)),
        time_ms=max(attempt.time_ms, parent.time_ms),
        clock_ms=attempt.time_ms if attempt.time_ms < parent.time_ms else None,
        duration_ms=0,
        parent_acknowledged_ms=None,
        restored_ms=None,
        operator_state=small,
        finished=False,  # the job goes on from here, not empty
        stopped=parent.ends,  # and then no sink has anything left to commit
        figures={"correction": note},
    )


def _without_what_was_written(parent: Checkpoint) -> dict[str, StageState]:
    """The small state, without how far the parent's attempt had counted, and where its epochs ended."""

    def left(state: SmallState) -> SmallState:
        kept = {
            uid: with_ends(each, []) if uid in parent.sources else each
            for uid, each in state.operators.items()
        }
        return replace(
            state, log=None, operators={uid: each for uid, each in kept.items() if each is not None}
        )

    return {
        uid: replace(stage, subtasks={number: left(state) for number, state in stage.subtasks.items()})
        for uid, stage in parent.operator_state.items()
    }


def _rows(changes: StateChanges) -> tuple[str, pa.Table]:
    """The state's name, and its corrections as rows of the changelog."""
    operator, described = changes.operator, changes.described
    kind = StateKind(described.kind)
    places: list[int] = []  # of each row, its correction
    values: list[Any] = []
    operations: list[str] = []
    for place, correction in enumerate(changes.corrections):
        for operation, value in _mutations(kind, correction):
            places.append(place)
            operations.append(operation)
            if changes.accessed is not None and value is not CLEARED:
                value = (changes.accessed[place], value)
            values.append(value)
    identities = [changes.identities[place] for place in places]
    key_type = key_type_of(operator)
    groups = np.asarray(key_groups(identities, operator.max_parallelism))
    texts, payloads = codec_for(type_from_spec(described.value_type)).encode_many(values)
    columns = {
        "key_group": pa.array(groups, pa.int32()),
        "key": without_dictionary(key_codec_for(key_type).texts(identities)),
        "namespace": pa.array([changes.corrections[place].namespace for place in places], pa.string()),
        "operation": pa.array(operations, pa.string()),
        "value": without_dictionary(texts),
    }
    if payloads is not None:
        columns["payload"] = payloads
    if changes.map_identities is not None:
        codec = key_codec_for(map_key_type_of(described))
        columns["map_key"] = without_dictionary(
            codec.texts([changes.map_identities[place] for place in places])
        )
    return described.name, pa.table(columns)


def _mutations(kind: StateKind, correction: Correction) -> list[tuple[str, Any]]:
    """Operations and values, as a job's own handles would log them."""
    if correction.deleted:
        return [(mutation_log.REMOVE if kind is StateKind.MAP else mutation_log.CLEAR, CLEARED)]
    if kind is not StateKind.LIST:
        return [(mutation_log.PUT, correction.after)]
    first, *others = correction.after
    return [(mutation_log.REPLACE, first), *((mutation_log.APPEND, each) for each in others)]
