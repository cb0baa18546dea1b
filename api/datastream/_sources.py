"""Turns what users pass as a source into what the engine runs."""

from __future__ import annotations

from typing import Any

from changelog_engine import connectors as engine
from changelog_engine.errors import ArgumentTypeError, NotSupportedError
from changelog_engine.types import TypeInformation

from .connectors.base import Source
from .functions import SourceFunction


def as_source(source: Any, what: str) -> engine.Source:
    """A Source, or an object with the engine's protocol, as a source of the engine.

    Raises:
        ConfigurationError: it is neither.
        NotSupportedError: the name of a Java class.
    """
    if isinstance(source, SourceFunction):
        raise ArgumentTypeError(f"{what} takes a Source; give this SourceFunction to add_source()")
    inner = source._source if isinstance(source, Source) else source
    _refuse_java(inner, what)
    if not isinstance(inner, engine.Source):
        hint = "; build() it" if hasattr(source, "build") else ""
        raise ArgumentTypeError(
            f"{what} needs a Source, or an object with bounded, parallel, output_type, splits() and "
            f"reader(), got {source!r}{hint}"
        )
    return inner


def as_source_function(source_func: Any, type_info: TypeInformation | None, what: str) -> engine.Source:
    """A SourceFunction, or what one would be made of, as a source of the engine.

    Raises:
        ConfigurationError: it is neither.
        NotSupportedError: the name of a Java class.
    """
    if isinstance(source_func, Source):
        raise ArgumentTypeError(
            f"{what} takes a SourceFunction; give this {type(source_func).__name__} to from_source()"
        )
    function = source_func._function if isinstance(source_func, SourceFunction) else source_func
    _refuse_java(function, what)
    if isinstance(function, engine.Source):
        return function
    return engine.IterableSource(function, type_info)


def _refuse_java(given: Any, what: str) -> None:
    if isinstance(given, str):
        raise NotSupportedError(
            f"{what}({given!r}): Java classes cannot be used in this engine; give a Python object"
        )
