"""What stands here for the few Java objects behind PyFlink's that programs use to set options.

Each takes the Java methods that are written down in it and does with them what the Python object behind it does; every other
one is an error that names what to use. Nothing is accepted that has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any

from changelog_engine.config.names import names_of
from changelog_engine.errors import ArgumentTypeError, NotSupportedError

from .._unsupported import not_supported

if TYPE_CHECKING:
    from .configuration import Configuration

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def python_name(java_method: str) -> str:
    """The name of a method of Java as PyFlink writes it: ``set_parallelism`` for ``setParallelism``."""
    return _WORD.sub("_", java_method).lower()


def no_java_method(java_class: str, method: str, instead: str) -> NotSupportedError:
    """The error for a method of a Java object that is not here.

    Args:
        instead: what to use.
    """
    return no_java(f"{java_class}.{method}", "a method of a Java object", instead)


def no_java(name: str, what: str, instead: str) -> NotSupportedError:
    """The error for something of Java's that is not here.

    Args:
        what: its kind, such as "a Java class".
        instead: what to use.
    """
    return NotSupportedError(
        not_supported(name, f"is {what}, and Flink's Java process does not run here: use {instead}")
    )


class JavaObject:
    """Answers for a Java object by the Python object that has the same meaning."""

    java_class = ""
    same: frozenset[str] = frozenset()  # Java methods that the Python object has under its own name
    renamed: Mapping[str, str] = MappingProxyType({})  # those that it has under another one

    def __init__(self, python: Any) -> None:
        self._python = python

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        ours = self.renamed.get(name) or python_name(name)
        if name in self.same or name in self.renamed:
            return self._call(name, getattr(self._python, ours))
        has_it = callable(getattr(type(self._python), ours, None))
        owner = type(self._python).__name__
        instead = f"{owner}.{ours}() of Python" if has_it else f"the methods of {owner} of Python"
        raise no_java_method(self.java_class, name, instead)

    def _call(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            for each in arguments:
                if not isinstance(each, (str, bool, int, float, NoneType)):
                    raise ArgumentTypeError(
                        f"{self.java_class}.{name} takes str, bool, int and float here, got {each!r}"
                    )
            return self._given(method(*arguments))

        return call

    def _given(self, found: Any) -> Any:
        """What Java gives for what the Python method gave."""
        return self if found is self._python else found

    def __dir__(self) -> Iterable[str]:
        """The Java methods that are here."""
        return sorted({*super().__dir__(), *self.same, *self.renamed})


class JavaConfiguration(JavaObject):
    """Flink's Java Configuration behind one of Python: ``setString``, ``getInteger`` and so on, by keys."""

    java_class = "Configuration"
    _python: Configuration

    same = names_of(
        "setString setInteger setBoolean setFloat getString getInteger getBoolean getFloat containsKey keySet"
    )
    renamed = MappingProxyType(
        {
            "setLong": "set_integer",
            "setDouble": "set_float",
            "getLong": "get_integer",
            "getDouble": "get_float",
            "removeKey": "remove_config",
            "toMap": "to_dict",
        }
    )

    def addAll(self, other: JavaConfiguration, prefix: str | None = None) -> None:
        """Take over all entries of another Java configuration."""
        self._python.add_all(python_configuration(other, "Configuration.addAll"), prefix)

    def toString(self) -> str:
        """The entries as Flink shows them; secrets are hidden."""
        return str(self._python)

    __str__ = __repr__ = toString

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "set", "getValue", "getOptional"):
            raise no_java_method(
                self.java_class,
                name,
                "getString(key, default) or setString(key, value) with the option's key",
            )
        return super().__getattr__(name)


def python_configuration(given: Any, what: str) -> Configuration:
    """The Python configuration behind a Java one.

    Raises:
        ArgumentTypeError: anything else was given.
    """
    if not isinstance(given, JavaConfiguration):
        raise ArgumentTypeError(f"{what} needs the Java object of a Configuration, got {given!r}")
    return given._python
