"""Nothing asks an object whether it has a member, but for the places below: a base class says what may be left out.

A caller that looks for a member by its name hides what a class promises: the promise stands in prose, a name that is
misspelled is taken for one that was left out, and so is a member of an object that lost its class on the way.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBES = {"getattr", "hasattr"}

# Path, how many probings it has, and what they look at.
ALLOWED = {
    "changelog_engine/graph/hooks.py": (2, "the one place that looks for methods of what a user gives"),
    # Values of users, of any class.
    "changelog_engine/types/arrays.py": (1, "dicts and the like"),
    "changelog_engine/types/foreign.py": (
        4,
        "attributes, names and fields of users' objects; times of pandas, which have nanoseconds",
    ),
    "changelog_engine/codec/objects.py": (8, "pickling: modules, names and hooks of any class"),
    "changelog_engine/state/backends.py": (1, "a class, by its path"),
    "changelog_engine/state/changed_in_place.py": (
        2,
        "methods of a handle, by the names that its kind of state has",
    ),
    "changelog_engine/extension.py": (1, "a mark of the extension that an older one lacks"),
    # Modules and classes that are looked up by their names.
    "changelog_engine/api_names.py": (4, "modules and their loaders"),
    "changelog_engine/cli/program.py": (1, "a command, in the module that has it"),
    "changelog_engine/static_check/answers.py": (11, "what names of foreign modules and classes mean"),
    "changelog_engine/static_check/calls.py": (1, "checks by their names"),
    "changelog_engine/static_check/imports.py": (2, "what a module gives"),
    "changelog_engine/static_check/trial.py": (3, "methods of foreign classes"),
    "changelog_engine/static_check/walk.py": (
        2,
        "nodes of the ast module, of all classes; which methods a class of the API has",
    ),
    "changelog_engine/operators/failures.py": (
        1,
        "whether what a function returned can be iterated over by index",
    ),
    "changelog_engine/operators/two_inputs.py": (1, "the method that an input's kind names; all have it"),
    "api/_unsupported.py": (
        3,
        "what a module has under a name of PyFlink's, what it exports, and where a class says its other names are",
    ),
    "api/common/_java_objects.py": (2, "methods of Python, by the names that Java has for them"),
    "api/_differences.py": (1, "the mark of a method"),
    "api/_needs.py": (1, "the mark of a method"),
    "api/common/execution_config.py": (1, "all its getters, to compare"),
    "api/datastream/_job_names.py": (1, "how Python was started"),
    # Third parties.
    "changelog_engine/observing/live_line.py": (1, "what a stream has"),
    "api/datastream/_settings.py": (1, "what the operating system has"),
    "changelog_engine/connectors/jdbc/dialects.py": (
        2,
        "the codes of errors of sqlite3, what PyMySQL's are raised round",
    ),
    "changelog_engine/connectors/kinesis/clients.py": (
        1,
        "methods of boto3's client, which it makes as it is made",
    ),
    "changelog_engine/connectors/cassandra/fitting.py": (
        2,
        "types of Cassandra's driver; values of users: collections, objects for a user's type",
    ),
    "changelog_engine/connectors/rabbitmq/link.py": (2, "what pika's errors are raised round"),
    "changelog_engine/connectors/spark_frames.py": (2, "DataFrames: PySpark is not imported there"),
    "changelog_engine/spark/logs.py": (1, "the stream of a handler of the program's"),
    "changelog_engine/spark/jvm.py": (3, "whether py4j's gateway has a process; names of Scala"),
}


def probings(source: str) -> int:
    """How many calls of getattr and hasattr there are."""
    if not any(probe in source for probe in PROBES):  # not parsed in vain: all files are two seconds
        return 0
    return sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PROBES
        for node in ast.walk(ast.parse(source))
    )


def test_nothing_is_probed_but_what_is_foreign() -> None:
    found = Counter(
        {
            str(path.relative_to(ROOT)): count
            for package in ("changelog_engine", "materializer", "api")
            for path in sorted((ROOT / package).rglob("*.py"))
            if (count := probings(path.read_text()))
        }
    )
    allowed = Counter({path: count for path, (count, _) in ALLOWED.items()})
    assert not found - allowed, (
        "a member is looked for by its name: give the base class a default, use graph.hooks.hook_of for what a user gives, "
        f"or list the place with its reason: {dict(found - allowed)}"
    )
    assert not allowed - found, f"fewer are needed: {dict(allowed - found)}"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("getattr(x, 'a', None)\nhasattr(x, 'b')", 2),
        ("def __getattr__(self, name): return self.getattr(name)", 0),
        ("if getattr(getattr(x, 'a'), 'b'): pass", 2),
    ],
)
def test_probings_are_counted(source: str, count: int) -> None:
    assert probings(source) == count
