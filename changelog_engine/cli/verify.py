"""``changelog-engine verify``: reads every file of a job or savepoint, without Spark. It unpickles nothing."""

from __future__ import annotations

from collections.abc import Sequence

import click

from changelog_engine.checkpoint.job_path import open_job
from changelog_engine.checkpoint.savepoints import MARKER, open_savepoint
from changelog_engine.checkpoint.verification import Fault, Verification
from changelog_engine.checkpoint.verification import verify as verify_folder
from changelog_engine.cli.console import printable
from changelog_engine.errors import ChangelogEngineError, ForeignPathError, FormatVersionError
from changelog_engine.storage.filesystem import Storage


@click.command()
@click.argument("path")
@click.pass_context
def verify(context: click.Context, path: str) -> None:
    """Read every file of a job, and say what is wrong and which checkpoints can be restored.

    PATH is the job's folder, <base>/<job>, or that of a savepoint; the job may be running. Checksums, numbers of rows,
    sequence numbers and lineage are checked, and each snapshot is compared with the fold of the log before it. The exit
    status is 1 when something is wrong.
    """
    storage = Storage(path)
    if storage.exists(MARKER):
        try:
            open_savepoint(path)
        except (ForeignPathError, FormatVersionError):
            raise
        except ChangelogEngineError as error:
            _report(Verification(faults=[Fault(storage.root, str(error))]))
            context.exit(1)
    found = verify_folder(open_job(path))
    _report(found)
    context.exit(1 if found.faults else 0)


def _report(found: Verification) -> None:
    click.echo(
        f"{found.checkpoints:,} checkpoints, {found.attempts:,} attempts, {found.snapshots:,} snapshots, "
        f"{found.compared:,} of them compared with the log; {found.files:,} parts with {found.rows:,} rows, "
        f"{found.bytes:,} bytes"
    )
    click.echo(f"can be restored: {_ranges(found.restorable)}")
    if found.lost:
        click.echo(f"cannot be restored: {_ranges(found.lost)}")
    for fault in found.faults:
        click.echo(printable(f"WRONG {fault.file}: {fault.what}"))
    click.echo("nothing is wrong" if not found.faults else f"{len(found.faults):,} faults")


def _ranges(ids: Sequence[int]) -> str:
    """Ids as ranges.

    Example:
        >>> _ranges([1, 2, 3, 7, 9, 10])
        '1 to 3, 7, 9 to 10'
        >>> _ranges([])
        'none'
    """
    runs: list[list[int]] = []
    for identity in ids:
        if runs and runs[-1][1] == identity - 1:
            runs[-1][1] = identity
        else:
            runs.append([identity, identity])
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in runs) or "none"
