"""``changelog-engine correct``: a fork with corrected entries of one state, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.completion import complete_operator, complete_state
from changelog_engine.cli.fork import commands_to_run
from changelog_engine.cli.given_corrections import GivenCorrections, corrections_in, key_of, values_of_text
from changelog_engine.cli.options import PATH, at_option, new_name_option, pickle_option
from changelog_engine.cli.shown import Answer, shows
from changelog_engine.corrections.fixes import Correction
from changelog_engine.corrections.repair import Repaired, repair
from changelog_engine.display import Grid, Literal
from changelog_engine.graph.descriptions import key_type_of, map_key_type_of, states_of
from changelog_engine.inspection.points import open_point
from changelog_engine.inspection.values import below_keys
from changelog_engine.ledger.described import check_names, described_state
from changelog_engine.ledger.read_again import read_again
from changelog_engine.readable import counted
from changelog_engine.state.ttl import user_type


@click.command()
@click.argument("path", type=PATH)
@click.argument("new_path", type=PATH, required=False)
@at_option
@click.option(
    "--operator",
    metavar="UID",
    help="The operator with this uid. May be left out where only one has the state.",
    shell_complete=complete_operator,
)
@click.option(
    "--state", "name", metavar="NAME", help="The state of this name.", shell_complete=complete_state
)
@click.option(
    "--set",
    "settings",
    nargs=2,
    multiple=True,
    metavar="KEY VALUE",
    help="Give the key this value, as JSON; of a ListState the whole list. Quotes of text may be left out. May be repeated.",
)
@click.option(
    "--delete", "deletions", multiple=True, metavar="KEY", help="Remove the key's value. May be repeated."
)
@click.option(
    "--map-key", metavar="KEY", help="Of a MapState: which entry of the map --set and --delete are about."
)
@click.option(
    "--from-file",
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="A table of corrections: Parquet, CSV or JSON lines with the columns key and value, and perhaps map_key, delete, "
    "operator, state, who and why, in place of the options.",
)
@click.option("--who", help="Who makes the corrections.")
@click.option("--why", help="Why they are made.")
@new_name_option
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@pickle_option
@shows
def correct(
    path: str,
    new_path: str | None,
    at: str | None,
    operator: str | None,
    name: str | None,
    settings: tuple[tuple[str, str], ...],
    deletions: tuple[str, ...],
    map_key: str | None,
    file: str | None,
    who: str | None,
    why: str | None,
    new_name: str | None,
    dry_run: bool,
    allow_pickle: bool,
) -> Answer:
    """Fork a job at a checkpoint with corrected entries of a state.

    PATH is the folder of the job, <base>/<job>, or of a savepoint; it is not changed, and may be running. NEW_PATH is that
    of the new job, whose log says who made the corrections and why. Keys are given as for history --key.
    """
    if (not settings and not deletions) == (file is None):
        raise click.UsageError("give corrections: --set KEY VALUE and --delete KEY, or --from-file FILE")
    if new_path is None and not dry_run:
        raise click.UsageError("NEW_PATH is missing: name the folder of the new job, or say --dry-run")
    said = {"operator": operator, "state": name, "who": who, "why": why}

    @read_again
    def corrected(path: str) -> tuple[Checkpoint, GivenCorrections, Repaired]:
        _, checkpoint = open_point(path, at)
        given = (
            _given_by_options(checkpoint, said, settings, deletions, map_key)
            if file is None
            else _given_by_file(checkpoint, said, file, map_key)
        )
        done = repair(
            path,
            checkpoint.id,
            given.tables,
            who=given.who,
            why=given.why,
            target=new_path,
            name=new_name,
            dry_run=dry_run,
            allow_pickle=allow_pickle,
        )
        return checkpoint, given, done

    checkpoint, given, done = corrected(path)
    of = ", ".join(f"{state} of {uid}" for uid, states in given.tables.items() for state in states)
    head = [f"corrections of {of} at checkpoint {checkpoint.id}"]
    document = {
        "checkpoint": checkpoint.id,
        "path": done.path,
        "corrections": done.corrections,
        "who": given.who,
        "why": given.why,
    }
    return Answer(document, [_grid(done.corrections)], head, _notes(done, checkpoint))


def _notes(done: Repaired, checkpoint: Checkpoint) -> list[str]:
    count = counted(len(done.corrections), "correction")
    if done.fork is None:
        return [f"{count}; nothing was changed"]
    folder = done.fork.folder
    return [
        f"{folder.storage.root} starts with {count} after checkpoint {checkpoint.id}",
        *commands_to_run(folder.name, folder.storage.root),
    ]


def _given_by_file(
    checkpoint: Checkpoint, said: dict[str, str | None], file: str, map_key: str | None
) -> GivenCorrections:
    if map_key is not None:
        raise click.UsageError("--map-key goes with --set and --delete: a file has a column map_key")
    return corrections_in(file, checkpoint, said)


def _given_by_options(
    checkpoint: Checkpoint,
    said: dict[str, str | None],
    settings: tuple[tuple[str, str], ...],
    deletions: tuple[str, ...],
    map_key: str | None,
) -> GivenCorrections:
    if said["state"] is not None and said["operator"] is None:
        said = {**said, "operator": _only_operator(checkpoint, said["state"])}
    for option, text in said.items():
        if text is None:
            raise click.UsageError(f"--{option} is missing")
    operator, state, who, why = (str(text) for text in said.values())
    table = _table(checkpoint, operator, state, settings, deletions, map_key)
    return GivenCorrections({operator: {state: table}}, who, why)


def _only_operator(checkpoint: Checkpoint, state: str) -> str:
    """The uid of the one operator that has a state of this name."""
    check_names(checkpoint, None, state)
    uids = [uid for uid, name in states_of(checkpoint.operators) if name == state]
    if len(uids) > 1:
        raise click.UsageError(f"--operator is missing: {', '.join(uids)} have a state {state!r}")
    return uids[0]


def _grid(corrections: Sequence[Correction]) -> Grid:
    """The corrections as rows, with the columns that they need."""
    below, belows = below_keys(corrections)
    several = len({(each.operator, each.state) for each in corrections}) > 1
    rows = [
        (
            *([each.operator, each.state] if several else []),
            Literal(each.key),
            *cells,
            Literal(each.before),
            "deleted" if each.deleted else Literal(each.after),
        )
        for each, cells in zip(corrections, belows, strict=True)
    ]
    named = ["operator", "state"] if several else []
    return Grid([*named, "key", *below, "before", "after"], rows)


def _table(
    checkpoint: Checkpoint,
    uid: str,
    name: str,
    settings: tuple[tuple[str, str], ...],
    deletions: tuple[str, ...],
    map_key: str | None,
) -> dict[str, list[Any]]:
    """The corrections as a table, typed as the checkpoint describes the state."""
    operator, described = described_state(checkpoint, uid, name)
    kind, value_type = described.kind, user_type(described)
    if (kind == "map") != (map_key is not None):
        needed = "is a MapState: say --map-key" if kind == "map" else "is not a MapState: leave --map-key out"
        raise click.UsageError(f"{name} of {uid} {needed}")
    table: dict[str, list[Any]] = {"key": [], "value": [], "delete": []}
    map_keys: list[Any] = []
    meant = None if map_key is None else key_of(map_key, map_key_type_of(described), "--map-key")
    pairs: list[tuple[str, str | None]] = [*settings, *((key, None) for key in deletions)]
    for key_text, text in pairs:
        key = key_of(key_text, key_type_of(operator), "--set" if text is not None else "--delete")
        values = [None] if text is None else values_of_text(text, value_type, kind == "list", "--set ...")
        if not values:
            raise click.UsageError(f"--set {key_text} {text}: an empty list is none: say --delete {key_text}")
        for value in values:
            for column, cell in (("key", key), ("value", value), ("delete", text is None)):
                table[column].append(cell)
            map_keys.append(meant)
    return table if meant is None else {**table, "map_key": map_keys}
