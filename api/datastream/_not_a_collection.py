"""What a stream answers a program that takes it for a list, a column or a table: how to get at its elements.

In PyFlink these are plain TypeErrors of Python's, and numpy takes a stream for a number. What a program asks without harm
stays as it is there: whether a stream is one (``if stream:``), and whether it is another (``==``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from changelog_engine.errors import ArgumentTypeError

_ELEMENTS = (
    "is not a collection: its elements come when the job runs. execute_and_collect() of a DataStream runs it and gives "
    "them, print() prints them; map(), filter() and process() call a function with each"
)
_OPERATORS = (
    "has no operators such as + and <: map() and filter() call a function with each element, and union() puts streams "
    "together"
)
_ASKED = {
    "iter next reversed aiter len getitem contains array": _ELEMENTS,
    "add radd sub rsub mul rmul truediv rtruediv floordiv mod pow neg and or xor invert lt le gt ge": _OPERATORS,
}


class NotACollection:
    """Base of streams, of what is made of them on the way, and of their sinks."""

    def __bool__(self) -> bool:
        """True, as without ``__len__``."""
        return True


def _refusing(says: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise ArgumentTypeError(f"{type(self).__name__} {says}")

    return refuse


for _names, _says in _ASKED.items():
    for _name in _names.split():
        setattr(NotACollection, f"__{_name}__", _refusing(_says))
