"""What connected and broadcast streams build, and what they refuse."""

from __future__ import annotations

import pytest
from support.graphs import nodes_of

from api.common import Types
from api.datastream import (
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
    data_stream,
)
from api.datastream._fields import subtask_of_key
from api.datastream.functions import BaseBroadcastProcessFunction
from api.datastream.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import BroadcastSpec, NodeKind, Partitioner

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
MORE = MapStateDescriptor("more", Types.INT(), Types.LIST(Types.STRING()))


class Map(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


class FlatMap(CoFlatMapFunction):
    def flat_map1(self, value):
        yield value

    def flat_map2(self, value):
        yield value


class Process(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    def process_element2(self, value, ctx):
        yield value


class KeyedProcess(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    def process_element2(self, value, ctx):
        yield value


class Price(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        yield value


class KeyedPrice(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        yield value


@pytest.fixture
def env(monkeypatch):
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


@pytest.fixture
def words(env):
    return env.from_collection(["a"], Types.STRING())


@pytest.fixture
def numbers(env):
    return env.from_collection([1], Types.INT())


class TestConnectedStreams:
    @pytest.mark.parametrize(
        ("method", "function", "kind", "name"),
        [
            ("map", Map(), NodeKind.CO_MAP, "Co-Map"),
            ("flat_map", FlatMap(), NodeKind.CO_FLAT_MAP, "Co-Flat Map"),
            ("process", Process(), NodeKind.CO_PROCESS, "Co-Process"),
        ],
    )
    def test_two_streams_become_one_node(self, words, numbers, method, function, kind, name):
        connected = words.connect(numbers)
        assert type(connected) is ConnectedStreams
        assert (connected.stream1, connected.stream2, connected.is_keyed()) == (words, numbers, False)
        result = getattr(connected, method)(function, Types.STRING())
        assert (result.get_type(), result.get_name()) == (Types.STRING(), name)
        _, _, node = nodes_of(result)
        assert (node.kind, node.inputs, node.function) == (kind, (0, 1), function)
        assert getattr(connected, method)(function).get_type() == Types.PICKLED_BYTE_ARRAY()

    @pytest.mark.parametrize(
        ("method", "function"),
        [("map", Map()), ("flat_map", FlatMap()), ("process", Process()), ("process", KeyedProcess())],
    )
    def test_two_keyed_streams_are_keyed_by_one_type(self, words, numbers, method, function):
        connected = words.connect(numbers).key_by(len, abs, Types.INT())
        assert connected.is_keyed()
        *_, first, second, node = nodes_of(getattr(connected, method)(function, [Types.INT()]))
        assert (first.kind, first.function, first.key_type) == (NodeKind.KEY_BY, len, Types.INT())
        assert (second.kind, second.function, second.key_type) == (NodeKind.KEY_BY, abs, Types.INT())
        assert (node.inputs, node.output_type) == ((first.id, second.id), Types.ROW([Types.INT()]))

    def test_two_keyed_streams(self, words, numbers):
        connected = words.key_by(len).connect(numbers.key_by(abs))
        assert connected.is_keyed()
        assert connected.process(KeyedProcess()).get_name() == "Keyed Co-Process"

    def test_a_keyed_function_without_keys(self, words, numbers):
        assert words.connect(numbers).process(KeyedProcess()).get_name() == "Co-Process"

    def test_keys_are_replaced(self, words, numbers):
        connected = words.key_by(str).connect(numbers).key_by(len, abs)
        keys = [node.function for node in nodes_of(connected.map(Map())) if node.kind is NodeKind.KEY_BY]
        assert keys == [len, abs]

    def test_a_stream_with_itself(self, words):
        assert nodes_of(words.connect(words).map(Map()))[-1].inputs == (0, 0)

    def test_only_one_is_keyed(self, words, numbers):
        for connected in (words.key_by(len).connect(numbers), words.connect(numbers.key_by(abs))):
            assert not connected.is_keyed()
            found = nodes_of(connected.map(Map()))
            assert [node.kind for node in found if node.kind is NodeKind.KEY_BY] == []
            custom = [node for node in found if node.kind is NodeKind.PARTITION]
            assert [found[node.inputs[0]].name for node in custom] == ["KeyAndElement"]

    def test_rows_with_keys_need_no_uid(self, env, words, numbers):
        env.get_config().disable_auto_generated_uids()
        for number, stream in enumerate((words, numbers)):
            stream.uid(f"source {number}")
        words.key_by(len).connect(numbers).map(Map()).uid("both")
        assert env.get_execution_plan()

    def test_rows_of_a_key_come_to_one_subtask(self):
        keys = ["a", "b", 1, 1.0, None, (1, "a")]
        assert [{subtask_of_key(None, key, 3) for _ in range(2)} <= {0, 1, 2} for key in keys] == [True] * 6
        assert len({subtask_of_key(Types.LONG(), key, 4) for key in range(50)}) == 4

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda both: both.map(lambda v: v), "ConnectedStreams.map needs a CoMapFunction, got"),
            (lambda both: both.map(FlatMap()), "needs a CoMapFunction, got FlatMap"),
            (lambda both: both.map(Map), r"write Map\(\)"),
            (lambda both: both.flat_map(Map()), "needs a CoFlatMapFunction, got Map"),
            (lambda both: both.process(Map()), "needs a CoProcessFunction, got Map"),
            (lambda both: both.key_by(5, abs), "KeySelector"),
            (lambda both: both.map(Map(), "INT"), "ConnectedStreams.map: output_type"),
        ],
    )
    def test_connected_streams_refuse_bad_arguments_by_name(self, words, numbers, call, message):
        with pytest.raises(ConfigurationError, match=message):
            call(words.connect(numbers))

    def test_what_can_be_connected(self, words):
        with pytest.raises(
            ConfigurationError, match="connect needs a DataStream or a BroadcastStream, got 5"
        ):
            words.connect(5)
        other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
        for stream in (other, other.broadcast(RULES)):
            with pytest.raises(ConfigurationError, match=r"DataStream\.connect: .* another environment"):
                words.connect(stream)


class TestBroadcast:
    @pytest.mark.parametrize(
        ("make", "function", "name"),
        [
            (lambda ds: ds, Price(), "Co-Process-Broadcast"),
            (lambda ds: ds.key_by(len), KeyedPrice(), "Keyed-Co-Process-Broadcast"),
        ],
    )
    def test_a_broadcast_node_has_its_states(self, words, numbers, make, function, name):
        connected = make(words).connect(numbers.broadcast(RULES, MORE))
        assert type(connected) is BroadcastConnectedStream
        assert connected.broadcast_state_descriptors == [RULES, MORE]
        result = connected.process(function, Types.STRING())
        assert (result.get_name(), result.get_type()) == (name, Types.STRING())
        *others, node = nodes_of(result)
        assert (node.kind, node.parallelism) == (NodeKind.BROADCAST_PROCESS, 2)
        assert node.function == BroadcastSpec(function, (RULES.to_spec(), MORE.to_spec()))
        first, second = (others[i] for i in node.inputs)
        assert first.kind is (NodeKind.SOURCE if isinstance(function, Price) else NodeKind.KEY_BY)
        assert (second.kind, second.function.partitioner) == (NodeKind.PARTITION, Partitioner.BROADCAST)

    @pytest.mark.parametrize(
        ("keyed", "function", "message"),
        [
            (True, Price(), "the stream is keyed, so Price must be a KeyedBroadcastProcessFunction"),
            (False, KeyedPrice(), "KeyedPrice needs a keyed stream"),
            (False, lambda v: v, "needs a BroadcastProcessFunction, got"),
            (True, Map(), "needs a KeyedBroadcastProcessFunction, got Map"),
            (False, Price, r"write Price\(\)"),
        ],
    )
    def test_broadcast_functions_fit_the_stream_or_are_refused(
        self, words, numbers, keyed, function, message
    ):
        stream = words.key_by(len) if keyed else words
        with pytest.raises(ConfigurationError, match=message):
            stream.connect(numbers.broadcast(RULES)).process(function)

    def test_a_plain_broadcast_connects_as_a_stream(self, words, numbers):
        _, _, partition, node = nodes_of(words.connect(numbers.broadcast()).map(Map()))
        assert node.inputs == (0, partition.id)


class TestClasses:
    def test_names_of_data_stream_module(self):
        assert data_stream.ConnectedStreams is ConnectedStreams
        assert data_stream.BroadcastConnectedStream is BroadcastConnectedStream
        assert all(hasattr(data_stream, name) for name in data_stream.__all__)

    def test_broadcast_functions_take_type_parameters(self):
        class Typed(BroadcastProcessFunction[str, int, str]):
            pass

        class KeyedTyped(KeyedBroadcastProcessFunction[int, str, int, str]):
            pass

        for cls in (Typed, KeyedTyped):
            assert issubclass(cls, BaseBroadcastProcessFunction)
            with pytest.raises(TypeError, match="process_broadcast_element"):
                cls()

    def test_hooks_do_nothing(self):
        for function in (KeyedProcess(), KeyedPrice()):
            assert function.on_timer(1, None) is None
            function.open(None)
            function.close()

    def test_contexts_of_two_inputs_are_no_contexts_of_one(self):
        assert not issubclass(CoProcessFunction.Context, ProcessFunction.Context)
        assert issubclass(KeyedCoProcessFunction.OnTimerContext, KeyedCoProcessFunction.Context)
        assert issubclass(
            KeyedBroadcastProcessFunction.OnTimerContext, BaseBroadcastProcessFunction.ReadOnlyContext
        )
        assert not issubclass(
            KeyedBroadcastProcessFunction.ReadOnlyContext, BaseBroadcastProcessFunction.Context
        )


class Reader(ReadOnlyBroadcastState):
    def __init__(self):
        self.entries = {}

    def get(self, key):
        return self.entries.get(key)

    def contains(self, key):
        return key in self.entries

    def items(self):
        return self.entries.items()

    def keys(self):
        return self.entries.keys()

    def values(self):
        return self.entries.values()

    def is_empty(self):
        return not self.entries

    def clear(self):
        self.entries.clear()


class Writer(Reader, BroadcastState):
    def put(self, key, value):
        self.entries[key] = value

    def put_all(self, dict_value):
        self.entries.update(dict_value)

    def remove(self, key):
        self.entries.pop(key, None)


def test_broadcast_states_are_maps():
    state = Writer()
    state["a"] = 1
    state["b"] = 2
    del state["b"]
    assert (state["a"], state["b"], "a" in state, "b" in state, list(state)) == (1, None, True, False, ["a"])
    for name in ("put", "put_all", "remove", "__setitem__", "__delitem__"):
        assert not hasattr(Reader(), name)
