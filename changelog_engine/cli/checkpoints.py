"""``changelog-engine checkpoints``: the checkpoints of a job, without Spark. It only reads."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.checkpoint.job_path import open_changelog
from changelog_engine.cli.console import console, table_of
from changelog_engine.ledger.lineage import Lineage


@click.command()
@click.argument("path")
@click.option("--last", type=click.IntRange(min=1), help="Only so many, the newest.")
def checkpoints(path: str, last: int | None) -> None:
    """List the checkpoints of a job.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it.
    """
    lineage = Lineage(open_changelog(path))
    ids = sorted(lineage.checkpoints)[-last if last else 0 :]
    if not ids:
        click.echo(f"no checkpoint yet, {len(lineage.attempts)} attempt(s)")
        return
    table = table_of("id", "attempt", "parent", "time (UTC)", "rows", "bytes", "parts", "end", right=7)
    for identity in ids:
        table.add_row(*_checkpoint_cells(lineage.checkpoint(identity)))
    console().print(table)


def _checkpoint_cells(row: Checkpoint) -> tuple[str, ...]:
    when = datetime.fromtimestamp(row.time_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
    parent = "-" if row.parent is None else str(row.parent)
    end = "finished" if row.finished else "stopped" if row.stopped else ""
    numbers = (f"{row.rows:,}", f"{row.bytes:,}", str(row.parts))
    return (str(row.id), str(row.attempt), parent, when.removesuffix("+00:00"), *numbers, end)
