"""Functions that travel by value keep the file and the line that errors show, whichever version of cloudpickle is there."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import CodeType
from typing import Any

import cloudpickle
import pytest

from changelog_engine.codec import by_value

OUTER = """
def outer():
    def inner(value):
        return 1 / value
    return inner
"""


def as_from_3_1_3_on(code: CodeType) -> tuple[Any, ...]:
    return CodeType, (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals, code.co_stacksize, code.co_flags,
        code.co_code, code.co_consts, code.co_names, code.co_varnames, "<dynamic-code>", code.co_name, code.co_qualname,
        code.co_firstlineno, code.co_linetable, code.co_exceptiontable, code.co_freevars, code.co_cellvars,
    )  # fmt: skip


@pytest.mark.parametrize("newer", [False, True])
def test_a_function_keeps_its_file_and_its_lines(newer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if newer:
        monkeypatch.setitem(cloudpickle.Pickler.dispatch_table, CodeType, as_from_3_1_3_on)
    found: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(OUTER, "/home/ann/job.py", "exec"), found)
    outer, inner = pickle.loads(by_value.dumps((found["outer"], found["outer"]())))
    for code in (outer.__code__, inner.__code__, outer().__code__):
        assert code.co_filename == "/home/ann/job.py"
    assert inner.__code__.co_firstlineno == 3
    assert inner.__code__.co_qualname == "outer.<locals>.inner"
    assert inner(2) == 0.5


def test_nothing_else_pickles_by_value() -> None:
    """Another call of cloudpickle.dumps would lose the file's name again."""
    root = Path(__file__).resolve().parents[2]
    calls = [
        str(path.relative_to(root))
        for folder in ("changelog_engine", "materializer", "api")
        for path in (root / folder).rglob("*.py")
        if "cloudpickle.dumps(" in path.read_text(encoding="utf-8")
    ]
    assert calls == ["api/serializers.py"], "CloudPickleSerializer, which users call, is PyFlink's"
