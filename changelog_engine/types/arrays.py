"""Lists, arrays and maps: any number of values of one type."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized
from types import MappingProxyType
from typing import Any

import numpy as np

from changelog_engine.errors import TypeMismatchError
from changelog_engine.types.basic import BYTE
from changelog_engine.types.java_text import bytes_text, hash_map_order
from changelog_engine.types.row import Row
from changelog_engine.types.typeinfo import Misfit, TypeInformation, register, type_from_spec

_PRIMITIVES = ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR")


NO_ELEMENTS = (str, bytes, bytearray, memoryview, Mapping, Row)  # collections, but not of elements

_IN_FLINK = {
    "LIST": "ListTypeInfo",
    "BASIC_ARRAY": "BasicArrayTypeInfo",
    "OBJECT_ARRAY": "ObjectArrayTypeInfo",
    "PRIMITIVE_ARRAY": "PrimitiveArrayTypeInfo",
}


class ElementsTypeInfo(TypeInformation):
    """Base of LIST and the arrays: the values are Python lists; other collections (tuples, numpy's arrays) become lists.

    Args:
        element_type: type of every element.
    """

    immutable = False

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type = element_type
        self.copied_whole = element_type.copied_whole
        self.name = f"{self.kind}<{element_type.name}>"

    def parameters(self) -> tuple[Any, ...]:
        return (self.elem_type,)

    def spec(self) -> dict[str, Any]:
        return {"type": self.kind, "element": self.elem_type.spec()}

    def fit(self, value: Any) -> Any:
        fitted, changed = fit_all(self.elem_type, elements_of(self, value))
        return fitted if changed or type(value) is not list else value

    def copy(self, value: Any) -> Any:
        if value is None:
            return None
        if self.elem_type.immutable:
            return list(value)
        return [self.elem_type.copy(item) for item in value]

    def text(self, value: Any) -> str:
        return f"[{', '.join([self.elem_type.nested_text(item) for item in value])}]"

    def __repr__(self) -> str:
        return f"{_IN_FLINK[self.kind]}<{self.elem_type!r}>"


def elements_of(type_info: ElementsTypeInfo, value: Any) -> Collection[Any]:
    """A value as what has elements of such a type.

    Raises:
        Misfit: it is something else, such as a str.
    """
    if type(value) is not list and (not isinstance(value, Collection) or isinstance(value, NO_ELEMENTS)):
        raise Misfit(type_info, value)
    if isinstance(value, np.ndarray) and not value.ndim:
        raise Misfit(type_info, value, "an array without dimensions has no elements")
    return value


def fit_all(elem_type: TypeInformation, values: Any) -> tuple[list[Any], bool]:
    """Fit every value; True when any of them became another object."""
    sure, fit = elem_type.sure, elem_type.fit
    fitted: list[Any] = []
    changed = False
    for index, item in enumerate(values):
        if item is None or type(item) is sure:
            fitted.append(item)
            continue
        try:
            new = fit(item)
        except Misfit as misfit:
            raise misfit.inside(f"[{index}]") from None
        changed = changed or new is not item
        fitted.append(new)
    return fitted, changed


class ListTypeInfo(ElementsTypeInfo):
    """LIST."""

    kind = "LIST"


class BasicArrayTypeInfo(ElementsTypeInfo):
    """BASIC_ARRAY: of boxed numbers or text."""

    kind = "BASIC_ARRAY"

    def __init__(self, element_type: TypeInformation) -> None:
        if element_type.kind not in (*_PRIMITIVES, "STRING"):
            raise TypeMismatchError(
                f"BASIC_ARRAY takes basic element types, not {element_type.name}; use OBJECT_ARRAY or LIST"
            )
        super().__init__(element_type)


class ObjectArrayTypeInfo(ElementsTypeInfo):
    """OBJECT_ARRAY: of anything."""

    kind = "OBJECT_ARRAY"


class PrimitiveArrayTypeInfo(ElementsTypeInfo):
    """PRIMITIVE_ARRAY of numbers: lists; of BYTE: bytes."""

    kind = "PRIMITIVE_ARRAY"

    def __init__(self, element_type: TypeInformation) -> None:
        if element_type.kind not in _PRIMITIVES:
            raise TypeMismatchError(
                f"PRIMITIVE_ARRAY takes primitive elements, not {element_type.name}; use OBJECT_ARRAY or LIST"
            )
        super().__init__(element_type)
        self.of_bytes = element_type == BYTE
        if self.of_bytes:
            self.exact = self.sure = self.frozen = bytes
            self.immutable = True

    def fit(self, value: Any) -> Any:
        if self.of_bytes:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise Misfit(self, value)
            return value if type(value) is bytes else bytes(value)
        fitted = super().fit(value)
        if None in fitted:
            raise Misfit(self.elem_type, None).inside(f"[{fitted.index(None)}]")
        return fitted

    def copy(self, value: Any) -> Any:
        return value if self.of_bytes else super().copy(value)

    def text(self, value: Any) -> str:
        return bytes_text(value) if self.of_bytes else super().text(value)


class MapTypeInfo(TypeInformation):
    """MAP: Python dicts; other mappings, and objects with ``items()``, become dicts.

    What leaves a chain has the order of Java's HashMap, as in PyFlink, where Java reads it there.

    Args:
        key_type_info: type of every key.
        value_type_info: type of every value.
    """

    kind = "MAP"
    immutable = False
    in_java_order = True

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self.key_type = key_type_info
        self.value_type = value_type_info
        self.copied_whole = key_type_info.copied_whole and value_type_info.copied_whole
        self.name = f"MAP<{key_type_info.name}, {value_type_info.name}>"

    def parameters(self) -> tuple[Any, ...]:
        return (self.key_type, self.value_type)

    def spec(self) -> dict[str, Any]:
        return {"type": self.kind, "key": self.key_type.spec(), "value": self.value_type.spec()}

    def fit(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            value = self._items_of(value)
        fitted: dict[Any, Any] = {}
        changed = type(value) is not dict
        for key, item in value.items():
            try:
                new_key = None if key is None else self.key_type.fit(key)
                new = None if item is None else self.value_type.fit(item)
            except Misfit as misfit:
                raise misfit.inside(f"[{key!r:.40}]") from None
            changed = changed or new_key is not key or new is not item
            try:
                fitted[new_key] = new
            except TypeError:  # unhashable
                raise Misfit(self, value, f"a {self.key_type.name} cannot be a key of a dict") from None
        if len(fitted) < len(value):
            raise Misfit(self, value, f"two of its keys are the same {self.key_type.name}")
        if self.in_java_order and len(fitted) > 1:
            keys = list(fitted)
            ordered = hash_map_order(keys, self.key_type.kind)
            if ordered != keys:
                return {key: fitted[key] for key in ordered}
        return fitted if changed else value

    def _items_of(self, value: Any) -> Mapping[Any, Any]:
        """The entries of an object that has ``items()`` and a length without being a Mapping, as PyFlink takes it."""
        items = getattr(type(value), "items", None)
        if not callable(items) or not isinstance(value, Sized):
            raise Misfit(self, value)
        entries = MappingProxyType(dict(items(value)))
        if len(entries) != len(value):
            raise Misfit(self, value, f"items() has {len(entries)} different keys and len() is {len(value)}")
        return entries

    def copy(self, value: Any) -> Any:
        if value is None:
            return None
        if self.value_type.immutable and self.key_type.immutable:
            return dict(value)
        return {self.key_type.copy(key): self.value_type.copy(item) for key, item in value.items()}

    def text(self, value: Any) -> str:
        key_text, value_text = self.key_type.nested_text, self.value_type.nested_text
        keys = hash_map_order(value, self.key_type.kind)
        return f"{{{', '.join(f'{key_text(key)}={value_text(value[key])}' for key in keys)}}}"

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self.key_type!r}, {self.value_type!r}>"


def _register_elements(made: type[ElementsTypeInfo], kind: str) -> None:
    register(kind, lambda spec: made(type_from_spec(spec["element"])))


for _class in (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo):
    _register_elements(_class, _class.kind)
register(
    MapTypeInfo.kind, lambda spec: MapTypeInfo(type_from_spec(spec["key"]), type_from_spec(spec["value"]))
)
