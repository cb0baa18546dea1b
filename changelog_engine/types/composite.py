"""Tuples and rows: a fixed number of fields, each with its type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

from changelog_engine.errors import TypeMismatchError
from changelog_engine.types.basic import IntegerTypeInfo
from changelog_engine.types.foreign import attributes_of
from changelog_engine.types.row import (
    Row,
    RowKind,
    can_be_spread,
    dict_maker,
    field_names_of,
    make_row,
    row_of_fields,
    unknown_field,
    values_of,
)
from changelog_engine.types.row_loops import LOOPS
from changelog_engine.types.typeinfo import Misfit, TypeInformation, register, type_from_spec


def _default_names(count: int) -> list[str]:
    return [f"f{index}" for index in range(count)]


def _plain_name(name: Any) -> Any:
    return str.__str__(name) if isinstance(name, str) else name


@lru_cache(maxsize=1024)
def _test_of(type_info: TupleTypeInfo | RowTypeInfo) -> Callable[[Any], bool] | None:
    """A test of tuples or rows, made for their fields: elements and state are tested once per record.

    Returns:
        A function that is true only of what ``fit`` gives back as it is; None when a field's type has no such test.
    """
    fit = _test_of_fields(type_info)
    if fit is None:
        return None
    count = len(type_info.get_field_types())
    names = None if isinstance(type_info, TupleTypeInfo) else type_info.get_field_names()

    def test_of_tuple(value: Any) -> bool:
        return type(value) is tuple and len(value) == count and fit(*value)

    def test_of_row(value: Any) -> bool:
        if type(value) is not Row:
            return False
        values = value._list
        if values is None:
            fields = value._own
            return [*fields] == names and fit(*fields.values())
        return value._names == names and len(values) == count and fit(*values)

    return _in_c("test", type_info, test_of_tuple if names is None else test_of_row)


@lru_cache(maxsize=1024)
def _copier_of(type_info: RowTypeInfo) -> Callable[[Any], Row | None] | None:
    """A test and a copy of rows in one, made for their fields; see RowTypeInfo.quick_copy."""
    fit = _test_of_fields(type_info)
    if fit is None:
        return None
    names = type_info.get_field_names()
    count = len(names)

    def copy(value: Any) -> Row | None:
        if type(value) is not Row:
            return None
        values = value._list
        if values is not None:
            if value._names != names or len(values) != count or not fit(*values):
                return None
            return make_row(names, values.copy(), value._kind)
        fields = value._own
        if [*fields] == names:
            values = [*fields.values()]
        elif type_info._unnamed or fields.keys() != set(names):
            return None
        else:
            values = [fields[name] for name in names]
        return make_row(names, values) if fit(*values) else None

    return _in_c("copy", type_info, copy)


@lru_cache(maxsize=1024)
def _reader_of(type_info: RowTypeInfo) -> Callable[[Any], Row | None]:
    """Spread copies of compact rows, made for their fields; see RowTypeInfo.copy_out."""
    fields_of = dict_maker(tuple(type_info.get_field_names()))

    def read(value: Any) -> Any:
        if value is None:
            return None
        values = value._list
        if values is None or value._kind is not RowKind.INSERT:
            return type_info.copy(value)
        return row_of_fields(fields_of(*values))

    return _in_c("read", type_info, read)


def _in_c(
    kind: str, type_info: TupleTypeInfo | RowTypeInfo, reference: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """The loop in C that does what this function does, if there is one for these fields."""
    tests = () if kind == "read" else _field_tests(type_info)
    if LOOPS is None or tests is None:
        return reference
    names = None if isinstance(type_info, TupleTypeInfo) else type_info.get_field_names()
    loop: Callable[[Any], Any] = LOOPS.loop_of(kind, names, tests, reference)
    return loop


def _test_of_fields(type_info: TupleTypeInfo | RowTypeInfo) -> Callable[..., bool] | None:
    """The test of all fields, which are its arguments, compiled; None when a field's type has none."""
    terms = []
    given: dict[str, Any] = {}
    fields = [f"v{index}" for index in range(len(type_info.get_field_types()))]
    for name, field_type in zip(fields, type_info.get_field_types(), strict=True):
        if isinstance(field_type, IntegerTypeInfo):
            term = f"type({name}) is int"
            if field_type.low is not None:
                term += f" and {field_type.low} <= {name} <= {field_type.high}"
        elif field_type.sure is not None:
            given[f"c{name}"] = field_type.sure
            term = f"type({name}) is c{name}"
        else:
            given[f"t{name}"] = field_type.quick_test()
            if given[f"t{name}"] is None:
                return None
            term = f"t{name}({name})"
        terms.append(f"({term} or {name} is None)")
    test: Callable[..., bool] = eval(f"lambda {', '.join(fields)}: {' and '.join(terms) or True}", given)
    return test  # of numbers and names made here


def _field_tests(type_info: TupleTypeInfo | RowTypeInfo) -> tuple[type | tuple[int, int], ...] | None:
    """The test of each field as a class or the bounds of an int, for loops in C; None when one has another."""
    tests: list[type | tuple[int, int]] = []
    for field_type in type_info.get_field_types():
        test = field_type.class_or_bounds()
        if test is None:
            return None
        tests.append(test)
    return tuple(tests)


class _FieldsTypeInfo(TypeInformation):
    """Base of both: names and types of the fields."""

    def __init__(self, types: Sequence[TypeInformation], names: Sequence[str]) -> None:
        self._types = list(types)
        self._names = list(names)
        self._of_immutable = all(field_type.immutable for field_type in self._types)
        self.copied_whole = all(field_type.copied_whole for field_type in self._types)

    def get_field_types(self) -> list[TypeInformation]:
        """The types of the fields, in order."""
        return list(self._types)

    def _fit_fields(self, whole: Any, values: Sequence[Any]) -> tuple[list[Any], bool]:
        if len(values) != len(self._types):
            raise Misfit(self, whole, f"{len(values)} fields where {len(self._types)} are declared")
        fitted: list[Any] = []
        changed = False
        for name, field_type, value in zip(self._names, self._types, values, strict=True):
            if value is None:
                fitted.append(None)
                continue
            try:
                new = field_type.fit(value)
            except Misfit as misfit:
                raise misfit.inside(name) from None
            changed = changed or new is not value
            fitted.append(new)
        return fitted, changed

    def quick_test(self) -> Callable[[Any], bool] | None:
        return _test_of(self)

    def fits_all(self, values: list[Any]) -> bool:
        test = self.quick_test()
        return test is not None and all(map(test, values))  # drives our own code

    def _copy_fields(self, values: list[Any]) -> list[Any]:
        if self._of_immutable:
            return values.copy()
        return [
            value if field_type.immutable or value is None else field_type.copy(value)
            for field_type, value in zip(self._types, values, strict=True)
        ]


class TupleTypeInfo(_FieldsTypeInfo):
    """TUPLE."""

    kind = "TUPLE"

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        super().__init__(field_types, _default_names(len(field_types)))
        self.name = f"TUPLE<{', '.join(t.name for t in field_types)}>"
        self.immutable = self._of_immutable
        self.frozen = tuple if all(each.firm for each in field_types) else None

    def parameters(self) -> tuple[Any, ...]:
        return tuple(self._types)

    def spec(self) -> dict[str, Any]:
        return {"type": self.kind, "fields": [t.spec() for t in self._types]}

    def fit(self, value: Any) -> Any:
        fitted, changed = self._fit_fields(value, fields_of_tuple(self, value))
        return tuple(fitted) if changed or type(value) is not tuple else value

    def copy(self, value: Any) -> Any:
        return value if self.immutable or value is None else tuple(self._copy_fields(list(value)))

    def text(self, value: Any) -> str:
        return f"({','.join(t.nested_text(v) for t, v in zip(self._types, value, strict=True))})"

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join([repr(field) for field in self._types])})"


def fields_of_tuple(type_info: TupleTypeInfo, value: Any) -> Sequence[Any]:
    """A value's fields in order.

    Raises:
        Misfit: it is something else than a tuple, list or Row.
    """
    if not isinstance(value, (tuple, list, Row)):
        raise Misfit(type_info, value)
    return values_of(value) if isinstance(value, Row) else value


class RowTypeInfo(_FieldsTypeInfo):
    """ROW and ROW_NAMED.

    Args:
        field_names: their names; None names them f0, f1, ...

    Raises:
        TypeMismatchError: names that repeat, or not one for each type.
    """

    kind = "ROW"
    immutable = False

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        default = _default_names(len(field_types))
        # Code is compiled with them: the text itself, whatever a class derived from str shows.
        names = default if field_names is None else [_plain_name(name) for name in field_names]
        if len(names) != len(field_types) or len(set(names)) != len(names):
            raise TypeMismatchError(
                f"a row of {len(field_types)} types needs as many different field names, got {names!r}"
            )
        super().__init__(field_types, names)
        self.flat = all(field_type.firm for field_type in field_types)
        self._unnamed = names == default
        self._shows_names = field_names is not None
        fields = [
            t.name if self._unnamed else f"{n} {t.name}" for n, t in zip(names, field_types, strict=True)
        ]
        self.name = f"ROW<{', '.join(fields)}>"

    def get_field_names(self) -> list[str]:
        """The names of the fields, in order."""
        return list(self._names)

    def get_field_index(self, field_name: str) -> int:
        """The position of a field.

        Raises:
            UnknownFieldError: there is no such field.
        """
        try:
            return self._names.index(field_name)
        except ValueError:
            raise unknown_field(field_name, self._names) from None

    def parameters(self) -> tuple[Any, ...]:
        return (tuple(self._names), tuple(self._types))

    def spec(self) -> dict[str, Any]:
        return {"type": self.kind, "names": list(self._names), "fields": [t.spec() for t in self._types]}

    def fit(self, value: Any) -> Any:
        if isinstance(value, Row):
            fitted, changed = self._fit_fields(value, self._values_of(value))
            if not changed and type(value) is Row and field_names_of(value) == self._names:
                return value
            return make_row(self._names, fitted, value._row_kind)
        if isinstance(value, dict):
            if value.keys() != set(self._names):
                raise Misfit(self, value, self._other_fields(value))
            value = tuple(value[name] for name in self._names)
        elif not isinstance(value, (tuple, list)):
            value = self._attributes_of(value)
        return make_row(self._names, self._fit_fields(value, value)[0])

    def _attributes_of(self, value: Any) -> Sequence[Any]:
        """The attributes of an object that has one for each field, such as a dataclass."""
        held = attributes_of(value)
        if not self._names or not held.keys() >= set(self._names):
            raise Misfit(self, value)
        return [held[name] for name in self._names]

    def _values_of(self, row: Row) -> Sequence[Any]:
        """A row's values in the declared order: by name where both sides have names, else by position."""
        names = field_names_of(row)
        if names is None or names == self._names or self._unnamed:
            return values_of(row)
        if sorted(names) != sorted(self._names):
            raise Misfit(self, row, self._other_fields(names))
        values = values_of(row)
        return [values[names.index(name)] for name in self._names]

    def _other_fields(self, names: Collection[Any]) -> str:
        """How names of fields differ from the declared ones."""
        missing = [name for name in self._names if name not in names]
        more = [str(name) for name in names if name not in self._names]
        repeated = [name for name in self._names if list(names).count(name) > 1]
        parts = [f"without {', '.join(missing)}"] if missing else []
        parts += [f"with undeclared {', '.join(more)}"] if more else []
        parts += [f"with {', '.join(repeated)} more than once"] if repeated else []
        return ", ".join(parts)

    def copy(self, value: Any) -> Any:
        if value is None:
            return None
        values = values_of(value)
        return make_row(
            self._names, [*values] if self._of_immutable else self._copy_fields(values), value._row_kind
        )

    def quick_copy(self) -> Callable[[Any], Any] | None:
        return _copier_of(self) if self._of_immutable and self._names else None

    def copy_out(self) -> Callable[[Any], Any]:
        return _reader_of(self) if self._of_immutable and can_be_spread(self._names) else self.copy

    def format(self, value: Any) -> str:
        """See TypeInformation.format; fields of a row on its own are shown as Python does.

        A row is shown as it is given, a tuple, list or dict as the row that it becomes.
        """
        if value is None:
            return "None"
        if not isinstance(value, Row):
            value = self.fit(value)
        return f"{value._row_kind}[{','.join([str(item) for item in values_of(value)])}]"

    def text(self, value: Any) -> str:
        texts = [t.nested_text(v) for t, v in zip(self._types, values_of(value), strict=True)]
        return f"{value._row_kind}[{', '.join(texts)}]"

    def __repr__(self) -> str:
        if not self._shows_names:
            return f"RowTypeInfo({', '.join([repr(field) for field in self._types])})"
        fields = (f"{name}: {kind!r}" for name, kind in zip(self._names, self._types, strict=True))
        return f"RowTypeInfo({', '.join(fields)})"


register("TUPLE", lambda spec: TupleTypeInfo([type_from_spec(field) for field in spec["fields"]]))
register("ROW", lambda spec: RowTypeInfo([type_from_spec(field) for field in spec["fields"]], spec["names"]))
