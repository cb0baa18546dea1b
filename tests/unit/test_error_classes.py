"""Programs written for PyFlink catch our errors by the classes that they know: bad calls, compared with what PyFlink raised.

What PyFlink raises lies in tests/support/bad_calls_pyflink.json; tests/support/bad_calls.py says how to make it again.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import json
import pickle
import re
from pathlib import Path
from typing import Any, NamedTuple

import py4j.protocol
import pytest
from support import bad_calls
from support.jobs import NO_RESTART, TestJob

from api import _unsupported
from changelog_engine import errors, launch
from changelog_engine.errors import (
    ChangelogEngineError,
    NotSupportedError,
)
from changelog_engine.graph.nodes import JobGraph, JobSettings

ROOT = Path(__file__).parents[2]
PYFLINK: dict[str, list[str]] = json.loads(
    (ROOT / "tests/support/bad_calls_pyflink.json").read_text(encoding="utf-8")
)
# What an ``except`` can name: Python's exceptions, and those of Py4J, which PyFlink lets through.
_KNOWN = {
    **vars(builtins),
    "Py4JError": py4j.protocol.Py4JError,
    "Py4JJavaError": py4j.protocol.Py4JJavaError,
}

# Calls that PyFlink refuses and that mean something here, with what they mean.
ACCEPTED = {
    "env.from_collection([None], Types.INT())": "None is a value of every type",
    "EmbeddedRocksDBStateBackend().set_options('no.such.Factory')": "refused when the job starts",
}

# Checks in api/ that look at a class and are about a value: it was read, or only known when the job is built.
ABOUT_VALUES = {
    (
        "api/datastream/_fields.py",
        "aggregation",
    ): "names of fields: which there are is up to the stream",
    (
        "api/datastream/_fields.py",
        "_check_number",
    ): "the number of a field that the stream does not have",
    ("api/datastream/formats/_json_schema.py", "convert"): "a document",
    ("api/datastream/formats/_json_schema.py", "_kind"): "a document",
    ("api/datastream/formats/_json_schema.py", "_find"): "a document",
    ("api/datastream/formats/avro.py", "_parsed"): "a document",
}


class _Ran:
    """A job that ran in this process and is over."""

    def __init__(self, graph: JobGraph, settings: JobSettings) -> None:
        self._job = TestJob("unused", checkpoint_interval_ms=None, changelog=False, restart=NO_RESTART)
        self._job.run(graph)

    def results(self, sink: int) -> list[Any]:
        return self._job.outputs.get(sink, [])

    def cancel(self) -> None:
        """It is over."""

    wait = close = finish = cancel


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start_job", _Ran)
    monkeypatch.setattr(launch, "run_job", _Ran)


def test_every_call_was_made_in_pyflink() -> None:
    assert list(PYFLINK) == list(bad_calls.CALLS)


class _Raise(NamedTuple):
    """A raise statement: where it stands, what it raises, and the condition that it stands under."""

    file: str
    function: str
    line: int
    raised: str
    condition: str


def _raises(file: Path) -> list[_Raise]:
    found: list[_Raise] = []

    def visit(node: ast.AST, function: str, condition: str) -> None:
        if isinstance(node, ast.FunctionDef):
            function, condition = node.name, ""
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = str(file.relative_to(ROOT))
            found.append(_Raise(name, function, node.lineno, ast.unparse(node.exc.func), condition))
        for child in ast.iter_child_nodes(node):
            within = isinstance(node, ast.If) and child in node.body
            visit(child, function, ast.unparse(node.test) if within else condition)  # type: ignore[attr-defined]

    visit(ast.parse(file.read_text(encoding="utf-8")), "", "")
    return found


@functools.cache
def _all_raises() -> list[_Raise]:
    return [found for file in sorted((ROOT / "api").rglob("*.py")) for found in _raises(file)]


_LOOKS_AT_A_CLASS = re.compile(r"\b(isinstance|callable|hasattr)\(")


def test_the_checks_of_the_api_are_found() -> None:
    assert len(_all_raises()) > 200
    assert sum(bool(_LOOKS_AT_A_CLASS.search(each.condition)) for each in _all_raises()) > 60


def test_case_58_every_check_of_the_api_raises_one_of_pythons_exceptions_too() -> None:
    """A wrong class is a TypeError, as in PyFlink; whatever else is one of Python's own, not Exception alone."""
    makers = {"_attribute_error": AttributeError}
    makers |= dict.fromkeys(["no_java", "no_java_method"], errors.NotSupportedError)
    own = {**vars(builtins), **vars(errors), **vars(_unsupported), **makers}
    bare, wrong = [], []
    for each in _all_raises():
        raised = own[each.raised]
        pythons = [cls for cls in raised.__mro__ if cls.__module__ == "builtins"]
        if pythons[0] is Exception:
            bare.append(each)
        about_values = (each.file, each.function) in ABOUT_VALUES
        if _LOOKS_AT_A_CLASS.search(each.condition) and not about_values and not issubclass(raised, _A_CLASS):
            wrong.append(each)
    assert not bare
    assert not wrong


# What a check of a class may raise: an error of type, or that there is no such thing here, or that the job cannot be.
_A_CLASS = (TypeError, NotSupportedError, errors.InvalidJobError, EOFError, StopIteration)


def _instances() -> list[ChangelogEngineError]:
    classes = [
        cls for cls in vars(errors).values() if inspect.isclass(cls) and issubclass(cls, ChangelogEngineError)
    ]
    return [cls("what happened") for cls in classes if "__init__" not in vars(cls)]


@pytest.mark.parametrize("error", _instances(), ids=lambda error: type(error).__name__)
def test_errors_travel_and_show_their_message(error: ChangelogEngineError) -> None:
    assert str(error) == "what happened"
    assert "what happened" in repr(error)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == "what happened"


def test_handlers_of_java_exceptions_read_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    """As programs for PyFlink do: except Py4JJavaError as error: print(error.java_exception.toString())."""
    with pytest.raises(py4j.protocol.Py4JJavaError) as caught:
        raise errors.JobExecutionError("the job failed")
    java = caught.value.java_exception
    assert java.getMessage() == java.getLocalizedMessage() == "the job failed"
    assert java.getCause() is None
    assert java.toString() == str(java) == "JobExecutionError: the job failed"
    java.printStackTrace()
    assert "JobExecutionError: the job failed" in capsys.readouterr().err


def calls_table() -> str:
    """The table of docs/errors.md."""
    lines = ["| call | PyFlink 1.20 raises | here |", "|---|---|---|"]
    for name, classes in PYFLINK.items():
        error = bad_calls.answer("api", name)
        if classes or error is not None:
            here = ACCEPTED.get(name, "nothing") if error is None else f"`{type(error).__name__}`"
            lines.append(f"| `{name}` | {f'`{classes[0]}`' if classes else 'nothing'} | {here} |")
    return "\n".join(lines)


def test_case_58_the_table_in_the_docs_is_that_of_the_code() -> None:
    """``python tests/unit/test_error_classes.py`` makes it anew."""
    assert _page().read_text(encoding="utf-8") == _page_with(calls_table())


def _page() -> Path:
    return ROOT / "docs/errors.md"


def _page_with(table: str) -> str:
    begin, end = "<!-- calls -->\n", "\n<!-- end of calls -->"
    text = _page().read_text(encoding="utf-8")
    return text[: text.index(begin) + len(begin)] + table + text[text.index(end) :]


@pytest.mark.parametrize("name", [name for name, classes in PYFLINK.items() if classes])
def test_case_58_what_pyflink_refuses_is_caught_by_the_same_except(name: str) -> None:
    error = bad_calls.answer("api", name)
    if name in ACCEPTED:
        assert error is None
        return
    assert error is not None, f"{name} is accepted; PyFlink raises {PYFLINK[name][0]}"
    for known in PYFLINK[name]:
        if known in _KNOWN and known != "Exception":
            assert isinstance(error, _KNOWN[known]), f"{name}: {error!r} is not a {known}"


if __name__ == "__main__":
    launch.start_job = launch.run_job = _Ran  # type: ignore[assignment]
    _page().write_text(_page_with(calls_table()), encoding="utf-8")
