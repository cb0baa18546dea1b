"""The options and arguments that several commands have."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from changelog_engine.cli.completion import complete_operator, complete_point, complete_state
from changelog_engine.config.paths import working_directory
from changelog_engine.ledger.points import FORMS

KEY_FORMS = "as it is shown, as plain text, or as JSON"  # see inspection.values.key_identities
PATH = click.Path(path_type=str, readable=False)  # what cannot be read the engine names


def point_option(*names: str, what: str, left_out: str = "", required: bool = False) -> Callable[[Any], Any]:
    """An option that takes a point of a job, in every form that ``ledger.points`` knows.

    Args:
        left_out: what holds when the option is not given, as a sentence.
    """
    text = f"{what}: {FORMS}.{' ' if left_out else ''}{left_out}"
    return click.option(*names, metavar="POINT", help=text, required=required, shell_complete=complete_point)


operator_option = click.option(
    "--operator", metavar="UID", help="Only the operator with this uid.", shell_complete=complete_operator
)


def state_option(*names: str) -> Callable[[Any], Any]:
    """The option --state; ``names`` are the parameter's, where it is not ``state``."""
    return click.option(
        "--state", *names, metavar="NAME", help="Only the state of this name.", shell_complete=complete_state
    )


at_option = point_option("--at", what="Which checkpoint", left_out="The newest when left out.")


def entries_option(text: str = "An option by its key. May be repeated.") -> Callable[[Any], Any]:
    """The option -D, with what its help says."""
    return click.option("-D", "entries", metavar="KEY=VALUE", multiple=True, help=text)


def most_option(
    text: str, default: int, name: str = "--limit", least: int = 1, most: int | None = None
) -> Callable[[Any], Any]:
    """An option that says how many of something are shown."""
    return click.option(name, type=click.IntRange(least, most), default=default, show_default=True, help=text)


new_name_option = click.option(
    "--name", "new_name", help="Name of the new job; the last part of NEW_PATH when left out."
)
name_option = click.option("--name", metavar="TEXT", help="Name of a job whose execute() gives none.")
script_argument = click.argument("script", metavar="SCRIPT", type=PATH)
arguments_argument = click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")


def pickle_option(command: Any) -> Any:
    """The option --allow-pickle."""
    return click.option(
        "--allow-pickle",
        is_flag=True,
        callback=_looks_here,
        help="Load pickled values, which runs what is in them: only for tables that your own jobs wrote. Their classes are "
        "looked for in the working directory, too.",
    )(command)


def _looks_here(context: click.Context, parameter: click.Parameter, allowed: bool) -> bool:
    if allowed and (here := working_directory()) is not None and here not in sys.path:
        sys.path.append(here)
    return allowed
