"""What an error knows it has in fields: nobody reads it out of the message."""

from __future__ import annotations

import ast
import errno
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.memory_disk import MemoryDisk

from changelog_engine.errors import (
    CorruptChangelogError,
    EnvironmentNotReadyError,
    LostCommitError,
    NotLoggedError,
    StorageError,
)
from changelog_engine.spark.task import describe_failure, failure_of

ROOT = Path(__file__).resolve().parents[2]
READS = {
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "partition",
    "rpartition",
    "split",
    "find",
    "index",
}
ERRORS = {"error", "failure", "cause", "exception", "e"}
ALLOWED = {
    "api/datastream/data_stream.py": "PySpark's error of a missing data source, which has its condition in words only",
    "changelog_engine/connectors/cassandra/sink.py": "the driver says in words only that a node refuses a login",
    "changelog_engine/connectors/jdbc/dialects.py": "libpq says in words only why it was not let in",
    "changelog_engine/connectors/jdbc/session.py": "the first line, which is the same for all rows",
    "changelog_engine/driver/coordinator.py": "the first line, for the log",
    "changelog_engine/storage/obstore_client.py": "obstore's errors end with a dump of themselves, which is left out",
    "changelog_engine/state/rocksdb_store.py": "RocksDB's errors are plain Exceptions that say in words only what happened",
}


@pytest.mark.parametrize("kind", [CorruptChangelogError, LostCommitError, NotLoggedError])
def test_a_damaged_file_and_what_is_wrong_with_it(kind: type[CorruptChangelogError]) -> None:
    error = kind("has 3 rows, not 4", "/data/part-1.parquet")
    for found in (error, pickle.loads(pickle.dumps(error)), failure_of(describe_failure(error))):
        assert type(found) is kind
        assert (found.path, found.fault) == ("/data/part-1.parquet", "has 3 rows, not 4")
        assert str(found) == "/data/part-1.parquet has 3 rows, not 4"
    assert str(kind("a part came twice")) == "a part came twice"


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    disk = MemoryDisk(str(tmp_path))
    for number in (errno.ENOSPC, errno.EROFS, errno.EINVAL):
        disk.fail("create", number)
        with pytest.raises(StorageError) as caught:
            disk.storage().write_durable("part", b"")
        for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
            assert error.path == f"{tmp_path}/part"
            assert error.path in str(error)


def test_what_is_missing_and_what_to_do() -> None:
    error = EnvironmentNotReadyError("Spark needs Java", "Install it")
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert (found.fault, found.remedy, str(found)) == (
            "Spark needs Java",
            "Install it",
            "Spark needs Java. Install it",
        )


def _is_message(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "str"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id in ERRORS
    )


def parsed(source: str) -> Iterator[int]:
    """Lines that look into the message of an error."""
    if not re.search(
        rf"\bstr\(\s*({'|'.join(ERRORS)})\b", source
    ):  # not parsed in vain: all files are two seconds
        return
    for node in ast.walk(ast.parse(source)):
        reads = isinstance(node, ast.Attribute) and node.attr in READS and _is_message(node.value)
        looks = (
            isinstance(node, ast.Compare)
            and any(isinstance(each, ast.In | ast.NotIn) for each in node.ops)
            and any(
                _is_message(
                    each.func.value
                    if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
                    else each
                )
                for each in node.comparators
            )
        )
        matches = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"search", "match", "fullmatch", "findall"}
            and any(_is_message(each) for each in node.args)
        )
        if reads or looks or matches:
            yield node.lineno


def test_no_message_is_parsed() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for package in ("changelog_engine", "materializer", "api")
        for path in sorted((ROOT / package).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in ALLOWED
        for line in parsed(path.read_text())
    }
    assert not found, f"give the error a field: {sorted(found)}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("str(error).removeprefix(path)", [1]),
        ("if 'x' in str(error): pass", [1]),
        ("\nx = pattern.search(str(failure))", [2]),
        ("if any(w in str(error).lower() for w in words): pass", [1]),
        ("text = str(error)\nif error.path in paths: pass", []),
    ],
)
def test_parsing_is_found(source: str, lines: list[int]) -> None:
    assert list(parsed(source)) == lines
