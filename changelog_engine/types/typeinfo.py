"""TypeInformation: what an element, key or state value is declared to be.

Invariants:
    * Two types are equal when their structure is; ``type_from_spec(t.spec()) == t``.
    * ``check`` gives back the very same object when it fits as it is, and never changes its argument.
    * ``check`` converts where nothing is lost (10 to 10.0), and refuses where something would be (1.5 to 1).
    * ``check(check(v))`` is ``check(v)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from changelog_engine.errors import TypeMismatchError
from changelog_engine.types.java_members import JavaMembers
from changelog_engine.types.row_loops import classes_of

MAX_SHOWN = 100


def a_class(cls: type) -> str:
    """The name of a class with its article, for messages."""
    return f"{'an' if cls.__name__[0] in 'AEIOU' else 'a'} {cls.__name__}"


_TYPES_OF_CLASSES = {
    int: "Types.LONG()",
    float: "Types.DOUBLE()",
    bool: "Types.BOOLEAN()",
    str: "Types.STRING()",
    bytes: "Types.PRIMITIVE_ARRAY(Types.BYTE())",
    object: "Types.PICKLED_BYTE_ARRAY()",
}


def not_a_type(given: object) -> str:
    """What was given where a type is wanted, and what to write instead, for messages."""
    if isinstance(given, type):
        instead = _TYPES_OF_CLASSES.get(given)
        return f"got the class {given.__name__}" + ("" if instead is None else f"; write {instead}")
    return f"got {shown(given)}" + ("; call it: write its parentheses" if callable(given) else "")


def shown(value: Any, most: int = MAX_SHOWN) -> str:
    """A value's repr for a message, cut to a number of characters; never raises."""
    try:
        text = repr(value)
    except BaseException as error:  # a user's __repr__ may raise anything; the message must not
        text = f"<{type(value).__name__} whose repr failed: {type(error).__name__}>"
    return cut(text, most)


def shown_bytes(data: bytes | bytearray | memoryview) -> str:
    """The beginning of a message's or record's bytes, and how many there are."""
    first = repr(bytes(data[:MAX_SHOWN]))
    return first if len(data) <= MAX_SHOWN else f"{first}... ({len(data)} bytes)"


def cut(text: str, most: int = MAX_SHOWN) -> str:
    """A text cut to a number of characters, for a message."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Misfit(Exception):
    """A value inside does not fit; containers add their step to the path while it travels up.

    Users never see it: check() turns it into a TypeMismatchError.
    """

    def __init__(self, wanted: TypeInformation, value: Any, why: str = "") -> None:
        super().__init__(wanted, value, why)
        self.wanted = wanted
        self.value = value
        self.why = why
        self.path: list[str] = []

    def __str__(self) -> str:
        return self.message("a value")

    def inside(self, step: str) -> Misfit:
        """Add an outer step: a field name, or ``[3]`` for an index."""
        self.path.append(step)
        return self

    def message(self, what: str) -> str:
        """The sentence for the user."""
        path = ""
        for step in reversed(self.path):
            path += step if step.startswith("[") or not path else "." + step
        place = f"field {path!r} of {what}" if path else what
        why = f" ({self.why})" if self.why else ""
        found = f"{shown(self.value)} of type {type(self.value).__name__}{why}"
        return f"{place} is declared {self.wanted.name} but got {found}"


class TypeInformation(JavaMembers, ABC):
    """Base of all types.

    Attributes:
        name: for people, e.g. ``LONG`` or ``TUPLE<STRING, INT>``.
        exact: the Python class whose instances need no look inside before they become state (the codec still
            checks the range of LONG, in bulk), or None.
        sure: the Python class whose instances are always valid, or None.
        of_admitted: what is in instances of the exact class was checked before they were made.
        immutable: every valid value is deeply immutable.
        copied_whole: a copy shares nothing with the value that can be changed.
        firm: it takes nothing that can be changed, to convert it neither.
        frozen: the class of values in which nothing can be changed, where it takes others, too, such as a list for a tuple.
        flat: a value can be changed, and nothing in it that the type takes.
    """

    name: str
    exact: type | None = None
    sure: type | None = None
    of_admitted: bool = False
    immutable: bool = True
    copied_whole: bool = True
    firm: bool = False
    frozen: type | None = None
    flat: bool = False
    kind: str

    @abstractmethod
    def fit(self, value: Any) -> Any:
        """The value as this type wants it, converted where nothing is lost.

        Args:
            value: any object but None.

        Returns:
            The same object when it fits as it is.

        Raises:
            Misfit: it does not fit, or a conversion would lose something.
        """

    def parameters(self) -> tuple[Any, ...]:
        """What tells this type from others of its kind; hashable."""
        return ()

    def spec(self) -> dict[str, Any]:
        """The JSON form that checkpoints keep; see type_from_spec."""
        return {"type": self.kind}

    def check(self, value: Any, what: str = "value") -> Any:
        """The value as the declared type wants it, converted where nothing is lost; None passes.

        Args:
            value: any object.
            what: names the value in the message.

        Returns:
            The same object when it fits as it is; else an equal one: a float for a whole number in a DOUBLE, an int for
            True in a LONG, a named Row for a tuple in a ROW, a list for a tuple in a LIST, Python's for numpy's scalars.

        Raises:
            TypeMismatchError: it does not fit, or would lose something: 1.5 is not a LONG.
        """
        if value is None or type(value) is self.sure:
            return value
        try:
            return self.fit(value)
        except Misfit as misfit:
            raise TypeMismatchError(misfit.message(what)) from None

    def fits_all(self, values: list[Any]) -> bool:
        """A quick test of many values: True only when every one fits as it is, and none is None.

        Args:
            values: any objects.
        """
        return self.sure is not None and classes_of(values) == {self.sure}

    def quick_test(self) -> Callable[[Any], bool] | None:
        """A quick test of one value, true only when it fits as it is and is not None; None when there is no such test."""
        sure = self.sure
        return None if sure is None else lambda value: type(value) is sure

    def class_or_bounds(self) -> type | tuple[int, int] | None:
        """All that ``quick_test`` looks at, for code in C: a value's class, or the bounds of an int; None if it is more."""
        return self.sure

    def quick_copy(self) -> Callable[[Any], Any] | None:
        """``check`` and ``copy`` in one call: gives the copy of a value that fits as it is, else that or None.

        Returns:
            None when the type has no such function.
        """
        return None

    def copy(self, value: Any) -> Any:
        """A private deep copy of a valid value; immutable ones are given back as they are."""
        return value

    def copy_out(self) -> Callable[[Any], Any]:
        """A function that copies what ``copy`` gave, or None, for users to read: its fields are found sooner."""
        return self.copy

    def format(self, value: Any) -> str:
        """What ``print()`` shows for a valid value."""
        return "None" if value is None else self.text(value)

    def text(self, value: Any) -> str:
        """How the value is shown inside tuples, lists and maps."""
        return str(value)

    def nested_text(self, value: Any) -> str:
        """As text, with Java's word for nothing."""
        return "null" if value is None else self.text(value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TypeInformation)
            and self.kind == other.kind
            and self.parameters() == other.parameters()
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.parameters()))

    def __repr__(self) -> str:
        return _IN_FLINK[self.kind]  # programs print types; messages say ``name``


_IN_FLINK = {
    "STRING": "String",
    "BYTE": "Byte",
    "BOOLEAN": "Boolean",
    "SHORT": "Short",
    "INT": "Integer",
    "LONG": "Long",
    "FLOAT": "Float",
    "DOUBLE": "Double",
    "CHAR": "Char",
    "BIG_INT": "BigInteger",
    "BIG_DEC": "BigDecimal",
    "INSTANT": "Instant",
    "SQL_DATE": "DateTypeInfo",
    "SQL_TIME": "TimeTypeInfo",
    "SQL_TIMESTAMP": "TimestampTypeInfo",
    "PICKLED_BYTE_ARRAY": "PickledByteArrayTypeInfo",
}

_READERS: dict[str, Callable[[dict[str, Any]], TypeInformation]] = {}


def register(kind: str, reader: Callable[[dict[str, Any]], TypeInformation]) -> None:
    """Tell type_from_spec how to read one kind."""
    _READERS[kind] = reader


def register_one(type_info: TypeInformation) -> None:
    """Tell type_from_spec of a kind without parameters: there is one type of it."""
    register(type_info.kind, lambda spec: type_info)


def the_one(kind: str) -> staticmethod[[], TypeInformation]:
    """A static method of a class that gives the one type of a kind without parameters."""

    def given() -> TypeInformation:
        return type_from_spec({"type": kind})

    given.__doc__ = f"``Types.{kind}()``."
    return staticmethod(given)


def type_from_spec(spec: dict[str, Any]) -> TypeInformation:
    """The type whose ``spec()`` this is.

    Args:
        spec: what ``TypeInformation.spec`` returned, also after a round trip through JSON.

    Raises:
        TypeMismatchError: a kind this version does not know.
    """
    reader = _READERS.get(spec.get("type", ""))
    if reader is None:
        raise TypeMismatchError(
            f"unknown type {shown(spec)} in a checkpoint: a newer version of changelog-engine wrote it; "
            "read it with that version"
        )
    return reader(spec)


def type_of(spec: dict[str, Any] | None) -> TypeInformation | None:
    """A declared type out of what a checkpoint says of it, as `type_from_spec`; None for undeclared."""
    return None if spec is None else type_from_spec(spec)


def declared_name(declared: TypeInformation | None) -> str:
    """What people are told of a declared type; None for undeclared."""
    return "undeclared" if declared is None else declared.name
