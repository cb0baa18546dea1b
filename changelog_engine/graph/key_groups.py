"""Key groups: the hash buckets that keys fall into, and the subtasks that own ranges of them.

Invariants:
    * A key's group depends on its identity and the maximum parallelism alone, not on process or run.
    * ``key_groups(ids, m)[i] == key_group(ids[i], m)``.
    * The ranges of all subtasks are disjoint, contiguous and cover every group.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from changelog_engine.codec.canonical import canonical_text
from changelog_engine.codec.identities import KeyIdentity
from changelog_engine.types.row_loops import LOOPS, classes_of

_MIX = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: spreads neighbours
_MASK = 2**64 - 1
_SHIFT = 33
_MAX_REMEMBERED = 1_000_000
_LOWEST_DEFAULT = 128
_HIGHEST = 32_768
ALL_KEY_GROUPS = range(_HIGHEST)

KeyGroups = npt.NDArray[np.int32]


class _Checksums(dict[Any, int]):
    """CRC-32 of keys that are made into text first, remembered; forgets all when full."""

    def __missing__(self, identity: KeyIdentity) -> int:
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        text = identity if isinstance(identity, bytes) else canonical_text(identity).encode()
        found = self[identity] = zlib.crc32(text)
        return found


_checksums = _Checksums()


def key_group(identity: KeyIdentity, max_parallelism: int) -> int:
    """The group of one key, 0 to max_parallelism - 1.

    Args:
        identity: of the key, as a KeyCodec gives it.

    Example:
        >>> key_group(1, 128)
        92
    """
    if type(identity) is int and -(2**63) <= identity < 2**63:
        return (((identity & _MASK) * _MIX & _MASK) >> _SHIFT) % max_parallelism
    return _checksums[identity] % max_parallelism


def key_groups(identities: list[Any], max_parallelism: int) -> KeyGroups:
    """The groups of many keys.

    Args:
        identities: of the keys, as a KeyCodec gives them.

    Returns:
        One group a key, shape (len(identities),).
    """
    sums = LOOPS.string_sums(identities) if LOOPS is not None and identities else None
    if sums is not None:
        return _of_sums(np.frombuffer(sums, np.uint32), max_parallelism)
    kinds = classes_of(identities)
    if kinds == {int}:
        try:
            return key_groups_of_ints(np.fromiter(identities, np.int64, len(identities)), max_parallelism)
        except OverflowError:
            pass  # declared integers of any size
    elif int not in kinds:
        return _of_sums(np.fromiter(_sums(identities, kinds), np.uint32, len(identities)), max_parallelism)
    groups = (key_group(identity, max_parallelism) for identity in identities)
    return np.fromiter(groups, np.int32, len(identities))


def _of_sums(sums: npt.NDArray[np.uint32], max_parallelism: int) -> KeyGroups:
    return (sums % np.uint32(max_parallelism)).astype(np.int32)


def _sums(identities: list[Any], kinds: set[type]) -> Iterable[int]:
    """CRC-32 of each key's text. What is text already is summed up sooner than a dict of this size can be asked."""
    if kinds == {bytes}:
        return map(zlib.crc32, identities)  # drives our own code
    if kinds == {str}:
        try:
            texts = map(orjson.dumps, identities)  # drives our own code: these are the canonical texts
            return list(map(zlib.crc32, texts))  # drives our own code
        except TypeError:  # half of a surrogate pair
            pass
    return map(_checksums.__getitem__, identities)  # drives our own code


def key_groups_of_ints(identities: npt.NDArray[np.int64], max_parallelism: int) -> KeyGroups:
    """As key_groups, for keys that are an array of ints already."""
    mixed = identities.view(np.uint64) * np.uint64(_MIX)
    return ((mixed >> np.uint64(_SHIFT)) % np.uint64(max_parallelism)).astype(np.int32)


def key_group_range(subtask: int, max_parallelism: int, parallelism: int) -> range:
    """The groups of a subtask.

    Args:
        parallelism: number of subtasks, at most max_parallelism.

    Example:
        >>> key_group_range(0, 128, 3), key_group_range(2, 128, 3)
        (range(0, 43), range(86, 128))
    """
    start = (subtask * max_parallelism + parallelism - 1) // parallelism
    end = ((subtask + 1) * max_parallelism - 1) // parallelism
    return range(start, end + 1)


def default_max_parallelism(parallelism: int) -> int:
    """The maximum parallelism of an operator that does not set one.

    Returns:
        1.5 times the parallelism, rounded up to a power of two, within 128 and 32768, as in Flink.

    Example:
        >>> default_max_parallelism(1), default_max_parallelism(100)
        (128, 256)
    """
    wanted = parallelism + parallelism // 2
    return min(max(1 << (wanted - 1).bit_length(), _LOWEST_DEFAULT), _HIGHEST)
