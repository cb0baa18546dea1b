"""State in RocksDB in pinned workers: the databases are there while the job runs, and gone when it has ended."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from api.common.typeinfo import Types
from api.datastream import EmbeddedRocksDBStateBackend, KeyedProcessFunction, StreamExecutionEnvironment
from api.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.slow


class CountAndLook(KeyedProcessFunction):
    """Counts by key, and looks for the databases of the job's subtasks."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = len(list(Path(self.folder).rglob("CURRENT")))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count, self.seen


def test_count_in_rocksdb(spark: SparkSession, tmp_path: Path) -> None:
    local = tmp_path / "local"
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(local))
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2).set_state_backend(backend).enable_checkpointing(
        500
    ).enable_changelog_state_backend(True)
    env.get_checkpoint_config().set_checkpoint_storage_dir(str(tmp_path / "base"))
    numbers = [number % 50 for number in range(5_000)]
    stream = env.from_collection(numbers, type_info=Types.LONG()).key_by(lambda value: value, Types.LONG())
    with stream.process(CountAndLook(str(local))).execute_and_collect("rocksdb on spark") as results:
        found = list(results)
    assert Counter(key for key, _, _ in found) == Counter(numbers)
    assert {key: max(n for k, n, _ in found if k == key) for key in range(50)} == dict.fromkeys(
        range(50), 100
    )
    assert all(seen >= 1 for _, _, seen in found)
    assert not [path for path in local.rglob("*") if path.is_file()]
