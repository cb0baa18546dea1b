"""When the first record is processed, with and without state to restore: the keyed count with notes of its progress.

One program for two engines, as keyed_count.py: ``python restored_count.py PACKAGE KEYS NOTES [KEY=VALUE ...]``. Into the
folder NOTES go files with the time in seconds: ``started`` just before the job is submitted, ``first-*`` when a subtask of
an attempt sees its first record, ``grown-*`` when it has seen as many as make nearly all keys known. The job is to be killed
after that. Whoever puts a file ``raise`` or ``kill`` there makes one subtask fail, by an exception or by SIGKILL of its
process, and the time goes into ``failed-*``. With ``--touched N`` only N keys are counted again once all are known.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

from keyed_count import leave_own_folder

PARALLELISM = 2
FAILURES = ("raise", "kill")
_LOOK = 1024  # records between two looks for a failure


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

    def fail() -> None:
        for failure in FAILURES:
            path = os.path.join(notes, failure)
            try:
                os.rename(path, f"{path}.taken")  # one subtask takes it
            except FileNotFoundError:
                continue
            note("failed")
            if failure == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("a failure that the bench asked for")

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
            if not self.seen % _LOOK:
                fail()
            count = self.state.value()
            self.state.update(1 if count is None else count + 1)
            if value < 0:
                yield count

    return NotingCount()


def run(package: str, keys: int, notes: str, settings: dict[str, str], touched: int | None = None) -> None:
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
    again = half if touched is None else touched // 2

    def key_of(x: int) -> int:
        second = x >= half * rounds
        place = x - half * rounds if second else x
        return 2 * (place if place < half else place % again) + second

    numbers = env.from_source(
        number_seq.NumberSequenceSource(0, 2 * half * rounds - 1),
        common.WatermarkStrategy.no_watermarks(),
        "numbers",
        types.LONG(),
    )
    counts = numbers.key_by(key_of, key_type=types.LONG()).process(
        noting_function(package, notes, keys * 6 // 10), output_type=types.LONG()
    )
    counts.print()
    Path(notes, "started").write_text(str(time.time()))
    env.execute("restored-count")


def main() -> None:
    """Command line: package, keys, folder of notes, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=["api", "pyflink"])
    parser.add_argument("keys", type=int)
    parser.add_argument("notes")
    parser.add_argument("--touched", type=int, help="keys that are counted again, about; by default all")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    run(arguments.package, arguments.keys, arguments.notes, settings, arguments.touched)


if __name__ == "__main__":
    leave_own_folder()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("changelog_engine").setLevel(logging.INFO)  # which says how restores went
    main()
