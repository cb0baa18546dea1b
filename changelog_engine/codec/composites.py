"""JSON forms of lists, maps, tuples and rows, made of their parts' forms; and the form of any type."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import orjson

from changelog_engine.codec import forms
from changelog_engine.codec.forms import JsonForm, NotExact
from changelog_engine.errors import EnvironmentNotReadyError
from changelog_engine.types import (
    ElementsTypeInfo,
    IntegerTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    Row,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from changelog_engine.types.row import columns_of_rows, make_row


class ListForm(JsonForm):
    """JSON arrays."""

    python = list

    def __init__(self, element: JsonForm) -> None:
        self.element = element
        self.reads_plain = element.reads_plain
        self.direct = element.direct

    def write(self, values: list[Any]) -> list[Any]:
        flat = list(chain.from_iterable(values))
        written = self.element.to_json(flat)
        return values if written is flat else _regroup(written, values)

    def read(self, values: list[Any]) -> list[Any]:
        flat = list(chain.from_iterable(values))
        found = self.element.from_json(flat)
        return values if found is flat else _regroup(found, values)


def _regroup(flat: Iterable[Any], like: list[Any]) -> list[Any]:
    rest = iter(flat)
    return [list(islice(rest, len(part))) for part in like]


class MapForm(JsonForm):
    """JSON objects for keys that are text or whole numbers, else arrays of [key, value] pairs."""

    python = dict

    def __init__(self, key: JsonForm, value: JsonForm) -> None:
        self.key = key
        self.value = value
        self.numbers = isinstance(key, forms.IntegerForm)
        self.texts = key.as_text
        self.reads_plain = self.texts and key.reads_plain and value.reads_plain

    def write(self, values: list[Any]) -> list[Any]:
        keys = list(chain.from_iterable(values))
        items = list(chain.from_iterable(map(dict.values, values)))
        if None in keys and (self.numbers or self.texts):
            raise NotExact
        written_keys, written = self.key.to_json(keys), self.value.to_json(items)
        if written is items and written_keys is keys and self.texts:
            return values
        if self.numbers:
            written_keys = [str(key) for key in written_keys]
        pairs = zip(written_keys, written, strict=True)
        if self.numbers or self.texts:
            return [dict(islice(pairs, len(value))) for value in values]
        return [list(islice(pairs, len(value))) for value in values]

    def read(self, values: list[Any]) -> list[Any]:
        if self.numbers or self.texts:
            keys = list(chain.from_iterable(values))
            items = list(chain.from_iterable(map(dict.values, values)))
        else:
            keys = [pair[0] for value in values for pair in value]
            items = [pair[1] for value in values for pair in value]
        found_keys = list(map(int, keys)) if self.numbers else self.key.from_json(keys)
        found = self.value.from_json(items)
        if found is items and found_keys is keys and self.texts:
            return values
        pairs = zip(found_keys, found, strict=True)
        return [dict(islice(pairs, len(value))) for value in values]


class TupleForm(JsonForm):
    """JSON arrays with one value a field."""

    python = tuple

    def __init__(self, fields: list[JsonForm]) -> None:
        self.fields = fields
        self._plain_fields = all(field.reads_plain for field in fields)
        self.direct = all(field.direct for field in fields)

    def write(self, values: list[Any]) -> list[Any]:
        columns = _columns(values, len(self.fields))
        written = self.write_columns(columns)
        if all(new is old for new, old in zip(written, columns, strict=True)):
            return values
        return list(zip(*written, strict=True))

    def write_columns(self, columns: list[list[Any]]) -> list[list[Any]]:
        """The fields of many tuples, one list a field, as write has them."""
        return [field.to_json(column) for field, column in zip(self.fields, columns, strict=True)]

    def read(self, values: list[Any]) -> list[Any]:
        if self._plain_fields:
            return list(map(tuple, values))
        columns = _columns(values, len(self.fields))
        found = [field.from_json(column) for field, column in zip(self.fields, columns, strict=True)]
        return list(zip(*found, strict=True))


def _columns(values: list[Any], width: int) -> list[list[Any]]:
    """The fields of many tuples as one list a field."""
    if set(map(len, values)) - {width}:
        raise NotExact
    return [list(map(itemgetter(index), values)) for index in range(width)]


class RowForm(JsonForm):
    """JSON objects; a row that is not an insert is not exact.

    Attributes:
        direct_fields: all fields are direct, or floats.
        floats: some fields are.
    """

    python = Row

    def __init__(self, names: list[str], fields: list[JsonForm]) -> None:
        self.names = names
        self.tuples = TupleForm(fields)
        self.floats = any(isinstance(field, forms.FloatForm) for field in fields)
        self.direct_fields = all(field.direct or isinstance(field, forms.FloatForm) for field in fields)
        # itemgetter of one name gives no tuple
        self._in_order = itemgetter(*names) if len(names) > 1 else None

    def write(self, values: list[Any]) -> list[Any]:
        names = self.names
        fields = self.columns_of(values)
        if not names:
            return [{} for _ in values]
        written = self.tuples.write_columns(fields)
        return [dict(zip(names, fields, strict=False)) for fields in zip(*written, strict=True)]

    def columns_of(self, values: list[Any]) -> list[list[Any]]:
        """The fields of rows, one list a field.

        Raises:
            NotExact: they are not rows of these names that are inserts.
        """
        rows = columns_of_rows(values)
        if rows is None or rows[0] != self.names:
            raise NotExact
        return rows[1]

    def read(self, values: list[Any]) -> list[Any]:
        names = self.names
        if self._in_order is not None:
            fields = [self._in_order(value) for value in values]
        else:
            fields = [tuple([value[name] for name in names]) for value in values]
        return [make_row(names, list(found)) for found in self.tuples.read(fields)]


def form_of(type_info: TypeInformation) -> JsonForm:
    """The JSON form of a declared type."""
    if isinstance(type_info, PickledBytesTypeInfo):
        return forms.AnyForm()
    if isinstance(type_info, IntegerTypeInfo):
        return forms.IntegerForm(type_info.low, type_info.high)
    if isinstance(type_info, TupleTypeInfo):
        return TupleForm([form_of(field) for field in type_info.get_field_types()])
    if isinstance(type_info, RowTypeInfo):
        return RowForm(type_info.get_field_names(), [form_of(field) for field in type_info.get_field_types()])
    if isinstance(type_info, MapTypeInfo):
        return MapForm(form_of(type_info.key_type), form_of(type_info.value_type))
    if type_info.exact is bytes:
        return forms.BYTES_FORM
    if isinstance(type_info, ElementsTypeInfo):
        return ListForm(form_of(type_info.elem_type))
    return _SCALARS[type_info.kind]


def dumps(value: Any) -> str:
    """JSON text of what a form wrote.

    The small bytes that orjson makes sit in blocks of 1 KiB: they must not outlive this call.
    """
    return orjson.dumps(value).decode()


def check_spelling() -> None:
    """Refuse an orjson that spells numbers in another way: a float key would be another key than the one in the log.

    Raises:
        EnvironmentNotReadyError: orjson does, as its versions before 3.13 did.
    """
    if orjson.dumps(_NUMBERS) != _SPELLED:
        raise EnvironmentNotReadyError(
            f"orjson {orjson.__version__} writes {_NUMBERS} as {orjson.dumps(_NUMBERS).decode()}, and the keys in logs are "
            f"written as {_SPELLED.decode()}",
            "Install the version that changelog-engine asks for: pip install 'orjson>=3.13,<4'",
        )


_NUMBERS = [1e20, 1e-7, 5e-324, 1.0, -0.0, 0.1, 2**63]
_SPELLED = b"[1e+20,1e-7,5e-324,1.0,-0.0,0.1,9223372036854775808]"
check_spelling()

_SCALARS: dict[str, JsonForm] = {
    "STRING": forms.StringForm(),
    "CHAR": forms.StringForm(),
    "BOOLEAN": forms.BooleanForm(),
    "FLOAT": forms.FloatForm(),
    "DOUBLE": forms.FloatForm(),
    "BIG_DEC": forms.DECIMAL_FORM,
    "SQL_DATE": forms.DATE_FORM,
    "SQL_TIME": forms.TIME_FORM,
    "SQL_TIMESTAMP": forms.TIMESTAMP_FORM,
    "INSTANT": forms.INSTANT_FORM,
}
