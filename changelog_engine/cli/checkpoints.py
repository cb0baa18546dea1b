"""``changelog-engine checkpoints``: the checkpoints of a job, without Spark. It only reads."""

from __future__ import annotations

from typing import Any

import click

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.options import PATH
from changelog_engine.cli.shown import Answer, shows
from changelog_engine.display import Grid, When
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.inspection.points import open_ledger
from changelog_engine.inspection.timeline import left_out
from changelog_engine.ledger.read_again import read_again

_COLUMNS = ("id", "attempt", "parent", "time (UTC)", "rows", "bytes", "parts", "end")


@click.command()
@click.argument("path", type=PATH)
@click.option("--last", type=click.IntRange(min=1), help="Show only this many, the newest ones.")
@shows
@read_again
def checkpoints(path: str, last: int | None) -> Answer:
    """List the checkpoints of a job.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it.
    """
    lineage = open_ledger(path).lineage
    faults: dict[int, CorruptChangelogError] = {}
    ids = lineage.checkpoints.ids(faults)[-last if last else 0 :]
    found = lineage.readable(ids, faults)
    notes = [] if ids else [f"no checkpoint yet, {len(lineage.attempts)} attempt(s)"]
    documents = [
        _document(found[each]) if each in found else {"id": each, "unreadable": str(faults[each])}
        for each in sorted({*ids, *faults})
    ]
    return Answer(
        documents,
        [
            Grid(
                _COLUMNS, [_cells(row) for row in found.values()], right=7, spare=("parts", "bytes", "parent")
            )
        ],
        notes=notes,
        faults=left_out(faults),
    )


def _cells(row: Checkpoint) -> tuple[Any, ...]:
    return row.id, row.attempt, row.parent, When(row.time_ms), row.rows, row.bytes, row.parts, _end(row)


def _end(row: Checkpoint) -> str:
    return "finished" if row.finished else "stopped" if row.stopped else ""


def _document(row: Checkpoint) -> dict[str, Any]:
    names = "id attempt parent time_ms duration_ms rows bytes parts snapshot finished stopped"
    return {name: vars(row)[name] for name in names.split()}
