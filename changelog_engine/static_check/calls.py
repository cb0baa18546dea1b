"""Puts a program's calls to the API: whether the arguments fit, what the API says of them, what comes back.

Invariant: what is said of a call is what the API says, or Python about its signature.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from dataclasses import dataclass
from typing import Any

from changelog_engine.api_names import API
from changelog_engine.config import without_effect
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.static_check import answers, trial
from changelog_engine.static_check.findings import Level
from changelog_engine.static_check.imports import Say
from changelog_engine.static_check.reading import Reading
from changelog_engine.static_check.values import (
    UNKNOWN,
    Bound,
    Instance,
    Known,
    Missing,
    ProgramClass,
    ProgramFunction,
    ProgramObject,
    Value,
)
from changelog_engine.types import Row, TypeInformation, Types
from changelog_engine.types.foreign import name_of

_CONNECTOR = re.compile(r"'connector'\s*=\s*'([\w.-]+)'", re.IGNORECASE)
_PAGES = {"kafka": "KafkaSource and KafkaSink", "filesystem": "FileSource and FileSink", "jdbc": "JdbcSink"}
# By the annotation of a parameter, the function of the API that checks what it is given.
_CHECKS = {"TypeInformation | None": "type_info", "OutputType": "output_type"}
_BRINGS = ("add_python_file", "add_python_archive", "set_python_requirements")
_BRINGS_JARS = ("add_jars", "add_classpaths", "set_string")


@dataclass(frozen=True)
class Arguments:
    """What a call gives."""

    given: list[Value]  # in order
    named: dict[str, Value]
    more: bool = False  # there are others, behind a ``*``
    more_named: bool = False  # there are others, behind ``**``

    def every(self) -> list[Value]:
        """Those that can be seen."""
        return [*self.given, *self.named.values()]

    def objects(self) -> tuple[list[Any], dict[str, Any]] | None:
        """The arguments themselves; None unless the program says all of them."""
        if self.more or self.more_named or not all(_is_said(each) for each in self.every()):
            return None
        return [_object(each) for each in self.given], {n: _object(each) for n, each in self.named.items()}


class Calls:
    """The calls of one body of code."""

    def __init__(self, reading: Reading, say: Say, workers: bool) -> None:
        self._reading = reading
        self._say = say
        self._workers = workers

    def result(self, function: Value, arguments: Arguments, node: ast.Call) -> Value:
        """What a call gives, as far as is known."""
        match function:
            case Bound():
                return self._method(function, arguments, node)
            case Known() if answers.is_of_api(function.found) and callable(function.found):
                return self._function(function.found, arguments, node)
            case ProgramFunction():
                return self._programs(function, arguments, function.takes_self)
            case ProgramClass():
                return self._object(function, arguments)
            case Missing():
                self._sql(function, arguments, node)
                return function
            case _:
                return UNKNOWN

    def _method(self, method: Bound, arguments: Arguments, node: ast.Call) -> Value:
        what = f"{method.owner.__name__}.{method.name}"
        self._hand_over(arguments)
        if not self._fits(what, method.function, arguments, node, method.takes_self):
            return answers.returned(method.function, method.owner, method.exact)
        self._types(what, method, arguments, node)
        self._classes(what, arguments, node)
        self._reading.brings_files |= method.name in _BRINGS
        said = arguments.objects()
        try:
            if said is not None and not method.takes_self and trial.makes_values(method.function):
                return Known(method.function(*said[0], **said[1]))
            warnings = trial.tried(method, *said) if said is not None else []
        except ChangelogEngineError as error:
            self._say(Level.ERROR, node, str(error))
        except Exception as error:
            self._say(Level.NOTE, node, f"{what} could not be tried: {type(error).__name__}: {error}")
        else:
            for warning in warnings:
                jar = " See docs/compatibility.md, Programs" if method.name in _BRINGS_JARS else ""
                self._say(Level.WARNING, node, warning + jar)
            if not warnings:
                self._difference(what, method.function, node)
            self._key(method, said, node)
            self._needs(method.function, said, node)
            if isinstance(
                inspect.getattr_static(method.owner, method.name, None), staticmethod | classmethod
            ):
                self._needs(method.owner, said, node)
        if arguments.more or arguments.more_named:
            return answers.returned(method.function, method.owner, method.exact)
        return answers.given_back(method, arguments.given, arguments.named)

    def _function(self, function: Any, arguments: Arguments, node: ast.Call) -> Value:
        what = name_of(function)
        self._hand_over(arguments)
        fits = self._fits(what, function, arguments, node, False)
        said = arguments.objects() if fits else None
        if said is not None and trial.makes_values(function):
            try:
                made = function(*said[0], **said[1])
            except Exception as error:  # such as Python's of an abstract class
                self._say(Level.ERROR, node, str(error) or type(error).__name__)
            else:
                is_value = isinstance(made, (TypeInformation, Types, Row))
                return Known(made) if is_value else Instance(type(made))
        self._needs(function, said, node)
        if isinstance(function, type):
            return Instance(function)
        return answers.returned(function, None)

    def _fits(self, what: str, function: Any, arguments: Arguments, node: ast.Call, takes_self: bool) -> bool:
        if arguments.more or arguments.more_named:
            wrong = next((name for name in arguments.named if not answers.has_keyword(function, name)), None)
            problem = f"got an unexpected keyword argument {wrong!r}" if wrong else None
        else:
            problem = answers.bad_call(function, len(arguments.given), list(arguments.named), takes_self)
        if problem is not None:
            self._say(Level.ERROR, node, f"{what}(): {problem}")
        return problem is None

    def _types(self, what: str, method: Bound, arguments: Arguments, node: ast.Call) -> None:
        """Something else than the API says it takes, such as None or a type without its parentheses."""
        signature = answers.signature_of(method.function)
        if signature is None or arguments.more or arguments.more_named:
            return
        checks = importlib.import_module(f"{API}._arguments")
        bound = signature.bind(*[None] * method.takes_self, *arguments.given, **arguments.named)
        before = checks.checks_before(method.function)
        for name, value in bound.arguments.items():
            asked = _CHECKS.get(str(signature.parameters[name].annotation))
            check = before.get(name) if asked is None else getattr(checks, asked)
            default = signature.parameters[name].default
            if check is None or not isinstance(value, (Known, Bound)) or _object(value) is default:
                continue
            try:
                check(_object(value), f"{what}: {name}")
            except ChangelogEngineError as error:
                self._say(Level.ERROR, node, str(error))

    def _key(self, method: Bound, said: tuple[list[Any], dict[str, Any]] | None, node: ast.Call) -> None:
        """A key of a Configuration that nothing reads."""
        if method.owner.__name__ != "Configuration" or not method.name.startswith("set_") or said is None:
            return
        given, named = said
        key = given[0] if given else named.get("key")
        note = without_effect(key) if isinstance(key, str) else None
        if note is not None:
            self._say(Level.NOTE, node, note)

    def _classes(self, what: str, arguments: Arguments, node: ast.Call) -> None:
        """A class of a function where an object of it is due."""
        refuse = importlib.import_module(f"{API}.datastream._wrappers").refuse_class
        for each in arguments.every():
            cls = trial.stand_in(each) if isinstance(each, ProgramClass) else None
            if cls is not None:
                try:
                    refuse(cls, what)
                except ChangelogEngineError as error:
                    self._say(Level.ERROR, node, str(error))

    def _difference(self, what: str, function: Any, node: ast.Call) -> None:
        found = importlib.import_module(f"{API}._differences").difference_of(function)
        if found is not None:
            level = Level.WARNING if found.matters else Level.NOTE
            self._say(level, node, f"{what} {found.what}; docs/compatibility.md, {found.section}")

    def _needs(self, function: Any, said: tuple[list[Any], dict[str, Any]] | None, node: ast.Call) -> None:
        """A package that is not installed."""
        missing = importlib.import_module(f"{API}._needs").missing_for(function, said)
        if missing is not None:
            self._say(Level.ERROR, node, missing)

    def _hand_over(self, arguments: Arguments) -> None:
        """Functions that the API is given run in workers, and are called by it."""
        for each in arguments.every():
            if isinstance(each, ProgramFunction):
                self._reading.learnt.workers.add(id(each.node))
            elif isinstance(each, ProgramObject):
                self._reading.learnt.workers.add(id(each.cls.node))

    def _programs(self, function: ProgramFunction, arguments: Arguments, bound: bool) -> Value:
        if self._workers:
            self._reading.learnt.workers.add(id(function.node))
        names = [each.arg for each in (*function.node.args.posonlyargs, *function.node.args.args)]
        names = names[1:] if bound else names
        for name, value in [*zip(names, arguments.given, strict=False), *arguments.named.items()]:
            self._reading.learnt.parameter(id(function.node), name, value)
        if arguments.more or arguments.more_named:
            self._reading.learnt.escaped.add(id(function.node))
        return self._reading.before.results.get(id(function.node), UNKNOWN)

    def _object(self, cls: ProgramClass, arguments: Arguments) -> Value:
        start = next(
            (each.scope.ever["__init__"] for each in cls.line() if "__init__" in each.scope.ever), None
        )
        if isinstance(start, ProgramFunction):
            self._programs(start, arguments, bound=True)
        return ProgramObject(cls)

    def _sql(self, function: Missing, arguments: Arguments, node: ast.Call) -> None:
        for each in arguments.every():
            text = each.found if isinstance(each, Known) else None
            found = _CONNECTOR.search(text) if isinstance(text, str) else None
            if found is not None:
                instead = _PAGES.get(found[1].rpartition("-")[2])
                hint = f": use {instead} of the DataStream API" if instead else ""
                self._say(Level.ERROR, node, f"the SQL connector {found[1]!r} is the Table API's{hint}")


def _is_said(value: Value) -> bool:
    if isinstance(value, ProgramObject):
        return trial.stand_in(value.cls) is not None
    if isinstance(value, Instance):  # a builder in place of what it builds
        return value.exact and isinstance(answers.member(value, "build"), Bound)
    return isinstance(value, (Known, ProgramFunction)) or (isinstance(value, Bound) and not value.takes_self)


def _object(value: Value) -> Any:
    """What stands for a value in a call on trial."""
    match value:
        case Known():
            return value.found
        case Bound():
            return value.function
        case Instance():
            return object.__new__(value.cls)
        case ProgramObject():
            cls = trial.stand_in(value.cls)
            return None if cls is None else object.__new__(cls)
        case ProgramFunction(takes_self=False):
            return trial.stand_in_function(value.node)
        case _:
            return trial.FUNCTION  # a method, of an object or of its class
