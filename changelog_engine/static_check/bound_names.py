"""Which names the statements of a program bind."""

from __future__ import annotations

import ast


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
