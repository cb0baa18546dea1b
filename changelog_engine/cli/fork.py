"""``changelog-engine fork``: a job of its own out of a checkpoint of another, without Spark."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import click

from changelog_engine.checkpoint.forks import fork_job
from changelog_engine.checkpoint.job_path import open_job
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.cli.console import printable
from changelog_engine.errors import RestoreError


@click.command()
@click.argument("path")
@click.argument("new_path")
@click.option("--at", type=click.IntRange(min=1), help="Checkpoint id; the newest when left out.")
@click.option("--name", help="Name of the new job; the last part of NEW_PATH when left out.")
def fork(path: str, new_path: str, at: int | None, name: str | None) -> None:
    """Make a job that starts from a checkpoint of another.

    PATH is the folder of the other job, <base>/<job>, or of a savepoint; it is not changed, and may be running. NEW_PATH is
    that of the new one: run the program under its name and with its base path, and it goes on from the checkpoint. On one
    disk the two share their files until one of them deletes them; elsewhere they are copied.
    """
    job = open_job(path)
    lineage = Lineage(job.open_changelog())
    checkpoint = lineage.newest_checkpoint() if at is None else lineage.checkpoint(at)
    if checkpoint is None:
        raise RestoreError(f"there is no checkpoint in {job.storage.root} yet")
    try:
        engine = version("changelog-engine")
    except PackageNotFoundError:
        engine = "unknown"
    made = fork_job(job, checkpoint, new_path, engine, name)
    click.echo(
        printable(
            f"{made.folder.storage.root} starts from checkpoint {made.checkpoint.id}; {made.shared:,} files shared "
            f"({made.shared_bytes:,} bytes), {made.copied:,} copied ({made.copied_bytes:,} bytes)"
        )
    )
