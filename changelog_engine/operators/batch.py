"""BATCH mode in a keyed stage: elements wait for the end of the input, then come key by key, sorted by time.

Nothing is checkpointed in this mode, so what waits is not state: a failure starts the job anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changelog_engine.operators.messages import MIN_WATERMARK

_Waiting = tuple[list[Any], list[int], bool]  # values, times, whether they have times


class KeyedBatch:
    """The elements of one subtask that wait, by head and key.

    Args:
        heads: operators and input ports, in the order in which a key's elements are given to them.
    """

    def __init__(self, heads: list[Any]) -> None:
        self._waiting: dict[Any, dict[Any, _Waiting]] = {head: {} for head in heads}
        self._keys: dict[Any, None] = {}

    def add(
        self, head: Any, identities: list[Any], values: Sequence[Any], times: Sequence[int] | None
    ) -> None:
        """Keep elements of one head."""
        by_key = self._waiting[head]
        for index, key in enumerate(identities):
            entry = by_key.get(key)
            if entry is None:
                self._keys[key] = None
                entry = by_key[key] = ([], [], times is not None)
            entry[0].append(values[index])
            entry[1].append(MIN_WATERMARK if times is None else times[index])

    def run(self, operators: list[Any]) -> None:
        """Process all that waits: a key's elements by time, then what its end brings, then the next key."""
        for key in self._keys:
            for head, by_key in self._waiting.items():
                entry = by_key.pop(key, None)
                if entry is not None:
                    values, times, timed = entry
                    order = sorted(range(len(values)), key=times.__getitem__)
                    head.process_keyed(
                        [key] * len(values),
                        [values[index] for index in order],
                        [times[index] for index in order] if timed else None,
                    )
            for operator in operators:
                operator.cursor.key = key
                operator.end_key()
        self._keys.clear()
