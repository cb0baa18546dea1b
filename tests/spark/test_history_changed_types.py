"""State history across a change of a state's type: each checkpoint in its own type, one history over both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.programs import Program, Versions

from api.common.typeinfo import Types
from api.datastream.state import ListStateDescriptor, ValueStateDescriptor
from changelog_engine import history

pytestmark = pytest.mark.slow


def states(kept: Any, migration: Any = None) -> Any:
    """A value and a list of a type."""

    def make() -> list[Any]:
        found = [ValueStateDescriptor("value", kept), ListStateDescriptor("list", kept)]
        return [one.set_migration(migration) for one in found] if migration else found

    return make


def test_history_shows_each_checkpoint_in_its_own_type(spark: SparkSession, tmp_path: Path) -> None:
    """Values of the earlier type that the newest can't show are null in the history, with their text beside."""
    versions = Versions(tmp_path)
    versions.run(Program(states(Types.STRING()), lambda number: f"n{number}"), epochs=2)
    versions.run(Program(states(Types.LONG(), lambda text: int(text[1:])), int), epochs=1)
    opened = history.open(spark, str(tmp_path / "job"))
    newest = opened.state("process", "value")
    assert dict(newest.dtypes)["value"] == "bigint"
    assert {row.key: row.value for row in newest.collect()} == {key: 10 + key for key in range(5)}
    older = opened.state("process", "list", at=2)
    assert dict(older.dtypes)["value"] == "array<string>"
    assert {row.key: row.value for row in older.collect()} == {
        key: [f"n{key}", f"n{key + 5}"] for key in range(5)
    }
    lists = opened.state("process", "list").collect()
    assert {row.key: row.value for row in lists} == {key: [key, key + 5, key + 10] for key in range(5)}
    changes = opened.changes("process", "value", key=3).collect()
    shown = [(row.valid_from_checkpoint, row.value_after, row.value_after_json) for row in changes]
    assert shown == [(1, None, '"n3"'), (2, None, '"n8"'), (3, 8, "8"), (3, 13, "13")]
