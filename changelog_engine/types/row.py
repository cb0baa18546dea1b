"""Row: an ordered set of fields with optional names, and a kind that says what it does to a changelog stream.

Invariants:
    * Names, when there are any, are unique and as many as the values.
    * Two rows are equal when names, values and kind are; a row with names never equals one without.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from changelog_engine.errors import UnknownFieldError
from changelog_engine.types.java_members import JavaMembers


class RowKind(JavaMembers, enum.Enum):
    """What a row does to a changelog stream. Documented source: ``pyflink.common.RowKind``.

    Example:
        >>> str(RowKind.INSERT)
        '+I'
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class Row:
    """Values with optional names, reached by index, by name or as attributes.

    Documented source: ``pyflink.common.Row``. Named arguments make a named row; positional ones a row without
    names, which is at the same time a factory of named rows when its values are names.

    Args:
        *args: the values of a row without names.
        **kwargs: the fields of a named row, in order.

    Raises:
        ValueError: both kinds of arguments were given.

    Example:
        >>> row = Row(id=1, name="one")
        >>> row, row.id, row["name"], row[0]
        (Row(id=1, name='one'), 1, 'one', 1)
        >>> Person = Row("name", "age")
        >>> Person("Alice", 11)
        Row(name='Alice', age=11)
        >>> Row("r", 1)
        <Row('r', 1)>
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    # A row without names has no _fields at all: programs ask with hasattr, as they do in PyFlink.
    _fields: list[str]
    _values: list[Any]
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ValueError("Row takes positional values or named fields, not both")
            self._fields = list(kwargs)
            self._values = list(kwargs.values())
        else:
            self._values = list(args)
        self._row_kind = RowKind.INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """A row of the given kind.

        Args:
            row_kind: its kind.
            *args: values of a row without names.
            **kwargs: fields of a named row.

        Returns:
            The new row.

        Example:
            >>> Row.of_kind(RowKind.DELETE, id=1).get_row_kind()
            <RowKind.DELETE: 3>
        """
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """The fields as a dict.

        Args:
            recursive: turn rows inside, also those in lists and dicts, into dicts too.

        Returns:
            A new dict from name to value, in field order.

        Raises:
            TypeError: the row has no names.

        Example:
            >>> Row(key=1, value=Row(a=2)).as_dict(True)
            {'key': 1, 'value': {'a': 2}}
        """
        names = field_names_of(self)
        if names is None:
            raise TypeError("a Row without field names cannot become a dict; call set_field_names first")
        values = [_plain(value) for value in self._values] if recursive else self._values
        return dict(zip(names, values, strict=False))

    def get_row_kind(self) -> RowKind:
        """The kind of the row (INSERT unless set)."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of the row.

        Args:
            row_kind: the new kind.
        """
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields.

        Args:
            field_names: one name for each value, in order.
        """
        self._fields = list(field_names)

    def get_fields_by_names(self, names: Sequence[str] | None) -> list[Any]:
        """The values of the named fields, in the order of the names.

        Args:
            names: the names wanted; none (or a row without names) gives all values in their own order.

        Returns:
            The values.

        Raises:
            ValueError: a name the row does not have.

        Example:
            >>> Row(a=1, b=2).get_fields_by_names(["b", "a"])
            [2, 1]
        """
        own = field_names_of(self)
        if own is None or not names:
            return self._values
        unknown = [name for name in names if name not in own]
        if unknown:
            raise UnknownFieldError(
                f"there is no field {unknown[0]!r}: the row has the fields {', '.join(own)}"
            )
        return [self._values[own.index(name)] for name in names]

    def __call__(self, *args: Any) -> Row:
        """A named row whose names are this row's values."""
        if len(args) > len(self._values):
            raise ValueError(f"{self!r} makes rows of {len(self._values)} fields, got {len(args)} values")
        return make_row(tuple(self._values), list(args), self._row_kind)

    def __contains__(self, item: Any) -> bool:
        """Whether it is the name of a field; of a row without names, whether it is a value."""
        names = field_names_of(self)
        return item in (self._values if names is None else names)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, slice)):
            return self._values[item]
        return self._values[self._position(item)]

    def __setitem__(self, item: Any, value: Any) -> None:
        if isinstance(item, (int, slice)):
            self._values[item] = value
        else:
            self._values[self._position(item)] = value

    def __getattr__(self, name: str) -> Any:
        try:
            if name[0] != "_":
                return self._values[self._fields.index(name)]
        except (AttributeError, ValueError, IndexError):  # no names, or not this one, or too few values
            pass
        if name.startswith("_"):  # pickle and copy probe half-made rows
            raise AttributeError(name)
        return self._values[self._position(name)]

    def _position(self, name: Any) -> int:
        names = field_names_of(self)
        if names is None or name not in names:
            has = "no field names" if names is None else f"the fields {', '.join(names)}"
            raise UnknownFieldError(f"there is no field {name!r}: the row has {has}")
        return names.index(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return make_row, (field_names_of(self), self._values, self._row_kind)

    def __repr__(self) -> str:
        names = field_names_of(self)
        if names is None:
            return f"<Row({', '.join([repr(value) for value in self._values])})>"
        return (
            f"Row({', '.join(f'{name}={value!r}' for name, value in zip(names, self._values, strict=False))})"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Row)
            and field_names_of(self) == field_names_of(other)
            and self._row_kind is other._row_kind
            and self._values == other._values
        )

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def field_names_of(row: Row) -> list[str] | None:
    """The row's field names, or None."""
    try:
        return row._fields
    except AttributeError:
        return None


def make_row(names: Sequence[str] | None, values: list[Any], kind: RowKind = RowKind.INSERT) -> Row:
    """A row from its parts; ``values`` becomes the row's own list, a list of names is shared between rows."""
    row = Row.__new__(Row)
    if names is not None:
        row._fields = names if type(names) is list else list(names)
    row._values = values
    row._row_kind = kind
    return row


def columns_of_rows(rows: list[Any]) -> tuple[list[str], list[list[Any]]] | None:
    """Rows as columns, one list a field: how many rows move and are kept at the price of a few lists.

    Args:
        rows: any objects.

    Returns:
        The field names and the columns; None unless all are rows of kind INSERT with the same names.

    Example:
        >>> columns_of_rows([Row(a=1, b="x"), Row(a=2, b="y")])
        (['a', 'b'], [[1, 2], ['x', 'y']])
    """
    if not rows or type(rows[0]) is not Row or set(map(type, rows)) != {Row}:
        return None
    names, insert = field_names_of(rows[0]), RowKind.INSERT
    if names is None:
        return None
    try:
        for row in rows:
            if row._row_kind is not insert or row._fields != names:
                return None
    except AttributeError:  # without names
        return None
    values = [row._values for row in rows]
    if set(map(len, values)) != {len(names)}:
        return None
    return names, [list(map(itemgetter(index), values)) for index in range(len(names))]


def rows_of_columns(names: list[str], columns: Sequence[Sequence[Any]]) -> list[Row]:
    """New rows of kind INSERT; what ``columns_of_rows`` took apart.

    Args:
        names: of the fields, at least one.
        columns: their values, one sequence a field, all of the same length.
    """
    make, insert = Row.__new__, RowKind.INSERT
    rows = []
    for values in zip(*columns, strict=True):
        row = make(Row)
        row._fields = names
        row._values = [*values]
        row._row_kind = insert
        rows.append(row)
    return rows


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
