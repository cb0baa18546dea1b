"""``changelog-engine fork``: a job of its own out of a checkpoint of another, without Spark."""

from __future__ import annotations

import shlex

import click

from changelog_engine.cli.options import PATH, at_option, new_name_option
from changelog_engine.config.layers import JOB_VARIABLE
from changelog_engine.config.options import BASE_PATH
from changelog_engine.display import printable
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.ledger.read_again import read_again
from changelog_engine.savepoints.forks import Fork, fork_job


@click.command()
@click.argument("path", type=PATH)
@click.argument("new_path", type=PATH)
@at_option
@new_name_option
def fork(path: str, new_path: str, at: str | None, new_name: str | None) -> None:
    """Make a job that starts from a checkpoint of another.

    PATH is the folder of the other job, <base>/<job>, or of a savepoint; it is not changed, and may be running. NEW_PATH is
    that of the new one: run the program by one of the commands that are printed, and it goes on from the checkpoint. On one
    disk the two share their files until one of them deletes them; elsewhere they are copied.
    """

    @read_again
    def forked(path: str) -> Fork:
        job = open_job(path)
        return fork_job(job, checkpoint_at(job.open_lineage(), at), new_path, new_name)

    made = forked(path)
    click.echo(
        printable(
            f"{made.folder.storage.root} starts from checkpoint {made.checkpoint.id}; {made.shared:,} files shared "
            f"({made.shared_bytes:,} bytes), {made.copied:,} copied ({made.copied_bytes:,} bytes)"
        )
    )
    for line in commands_to_run(made.folder.name, made.folder.storage.root):
        click.echo(printable(line))


def commands_to_run(name: str, root: str) -> list[str]:
    """How a program runs as the job of a folder, with the engine's command and with plain Python."""
    base = shlex.quote(f"{BASE_PATH.key}={root.rpartition('/')[0]}")
    job = shlex.quote(name)
    return [
        "run it, with the program's own script and arguments, by",
        f"  changelog-engine run --job {job} -D {base} SCRIPT",
        f"or, when the program's base path is {root.rpartition('/')[0]}, by",
        f"  {JOB_VARIABLE}={job} python SCRIPT",
    ]
