"""CPU time of the subtasks' threads where jobs run in this process: it says something on a busy machine too."""

from __future__ import annotations

import contextlib
import gc
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def subtasks_cpu() -> Iterator[Counter[int]]:
    """Within it, jobs run without Spark; gives CPU seconds by stage, which grow meanwhile."""
    from changelog_engine.in_process.capture import without_spark
    from changelog_engine.spark.garbage import after_task, before_task
    from changelog_engine.spark.runtimes import Runtimes

    by_stage: Counter[int] = Counter()
    subtask_epoch = Runtimes.run

    def timed(self: Runtimes, job: Any, order: Any, stage: int, *others: Any) -> Any:
        began = time.thread_time()
        before_task()  # as workers do
        try:
            return subtask_epoch(self, job, order, stage, *others)
        finally:
            after_task()
            gc.collect()  # as the daemon does
            by_stage[stage] += time.thread_time() - began  # type: ignore[assignment]

    Runtimes.run = timed  # type: ignore[method-assign]
    try:
        with without_spark():
            yield by_stage
    finally:
        Runtimes.run = subtask_epoch  # type: ignore[method-assign]
