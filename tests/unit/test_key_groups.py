"""Key groups: the bulk way equals the single way, and the ranges are Flink's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changelog_engine.codec.keys import key_codec_for
from changelog_engine.graph.key_groups import (
    default_max_parallelism,
    key_group,
    key_group_range,
    key_groups,
    key_groups_of_ints,
)

identities = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(), st.text(), st.binary().map(repr).map(str.encode)
)


@settings(deadline=None)
@given(
    st.lists(identities)
    | st.lists(st.text(st.characters(codec=None)))
    | st.lists(st.text(st.sampled_from('a"\\\n\x00\x7f\x1f\u2028é😀\ud800')))
    | st.lists(st.binary().map(repr).map(str.encode)),
    st.integers(1, 32768),
)
def test_bulk_equals_single(ids, max_parallelism):
    groups = key_groups(ids, max_parallelism)
    assert groups.dtype == np.int32
    assert groups.tolist() == [key_group(i, max_parallelism) for i in ids]
    assert all(0 <= group < max_parallelism for group in groups)


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_array_equals_list(ids):
    assert key_groups_of_ints(np.array(ids, np.int64), 128).tolist() == key_groups(ids, 128).tolist()


def test_groups_are_stable_and_spread():
    assert key_groups([0, 1, 2, -1, "a", b"1.0"], 128).tolist() == [0, 92, 57, 35, 30, 53]
    assert len(set(key_groups(list(range(1000)), 128).tolist())) == 128
    assert len(set(key_groups([f"k{i}" for i in range(2000)], 128).tolist())) == 128
    assert key_groups([], 128).tolist() == []


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 500))
def test_ranges_cover_every_group_once(parallelism, max_parallelism):
    parallelism = min(parallelism, max_parallelism)
    ranges = [key_group_range(s, max_parallelism, parallelism) for s in range(parallelism)]
    assert [group for r in ranges for group in r] == list(range(max_parallelism))
    for subtask, groups in enumerate(ranges):
        assert {group * parallelism // max_parallelism for group in groups} == {subtask}


@pytest.mark.parametrize(
    ("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (100, 256), (171, 256), (30000, 32768)]
)
def test_default_max_parallelism(parallelism, expected):
    assert default_max_parallelism(parallelism) == expected


def test_group_of_text_is_of_its_key_text():
    codec = key_codec_for(None)
    (quoted,) = codec.identities(['a"\u2028é'], "key")
    assert key_group(quoted, 1000) == key_group(codec.text(quoted).encode(), 1000)
