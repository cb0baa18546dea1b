"""Which partition a message is written to: Flink's three ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from changelog_engine.connectors.schemas import unwritable
from changelog_engine.types.java_text import hash_of_text

_MASK = 0xFFFFFFFF


class Routing(Enum):
    """How a partition is chosen."""

    ROUND_ROBIN = "round robin"
    MESSAGE_KEY_HASH = "message key hash"
    CUSTOM = "custom"


class Router:
    """Chooses partitions for one writer.

    Args:
        switch: how many messages go to a partition before the next one's turn.
        custom: (element, key, partitions) to one of these, or another topic's full name.
    """

    def __init__(
        self,
        routing: Routing,
        switch: int,
        hashing: Callable[[str], int],
        custom: Callable[[Any, str | None, Sequence[str]], str] | None,
    ) -> None:
        self._routing = routing
        self._switch = switch
        self._hash = hashing
        self._custom = custom
        self._count = 0

    def route(self, element: Any, key: str | None, partitions: Sequence[str]) -> str:
        """The partition of a message.

        Raises:
            TypeMismatchError: what was chosen is not the name of a topic.
        """
        if self._custom is not None:
            chosen: Any = self._custom(element, key, partitions)
            if not isinstance(chosen, str) or not chosen:
                raise unwritable("the topic router", chosen, element, "a topic's name")
            name: str = chosen
            return name
        if self._routing is Routing.MESSAGE_KEY_HASH:
            return partitions[self._hash(key) % len(partitions)] if key else random.choice(partitions)
        turn = self._count // self._switch % len(partitions)
        self._count += 1
        return partitions[turn]


def murmur3_hash(key: str) -> int:
    """Murmur3 in 32 bits of the key in UTF-8, without its sign, as Pulsar's clients have it."""
    data = key.encode()
    found, whole = 0, len(data) // 4 * 4
    for at in range(0, whole, 4):
        found ^= _mixed(int.from_bytes(data[at : at + 4], "little"))
        found = (_rotated(found, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        found ^= _mixed(int.from_bytes(data[whole:], "little"))
    found ^= len(data)
    found = ((found ^ (found >> 16)) * 0x85EBCA6B) & _MASK
    found = ((found ^ (found >> 13)) * 0xC2B2AE35) & _MASK
    return (found ^ (found >> 16)) & 0x7FFFFFFF


def java_hash(key: str) -> int:
    """Java's ``String.hashCode()``, without its sign."""
    return hash_of_text(key) & 0x7FFFFFFF


def _mixed(block: int) -> int:
    return (_rotated((block * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _MASK
