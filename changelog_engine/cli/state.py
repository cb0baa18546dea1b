"""``changelog-engine state``: the state at a checkpoint, without Spark.

Invariants:
    * It only reads: no folder, lock or table is made or changed, so it may run beside the job.
    * It loads no pickle unless it is told to: states that hold pickled values are shown as such.
"""

from __future__ import annotations

import heapq
import itertools
import os
import sys
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from changelog_engine.checkpoint.job_path import open_changelog
from changelog_engine.cli.console import console, printable, table_of
from changelog_engine.errors import RestoreError
from materializer.fold import FoldedState, state_at

_NEAREST = 3
_LOOKED_AT = 20_000  # keys that are compared letter by letter
_COMPARED = 200  # letters of each


@click.command()
@click.argument("path")
@click.option("--at", type=click.IntRange(min=1), help="Checkpoint id; the newest when left out.")
@click.option("--operator", help="Only the operator with this uid.")
@click.option("--state", "name", help="Only the state of this name.")
@click.option("--key", help="Only this key, as it is shown or as plain text.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Most entries shown."
)
@click.option(
    "--allow-pickle",
    is_flag=True,
    help="Load pickled values, which runs what is in them: only for tables that your own jobs wrote. Their classes are "
    "looked for in the working directory, too.",
)
def state(
    path: str,
    at: int | None,
    operator: str | None,
    name: str | None,
    key: str | None,
    limit: int,
    allow_pickle: bool,
) -> None:
    """Show the state at a checkpoint, folded from the changelog.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it. Without --operator, --state or --key: which
    states there are. With any of them: their entries.
    """
    table = open_changelog(path).storage.root
    if allow_pickle and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    folded = state_at(table, at, allow_pickle=allow_pickle)
    click.echo(f"state at checkpoint {folded.checkpoint.id}, attempt {folded.checkpoint.attempt}")
    if operator is None and name is None and key is None:
        console().print(_overview(folded))
        _show_withheld(folded, None, None)
        return
    _check_names(folded, operator, name)
    entries = _entries(folded, _same(operator), _same(name), _same_key(key))
    if entries:
        namespaced = any(cells[3] for cells in entries[:limit])
        shown = table_of("operator", "state", "key", *(["namespace"] if namespaced else []), "value")
        for cells in entries[:limit]:
            shown.add_row(*[Text(cell) for cell in (cells if namespaced else (*cells[:3], cells[4]))])
        console().print(shown)
    if len(entries) > limit:
        click.echo(f"{len(entries) - limit:,} more; --limit shows more, --key one")
    if not _show_withheld(folded, operator, name) and not entries:
        click.echo("no such entry" if key is None else _no_such_key(folded, operator, name, key))


def _show_withheld(folded: FoldedState, operator: str | None, name: str | None) -> bool:
    """A line for each state that is left out; returns whether there was one."""
    found = [
        f"{printable(state)!r} of {printable(uid)!r} {reason}: --allow-pickle shows it, for jobs of your own"
        for (uid, state), reason in folded.withheld.items()
        if operator in (None, uid) and name in (None, state)
    ]
    if found:
        click.echo("\n".join(found))
    return bool(found)


def _overview(folded: FoldedState) -> Table:
    """One row a state, and one for each operator's pending timers."""
    table = table_of("operator", "state", "kind", "keys")
    for operator in folded.checkpoint.operators:
        for described in operator.get("states", ()):
            name = (operator["uid"], described["name"])
            keys = "not shown" if name in folded.withheld else f"{len(folded.states[name]):,}"
            cells = (*name, described["kind"], keys)
            table.add_row(*(Text(printable(cell)) for cell in cells))
    for (uid, domain), timers in folded.timers.items():
        table.add_row(
            Text(printable(uid)), Text(f"({domain} timers)"), Text("timer"), Text(f"{len(timers):,}")
        )
    return table


def _check_names(folded: FoldedState, operator: str | None, name: str | None) -> None:
    """Raise when nothing has such a name, with what there is instead."""
    uids = dict.fromkeys(uid for uid, _ in (*folded.states, *folded.withheld))
    if operator is not None and operator not in uids:
        raise RestoreError(
            f"no operator with state has the uid {operator!r}; there are {', '.join(uids) or 'none'}"
        )
    names = dict.fromkeys(
        state for uid, state in (*folded.states, *folded.withheld) if operator in (None, uid)
    )
    if name is not None and name not in names:
        raise RestoreError(f"there is no state {name!r}; there are {', '.join(names) or 'none'}")


def _entries(
    folded: FoldedState,
    operator: Callable[[Any], bool],
    name: Callable[[Any], bool],
    key: Callable[[Any], bool],
) -> list[tuple[str, ...]]:
    """The wanted entries: operator, state, key, namespace (empty where there is none), value.

    As repr, so that nothing in a value can steer the terminal.
    """
    found: list[tuple[str, ...]] = []
    for (uid, state), entries in folded.states.items():
        if operator(uid) and name(state):
            for entry_key, value in entries.items():
                plain, namespace = entry_key if entries.namespaced else (entry_key, "")
                if key(plain):
                    found.append(
                        tuple([printable(each) for each in (uid, state, repr(plain), namespace, repr(value))])
                    )
    return found


def _no_such_key(folded: FoldedState, operator: str | None, name: str | None, key: str) -> str:
    """What to say instead of a key that is not there: of each operator, the type of its keys and those that are nearest."""
    found = []
    for described in folded.checkpoint.operators:
        uid = described["uid"]
        wanted = [
            entries
            for (of, state), entries in folded.states.items()
            if of == uid and operator in (None, uid) and name in (None, state)
        ]
        if not wanted:
            continue
        keys = {each[0] if entries.namespaced else each for entries in wanted for each in entries}
        kind = described.get("key_type", {}).get("type", "undeclared")
        shown = ", ".join(printable(repr(each)) for each in _nearest(keys, key))
        near = f"the nearest of {len(keys):,}: {shown}" if keys else "there is none"
        found.append(f"the keys of {printable(uid)!r} are {printable(kind)}; {near}")
    return "\n".join([f"no entry has the key {printable(key)}", *found])


def _nearest(keys: Iterable[Any], wanted: str) -> list[Any]:
    """The few keys that are most like what was asked for: by value if both are numbers, by their letters otherwise."""
    try:
        number: float | None = float(wanted)
    except ValueError:
        number = None
    matcher = SequenceMatcher(b=wanted)

    def distance(key: Any) -> tuple[int, float, str]:
        text = str(key)
        if number is not None and isinstance(key, (int, float)):
            return 0, abs(key - number), text
        matcher.set_seq1(text[:_COMPARED])
        return 1, 1 - matcher.ratio(), text

    return heapq.nsmallest(_NEAREST, itertools.islice(keys, _LOOKED_AT), key=distance)


def _same(wanted: str | None) -> Callable[[Any], bool]:
    return lambda found: wanted is None or found == wanted


def _same_key(wanted: str | None) -> Callable[[Any], bool]:
    return lambda found: wanted is None or wanted in (repr(found), str(found))
