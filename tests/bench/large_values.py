"""State that is larger than memory: 2,000 characters for each key, read and replaced in no order once all are set.

``python large_values.py KEYS [KEY=VALUE ...]``; each key comes once, and every second one again. The last line printed is
the result as JSON.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import time
from typing import Any

from changelog_engine.api.common import Configuration, Types, WatermarkStrategy
from changelog_engine.api.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from changelog_engine.api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.api.datastream.state import ValueStateDescriptor
from keyed_count import MULTIPLIER, leave_own_folder, report

CHARACTERS = 2_000
_DIGITS = 16
_BYTES = (CHARACTERS - _DIGITS) * 3 // 4  # base64 makes four characters of three


def value_of(number: int) -> str:
    """The number, and characters that do not repeat, so that no compression makes the state small."""
    noise = hashlib.shake_128(number.to_bytes(8, "big")).digest(_BYTES)
    return f"{number:0{_DIGITS}}{base64.b64encode(noise).decode()}"


class KeepNewest(KeyedProcessFunction):
    """Keeps the value of the newest number of each key, and compares with what the one before left.

    Args:
        half: keys of each half of the numbers; see `run`.
        part: numbers of each half.
    """

    def __init__(self, half: int, part: int) -> None:
        self.half = half
        self.part = part

    def open(self, runtime_context: RuntimeContext) -> None:
        """The state."""
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.STRING()))

    def process_element(self, number: int, ctx: KeyedProcessFunction.Context) -> Any:
        """One more."""
        before = self.kept.value()
        wanted = None if number % self.part < self.half else number - self.half
        found = None if before is None else int(before[:_DIGITS])
        if found != wanted or (before is not None and len(before) != CHARACTERS):
            raise ValueError(f"before number {number} there was {found}, not {wanted}")
        self.kept.update(value_of(number))
        return ()


def run(keys: int, settings: dict[str, str]) -> dict[str, Any]:
    """Run the job to its end. Each half of the source goes over half of the keys, and then over half of these again.

    Args:
        keys: how many, a multiple of four.
        settings: configuration, in Flink's own keys.

    Returns:
        records, those that set a key first, seconds of execute().
    """
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    half = keys // 2
    part = half * 3 // 2
    source, strategy = NumberSequenceSource(0, 2 * part - 1), WatermarkStrategy.no_watermarks()
    numbers = env.from_source(source, strategy, "numbers", Types.LONG())
    by_key = numbers.key_by(
        lambda number: number // part * half + number % part * MULTIPLIER % half, Types.LONG()
    )
    by_key.process(KeepNewest(half, part), Types.LONG()).print()
    started = time.perf_counter()
    env.execute("large-values")
    return {"records": 2 * part, "set": 2 * half, "seconds": time.perf_counter() - started}


def main() -> None:
    """Command line: keys, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", type=int)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    given = parser.parse_args()
    report(run(given.keys // 4 * 4, dict(setting.split("=", 1) for setting in given.settings)))


if __name__ == "__main__":
    leave_own_folder()
    main()
