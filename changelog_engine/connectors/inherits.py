"""Refuses, with what is missing, an object that does not inherit the base class that the engine needs."""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import ArgumentTypeError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types.typeinfo import a_class, shown


def check_inherits(given: Any, demand: str, *bases: type) -> None:
    """Raise unless an object inherits a base class.

    Args:
        demand: who wants it, and a verb: ``env.from_source needs``, ``LinesSource.reader() must return``.
        bases: abstract classes, any of which will do.

    Raises:
        ArgumentTypeError: it inherits none; the message names the base classes, and what the object lacks of them.
    """
    if isinstance(given, bases):
        return
    wanted = " or ".join([a_class(base) for base in bases])
    if isinstance(given, type) and issubclass(given, bases):
        raise ArgumentTypeError(
            f"{demand} {wanted}, got the class {given.__name__}: give an object, {given.__name__}(...)"
        )
    if hook_of(given, "build") is not None:
        raise ArgumentTypeError(f"{demand} {wanted}, got {shown(given)}; build() it")
    base, missing = min(((base, _missing(given, base)) for base in bases), key=lambda each: len(each[1]))
    inherited = f"{base.__module__.rpartition('.')[0]}.{base.__name__}"
    lacks = f", and has no {' and no '.join(f'{name}()' for name in missing)}" if missing else ""
    raise ArgumentTypeError(
        f"{demand} {wanted}, got {shown(given)}: the class {type(given).__name__} does not inherit {inherited}{lacks}"
    )


def _missing(given: Any, base: type) -> list[str]:
    there = set(dir(given))
    abstract: frozenset[str] = base.__abstractmethods__  # type: ignore[attr-defined] # bases are abstract classes
    return sorted(abstract - there)
