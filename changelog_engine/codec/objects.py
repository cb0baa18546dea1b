"""Taking objects apart and putting them together for canonical text, by pickle's protocol without its bytes.

Pickle's bytes are not an identity: they depend on which equal strings are one object. The parts that
``__reduce_ex__`` names do not. Classes are named, as pickle does; those of the user's main module are found
where the job's functions brought them.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import sys
from typing import Any

import cloudpickle

from changelog_engine.api_names import long_name, short_name
from changelog_engine.errors import NotSerializableError
from changelog_engine.types.typeinfo import shown

_PROTOCOL = 4  # 5 may give out-of-band buffers
# Classes that names alone do not lead to: a worker has the main module's classes without the module.
_seen: dict[str, Any] = {}


def reduce_parts(value: Any) -> str | tuple[Any, Any, Any, Any, Any]:
    """Function, arguments, state, list items and dict items of an object, or the name of a global.

    Raises:
        NotSerializableError: the object does not tell.
    """
    try:
        own = copyreg.dispatch_table.get(type(value))
        parts = own(value) if own is not None else value.__reduce_ex__(_PROTOCOL)
    except RecursionError:
        raise
    except Exception as error:
        raise _unusable(value, str(error)) from error
    if isinstance(parts, str):
        return _text_of(_module_of(value) or "builtins", parts)
    function, arguments, state, items, pairs, setter = (*parts, None, None, None, None)[:6]
    if setter is not None:
        raise _unusable(value, "its class sets its state in a way of its own")
    return (
        function,
        arguments,
        state,
        None if items is None else tuple(items),
        None if pairs is None else tuple(pairs),
    )


def rebuild(function: Any, arguments: Any, state: Any, items: Any, pairs: Any) -> Any:
    """The object from its parts."""
    made = function(*arguments)
    if state is not None:
        _set_state(made, state)
    for item in items or ():
        made.append(item)
    for key, item in pairs or ():
        made[key] = item
    return made


def _set_state(made: Any, state: Any) -> None:
    setter = getattr(made, "__setstate__", None)
    if setter is not None:
        setter(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        made.__dict__.update(state)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)


def name_of_global(value: Any) -> str | None:
    """``module:qualified.name`` of a class or function that can be found by it, else None."""
    module, name = _module_of(value), getattr(value, "__qualname__", None)
    if module is None or not isinstance(name, str):
        return None
    found = _text_of(module, name)
    try:
        same = bool(_find(module, name) == value)
    except (ImportError, AttributeError):
        same = False
    if not same:
        if not isinstance(value, type):
            return None
        _seen[found] = value
    return found


def global_named(name: str) -> Any:
    """The class or function of a name.

    Raises:
        NotSerializableError: the class or function cannot be imported.
    """
    module, _, path = name.partition(":")
    try:
        return _find(long_name(module) if _is_of_api(module, path) else module, path)
    except (ImportError, AttributeError) as error:
        found = _seen.get(name) or _shipped(module, path)
        if found is None:
            raise NotSerializableError(
                f"the class {path!r} of a key is not found in module {module!r}: {error}; put the classes of "
                "keys into a module that workers can import, or use tuples as keys"
            ) from None
        return found


def _text_of(module: str, path: str) -> str:
    """The name in a key's text: of the API's classes the short one, as in every table so far, for it is their identity."""
    short = short_name(module)
    if short == module and _is_of_api(module, path):
        raise NotSerializableError(
            f"{module}.{path} of your own package cannot be in a key: changelog-engine's {long_name(module)} has a class of "
            "this name, which keys in the changelog call so; rename yours, or use tuples as keys"
        )
    return f"{short}:{path}"


@functools.cache
def _is_of_api(module: str, path: str) -> bool:
    """Whether a name in a key's text is the API's, not that of somebody else's ``api``."""
    if long_name(module) == module:
        return False
    try:
        _find(long_name(module), path)
    except (ImportError, AttributeError):
        return False
    return True


def _find(module: str, path: str) -> Any:
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for step in path.split("."):
        found = getattr(found, step)
    return found


def _shipped(module: str, path: str) -> Any:
    """A class that came to this process by value, with the user's functions."""
    known = getattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_ID", None) or {}
    for found in list(known.values()):
        if getattr(found, "__module__", None) == module and found.__qualname__ == path:
            return found
    return None


def _module_of(value: Any) -> str | None:
    module = getattr(value, "__module__", None)
    if module is None:  # a class method in C
        module = getattr(getattr(value, "__self__", None), "__module__", None)
    return module if isinstance(module, str) else None


def _unusable(value: Any, why: str) -> NotSerializableError:
    return NotSerializableError(
        f"{shown(value)} of type {type(value).__name__} cannot be a key: {why}; "
        "use numbers, text or tuples of them"
    )
