"""Elements of a stream as the parameters of a statement.

Invariant: what comes out fits the declared types, or an error names the row and the field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from changelog_engine.connectors.jdbc.dialects import Check, Converter, Dialect
from changelog_engine.connectors.jdbc.placeholders import translated
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    NotSupportedError,
    TypeMismatchError,
)
from changelog_engine.types import TypeInformation
from changelog_engine.types.arrays import ElementsTypeInfo
from changelog_engine.types.composite import RowTypeInfo
from changelog_engine.types.row import Row, field_names_of, values_of
from changelog_engine.types.typeinfo import cut, shown

_SHOWN_CHARS = 500
# A row of the table for each row that is given, or an error: nothing in it says to leave rows out.
_INSERT_EACH = re.compile(
    r"\s*INSERT\s+INTO\b(?!.*\b(?:CONFLICT|DUPLICATE|SELECT)\b)", re.IGNORECASE | re.DOTALL
)
_UPDATE = re.compile(r"\s*UPDATE\b", re.IGNORECASE)
_LISTS = ("LIST", "BASIC_ARRAY", "OBJECT_ARRAY", "PRIMITIVE_ARRAY")
_NAME = r"""(?:[\w$]+|"[^"]+"|`[^`]+`|\[[^\]]+\])"""
# INSERT INTO a.b VALUES (?, CAST(? AS jsonb)): where texts among the values have no bearing on where they end
_WITHOUT_COLUMNS = re.compile(
    rf"\s*(?:INSERT|REPLACE)\b[\w\s]*?\bINTO\s+(?P<table>{_NAME}(?:\s*\.\s*{_NAME})*)(?P<here>)\s+VALUES?\s*"
    r"\((?P<values>(?:[^()'\"$]|\((?:[^()'\"$]|\([^()'\"$]*\))*\))*)\)",
    re.IGNORECASE,
)
_INSIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


class Statement:
    """A statement, and what its placeholders take.

    Args:
        sql: with a ``?`` for each field.
        columns: into which an INSERT that names none writes its values; () for those that the table has by then.

    Attributes:
        given: the SQL, for messages.
        kinds: of the fields; of lists those of their elements.

    Raises:
        ConfigurationError: the SQL has another number of ``?`` than the type fields, or no row type.
        NotSupportedError: a field whose type the database has no values for.
    """

    def __init__(
        self, sql: str, type_info: TypeInformation, dialect: Dialect, columns: tuple[str, ...] = ()
    ) -> None:
        if not isinstance(type_info, RowTypeInfo):
            raise ArgumentTypeError(
                f"a JDBC sink needs a row type such as Types.ROW([Types.INT()]), got {type_info!r}"
            )
        self.given = sql
        self.inserts_each = _INSERT_EACH.match(sql) is not None
        self.updates = _UPDATE.match(sql) is not None
        self.columns = columns
        if columns:
            sql = _with_columns(sql, [dialect.quoted(column) for column in columns])
            self.given = (
                f"{sql} (the columns that the table had when the program was started: name them in its SQL)"
            )
        self.sql, count = translated(sql, dialect.grammar)
        self.type = type_info
        self.fields = type_info.get_field_types()
        self.kinds = [
            (field.elem_type if isinstance(field, ElementsTypeInfo) else field).kind for field in self.fields
        ]
        self.names = type_info.get_field_names()
        if count != len(self.fields):
            raise ConfigurationError(
                f"the SQL of a JDBC sink has {count} placeholders (?) and its type has {len(self.fields)} fields "
                f"({type_info.name}): {sql}"
            )
        self._converters = [
            _converter(name, field, dialect) for name, field in zip(self.names, self.fields, strict=True)
        ]
        self._converts = any(converter is not None for converter in self._converters)
        self._checks = [_check(field, dialect) for field in self.fields]

    def fitted(self, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The fields of each element, in the declared order, as the declared types want them.

        Raises:
            TypeMismatchError: an element does not fit, or the database would not keep one of its values as it is.
        """
        rows = [self._values_of(value) for value in values]
        if not rows:
            return []
        columns = []
        for position, field in enumerate(self.fields):
            column = [row[position] for row in rows]
            if not field.fits_all(column):
                column = [self._checked(rows[index], position, v) for index, v in enumerate(column)]
            check = self._checks[position]
            if check is not None:
                self._refuse_lost(rows, position, column, check)
            columns.append(column)
        return list(zip(*columns, strict=True)) if columns else [()] * len(rows)

    def parameters(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """What the driver is given for fitted rows."""
        if not self._converts or not rows:
            return rows
        columns = [
            column if converter is None else [None if value is None else converter(value) for value in column]
            for converter, column in zip(self._converters, zip(*rows, strict=True), strict=True)
        ]
        return list(zip(*columns, strict=True))

    def shown(self, row: Sequence[Any]) -> str:
        """The statement and a row, for messages."""
        pairs = zip(self.names, row, strict=True)
        fields = ", ".join(f"{name}={shown(value, _SHOWN_CHARS)}" for name, value in pairs)
        return f"SQL: {self.given}; row: {cut(fields, _SHOWN_CHARS)}"

    def _values_of(self, value: Any) -> Sequence[Any]:
        if type(value) is Row:
            names = field_names_of(value)
            if (names is None or names == self.names) and len(value) == len(self.fields):
                return values_of(value)
        elif type(value) is tuple and len(value) == len(self.fields):
            return value
        if value is None:
            raise TypeMismatchError(f"a JDBC sink cannot write None as a row; SQL: {self.given}")
        row: Row = self.type.check(value, f"a row for {self.given}")
        return values_of(row)

    def _refuse_lost(self, rows: list[Sequence[Any]], position: int, column: list[Any], check: Check) -> None:
        """Before anything is staged: a checkpoint whose rows are refused could never be committed."""
        for row, value in zip(rows, column, strict=True):
            if value is not None and (why := check(value)):
                raise TypeMismatchError(
                    f"JDBC sink: field {self.names[position]!r} is {shown(value)}: {why}. {self.shown(row)}"
                )

    def _checked(self, row: Sequence[Any], position: int, value: Any) -> Any:
        try:
            return self.fields[position].check(value, f"field {self.names[position]!r}")
        except TypeMismatchError as misfit:
            raise TypeMismatchError(f"JDBC sink: {misfit}. {self.shown(row)}") from None


def table_without_columns(sql: str) -> tuple[str, int] | None:
    """The table of an INSERT that names no columns, and how many values it gives; None for other statements.

    Example:
        >>> table_without_columns("INSERT INTO shop.t VALUES (?, COALESCE(?, 1))")
        ('shop.t', 2)
    """
    found = _WITHOUT_COLUMNS.match(sql)
    if found is None:
        return None
    values, inside = found["values"], 1
    while inside:
        values, inside = _INSIDE.subn("", values)
    return found["table"], values.count(",") + 1


def _with_columns(sql: str, columns: Sequence[str]) -> str:
    found = _WITHOUT_COLUMNS.match(sql)
    assert found is not None
    return f"{sql[: found.end('here')]} ({', '.join(columns)}){sql[found.end('here') :]}"


def _check(field: TypeInformation, dialect: Dialect) -> Check | None:
    if not isinstance(field, ElementsTypeInfo):
        return dialect.checks.get(field.kind)
    inside = _check(field.elem_type, dialect)
    if inside is None:
        return None
    return lambda values: next((why for each in values if each is not None and (why := inside(each))), "")


def _converter(name: str, field: TypeInformation, dialect: Dialect) -> Converter | None:
    kind = field.kind
    element = field.elem_type if isinstance(field, ElementsTypeInfo) else None
    of_bytes = kind == "PRIMITIVE_ARRAY" and element is not None and element.kind == "BYTE"
    if of_bytes:
        return None
    nested = element is not None and (
        element.kind in dialect.refused or element.kind in dialect.converters or element.kind in _LISTS
    )
    if kind in dialect.refused or nested or (kind == "PRIMITIVE_ARRAY" and "LIST" in dialect.refused):
        raise NotSupportedError(
            f"a JDBC sink cannot write field {name!r}: jdbc:{dialect.name}: has no values for {field.name}; "
            "map it to text or to several fields first"
        )
    return dialect.converters.get(kind)
