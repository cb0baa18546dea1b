"""State that is asked for where there is none: the error says where it is."""

from __future__ import annotations

from typing import Any

import pytest

from changelog_engine.api.common import Types
from changelog_engine.api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from changelog_engine.operators.context import ElementContext, KeyedElementContext


@pytest.mark.parametrize("context", [ElementContext, KeyedElementContext])
def test_a_function_s_context_has_no_state(context: type[Any]) -> None:
    there = context.__new__(context)
    with pytest.raises(
        AttributeError, match=r"state is asked for in open\(\), by runtime_context.get_map_state"
    ):
        there.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    with pytest.raises(
        AttributeError, match=r"no attribute 'output': yield results, and \(tag, element\) for a side"
    ):
        there.output("late", 1)
    assert not hasattr(there, "get_state")


@pytest.mark.parametrize(
    ("descriptor", "method"),
    [
        (ValueStateDescriptor("v", Types.LONG()), "update"),
        (ValueStateDescriptor("v", Types.LONG()), "value"),
        (ListStateDescriptor("l", Types.LONG()), "add"),
        (MapStateDescriptor("m", Types.STRING(), Types.LONG()), "put"),
    ],
)
def test_a_descriptor_is_not_the_state(descriptor: object, method: str) -> None:
    with pytest.raises(AttributeError, match=r"a descriptor only says what the state is: in open\(\)"):
        getattr(descriptor, method)
