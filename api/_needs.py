"""Marks on the API's classes and methods that need a package which is installed with an extra: `run --check` reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from changelog_engine.api_names import refuse_other_names
from changelog_engine.connectors.packages import Package

refuse_other_names(__name__)
_MARK = "__needs__"
F = TypeVar("F", bound=Callable[..., Any])


def needs(package: Package | Callable[..., Package | None]) -> Callable[[F], F]:
    """Mark a class, of which objects or static methods need a package; or a method.

    Args:
        package: which; or a function of the method's arguments that says which, if any.
    """

    def marked(function: F) -> F:
        setattr(function, _MARK, package)
        return function

    return marked


def missing_for(function: Any, arguments: tuple[list[Any], dict[str, Any]] | None) -> str | None:
    """What to say where the package that a call needs is not installed.

    Args:
        function: a class or a method of the API.
        arguments: of the call; None where they are not known.
    """
    found = getattr(function, _MARK, None)
    if found is not None and not isinstance(found, Package):
        found = None if arguments is None else found(*arguments[0], **arguments[1])
    return None if found is None or found.is_here() else found.advice
