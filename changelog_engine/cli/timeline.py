"""``changelog-engine timeline``: attempts and branches as a graph in text. It only reads."""

from __future__ import annotations

from collections.abc import Sequence

import click

from changelog_engine.cli.options import PATH, most_option, point_option
from changelog_engine.cli.shown import Answer, shows
from changelog_engine.display import Grid, Size, When
from changelog_engine.inspection.timeline import (
    FORKED,
    IMPORTED,
    NOT_KNOWN,
    REWOUND,
    UNREADABLE,
    AttemptRow,
    CheckpointRow,
    Timeline,
)
from changelog_engine.ledger.read_again import read_again
from changelog_engine.readable import counted, iso
from changelog_engine.types.typeinfo import cut

_MOST_LANES = 12  # of branches upon branches
_MOST_NOTES = 5  # of a kind
_MESSAGE = 300  # characters; --json has the whole error, with its traceback


@click.command()
@click.argument("path", type=PATH)
@most_option("How many checkpoints are shown, the newest ones.", 40, "--last")
@point_option("--from", "start", what="Only from this point on")
@point_option("--to", "end", what="Only up to this point")
@shows
@read_again
def timeline(path: str, last: int, start: str | None, end: str | None) -> Answer:
    """Show attempts and branches as a graph: what followed on what, where the job was killed, restored and rewound.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it. `●` is a checkpoint on the lineage of the newest
    one, `○` one of a branch that was left, `◆` and `◇` the same with a snapshot.
    """
    found = Timeline(path)
    first, final = found.between(start, end)
    rows = found.checkpoints(first, final, last, details=True)
    attempts = {attempt.attempt: attempt for attempt in found.attempts}
    lanes = _lanes(found.attempts)
    columns = ("graph", "id", "attempt", "time (UTC)", "ms", "rows", "size", "what")
    shown = [
        (
            graph,
            row.id,
            row.attempt,
            None if row.time_ms is None else When(row.time_ms),
            row.duration_ms,
            row.rows,
            Size(row.bytes),
            _what(row, attempts),
        )
        for graph, row in zip(_graph(rows, lanes), rows, strict=True)
    ]
    faults = found.faults
    document = {
        "newest": found.newest,
        "attempts": found.attempts,
        "checkpoints": rows,
        "unreadable": faults,
    }
    notes = [*_left_notes(found, rows), *_attempt_notes(found.attempts)]
    if not notes and not faults and not rows:
        notes = ["no checkpoint yet"]
    grid = Grid(columns, shown, spare=("size", "rows", "ms", "attempt", "time (UTC)"))
    return Answer(document, [grid], notes=notes, faults=faults)


def _left_notes(found: Timeline, rows: Sequence[CheckpointRow]) -> list[str]:
    """What to say of the checkpoints that are not shown."""
    ids = found.ids
    left = len(ids) - len(rows)
    if not left:
        return []
    if rows:
        return [
            f"{left:,} of {counted(len(ids), 'checkpoint')} are not shown; --last, --from and --to choose"
        ]
    ends = found.checkpoints(ids[0], ids[0]) + found.checkpoints(ids[-1])
    known = [f"{each.id} ({'?' if each.time_ms is None else iso(each.time_ms)})" for each in ends]
    return [f"no checkpoint lies between --from and --to; the job has {known[0]} to {known[-1]}"]


def _attempt_notes(attempts: Sequence[AttemptRow]) -> list[str]:
    """The newest attempts that made no checkpoint, and what the newest failures said."""
    empty = [
        f"attempt {each.attempt} {_how(each)} and made no checkpoint: {each.end}"
        for each in attempts
        if not each.checkpoints and each.end != FORKED
    ]
    failed = [
        f"attempt {each.attempt} ended with {each.failure.error}: {cut(each.failure.message, _MESSAGE)}"
        for each in attempts
        if each.failure is not None
    ]
    return [*empty[-_MOST_NOTES:], *failed[-_MOST_NOTES:]]


def _lanes(attempts: Sequence[AttemptRow]) -> dict[int, int]:
    """How far to the right the left part of each attempt stands: a branch upon a branch one further than that."""
    found: dict[int, int] = {}
    for attempt in attempts:
        by = next(
            (
                a
                for a in attempts
                if a.first and attempt.parent and a.first <= attempt.parent <= (a.last or 0)
            ),
            None,
        )
        on_branch = by is not None and by.attempt in found and by.first is not None
        left = (
            by is not None and attempt.parent is not None and attempt.parent - (by.first or 0) >= by.on_line
        )
        found[attempt.attempt] = min(found[by.attempt] + 1, _MOST_LANES) if by and on_branch and left else 1
    return found


def _graph(rows: Sequence[CheckpointRow], lanes: dict[int, int]) -> list[str]:
    lines = []
    for place, row in enumerate(rows):
        mark = "◆●"[not row.materialized] if row.on_line else "◇○"[not row.materialized]
        if row.on_line:
            lines.append(mark)
            continue
        lane = lanes.get(row.attempt, 1)
        forks = row.parent is not None and (
            place == 0 or rows[place - 1].on_line or rows[place - 1].attempt != row.attempt
        )
        stem = "│ " * (lane - 1)
        lines.append(f"{stem}{'├─' if forks else '│ '}{mark}")
    return lines


def _what(row: CheckpointRow, attempts: dict[int, AttemptRow]) -> str:
    of = attempts.get(row.attempt)
    words = [UNREADABLE] if row.lost else []
    for mark in row.marks:
        if of is not None and mark == of.how:
            words.append(_how(of))
        else:
            words.append(mark)
    if row.materialized:
        words.append("snapshot")
    return ", ".join(words)


def _how(attempt: AttemptRow) -> str:
    if attempt.how == IMPORTED:
        return "imported from a savepoint"
    if attempt.how == NOT_KNOWN:
        return "began in a way that can't be read"
    if attempt.parent is None:
        return "began empty"
    if attempt.rescaled is not None:
        return f"rescaled {attempt.rescaled} at checkpoint {attempt.parent}"
    return f"{attempt.how} {'to' if attempt.how == REWOUND else 'from'} {attempt.parent}"
