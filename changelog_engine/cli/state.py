"""``changelog-engine state``: the state at a checkpoint, without Spark.

Invariants:
    * It only reads: no folder, lock or table is made or changed, so it may run beside the job.
    * It never loads a pickle: states that hold pickled values are refused with a message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from changelog_engine.cli.console import console, printable, table_of
from changelog_engine.cli.job_path import open_changelog
from changelog_engine.errors import ConfigurationError, RestoreError
from materializer.fold import FoldedState, state_at

_PICKLES = (
    "This command never loads pickles. To read such states of your own jobs in Python: "
    "materializer.state_at({table!r}, allow_pickle=True)"
)


@click.command()
@click.argument("path")
@click.option("--at", type=click.IntRange(min=1), help="Checkpoint id; the newest when left out.")
@click.option("--operator", help="Only the operator with this uid.")
@click.option("--state", "name", help="Only the state of this name.")
@click.option("--key", help="Only this key, as it is shown or as plain text.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Most entries shown."
)
def state(
    path: str, at: int | None, operator: str | None, name: str | None, key: str | None, limit: int
) -> None:
    """Show the state at a checkpoint, folded from the changelog.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it. Without --operator, --state or --key: which
    states there are. With any of them: their entries.
    """
    folded = _folded(open_changelog(path).storage.root, at)
    output = console()
    click.echo(f"state at checkpoint {folded.checkpoint.id}, attempt {folded.checkpoint.attempt}")
    if operator is None and name is None and key is None:
        output.print(_overview(folded))
        return
    _check_names(folded, operator, name)
    entries = _entries(folded, _same(operator), _same(name), _same_key(key))
    if not entries:
        click.echo("no such entry")
        return
    table = table_of("operator", "state", "key", "value")
    for cells in entries[:limit]:
        table.add_row(*map(Text, cells))
    output.print(table)
    if len(entries) > limit:
        click.echo(f"{len(entries) - limit:,} more; --limit shows more, --key one")


def _folded(table: str, at: int | None) -> FoldedState:
    try:
        return state_at(table, at)
    except ConfigurationError as error:
        reason = str(error).partition(": pass allow_pickle")[0]
        raise ConfigurationError(f"{reason}. {_PICKLES.format(table=table)}") from None


def _overview(folded: FoldedState) -> Table:
    """One row a state, and one for each operator's pending timers."""
    table = table_of("operator", "state", "kind", "keys")
    for operator in folded.checkpoint.operators:
        for described in operator.get("states", ()):
            entries = folded.states.get((operator["uid"], described["name"]), {})
            cells = (operator["uid"], described["name"], described["kind"], f"{len(entries):,}")
            table.add_row(*(Text(printable(cell)) for cell in cells))
    for (uid, domain), timers in folded.timers.items():
        table.add_row(
            Text(printable(uid)), Text(f"({domain} timers)"), Text("timer"), Text(f"{len(timers):,}")
        )
    return table


def _check_names(folded: FoldedState, operator: str | None, name: str | None) -> None:
    """Raise when nothing has such a name, with what there is instead."""
    uids = dict.fromkeys(uid for uid, _ in folded.states)
    if operator is not None and operator not in uids:
        raise RestoreError(
            f"no operator with state has the uid {operator!r}; there are {', '.join(uids) or 'none'}"
        )
    names = dict.fromkeys(state for uid, state in folded.states if operator in (None, uid))
    if name is not None and name not in names:
        raise RestoreError(f"there is no state {name!r}; there are {', '.join(names) or 'none'}")


def _entries(
    folded: FoldedState,
    operator: Callable[[Any], bool],
    name: Callable[[Any], bool],
    key: Callable[[Any], bool],
) -> list[tuple[str, str, str, str]]:
    """The wanted entries as text; repr, so that nothing in a value can steer the terminal."""
    return [
        (printable(uid), printable(state), repr(entry_key), printable(repr(value)))
        for (uid, state), entries in folded.states.items()
        if operator(uid) and name(state)
        for entry_key, value in entries.items()
        if key(entry_key)
    ]


def _same(wanted: str | None) -> Callable[[Any], bool]:
    return lambda found: wanted is None or found == wanted


def _same_key(wanted: str | None) -> Callable[[Any], bool]:
    return lambda found: wanted is None or wanted in (repr(found), str(found))
