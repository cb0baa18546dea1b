"""Which record changed this key? How long the answer takes, and that a running job does nothing for it.

The job is recorded in this process, with one checkpoint: ``python explaining.py RECORDS FOLDER`` prints the results.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from api.common import Time, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.datastream.state import ValueStateDescriptor
from api.datastream.window import TumblingEventTimeWindows
from changelog_engine.testing import without_spark
from processes import PREFIX, measure

KEY, KEYS = 77, 100_000


class Count(KeyedProcessFunction):
    """Counts the elements of a key."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        if value % 1000 == 0:
            yield value


class ItsNumber(TimestampAssigner):
    """A number's time is the number."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


def job(kind: str, folder: Path, records: int) -> Callable[[], Any]:
    """A program: map, key_by and a count, or tumbling windows that add up."""

    def main() -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        env.enable_changelog_state_backend(True)
        env.enable_checkpointing(1_000_000)  # the last one only
        env.get_checkpoint_config().set_checkpoint_storage_dir(str(folder))
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ItsNumber())
        numbers = env.from_source(NumberSequenceSource(1, records), strategy, "numbers", Types.LONG())
        if kind == "count":
            keyed = numbers.map(lambda value: value, Types.LONG()).key_by(
                lambda value: value % KEYS, Types.LONG()
            )
            counted = keyed.process(Count(), Types.LONG())
        else:
            windows = numbers.key_by(lambda value: value % KEYS, Types.LONG()).window(
                TumblingEventTimeWindows.of(Time.milliseconds(KEYS * 5))
            )
            counted = windows.reduce(lambda one, other: one + other)
        counted.uid(kind).print()
        env.execute(kind)

    return main


class ExplainBench:
    """Explanations of one key.

    Args:
        work: folder for the job and the log of the measurement.
    """

    def __init__(self, work: Path) -> None:
        self._work = work

    def key(self) -> dict[str, Any]:
        """A key of a checkpoint with a million records, of a counting job and of one with windows."""
        folder = self._work / "explain"
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, __file__, "1000000", str(folder)]
        outcome = measure("explain", command, self._work)
        shutil.rmtree(folder, ignore_errors=True)
        return outcome.result


def _record(kind: str, folder: Path, records: int) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), without_spark():
        job(kind, folder, records)()
    return records / (time.perf_counter() - began)


def _explain(kind: str, folder: Path, records: int, depth: int) -> float:
    from changelog_engine.provenance import explain  # not before the jobs were recorded

    began = time.perf_counter()
    found = explain(job(kind, folder, records), KEY, depth=depth)
    seconds = time.perf_counter() - began
    if not found.equal or len(found.mutations) < records // KEYS:
        raise AssertionError(found.text())
    return seconds


def main() -> None:
    """Record each job, ask, and record again in the process that has answered."""
    records, folder = int(sys.argv[1]), Path(sys.argv[2])
    figures: dict[str, float] = {}
    for kind in ("count", "windows"):
        _record(kind, folder, records // 10)  # what is slow the first time only
        without = max(_record(kind, folder, records) for _ in range(2))
        loaded = "changelog_engine.provenance" in sys.modules
        if kind == "count" and loaded:
            raise AssertionError("a job has loaded what explains it")
        figures[f"{kind}_s"] = _explain(kind, folder, records, 1)
        figures[f"{kind}_deep_s"] = _explain(kind, folder, records, 3)
        if kind == "count":
            figures["ratio"] = max(_record(kind, folder, records) for _ in range(2)) / without
    print(PREFIX + json.dumps(figures))


if __name__ == "__main__":
    main()
