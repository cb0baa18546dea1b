"""The measured job: count how often each of K integer keys occurs, one logged mutation a record.

One program for two engines: ``python keyed_count.py api ...`` runs it here, ``python keyed_count.py pyflink ...`` in an
environment with PyFlink. Only the package that is imported differs. The last line printed is the result as JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

MULTIPLIER = 2654435761  # Knuth's: odd and no multiple of 5, so that K = 10^n consecutive numbers give K different keys


def count_function(package: str) -> Any:
    """The user's function, over the base class of the package that will run it."""
    datastream = importlib.import_module(f"{package}.datastream")
    state = importlib.import_module(f"{package}.datastream.state")
    types = importlib.import_module(f"{package}.common").Types

    class CountPerKey(datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
        """Counts the elements of the current key; emits every thousandth count."""

        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(state.ValueStateDescriptor("count", types.LONG()))

        def process_element(self, value: int, ctx: Any) -> Any:
            count = self.state.value()
            count = 1 if count is None else count + 1
            self.state.update(count)
            if count % 1000 == 0:
                yield count

    return CountPerKey()


def run(package: str, records: int, keys: int, settings: dict[str, str]) -> dict[str, Any]:
    """Build the job with the package's API and run it to its end.

    Args:
        package: "api" or "pyflink".
        records: how many numbers the source gives.
        keys: how many different keys they have.
        settings: configuration, in Flink's own keys.

    Returns:
        records, seconds (of execute(), start-up included) and records a second.
    """
    common = importlib.import_module(f"{package}.common")
    datastream = importlib.import_module(f"{package}.datastream")
    number_seq = importlib.import_module(f"{package}.datastream.connectors.number_seq")
    types = common.Types
    configuration = common.Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_source(
        number_seq.NumberSequenceSource(0, records - 1),
        common.WatermarkStrategy.no_watermarks(),
        "numbers",
        types.LONG(),
    )
    counts = numbers.key_by(lambda x: (x * MULTIPLIER) % keys, key_type=types.LONG()).process(
        count_function(package), output_type=types.LONG()
    )
    counts.print()
    started = time.perf_counter()
    env.execute("keyed-count")
    seconds = time.perf_counter() - started
    return {"records": records, "seconds": seconds, "records_per_s": records / seconds}


def report(result: dict[str, Any]) -> None:
    """Print the result where the bench looks for it."""
    sys.stdout.flush()
    print("RESULT " + json.dumps(result), flush=True)


def leave_own_folder() -> None:
    """The script's own folder must not shadow packages of the same names."""
    own = Path(__file__).parent.resolve()
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != own]


def main() -> None:
    """Command line: package, records, keys, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=["api", "pyflink"])
    parser.add_argument("records", type=int)
    parser.add_argument("keys", type=int)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    report(run(arguments.package, arguments.records, arguments.keys, settings))


if __name__ == "__main__":
    leave_own_folder()
    main()
