"""Asks the API itself: which modules, names, members and parameters it has, and what it says of those it has not.

Invariants:
    * Nothing here lists what is or is not supported: modules are imported, names are asked for, signatures are bound, and
      the API's own errors are the answers.
    * Only the API's code runs, never the program's.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dis
import functools
import importlib
import inspect
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, get_overloads

from changelog_engine.api_names import API, PYFLINK, SHORT
from changelog_engine.errors import ChangelogEngineError, NotSupportedError
from changelog_engine.nearest import did_you_mean, public_names
from changelog_engine.static_check.values import PLAIN, UNKNOWN, Bound, Instance, Known, Value

_OURS = (API, "changelog_engine")
_SKIPPED = object()
# Modules whose classes only refuse what they lack.
_ANSWERS = (f"{API}._unsupported", "changelog_engine.types.java_members")


@dataclass(frozen=True)
class No:
    """It is not there."""

    message: str
    nobodys: bool = False  # whether PyFlink does not have it either, as far as is known


def is_api(module: str) -> bool:
    """Whether a name of a module is one of the API's; whether ``api`` is, the caller decides."""
    return any(module == top or module.startswith(f"{top}.") for top in (PYFLINK, API))


def own_name(module: str) -> str:
    """The API's own name of a module that a program calls ``pyflink.x`` or ``api.x``."""
    for top in (PYFLINK, SHORT):
        if module == top or module.startswith(f"{top}."):
            return API + module.removeprefix(top)
    return module


def is_of_api(found: Any) -> bool:
    """Whether an object is the API's, or of a class of the API."""
    module = getattr(found, "__module__", None) or type(found).__module__
    return module.startswith(_OURS) or type(found).__module__.startswith(_OURS)


def shown(module: ModuleType) -> str:
    """What programs call a module of the API."""
    return PYFLINK + module.__name__.removeprefix(API)


@functools.cache
def module(name: str) -> Known | No:
    """The module of the API that a program calls so."""
    ours = own_name(name)
    try:
        return Known(importlib.import_module(ours))
    except ModuleNotFoundError as error:
        if error.name is None or not ours.startswith(error.name):
            raise
    except ChangelogEngineError as error:
        return No(str(error))
    refusal = _unsupported().no_module(PYFLINK + ours.removeprefix(API))
    return No(str(refusal), nobodys=not isinstance(refusal, ChangelogEngineError))


def name_of(owner: ModuleType, name: str, asked: str) -> Value | No:
    """What ``from module import name`` gives, and ``module.name``."""
    try:
        return Known(getattr(owner, name))
    except NotSupportedError as error:
        return No(str(error))
    except AttributeError:
        pass
    if not name.startswith("_") and hasattr(owner, "__path__"):
        below = module(f"{owner.__name__}.{name}")
        if isinstance(below, Known) or not below.nobodys:
            return below
    return No(f"{asked!r} has no {name!r}{_unsupported().where(owner, name)}", nobodys=True)


def member(value: Known | Instance, name: str) -> Value | No:
    """What ``value.name`` gives."""
    if isinstance(value, Known) and isinstance(value.found, type):
        return _of_class(value.found, name)
    if isinstance(value, Known):
        return _of_instance(type(value.found), name, True)
    return _of_instance(value.cls, name, value.exact)


def no_collection(cls: type) -> str | None:
    """What an object of a class says when a program goes through it; None where that isn't known to fail."""
    if not issubclass(cls, importlib.import_module(f"{API}.datastream._not_a_collection").NotACollection):
        return None
    try:
        iter(object.__new__(cls))
    except ChangelogEngineError as error:
        return str(error)
    except TypeError:  # an abstract class has no objects
        pass
    return None


def _of_class(cls: type, name: str) -> Value | No:
    if name.startswith("__"):
        return UNKNOWN
    try:
        found = getattr(cls, name)
    except NotSupportedError as error:
        return No(str(error))
    except AttributeError:
        return No(_absent(f"class {cls.__name__!r}", cls, name))
    if isinstance(inspect.getattr_static(cls, name), (staticmethod, classmethod)):
        return Bound(cls, name, found, takes_self=False)
    return Known(found)


def _of_instance(cls: type, name: str, exact: bool) -> Value | No:
    if name.startswith("__"):
        return UNKNOWN
    found = inspect.getattr_static(cls, name, _SKIPPED)
    if isinstance(found, (staticmethod, classmethod)):
        return Bound(cls, name, getattr(cls, name), takes_self=False, exact=exact)
    if isinstance(found, FunctionType):
        return Bound(cls, name, found, exact=exact)
    if isinstance(found, property):
        return returned(found.fget, cls, exact)
    if found is not _SKIPPED:
        return UNKNOWN if inspect.isdatadescriptor(found) else Known(found)
    if name in _set_by_methods(cls) or name in _declared(cls):
        return UNKNOWN
    if not exact and any(hasattr(each, name) or name in _set_by_methods(each) for each in _below(cls)):
        return UNKNOWN
    return _refusal(cls, name)


def _refusal(cls: type, name: str) -> Value | No:
    blank: Any = None
    with contextlib.suppress(TypeError):  # an abstract class has none
        blank = object.__new__(cls)
    answer = inspect.getattr_static(cls, "__getattr__", None)
    try:
        getattr(blank, name) if blank is not None else answer and answer(blank, name)
    except NotSupportedError as error:
        return No(str(error))
    except AttributeError:
        if answer is not None and answer.__module__ not in _ANSWERS:
            return UNKNOWN  # the class has members of its own making, as rows have fields
    except Exception:
        return UNKNOWN
    return No(_absent(f"{cls.__name__!r} object", cls, name))


def _absent(what: str, cls: type, name: str) -> str:
    return f"{what} has no attribute {name!r}{did_you_mean(name, public_names(cls))}"


@functools.cache
def _set_by_methods(cls: type) -> frozenset[str]:
    """The attributes that methods of a class and of its bases set."""
    functions = (
        found for base in cls.__mro__ for found in vars(base).values() if isinstance(found, FunctionType)
    )
    return frozenset(
        step.argval
        for function in functions
        for step in dis.get_instructions(function)
        if step.opname == "STORE_ATTR"
    )


def _declared(cls: type) -> set[str]:
    return {name for base in cls.__mro__ for name in inspect.get_annotations(base)}


def _below(cls: type) -> list[type]:
    found: list[type] = cls.__subclasses__()
    return [*found, *(each for direct in found for each in _below(direct))]


def bad_call(function: Any, given: int, keywords: list[str], takes_self: bool) -> str | None:
    """What Python says of a call's arguments, by their number and names; None when they fit."""
    signature = signature_of(function)
    if signature is None:
        return None
    values = [None] * (given + takes_self)
    try:
        signature.bind(*values, **dict.fromkeys(keywords))
    except TypeError as error:
        near = ""
        if not all(has_keyword(function, name) for name in keywords):
            names = [
                each.name for each in signature.parameters.values() if each.kind is not each.POSITIONAL_ONLY
            ]
            near = f"; it has {', '.join(name for name in names if name != 'self') or 'none'}"
        return f"{error}{near}"
    return None


def has_keyword(function: Any, name: str) -> bool:
    """Whether a call may name a parameter so."""
    signature = signature_of(function)
    if signature is None:
        return True
    kinds = {each.name: each.kind for each in signature.parameters.values()}
    return name in kinds or inspect.Parameter.VAR_KEYWORD in kinds.values()


def signature_of(function: Any) -> inspect.Signature | None:
    """The signature of what a program may call; None when there is none to know."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def returned(function: Any, owner: type | None, exact: bool = True) -> Value:
    """What a function of the API gives, by its annotation."""
    function = getattr(function, "__func__", function)
    annotation = getattr(function, "__annotations__", {}).get("return")
    return annotated(annotation, globals_of(function), owner, exact)


def given_back(method: Bound, given: list[Value], named: dict[str, Value]) -> Value:
    """What a call of a method gives: where its annotations depend on the arguments, by those that these fit."""
    for each in get_overloads(method.function):
        try:
            bound = inspect.signature(each).bind(None, *given, **named)
        except TypeError:
            continue
        wanted = {
            name: annotated(bound.signature.parameters[name].annotation, globals_of(each), None)
            for name in bound.arguments
        }
        if all(
            _is_a(bound.arguments[name], promised)
            for name, promised in wanted.items()
            if isinstance(promised, Instance)
        ):
            return returned(each, method.owner, method.exact)
    return returned(method.function, method.owner, method.exact)


def _is_a(value: Any, wanted: Instance) -> bool:
    return isinstance(value, Instance) and issubclass(value.cls, wanted.cls)


def globals_of(function: Any) -> dict[str, Any]:
    """The names that a function's annotations are written with."""
    found: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    return found


def annotated(annotation: Any, names: dict[str, Any], owner: type | None, exact: bool = True) -> Value:
    """The value that an annotation of the API's code promises."""
    if isinstance(annotation, type):
        return _promised(annotation)
    if annotation is None or not isinstance(annotation, str):
        return PLAIN if annotation is None else UNKNOWN
    return _by_text(ast.parse(annotation, mode="eval").body, names, owner, exact)


def _by_text(node: ast.expr, names: dict[str, Any], owner: type | None, exact: bool) -> Value:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return _by_text(ast.parse(node.value, mode="eval").body, names, owner, exact)
        return Known(None) if node.value is None else UNKNOWN
    if isinstance(node, ast.BinOp):
        sides = [_by_text(side, names, owner, exact) for side in (node.left, node.right)]
        others = [side for side in sides if side != Known(None)]
        return others[0] if len(others) == 1 else UNKNOWN
    if isinstance(node, ast.Subscript):
        return _by_text(node.value, names, owner, exact)
    if isinstance(node, ast.Name) and node.id == "Self":
        return UNKNOWN if owner is None else Instance(owner, exact)
    found = _named(node, names)
    return _promised(found) if isinstance(found, type) else UNKNOWN


def _named(node: ast.expr, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_named(node.value, names), node.attr, None)
    if not isinstance(node, ast.Name):
        return None
    return names.get(node.id, classes().get(node.id, vars(builtins).get(node.id)))


def _promised(cls: type) -> Value:
    if not cls.__module__.startswith(_OURS):
        return PLAIN if cls.__module__ == "builtins" else UNKNOWN
    return Instance(cls, exact=not cls.__subclasses__())


@functools.cache
def classes() -> dict[str, type]:
    """Every class of the API by its name, ``Outer.Inner`` of one inside another; of a name that several have, none."""
    found: dict[str, type | None] = {}
    for module in _modules():
        for name, each in vars(module).items():
            if isinstance(each, type) and each.__module__.startswith(_OURS):
                found[name] = each if found.get(name, each) is each else None
                found |= {
                    f"{name}.{inner}": below for inner, below in vars(each).items() if _is_inside(below, each)
                }
    return {name: each for name, each in found.items() if each is not None}


def _is_inside(found: Any, outer: type) -> bool:
    return isinstance(found, type) and found.__qualname__ == f"{outer.__qualname__}.{found.__name__}"


def homes() -> dict[str, str]:
    """The names that modules of the API export, each with the module, by PyFlink's name, from which people import it."""
    found: dict[str, str] = _unsupported().homes()
    return found


def _modules() -> list[ModuleType]:
    found: list[ModuleType] = _unsupported().modules()
    return found


def _unsupported() -> ModuleType:
    return importlib.import_module(f"{API}._unsupported")


@functools.cache
def member_names() -> frozenset[str]:
    """The methods that streams and environments have: a call of one on an unknown value may be the API's."""
    plain = {name for cls in (str, bytes, list, dict, set, tuple, int, float) for name in dir(cls)}
    ours = {
        name
        for cls in classes().values()
        if cls.__module__.startswith(f"{API}.datastream")
        for name in vars(cls)
        if not name.startswith("_")
    }
    return frozenset(ours - plain)
