"""Hooks: methods that what a user gives may have, or not. The one place that looks whether it does.

Sources, sinks and state backends inherit base classes whose defaults stand in for what a class leaves out. Functions, key
selectors, serializers and the like may be anything with the right methods, as in PyFlink, so there is no default to inherit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

_Hook = TypeVar("_Hook", bound=Callable[..., Any])


def does_nothing(hook: _Hook) -> _Hook:
    """Marks a hook of a base class: whoever does not override it need not be called."""
    hook.does_nothing = True  # type: ignore[attr-defined]
    return hook


def hook_of(given: Any, name: str) -> Callable[..., Any] | None:
    """A method of an object; None when it has none, or only a base class's that does nothing."""
    found = getattr(given, name, None)
    return found if callable(found) and getattr(found, "does_nothing", False) is not True else None


def pairs_of(entries: Any) -> Iterable[tuple[Any, Any]]:
    """The pairs of a dict, of anything else with ``items()``, or of an iterable of pairs."""
    items = hook_of(entries, "items")
    pairs: Iterable[tuple[Any, Any]] = entries if items is None else items()
    return pairs
