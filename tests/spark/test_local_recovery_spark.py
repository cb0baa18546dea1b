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


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_is_kept_over_an_exception_and_a_lost_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, backend: str
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
    counts = numbers.key_by(lambda number: number % KEYS, Types.LONG()).process(Count(tmp_path), Types.LONG())
    counts.uid("count").print()
    with caplog.at_level(logging.INFO, logger="changelog_engine"):
        env.execute("kept")

    folded = state_at(str(tmp_path / "log" / "kept" / "changelog"))
    assert folded.states["count", "count"] == dict.fromkeys(range(KEYS), NUMBERS // KEYS)
    assert (tmp_path / "raised").exists()
    assert (tmp_path / "killed").exists()
    restored = [record.getMessage() for record in caplog.records if " restored in " in record.getMessage()]
    assert restored[0].endswith(", of 2 subtasks locally")
    assert len(restored) >= 2
