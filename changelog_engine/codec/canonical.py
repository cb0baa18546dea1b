"""Canonical JSON of any Python object: the text alone is exact, and equal structure gives equal text.

Invariants:
    * ``from_canonical(canonical_text(v))`` equals v, with the same classes inside.
    * None, bool, int, finite float, str and tuple are JSON's own values; all else is an object with one tag.
    * 1, 1.0, True and "1" have different texts; so have tuples and lists, 0.0 and -0.0. NaN has one.
    * Sets and dicts are sorted by their canonical texts: order of insertion and hash seeds do not show.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from decimal import Decimal
from typing import Any

import orjson

from changelog_engine.codec.forms import MAX_INT_BITS, iso_is_exact
from changelog_engine.codec.objects import global_named, name_of_global, rebuild, reduce_parts
from changelog_engine.errors import NotSerializableError
from changelog_engine.types import Instant, Row, RowKind
from changelog_engine.types.row import field_names_of, make_row, values_of
from changelog_engine.types.typeinfo import shown

_objects_allowed: ContextVar[bool] = ContextVar("objects_allowed", default=True)
# Not float: the two JSON writers spell exponents differently.
_FLAT = frozenset((str, int, bool, type(None)))


def canonical_text(value: Any) -> str:
    """The canonical JSON of a value.

    Args:
        value: any object that pickle could take, without cycles.

    Raises:
        NotSerializableError: the object cannot be taken apart.

    Example:
        >>> canonical_text((1, "a", 1.0, [True]))
        '[1,"a",1.0,{"list":[true]}]'
    """
    kind = type(value)
    if kind is str or (kind is tuple and _FLAT.issuperset(map(type, value))):
        try:
            return orjson.dumps(value).decode()  # the same text, sooner
        except TypeError:
            pass
    try:
        return _dump(_tree(value))
    except RecursionError:
        raise NotSerializableError(f"{shown(value)} refers to itself and cannot be a key") from None


def from_canonical(text: str) -> Any:
    """The value of a canonical text.

    Raises:
        NotSerializableError: a class in it is not known here.
    """
    return from_canonical_tree(json.loads(text))


def _dump(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _tree(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() <= MAX_INT_BITS else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is str:
        return _text_tree(value)
    if kind is tuple:
        return [_tree(item) for item in value]
    writer = _WRITERS.get(kind)
    if writer is not None:
        return {kind.__name__.lower(): writer(value)}
    if kind is datetime.datetime or kind is datetime.time:
        if iso_is_exact(value):
            return {kind.__name__: value.isoformat()}
    elif isinstance(value, type) or callable(value):
        name = name_of_global(value)
        if name is not None:
            return {"global": name}
    parts = reduce_parts(value)
    if isinstance(parts, str):
        return {"global": parts}
    return {"object": [_tree(part) for part in parts]}


def _text_tree(value: str) -> Any:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return {"utf8": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    return value


def _sorted_trees(items: Any) -> list[Any]:
    return sorted((_tree(item) for item in items), key=_dump)


def _pairs(value: dict[Any, Any]) -> list[Any]:
    return sorted(([_tree(key), _tree(item)] for key, item in value.items()), key=_dump)


def _row_parts(row: Row) -> list[Any]:
    names = field_names_of(row)
    return [row._row_kind.value, names, [_tree(value) for value in values_of(row)]]


_WRITERS: dict[type, Callable[[Any], Any]] = {
    list: lambda value: [_tree(item) for item in value],
    dict: _pairs,
    set: _sorted_trees,
    frozenset: _sorted_trees,
    bytes: lambda value: base64.b64encode(value).decode(),
    bytearray: lambda value: base64.b64encode(value).decode(),
    complex: lambda value: [_tree(value.real), _tree(value.imag)],
    Decimal: str,
    datetime.date: datetime.date.isoformat,
    datetime.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Instant: lambda value: [value.seconds, value.nanos],
    Row: _row_parts,
}


def from_canonical_tree(tree: Any) -> Any:
    """The value of a canonical text that ``json.loads`` has parsed."""
    kind = type(tree)
    if kind is list:
        return tuple([from_canonical_tree(item) for item in tree])
    if kind is not dict:
        return tree
    ((tag, content),) = tree.items()
    return _READERS[tag](content)


def _values(trees: list[Any]) -> list[Any]:
    return [from_canonical_tree(tree) for tree in trees]


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda content: int(content, 16),
    "float": float,
    "utf8": lambda content: base64.b64decode(content).decode("utf-8", "surrogatepass"),
    "list": _values,
    "dict": lambda content: {from_canonical_tree(key): from_canonical_tree(item) for key, item in content},
    "set": lambda content: set(_values(content)),
    "frozenset": lambda content: frozenset(_values(content)),
    "bytes": base64.b64decode,
    "bytearray": lambda content: bytearray(base64.b64decode(content)),
    "complex": lambda content: complex(*_values(content)),
    "decimal": Decimal,
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda content: datetime.timedelta(*content),
    "instant": lambda content: Instant(*content),
    "row": lambda content: make_row(content[1], _values(content[2]), RowKind(content[0])),
    "global": lambda content: _trusted(global_named, content),
    "object": lambda content: _trusted(rebuild, *_values(content)),
}


def _trusted(make: Callable[..., Any], *arguments: Any) -> Any:
    """Make an object or look up a global, which runs code that the text names."""
    if not _objects_allowed.get():
        raise NotSerializableError(
            "a key in the changelog is an object, and making it runs what its text names: allow it only for tables "
            "that your own jobs wrote (allow_pickle=True)"
        )
    return make(*arguments)


@contextlib.contextmanager
def refusing_objects() -> Iterator[None]:
    """Within this context, keys that are objects raise NotSerializableError: for other people's tables."""
    token = _objects_allowed.set(False)
    try:
        yield
    finally:
        _objects_allowed.reset(token)
