"""``changelog-engine materialize``: snapshots of a job's state, and truncation of its log, whether the job runs or not."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from changelog_engine.cli.options import PATH, at_option
from changelog_engine.clock import LONGEST_WAIT_S, monotonic_s
from changelog_engine.config.parsing import parse_duration_with_unit_ms
from changelog_engine.display import printable
from changelog_engine.errors import ChangelogEngineError, SparkEndedError
from changelog_engine.launcher.standard_streams import tell
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.readable import counted, duration
from materializer.materialize import Materialization
from materializer.processes import FoldProcesses
from materializer.remembered import recall
from materializer.retention import Retention
from materializer.rounds import forget_rounds, note_round
from materializer.runner import TaskRunner
from materializer.upkeep import upkeep


class _Duration(click.ParamType[int]):
    """A length of time in milliseconds, whose unit is written."""

    name = "duration"

    def __init__(self, least_ms: int = 0) -> None:
        self._least_ms = least_ms

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        try:
            found = parse_duration_with_unit_ms(str(value))
        except ValueError as error:
            self.fail(str(error), parameter, context)
        if found < self._least_ms:
            self.fail(f"{value} is shorter than {duration(self._least_ms)}", parameter, context)
        return found


@click.command()
@click.argument("path", type=PATH)
@at_option
@click.option(
    "--every",
    type=_Duration(least_ms=1000),
    help="Make one after the other until Ctrl-C, at this interval, such as 10m; at least 1s.",
)
@click.option(
    "--retention",
    type=_Duration(),
    help="How long the history stays when the log is truncated, such as 7d; 0 keeps only what restores need. When left out: "
    "as the job's last run had it, or 7d.",
)
@click.option(
    "--retained",
    type=click.IntRange(min=1),
    help="How many checkpoints stay restorable. When left out: as the job's last run had it, or 1.",
)
@click.option(
    "--grace",
    type=_Duration(),
    help="How long truncated files stay on the disk. When left out: as the job's last run had it, or 5m.",
)
@click.option("--no-truncate", is_flag=True, help="Make only the snapshot, and leave the log as it is.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="How many processes fold the log. As many as the machine has cores when left out.",
)
@click.option("--spark", metavar="MASTER", help="Fold as a Spark job on this master instead.")
def materialize(
    path: str,
    at: str | None,
    every: int | None,
    retention: int | None,
    retained: int | None,
    grace: int | None,
    no_truncate: bool,
    processes: int | None,
    spark: str | None,
) -> None:
    """Make a snapshot of a job's newest checkpoint, so that a restore reads it and only the log after it.

    PATH is the job's folder, <base>/<job>. The job may be running; it is refused while another process does the same,
    such as the job itself. Afterwards the log is truncated: what no restore, copy or history needs goes.
    """
    if at is not None and every is not None:
        raise click.UsageError("--at makes one snapshot, --every makes many: give one of them")
    folder = open_job(path)
    checkpoint = None if at is None else checkpoint_at(folder.open_lineage(), at).id
    given = {"history_ms": retention, "retained": retained, "grace_ms": grace}
    wanted = {name: value for name, value in given.items() if value is not None}
    if no_truncate and wanted:
        raise click.UsageError(
            "--no-truncate leaves the log alone: --retention, --retained and --grace say nothing"
        )
    keep = None
    if not no_truncate:
        all_said = len(wanted) == len(given)
        keep = (Retention() if all_said else recall(folder))._replace(**wanted)
    run: TaskRunner = FoldProcesses(processes or os.cpu_count() or 1, niceness=0)
    if spark:
        from changelog_engine.spark.background import tasks_on  # loads PySpark

        run = tasks_on(spark, f"upkeep of {path}")
    if every is None:
        _once(folder, checkpoint, run, keep)
        return
    try:
        while True:
            _round(folder, every, run, keep)
    except KeyboardInterrupt:
        forget_rounds(folder)
        raise


def _round(folder: JobFolder, every_ms: int, run: TaskRunner, keep: Retention | None) -> None:
    """One of many, and the wait for the next one."""
    began, failed = monotonic_s(), None
    try:
        _once(folder, None, run, keep)
    except ChangelogEngineError as error:
        failed = printable(str(error))
        if isinstance(error, SparkEndedError):  # this process gets no other Spark
            note_round(folder, every_ms, failed)
            raise
        tell(f"failed, and is tried again: {failed}")
    note_round(folder, every_ms, failed)
    time.sleep(min(max(0.0, every_ms / 1000 - (monotonic_s() - began)), LONGEST_WAIT_S))


def _once(folder: JobFolder, at: int | None, run: TaskRunner, keep: Retention | None) -> None:
    gone = upkeep(folder, run, keep, _tell, checkpoint_id=at)
    if gone is not None:
        click.echo(
            f"truncated: {gone.log_files} files of the log, {gone.merged} merged ones in their place, "
            f"{gone.snapshot_files} of snapshots; {gone.deleted} deleted from the disk"
        )


def _tell(done: Materialization | None) -> None:
    if done is None:
        click.echo("nothing to do: there is no checkpoint without a snapshot")
    else:
        click.echo(
            f"snapshot of checkpoint {done.checkpoint}: {done.log_rows:,} rows of the log folded into {done.rows:,}, "
            f"{counted(done.written, 'piece')} written ({done.bytes:,} bytes) and {done.kept} kept, {done.seconds:.1f} s"
        )
