"""``changelog-engine history`` and ``diff``: what changed, and what two points do not share. They only read."""

from __future__ import annotations

import click

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.options import (
    KEY_FORMS,
    PATH,
    at_option,
    most_option,
    operator_option,
    pickle_option,
    point_option,
    state_option,
)
from changelog_engine.cli.shown import Answer, TakesPoints, identified, missed_lines, shows, withheld_lines
from changelog_engine.inspection.differences import Differences, differences
from changelog_engine.inspection.key_history import key_history
from changelog_engine.inspection.states import entries_at
from changelog_engine.readable import counted, iso


@click.command()
@click.argument("path", type=PATH)
@click.option("--key", required=True, help=f"The key: {KEY_FORMS}.")
@operator_option
@state_option("name")
@point_option("--from", "start", what="Only from this point on")
@point_option("--to", "end", what="Only up to this point")
@at_option
@most_option("Show at most this many changes, the newest ones.", 200)
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
    if found.outside is None:
        notes.append("what is older than the newest snapshot before --from was not read")
    if found.outside:
        notes.append(f"{counted(found.outside, 'more change')} of the key outside of --from and --to")
    if len(found.changes) > limit:
        notes.append(
            f"{len(found.changes) - limit:,} older ones are not shown; --limit shows more, --to earlier ones"
        )
    notes += [*found.beginning(), *found.order()]
    document = {
        "checkpoint": found.checkpoint.id,
        "begins_with_snapshot": found.begins,
        "files_opened": found.files,
        "files": found.of_files,
        "changes": found.changes[-limit:],
    }
    head = [f"key {key} up to checkpoint {found.checkpoint.id}, attempt {found.checkpoint.attempt}"]
    return Answer(document, [found.grid(limit)], head, notes, status=int(missed))


@click.command(cls=TakesPoints)
@click.argument("path", type=PATH)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@operator_option
@state_option("name")
@most_option("Show at most this many entries of each state.", 20, least=0)
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
    notes = found.refused()
    for each in found.states:
        if left := each.added + each.removed + each.changed - len(each.entries):
            notes.append(f"{each.state!r} of {each.operator!r}: {left:,} more; --limit shows more")
    notes += ["no difference"] if found.equal else []
    head = [f"from {_point(found.before)}", f"to {_point(found.after)}{_common(found)}"]
    document = {
        "before": identified(found.before),
        "after": identified(found.after),
        "common": found.common,
        "equal": found.equal,
        "states": found.states,
    }
    return Answer(document, found.grids(), head, notes, status=int(exit_code and not found.equal))


def _point(checkpoint: Checkpoint) -> str:
    return f"checkpoint {checkpoint.id} ({iso(checkpoint.time_ms)} UTC)"


def _common(found: Differences) -> str:
    if found.common is None or found.common in (found.before.id, found.after.id):
        return ""
    return f"; they parted at checkpoint {found.common}"
