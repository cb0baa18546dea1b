"""The command itself: its name, its version, its subcommands.

Invariants:
    * Errors of the engine are one message on standard error and exit status 1, never a traceback.
    * Ctrl-C ends any command with status 130, and a reader that has enough, such as ``head``, with 141.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import click

from changelog_engine.changelog.model import FORMAT_VERSION
from changelog_engine.config.file import CONF_VARIABLE
from changelog_engine.display import printable
from changelog_engine.errors import ChangelogEngineError, JobInterruptedError
from changelog_engine.launcher.standard_streams import (
    drop,
    open_closed_streams,
    spell_what_the_encoding_lacks,
)
from changelog_engine.nearest import did_you_mean
from changelog_engine.storage.retry import FULL


class _Listed(NamedTuple):
    """A command in the list of all.

    Args:
        place: its module. It is loaded when the command is asked for: a look at a small job is over before all of them
            would be imported.
        words: what it does, in one line of a narrow terminal.
    """

    place: str
    words: str


_SECTIONS = {
    "Run": {
        "run": _Listed("run", "Run a PyFlink DataStream script as it is."),
        "demo": _Listed("demo", "Run a job, kill -9 it, let it go on, and compare."),
        "doctor": _Listed("doctor", "Check whether jobs can run here; how to mend it."),
        "help": _Listed("help", "Print a page of the documentation."),
        "class-archive": _Listed("class_archive", "Make Spark start sooner, as for an image."),
    },
    "Look at a job (nothing is changed; the job may be running)": {
        "jobs": _Listed("status", "List the jobs and savepoints below a base path."),
        "status": _Listed("status", "Show how a job is, why it stopped, what to do."),
        "metrics": _Listed("metrics", "Show rates, durations and sizes of checkpoints."),
        "ui": _Listed("ui", "Look at jobs in the browser."),
        "report": _Listed("report", "Write a job's page into one HTML file."),
        "checkpoints": _Listed("checkpoints", "List the checkpoints."),
        "timeline": _Listed("timeline", "Show attempts, failures and branches as a graph."),
    },
    "Ask about its state": {
        "states": _Listed("state", "List the states, their types and sizes."),
        "state": _Listed("state", "Show keys and values at a checkpoint."),
        "history": _Listed("changes", "Show each change of a key."),
        "diff": _Listed("changes", "Compare the state at two points, or of two jobs."),
        "sql": _Listed("sql", "Query typed views of the states."),
        "explain": _Listed("explain", "Show which records and timers changed a key."),
        "impact": _Listed("explain", "Show what a record changed and put out."),
        "replay": _Listed("replay", "Run recorded input through the code as it is now."),
    },
    "Change something": {
        "savepoint": _Listed("savepoint", "Make, list and dispose of savepoints."),
        "rescale": _Listed("rescale", "Give a running job another parallelism."),
        "fork": _Listed("fork", "Make a job that starts from another's checkpoint."),
        "correct": _Listed("correct", "Fork a job with corrected entries of a state."),
        "materialize": _Listed("materialize", "Make a snapshot, and truncate the log."),
        "verify": _Listed("verify", "Read every file, say what is damaged, and repair."),
    },
}
_PLACES = {name: listed.place for commands in _SECTIONS.values() for name, listed in commands.items()}


_NO_READER = 128 + signal.SIGPIPE


class _Commands(click.Group):
    """Loads commands when they are asked for, and turns the engine's errors into messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_PLACES)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:13}", listed.words) for name, listed in commands.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _PLACES.get(cmd_name)
        if place is None:
            if not ctx.resilient_parsing and (meant := did_you_mean(cmd_name, _PLACES)):
                raise click.UsageError(f"No such command {cmd_name!r}{meant}", ctx)
            return None
        module = import_module(f"changelog_engine.cli.{place}")
        found: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return found

    def main(self, *args: Any, **kwargs: Any) -> Any:
        open_closed_streams()
        spell_what_the_encoding_lacks()
        return super().main(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _errors_told():  # --version and --help write
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_told():
            return super().invoke(ctx)


@contextlib.contextmanager
def _errors_told() -> Iterator[None]:
    try:
        try:
            yield
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:
        drop(1)
        raise click.exceptions.Exit(_NO_READER) from None
    except ChangelogEngineError as error:
        raise click.ClickException(printable(str(error))) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(JobInterruptedError.code) from None
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        drop(1)
        raise click.ClickException(f"could not write the output: {error.strerror}") from None


def _show_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    try:
        found = version("changelog-engine")
    except PackageNotFoundError:
        found = "unknown (run from its sources, not installed)"
    click.echo(f"changelog-engine {found}, changelog format {FORMAT_VERSION}")
    ctx.exit()


_STOPPED = """\b
A job stopped, is slow, or gives wrong results? Begin with
  changelog-engine status PATH     PATH is <base path>/<job>
  changelog-engine doctor          what is wrong with this machine
  changelog-engine help runbook    from symptoms to commands
Messages that name docs/PAGE.md mean changelog-engine help PAGE."""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_STOPPED)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version.",
)
def main() -> None:
    """Run PyFlink scripts, and look at the checkpoints and the state that jobs left in their changelogs.

    COMMAND --help says more of each.
    """
    if os.environ.get(CONF_VARIABLE):  # what the job reaches its tables by, commands reach them by
        from changelog_engine.config.layers import outer_layers
        from changelog_engine.storage.file_systems import use_options

        use_options(outer_layers().file_systems())
