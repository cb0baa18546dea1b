"""``changelog-engine history`` and ``diff``: what changed, and what two points do not share. They only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.options import (
    PATH,
    at_option,
    most_option,
    operator_option,
    pickle_option,
    point_option,
    state_option,
)
from changelog_engine.cli.shown import Answer, TakesPoints, identified, missed_lines, shows, withheld_lines
from changelog_engine.display import Grid, Literal, When
from changelog_engine.inspection.differences import Differences, EntryDifference, StateDifference, differences
from changelog_engine.inspection.key_history import TIME_TO_LIVE, KeyChange, key_history
from changelog_engine.inspection.states import entries_at
from changelog_engine.readable import counted, iso


@click.command()
@click.argument("path", type=PATH)
@click.option("--key", required=True, help="The key: as it is shown, as plain text, or as JSON.")
@operator_option
@state_option("name")
@point_option("--from", "start", what="Only from this point on")
@point_option("--to", "end", what="Only up to this point")
@at_option
@most_option("Show at most so many changes, the newest ones.", 200)
@pickle_option
@shows
def history(
    path: str,
    key: str,
    operator: str | None,
    name: str | None,
    start: str | None,
    end: str | None,
    at: str | None,
    limit: int,
    allow_pickle: bool,
) -> Answer:
    """Show each change of a key: when, by which checkpoint, from what to what, and what caused it.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it. The changes are those on the lineage of the
    newest checkpoint, or of --at. Only files that can hold the key are opened. The exit status is 1 when
    the key is not there.
    """
    found = key_history(
        path, key, operator=operator, state=name, at=at, start=start, end=end, allow_pickle=allow_pickle
    )
    shown = found.changes[-limit:]
    notes = [
        f"{counted(len(found.changes), 'change')}, {found.files:,} of {counted(found.of_files, 'file')} opened"
    ]
    missed = False
    if not found.changes:
        there = entries_at(
            path, at, operator=operator, state=name, key=key, allow_pickle=allow_pickle, limit=1
        )
        missed = bool(there.missed) and not found.outside
        notes += missed_lines(there, key) if missed else []
        notes += [] if there.total else withheld_lines(there)
    if found.outside:
        notes.append(f"{counted(found.outside, 'more change')} of the key outside of --from and --to")
    if len(found.changes) > limit:
        notes.append(
            f"{len(found.changes) - limit:,} older ones are not shown; --limit shows more, --to earlier ones"
        )
    if found.begins is not None:
        notes.append(
            f"mutations before checkpoint {found.begins} were truncated: the history begins with its snapshot"
        )
    document = {
        "checkpoint": found.checkpoint.id,
        "begins_with_snapshot": found.begins,
        "files_opened": found.files,
        "files": found.of_files,
        "changes": shown,
    }
    head = [f"key {key} up to checkpoint {found.checkpoint.id}, attempt {found.checkpoint.attempt}"]
    return Answer(document, [_grid_of(shown)], head, notes, status=int(missed))


def _grid_of(changes: Sequence[KeyChange]) -> Grid:
    """A row for each change."""
    several = len({change.operator for change in changes}) > 1
    below, belows = _below_keys(changes)
    rows = []
    for change, cells_below in zip(changes, belows, strict=True):
        at_ms = None if change.cause == TIME_TO_LIVE else change.event_time_ms
        moment = "" if at_ms is None else f" at {iso(at_ms)}"
        by = "" if change.who is None else f" by {change.who}: {change.why}"
        rows.append(
            (
                change.checkpoint,
                When(change.time_ms),
                *([change.operator] if several else []),
                change.state,
                *cells_below,
                change.operation,
                _cell(change.kind, change.before),
                _cell(change.kind, change.after),
                f"{change.cause}{by}{moment}",
            )
        )
    columns = ["checkpoint", "time (UTC)", *(["operator"] if several else []), "state", *below]
    columns += ["operation", "before", "after", "cause"]
    return Grid(columns, rows, right=1, spare=("operation", "time (UTC)"))


@click.command(cls=TakesPoints)
@click.argument("path", type=PATH)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@operator_option
@state_option("name")
@most_option("Show at most so many entries of each state.", 20, least=0)
@click.option("--exit-code", is_flag=True, help="Exit with status 1 when the points differ.")
@pickle_option
@shows
def diff(
    path: str,
    before: str,
    after: str,
    operator: str | None,
    name: str | None,
    limit: int,
    exit_code: bool,
    allow_pickle: bool,
) -> Answer:
    """Show how the state differs between two points: entries that were added, removed or changed from A to B.

    PATH is the job's folder, <base>/<job>. A and B are points of it as --at of `state` takes them, on any branch; a point
    of another job or a savepoint is OTHER@POINT, where OTHER is a path or the name of a folder beside the job's. Of a
    timer the time that it is set to is shown.
    """
    found = differences(
        path, before, after, operator=operator, state=name, limit=limit, allow_pickle=allow_pickle
    )
    counts = [
        (each.added, each.removed, each.changed, each.operator, each.state, each.kind)
        for each in found.states
    ]
    entries = [(each.kind, entry) for each in found.states for entry in each.entries]
    below, belows = _below_keys([entry for _, entry in entries])
    columns = ["change", "operator", "state", "key", *below, "before", "after"]
    rows = []
    for (kind, entry), cells in zip(entries, belows, strict=True):
        values = [_cell(kind, each) for each in (entry.before, entry.after)]
        rows.append((entry.change, entry.operator, entry.state, Literal(entry.key), *cells, *values))
    notes = [note for each in found.states for note in _notes(each)]
    notes += ["no difference"] if found.equal else []
    grids = [
        Grid(columns, rows),
        Grid(("added", "removed", "changed", "operator", "state", "kind"), counts, right=3),
    ]
    head = [f"from {_point(found.before)}", f"to {_point(found.after)}{_common(found)}"]
    document = {
        "before": identified(found.before),
        "after": identified(found.after),
        "common": found.common,
        "equal": found.equal,
        "states": found.states,
    }
    return Answer(document, grids, head, notes, status=int(exit_code and not found.equal))


def _below_keys(found: Sequence[KeyChange | EntryDifference]) -> tuple[list[str], list[list[Any]]]:
    """Columns and each row's cells for what lies below a key: namespaces and map keys, where any entry has one."""
    spaced = any(each.namespace is not None for each in found)
    mapped = any(each.map_key is not None for each in found)
    columns = [*(["namespace"] if spaced else []), *(["map key"] if mapped else [])]
    rows = []
    for each in found:
        cells: list[Any] = [each.namespace] if spaced else []
        cells += [None if each.map_key is None else Literal(each.map_key)] if mapped else []
        rows.append(cells)
    return columns, rows


def _cell(kind: str, value: Any) -> Any:
    if value is None:
        return None
    return When(value) if kind == "timer" else Literal(value)


def _notes(found: StateDifference) -> list[str]:
    name = f"{found.state!r} of {found.operator!r}"
    if found.uncompared is not None:
        return [f"{name} was not compared: {found.uncompared}"]
    left = found.added + found.removed + found.changed - len(found.entries)
    return [f"{name}: {left:,} more; --limit shows more"] if left else []


def _point(checkpoint: Checkpoint) -> str:
    return f"checkpoint {checkpoint.id} ({iso(checkpoint.time_ms)} UTC)"


def _common(found: Differences) -> str:
    if found.common is None or found.common in (found.before.id, found.after.id):
        return ""
    return f"; they parted at checkpoint {found.common}"
