"""Row behaves as PyFlink's."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from changelog_engine.types import Row, RowKind, Types
from changelog_engine.types.row import columns_of_rows, rows_of_columns


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
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert hash(Row(a=1, b=2)) == hash(Row(b=2, a=1))
    assert Row(a=1, b=2) != Row(b=1, a=2)
    assert Row(a=1) != Row(a=1, b=2)
    assert Row(f0=1) != Row(1)
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


@pytest.mark.parametrize(
    "row", [Row(a=1, b=[2]), Row(1, "x"), Row(a=1, b=2), Row.of_kind(RowKind.DELETE, a=1)]
)
def test_a_copied_row_has_fields_of_its_own(row):
    before = repr(row)
    other = copy.copy(row)
    other[0] = "changed"
    other._values[-1] = "too"
    assert repr(row) == before
    if hasattr(other, "_fields"):
        other._fields[0] = "c"
        assert repr(row) == before


def test_a_field_that_is_added_by_the_lists_is_this_rows_alone():
    declared = Types.ROW_NAMED(["a"], [Types.LONG()])
    rows = [declared.copy(Row(a=1)), declared.copy(Row(a=2))]
    rows[0]._fields.append("b")
    rows[0]._values.append("x")
    assert rows == [Row(a=1, b="x"), Row(a=2)]
    assert declared.get_field_names() == ["a"]


def both_forms(**fields):
    compact = Row(**fields)
    assert compact._values == list(fields.values())  # who asks for the lists makes it compact
    return Row(**fields), compact


def test_a_row_is_the_same_in_both_forms():
    for row in both_forms(id=1, name="one"):
        assert (row.id, row["name"], row[-1], row[:1], list(row), len(row)) == (
            1,
            "one",
            "one",
            [1],
            [1, "one"],
            2,
        )
        assert row == Row(id=1, name="one") == copy.copy(row) == pickle.loads(pickle.dumps(row))
        assert row == Row(name="one", id=1)
        row[1], row["id"] = "two", 2
        assert repr(row) == "Row(id=2, name='two')"
        with pytest.raises(IndexError):
            row[2]
        with pytest.raises(IndexError):
            row[2] = 0
        with pytest.raises(KeyError):
            row["names"] = 0
        with pytest.raises(
            AttributeError, match=r"there is no field 'names': the row has the fields id, name"
        ):
            _ = row.names
        with pytest.raises(AttributeError, match=r"set as row\['id'\]"):
            row.id = 1
        with pytest.raises(AttributeError):
            del row.id
        row[0:2] = [3, "three"]
        row._values[0] = 4
        assert (row.id, row.name, row._fields) == (4, "three", ["id", "name"])
        row.set_field_names(["a", "b"])
        assert (row.a, row.as_dict()) == (4, {"a": 4, "b": "three"})
        row.set_row_kind(RowKind.DELETE)
        assert (row.a, row.get_row_kind()) == (4, RowKind.DELETE)


def test_fields_may_be_called_as_what_a_row_has():
    row = Row(as_dict=1, _values=2, __deepcopy__=3)
    assert row.as_dict() == {"as_dict": 1, "_values": 2, "__deepcopy__": 3}
    assert (row["as_dict"], row[1], row._values) == (1, 2, [1, 2, 3])
    assert copy.deepcopy(row) == row
    [back] = rows_of_columns(["as_dict", "_values", "__deepcopy__"], [[1], [2], [3]])
    assert back == row
    assert back.as_dict() == row.as_dict()


def test_fields_whose_names_begin_with_underscores_are_attributes_in_both_forms():
    for row in both_forms(_id=1, __note=2, x=3):
        assert (row._id, getattr(row, "__note"), row["_id"], row.x) == (1, 2, 1, 3)
        assert not hasattr(row, "_other")
        assert not hasattr(row, "__array__")
    gone = Row.of_kind(RowKind.DELETE, _id=1)
    assert gone._id == copy.copy(gone)._id == pickle.loads(pickle.dumps(gone))._id == 1


def test_who_asks_for_the_attributes_gets_the_fields_of_both_forms():
    for row in both_forms(id=1, name="one"):
        assert json.dumps(row, default=vars) == '{"id": 1, "name": "one"}'
        assert {"id", "name", "as_dict"} <= set(dir(row))
        vars(row)["id"] = 2
        assert row.id == 1
    assert vars(Row.of_kind(RowKind.DELETE, as_dict=1)) == {"as_dict": 1}
    with pytest.raises(TypeError):
        vars(Row(1, 2))


def test_a_class_derived_from_row_keeps_its_own_attributes():
    class Order(Row):
        def __init__(self, **fields):
            super().__init__(**fields)
            self.note = "mine"

    order = Order(id=1)
    assert (order.id, order.note, len(order), order.as_dict()) == (1, "mine", 1, {"id": 1})
    assert vars(order) == {"note": "mine"}
    order.__dict__ = {"note": "another"}
    assert (order.id, order.note) == (1, "another")
    with pytest.raises(AttributeError):
        Row(id=1).__dict__ = {}


def test_columns_of_rows_of_both_forms():
    rows = list(both_forms(a=1, b="x"))
    assert columns_of_rows(rows) == columns_of_rows(rows[:1] * 2) == (["a", "b"], [[1, 1], ["x", "x"]])
    assert columns_of_rows([rows[0], Row(b="x", a=1)]) is None
    assert columns_of_rows([*rows, Row.of_kind(RowKind.DELETE, a=1, b="x")]) is None
    assert rows_of_columns(["a", "b"], [[1, 1], ["x", "x"]]) == rows
