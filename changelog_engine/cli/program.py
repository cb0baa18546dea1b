"""The command itself: its name, its version, its subcommands.

Invariant: errors of the engine are one message on standard error and exit status 1, never a traceback; Ctrl-C ends any
command with status 130.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from changelog_engine.changelog.model import FORMAT_VERSION
from changelog_engine.display import printable
from changelog_engine.errors import ChangelogEngineError, JobInterruptedError

# Each command is loaded when it is asked for: a look at a small job is over before all of them would be imported.
_PLACES = {
    "demo": "demo",
    "run": "run",
    "ui": "ui",
    "report": "report",
    "replay": "replay",
    "explain": "explain",
    "impact": "explain",
    "jobs": "status",
    "status": "status",
    "metrics": "status",
    "checkpoints": "checkpoints",
    "timeline": "timeline",
    "states": "state",
    "state": "state",
    "history": "changes",
    "diff": "changes",
    "sql": "sql",
    "savepoint": "savepoint",
    "rescale": "rescale",
    "fork": "fork",
    "correct": "correct",
    "materialize": "materialize",
    "verify": "verify",
    "doctor": "doctor",
    "class-archive": "class_archive",
}


class _Commands(click.Group):
    """Loads commands when they are asked for, and turns the engine's errors into messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _PLACES.get(cmd_name)
        if place is None:
            return None
        module = import_module(f"changelog_engine.cli.{place}")
        found: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return found

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ChangelogEngineError as error:
            raise click.ClickException(printable(str(error))) from None
        except KeyboardInterrupt:
            ctx.exit(JobInterruptedError.code)


def _show_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    try:
        found = version("changelog-engine")
    except PackageNotFoundError:
        found = "unknown (run from its sources, not installed)"
    click.echo(f"changelog-engine {found}, changelog format {FORMAT_VERSION}")
    ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version.",
)
def main() -> None:
    """Run PyFlink scripts, and look at the checkpoints and the state that jobs left in their changelogs."""
