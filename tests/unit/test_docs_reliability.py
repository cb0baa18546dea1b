"""docs/reliability.md has every case, the tests that it names exist, and they name the case."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "reliability.md").read_text()
CASES = range(1, 44)  # of the first list; later ones may come in any number


class Row(NamedTuple):
    """A row of the page."""

    case: int
    tests: list[str]
    words: str


def rows() -> list[Row]:
    found = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].isdecimal():
            assert len(cells) == 4, line
            names = re.findall(r"`([^`]+)`", cells[2])
            rest = re.sub(r"`[^`]+`", "", cells[2]).strip()
            assert rest in ("", "not covered"), f"{rest!r} in the row of case {cells[0]}"
            found.append(Row(int(cells[0]), names, f"{rest} {cells[3]}"))
    return found


@cache
def about_tests(path: str) -> dict[str, str]:
    """The tests of a file: name (with its class) to all the words that say what it is about."""
    tree = ast.parse((TESTS / path).read_text())
    about = ast.get_docstring(tree) or ""
    found = {}
    for node in tree.body:
        inside = (
            [(f"{node.name}::", each) for each in node.body]
            if isinstance(node, ast.ClassDef)
            else [("", node)]
        )
        for prefix, each in inside:
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test_"):
                found[f"{prefix}{each.name}"] = " ".join([each.name, ast.get_docstring(each) or "", about])
    return found


def numbers(words: str) -> set[int]:
    """Cases that words name: ``case 7``, ``cases_7_8_x``, ``reliability 7, 8``, ``Cases 1, 3 to 5 and 8``."""
    found: set[int] = set()
    listed = r"(?:cases?|reliability)[ _]((?:\d+(?:, | and | to |_|, with (?=\d)|: )?)+)"
    for each in re.findall(listed, words, re.IGNORECASE):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", each):
            found.update(range(int(first), int(last or first) + 1))
    return found


def test_numbers() -> None:
    assert numbers("test_cases_16_32_a_restore_reads_each_file_once") == {16, 32}
    assert numbers("Reliability, log: cases 1, 3 to 5 and 8, on files") == {1, 3, 4, 5, 8}
    assert numbers("(reliability 9, 10)") == {9, 10}
    assert numbers("Reliability case 30; 5 files") == {30}
    assert numbers("in that case the 7 files") == set()


def test_every_case_has_a_row() -> None:
    found = [row.case for row in rows()]
    assert len(set(found)) == len(found)
    assert set(CASES) <= set(found)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"case {row.case}")
def test_the_tests_of_a_case_exist_and_one_names_it(row: Row) -> None:
    if not row.tests:
        assert row.words.startswith("not covered ")
        assert len(row.words) > len("not covered ") + 10, "why not?"
        return
    named: set[int] = set()
    for name in row.tests:
        path, _, test = name.partition("::")
        assert (TESTS / path).is_file(), name
        assert test in about_tests(path), name
        named |= numbers(about_tests(path)[test])
    assert row.case in named, f"no test names case {row.case}"


def test_tests_that_name_a_case_in_their_name_are_listed() -> None:
    """A case's tests are found from the page; each row names one file's tests of it at least."""
    listed = {name.partition("::")[2] for row in rows() for name in row.tests}
    for path in sorted(TESTS.rglob("test_*.py")):
        cases: dict[int, set[str]] = {}
        for test in about_tests(str(path.relative_to(TESTS))):
            for case in numbers(test):
                cases.setdefault(case, set()).add(test)
        for case, tests in cases.items():
            assert tests & listed, f"case {case}: none of {sorted(tests)} of {path.name} is on the page"
