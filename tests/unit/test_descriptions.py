"""What a checkpoint's row says of operators and states: read, and written again as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.small_state import KeptBroadcast
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState, keyed_operators

# Rows of the engine before descriptions had types of their own.
_KEYED = '{"uid":"op","name":"visits","kind":"process","parallelism":2,"max_parallelism":8,"key_type":%s,"states":[%s]}'
STATES = [
    '{"name":"clicks","kind":"value","value_type":{"type":"LONG"}}',
    '{"name":"seen","kind":"map","value_type":{"type":"PICKLED_BYTE_ARRAY"},"map_key_type":{"type":"STRING"}}',
    '{"name":"__window_contents","kind":"list","value_type":{"type":"LONG"},"namespace":"time_window"}',
    '{"name":"timed","kind":"map","value_type":{"type":"TUPLE","fields":[{"type":"LONG"},{"type":"STRING"}]},'
    '"map_key_type":{"type":"STRING"},"ttl":{"ttl_ms":60000}}',
    '{"name":"late","kind":"value","value_type":{"type":"INT"},"since":4}',
    '{"name":"list","kind":"list","value_type":{"type":"STRING"},'
    '"earlier":[{"value_type":{"type":"LONG"},"key_groups":[[0,2],[5,7]]}],"since":4}',
]
OPERATORS = [
    '{"uid":"source-ab586eff","name":"numbers","kind":"source","parallelism":1,"max_parallelism":128}',
    _KEYED % ("null", ""),
    *[_KEYED % ('{"type":"STRING"}', state) for state in STATES],
    _KEYED % ("null", ",".join(STATES)),
]
_ROW = (
    '{"format":1,"id":4,"attempt":1,"parent":null,"lineage":[[1,4,4]],"time_ms":1,"duration_ms":0,'
    '"parent_acknowledged_ms":null,"restored_ms":null,"rows":0,"bytes":0,"parts":0,"snapshot":null,"sources":{},'
    '"operator_state":{"op":{"shared":{"rules":{"r":[["1","2",null]],"__types":{"r":{"name":"r","kind":"map",'
    '"value_type":{"type":"LONG"},"map_key_type":{"type":"LONG"},"key_type":null}}}}}},'
    '"operators":[%s],"finished":false,"stopped":false,"figures":{}}'
)


def row_of(operator: Any) -> str:
    return _ROW % json.dumps(operator, separators=(",", ":"))


@pytest.mark.parametrize("operators", [*OPERATORS, ",".join(OPERATORS), ""])
def test_a_row_is_written_as_it_was_read(operators: str) -> None:
    assert Checkpoint.from_json(_ROW % operators).to_json() == _ROW % operators


def test_what_readers_see() -> None:
    checkpoint = Checkpoint.from_json(_ROW % ",".join([OPERATORS[0], OPERATORS[-1]]))
    source, operator = checkpoint.operators
    assert (source.keyed, source.states, source.key_type) == (False, (), None)
    assert keyed_operators(checkpoint.operators) == [operator]
    assert [state.ttl_ms for state in operator.states] == [None, None, None, 60_000, None, None]
    assert [state.since for state in operator.states] == [None] * 4 + [4, 4]
    assert operator.states[5].earlier[0].key_groups == [[0, 2], [5, 7]]


def test_fields_of_a_newer_engine_are_passed_on() -> None:
    operator = json.loads(OPERATORS[-2])
    for place in (operator, operator["states"][0], operator["states"][0]["earlier"][0]):
        place |= {"mood": {"good": 1}, "unknown": 2, "keyed": 3}
    assert Checkpoint.from_json(row_of(operator)).to_json() == row_of(operator)
    described = {"name": "r", "kind": "map", "value_type": {"type": "LONG"}, "mood": 1, "key_type": None}
    document = {"r": [], "__types": {"r": described}}
    assert KeptBroadcast.from_json(document).to_json() == document


@pytest.mark.parametrize(
    ("where", "name"),
    [
        *[((), name) for name in DescribedOperator._fields[:5]],
        *[(("states", 0), name) for name in DescribedState._fields[:3]],
        (("states", 0, "earlier", 0), "key_groups"),
    ],
)
def test_a_description_with_a_hole_is_named(where: tuple[Any, ...], name: str) -> None:
    place = operator = json.loads(OPERATORS[-2])
    for step in where:
        place = place[step]
    del place[name]
    with pytest.raises(
        CorruptChangelogError, match=f"says of an operator or state is damaged: it has no '{name}'"
    ):
        Checkpoint.from_json(row_of(operator))
