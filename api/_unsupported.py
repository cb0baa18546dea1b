"""How names of PyFlink that this version does not have answer: with an error that says so.

They do not exist (``hasattr`` is False, there are no stubs); only the error is better than Python's own.
"""

from __future__ import annotations

import dis
import functools
import importlib
import pkgutil
import sys
from abc import ABCMeta
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from types import FrameType, MappingProxyType, ModuleType
from typing import Any

from changelog_engine.api_names import API, refuse_other_names
from changelog_engine.errors import ChangelogEngineError, NotSupportedError
from changelog_engine.launcher.pyflink_modules import PYFLINK_MODULES, is_pyflinks
from changelog_engine.nearest import did_you_mean, public_names

from ._reexports import elsewhere as names_from
from ._reexports import names_not_here, pythons, why_no_module, why_not

refuse_other_names(__name__)
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
_ALIKE = 0.62  # what names of modules are at least, from 0 to 1
_PART_OF_A_NAME = 0.2  # how much more alike two are of which one begins or ends with the other
_BESIDE = 0.1  # and of which both are in one package
_JAVAS_OWN = "_j_"  # how PyFlink's attributes begin that hold the Java object behind a Python one


class NotSupportedImportError(ChangelogEngineError, ImportError):
    """``from api... import name`` of something that PyFlink has and this version does not."""


def not_supported(what: str, why: str | None = None) -> str:
    """The sentence that all of these errors share.

    Args:
        what: is not here.
        why: the rest of the sentence, where there is more to say.
    """
    if why is not None:
        return f"{what} {why}; see docs/compatibility.md"
    return f"{what} is not part of this version of changelog-engine; see docs/compatibility.md"


def pyflinks(module: str) -> str:
    """The name that PyFlink has for a module of the API, and programs write."""
    return f"pyflink{module.removeprefix(API)}" if module.startswith(API) else module


def no_module(name: str) -> ImportError:
    """The error for a module of PyFlink's name that is not here."""
    if not is_pyflinks(name):
        return ModuleNotFoundError(f"No module named {name!r}{_module_instead(name)}", name=name)
    return NotSupportedImportError(not_supported(name, why_no_module(name)), name=name)


def _module_instead(name: str) -> str:
    """The end of a message about a module that nobody has: the one here whose own name is most like its own."""
    parent, _, last = name.lower().rpartition(".")

    def likeness(module: str) -> float:
        above, _, own = module.rpartition(".")
        part = own.startswith(last) or last.startswith(own) or own.endswith(last) or last.endswith(own)
        found = SequenceMatcher(None, last, own).ratio() + part * _PART_OF_A_NAME
        return found + (above == parent) * _BESIDE if found >= _ALIKE else 0.0

    of_both = PYFLINK_MODULES | {module.rpartition(".")[0] for module in PYFLINK_MODULES}
    nearest = max(sorted(of_both.intersection(pyflinks(each.__name__) for each in modules())), key=likeness)
    return f"; did you mean {nearest!r}?" if likeness(nearest) else ""


def where(module: ModuleType, name: str) -> str:
    """The end of a message about a public name that a module does not have: where it is, or the one most like it."""
    if name in homes():
        return f": from {homes()[name]} import {name}"
    of_that_name = [each for each in sorted(PYFLINK_MODULES) if each.endswith(f".{name}")]
    if of_that_name:
        return f": from {of_that_name[0].rpartition('.')[0]} import {name}"
    return did_you_mean(name, public_names(module))


@functools.cache
def homes() -> dict[str, str]:
    """The names that modules of the API export, each with the module, by PyFlink's name, from which people import it."""
    found: dict[str, str] = {}
    for module in sorted(modules(), key=lambda each: each.__name__.count(".")):
        if "._" not in module.__name__:
            for name in getattr(module, "__all__", ()):
                found.setdefault(name, pyflinks(module.__name__))
    return found


def modules() -> list[ModuleType]:
    """All modules of the API."""
    package = importlib.import_module(API)
    return [importlib.import_module(each.name) for each in pkgutil.walk_packages(package.__path__, f"{API}.")]


class _Missing(ABCMeta):
    """Lets a class answer for static methods that are not there. Below it a program may add ABC, as in PyFlink."""

    def __getattr__(cls, name: str) -> Any:
        raise _attribute_error(cls, name)


class NamesOfPyFlink(metaclass=_Missing):
    """Base of classes some of whose PyFlink methods are not in this version.

    A subclass lists them in ``_not_here``, or says of each why, as the end of a sentence that begins with the name.
    Of names that another class has, ``_elsewhere`` says how to get there.
    """

    _not_here: frozenset[str] | Mapping[str, str] = frozenset()
    _elsewhere: Mapping[str, str] = MappingProxyType({})

    def __getattr__(self, name: str) -> Any:
        raise _attribute_error(type(self), name)


def _attribute_error(owner: type, name: str) -> AttributeError:
    # object.__getattribute__ style lookup: no name may lead back into __getattr__.
    for base in owner.__mro__:
        missing = base.__dict__.get("_not_here", ())
        if name in missing:
            why = missing[name] if isinstance(missing, Mapping) else None
            return NotSupportedError(not_supported(f"{owner.__name__}.{name}", why))
    if name.startswith(_JAVAS_OWN):
        why = "is the Java object behind PyFlink's, and there is none here: use what the class itself has"
        return NotSupportedError(not_supported(f"{owner.__name__}.{name}", why))
    message = f"{owner.__name__!r} object has no attribute {name!r}"
    if not name.startswith("_"):
        elsewhere = getattr(owner, "_elsewhere", {}).get(name)
        message += did_you_mean(name, public_names(owner)) if elsewhere is None else f"; {elsewhere}"
    # With the name that is missing, Python would say once more what may be meant.
    return AttributeError(message, name="", obj=None)


def answer_for(module: ModuleType) -> None:
    """Let a module of the API answer for the names of PyFlink that it does not have; the import of each module calls it."""
    own = vars(module)
    own["__getattr__"] = _getattr(module.__name__)
    own["__dir__"] = lambda: sorted({*own, *own.get("__all__", ())})


def _getattr(module: str) -> Callable[[str], Any]:
    """Make a module's ``__getattr__``.

    Returns:
        A function that gives the names of other modules that PyFlink's has too, and raises for every other one:
        NotSupportedError for those that are not here, AttributeError for the rest.
    """
    missing = names_not_here(module)
    origins = names_from(module)
    below = {home for home in origins.values() if home.rpartition(".")[0] == module}

    def __getattr__(name: str) -> Any:
        if name in origins:
            return getattr(importlib.import_module(origins[name]), name)
        if f"{module}.{name}" in below:  # of a package that imports its modules at once they are attributes
            return importlib.import_module(f"{module}.{name}")
        why = why_not(name) or (why_no_module(module) if name in missing else None)
        own = pythons(name)
        if own is not None:
            why = f"is Python's own: {own}"
        # Python turns an AttributeError under "from module import name" into an ImportError without our
        # message.
        is_import = _is_import_from(sys._getframe(1))
        if name not in missing and why is None:
            if is_import and is_pyflinks(f"{pyflinks(module)}.{name}"):
                refusal = no_module(f"{pyflinks(module)}.{name}")
                raise refusal
            if is_import and not name.startswith("_"):
                hint = where(sys.modules[module], name)
                raise ImportError(f"cannot import name {name!r} from {pyflinks(module)!r}{hint}", name=module)
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        message = not_supported(f"{pyflinks(module)}.{name}", why)
        if is_import:
            raise NotSupportedImportError(message, name=module)
        raise NotSupportedError(message)

    return __getattr__


def _is_import_from(frame: FrameType) -> bool:
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] == _IMPORT_FROM
