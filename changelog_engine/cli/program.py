"""The command itself: its name, its version, its subcommands.

Invariant: errors of the engine are one message on standard error and exit status 1, never a traceback.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from changelog_engine.changelog.model import FORMAT_VERSION
from changelog_engine.cli.checkpoints import checkpoints
from changelog_engine.cli.console import printable
from changelog_engine.cli.fork import fork
from changelog_engine.cli.materialize import materialize
from changelog_engine.cli.replay import replay
from changelog_engine.cli.run import run
from changelog_engine.cli.savepoint import savepoint
from changelog_engine.cli.state import state
from changelog_engine.cli.verify import verify
from changelog_engine.errors import ChangelogEngineError


class _Commands(click.Group):
    """Turns the engine's errors into messages."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ChangelogEngineError as error:
            raise click.ClickException(printable(str(error))) from None


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


for _command in (run, replay, checkpoints, state, savepoint, verify, materialize, fork):
    main.add_command(_command)
