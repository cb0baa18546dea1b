"""``changelog-engine metrics``: what the newest checkpoints cost and covered, without Spark. It only reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from changelog_engine.changelog.figures import Figures
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.options import PATH, most_option
from changelog_engine.cli.shown import Answer, shows
from changelog_engine.display import Grid, Rate, Size, When
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.inspection.points import open_ledger
from changelog_engine.inspection.timeline import left_out
from changelog_engine.ledger.read_again import read_again
from changelog_engine.state.backend import TIMER_STATES


@click.command()
@click.argument("path", type=PATH)
@most_option("How many checkpoints are shown, the newest ones.", 20, "--last")
@shows
@read_again
def metrics(path: str, last: int) -> Answer:
    """Show the figures of a job's checkpoints: intervals, durations, rows, bytes, and where the time went.

    PATH is the job's folder, <base>/<job>, or the changelog folder in it.
    """
    lineage = open_ledger(path).lineage
    faults: dict[int, CorruptChangelogError] = {}
    ids = lineage.checkpoints.ids(faults)[-last:]
    found = list(lineage.readable(ids, faults).values())
    times = {each.id: each.time_ms for each in found}
    # A row is part of the commit that it tells of, so the next checkpoint's says how long that took.
    acknowledged = {each.parent: ms for each in found if (ms := each.parent_acknowledged_ms) is not None}
    intervals = [each.time_ms - times[each.parent] if each.parent in times else None for each in found]
    figures = [
        {
            "id": each.id,
            "time_ms": each.time_ms,
            "interval_ms": interval,
            **measured(each),
            **_named(each.figures),
        }
        for each, interval in zip(found, intervals, strict=True)
    ]
    names = (
        "id",
        "interval ms",
        "duration ms",
        "committed ms",
        "rows",
        "rows/s",
        "bytes",
        "parts",
        "time (UTC)",
    )
    rows = [
        (
            *(each.id, interval, each.duration_ms, _rounded(acknowledged.get(each.id)), each.rows),
            *(Rate(each.rows * 1000 / interval if interval else None), each.bytes, each.parts),
            When(each.time_ms),
        )
        for each, interval in zip(found, intervals, strict=True)
    ]
    spare = ("parts", "committed ms", "bytes", "rows/s")
    grids = [
        Grid(names, rows, right=8, spare=spare),
        *_epochs(found),
        *(details_of(found[-1].figures) if found else ()),
    ]
    lost = [{"id": each, "unreadable": str(error)} for each, error in sorted(faults.items())]
    notes = [] if ids else ["no checkpoint yet"]
    return Answer([*figures, *lost], grids, notes=notes, faults=left_out(faults))


def _epochs(found: Sequence[Checkpoint]) -> list[Grid]:
    """What the epochs of each checkpoint did, and where their time went."""
    times = list(dict.fromkeys(part for each in found for part in each.figures.get("times_ms", {})))
    if not times and not any("records_in" in each.figures for each in found):
        return []
    columns = ("id", "epochs", "records in", "records out", *(f"{part} ms" for part in times))
    rows = [
        (
            each.id,
            *(each.figures.get(name) for name in ("epochs", "records_in", "records_out")),
            *(_rounded(each.figures.get("times_ms", {}).get(part)) for part in times),
        )
        for each in found
    ]
    return [
        Grid(
            columns,
            rows,
            right=len(columns),
            spare=("records out", "epochs", "encode ms", "read ms", "commit ms"),
        )
    ]


def _named(figures: Figures) -> dict[str, Any]:
    """Figures with the names of timers that people are shown."""
    found: dict[str, Any] = {**figures}
    for each in ("mutations", "sizes"):
        if found.get(each):
            found[each] = {
                uid: {TIMER_STATES.get(state, state): figure for state, figure in of.items()}
                for uid, of in found[each].items()
            }
    return found


def details_of(figures: Figures) -> list[Grid]:
    """Of the newest checkpoint: states, and how far sources are behind."""
    mutations, sizes = figures.get("mutations", {}), figures.get("sizes", {})
    states = dict.fromkeys(
        (uid, state) for each in (mutations, sizes) for uid, of in each.items() for state in of
    )
    rows = []
    for uid, state in states:
        entries, taken = (sizes.get(uid, {}).get(state) or (None, None))[:2]
        rows.append(
            (
                mutations.get(uid, {}).get(state),
                entries,
                Size(taken),
                uid or "(all)",
                TIMER_STATES.get(state, state) or "(all)",
            )
        )
    spare = ("mutations", "size", "operator")
    found = [Grid(("mutations", "entries", "size", "operator", "state"), rows, right=3, spare=spare)]
    sources = [(each[0], each[1], uid) for uid, each in figures.get("sources", {}).items()]
    return [*found, Grid(("records", "behind", "source"), sources, right=2)]


def measured(row: Checkpoint) -> dict[str, Any]:
    """What a checkpoint cost, and how much it committed."""
    return {
        "duration_ms": row.duration_ms,
        "parent_acknowledged_ms": row.parent_acknowledged_ms,
        "restored_ms": row.restored_ms,
        "rows": row.rows,
        "bytes": row.bytes,
        "parts": row.parts,
    }


def _rounded(number: float | None) -> int | None:
    return None if number is None else round(number)
