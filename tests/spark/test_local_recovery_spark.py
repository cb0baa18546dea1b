"""An exception, then kill -9 of a worker's process, in a job that keeps state over failures: the counts are exact."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from session_jobs import environment

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.state.rocksdb_store import BatchWriter
from materializer.fold import state_at

pytestmark = pytest.mark.slow

KEYS = 2_000
NUMBERS = 40 * KEYS


class Count(KeyedProcessFunction):
    """Counts, and fails once at each of two numbers, after it has counted them.

    Args:
        folder: where it leaves a file for each failure.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        if value == NUMBERS // 2 and self.first("raised"):
            raise ValueError("no")
        if value == NUMBERS * 3 // 4 and self.first("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if value % KEYS == 0:
            yield value

    def first(self, name: str) -> bool:
        """Whether this is the first time; it is noted."""
        mark = self.folder / name
        if mark.exists():
            return False
        mark.touch()
        return True


class KilledInWrite(Count):
    """Keeps a string as well; its process is killed when RocksDB has half of what the epoch before changed."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))
        put, self.puts = BatchWriter.put, 0

        def put_or_die(writer: BatchWriter, key: bytes, data: bytes) -> None:
            put(writer, key, data)
            self.puts += 1
            if self.puts == 3 * KEYS and (self.folder / "raised").exists() and self.first("killed"):
                writer.finish()
                os.kill(os.getpid(), signal.SIGKILL)

        BatchWriter.put = put_or_die  # type: ignore[method-assign]

    def process_element(self, value: int, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        assert self.text.value() == (None if count == 1 else f"{count - 1} of {value % KEYS}")
        self.count.update(count)
        self.text.update(f"{count} of {value % KEYS}")
        if value == NUMBERS // 4 and self.first("raised"):
            raise ValueError("no")
        if value % KEYS == 0:
            yield value


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("backend", "function"),
    [("hashmap", Count), ("rocksdb", Count), ("rocksdb", KilledInWrite)],
    ids=["hashmap", "rocksdb", "in a write of RocksDB"],
)
def test_state_is_kept_over_an_exception_and_a_lost_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, backend: str, function: type[Count]
) -> None:
    env = environment(
        tmp_path / "log",
        state__backend__type=backend,
        execution__state_recovery__from_local="true",
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts=5,
        restart_strategy__fixed_delay__delay="0 s",
        changelog__epoch__target="200ms",
        python__fn_execution__bundle__size=2_000,
    )
    numbers = env.from_collection(list(range(NUMBERS)), Types.LONG())
    counts = numbers.key_by(lambda number: number % KEYS, Types.LONG()).process(
        function(tmp_path), Types.LONG()
    )
    counts.uid("count").print()
    with caplog.at_level(logging.INFO, logger="changelog_engine"):
        env.execute("kept")

    folded = state_at(str(tmp_path / "log" / "kept" / "changelog"))
    assert folded.states["count", "count"] == dict.fromkeys(range(KEYS), NUMBERS // KEYS)
    assert (tmp_path / "raised").exists()
    assert (tmp_path / "killed").exists()
    restored = [record.getMessage() for record in caplog.records if " restored in " in record.getMessage()]
    if function is Count:  # with another state so many keys changed that reading all of it may take less time
        assert restored[0].endswith(", of 2 subtasks locally")
    else:
        expected = {key: f"{NUMBERS // KEYS} of {key}" for key in range(KEYS)}
        assert folded.states["count", "text"] == expected
    assert len(restored) >= 2
