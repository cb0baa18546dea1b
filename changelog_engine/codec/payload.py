"""Payload bytes for what JSON cannot carry exactly, and the readable text that stands beside them."""

from __future__ import annotations

import base64
import datetime
import io
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import orjson

from changelog_engine.api_names import SHORT, long_name
from changelog_engine.codec import by_value
from changelog_engine.codec.forms import MAX_INT_BITS, is_plain
from changelog_engine.errors import NotSerializableError
from changelog_engine.types import Instant, Row
from changelog_engine.types.java_text import double_text
from changelog_engine.types.row import field_names_of, values_of
from changelog_engine.types.typeinfo import shown

_PROTOCOL = 5
_SHORT = f"{SHORT}.".encode()
_MAX_ITEMS = 1000  # of one container in the readable text; the payload has them all
_MAX_DEPTH = 20


def dump_payload(value: Any) -> bytes:
    """The value pickled.

    Classes of the user's main module are pickled by value: a worker's main module is another one.

    Raises:
        NotSerializableError: the value cannot be pickled.
    """
    try:
        data = pickle.dumps(value, _PROTOCOL)
        if b"__main__" not in data:
            return data
    except Exception:  # by value may still work
        pass
    try:
        # The one that ships user functions too: it knows which class of a worker is which class of the driver.
        return by_value.dumps(value, _PROTOCOL)
    except Exception as error:
        raise NotSerializableError(
            f"{shown(value)} of type {type(value).__name__} cannot be written to the changelog: {error}; "
            "keep only plain data in state"
        ) from error


def load_payload(data: bytes) -> Any:
    """The value that dump_payload wrote.

    Raises:
        NotSerializableError: it cannot be read back, mostly because a class has moved.
    """
    try:
        return _loaded(data)
    except Exception as error:
        raise NotSerializableError(
            f"a value of {len(data)} bytes in the changelog cannot be read back: {error}; "
            "make the classes of state values importable under their old names"
        ) from error


def _loaded(data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except (ImportError, AttributeError):
        if _SHORT not in data:
            raise
    return _OfOlderTables(io.BytesIO(data)).load()


class _OfOlderTables(pickle.Unpickler):
    """Finds the API's classes where ``api``, as which earlier versions named it, is somebody else's package."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return super().find_class(module_name, global_name)
        except (ImportError, AttributeError):
            return super().find_class(long_name(module_name), global_name)


def readable_text(value: Any) -> str:
    """JSON that shows a value to people; only the payload is exact."""
    if is_plain(value, 0, tuples=True):
        try:
            return orjson.dumps(value).decode()
        except TypeError:
            pass  # large ints, surrogates
    tree = _readable(value, 0)
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(tree, separators=(",", ":"))
    return text


def _readable(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MAX_INT_BITS else f"int of {value.bit_length()} bits"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else double_text(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (Decimal, Instant)):
        return str(value)
    if depth >= _MAX_DEPTH:
        return "..."
    if isinstance(value, Row):
        names = field_names_of(value)
        if names is None:
            return _readable_items(values_of(value), depth)
        return _readable_pairs(zip(names, values_of(value), strict=False), depth)
    if isinstance(value, dict):
        return _readable_pairs(value.items(), depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        return _readable_items(value, depth)
    kind = type(value)
    return {"type": f"{kind.__module__}.{kind.__qualname__}", "repr": shown(value)}


def _readable_items(items: Any, depth: int) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if len(found) == _MAX_ITEMS:
            found.append("...")
            break
        found.append(_readable(item, depth + 1))
    return found


def _readable_pairs(pairs: Any, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in pairs:
        if len(found) == _MAX_ITEMS:
            found["..."] = "..."
            break
        name = text = str.__str__(key) if isinstance(key, str) else shown(key)
        number = 1
        while name in found:  # 1 and "1" look alike, and no entry is left out
            number += 1
            name = f"{text} ({number})"
        found[name] = _readable(item, depth + 1)
    return found
