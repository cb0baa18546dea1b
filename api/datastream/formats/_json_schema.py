"""JSON Schema to types, as Flink's JSON format does it."""

from __future__ import annotations

import json
from typing import Any

from changelog_engine.errors import ConfigurationError, NotSupportedError
from changelog_engine.types import TypeInformation, Types

_WHAT = "JsonRowDeserializationSchema.Builder.json_schema"
_FORMATS = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}


def type_of(json_schema: str) -> TypeInformation:
    """The type of what a JSON Schema describes.

    Args:
        json_schema: its text; the root is an object. References lead into the same document.

    Raises:
        ConfigurationError: no JSON, or a part that makes no sense.
        NotSupportedError: a part that no type stands for.
    """
    try:
        document = json.loads(json_schema)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{_WHAT}: no JSON: {error}") from None
    return _Converter(document).convert(document, "#")


class _Converter:
    def __init__(self, document: Any) -> None:
        self._document = document

    def convert(self, schema: Any, where: str, through: frozenset[str] = frozenset()) -> TypeInformation:
        if not isinstance(schema, dict):
            raise ConfigurationError(f"{_WHAT}: {where} must be an object, got {schema!r}")
        if "$ref" in schema:
            target = schema["$ref"]
            if target in through:
                raise NotSupportedError(f"{_WHAT}: {where} refers to itself; types cannot be recursive")
            return self.convert(self._find(target, where), target, through | {target})
        if "oneOf" in schema:
            return self.convert(self._not_null(schema["oneOf"], where), where, through)
        kind = self._kind(schema, where)
        if kind == "object":
            properties = schema.get("properties", {})
            types = [self.convert(inner, f"{where}/{name}", through) for name, inner in properties.items()]
            return Types.ROW_NAMED(list(properties), types)
        if kind == "array":
            return self._array(schema, where, through)
        if kind == "string":
            return self._text(schema)
        if kind == "boolean":
            return Types.BOOLEAN()
        if kind in ("number", "integer"):
            return Types.BIG_DEC()
        raise NotSupportedError(f"{_WHAT}: {where} has type {kind!r}, which no type here stands for")

    def _not_null(self, choices: Any, where: str) -> Any:
        """Of one type and perhaps null, that type."""
        others = [each for each in choices if each != {"type": "null"}] if isinstance(choices, list) else []
        if len(others) != 1:
            raise NotSupportedError(f"{_WHAT}: {where} may be of several types: {choices}")
        return others[0]

    def _kind(self, schema: dict[str, Any], where: str) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):  # one type, and perhaps null
            kinds = [each for each in kind if each != "null"]
            if len(kinds) != 1:
                raise NotSupportedError(f"{_WHAT}: {where} may be of several types: {kind}")
            return str(kinds[0])
        if not isinstance(kind, str):
            raise ConfigurationError(f"{_WHAT}: {where} has no type")
        return kind

    def _array(self, schema: dict[str, Any], where: str, through: frozenset[str]) -> TypeInformation:
        items = schema.get("items")
        if isinstance(items, list):
            types = [self.convert(item, f"{where}[{index}]", through) for index, item in enumerate(items)]
            return Types.ROW(types)
        if items is None:
            raise ConfigurationError(f"{_WHAT}: array {where} has no items")
        return Types.OBJECT_ARRAY(self.convert(items, f"{where}[]", through))

    def _text(self, schema: dict[str, Any]) -> TypeInformation:
        if schema.get("contentEncoding") == "base64":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        return _FORMATS.get(schema.get("format", ""), Types.STRING)()

    def _find(self, target: Any, where: str) -> Any:
        found = self._document
        parts = str(target).split("/")
        if parts[0] != "#":
            raise NotSupportedError(f"{_WHAT}: {where} refers to another document, {target!r}")
        for part in parts[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or part not in found:
                raise ConfigurationError(f"{_WHAT}: {where} refers to {target!r}, which is not there")
            found = found[part]
        return found
