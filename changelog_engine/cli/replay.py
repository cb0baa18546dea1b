"""``changelog-engine replay``: a script's job of today over a piece of its recorded history, without Spark.

Exit status: 0 equal, 1 different, 2 the replay cannot be made.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from changelog_engine.cli.console import printable
from changelog_engine.cli.run import _configuration, _configure, _note_unknown
from changelog_engine.config import set_command_line
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.launcher import alias_installed, run_program
from changelog_engine.launcher.alias import remove_alias
from changelog_engine.launcher.program import script_frames


class _CannotReplayError(click.ClickException):
    """The replay cannot be made."""

    exit_code = 2


@click.command(options_metavar="[OPTIONS]")
@click.option(
    "--from",
    "start",
    metavar="A",
    type=click.IntRange(0),
    required=True,
    help="Checkpoint whose state it begins with; 0 for the start of the job.",
)
@click.option(
    "--to",
    "end",
    metavar="B",
    type=click.IntRange(1),
    help="Checkpoint up to which it goes; the newest when left out.",
)
@click.option(
    "--job", metavar="NAME", help="Which job, in a script that executes several; the first when left out."
)
@click.option(
    "--limit", type=click.IntRange(1), default=5, show_default=True, help="Most differences shown in full."
)
@click.option("--name", metavar="TEXT", help="Name of a job whose execute() gives none; as of `run`.")
@click.option("-D", "entries", metavar="KEY=VALUE", multiple=True, help="An option by its key; as of `run`.")
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def replay(
    script: str,
    arguments: tuple[str, ...],
    start: int,
    end: int | None,
    job: str | None,
    limit: int,
    name: str | None,
    entries: tuple[str, ...],
) -> None:
    """Replay a recorded piece of a script's job with the code of now, and compare.

    The state of checkpoint A is restored, the code reads what was read from there to checkpoint B, and its mutations and
    final state are compared with the log. It runs in this process, without Spark; the job's folder is only read, and
    nothing goes to its sinks. Options of the script's own stand after `--`.

    The exit status is 0 when all is equal, 1 when something differs, and 2 when the replay cannot be made.
    """
    from changelog_engine.testing.replay import replay_job

    if not os.path.isfile(script):
        raise _CannotReplayError(f"{script} is not a script")
    given = {"restore": None, "parallelism": None, "master": None, "job": None, "name": name}
    with _as_before():
        try:
            configuration = _configuration(given, entries)
            _configure(configuration)
            _note_unknown(configuration)
            report = replay_job(lambda: run_program(script, arguments), start, end, job)
        except ChangelogEngineError as error:
            raise _CannotReplayError(printable(f"cannot replay: {error}")) from None
        except SystemExit as error:
            raise _CannotReplayError(
                f"cannot replay: {script} ended with status {error.code} before it executed a job"
            ) from None
        except click.ClickException:
            raise
        except Exception as error:
            _fail(error, script)
    click.echo(printable(report.text(limit)))
    sys.exit(0 if report.equal else 1)


def _fail(error: Exception, script: str) -> NoReturn:
    """A script that failed by itself: its traceback, and that there is no replay."""
    frames: Any = script_frames(error, script)
    sys.excepthook(type(error), error.with_traceback(frames), frames)
    click.echo(f"Error: cannot replay: {script} failed before it executed a job", err=True)
    sys.exit(_CannotReplayError.exit_code)


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Leave arguments, import path, alias and configuration as they were: tests call the command in their own process."""
    had_alias, argv, path = alias_installed(), list(sys.argv), list(sys.path)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, path
        set_command_line({})
        if not had_alias:
            remove_alias()
