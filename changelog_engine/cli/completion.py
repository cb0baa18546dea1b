"""What the shell completes besides commands, options and paths: names of the job that the command line names.

Invariants:
    * A completion is never an error and never waits long: what can't be read in time completes to nothing.
    * No name of a job steers a terminal or runs in a shell: one that can't be printed is left out, and bash, which doesn't
      quote what it inserts, gets it quoted.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import threading
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from changelog_engine.config.options import BASE_PATH, DEFAULT_BASE_PATH
from changelog_engine.graph.descriptions import DescribedOperator, keyed_operators

_LONGEST_S = 2.0
_MOST_POINTS = 20
_INSTRUCTION = "_CHANGELOG_ENGINE_COMPLETE"  # the variable by which the shell's function asks


def complete_operator(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Uids of the job's operators with state, as of its newest checkpoint."""
    return _fitting(incomplete, lambda: [each.uid for each in _keyed(ctx)])


def complete_state(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the job's states; those of --operator, where that is given."""
    operator = ctx.params.get("operator")
    return _fitting(
        incomplete,
        lambda: [state.name for each in _keyed(ctx) if operator in (None, each.uid) for state in each.states],
    )


def complete_point(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest checkpoints of the job."""
    return _fitting(
        incomplete,
        lambda: [
            "latest",
            *[str(each) for each in _lineage(ctx).checkpoints.ids()[: -_MOST_POINTS - 1 : -1]],
        ],
    )


def complete_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the jobs below the base path: the one that -D gives, or the default."""

    def names() -> list[str]:
        from changelog_engine.inspection.jobs import list_jobs

        given = [entry.partition("=") for entry in ctx.params.get("entries") or ()]
        base = next((text for key, _, text in given if key == BASE_PATH.key), DEFAULT_BASE_PATH)
        return [each.name for each in list_jobs(base) if each.kind == "job"]

    return _fitting(incomplete, names)


def _lineage(ctx: click.Context) -> Any:
    from changelog_engine.inspection.points import open_ledger  # nothing else of the console needs it here

    return open_ledger(_path(ctx)).lineage


def _path(ctx: click.Context) -> str:
    """The PATH on the command line. Before an option's value that is missing yet, click leaves arguments as they stand."""
    if ctx.params.get("path") is not None:
        return str(ctx.params["path"])
    names = [each.name for each in ctx.command.params if isinstance(each, click.Argument)]
    return ctx.args[names.index("path")]


def _keyed(ctx: click.Context) -> list[DescribedOperator]:
    newest = _lineage(ctx).newest_checkpoint()
    return [] if newest is None else keyed_operators(newest.operators)


def _fitting(incomplete: str, ask: Callable[[], Iterable[str]]) -> list[CompletionItem]:
    """Those of the names that begin so, in time."""
    found: list[str] = []

    def read() -> None:
        with contextlib.suppress(BaseException), contextlib.redirect_stderr(io.StringIO()):
            found.extend(ask())

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    reading.join(_LONGEST_S)
    quote = shlex.quote if os.environ.get(_INSTRUCTION, "").startswith("bash") else str
    names = [name for name in dict.fromkeys(found) if name.isprintable() and name.startswith(incomplete)]
    return [CompletionItem(quote(name)) for name in names]
