"""``changelog-engine savepoint``: make, list and dispose of savepoints, without Spark. Running jobs are not disturbed."""

from __future__ import annotations

import sys

import click

from changelog_engine.cli.options import PATH, at_option
from changelog_engine.cli.shown import Answer, identified, shows
from changelog_engine.display import Grid, Size, When, printable
from changelog_engine.errors import ForeignPathError, FormatVersionError, RestoreError, StorageError
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.ledger.read_again import read_again
from changelog_engine.savepoints.folder import Savepoint, dispose_savepoint, list_savepoints
from changelog_engine.savepoints.writer import create_savepoint

_NONE = (
    "Savepoints are made of checkpoints: a job makes some when its program calls env.enable_checkpointing(interval) or "
    "turns the changelog on"
)


@click.group()
def savepoint() -> None:
    """Make, list and dispose of savepoints.

    A savepoint is the whole state of a job at one checkpoint, in a folder of its own that can be moved and copied. A job
    starts from it with execution.savepoint.path or changelog.restore.
    """


@savepoint.command()
@click.argument("path", type=PATH)
@click.argument("directory", type=PATH)
@at_option
def create(path: str, directory: str, at: str | None) -> None:
    """Make a savepoint of a checkpoint.

    PATH is the job's folder, <base>/<job>; the job may be running. The savepoint is made below DIRECTORY; its path is
    printed.
    """

    @read_again
    def created(path: str) -> Savepoint:
        try:
            job = open_job(path)
        except (ForeignPathError, FormatVersionError):
            raise
        except StorageError as error:
            if isinstance(error.__cause__, OSError):  # it could not be found out
                raise
            raise StorageError(f"{error}. {_NONE}") from error
        lineage = job.open_lineage()
        if not lineage.newest_checkpoint_id:
            raise RestoreError(f"there is no checkpoint in {job.storage.root} yet. {_NONE}")
        return create_savepoint(job, checkpoint_at(lineage, at), directory)

    click.echo(printable(created(path).path))


@savepoint.command(name="list", short_help="List savepoints, damaged ones too.")
@click.argument("directory", type=PATH)
@shows
def list_(directory: str) -> Answer:
    """List the savepoints below DIRECTORY, damaged and unfinished ones too.

    The exit status is 1 when one can't be used.
    """
    found = list_savepoints(directory)
    whole = [(name, made) for name, made in found if isinstance(made, Savepoint)]
    faults = {name: str(made) for name, made in found if not isinstance(made, Savepoint)}
    grid = Grid(
        ("rows", "size", "checkpoint", "time (UTC)", "job", "savepoint"),
        [
            (
                made.rows,
                Size(made.bytes),
                made.checkpoint.id,
                When(made.checkpoint.time_ms),
                made.folder.name,
                name,
            )
            for name, made in whole
        ],
        right=3,
        spare=("rows", "size", "checkpoint", "time (UTC)"),
    )
    document = [
        {"savepoint": name, "path": made.path, "job": made.folder.name, **identified(made.checkpoint)}
        | {"rows": made.rows, "bytes": made.bytes, "fault": None}
        for name, made in whole
    ] + [{"savepoint": name, "fault": fault} for name, fault in faults.items()]
    none = [] if found else [f"no savepoints below {directory}"]
    return Answer(document, [grid], notes=none, faults=[f"{name}: {why}" for name, why in faults.items()])


@savepoint.command()
@click.argument("paths", nargs=-1, required=True, type=PATH)
@click.option("--yes", is_flag=True, help="Do not ask.")
def dispose(paths: tuple[str, ...], yes: bool) -> None:
    """Delete savepoints. PATHS are their folders; other folders are refused."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("--yes is needed where nobody can be asked")
    for path in paths:
        if yes or click.confirm(f"Delete the savepoint {printable(path)}?"):
            dispose_savepoint(path)
            click.echo(f"disposed of {printable(path)}")
