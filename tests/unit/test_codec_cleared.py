"""Columns in which some values are cleared are what their values give one by one."""

from __future__ import annotations

from typing import Any

import pytest

from api.common import Types
from changelog_engine.codec.values import CLEARED, codec_for


@pytest.mark.parametrize(
    ("type_info", "values"),
    [
        (Types.LONG(), [1, CLEARED, 1, -5, CLEARED]),
        (
            Types.LONG(),
            [number % 3 for number in range(5_000)] + [CLEARED, 7],
        ),  # ints that repeat: a dictionary
        (Types.STRING(), [CLEARED, "a", "\ud800", CLEARED, "b"]),
        (Types.DOUBLE(), [0.5, CLEARED, float("nan"), -0.0]),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1), CLEARED, ("b", 2)]),
        (Types.PICKLED_BYTE_ARRAY(), [CLEARED, {1: 2}, CLEARED, (1, 2**70), b"x"]),
        (Types.LONG(), [CLEARED, CLEARED]),
    ],
    ids=["ints", "dictionary", "text", "floats", "tuples", "any", "only cleared"],
)
def test_cleared_values_between_others(type_info: Any, values: list[Any]) -> None:
    codec = codec_for(type_info)
    texts, payloads = codec.encode_many(values)
    alone = [codec.encode(value) for value in values]
    assert texts.to_pylist() == [each.text for each in alone]
    found = [None] * len(values) if payloads is None else payloads.to_pylist()
    assert [payload is None for payload in found] == [each.payload is None for each in alone]
    kept = [index for index, value in enumerate(values) if value is not CLEARED]
    decoded = codec.decode_many(texts, payloads)
    assert [repr(decoded[index]) for index in kept] == [repr(values[index]) for index in kept]
