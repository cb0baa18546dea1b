"""Checks of arguments; each message names the method and the parameter.

A class that is marked with `checked` says in its annotations what its methods take. Checks that an annotation cannot say
are functions, which are given the name of the parameter.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from changelog_engine.config.names import writable
from changelog_engine.config.numbers import whole_number as whole_number
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, NotSupportedError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types import RowTypeInfo, TypeInformation, Types
from changelog_engine.types.typeinfo import a_class, not_a_type

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])

MAX_PARALLELISM_LIMIT = 1 << 15
PARALLELISM_DEFAULT = -1  # what ExecutionConfig has under these names
PARALLELISM_UNKNOWN = -2
OutputType = TypeInformation | list[TypeInformation] | None  # a list of types stands for rows of them


def parallelism(value: Any, what: str) -> int:
    """The value if it can be a parallelism: 1 to 32768."""
    return whole_number(value, f"{what}: the parallelism", 1, MAX_PARALLELISM_LIMIT)


def max_parallelism(value: Any, what: str) -> int:
    """The value if it can be a max parallelism: 1 to 32768."""
    return whole_number(value, f"{what}: the max parallelism", 1, MAX_PARALLELISM_LIMIT)


def type_info(value: Any, what: str) -> TypeInformation | None:
    """The value if it is a TypeInformation or None.

    Raises:
        ConfigurationError: it is something else, such as ``Types.INT`` without its parentheses.
    """
    if value is None or isinstance(value, TypeInformation):
        return value
    raise ArgumentTypeError(f"{what} must be a TypeInformation such as Types.STRING(), {not_a_type(value)}")


def output_type(value: Any, what: str) -> TypeInformation | None:
    """As `type_info`; a list of types stands for rows of them."""
    return Types.ROW(value) if isinstance(value, list) else type_info(value, what)


def row_type(value: Any, what: str) -> RowTypeInfo:
    """The value if it is a type of rows."""
    found = type_info(value, what)
    if not isinstance(found, RowTypeInfo):
        raise ArgumentTypeError(f"{what} must be a type of rows such as Types.ROW_NAMED(...), got {found!r}")
    return found


def any_text(value: Any, what: str) -> str:
    """The value if it is a str, which may be empty."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{what} must be a str, got {value!r}")
    return value


def text(value: Any, what: str) -> str:
    """The value if it is a str that is not blank, and can be written.

    Raises:
        ArgumentTypeError: it is not a str, or blank.
        ConfigurationError: it holds a lone surrogate.
    """
    if not isinstance(value, str) or not value.strip():
        raise ArgumentTypeError(f"{what} must be a non-empty str, got {value!r}")
    return writable(value, what)


def several(value: Any, what: str, one: str) -> tuple[str, ...]:
    """The names in a list of them, each once, or the one that was given alone.

    Args:
        one: such as "a topic", for the message.
    """
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not names:
        raise ArgumentTypeError(f"{what} must be {one} or several, got {value!r}")
    return tuple(dict.fromkeys(text(name, what) for name in names))


def properties(value: Any, what: str) -> Mapping[str, Any]:
    """The value if it is a dict; the message shows none of it, which may be a password."""
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(f"{what} must be a dict of str to str, got a {type(value).__name__}")
    return value


def password_text(value: Any, what: str) -> str:
    """The value if it is a str, which may be empty; the message never shows it."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{what} must be a str")
    return value


def instance(value: Any, wanted: type[T], what: str, such_as: str = "", *others: type[Any]) -> T:
    """The value if it is an object of a class; the message shows no str, which may hold a password.

    Args:
        value: what a user gave.
        what: names the method and the parameter.
        such_as: an example for the message; an Enum needs none.
        others: classes whose objects will do too.

    Raises:
        ArgumentTypeError: it is something else, such as a builder that was not built.
    """
    if isinstance(value, (wanted, *others)):
        return cast(T, value)
    if value is None or isinstance(value, (int, float)):
        given = repr(value)
    else:
        given = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    hint = "; build() it" if hook_of(value, "build") else ""
    if issubclass(wanted, Enum):
        fits = f"one of {', '.join(f'{wanted.__name__}.{each.name}' for each in wanted)}"
    else:
        fits = " or ".join([a_class(each) for each in (wanted, *others)])
        fits += f" such as {such_as}" if such_as else ""
    raise ArgumentTypeError(f"{what} must be {fits}, got {given}{hint}")


def refuse_java(value: Any, what: str, wanted: str = "object") -> None:
    """Raise when it is the name of a Java class.

    Args:
        wanted: what is wanted of Python, for the message.
    """
    if isinstance(value, str):
        raise NotSupportedError(
            f"{what}({value!r}): Java classes cannot be used in this engine; give a Python {wanted}"
        )


def flag(value: Any, what: str) -> bool:
    """The value if it is a bool."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be True or False, got {value!r}")
    return value


def required(given: T | None, what: str, how: str) -> T:
    """What a builder was given.

    Args:
        how: how to give it, for the message.

    Raises:
        ConfigurationError: it was given nothing.
    """
    if given is None:
        raise ConfigurationError(f"{what}: {how} first")
    return given


def checked_later(value: Any, what: str) -> Any:
    """In ``Annotated[str, checked_later]``: whoever uses the value checks it, and knows better what to say."""
    return value


@dataclass(frozen=True)
class Whole:
    """In ``Annotated[int, Whole(1, 500)]``: a whole number within bounds.

    Args:
        least: the smallest one.
        most: the largest one; None for no bound.
        unit: for the message, where the parameter's name does not say it.
    """

    least: int
    most: int | None = None
    unit: str = ""

    def __call__(self, value: Any, what: str) -> int:
        """The value if it is an int within the bounds."""
        return whole_number(value, f"{what} in {self.unit}" if self.unit else what, self.least, self.most)


@dataclass(frozen=True)
class SuchAs:
    """In ``Annotated[Duration, SuchAs("Duration.of_days(1)")]``: an example for the message."""

    example: str


@dataclass(frozen=True)
class MadeBy:
    """In ``Annotated[Start, MadeBy("its static methods")]``, of a constructor that programs do not call: what they call."""

    how: str


Millis = Annotated[int, Whole(0)]
RowType = Annotated[RowTypeInfo, row_type]
AnyText = Annotated[str, any_text]
Properties = Annotated[Mapping[str, str], properties]
Password = Annotated[str, password_text]
_Check = Callable[[Any, str], Any]
_BY_TYPE: dict[Any, _Check] = {str: text, bool: flag, TypeInformation: type_info}


_BY_THEMSELVES: set[Callable[..., Any]] = set()
_CHECKING: dict[Callable[..., Any], Callable[[], dict[str, _Check]]] = {}


def checks_itself(method: Method) -> Method:
    """Leave a method out of `checked`: in a traceback nothing stands between it and the program."""
    _BY_THEMSELVES.add(method)
    return method


def checked(cls: type[T]) -> type[T]:
    """Have the public methods of a class check their arguments before they run, as their annotations say.

    An ``int`` with a `Whole` is a whole number, a ``bool`` is True or False, a ``str`` is not blank, a `Password` may be;
    for a class its objects fit, for ``X | Y`` those of both. All other annotations, and defaults, are not checked.
    """
    for name, member in list(vars(cls).items()):
        static = isinstance(member, staticmethod)
        function = member.__func__ if static else member
        public = name == "__init__" or not name.startswith("_")
        if public and inspect.isfunction(function) and function not in _BY_THEMSELVES:
            checking = _checking(function, static)
            setattr(cls, name, staticmethod(checking) if static else checking)
    return cls


def checks_before(method: Callable[..., Any]) -> dict[str, _Check]:
    """What `checked` has a method check before it runs, by parameter; nothing of other methods."""
    checks = _CHECKING.get(method)
    return {} if checks is None else checks()


def checks_of(function: Callable[..., Any]) -> dict[str, _Check]:
    """The checks that the annotations of a function ask for, by parameter."""
    hints = get_type_hints(function, include_extras=True)
    found = {
        name: _check(hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
        if name in hints and parameter.kind is not parameter.VAR_POSITIONAL
    }
    return {name: check for name, check in found.items() if check is not None}


def _check(hint: Any) -> _Check | None:
    origin, given = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        wanted = [each for each in given if each is not type(None)]
        if len(wanted) > 1:
            return _one_of(wanted)
        check = _check(*wanted)
        return None if check is None else lambda value, what: None if value is None else check(value, what)
    if origin is Annotated:
        hint, extra = given
        if isinstance(extra, SuchAs):
            wanted_class = get_origin(hint) or hint
            return lambda value, what: instance(value, wanted_class, what, extra.example)
        if isinstance(extra, MadeBy):
            return lambda value, what: _made(value, hint, what, extra.how)
        asked: _Check = extra
        return asked
    if hint in _BY_TYPE:
        return _BY_TYPE[hint]
    return _one_of([hint])


def _made(value: Any, wanted: type, what: str, how: str) -> None:
    if not isinstance(value, wanted):
        raise ArgumentTypeError(f"{what.rpartition(': ')[0]} is made by {how}")


def _one_of(classes: list[Any]) -> _Check | None:
    if not all(isinstance(each, type) and get_origin(each) is None for each in classes):
        return None
    if not {Any, int, float, str, bool, object}.isdisjoint(classes):
        return None
    return lambda value, what: instance(value, classes[0], what, "", *classes[1:])


def _checking(function: Callable[..., Any], static: bool) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters
    places = {
        name: sys.maxsize if parameter.kind is parameter.KEYWORD_ONLY else place
        for place, (name, parameter) in enumerate(parameters.items())
    }

    @functools.cache
    def checks() -> dict[str, _Check]:  # asked for late: annotations name classes that come later
        return checks_of(inspect.unwrap(function))

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        for name, check in checks().items():
            place, default = places[name], parameters[name].default
            value = arguments[place] if place < len(arguments) else named.get(name, default)
            if value is not default:
                check(value, f"{_called(function, () if static else arguments)}: {name}")
        return function(*arguments, **named)

    _CHECKING[call] = checks
    return call


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """Class and method; of the object that it is called on, where there is one."""
    owner, _, method = function.__qualname__.rpartition(".")
    if arguments:
        owner = type(arguments[0]).__qualname__
    return owner if method == "__init__" else f"{owner}.{method}"
