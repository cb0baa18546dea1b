"""The columns ``key`` and ``key_group`` of many mutations: each key that comes often becomes text, and is hashed, once.

Invariant: rows have the same text and group as ``KeyCodec.text`` and ``key_group`` give each of them alone.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from changelog_engine.codec.columns import INTS_REPEAT, TEXTS_REPEAT, as_strings, int_array, repeats
from changelog_engine.codec.identities import KeyCodec
from changelog_engine.graph.key_groups import key_groups, key_groups_of_ints
from changelog_engine.types.row_loops import LOOPS


def key_columns(
    lists: list[list[Any]], codec: KeyCodec, max_parallelism: int
) -> list[tuple[pa.Array, pa.Array]]:
    """Texts and groups of the keys of several logs.

    Args:
        lists: identities, one list a log; none is empty.

    Returns:
        For each list its texts (string; or a dictionary of string, one for all lists, where keys repeat) and its groups
        (int32).
    """
    if not lists:
        return []
    ints = _ints(lists)
    often = repeats(lists, TEXTS_REPEAT if ints is None else INTS_REPEAT)
    if ints is None and not often:
        return [(codec.texts(some), pa.array(key_groups(some, max_parallelism))) for some in lists]
    if ints is not None and not often:
        own = [pa.array(key_groups_of_ints(numbers.to_numpy(), max_parallelism)) for numbers in ints]
        return [(numbers.cast(pa.string()), each) for numbers, each in zip(ints, own, strict=True)]
    if ints is not None:
        encoded = pa.concat_arrays(ints).dictionary_encode()
        codes, texts = encoded.indices.to_numpy(), encoded.dictionary.cast(pa.string())
        groups = key_groups_of_ints(encoded.dictionary.to_numpy(), max_parallelism)
    else:
        codes, distinct = _numbered(lists)
        texts, groups = as_strings(codec.texts(distinct)), key_groups(distinct, max_parallelism)
    columns = []
    start = 0
    for some in lists:
        own = codes[start : start + len(some)]
        start += len(some)
        columns.append((pa.DictionaryArray.from_arrays(pa.array(own), texts), pa.array(groups[own])))
    return columns


def _numbered(lists: list[list[Any]]) -> tuple[Any, list[Any]]:
    """The identities of all lists as numbers by first appearance, and the different ones."""
    known: dict[Any, int] = {}
    words = None if LOOPS is None else LOOPS.equal_values(lists, known)
    if words is not None:
        return np.frombuffer(words, np.int32), list(known)
    numbers = [known.setdefault(identity, len(known)) for identity in chain.from_iterable(lists)]
    return np.array(numbers, np.int32), list(known)


def _ints(lists: list[list[Any]]) -> list[pa.Array] | None:
    """The lists as arrays when all identities are ints of 64 bits; an int's text is its digits."""
    if type(lists[0][0]) is not int:
        return None
    try:
        return [int_array(some) for some in lists]
    except (OverflowError, TypeError):
        return None
