"""Peer (b): the limit. The same user function, called by a plain loop over a state that is one dictionary.

``python dict_loop.py PACKAGE RECORDS KEYS`` prints its result as JSON: the best of three runs, one core.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from keyed_count import MULTIPLIER, count_function


class DictValueState:
    """ValueState of the current key, in a dictionary, without types, log or copies."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}
        self.key = 0

    def value(self) -> int | None:
        return self.values.get(self.key)

    def update(self, value: int) -> None:
        self.values[self.key] = value


class DictRuntimeContext:
    """Hands out the one state."""

    def __init__(self, state: DictValueState) -> None:
        self.state = state

    def get_state(self, descriptor: Any) -> DictValueState:
        return self.state


def run(package: str, records: int, keys: int) -> float:
    """Seconds for all records: key, function, state; nothing else."""
    state = DictValueState()
    function = count_function(package)
    function.open(DictRuntimeContext(state))
    process_element = function.process_element
    emitted: list[int] = []
    started = time.perf_counter()
    for value in range(records):
        state.key = (value * MULTIPLIER) % keys
        emitted.extend(process_element(value, None))
    seconds = time.perf_counter() - started
    if sum(state.values.values()) != records:
        raise RuntimeError("the loop lost records")
    return seconds


def main() -> None:
    package, records, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seconds = min(run(package, records, keys) for _ in range(3))
    print(
        "RESULT " + json.dumps({"records": records, "seconds": seconds, "records_per_s": records / seconds})
    )


if __name__ == "__main__":
    main()
