"""Jobs of the tests that run in this process, through the public API."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from api.common import Configuration, Types
from api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from api.datastream.functions import MapFunction
from api.datastream.state import ValueStateDescriptor


def environment(
    base: Path, parallelism: int = 2, changelog: bool = True, **options: Any
) -> StreamExecutionEnvironment:
    """An environment that checkpoints every 200 ms.

    Args:
        base: the base path.
        parallelism: of the job.
        changelog: on or off.
        options: further options, with ``__`` for ``.`` and ``_`` for ``-``.
    """
    configuration = Configuration()
    entries = {"state.changelog.dstl.dfs.base-path": base, "execution.checkpointing.interval": "200ms"}
    entries["changelog.epoch.target"] = (
        "1s"  # on a busy machine an epoch takes more than 200 ms whatever it reads
    )
    entries |= {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    for key, value in entries.items():
        configuration.set_string(key, str(value))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    env.enable_changelog_state_backend(changelog)
    return env


class Count(KeyedProcessFunction):
    """Counts the elements of a key; gives (key, count)."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class CountAndMark(KeyedProcessFunction):
    """Counts the elements of a key, and marks those keys whose numbers became large."""

    def __init__(self, large: int) -> None:
        self.large = large

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.mark = runtime_context.get_state(ValueStateDescriptor("mark", Types.BOOLEAN()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        if value >= self.large:
            self.mark.update(True)
        return ()


class Slowly(MapFunction):
    """Takes its time for each element.

    Args:
        seconds: that it takes.
        gate: path of a file; once it is there, none.
    """

    def __init__(self, seconds: float, gate: Path | None = None) -> None:
        self.seconds = seconds
        self.gate = gate

    def map(self, value: Any) -> Any:
        if self.gate is None or not self.gate.exists():
            time.sleep(self.seconds)
        return value


class AppendTo:
    """A sink function that writes each value as a line of JSON to a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def invoke(self, value: Any) -> None:
        with open(self.path, "a") as lines:
            lines.write(json.dumps(value) + "\n")


def lines_of(path: Path) -> list[Any]:
    """What AppendTo wrote."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def last_counts(results: Any) -> dict[Any, int]:
    """The last count of each key."""
    return dict(results)
