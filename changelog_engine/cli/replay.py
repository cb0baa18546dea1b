"""``changelog-engine replay``: a script's job of today over a piece of its recorded history, without Spark.

Exit status: 0 equal, 1 different, 2 the replay cannot be made.
"""

from __future__ import annotations

import sys

import click

from changelog_engine.cli.options import (
    arguments_argument,
    entries_option,
    most_option,
    name_option,
    point_option,
    script_argument,
)
from changelog_engine.cli.script import ask_script
from changelog_engine.display import printable


@click.command(options_metavar="[OPTIONS]")
@point_option(
    "--from",
    "start",
    what="Checkpoint A, whose state it begins with; 0 for the start of the job, else",
    required=True,
)
@point_option("--to", "end", what="Checkpoint B, up to which it goes", left_out="The newest when left out.")
@click.option(
    "--job", metavar="NAME", help="Which job, in a script that executes several. The first when left out."
)
@click.option(
    "--leave-out",
    "leave_out",
    metavar="STATE",
    multiple=True,
    help="Compare all but this state: its name, OPERATOR.STATE, or '(processing time timers)'. May be given several times.",
)
@most_option("Show at most this many differences in full.", 5)
@name_option
@entries_option()
@script_argument
@arguments_argument
def replay(
    script: str,
    arguments: tuple[str, ...],
    start: str,
    end: str | None,
    job: str | None,
    leave_out: tuple[str, ...],
    limit: int,
    name: str | None,
    entries: tuple[str, ...],
) -> None:
    """Replay a recorded piece of a script's job with the code as it is now, and compare.

    The state of checkpoint A is restored, the code reads what the job read from there to checkpoint B, and its mutations and
    final state are compared with the log. It runs in this process, without Spark; the job's folder is only read, and
    nothing goes to its sinks. Options of the script's own stand after `--`.

    The exit status is 0 when all is equal, 1 when something differs, and 2 when the replay cannot be made.
    """
    from changelog_engine.replay.job import replay_job

    report = ask_script(
        "replay",
        script,
        arguments,
        name,
        entries,
        lambda program: replay_job(program, start, end, job, leave_out),
    )
    click.echo(printable(report.text(limit)))
    sys.exit(0 if report.equal else 1)
