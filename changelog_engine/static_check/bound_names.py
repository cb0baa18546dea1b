"""Which names the statements of a program bind."""

from __future__ import annotations

import ast
import builtins

from changelog_engine.config.names import names_of

# What may bind names that do not stand in the code, or asks which there are.
_AT_RUN_TIME = frozenset({"*", "exec", "eval", "globals", "locals", "vars", "dir", "builtins"})
# Other Pythons have them: where they stand, it depends on which one runs.
_ELSEWHERE = names_of("unicode basestring xrange long raw_input unichr buffer cmp WindowsError get_ipython")


def names_bound(body: list[ast.stmt]) -> frozenset[str]:
    """The names that statements bind, those of functions and classes below them left out."""
    found: set[str] = set()
    outer: set[str] = set()
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            outer.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update((each.asname or each.name.partition(".")[0]) for each in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found - outer)


def names_given_away(body: list[ast.stmt]) -> frozenset[str]:
    """The names that functions below statements assign by `global` or `nonlocal`."""
    nodes = (node for each in body for node in ast.walk(each))
    return frozenset(
        name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
    )


def bound_nowhere(file: ast.Module) -> frozenset[str]:
    """The names that the code of a file uses and that nothing in it binds, in no scope, nor Python itself."""
    bound: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(file):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bound.update(node.names)
        elif not isinstance(node, ast.keyword):  # definitions, parameters, imports, handlers, patterns
            given = [vars(node).get(field) for field in ("name", "asname", "arg", "rest")]
            bound.update(each.partition(".")[0] for each in given if isinstance(each, str))
    if (bound | used) & _AT_RUN_TIME:
        return frozenset()
    found = used - bound - _ELSEWHERE - vars(builtins).keys()
    return frozenset(name for name in found if not name.startswith("__"))
