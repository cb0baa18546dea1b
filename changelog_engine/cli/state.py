"""``changelog-engine states`` and ``state``: the states at a checkpoint, without Spark.

Invariants:
    * They only read: no folder, lock or table is made or changed, so they may run beside the job.
    * They load no pickle unless they are told to: states that hold pickled values are shown as such.
"""

from __future__ import annotations

import click

from changelog_engine.cli.options import (
    KEY_FORMS,
    PATH,
    at_option,
    most_option,
    operator_option,
    pickle_option,
    state_option,
)
from changelog_engine.cli.shown import Answer, identified, missed_lines, shows, withheld_line, withheld_lines
from changelog_engine.display import Grid
from changelog_engine.inspection.states import EntriesAt, StatesAt, entries_at, states_at, title_at
from changelog_engine.readable import counted


@click.command()
@click.argument("path", type=PATH)
@at_option
@pickle_option
@shows
def states(path: str, at: str | None, allow_pickle: bool) -> Answer:
    """Show which states there are at a checkpoint, with their types and how many keys they have.

    PATH is the folder of a job or savepoint, <base>/<job>, or the changelog folder in it.
    """
    found = states_at(path, at, allow_pickle=allow_pickle)
    return _overview(found, found.grid())


@click.command()
@click.argument("path", type=PATH)
@at_option
@operator_option
@state_option("name")
@click.option("--key", help=f"Only this key: {KEY_FORMS}.")
@most_option("Show at most this many entries.", 20)
@click.option("--skip", type=click.IntRange(min=0), default=0, help="Skip this many entries first.")
@pickle_option
@shows
def state(
    path: str,
    at: str | None,
    operator: str | None,
    name: str | None,
    key: str | None,
    limit: int,
    skip: int,
    allow_pickle: bool,
) -> Answer:
    """Show the state at a checkpoint, folded from the changelog.

    PATH is the folder of a job or savepoint, <base>/<job>, or the changelog folder in it. Without --operator, --state or
    --key: which states there are. With any of them: their entries. A key is typed as the operator declares its keys: `7`
    is a number where keys are numbers, and text where they are text. The exit status is 1 when the
    key has no entry.
    """
    if operator is None and name is None and key is None:
        there = states_at(path, at, allow_pickle=allow_pickle)
        return _overview(there, there.grid().only("operator", "state", "kind", "keys"))
    found = entries_at(
        path, at, operator=operator, state=name, key=key, allow_pickle=allow_pickle, first=skip, limit=limit
    )
    notes = []
    left = found.total - skip - len(found.entries)
    if found.total and not found.entries:
        notes.append(f"--skip passes over all of {counted(found.total, 'entry', 'entries')}")
    if left > 0:
        notes.append(f"{left:,} more; --limit shows more, --key one")
    withheld = withheld_lines(found)
    notes += withheld
    missed = key is not None and not withheld and not found.total
    if missed:
        notes += missed_lines(found, key or "")
    elif not withheld and not found.total:
        notes.append("no such entry")
    document = {
        **identified(found.checkpoint),
        "total": found.total,
        "entries": found.entries,
        "withheld": _list(found),
    }
    return Answer(
        {**document, "missed": found.missed},
        [found.grid()],
        [title_at("state", found.checkpoint)],
        notes,
        status=int(missed),
    )


def _overview(found: StatesAt, grid: Grid) -> Answer:
    """One row a state, and one for each operator's pending timers."""
    notes = [
        withheld_line(each.operator, each.state, each.withheld) for each in found.states if each.withheld
    ]
    document = {**identified(found.checkpoint), "states": found.states}
    return Answer(document, [grid], [title_at("state", found.checkpoint)], notes)


def _list(found: EntriesAt) -> list[dict[str, str]]:
    return [{"operator": uid, "state": state, "why": why} for (uid, state), why in found.withheld.items()]
