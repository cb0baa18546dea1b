"""Follows the values of one body of code (a module's, a function's) from its imports to the API's calls.

Invariants:
    * Each use of the API that can be followed is put to the API itself (`answers`, `calls`); its refusal is the finding.
    * Code after a branch knows what both branches agree on.
"""

from __future__ import annotations

import ast
import builtins
import enum
from types import ModuleType

from changelog_engine.nearest import did_you_mean
from changelog_engine.static_check import answers, guards
from changelog_engine.static_check.answers import No
from changelog_engine.static_check.bound_names import names_bound, names_given_away
from changelog_engine.static_check.calls import Arguments, Calls
from changelog_engine.static_check.findings import Finding, Level
from changelog_engine.static_check.imports import Imports
from changelog_engine.static_check.operators import folded, negated
from changelog_engine.static_check.reading import Reading, SourceFile
from changelog_engine.static_check.values import (
    PLAIN,
    UNKNOWN,
    Bound,
    Foreign,
    Instance,
    Known,
    Missing,
    ProgramClass,
    ProgramFunction,
    ProgramModule,
    ProgramObject,
    Scope,
    Value,
    joined,
)
from changelog_engine.static_check.workers import in_worker, when_imported
from changelog_engine.types import Row

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_OF_SEVERAL = frozenset(
    (
        *("process_element", "process_element1", "process_element2", "process_broadcast_element", "on_timer"),
        *("process", "apply", "flat_map", "flat_map1", "flat_map2"),
    )
)
"""The methods that give any number of elements."""
_MUTABLE = (list, dict, set)
_GO_THROUGH = frozenset(
    (
        *("list", "tuple", "set", "dict", "sorted", "sum", "max", "min", "len"),
        *("enumerate", "zip", "iter", "next", "any", "all", "map", "filter"),
    )
)
_PATH_CALLS = ("sys.path.append", "sys.path.insert", "sys.path.extend", "site.addsitedir")


def module_of(reading: Reading, source: SourceFile) -> ProgramModule:
    """A module of the program, read when it is imported first."""
    known = reading.modules.get(source.name)
    if known is None:
        body = source.tree.body
        scope = reading.scope_of(source)
        scope.local, scope.given_away = frozenset(), names_given_away(body)
        known = reading.modules[source.name] = ProgramModule(source.name, scope, source.folder)
        Walk(reading, source, scope).body(body)
    return known


def function_of(reading: Reading, function: ProgramFunction, source: SourceFile, workers: bool) -> None:
    """The body of a function, when what is round it has been read."""
    node = function.node
    workers = workers or id(node) in reading.before.workers
    body: list[ast.stmt] = [ast.Expr(node.body)] if isinstance(node, ast.Lambda) else node.body
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    names = frozenset(each.arg for each in (*every, *rest))
    scope = Scope(function.scope, local=names_bound(body) | names, given_away=names_given_away(body))
    walk = Walk(reading, source, scope, function, workers)
    for index, each in enumerate(every):
        scope.give(each.arg, walk.parameter(function, index, each))
    for each in rest:
        scope.give(each.arg, PLAIN)
    walk.body(body)


class Walk:
    """Reads statements in their order: those of a function's body, of a module's where it is None."""

    def __init__(
        self,
        reading: Reading,
        source: SourceFile,
        scope: Scope,
        function: ProgramFunction | None = None,
        workers: bool = False,
    ) -> None:
        self._reading = reading
        self._source = source
        self._scope = scope
        self._function = function
        self._workers = workers
        self._guards: list[guards.Guard] = []
        self._muted = 0
        self._imports = Imports(
            reading, source, lambda each: module_of(reading, each), self._say, function is not None
        )
        self._calls = Calls(reading, self._say, workers)

    # Statements

    def body(self, statements: list[ast.stmt]) -> None:
        """Read statements one after the other."""
        for each in statements:
            self._statement(each)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import():
                self._imports.plain(node, self._scope)
            case ast.ImportFrom():
                self._imports.named(node, self._scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._scope.give(node.name, self._defined(node))
            case ast.ClassDef():
                self._scope.give(node.name, self._class(node))
            case ast.Assign():
                value = self._value(node.value)
                for target in node.targets:
                    self._bind(target, value, node.value)
            case ast.AnnAssign():
                value = self._annotated(node.annotation) if node.value is None else self._value(node.value)
                self._bind(node.target, value, node.value)
            case ast.AugAssign():
                self._result(node.value)
                self._bind(node.target, UNKNOWN, None)
            case ast.Return():
                value = Known(None) if node.value is None else self._value(node.value)
                self._one_in_place_of_several(node, value)
                self._returned(value)
            case ast.If():
                self._if(node)
            case ast.For() | ast.AsyncFor():
                items = self._gone_through(node.iter)
                element = PLAIN if isinstance(items, Foreign) and items.name else UNKNOWN
                self._loop(node.target, element, node.body, node.orelse)
            case ast.While():
                self._result(node.test)
                self._loop(None, UNKNOWN, node.body, node.orelse)
            case ast.Try() | ast.TryStar():
                self._try(node)
            case ast.With() | ast.AsyncWith():
                self._with(node)
            case ast.Match():
                self._match(node)
            case _:
                self._children(node)

    def _children(self, node: ast.AST) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                self._value(each)
            elif isinstance(each, ast.stmt):
                self._statement(each)
            else:
                self._children(each)

    def _returned(self, value: Value) -> None:
        if self._function is not None:
            self._reading.learnt.result(id(self._function.node), value)

    def _if(self, node: ast.If) -> None:
        text = ast.unparse(node.test)
        if text.rpartition(".")[2] == "TYPE_CHECKING":
            self._muted += 1  # nothing below it runs; its names stand in annotations
            self.body(node.body)
            self._muted -= 1
            self.body(node.orelse)
            return
        if text in ("__name__ == '__main__'", "'__main__' == __name__"):
            self.body(node.body if self._source.name == "__main__" else node.orelse)
            return
        self._result(node.test)
        self._branches([node.body, node.orelse])

    def _branches(self, bodies: list[list[ast.stmt]]) -> None:
        before = dict(self._scope.now)
        after = []
        for body in bodies:
            self._scope.now = dict(before)
            self.body(body)
            if not (body and isinstance(body[-1], _ENDS)):
                after.append(self._scope.now)
        self._scope.merge(after or [before])

    def _loop(
        self, target: ast.expr | None, element: Value, body: list[ast.stmt], otherwise: list[ast.stmt]
    ) -> None:
        before = dict(self._scope.now)
        self._muted += 1  # once for what the names are in the second round
        self._round(target, element, body)
        self._muted -= 1
        self._scope.merge([before, self._scope.now])
        entered = dict(self._scope.now)
        self._round(target, element, body)
        self._scope.merge([entered, self._scope.now])
        self.body(otherwise)

    def _round(self, target: ast.expr | None, element: Value, body: list[ast.stmt]) -> None:
        if target is not None:
            self._bind(target, element, None)
        self.body(body)

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        before = dict(self._scope.now)
        self._guarded(guards.guard_of(node), node.body)
        tried = dict(self._scope.now)
        self.body(node.orelse)
        after = [] if node.body and isinstance(node.body[-1], _ENDS) else [self._scope.now]
        for handler in node.handlers:
            self._scope.merge([before, tried])
            if handler.name:
                self._scope.give(handler.name, UNKNOWN)
            self.body(handler.body)
            if not (handler.body and isinstance(handler.body[-1], _ENDS)):
                after.append(self._scope.now)
        self._scope.merge(after or [tried])
        self.body(node.finalbody)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self._value(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, value, None)
        self._guarded(guards.guard_of_with(node), node.body)

    def _guarded(self, guard: guards.Guard | None, body: list[ast.stmt]) -> None:
        if guard is not None:
            self._guards.append(guard)
        self.body(body)
        if guard is not None:
            self._guards.pop()

    def _match(self, node: ast.Match) -> None:
        self._value(node.subject)
        for case in node.cases:
            for each in ast.walk(case.pattern):
                match each:
                    case (
                        ast.MatchAs(name=str(name))
                        | ast.MatchStar(name=str(name))
                        | ast.MatchMapping(rest=str(name))
                    ):
                        self._scope.give(name, UNKNOWN)
        self._branches([*(case.body for case in node.cases), []])

    def _bind(self, target: ast.expr, value: Value, node: ast.expr | None) -> None:
        match target:
            case ast.Name():
                self._scope.give(target.id, _at_rest(value))
            case ast.Tuple() | ast.List():
                values = node.elts if isinstance(node, (ast.Tuple, ast.List)) else []
                for index, each in enumerate(target.elts):
                    exact = len(values) == len(target.elts) and not isinstance(each, ast.Starred)
                    part = self._value(values[index]) if exact else UNKNOWN
                    inner = each.value if isinstance(each, ast.Starred) else each
                    self._bind(inner, part, values[index] if exact else None)
            case ast.Attribute():
                owner = self._value(target.value)
                if isinstance(owner, ProgramObject):
                    self._reading.learnt.attribute(id(owner.cls.node), target.attr, _at_rest(value))
            case _:
                self._children(target)

    # Functions and classes

    def _one_in_place_of_several(self, node: ast.Return, value: Value) -> None:
        """A function whose results the engine goes through returns text or a number."""
        function = self._function
        if function is None or isinstance(function.node, ast.Lambda) or function.owner is None:
            return
        method = function.node.name
        overrides = any(hasattr(base, method) for base in function.owner.api_bases())
        if method not in _OF_SEVERAL or not overrides or _yields(function.node.body):
            return
        if isinstance(node.value, ast.JoinedStr) or (isinstance(value, Known) and type(value.found) is str):
            self._say(
                Level.WARNING,
                node,
                f"{method} returns a str, and each of its characters becomes an element, as in Flink: yield it",
            )
        elif isinstance(value, Known) and type(value.found) in (int, float):
            self._say(
                Level.ERROR,
                node,
                f"{method} returns {value.found!r}, which is not iterable: yield it, or return a list",
            )

    def _defined(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ProgramClass | None = None
    ) -> Value:
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)):
            self._value(default)
        decorators = [ast.unparse(each) for each in node.decorator_list]
        for each in node.decorator_list:
            self._value(each)
        function = ProgramFunction(
            node, self._scope, owner, owner is not None and "staticmethod" not in decorators
        )
        workers = self._workers or (owner is not None and self._runs_in_workers(owner, node.name))
        self._reading.waiting.append((function, self._source, workers))
        return function if all(each in ("staticmethod", "classmethod") for each in decorators) else UNKNOWN

    def _runs_in_workers(self, owner: ProgramClass, method: str) -> bool:
        marked = id(owner.node) in self._reading.before.workers
        return method != "__init__" and (marked or bool(owner.api_bases()))

    def _class(self, node: ast.ClassDef) -> Value:
        bases = tuple(self._value(each) for each in node.bases)
        for part in (*node.decorator_list, *(keyword.value for keyword in node.keywords)):
            self._value(part)
        scope = Scope(self._scope, is_class=True, given_away=names_given_away(node.body))
        cls = ProgramClass(node, scope, bases)
        inner = Walk(self._reading, self._source, scope, self._function, self._workers)
        inner._muted, inner._guards = self._muted, self._guards
        for each in node.body:
            if isinstance(each, _FUNCTIONS):
                scope.give(each.name, inner._defined(each, cls))
            else:
                inner._statement(each)
        return cls

    def parameter(self, function: ProgramFunction, index: int, node: ast.arg) -> Value:
        """What a function is given: by what it overrides, by its callers, or by its annotation."""
        if function.takes_self and index == 0 and function.owner is not None:
            is_class = isinstance(function.node, _FUNCTIONS) and any(
                ast.unparse(each) == "classmethod" for each in function.node.decorator_list
            )
            return function.owner if is_class else ProgramObject(function.owner)
        overridden = _overridden(function, index)
        if overridden != UNKNOWN:
            return overridden
        before = self._reading.before
        if id(function.node) not in before.escaped:
            called = before.parameters.get((id(function.node), node.arg), UNKNOWN)
            if called != UNKNOWN:
                return called
        return UNKNOWN if node.annotation is None else self._annotated(node.annotation)

    def _annotated(self, node: ast.expr) -> Value:
        """What an annotation of the program promises; a class below it may come too."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return UNKNOWN
        if isinstance(node, ast.Subscript):
            several = ast.unparse(node.value).endswith(("Optional", "Union"))
            return UNKNOWN if several else self._annotated(node.value)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return UNKNOWN
        self._muted += 1
        value = self._value(node)
        self._muted -= 1
        if isinstance(value, Known) and isinstance(value.found, type):
            return Instance(value.found, exact=False)
        return ProgramObject(value) if isinstance(value, ProgramClass) else UNKNOWN

    # Expressions

    def _value(self, node: ast.expr, called: bool = False) -> Value:
        match node:
            case ast.Constant():
                return Known(node.value)
            case ast.Name():
                return self._handed_on(self._named(node), called)
            case ast.Attribute():
                return self._handed_on(self._attribute(node, self._value(node.value)), called)
            case ast.Call():
                return self._call(node)
            case ast.Lambda():
                function = ProgramFunction(node, self._scope)
                self._reading.waiting.append((function, self._source, self._workers))
                return function
            case ast.List() | ast.Tuple() | ast.Set():
                return _collected(node, [self._value(each) for each in node.elts])
            case ast.Dict():
                keys = [UNKNOWN if each is None else self._value(each) for each in node.keys]
                return _mapping(keys, [self._value(each) for each in node.values])
            case ast.IfExp():
                self._result(node.test)
                return joined(self._value(node.body), self._value(node.orelse))
            case ast.BoolOp():
                values = [self._result(each) for each in node.values]
                return values[0] if all(each == values[0] for each in values) else UNKNOWN
            case ast.BinOp():
                return folded(node.op, self._result(node.left), self._result(node.right))
            case ast.UnaryOp():
                return negated(node.op, self._result(node.operand))
            case ast.Subscript():
                self._value(node.slice)
                return _part(self._gone_through(node.value))
            case ast.NamedExpr():
                value = self._value(node.value)
                self._bind(node.target, value, node.value)
                return value
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.Compare():
                for each in (node.left, *node.comparators):
                    self._result(each)
                return PLAIN
            case ast.FormattedValue():
                self._result(node.value)
                if node.format_spec is not None:
                    self._value(node.format_spec)
                return PLAIN
            case ast.JoinedStr():
                self._children(node)
                return PLAIN
            case _:
                self._children(node)
                return UNKNOWN

    def _gone_through(self, node: ast.expr) -> Value:
        """What stands where a collection is wanted."""
        value = self._value(node)
        self._refuse_stream(value, node)
        return value

    def _refuse_stream(self, value: Value, node: ast.expr) -> None:
        said = answers.no_collection(value.cls) if isinstance(value, Instance) else None
        if said is not None:
            self._say(Level.ERROR, node, said)

    def _result(self, node: ast.expr) -> Value:
        """What is compared, tested, shown or reckoned with: a method of the API there was to be called."""
        value = self._value(node)
        if isinstance(value, Bound) and value.takes_self:
            name = f"{value.owner.__name__}.{value.name}"
            self._say(
                Level.ERROR, node, f"{name} is a method, and is not called here: write {value.name}(...)"
            )
            return UNKNOWN
        return value

    def _named(self, node: ast.Name) -> Value:
        value = self._scope.find(node.id)
        if value is None:
            if node.id in vars(builtins):
                return Foreign(node.id)
            return self._starred(node)
        if isinstance(value, Missing):
            self._missing(value, node)
        self._look(value, node)
        return value

    def _starred(self, node: ast.Name) -> Value:
        """A name that nothing binds, in a program that imports all names of a module: it may have relied on that."""
        for module in self._scope.stars():
            found = answers.name_of(module, node.id, answers.shown(module))
            if isinstance(found, No) and found.nobodys:
                continue
            write = f"write from {answers.shown(module)} import {node.id}"
            problem = found.message if isinstance(found, No) else write
            self._say(
                Level.ERROR,
                node,
                f"'from {answers.shown(module)} import *' does not bring {node.id!r}: {problem}",
            )
            return Missing(node.id)
        home = answers.homes().get(node.id)
        if home is not None and self._scope.stars():
            self._say(
                Level.ERROR, node, f"name {node.id!r} is not defined: write from {home} import {node.id}"
            )
            return Missing(node.id)
        return self._unbound(node) if node.id in self._source.bound_nowhere else PLAIN

    def _unbound(self, node: ast.Name) -> Value:
        if (self._source.path, node.id) in self._reading.missing_at:
            self._missing(Missing(node.id), node)
            return Missing(node.id)
        near = did_you_mean(node.id, self._scope.names())
        said = f"name {node.id!r} is not defined, and nothing in this file defines it{near}"
        return self._reading.missing(node.id, self._say(Level.ERROR, node, said))

    def _handed_on(self, value: Value, called: bool) -> Value:
        if isinstance(value, ProgramFunction) and not called:
            self._reading.learnt.escaped.add(id(value.node))
        return value

    def _attribute(self, node: ast.Attribute, value: Value) -> Value:
        name = node.attr
        match value:
            case Missing():
                return value
            case Foreign():
                found: Value = Foreign(f"{value.name}.{name}") if value.name else PLAIN
                self._look(found, node)
                return found
            case Known() if isinstance(value.found, ModuleType):
                owner = answers.shown(value.found)
                return self._answered(answers.name_of(value.found, name, owner), name, node)
            case Known() if not answers.is_of_api(value.found):
                return PLAIN
            case Known() | Instance():
                return self._answered(answers.member(value, name), name, node)
            case ProgramModule():
                return self._imports.below(value, name)
            case ProgramClass():
                return self._of_class(value, name, node)
            case ProgramObject():
                known = self._set(value.cls, name)
                return self._of_class(value.cls, name, node) if known is None else known
            case _:
                return UNKNOWN

    def _set(self, cls: ProgramClass, name: str) -> Value | None:
        """What methods set an attribute of their object to."""
        for each in cls.line():
            known = self._reading.before.attributes.get((id(each.node), name))
            if known is not None:
                return known
        return None

    def _of_class(self, cls: ProgramClass, name: str, node: ast.Attribute) -> Value:
        for each in cls.line():
            if name in each.scope.ever:
                return each.scope.ever[name]
        found: Value = UNKNOWN
        for base in cls.api_bases():
            answer = answers.member(Instance(base, exact=False), name)
            if not isinstance(answer, No):
                return answer
        return found

    def _answered(self, found: Value | No, name: str, node: ast.expr) -> Value:
        place = (self._source.path, node.lineno, node.col_offset, name)
        if not self._muted:
            self._reading.report.uses.add(place)
        if isinstance(found, No):
            return self._reading.missing(name, self._say(Level.ERROR, node, found.message))
        return found

    def _call(self, node: ast.Call) -> Value:
        function = self._value(node.func, called=True)
        given = [self._value(each.value if isinstance(each, ast.Starred) else each) for each in node.args]
        named = {each.arg: self._value(each.value) for each in node.keywords}
        arguments = Arguments(
            given,
            {name: value for name, value in named.items() if name is not None},
            any(isinstance(each, ast.Starred) for each in node.args),
            None in named,
        )
        if isinstance(function, Foreign):
            if function.name in _GO_THROUGH and given:
                self._refuse_stream(given[-1 if function.name in ("map", "filter") else 0], node)
            self._reading.path_changes |= function.name in _PATH_CALLS
            self._look(Foreign(f"{function.name}()"), node)
            is_name = function.name and function.name in ("sys.exit", "exit", "quit")
            return PLAIN if is_name else Foreign(f"{function.name}()" if function.name else "")
        if function == UNKNOWN and isinstance(node.func, ast.Attribute):
            if node.func.attr in answers.member_names() and not self._muted:
                self._reading.report.unknown.add((self._source.path, node.lineno, node.col_offset))
            return UNKNOWN
        return self._calls.result(function, arguments, node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer = self._scope
        self._scope = Scope(outer)
        if not outer.is_class:
            self._scope.now = dict(outer.now)
            self._scope.local, self._scope.starred = outer.local, outer.starred
            self._scope.parent = outer.parent
        for each in node.generators:
            self._gone_through(each.iter)
            self._bind(each.target, UNKNOWN, None)
            for test in each.ifs:
                self._value(test)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._value(part)
        self._scope = outer
        return UNKNOWN

    # What is said

    def _missing(self, value: Missing, node: ast.expr) -> None:
        if not self._muted:
            self._reading.missing_in.setdefault((self._source.path, value.name), set()).add(node.lineno)

    def _look(self, value: Value, node: ast.expr) -> None:
        """Whether something means something else where this code runs."""
        if not isinstance(value, Foreign):
            return
        if self._workers:
            said = in_worker(value.name)
        elif self._function is None and self._source.name != "__main__":
            said = when_imported(value.name)
        else:
            said = None
        if said is not None:
            self._say(Level.WARNING, node, said)

    def _may_not_run(self) -> bool:
        """Whether this is a lambda that the program hands on to others than the API: they may catch its errors."""
        return (
            self._function is not None and isinstance(self._function.node, ast.Lambda) and not self._workers
        )

    def _say(self, level: Level, node: ast.AST, message: str) -> Finding | None:
        if self._muted:
            return None
        is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        if level is Level.ERROR and any(guard.catches(is_import) for guard in self._guards):
            level, message = Level.NOTE, f"{message} (the script catches the error)"
        elif level is Level.ERROR and self._may_not_run():
            level, message = Level.NOTE, f"{message} (if this is called)"
        return self._reading.add(level, self._source, getattr(node, "lineno", 1), message)


def _yields(body: list[ast.stmt]) -> bool:
    """Whether this is the body of a generator."""
    waiting: list[ast.AST] = [*body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return False


def _overridden(function: ProgramFunction, index: int) -> Value:
    """By the method of the API that a method overrides, what a parameter is."""
    node = function.node
    if function.owner is None or isinstance(node, ast.Lambda):
        return UNKNOWN
    for base in function.owner.api_bases():
        method = answers.member(Instance(base, exact=False), node.name)
        signature = answers.signature_of(method.function) if isinstance(method, Bound) else None
        if signature is None or not isinstance(method, Bound):
            continue
        parameters = list(signature.parameters.values())
        if index < len(parameters):
            names = answers.globals_of(method.function)
            found = answers.annotated(parameters[index].annotation, names, base)
            return Instance(found.cls, exact=False) if isinstance(found, Instance) else PLAIN  # an element
    return UNKNOWN


def _at_rest(value: Value) -> Value:
    """A value with a name: what can be changed may be something else by the time it is used."""
    if isinstance(value, Known) and isinstance(value.found, Row):
        return Instance(Row)
    return PLAIN if isinstance(value, Known) and isinstance(value.found, _MUTABLE) else value


def _part(value: Value) -> Value:
    """What ``value[...]`` is."""
    if isinstance(value, Known) and isinstance(value.found, type):
        # A member, or a class with types.
        return Instance(value.found) if issubclass(value.found, enum.Enum) else value
    return value if isinstance(value, (Missing, ProgramClass)) else UNKNOWN


def _collected(node: ast.List | ast.Tuple | ast.Set, values: list[Value]) -> Value:
    if any(isinstance(each, ast.Starred) for each in node.elts):
        return UNKNOWN
    items = [each.found for each in values if isinstance(each, Known)]
    if len(items) < len(values):
        return PLAIN if all(isinstance(each, (Known, Foreign)) for each in values) else UNKNOWN
    if isinstance(node, ast.List):
        return Known(items)
    return Known(tuple(items)) if isinstance(node, ast.Tuple) else PLAIN


def _mapping(keys: list[Value], values: list[Value]) -> Value:
    pairs = [
        (key.found, value.found)
        for key, value in zip(keys, values, strict=True)
        if isinstance(key, Known) and isinstance(key.found, (str, int)) and isinstance(value, Known)
    ]
    return Known(dict(pairs)) if len(pairs) == len(keys) else UNKNOWN
