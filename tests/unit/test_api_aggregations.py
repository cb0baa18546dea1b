"""sum, min, max, min_by and max_by of a keyed stream: the reduce functions that they build."""

from __future__ import annotations

import pickle

import pytest

from api.common import Row, Types
from api.datastream import StreamExecutionEnvironment
from changelog_engine.errors import ConfigurationError, TypeMismatchError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.types import RowKind

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
NAMED = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])


@pytest.fixture
def env(monkeypatch):
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def reduced(keyed, method, position, elements):
    """What the elements of one key are combined into, one after the other."""
    getattr(keyed, method)(*position).print()
    *_, node, _ = keyed.get_execution_environment()._take_job("job")[0].nodes
    assert node.kind is NodeKind.REDUCE
    _, of_elements = keyed.get_type().get_field_types()
    assert node.output_type == (None if of_elements == Types.PICKLED_BYTE_ARRAY() else of_elements)
    function = pickle.loads(pickle.dumps(node.function))
    results = elements[:1]
    for element in elements[1:]:
        results.append(function.reduce(results[-1], element))
    return results


class TestAggregations:
    @pytest.mark.parametrize(
        ("method", "expected"),
        [
            ("sum", [("a", 3, "p"), ("a", 4, "p"), ("a", 5, "p"), ("a", 9, "p")]),
            ("min", [("a", 3, "p"), ("a", 1, "p"), ("a", 1, "p"), ("a", 1, "p")]),
            ("max", [("a", 3, "p"), ("a", 3, "p"), ("a", 3, "p"), ("a", 4, "p")]),
            ("min_by", [("a", 3, "p"), ("a", 1, "q"), ("a", 1, "q"), ("a", 1, "q")]),
            ("max_by", [("a", 3, "p"), ("a", 3, "p"), ("a", 3, "p"), ("a", 4, "s")]),
        ],
    )
    def test_fields_of_tuples_are_aggregated(self, env, method, expected):
        elements = [("a", 3, "p"), ("a", 1, "q"), ("a", 1, "r"), ("a", 4, "s")]
        for type_info in (None, Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])):
            keyed = env.from_collection(elements, type_info).key_by(lambda v: v[0])
            assert reduced(keyed, method, (1,), elements) == expected

    def test_of_equal_elements_the_first_or_the_last_is_kept(self, env):
        elements = [("a", 2, "first"), ("a", 2, "second"), ("a", 1, "third"), ("a", 1, "fourth")]
        keyed = env.from_collection(elements).key_by(lambda v: v[0])
        assert [v[2] for v in reduced(keyed, "max_by", (1,), elements)] == ["first"] * 4
        assert [v[2] for v in reduced(keyed, "min_by", (1,), elements)] == [
            "first",
            "first",
            "third",
            "third",
        ]

    @pytest.mark.parametrize("position", [1, "n", -1])
    @pytest.mark.parametrize("type_info", [None, NAMED])
    def test_fields_of_rows_are_aggregated_and_rows_keep_their_kind(self, env, position, type_info):
        elements = [Row(k="a", n=3), Row(k="b", n=4)]
        elements[0].set_row_kind(RowKind.DELETE)
        keyed = env.from_collection(elements, type_info).key_by(lambda r: r.k)
        first = pickle.loads(pickle.dumps(elements[0]))
        total = reduced(keyed, "sum", (position,), elements)[-1]
        assert total == Row.of_kind(RowKind.DELETE, k="a", n=7)
        assert elements[0] == first, "the element that was kept so far must not change"
        assert reduced(keyed, "max_by", (position,), elements)[-1] == Row(k="b", n=4)

    def test_rows_without_names(self, env):
        elements = [Row("a", 3), Row("b", 4)]
        keyed = env.from_collection(elements).key_by(lambda r: r[0])
        assert reduced(keyed, "min", (1,), elements)[-1] == Row("a", 3)

    def test_lists_are_aggregated_and_not_changed(self, env):
        elements = [[1, 5], [2, 4]]
        keyed = env.from_collection(elements).key_by(lambda v: 0)
        assert reduced(keyed, "sum", (1,), elements)[-1] == [1, 9]
        assert elements == [[1, 5], [2, 4]]

    @pytest.mark.parametrize(
        ("method", "expected"),
        [
            ("sum", [5, 8, 16]),
            ("min", [5, 3, 3]),
            ("max", [5, 5, 8]),
            ("min_by", [5, 3, 3]),
            ("max_by", [5, 5, 8]),
        ],
    )
    def test_numbers_are_aggregated_as_they_are(self, env, method, expected):
        keyed = env.from_collection([5, 3, 8], Types.LONG()).key_by(lambda v: 0)
        for position in ((), (0,)):
            assert reduced(keyed, method, position, [5, 3, 8]) == expected

    @pytest.mark.parametrize(
        ("type_info", "position", "message"),
        [
            (PAIR, 2, "sum: the position must be below 2"),
            (PAIR, -3, "below 2"),
            (PAIR, "f1", "tuples have no names"),
            (NAMED, "x", "'x' is none of the fields k, n"),
            (NAMED, 2, "below 2"),
            (Types.LONG(), 1, "must be 0, which is the whole element"),
            (None, 1.5, "the number or the name of a field, got 1.5"),
            (None, True, "got True"),
        ],
    )
    def test_a_position_that_is_not_there_is_refused(self, env, type_info, position, message):
        elements = [1] if type_info == Types.LONG() else [("a", 1)]
        keyed = env.from_collection(elements, type_info).key_by(str)
        with pytest.raises(ConfigurationError, match=message):
            keyed.sum(position)

    @pytest.mark.parametrize("method", ["sum", "max_by"])
    def test_a_field_of_an_untyped_number(self, env, method):
        keyed = env.from_collection([1]).key_by(str)
        with pytest.raises(
            TypeMismatchError, match="field 1 of 1: an element without fields has field 0 only"
        ):
            reduced(keyed, method, (1,), [1, 2])
