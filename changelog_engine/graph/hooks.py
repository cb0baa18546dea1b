"""Hooks: methods that what a user gives may have, or not. The one place that looks whether it does.

Sources, sinks and state backends inherit base classes whose defaults stand in for what a class leaves out. Functions, key
selectors, serializers and the like may be anything with the right methods, as in PyFlink, so there is no default to inherit.
"""

from __future__ import annotations

import dis
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from changelog_engine.errors import ArgumentTypeError
from changelog_engine.types.foreign import attributes_of
from changelog_engine.whose_code import calling_line

log = logging.getLogger("changelog_engine")
_Hook = TypeVar("_Hook", bound=Callable[..., Any])


def does_nothing(hook: _Hook) -> _Hook:
    """Marks a hook of a base class: whoever does not override it need not be called."""
    hook.does_nothing = True  # type: ignore[attr-defined]
    return hook


def hook_of(given: Any, name: str) -> Callable[..., Any] | None:
    """A method of an object; None when it has none, or only a base class's that does nothing."""
    found = getattr(given, name, None)
    return found if callable(found) and getattr(found, "does_nothing", False) is not True else None


def is_async(call: Any) -> bool:
    """Whether a call only makes a coroutine or an asynchronous generator, of which nothing runs until it is awaited."""
    calls = call, hook_of(call, "__call__")
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in calls)


def refuse_async(call: Any, name: str, what: str) -> None:
    """Refuse an ``async def`` where results are taken as they are: what it does would not be done.

    Args:
        what: class and method that it was given to, for messages.
    """
    if is_async(call):
        raise ArgumentTypeError(
            f"{what}: {name} is declared 'async def', and nothing awaits it here: declare it with 'def'. To ask outside "
            "systems without waiting for each answer, see AsyncDataStream (docs/async.md)"
        )


def refuse_deferred(call: Any, name: str, what: str) -> None:
    """As ``refuse_async``, where there is one result: a generator would be that result, and nothing of it would run.

    Raises:
        ArgumentTypeError: it is declared ``async def``, or has a ``yield``.
    """
    refuse_async(call, name, what)
    if any(inspect.isgeneratorfunction(each) for each in (call, hook_of(call, "__call__"))):
        raise ArgumentTypeError(
            f"{what}: {name} has a 'yield', so that a call makes a generator, and nothing goes through that here: return "
            "the one result. To give several of an element, or none, use flat_map() or process()"
        )


def warn_of_no_result(call: Any, what: str, outcome: str) -> None:
    """Say so when a function whose result is taken has no ``return`` with a value, as PyFlink does not.

    A lambda has its one result before everybody's eyes. Code that cannot be read is taken to return something.

    Args:
        what: class and method that it was given to.
        outcome: what becomes of the elements.
    """
    plain = call.__func__ if inspect.ismethod(call) else call
    if inspect.isfunction(plain) and plain.__name__ != "<lambda>" and _returns_only_none(plain):
        log.warning(
            "%s: %s() has no 'return' with a value, so %s (%s)",
            what,
            plain.__qualname__,
            outcome,
            calling_line(),
        )


def _returns_only_none(function: Any) -> bool:
    """Whether a function comes to an end, and each end gives None."""
    ends, before = [], None
    for step in dis.get_instructions(function):
        if step.opname.startswith("RETURN_"):
            given = before if step.opname == "RETURN_VALUE" else step
            ends.append(
                given is not None and given.opname in ("LOAD_CONST", "RETURN_CONST") and given.argval is None
            )
        before = step
    return bool(ends) and all(ends)


def bulk_of(given: Any, name: str) -> Callable[[list[Any]], list[Any]] | None:
    """What does for a list what a method does for one value, in less time; None where there is nothing for that.

    It is the method of that name and ``_all``, beside the other one in the class that has it: one that overrides the other
    alone is called for each value.

    Example:
        >>> class Texts:
        ...     def read(self, value):
        ...         return value.decode()
        ...     def read_all(self, values):
        ...         return [value.decode() for value in values]
        >>> class Loud(Texts):
        ...     def read(self, value):
        ...         return value.decode().upper()
        >>> bulk_of(Texts(), "read")([b"a", b"b"]), bulk_of(Loud(), "read")
        (['a', 'b'], None)
    """
    if name in attributes_of(given):
        return None
    bulk = f"{name}_all"
    owner = next((each for each in type(given).__mro__ if name in vars(each) or bulk in vars(each)), None)
    if owner is None or not {name, bulk} <= vars(owner).keys():
        return None
    return hook_of(given, bulk)


def pairs_of(entries: Any) -> Iterable[tuple[Any, Any]]:
    """The pairs of a dict, of anything else with ``items()``, or of an iterable of pairs."""
    items = hook_of(entries, "items")
    pairs: Iterable[tuple[Any, Any]] = entries if items is None else items()
    return pairs
