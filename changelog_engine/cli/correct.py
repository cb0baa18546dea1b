"""``changelog-engine correct``: a fork with corrected entries of one state, without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import click
import orjson

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.fork import commands_to_run
from changelog_engine.cli.shown import PATH, Answer, Sheet, Value, at_option, counted, pickle_option, shows
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.corrections.fixes import user_type
from changelog_engine.corrections.repair import repair
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.inspection.points import open_point
from changelog_engine.inspection.states import check_names
from changelog_engine.inspection.values import key_identities, type_of
from changelog_engine.types import ElementsTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation


@click.command()
@click.argument("path", type=PATH)
@click.argument("new_path", type=PATH, required=False)
@at_option
@click.option("--operator", required=True, help="The operator with this uid.")
@click.option("--state", "name", required=True, help="The state of this name.")
@click.option(
    "--set",
    "settings",
    nargs=2,
    multiple=True,
    metavar="KEY VALUE",
    help="The key has this value now: JSON, of a ListState the whole list; text may lack its quotes. May be repeated.",
)
@click.option(
    "--delete", "deletions", multiple=True, metavar="KEY", help="The key has none now. May be repeated."
)
@click.option(
    "--map-key", metavar="KEY", help="Of a MapState: the entry of the map that --set and --delete mean."
)
@click.option("--who", required=True, help="Who makes the corrections.")
@click.option("--why", required=True, help="Why they are made.")
@click.option("--name", "job_name", help="Name of the new job; the last part of NEW_PATH when left out.")
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@pickle_option
@shows
def correct(
    path: str,
    new_path: str | None,
    at: str | None,
    operator: str,
    name: str,
    settings: tuple[tuple[str, str], ...],
    deletions: tuple[str, ...],
    map_key: str | None,
    who: str,
    why: str,
    job_name: str | None,
    dry_run: bool,
    allow_pickle: bool,
) -> Answer:
    """Fork a job at a checkpoint with corrected entries of a state.

    PATH is the folder of the job, <base>/<job>, or of a savepoint; it is not changed, and may be running. NEW_PATH is that
    of the new job, whose log says who made the corrections and why. Keys are given as for history --key.
    """
    if not settings and not deletions:
        raise click.UsageError("give corrections: --set KEY VALUE or --delete KEY")
    if new_path is None and not dry_run:
        raise click.UsageError("NEW_PATH is missing: name the folder of the new job, or say --dry-run")
    _, checkpoint = open_point(path, at)
    check_names(checkpoint, operator, name)
    table = _table(checkpoint, operator, name, settings, deletions, map_key)
    done = repair(
        path,
        checkpoint.id,
        {operator: {name: table}},
        who=who,
        why=why,
        target=new_path,
        name=job_name,
        dry_run=dry_run,
        allow_pickle=allow_pickle,
    )
    mapped = map_key is not None
    rows = [
        (
            Value(each.key),
            *([Value(each.map_key)] if mapped else []),
            Value(each.before),
            "deleted" if each.deleted else Value(each.after),
        )
        for each in done.corrections
    ]
    columns = ["key", *(["map key"] if mapped else []), "before", "after"]
    made = f"corrections of {name} of {operator} at checkpoint {checkpoint.id}"
    if done.fork is None:
        notes = [f"{counted(len(rows), 'correction')}; nothing was changed"]
    else:
        folder = done.fork.folder
        notes = [
            f"{folder.storage.root} starts with {counted(len(rows), 'correction')} after checkpoint {checkpoint.id}",
            *commands_to_run(folder.name, folder.storage.root),
        ]
    document = {
        "checkpoint": checkpoint.id,
        "path": done.path,
        "corrections": done.corrections,
        "who": who,
        "why": why,
    }
    return Answer(document, [Sheet(columns, rows)], [made], notes)


def _table(
    checkpoint: Checkpoint,
    uid: str,
    name: str,
    settings: tuple[tuple[str, str], ...],
    deletions: tuple[str, ...],
    map_key: str | None,
) -> dict[str, list[Any]]:
    """The corrections as a table, typed as the checkpoint describes the state."""
    operator, described = next(
        (each, state)
        for each in checkpoint.operators
        for state in each.get("states", ())
        if each["uid"] == uid and state["name"] == name
    )
    kind, value_type = described["kind"], user_type(described)
    if (kind == "map") != (map_key is not None):
        needed = "is a MapState: say --map-key" if kind == "map" else "is not a MapState: leave --map-key out"
        raise click.UsageError(f"{name} of {uid} {needed}")
    table: dict[str, list[Any]] = {"key": [], "value": [], "delete": []}
    map_keys: list[Any] = []
    meant = None if map_key is None else _key(map_key, type_of(described.get("map_key_type")), "--map-key")
    pairs: list[tuple[str, str | None]] = [*settings, *((key, None) for key in deletions)]
    for key_text, text in pairs:
        key = _key(key_text, type_of(operator.get("key_type")), "--set" if text is not None else "--delete")
        values = [None] if text is None else _values(text, value_type, kind == "list")
        if not values:
            raise click.UsageError(f"--set {key_text} {text}: an empty list is none: say --delete {key_text}")
        for value in values:
            for column, cell in (("key", key), ("value", value), ("delete", text is None)):
                table[column].append(cell)
            map_keys.append(meant)
    return table if meant is None else {**table, "map_key": map_keys}


def _key(text: str, key_type: TypeInformation | None, option: str) -> Any:
    """The key that was given as text."""
    found = key_identities(text, key_type)
    if not found:
        wanted = "undeclared" if key_type is None else key_type.name
        raise click.UsageError(f"{option} {text}: {text!r} is not a key of the type {wanted}")
    if len(found) > 1:
        codec = key_codec_for(key_type)
        could = ", ".join([repr(codec.key_of(each)) for each in found])
        raise click.UsageError(f"{option} {text}: {text!r} may mean {could}. Use changelog_engine.repair")
    return key_codec_for(key_type).key_of(found[0])


def _values(text: str, value_type: TypeInformation, is_list: bool) -> list[Any]:
    """The value that was given as text, or the elements of a list."""
    try:
        orjson.loads(text)  # json would take NaN, too
        parsed = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        parsed = text
    if value_type.kind in ("STRING", "CHAR") and not is_list:
        return [parsed if isinstance(parsed, str) else text]
    if is_list and not isinstance(parsed, list):
        raise click.UsageError(f"--set ... {text}: the state is a ListState: give a list as JSON")
    try:
        elements = parsed if is_list else [parsed]
        texts = [orjson.dumps(_as_written(each, value_type)).decode() for each in elements]
        return codec_for(value_type).decode_many(texts)
    except (
        ChangelogEngineError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        ArithmeticError,
    ):
        raise click.UsageError(
            f"--set ... {text}: {text!r} is not a {value_type.name} as JSON, as docs/table-format.md says"
        ) from None


def _as_written(value: Any, type_info: TypeInformation | None) -> Any:
    """A value of JSON as the log has it: numbers of any size and precision are text there.

    Raises:
        ValueError: a row has a field that its type has not.
    """
    if isinstance(value, list):
        types: Sequence[TypeInformation | None] = [None] * len(value)
        if isinstance(type_info, ElementsTypeInfo):
            types = [type_info.elem_type] * len(value)
        elif isinstance(type_info, TupleTypeInfo) and len(value) == len(type_info.get_field_types()):
            types = type_info.get_field_types()
        return [_as_written(each, one) for each, one in zip(value, types, strict=True)]
    if isinstance(value, dict):
        fields: dict[str, TypeInformation] = {}
        if isinstance(type_info, RowTypeInfo):
            fields = dict(zip(type_info.get_field_names(), type_info.get_field_types(), strict=True))
            if spare := value.keys() - fields.keys():
                raise ValueError(f"the row has no field {sorted(spare)[0]!r}")
        elif isinstance(type_info, MapTypeInfo):
            fields = dict.fromkeys(value, type_info.value_type)
        return {name: _as_written(each, fields.get(name)) for name, each in value.items()}
    if type_info is not None and type_info.kind in ("BIG_INT", "BIG_DEC") and type(value) in (int, Decimal):
        return str(value)
    return float(value) if isinstance(value, Decimal) else value
