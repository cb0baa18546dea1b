"""What a program does about errors of its own accord: a line that may fail, and is ready for it, is not an error."""

from __future__ import annotations

import ast
from dataclasses import dataclass

_IMPORTS = frozenset({"ImportError", "ModuleNotFoundError"})
_BROAD = frozenset({"", "Exception", "BaseException"})
_OTHERS = frozenset(
    {"AttributeError", "NotSupportedError", "ChangelogEngineError", "TypeError", "ValueError"}
)
_SMALL = 2  # statements: as many are a question, more are the program


@dataclass(frozen=True)
class Guard:
    """A ``try`` round some lines."""

    names: frozenset[str]  # of the exceptions that it catches; empty text is every one
    small: bool  # whether it is round a few statements only

    def catches(self, is_import: bool) -> bool:
        """Whether a line below it is ready to fail."""
        if is_import:
            return bool(self.names & _IMPORTS) or (self.small and bool(self.names & _BROAD))
        return bool(self.names & _OTHERS) or (self.small and not self.names <= _IMPORTS)


def guard_of(node: ast.Try | ast.TryStar) -> Guard | None:
    """The guard that a ``try`` is; None without handlers."""
    if not node.handlers:
        return None
    names = frozenset(name for handler in node.handlers for name in _names(handler.type))
    return Guard(names, len(node.body) <= _SMALL)


def guard_of_with(node: ast.With | ast.AsyncWith) -> Guard | None:
    """The guard that ``suppress(...)`` or ``raises(...)`` is; None for other contexts."""
    calls = (item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call))
    for call in calls:
        if ast.unparse(call.func).rpartition(".")[2] in ("suppress", "raises", "assertRaises"):
            return Guard(frozenset(name for each in call.args for name in _names(each)), small=True)
    return None


def _names(node: ast.expr | None) -> list[str]:
    if node is None:
        return [""]
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    return [ast.unparse(each).rpartition(".")[2] for each in nodes]
