"""``changelog-engine checkpoints``: the checkpoints of a job, without Spark. It only reads."""

from __future__ import annotations

from typing import Any

import click

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.shown import PATH, Answer, Sheet, When, shows
from changelog_engine.ledger.job_path import open_changelog
from changelog_engine.ledger.lineage import Lineage

_COLUMNS = ("id", "attempt", "parent", "time (UTC)", "rows", "bytes", "parts", "end")


@click.command()
@click.argument("path", type=PATH)
@click.option("--last", type=click.IntRange(min=1), help="Show only so many, the newest ones.")
@shows
def checkpoints(path: str, last: int | None) -> Answer:
    """List the checkpoints of a job.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it.
    """
    lineage = Lineage(open_changelog(path))
    found = [lineage.checkpoint(identity) for identity in lineage.checkpoints.ids()[-last if last else 0 :]]
    notes = [] if found else [f"no checkpoint yet, {len(lineage.attempts)} attempt(s)"]
    return Answer(
        [_document(row) for row in found],
        [Sheet(_COLUMNS, [_cells(row) for row in found], right=7)],
        notes=notes,
    )


def _cells(row: Checkpoint) -> tuple[Any, ...]:
    return row.id, row.attempt, row.parent, When(row.time_ms), row.rows, row.bytes, row.parts, _end(row)


def _end(row: Checkpoint) -> str:
    return "finished" if row.finished else "stopped" if row.stopped else ""


def _document(row: Checkpoint) -> dict[str, Any]:
    names = (
        "id",
        "attempt",
        "parent",
        "time_ms",
        "duration_ms",
        "rows",
        "bytes",
        "parts",
        "snapshot",
        "finished",
        "stopped",
    )
    return {name: vars(row)[name] for name in names}
