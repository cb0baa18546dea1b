"""Row behaves as PyFlink's."""

from __future__ import annotations

import copy
import pickle

import pytest

from changelog_engine.types import Row, RowKind


def test_named_row_is_reached_by_name_index_and_attribute():
    row = Row(id=1, name="one")
    assert (row.id, row["name"], row[0], row[-1], len(row), list(row)) == (1, "one", 1, "one", 2, [1, "one"])
    assert repr(row) == str(row) == "Row(id=1, name='one')"
    assert row.as_dict() == {"id": 1, "name": "one"}
    assert (row._fields, row._values) == (["id", "name"], [1, "one"])
    assert "id" in row
    assert 1 not in row
    assert "one" not in row
    row["name"] = "two"
    row[0] = 5
    assert row == Row(id=5, name="two")


def test_row_without_names():
    row = Row("r", 1)
    assert repr(row) == "<Row('r', 1)>"
    assert not hasattr(row, "_fields")
    with pytest.raises(TypeError):
        row.as_dict()
    with pytest.raises(AttributeError):
        _ = row.r
    row.set_field_names(["a", "b"])
    assert row == Row(a="r", b=1)


def test_row_as_factory():
    person = Row("name", "age")
    alice = person("Alice", 11)
    assert repr(alice) == "Row(name='Alice', age=11)"
    assert alice != Row("Alice", 11)
    with pytest.raises(ValueError, match="2 fields"):
        person(1, 2, 3)
    person[0] = "changed"
    assert alice.name == "Alice"


def test_errors():
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)
    row = Row(a=1)
    with pytest.raises(AttributeError):
        _ = row.b
    with pytest.raises(KeyError):
        row["b"]
    with pytest.raises(AttributeError):
        row.b = 1
    with pytest.raises(ValueError, match="no field 'b'"):
        row.get_fields_by_names(["b"])


def test_equality_hash_and_kind():
    assert Row(a=1) != Row(b=1)
    assert Row(1, 2) == Row(1, 2)
    assert Row(1, 2) != (1, 2)
    assert hash(Row(1, 2)) == hash(Row(1, 2))
    gone = Row.of_kind(RowKind.DELETE, a=1)
    assert gone != Row(a=1)
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
    gone.set_row_kind(RowKind.INSERT)
    assert gone == Row(a=1)
    assert gone.get_row_kind() is RowKind.INSERT


def test_recursive_dict():
    row = Row(k=1, v=Row(a=[Row(b=2)], c={"d": Row(e=3)}))
    assert row.as_dict(True) == {"k": 1, "v": {"a": [{"b": 2}], "c": {"d": {"e": 3}}}}


@pytest.mark.parametrize("row", [Row(a=1, b=[2]), Row(1, "x"), Row(), Row.of_kind(RowKind.DELETE, a=None)])
def test_pickle_and_copy(row):
    for other in (pickle.loads(pickle.dumps(row, 5)), copy.copy(row), copy.deepcopy(row)):
        assert other == row
        assert hasattr(other, "_fields") == hasattr(row, "_fields")
    assert pickle.loads(pickle.dumps(row, 5))._values is not row._values
