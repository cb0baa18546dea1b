"""Keys and values out of the log's texts: typed, without loading pickles; and as what JSON has."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from changelog_engine.codec.canonical import refusing_objects
from changelog_engine.codec.forms import NotExact
from changelog_engine.codec.keys import KeyIdentity, key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.display import Literal, When
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.types import TypeInformation
from changelog_engine.types.foreign import fields_of
from changelog_engine.types.instant import Instant
from changelog_engine.types.java_text import double_text
from changelog_engine.types.row import Row, field_names_of


@dataclass(frozen=True)
class Withheld:
    """A value or key that only loading a pickle would give.

    Args:
        size: bytes of the pickle; 0 for a key, whose text names what would run.
    """

    text: str | None
    size: int

    def __repr__(self) -> str:
        shown = "" if self.text is None else f" {self.text}"
        return f"<pickled{shown}>"


_NO_KEY = (
    ChangelogEngineError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, NotExact,
)  # fmt: skip
"""What codecs raise of a text that is no key of their type: its JSON may be anything."""


_WHOLE = re.compile(r"-?[0-9]+")
# How values of these classes are shown is not Python.
_SHOWN = re.compile(r"^(?:<(Row)\((.+)\)>|(Instant)<(.+)>)$", re.DOTALL)
_CLASSES: dict[str, Callable[..., Any]] = {
    "Row": Row,
    "Instant": Instant,
    "Decimal": Decimal,
    **{f"datetime.{made.__name__}": made for made in (date, datetime, time)},
}


def key_identities(text: str, key_type: TypeInformation | None) -> list[KeyIdentity]:
    """The keys that somebody may mean by a string, for keys of a type: the plain string, Python as keys are shown, JSON.

    Args:
        text: such as ``7``, ``to``, ``'to'``, ``(1, 'a')``, ``[1, "a"]``, ``2026-01-31`` or ``Decimal('1.0')``.
        key_type: the declared type; None for undeclared.

    Returns:
        Identities, each once; none when no key of the type can be meant.
    """
    codec = key_codec_for(key_type)
    meant: list[Any] = [text]
    written = _SHOWN.sub(lambda found: "{}({})".format(*filter(None, found.groups())), text.strip())
    with suppress(*_NO_KEY, SyntaxError, MemoryError):
        meant.append(_made(ast.parse(written, mode="eval").body))
    if _WHOLE.fullmatch(text.strip()):
        meant.append(int(Decimal(text)))  # int alone refuses a long text
    found: dict[KeyIdentity, None] = {}
    with refusing_objects():
        for key in meant:
            with suppress(*_NO_KEY):
                found[codec.identity(key)] = None
        for written in (text.strip(), json.dumps(text.strip())):
            with suppress(*_NO_KEY):
                json.loads(written)
                found[codec.identity(codec.key_of(codec.from_texts([written])[0]))] = None
    return list(found)


def _made(node: ast.expr) -> Any:
    """What an expression stands for: a literal, or one of the classes of keys with literals."""
    if isinstance(node, ast.Call):
        named = {each.arg: _made(each.value) for each in node.keywords if each.arg is not None}
        return _CLASSES[ast.unparse(node.func)](*[_made(each) for each in node.args], **named)
    if isinstance(node, ast.Tuple | ast.List):
        elements = [_made(each) for each in node.elts]
        return tuple(elements) if isinstance(node, ast.Tuple) else elements
    return ast.literal_eval(node)


def keys_of(texts: Sequence[str | None], key_type: TypeInformation | None, allow_pickle: bool) -> list[Any]:
    """Keys out of their texts; what would have to be made by running something is withheld."""
    codec = key_codec_for(key_type)

    def key_of(text: str | None) -> Any:
        try:
            return None if text is None else codec.key_of(codec.from_texts([text])[0])
        except ChangelogEngineError:
            if allow_pickle:
                raise
            return Withheld(text, 0)

    with nullcontext() if allow_pickle else refusing_objects():
        return [key_of(text) for text in texts]


def values_of(
    texts: Sequence[str | None],
    payloads: Sequence[bytes | None],
    value_type: TypeInformation,
    allow_pickle: bool,
) -> list[Any]:
    """Values out of the log's columns; where there are payloads and these are not allowed, they are withheld."""
    plain = [i for i, payload in enumerate(payloads) if payload is None or allow_pickle]
    found: list[Any] = [
        Withheld(text, 0 if payload is None else len(payload))
        for text, payload in zip(texts, payloads, strict=True)
    ]
    decoded = codec_for(value_type).decode_many(
        pa.array([texts[i] for i in plain], pa.string()), pa.array([payloads[i] for i in plain], pa.binary())
    )
    for i, value in zip(plain, decoded, strict=True):
        found[i] = value
    return found


@dataclass(frozen=True)
class EntryName:
    """Which entry of state something is about.

    Args:
        operator: uid.
        kind: ``value``, ``list``, ``map``, ``reducing``, ``aggregating``; ``timer`` of timers.
        key: typed.
        namespace: the window as text; None where the state has none.
        map_key: typed, of a map's entry; None for other states, and for a whole map.
    """

    operator: str
    state: str
    kind: str
    key: Any
    namespace: str | None
    map_key: Any


def below_keys(found: Sequence[EntryName]) -> tuple[list[str], list[list[Any]]]:
    """Columns and each row's cells for what lies below a key: namespaces and map keys, where any of them has one."""
    spaced = any(each.namespace is not None for each in found)
    mapped = any(each.map_key is not None for each in found)
    columns = [*(["namespace"] if spaced else []), *(["map key"] if mapped else [])]
    rows = []
    for each in found:
        cells: list[Any] = [each.namespace] if spaced else []
        cells += [None if each.map_key is None else Literal(each.map_key)] if mapped else []
        rows.append(cells)
    return columns, rows


def value_cell(kind: str, value: Any) -> Any:
    """A value of a kind of state in a table: of a timer its time; None for nothing."""
    if value is None:
        return None
    return When(value) if kind == "timer" else Literal(value)


def as_json(value: Any) -> Any:
    """A key or value as JSON has it; what JSON has not is its readable text.

    Example:
        >>> as_json({"mean": float("nan"), "cells": (1, -float("inf"))})
        {'mean': 'NaN', 'cells': [1, '-Infinity']}
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else double_text(value)
    if isinstance(value, Row):
        names = field_names_of(value)
        cells = [as_json(each) for each in value]
        return dict(zip(names, cells, strict=True)) if names else cells
    if isinstance(value, Withheld):
        return {"pickled": value.text, "bytes": value.size}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: as_json(each) for key, each in value.items()}
        return [[as_json(key), as_json(each)] for key, each in value.items()]
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if (found := fields_of(value)) is not None:
        return {name: as_json(each) for name, each in found.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [as_json(each) for each in value]
    return repr(value)
