"""The console command ``changelog-engine``: looks at what jobs left, without Spark.

Invariants:
    * It only reads: no folder, lock or table is made or changed, so it may run beside the job.
    * It never loads a pickle: states that hold pickled values are refused with a message.
    * Errors of the engine are one message on standard error and exit status 1, never a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from changelog_engine.changelog.model import FORMAT_VERSION, Checkpoint
from changelog_engine.checkpoint.job_folder import CHANGELOG, FORMAT_PROPERTY
from changelog_engine.checkpoint.lineage import Lineage
from changelog_engine.errors import (
    ChangelogEngineError,
    ConfigurationError,
    ForeignPathError,
    FormatVersionError,
    RestoreError,
    StorageError,
)
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.filesystem import Storage
from materializer.fold import FoldedState, state_at

_PIPE_WIDTH = 200  # columns when nobody looks: values are not cut for a terminal that isn't there
_PICKLES = (
    "This command never loads pickles. To read such states of your own jobs in Python: "
    "materializer.state_at({table!r}, allow_pickle=True)"
)


class _Commands(click.Group):
    """Turns the engine's errors into messages."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ChangelogEngineError as error:
            raise click.ClickException(_printable(str(error))) from None


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
    """Look at the checkpoints and the state that jobs left in their changelogs."""


@main.command()
@click.argument("path")
@click.option("--last", type=click.IntRange(min=1), help="Only so many, the newest.")
def checkpoints(path: str, last: int | None) -> None:
    """List the checkpoints of a job.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it.
    """
    lineage = Lineage(open_changelog(path))
    ids = sorted(lineage.checkpoints)[-last if last else 0 :]
    if not ids:
        click.echo(f"no checkpoint yet, {len(lineage.attempts)} attempt(s)")
        return
    table = _table("id", "attempt", "parent", "time (UTC)", "rows", "bytes", "parts", "end", right=7)
    for identity in ids:
        table.add_row(*_checkpoint_cells(lineage.checkpoint(identity)))
    _console().print(table)


@main.command()
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
    console = _console()
    click.echo(f"state at checkpoint {folded.checkpoint.id}, attempt {folded.checkpoint.attempt}")
    if operator is None and name is None and key is None:
        console.print(_overview(folded))
        return
    _check_names(folded, operator, name)
    entries = _entries(folded, _same(operator), _same(name), _same_key(key))
    if not entries:
        click.echo("no such entry")
        return
    table = _table("operator", "state", "key", "value")
    for cells in entries[:limit]:
        table.add_row(*map(Text, cells))
    console.print(table)
    if len(entries) > limit:
        click.echo(f"{len(entries) - limit:,} more; --limit shows more, --key one")


def open_changelog(path: str) -> DeltaLog:
    """The changelog table of a job.

    Args:
        path: the job's folder or the changelog folder in it; a local path or a URI.

    Raises:
        StorageError: there is no changelog.
        ForeignPathError: it is a Delta table of somebody else.
        FormatVersionError: a newer engine wrote it.
    """
    given = Storage(path)
    found = next((table for table in (given, given.child(CHANGELOG)) if DeltaLog.exists(table)), None)
    if found is None:
        raise StorageError(f"there is no changelog in {given.root}{_jobs_in(given)}")
    log = DeltaLog(found)
    written = log.properties().get(FORMAT_PROPERTY)
    if written is None:
        raise ForeignPathError(
            f"{found.root} is a Delta table, but no changelog: it has no {FORMAT_PROPERTY}"
        )
    if not written.isdecimal() or int(written) > FORMAT_VERSION:
        raise FormatVersionError(
            f"{found.root} has changelog format {written}, this engine reads up to {FORMAT_VERSION}: use a newer one"
        )
    return log


def _jobs_in(base: Storage) -> str:
    """A hint when the path is a base path: which jobs lie in it."""
    if not base.exists():
        return ": no such folder"
    folders = [
        entry.name for entry in base.list() if entry.is_folder and not entry.name.startswith((".", "_"))
    ]
    jobs = [name for name in folders if DeltaLog.exists(base.child(f"{name}/{CHANGELOG}"))]
    return f"; it holds the jobs {', '.join(jobs)}: name one of their folders" if jobs else ""


def _folded(table: str, at: int | None) -> FoldedState:
    try:
        return state_at(table, at)
    except ConfigurationError as error:
        reason = str(error).partition(": pass allow_pickle")[0]
        raise ConfigurationError(f"{reason}. {_PICKLES.format(table=table)}") from None


def _checkpoint_cells(row: Checkpoint) -> tuple[str, ...]:
    when = datetime.fromtimestamp(row.time_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
    parent = "-" if row.parent is None else str(row.parent)
    end = "finished" if row.finished else "stopped" if row.stopped else ""
    numbers = (f"{row.rows:,}", f"{row.bytes:,}", str(row.parts))
    return (str(row.id), str(row.attempt), parent, when.removesuffix("+00:00"), *numbers, end)


def _overview(folded: FoldedState) -> Table:
    """One row a state, and one for each operator's pending timers."""
    table = _table("operator", "state", "kind", "keys")
    for operator in folded.checkpoint.operators:
        for described in operator.get("states", ()):
            entries = folded.states.get((operator["uid"], described["name"]), {})
            cells = (operator["uid"], described["name"], described["kind"], f"{len(entries):,}")
            table.add_row(*(Text(_printable(cell)) for cell in cells))
    for (uid, domain), timers in folded.timers.items():
        table.add_row(
            Text(_printable(uid)), Text(f"({domain} timers)"), Text("timer"), Text(f"{len(timers):,}")
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
        (_printable(uid), _printable(state), repr(entry_key), _printable(repr(value)))
        for (uid, state), entries in folded.states.items()
        if operator(uid) and name(state)
        for entry_key, value in entries.items()
        if key(entry_key)
    ]


def _same(wanted: str | None) -> Callable[[Any], bool]:
    return lambda found: wanted is None or found == wanted


def _same_key(wanted: str | None) -> Callable[[Any], bool]:
    return lambda found: wanted is None or wanted in (repr(found), str(found))


def _table(*names: str, right: int = 0) -> Table:
    """An empty table whose first ``right`` columns are set right."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for index, name in enumerate(names):
        table.add_column(name, justify="right" if index < right else "left", overflow="fold")
    return table


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def _printable(text: str) -> str:
    """Text without control characters."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
