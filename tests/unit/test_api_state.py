"""State descriptors, and the abstract classes that the engine stands behind."""

from __future__ import annotations

import inspect
import json
import pickle
from pathlib import Path

import pytest
from support.profiles import Mean

import api.datastream.functions as functions
import api.datastream.state as state
from api.common import Types
from api.datastream import ReduceFunction, TimerService
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import StateKind, StateSpec


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


def test_specs():
    assert ValueStateDescriptor("v", Types.LONG()).to_spec() == StateSpec("v", StateKind.VALUE, Types.LONG())
    assert ListStateDescriptor("l", Types.INT()).to_spec() == StateSpec("l", StateKind.LIST, Types.INT())
    assert MapStateDescriptor("m", Types.STRING(), Types.INT()).to_spec() == StateSpec(
        "m", StateKind.MAP, Types.INT(), map_key_type=Types.STRING()
    )
    add, mean = Add(), Mean()
    reducing = ReducingStateDescriptor("r", add, Types.LONG())
    assert reducing.to_spec() == StateSpec("r", StateKind.REDUCING, Types.LONG(), function=add)
    assert reducing.get_reduce_function() is add
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    aggregating = AggregatingStateDescriptor("a", mean, accumulator)
    assert aggregating.to_spec() == StateSpec("a", StateKind.AGGREGATING, accumulator, function=mean)
    assert aggregating.get_agg_function() is mean
    assert ReducingStateDescriptor("r", lambda a, b: a - b, Types.LONG()).to_spec().function.reduce(5, 3) == 2


def test_names():
    assert ValueStateDescriptor("a name", Types.LONG()).get_name() == "a name"
    for bad in ("", "  ", None, 5):
        with pytest.raises(ConfigurationError, match="name of a state"):
            ValueStateDescriptor(bad, Types.LONG())
    with pytest.raises(ConfigurationError, match="reserved"):
        ListStateDescriptor("__timers", Types.LONG())


@pytest.mark.parametrize(
    "call",
    [
        lambda: ValueStateDescriptor("s", None),
        lambda: ValueStateDescriptor("s", Types.LONG),
        lambda: ListStateDescriptor("s", int),
        lambda: MapStateDescriptor("s", "STRING", Types.INT()),
        lambda: MapStateDescriptor("s", Types.INT(), None),
        lambda: ReducingStateDescriptor("s", 5, Types.INT()),
        lambda: ReducingStateDescriptor("s", Mean(), Types.INT()),
        lambda: AggregatingStateDescriptor("s", lambda a, b: a, Types.INT()),
        lambda: AggregatingStateDescriptor("s", Mean, Types.INT()),
    ],
)
def test_bad_descriptors_name_the_state(call):
    with pytest.raises(ConfigurationError, match="'s'"):
        call()


def test_base_descriptor():
    with pytest.raises(ConfigurationError, match="must be one of"):
        StateDescriptor("s", Types.INT()).to_spec()


def test_descriptors_pickle():
    descriptor = pickle.loads(pickle.dumps(ReducingStateDescriptor("r", Add(), Types.LONG())))
    assert descriptor.get_name() == "r"


def test_abstract_classes_are_documented_and_cannot_be_made():
    classes = [
        functions.RuntimeContext,
        functions.KeyedStateStore,
        functions.ProcessFunction.Context,
        functions.KeyedProcessFunction.Context,
        functions.KeyedProcessFunction.OnTimerContext,
        TimerService,
        *(getattr(state, name) for name in state.__all__ if name.endswith("State")),
    ]
    for cls in classes:
        assert inspect.isabstract(cls), cls
        assert cls.__doc__
        with pytest.raises(TypeError):
            cls()
        for name in cls.__abstractmethods__:
            assert getattr(cls, name).__doc__, f"{cls.__name__}.{name}"


def test_map_state_operators():
    class Plain(MapState):
        def __init__(self):
            self.content = {}

        get = property(lambda self: self.content.get)
        put = property(lambda self: self.content.__setitem__)
        put_all = property(lambda self: self.content.update)
        remove = property(lambda self: self.content.pop)
        contains = property(lambda self: self.content.__contains__)
        items = property(lambda self: self.content.items)
        keys = property(lambda self: self.content.keys)
        values = property(lambda self: self.content.values)
        clear = property(lambda self: self.content.clear)

        def is_empty(self):
            return not self.content

    plain = Plain()
    plain["a"] = 1
    assert plain["a"] == 1
    assert "a" in plain
    assert list(plain) == ["a"]
    del plain["a"]
    assert plain.is_empty()


def test_public_classes_are_pyflinks_or_say_what_they_are():
    import api.common
    import api.datastream
    import api.datastream.connectors

    recorded = Path(__file__).parents[1] / "support" / "importable_names.json"
    pyflinks = {name for names in json.loads(recorded.read_text(encoding="utf-8")).values() for name in names}
    for module in (api.common, api.datastream, api.datastream.connectors):
        for name in module.__all__:
            member = getattr(module, name)
            if member.__module__.startswith("changelog_engine.api."):
                assert ("Source: an addition of this engine" in (member.__doc__ or "")) == (
                    name not in pyflinks
                ), name
                for attribute, value in vars(member).items():
                    if callable(value) and not attribute.startswith("_"):
                        assert inspect.getdoc(getattr(member, attribute)), f"{name}.{attribute}"
