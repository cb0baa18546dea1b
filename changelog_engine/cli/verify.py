"""``changelog-engine verify``: reads every file of a job or savepoint, without Spark. It unpickles nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from changelog_engine.cli.options import PATH
from changelog_engine.display import printable
from changelog_engine.errors import (
    ChangelogEngineError,
    CorruptChangelogError,
    ForeignPathError,
    FormatVersionError,
)
from changelog_engine.inspection.values import as_json
from changelog_engine.ledger.job_path import open_job
from changelog_engine.readable import counted
from changelog_engine.savepoints.folder import MARKER, open_savepoint
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage
from changelog_engine.verification.log_repair import plan_repair, repair_logs
from changelog_engine.verification.verify import Fault, Verification
from changelog_engine.verification.verify import verify as verify_folder


@click.command()
@click.argument("path", type=PATH)
@click.option(
    "--repair",
    "repairs",
    is_flag=True,
    help="Say what to set aside so that the job can go on; with --yes, do it.",
)
@click.option("--yes", is_flag=True, help="With --repair: move what it names. Nothing is ever deleted.")
@click.option("--json", "as_json_", is_flag=True, help="Print what was found as JSON.")
@click.pass_context
def verify(context: click.Context, path: str, repairs: bool, yes: bool, as_json_: bool) -> None:
    """Read every file of a job, and say what is wrong and which checkpoints can be restored.

    PATH is the job's folder, <base>/<job>, or that of a savepoint; the job may be running. Checksums, numbers of rows,
    sequence numbers and lineage are checked, and each snapshot is compared with the fold of the log before it. The exit
    status is 1 when something is wrong.

    When commits of a table are gone or damaged, --repair says from which checkpoint the job can still go on, and which
    files are in the way; --yes moves them into a folder set-aside-<time> beside the tables. What stays damaged is said, and
    the exit status is 1 then.
    """
    if yes and not repairs:
        raise click.UsageError("--yes goes with --repair")
    if as_json_ and repairs:
        raise click.UsageError("--json does not go with --repair")
    storage = open_storage(path)
    if repairs:
        context.exit(_repair(storage, yes))
    found = _verified(storage)
    if as_json_:
        faults = [fault._asdict() for fault in found.faults]
        click.echo(json.dumps({**as_json(found), "faults": faults}, indent=2))
    else:
        _report(found)
    context.exit(1 if found.faults else 0)


def _verified(folder: Storage) -> Verification:
    """What is wrong with a job or a savepoint; of one that can't be opened, why."""
    if folder.exists(MARKER):
        try:
            open_savepoint(folder.root)
        except (ForeignPathError, FormatVersionError):
            raise
        except ChangelogEngineError as error:
            return Verification(faults=[Fault(folder.root, str(error))])
    try:
        return verify_folder(open_job(folder.root))
    except CorruptChangelogError as error:  # a list of files itself
        return Verification(faults=[Fault(error.path, error.fault)])


def _repair(folder: Storage, yes: bool) -> int:
    """The exit status: 0 when nothing is wrong any more."""
    plan = plan_repair(folder)
    if plan is None:
        click.echo("the tables' logs are whole: there is nothing to set aside")
        return _left(folder)
    click.echo(printable(f"WRONG {plan.wrong}"))
    begins = (
        "empty, with --restore none: no checkpoint is left"
        if plan.checkpoint is None
        else f"from checkpoint {plan.checkpoint}"
    )
    if not yes:
        click.echo(f"The job can go on {begins}, when these are set aside:")
        for path in plan.aside:
            click.echo(printable(f"  {path}"))
        click.echo(
            "Later checkpoints are lost, and what sinks published with them comes again. Nothing was changed: stop the job, "
            "copy its folder, and say --repair --yes"
        )
        return 1
    target = repair_logs(folder, plan)
    click.echo(printable(f"set aside in {target}: {counted(len(plan.aside), 'file')}"))
    status = _left(folder)
    if not status:
        click.echo(f"The next run goes on {begins}")
    return status


def _left(folder: Storage) -> int:
    """Say what a repair leaves damaged, and return the exit status."""
    found = _verified(folder)
    if not found.faults:
        return 0
    click.echo("--repair sets damaged commits aside, nothing else. What is still damaged:")
    _report(found)
    if found.restorable:
        click.echo(
            f"With changelog.restore: {found.restorable[-1]} a run begins at the newest checkpoint that can be restored"
        )
    return 1


def _report(found: Verification) -> None:
    click.echo(
        f"{counted(found.checkpoints, 'checkpoint')}, {counted(found.attempts, 'attempt')}, "
        f"{counted(found.snapshots, 'snapshot')}, {found.compared:,} of them compared with the log; "
        f"{counted(found.files, 'part')} with {counted(found.rows, 'row')}, {counted(found.bytes, 'byte')}"
    )
    click.echo(f"can be restored: {_ranges(found.restorable)}")
    if found.lost:
        click.echo(f"cannot be restored: {_ranges(found.lost)}")
    for fault in found.faults:
        click.echo(printable(f"WRONG {fault.file}: {fault.what}"))
    if found.lost_end is not None:
        click.echo(printable(f"BUT {found.lost_end}"))
    if not found.faults:
        click.echo("nothing is wrong" if found.lost_end is None else "nothing is wrong with what is there")
        return
    click.echo(counted(len(found.faults), "fault"))
    click.echo("What to do: changelog-engine help runbook 'damaged file'")


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
