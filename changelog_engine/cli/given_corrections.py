"""Corrections as options and files give them: keys and values of declared types, and tables of them.

A file is Parquet, CSV with a header, or JSON lines. Its columns are ``key``, ``value``, and perhaps ``map_key``, ``delete``,
``operator``, ``state``, ``who`` and ``why``; what it does not say, options say.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import click
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.codec.arrow_columns import UNIT_OF_INT96
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    key_type_of,
    map_key_type_of,
)
from changelog_engine.graph.nodes import StateId
from changelog_engine.inspection.values import key_identities
from changelog_engine.ledger.described import described_state
from changelog_engine.state.ttl import user_type
from changelog_engine.types import ElementsTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo, TypeInformation
from changelog_engine.types.pickled import PICKLED_BYTE_ARRAY
from changelog_engine.types.typeinfo import Misfit, declared_name

_OF_ENTRY = ("key", "value", "map_key", "delete")
_SAID = ("operator", "state", "who", "why")
_LINES = (".jsonl", ".ndjson", ".json")
_WHOLE = ("BYTE", "SHORT", "INT", "LONG")
_REAL = ("FLOAT", "DOUBLE")
_MOST_DIGITS = {"SQL_TIME": 6, "SQL_TIMESTAMP": 6, "INSTANT": 9}  # behind the seconds

Tables = dict[str, dict[str, Any]]  # uid -> state -> table, as ``repair`` takes them


class GivenCorrections(NamedTuple):
    """What a file says."""

    tables: Tables
    who: str
    why: str


def corrections_in(path: str, checkpoint: Checkpoint, options: dict[str, str | None]) -> GivenCorrections:
    """The corrections in a file.

    Args:
        path: of the file; its ending says which kind it is.
        checkpoint: that says the states' types.
        options: ``operator``, ``state``, ``who`` and ``why``, where they were given: for files without such columns.

    Raises:
        UsageError: it is not of one of the three kinds, has other columns, or something in them is not of its type;
            names the row.
        RestoreError: there is no such operator or state; the error suggests the closest match.
    """
    file = _read(path)
    _check_columns(path, file.names, bool(file.rows), options)
    who, why = (_one(path, name, file.rows, options[name]) for name in ("who", "why"))
    tables: Tables = {}
    for (operator, state), mine in _places(file, options).items():
        described = described_state(checkpoint, operator, state)
        found = file.entries(mine)
        if found is None:
            given = [(f"{path}, row {at} (counted from 0)", file.rows[at]) for at in mine]
            found = _typed(given, file.texts, *described, f"{state} of {operator}")
        tables.setdefault(operator, {})[state] = found
    return GivenCorrections(tables, who, why)


class _File(NamedTuple):
    """What a file has."""

    path: str
    names: list[str]
    rows: list[dict[str, Any]]  # of CSV and JSON lines whole; of Parquet what says whose they are
    table: pa.Table | None = None
    texts: bool = False  # cells are text, as those of CSV

    def entries(self, mine: list[int]) -> Any:
        """The entries in some rows, typed by the file; None where it has no types."""
        if self.table is None:
            return None
        found = self.table.take(mine).select([name for name in self.names if name in _OF_ENTRY])
        if (
            "delete" in self.names
            and found["delete"].null_count
            and pa.types.is_boolean(found["delete"].type)
        ):
            place = found.column_names.index("delete")
            found = found.set_column(place, "delete", pc.fill_null(found["delete"], False))
        return found


def _read(path: str) -> _File:
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".parquet":
            table = pq.read_table(path, coerce_int96_timestamp_unit=UNIT_OF_INT96)
            said = table.select([name for name in table.column_names if name in _SAID])
            return _File(path, table.column_names, said.to_pylist(), table)
        if suffix == ".csv":
            with open(path, newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file, strict=True, restkey="(a column without a name)")
                rows = list(reader)
                return _File(path, _names(rows, reader.fieldnames or ()), rows, texts=True)
        if suffix in _LINES:
            rows = _lines(path)
            return _File(path, _names(rows), rows)
    except (OSError, csv.Error, UnicodeDecodeError, pa.ArrowException) as error:
        raise click.UsageError(f"{path} can't be read: {error}") from None
    raise click.UsageError(f"{path}: corrections are read from .parquet, .csv, {', '.join(_LINES)}")


def _names(rows: list[dict[str, Any]], named: Sequence[str] = ()) -> list[str]:
    """The columns that a header names, and those that only rows have."""
    return [
        *named,
        *[name for name in dict.fromkeys(name for row in rows for name in row) if name not in named],
    ]


def _places(file: _File, options: dict[str, str | None]) -> dict[StateId, list[int]]:
    """The numbers of the rows of each state."""
    places: dict[StateId, list[int]] = {}
    for at, row in enumerate(file.rows):
        whose = [row.get(name) if options[name] is None else options[name] for name in ("operator", "state")]
        for name, text in zip(("operator", "state"), whose, strict=True):
            if not isinstance(text, str) or not text:
                raise click.UsageError(
                    f"{file.path}, row {at} (counted from 0): {name} is {text!r}: name one"
                )
        places.setdefault((str(whose[0]), str(whose[1])), []).append(at)
    return places


def _lines(path: str) -> list[dict[str, Any]]:
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = _json(line)
                except (ValueError, RecursionError) as error:
                    raise click.UsageError(f"{path}, line {number} is not JSON: {error}") from None
                if not isinstance(row, dict):
                    raise click.UsageError(f"{path}, line {number} is not a JSON object, one in a line")
                rows.append(row)
    return rows


class _Twice(ValueError):
    """A name is twice in a JSON object: which of the two is meant is not known."""


def _json(text: str) -> Any:
    orjson.loads(text)  # json would take NaN, too
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(f"{next(name for name in names if names.count(name) > 1)!r} is in it twice")
    return found


def _check_columns(path: str, names: list[str], rows: bool, options: dict[str, str | None]) -> None:
    for name in names:
        if name not in (*_OF_ENTRY, *_SAID) or names.count(name) > 1:
            raise click.UsageError(
                f"{path} has a column {name!r} too many: it may have {', '.join((*_OF_ENTRY, *_SAID))}, each once"
            )
    if not rows or "key" not in names:
        raise click.UsageError(f"{path} has no {'column key' if rows else 'rows'}")
    for name in _SAID:
        if name in names and options[name] is not None:
            raise click.UsageError(f"{path} has a column {name}: leave --{name} out")
        if name not in names and options[name] is None:
            raise click.UsageError(f"{path} has no column {name}: add it, or say --{name}")


def _one(path: str, name: str, rows: list[dict[str, Any]], said: str | None) -> str:
    """Who or why: the log keeps one for all corrections of a fork."""
    found = [said] if said is not None else list(dict.fromkeys(row.get(name) for row in rows))
    if len(found) > 1 or not isinstance(found[0], str):
        told = ", ".join([repr(each) for each in found[:3]])
        raise click.UsageError(
            f"the column {name} of {path} has {told}: a fork has one text for all of its corrections. Make a file, and a "
            "fork, for each"
        )
    return found[0]


def _typed(
    given: list[tuple[str, dict[str, Any]]],
    texts: bool,
    operator: DescribedOperator,
    described: DescribedState,
    what: str,
) -> dict[str, list[Any]]:
    """Rows of text or JSON as a table of Python objects of the declared types."""
    value_type, is_map = user_type(described), described.kind == "map"
    table: dict[str, list[Any]] = {
        "key": [],
        "value": [],
        "delete": [],
        **({"map_key": []} if is_map else {}),
    }
    for where, row in given:
        gone = row.get("delete")
        known = gone is None or isinstance(gone, bool | str)
        if not known or str(gone or "false").lower() not in ("true", "false"):
            raise click.UsageError(f"{where}: delete is {gone!r}, neither true nor false")
        table["delete"].append(str(gone).lower() == "true")
        table["key"].append(key_of(_text(row.get("key")), key_type_of(operator), f"{where}: key"))
        if is_map:
            text = _text(row.get("map_key"))
            table["map_key"].append(key_of(text, map_key_type_of(described), f"{where}: map_key"))
        elif row.get("map_key") not in (None, ""):
            raise click.UsageError(f"{where}: {what} is not a MapState: leave map_key out")
        value = row.get("value")
        if not table["delete"][-1] and (value is None if texts else "value" not in row):
            raise click.UsageError(f"{where} has no value: give one, or say true in a column delete")
        if table["delete"][-1] or (value is None and is_map):
            table["value"].append(None)
        elif texts:
            table["value"] += values_of_text(str(value), value_type, False, f"{where}: value")
        else:
            table["value"] += _values_of(value, value_type, False, f"{where}: value {value!r}")
    return table


def _text(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)


def key_of(text: str, key_type: TypeInformation | None, option: str) -> Any:
    """The key that was given as text.

    Args:
        key_type: declared; None for undeclared.
    """
    found = key_identities(text, key_type)
    if not found:
        raise click.UsageError(
            f"{option} {text}: {text!r} is not a key of the type {declared_name(key_type)}"
        )
    if len(found) > 1:
        codec = key_codec_for(key_type)
        could = ", ".join([repr(codec.key_of(each)) for each in found])
        raise click.UsageError(f"{option} {text}: {text!r} may mean {could}. Use changelog_engine.repair")
    return key_codec_for(key_type).key_of(found[0])


def values_of_text(text: str, value_type: TypeInformation, is_list: bool, where: str) -> list[Any]:
    """The value that was given as text, or the elements of a list.

    Args:
        text: JSON; text may lack its quotes.
        is_list: whether it is the whole of a ListState.
    """
    try:
        parsed = _json(text)
    except _Twice as error:
        raise click.UsageError(f"{where} {text}: {error}") from None
    except (ValueError, RecursionError):
        parsed = text
    if value_type.kind in ("STRING", "CHAR") and not is_list:
        return [parsed if isinstance(parsed, str) else text]
    return _values_of(parsed, value_type, is_list, f"{where} {text}")


def _values_of(parsed: Any, value_type: TypeInformation, is_list: bool, where: str) -> list[Any]:
    if is_list and not isinstance(parsed, list):
        raise click.UsageError(f"{where}: the state is a ListState: give a list as JSON")
    try:
        elements = parsed if is_list else [parsed]
        texts = [orjson.dumps(_as_written(each, value_type)).decode() for each in elements]
        return codec_for(value_type).decode_many(texts)
    except Misfit as misfit:
        raise click.UsageError(f"{where}: {misfit.message('the value')}") from None
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
            f"{where}: the value must be JSON of type {value_type.name}; docs/table-format.md has the form of each type"
        ) from None


def _as_written(value: Any, type_info: TypeInformation | None) -> Any:
    """A value of JSON as the log has it: numbers of any size and precision are text there.

    Raises:
        ValueError: a row has a field that its type has not.
        Misfit: a number or time would become another one.
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
    if type_info is None:
        return _float(PICKLED_BYTE_ARRAY, value) if isinstance(value, Decimal) else value
    kind, digits = type_info.kind, _MOST_DIGITS.get(type_info.kind)
    if digits is not None and isinstance(value, str) and re.search(rf"\.\d{{{digits}}}\d*[1-9]", value):
        raise Misfit(type_info, value, f"more than {digits} digits behind the seconds")
    if kind in _REAL and isinstance(value, str) and re.search("[0-9]", value):
        return _float(type_info, value)
    if kind in ("BIG_INT", "BIG_DEC") and type(value) in (int, Decimal):
        return str(type_info.fit(value))
    if (type(value) is int and kind in (*_WHOLE, *_REAL)) or (isinstance(value, Decimal) and kind in _WHOLE):
        return type_info.fit(value)
    return _float(type_info, value) if isinstance(value, Decimal) else value


def _float(type_info: TypeInformation, value: Decimal | str) -> float:
    """The number of 64 bits that is nearest.

    Raises:
        Misfit: it is too large for them.
    """
    number = float(value)
    if math.isinf(number):
        raise Misfit(type_info, value, "too large for 64 bits")
    return number
