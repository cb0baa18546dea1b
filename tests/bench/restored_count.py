"""When the first record is processed, with and without state to restore: the keyed count with notes of its progress.

One program for two engines, as keyed_count.py: ``python restored_count.py PACKAGE KEYS NOTES [KEY=VALUE ...]``. Into the
folder NOTES go files with the time in seconds: ``started`` just before the job is submitted, ``first-*`` when a subtask sees
its first record, ``grown-*`` when it has seen as many as make nearly all keys known. The job is to be killed after that.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from pathlib import Path
from typing import Any

from keyed_count import leave_own_folder

PARALLELISM = 2


def noting_function(package: str, notes: str, grown: int) -> Any:
    """The count of each key, with notes."""
    datastream = importlib.import_module(f"{package}.datastream")
    state = importlib.import_module(f"{package}.datastream.state")
    types = importlib.import_module(f"{package}.common").Types

    def note(name: str) -> None:
        path = os.path.join(notes, f"{name}-{os.getpid()}-{time.time_ns()}")
        with open(f"{path}.part", "w") as file:
            file.write(str(time.time()))
        os.rename(f"{path}.part", path)

    class NotingCount(datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
        """Counts the elements of the current key."""

        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(state.ValueStateDescriptor("count", types.LONG()))
            self.seen = 0

        def process_element(self, value: int, ctx: Any) -> Any:
            if not self.seen:
                note("first")
            self.seen += 1
            if self.seen == grown:
                note("grown")
            count = self.state.value()
            self.state.update(1 if count is None else count + 1)
            if value < 0:
                yield count

    return NotingCount()


def run(package: str, keys: int, notes: str, settings: dict[str, str]) -> None:
    """Each half of the source goes over half of the keys, again and again; the job does not end by itself soon."""
    common = importlib.import_module(f"{package}.common")
    datastream = importlib.import_module(f"{package}.datastream")
    number_seq = importlib.import_module(f"{package}.datastream.connectors.number_seq")
    types = common.Types
    configuration = common.Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(PARALLELISM)
    half, rounds = keys // 2, 1_000
    numbers = env.from_source(
        number_seq.NumberSequenceSource(0, 2 * half * rounds - 1),
        common.WatermarkStrategy.no_watermarks(),
        "numbers",
        types.LONG(),
    )
    counts = numbers.key_by(
        lambda x: 2 * (x % half) + (1 if x >= half * rounds else 0), key_type=types.LONG()
    ).process(noting_function(package, notes, keys * 6 // 10), output_type=types.LONG())
    counts.print()
    Path(notes, "started").write_text(str(time.time()))
    env.execute("restored-count")


def main() -> None:
    """Command line: package, keys, folder of notes, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=["api", "pyflink"])
    parser.add_argument("keys", type=int)
    parser.add_argument("notes")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    run(arguments.package, arguments.keys, arguments.notes, settings)


if __name__ == "__main__":
    leave_own_folder()
    main()
