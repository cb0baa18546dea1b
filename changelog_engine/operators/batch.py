"""BATCH mode in a keyed stage: elements wait for the end of the input, then come key by key, sorted by time.

Nothing is checkpointed in this mode, so what waits is not state: a failure starts the job anew.

Invariants:
    * An operator sees all elements of a key, then what the key's end brings, then the next key. Keys are sorted by their
      bytes in Flink; where these are not known here, they come in the order of their first elements.
    * Two inputs of an operator are one by time: of elements with the same time, and of those without, the inputs take turns,
      as in Flink. The first one begins with every key, so a key's result does not depend on other keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from changelog_engine.codec.key_order import order_of
from changelog_engine.codec.keys import KeyCodec
from changelog_engine.errors import NotSerializableError
from changelog_engine.event_time import NO_TIMESTAMP
from changelog_engine.operators.base import Operator
from changelog_engine.operators.two_inputs import Head, operator_of


class _Waiting(NamedTuple):
    """A key's elements of one input."""

    values: list[Any]
    times: list[int]
    timed: bool

    def sort(self) -> _Waiting:
        """By time; in the order in which they came where that is equal."""
        order = sorted(range(len(self.values)), key=self.times.__getitem__)
        return _Waiting([self.values[i] for i in order], [self.times[i] for i in order], self.timed)


class KeyedBatch:
    """The elements of one subtask that wait, by head and key.

    Args:
        heads: operators and input ports, in the order in which a key's elements are given to them.
        keys: the codec of the keys.
    """

    def __init__(self, heads: list[Head], keys: KeyCodec) -> None:
        self._codec = keys
        self._waiting: dict[Head, dict[Any, _Waiting]] = {head: {} for head in heads}
        self._keys: dict[Any, None] = {}
        self._inputs: dict[Operator, list[Head]] = {}
        for head in sorted(heads, key=_position):
            self._inputs.setdefault(operator_of(head), []).append(head)

    def add(
        self, head: Head, identities: list[Any], values: Sequence[Any], times: Sequence[int] | None
    ) -> None:
        """Keep elements of one head."""
        by_key = self._waiting[head]
        for index, key in enumerate(identities):
            entry = by_key.get(key)
            if entry is None:
                self._keys[key] = None
                entry = by_key[key] = _Waiting([], [], times is not None)
            entry.values.append(values[index])
            entry.times.append(NO_TIMESTAMP if times is None else times[index])

    def run(self, operators: list[Any]) -> None:
        """Process all that waits: a key's elements by time, then what its end brings, then the next key."""
        for key in self._sorted_keys():
            for heads in self._inputs.values():
                waiting = [self._waiting[head].pop(key, None) for head in heads]
                here = [(head, each.sort()) for head, each in zip(heads, waiting, strict=True) if each]
                if len(here) == 2:
                    _give_both(key, here)
                elif here:
                    head, (values, times, timed) = here[0]
                    head.process_keyed([key] * len(values), values, times if timed else None)
            for operator in operators:
                operator.cursor.key = key
                operator.end_key()
        self._keys.clear()

    def _sorted_keys(self) -> Iterable[Any]:
        order = order_of(self._codec.type)
        if order is None:
            return self._keys
        try:
            return sorted(self._keys, key=lambda identity: order(self._codec.key_of(identity)))
        except NotSerializableError:  # keys of a class that only the program knows
            return self._keys


def _give_both(key: Any, inputs: list[tuple[Head, _Waiting]]) -> None:
    for turn, start, end in _runs(inputs[0][1].times, inputs[1][1].times):
        head, (values, times, timed) = inputs[turn]
        head.process_keyed([key] * (end - start), values[start:end], times[start:end] if timed else None)


def _position(head: Head) -> int:
    """Which input of its operator a head is."""
    ports = operator_of(head).ports
    return ports.index(head) if ports else 0


def _runs(first: list[int], second: list[int]) -> Iterator[tuple[int, int, int]]:
    """Two sorted inputs as one: (which, from, to) for each run of elements of the same one."""
    last = 1  # which had the last turn; of equal times the other one goes on
    times = (first, second)
    at = [0, 0]
    while at[0] < len(first) and at[1] < len(second):
        one, two = first[at[0]], second[at[1]]
        turn = (1 - last) if one == two else int(two < one)
        last = turn
        start, bound = at[turn], times[1 - turn][at[1 - turn]]
        at[turn] += 1
        while at[turn] < len(times[turn]) and times[turn][at[turn]] < bound:
            at[turn] += 1
        yield turn, start, at[turn]
    for turn in (0, 1):
        if at[turn] < len(times[turn]):
            yield turn, at[turn], len(times[turn])
