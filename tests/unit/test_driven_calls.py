"""No iterator of ours drives what may be a user's function: a StopIteration out of it would end the loop without a word.

``list(map(function, values))`` takes a StopIteration that the function raises for the end of the values. A comprehension
passes it on, and is about as fast. What is driven all the same is one of a few of Python's own functions, or marked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "# drives our own code"
DRIVERS = {"map", "filter", "starmap", "takewhile", "dropwhile", "filterfalse"}
BY_KEY = {"groupby", "accumulate"}  # with a function as second argument
_CALLED = re.compile(rf"(?<![.\w])({'|'.join(DRIVERS | BY_KEY | {'iter'})})\s*\(|\bitertools\b")
SAFE = {"type", "len", "int", "float", "ord", "tuple", "is_", "operator.is_not", "math.isfinite"}
SAFE |= {
    "str.encode",
    "bytes.decode",
    "dict.values",
    "itemgetter(index)",
    "math.isinf",
    "zlib.crc32",
    "getrefcount",
    "orjson.dumps",
    "None",
}


def driven(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each call that drives a function which isn't known to be harmless."""
    if not _CALLED.search(source):  # not parsed in vain: all files are two seconds
        return
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if isinstance(called, ast.Attribute) and not (
            isinstance(called.value, ast.Name) and called.value.id == "itertools"
        ):
            continue
        if name in DRIVERS:
            function = ast.unparse(node.args[0])
        elif name in BY_KEY and (
            len(node.args) > 1 or {"key", "func"} & {each.arg for each in node.keywords}
        ):
            function = "by key"
        elif name == "iter" and len(node.args) == 2:
            function = "until a sentinel"
        else:
            continue
        if function not in SAFE and MARK not in lines[node.lineno - 1]:
            yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize("package", ["changelog_engine", "api", "materializer"])
def test_case_44_no_users_function_is_driven_by_an_iterator(package):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in driven(path.read_text())
    ]
    assert not found, "write a comprehension, or mark it if it can't be a user's:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "list(map(self.function.map, values))",
        "list(filter(keep, values))",
        "itertools.starmap(f, pairs)",
        "itertools.accumulate(values, f)",
        "itertools.groupby(values, key=f)",
        "iter(f, None)",
        "np.fromiter(map(f, values), int)",
    ],
)
def test_the_search_finds_them(source):
    assert list(driven(source))


@pytest.mark.parametrize(
    "source",
    ["[f(v) for v in values]", "stream.map(f)", "set(map(type, v))", f"map(f, v)  {MARK}", "iter(v)"],
)
def test_the_search_leaves_others(source):
    assert not list(driven(source))
