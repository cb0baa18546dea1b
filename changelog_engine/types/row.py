"""Row: an ordered set of fields with optional names, and a kind that says what it does to a changelog stream.

Invariants:
    * Names, when there are any, are unique and as many as the values.
    * Two rows are equal when kind and values are, by name in whichever order; a row with names never equals one without.
    * A row has one of two forms. A spread one, of kind INSERT, has its fields in its ``__dict__``, in order, where Python
      itself finds them, for a tenth of what ``__getattr__`` costs. A compact one has lists, in half the memory: state keeps
      those. Which form it is cannot be seen, by ``vars`` neither; who asks for a row's own lists makes it compact.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from changelog_engine.errors import UnknownFieldError
from changelog_engine.types.java_members import JavaMembers
from changelog_engine.types.row_loops import LOOPS, classes_of

_PROBED = ("__copy__", "__deepcopy__", "__getnewargs__", "__getnewargs_ex__", "__getstate__", "__setstate__")
_ATOMS = frozenset((type(None), bool, int, float, str, bytes))


class RowKind(JavaMembers, enum.Enum):
    """What a row does to a changelog stream.

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


class _Parts:
    """Of a compact row: values, names (None without) and kind. A spread one has None for the values, and no others."""

    __slots__ = ("__dict__", "_kind", "_list", "_names")

    _list: list[Any] | None
    _names: list[str] | None
    _kind: RowKind
    _own: dict[str, Any]  # a spread row's fields; a Row's __dict__ is for others


_Parts._own = _Parts.__dict__["__dict__"]


class Row(_Parts):
    """Values with optional names, reached by index, by name or as attributes.

    Named arguments make a named row; positional ones a row without names, which is at the same time a factory of named rows
    when its values are names.

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

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ValueError("Row takes positional values or named fields, not both")
            if type(self) is Row and _TAKEN.isdisjoint(kwargs):
                _set_dict(self, kwargs)
                _set_list(self, None)
            else:
                _make_compact(self, list(kwargs), list(kwargs.values()), RowKind.INSERT)
        else:
            _make_compact(self, None, list(args), RowKind.INSERT)

    # PyFlink's own names of the parts, which programs reach for. They can be changed in place, so the row is compact.
    @property
    def _values(self) -> list[Any]:
        return _compacted(self)

    @_values.setter
    def _values(self, values: list[Any]) -> None:
        _compacted(self)
        _set_list(self, values)

    @property
    def _fields(self) -> list[str]:
        _compacted(self)
        if self._names is None:  # programs ask with hasattr, as they do in PyFlink
            raise AttributeError("_fields")
        names = [*self._names]  # rows of one type share the list
        _set_names(self, names)
        return names

    @_fields.setter
    def _fields(self, names: list[str]) -> None:
        _compacted(self)
        _set_names(self, names)

    @property
    def _row_kind(self) -> RowKind:
        return RowKind.INSERT if self._list is None else self._kind

    @_row_kind.setter
    def _row_kind(self, kind: RowKind) -> None:
        if kind is not self._row_kind:
            _compacted(self)
            _set_kind(self, kind)

    @property
    def __dict__(self) -> dict[str, Any]:
        """For ``vars``, and for libraries that look for fields: those of either form."""
        if type(self) is not Row:
            return self._own
        names = field_names_of(self)
        if names is None:
            raise AttributeError("__dict__")
        return dict(zip(names, values_of(self), strict=False))

    @__dict__.setter
    def __dict__(self, attributes: dict[str, Any]) -> None:
        _set_dict(self, attributes)  # of a class derived from Row: see __setattr__

    def __setattr__(self, name: str, value: Any) -> None:
        if type(self) is Row and name not in _PARTS:
            raise AttributeError(f"a field of a Row is set as row[{name!r}] = value, not as an attribute")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if type(self) is Row:
            raise AttributeError(f"{name!r}: a Row keeps its fields")
        object.__delattr__(self, name)

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """A row of the given kind.

        Args:
            *args: values of a row without names.
            **kwargs: fields of a named row.

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

        Raises:
            TypeError: the row has no names.

        Example:
            >>> Row(key=1, value=Row(a=2)).as_dict(True)
            {'key': 1, 'value': {'a': 2}}
        """
        names = field_names_of(self)
        if names is None:
            raise TypeError("a Row without field names cannot become a dict; call set_field_names first")
        values = [_plain(value) for value in values_of(self)] if recursive else values_of(self)
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
            raise unknown_field(unknown[0], own)
        values = values_of(self)
        return [values[own.index(name)] for name in names]

    def __call__(self, *args: Any) -> Row:
        """A named row whose names are this row's values."""
        names = values_of(self)
        if len(args) > len(names):
            raise ValueError(f"{self!r} makes rows of {len(names)} fields, got {len(args)} values")
        return make_row(tuple(names), list(args), self._row_kind)

    def __contains__(self, item: Any) -> bool:
        """Whether it is the name of a field; of a row without names, whether it is a value."""
        names = field_names_of(self)
        return item in (values_of(self) if names is None else names)

    def __getitem__(self, item: Any) -> Any:
        values = self._list
        if isinstance(item, (int, slice)):
            return ([*self._own.values()] if values is None else values)[item]
        if values is None and item in self._own:
            return self._own[item]
        return values_of(self)[self._position(item)]

    def __setitem__(self, item: Any, value: Any) -> None:
        if isinstance(item, slice):
            _compacted(self)[item] = value
            return
        at = item if isinstance(item, int) else self._position(item)
        if self._list is None:
            self._own[[*self._own][at]] = value
        else:
            self._list[at] = value

    def __getattr__(self, name: str) -> Any:
        try:
            if name not in _TAKEN:
                return self._list[self._names.index(name)]  # type: ignore[index, union-attr]
        except (AttributeError, TypeError, ValueError, IndexError):
            # No names, or not this one, or too few values.
            pass
        if name.startswith("_"):  # pickle and copy probe half-made rows
            raise AttributeError(name)
        return values_of(self)[self._position(name)]

    def _position(self, name: Any) -> int:
        names = field_names_of(self)
        if names is None or name not in names:
            raise unknown_field(name, names)
        return names.index(name)

    def __copy__(self) -> Row:
        names = field_names_of(self)
        return make_row(None if names is None else [*names], [*values_of(self)], self._row_kind)

    def __reduce__(self) -> tuple[Any, ...]:
        values = values_of(self)
        if not _ATOMS.issuperset(map(type, values)):
            values = _compacted(self)  # the same list each time: pickle knows by it a row that holds itself
        return make_row, (field_names_of(self), values, self._row_kind)

    def __repr__(self) -> str:
        names, values = field_names_of(self), values_of(self)
        if names is None:
            return f"<Row({', '.join([repr(value) for value in values])})>"
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(names, values, strict=False))})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._row_kind is not other._row_kind:
            return False
        names, others = field_names_of(self), field_names_of(other)
        if names == others:
            return values_of(self) == values_of(other)
        return names is not None and others is not None and _by_name(self) == _by_name(other)

    def __hash__(self) -> int:
        return hash(tuple(values_of(self) if field_names_of(self) is None else _by_name(self).values()))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._own.values() if self._list is None else self._list)

    def __len__(self) -> int:
        return len(self._own if self._list is None else self._list)


_set_dict = _Parts.__dict__["__dict__"].__set__  # past __setattr__, at the price of a call of C
_set_list: Callable[[Row, list[Any] | None], None] = Row._list.__set__  # type: ignore[union-attr]
_set_names: Callable[[Row, list[str] | None], None] = Row._names.__set__  # type: ignore[union-attr]
_set_kind: Callable[[Row, RowKind], None] = Row._kind.__set__  # type: ignore[attr-defined]
_INSERT = RowKind.INSERT
# A field of such a name must not stand in front of what is called so.
_TAKEN = frozenset((*dir(Row), *_PROBED))
_PARTS = frozenset(("_fields", "_row_kind", "_values"))
if LOOPS is not None:
    LOOPS.bind(Row, _INSERT, _TAKEN | {"self"})  # __init__ takes no field of that name
    LOOPS.bind_calls()


def _make_compact(row: Row, names: list[str] | None, values: list[Any], kind: RowKind) -> None:
    _set_names(row, names)
    _set_kind(row, kind)
    _set_list(row, values)


def _compacted(row: Row) -> list[Any]:
    """The row's own list of values."""
    if row._list is None:
        fields = row._own
        values = [*fields.values()]
        _make_compact(row, [*fields], values, RowKind.INSERT)
        _set_dict(row, {})  # last: another thread that reads the row finds its fields at any time
        return values
    return row._list


def field_names_of(row: Row) -> list[str] | None:
    """The row's field names, or None; not to be changed."""
    return [*row._own] if row._list is None else row._names


def _by_name(row: Row) -> dict[str, Any]:
    """A named row's values, in the order of the names."""
    return dict(sorted(zip(field_names_of(row) or (), values_of(row), strict=False), key=itemgetter(0)))


def unknown_field(name: Any, names: Sequence[str] | None) -> UnknownFieldError:
    """The error of a field that a row with these names, None for a row without any, has not."""
    has = "no field names" if names is None else f"the fields {', '.join(names)}"
    return UnknownFieldError(f"there is no field {name!r}: the row has {has}")


def values_of(row: Row) -> list[Any]:
    """The row's values; not to be changed."""
    values = row._list
    return [*row._own.values()] if values is None else values


def values_in_order(row: Row, names: list[str]) -> list[Any]:
    """The row's values in the order of these names where it has the same ones, in any order; else as they stand.

    Args:
        names: of the fields that somebody else declares.

    Example:
        >>> values_in_order(Row(b=1, a=2), ["a", "b"]), values_in_order(Row(1, 2), ["a", "b"])
        ([2, 1], [1, 2])
    """
    own, values = field_names_of(row), values_of(row)
    if own is None or own == names or len(own) != len(names) or set(own) != set(names):
        return values
    return [values[own.index(name)] for name in names]


def spread(row: Row) -> dict[str, Any] | None:
    """A spread row's own fields, not to be changed; None of a compact one."""
    return row._own if row._list is None else None


def make_row(names: Sequence[str] | None, values: list[Any], kind: RowKind = RowKind.INSERT) -> Row:
    """A compact row from its parts; ``values`` becomes the row's own list, a list of names is shared between rows."""
    # Without a __setattr__ of its own: Python sets attributes by itself, sooner than a call does
    row: Any = _Parts()
    row._names = names if names is None or type(names) is list else list(names)
    row._list = values
    row._kind = kind
    row.__class__ = Row
    return row  # type: ignore[no-any-return]


def row_of_fields(fields: dict[str, Any]) -> Row:
    """A spread row; ``fields`` becomes its own dict, and has no name that a Row needs itself."""
    row: Any = _Parts()
    row.__dict__ = fields
    row._list = None
    row.__class__ = Row
    return row  # type: ignore[no-any-return]


def rows_of_fields(fields: list[dict[str, Any]]) -> list[Row]:
    """As ``row_of_fields``, many at once."""
    return [row_of_fields(each) for each in fields]


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
    if LOOPS is not None:
        found: tuple[list[str], list[list[Any]]] | None = LOOPS.columns_of(rows)
        if found is not None:
            return found
    if not rows or type(rows[0]) is not Row or classes_of(rows) != {Row}:
        return None
    fields = [row._own for row in rows if row._list is None]
    if len(fields) == len(rows):
        names = [*fields[0]]
        if set(map(tuple, fields)) != {tuple(names)}:
            return None
        return names, [list(map(itemgetter(name), fields)) for name in names]  # drives our own code
    first = field_names_of(rows[0])
    if first is None or any(row._row_kind is not _INSERT or field_names_of(row) != first for row in rows):
        return None
    values = [values_of(row) for row in rows]
    if set(map(len, values)) != {len(first)}:
        return None
    return first, [list(map(itemgetter(index), values)) for index in range(len(first))]


def dicts_of_rows(rows: list[Any], names: list[str]) -> list[dict[str, Any]] | None:
    """The fields of compact rows, as state keeps them, one new dict a row.

    Args:
        rows: any objects.
        names: of the fields, at least one.

    Returns:
        None unless all are compact rows of kind INSERT with these names.
    """
    if LOOPS is not None:
        dicts: list[dict[str, Any]] | None = LOOPS.dicts_of(rows, names)
        if dicts is not None:
            return dicts
    if classes_of(rows) != {Row}:
        return None
    dict_of = dict_maker(tuple(names))
    try:
        if any(row._names != names or row._kind is not _INSERT for row in rows):
            return None
        return [dict_of(*row._list) for row in rows]
    except (AttributeError, TypeError):
        # A spread one, or one with more values than names, or fewer.
        return None


def rows_of_columns(names: list[str], columns: Sequence[Sequence[Any]]) -> list[Row]:
    """New rows of kind INSERT; what ``columns_of_rows`` took apart.

    Args:
        names: of the fields, at least one.
        columns: their values, one sequence a field, all of the same length.
    """
    if can_be_spread(names):
        return _maker_of(tuple(names))(columns)
    return [make_row(names, [*values]) for values in zip(*columns, strict=True)]


def can_be_spread(names: list[str]) -> bool:
    """Whether rows with these names, at least one, may have their fields in their ``__dict__``."""
    return set(map(type, names)) == {str} and len(set(names)) == len(names) and _TAKEN.isdisjoint(names)


@lru_cache(maxsize=256)
def dict_maker(names: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    """Makes a dict of its arguments, one a name: compiled, which takes a third of the time of ``dict(zip(...))``."""
    values = [f"v{index}" for index in range(len(names))]
    fields = ", ".join([f"{name!r}: {value}" for name, value in zip(names, values, strict=True)])
    make: Callable[..., dict[str, Any]] = eval(f"lambda {', '.join(values)}: {{{fields}}}")
    return make  # of names as literals, and of names made here


@lru_cache(maxsize=256)
def _maker_of(names: tuple[str, ...]) -> Callable[[Sequence[Sequence[Any]]], list[Row]]:
    """Makes spread rows of columns, in C if there is such a loop: many rows are made at once."""
    dict_of = dict_maker(names)

    def make(columns: Sequence[Sequence[Any]]) -> list[Row]:
        return [row_of_fields(dict_of(*values)) for values in zip(*columns, strict=True)]

    return make if LOOPS is None else LOOPS.loop_of("make", [*names], (), make)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
