"""How names of PyFlink that this version does not have answer: with an error that says so.

They do not exist (``hasattr`` is False, there are no stubs); only the error is better than Python's own.
"""

from __future__ import annotations

import difflib
import dis
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

from changelog_engine.errors import ChangelogEngineError, NotSupportedError

_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


class NotSupportedImportError(ChangelogEngineError, ImportError):
    """``from api... import name`` of something that PyFlink has and this version does not."""


def not_supported(what: str) -> str:
    """The sentence that all of these errors share."""
    return f"{what} is not part of this version of changelog-engine; see docs/compatibility.md"


class _Missing(type):
    """Lets a class answer for static methods that are not there."""

    def __getattr__(cls, name: str) -> Any:
        raise _attribute_error(cls, name)


class NamesOfPyFlink(metaclass=_Missing):
    """Base of classes some of whose PyFlink methods are not in this version.

    A subclass lists them in ``_not_here``.
    """

    _not_here: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        raise _attribute_error(type(self), name)


def _attribute_error(owner: type, name: str) -> AttributeError:
    # object.__getattribute__ style lookup: no name may lead back into __getattr__.
    for base in owner.__mro__:
        if name in base.__dict__.get("_not_here", ()):
            return NotSupportedError(not_supported(f"{owner.__name__}.{name}"))
    message = f"{owner.__name__!r} object has no attribute {name!r}"
    near = difflib.get_close_matches(name, [known for known in dir(owner) if not known.startswith("_")], n=1)
    if near and not name.startswith("_"):
        message += f"; did you mean {near[0]!r}?"
    return AttributeError(message)


def module_getattr(
    module: str, not_here: Iterable[str], elsewhere: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Make a module's ``__getattr__``.

    Args:
        module: its name.
        not_here: names that the module of the same path has in PyFlink.
        elsewhere: names that it has too, with the modules they come from, which are loaded when asked for.

    Returns:
        A function that gives the names from elsewhere, and raises for every other one: NotSupportedError for
        those that are not here, AttributeError for the rest.
    """
    missing = frozenset(not_here)
    origins = dict(elsewhere or {})

    def __getattr__(name: str) -> Any:
        if name in origins:
            return getattr(importlib.import_module(origins[name]), name)
        if name not in missing:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        message = not_supported(f"{module}.{name}")
        # Python turns an AttributeError under "from module import name" into an ImportError without our
        # message.
        if _is_import_from(sys._getframe(1)):
            raise NotSupportedImportError(message, name=module)
        raise NotSupportedError(message)

    return __getattr__


def _is_import_from(frame: FrameType) -> bool:
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] == _IMPORT_FROM
