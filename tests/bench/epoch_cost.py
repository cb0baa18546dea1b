"""What an epoch costs that has next to nothing to do: where its milliseconds go, by stages and subtasks.

``python epoch_cost.py STAGES SUBTASKS EPOCHS [KEY=VALUE ...]``; the last line printed is the result as JSON. Each epoch ends
with a checkpoint. The first tenth of them is warm-up; of the others the medians count, in ms.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import time
from collections import defaultdict
from typing import Any

from py4j.java_gateway import GatewayClient

from changelog_engine.api.common import Configuration, Types, WatermarkStrategy
from changelog_engine.api.datastream import StreamExecutionEnvironment
from changelog_engine.api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.driver.checkpointer import Checkpointer
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.spark.epoch_job import SparkEpochRunner
from changelog_engine.spark.stage_rdds import StageRdds
from keyed_count import leave_own_folder, report
from processes import cpu_s_of, session_members

RECORDS = 5  # of each source subtask, in each epoch: python.fn-execution.bundle.size


class Stopwatch:
    """Keeps how long calls take and how many there are, by name and epoch, and the CPU time of all after the warm-up."""

    def __init__(self, epochs: int) -> None:
        self.each: dict[str, list[float]] = defaultdict(list)
        self._now: dict[str, float] = defaultdict(float)
        self._warm_up = max(2, epochs // 10)
        self._count = 0
        self._cpu: dict[str, float] = {}

    def wrap(self, owner: type, method: str, name: str) -> None:
        """From now on a method's time counts under a name."""
        timed = getattr(owner, method)

        @functools.wraps(timed)
        def measured(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return timed(*arguments)
            finally:
                self._now[f"{name}_ms"] += 1000 * (time.perf_counter() - began)

        setattr(owner, method, measured)

    def count(self, owner: type, method: str, name: str) -> None:
        """From now on a method's calls count under a name."""
        counted = getattr(owner, method)

        @functools.wraps(counted)
        def measured(*arguments: Any, **options: Any) -> Any:
            self._now[name] += 1
            return counted(*arguments, **options)

        setattr(owner, method, measured)

    def end_epoch(self, duration_ms: float) -> None:
        """An epoch has ended; the engine says how long it took."""
        self._count += 1
        if self._count == self._warm_up:
            self._cpu = cpu_by_role()
        elif self._count > self._warm_up:
            self.each["epoch_ms"].append(duration_ms)
            for name, value in self._now.items():
                self.each[name].append(value)
        self._now.clear()

    def result(self) -> dict[str, float]:
        """Medians of what was kept, and CPU ms an epoch."""
        cpu = cpu_by_role()
        measured = max(1, self._count - self._warm_up)
        found = {name: round(statistics.median(values), 2) for name, values in self.each.items()}
        found |= {f"{role}_cpu_ms": round(1000 * (cpu[role] - self._cpu[role]) / measured, 2) for role in cpu}
        return found


def cpu_by_role() -> dict[str, float]:
    """CPU seconds of this session's driver, JVM and workers so far."""
    found = {"driver": 0.0, "jvm": 0.0, "workers": 0.0}
    for process in session_members(os.getsid(0)):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                command = file.read().split(b"\0")[0]
            used = cpu_s_of(process)
        except OSError:
            continue  # it ended meanwhile
        role = "jvm" if command.endswith(b"java") else "driver" if process == os.getpid() else "workers"
        found[role] += used
    return found


def same(value: int) -> int:
    """The value."""
    return value


def run(stages: int, subtasks: int, epochs: int, settings: dict[str, str]) -> dict[str, float]:
    """Run a job of a source and as many stages that are keyed.

    Args:
        stages: with that of the source.
        subtasks: of each stage.
        epochs: how many.
        settings: configuration, in Flink's own keys.
    """
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(subtasks)
    last = RECORDS * subtasks * epochs - 1
    source, strategy = NumberSequenceSource(0, last), WatermarkStrategy.no_watermarks()
    stream = env.from_source(source, strategy, "numbers", Types.LONG())
    for _ in range(stages - 1):
        stream = stream.key_by(same, Types.LONG()).reduce(max)
    stream.filter(lambda value: value < 0).print()
    watch = Stopwatch(epochs)
    watch.count(GatewayClient, "send_command", "calls_to_the_jvm")
    watch.wrap(SparkEpochRunner, "run", "spark")
    watch.wrap(SparkEpochRunner, "_build", "build")
    watch.wrap(StageRdds, "forget", "forget")
    watch.wrap(Checkpointer, "checkpoint", "commit")
    end_epoch = JobMonitor.end_epoch

    def observed(self: JobMonitor, duration_ms: float) -> None:
        end_epoch(self, duration_ms)
        watch.end_epoch(duration_ms)

    JobMonitor.end_epoch = observed  # type: ignore[method-assign]
    env.execute("epoch-cost")
    return {"stages": stages, "subtasks": subtasks, **watch.result()}


def main() -> None:
    """Command line: stages, subtasks, epochs, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("stages", "subtasks", "epochs"):
        parser.add_argument(name, type=int)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    report(run(arguments.stages, arguments.subtasks, arguments.epochs, settings))


if __name__ == "__main__":
    leave_own_folder()
    main()
