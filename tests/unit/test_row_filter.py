"""Rows of key groups, a checkpoint's shares, columns in another form, and what is remembered of files."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from changelog_engine.changelog.file_memo import FileMemo
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.row_filter import in_groups, mask_of_groups
from changelog_engine.codec.arrow_columns import as_array, of_type, without_dictionary
from changelog_engine.graph.descriptions import DescribedOperator
from changelog_engine.ledger.reading import shares

GROUPS = [3, 1, 4, 4, 2]


@pytest.mark.parametrize("bounds", list(itertools.combinations(range(7), 2)))
def test_rows_of_a_range_of_key_groups(bounds: tuple[int, int]) -> None:
    groups = range(*bounds)
    table = pa.table({"key_group": pa.array(GROUPS, pa.int32()), "n": range(len(GROUPS))})
    expected = [n for n, group in enumerate(GROUPS) if group in groups]
    assert in_groups(table, groups)["n"].to_pylist() == expected
    assert (mask_of_groups(table["key_group"], groups) is None) == (len(expected) == len(GROUPS))


def test_rows_without_a_key_group_stay_where_there_are_no_others() -> None:
    table = pa.table({"key_group": pa.array([None, None], pa.int32())})
    assert in_groups(table, range(1)).num_rows == 2


def checkpoint(*operators: DescribedOperator) -> Checkpoint:
    document = dict.fromkeys(Checkpoint.__dataclass_fields__, 0)
    return Checkpoint(**{**document, "operators": list(operators)})  # type: ignore[arg-type]


def test_shares_cover_each_operators_key_groups_once() -> None:
    """Operators of one parallelism share; those without state have no share."""
    shapes = {"a": (8, 2), "b": (8, 3), "c": (8, 2), "d": (16, 2)}
    stateful = [
        DescribedOperator(uid, uid, "process", now, most, keyed=True) for uid, (most, now) in shapes.items()
    ]
    found = list(shares(checkpoint(DescribedOperator("map", "map", "map", 2, 8), *stateful)))
    covered = [(uid, group) for share in found for uid in share.operators for group in share.groups]
    assert sorted(covered) == sorted(
        (uid, group) for uid, (most, _) in shapes.items() for group in range(most)
    )
    assert [(share.stage, share.subtask) for share in found] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1),
    ]  # fmt: skip
    assert found[0].operators == {"a", "c"}


def test_columns_in_another_form() -> None:
    texts = pa.chunked_array(
        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", None]).dictionary_encode()]
    )
    for column in (texts, as_array(texts)):
        assert without_dictionary(column).type == pa.string()
        assert without_dictionary(column).to_pylist() == ["a", "b", "b", None]
    assert isinstance(as_array(texts), pa.Array)
    nothing = as_array(pa.chunked_array([], texts.type))
    assert (len(nothing), nothing.type) == (0, texts.type)
    numbers = pa.array([1, 2])
    assert of_type(numbers, pa.int64()) is numbers
    assert of_type(numbers, pa.string()).to_pylist() == ["1", "2"]


def test_a_file_is_read_once_and_few_are_remembered() -> None:
    read: list[str] = []

    def reading(path: str) -> int:
        return memo.of(path, lambda: read.append(path) or len(read))  # type: ignore[func-returns-value]

    memo: FileMemo[int] = FileMemo(2)
    assert [reading(path) for path in ("a", "b", "a", "b")] == [1, 2, 1, 2]
    assert reading("c") == 3, "with a third one the others are forgotten"
    assert [reading(path) for path in ("c", "a")] == [3, 4]
    memo.clear()
    assert reading("c") == 5
