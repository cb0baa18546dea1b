"""What methods of one stream build: partitionings, projections, side outputs, settings."""

from __future__ import annotations

import functools
import inspect
import pickle
from unittest import mock

import pytest
from support.graphs import nodes_of

from api.common import Types
from api.datastream import (
    AggregateFunction,
    BroadcastStream,
    CoProcessFunction,
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    ProcessWindowFunction,
    SinkFunction,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from api.datastream.functions import JavaFunctionWrapper, NullByteKeySelector, SourceFunction
from api.datastream.output_tag import OutputTag as SameTag
from api.datastream.state import MapStateDescriptor
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, InvalidJobError
from changelog_engine.graph import nodes
from changelog_engine.graph.nodes import NodeKind, PartitionSpec

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
NAMED = Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.INT()])
TAG = OutputTag("late", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Split(ProcessFunction):
    def process_element(self, value, ctx):
        yield TAG, value


class ByRemainder(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


class OpenedByRemainder(ByRemainder):
    def open(self, runtime_context):
        self.opened = runtime_context

    def close(self):
        self.opened = None


class Second(KeySelector):
    def get_key(self, value):
        return value[1]


class Same(MapFunction):
    def map(self, value):
        return value


@pytest.fixture
def env(monkeypatch):
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


@pytest.fixture
def pairs(env):
    return env.from_collection([("a", 1), ("b", 2)], PAIR)


class TestPartitionings:
    @pytest.mark.parametrize(
        ("method", "partitioner"),
        [
            ("rebalance", nodes.Partitioner.REBALANCE),
            ("rescale", nodes.Partitioner.RESCALE),
            ("shuffle", nodes.Partitioner.SHUFFLE),
            ("forward", nodes.Partitioner.FORWARD),
            ("broadcast", nodes.Partitioner.BROADCAST),
            ("global_", nodes.Partitioner.GLOBAL),
        ],
    )
    def test_a_partitioning_is_a_node_of_the_same_type(self, pairs, method, partitioner):
        stream = getattr(pairs, method)()
        assert type(stream) is DataStream
        assert stream.get_type() == PAIR
        _, node = nodes_of(stream)
        assert (node.kind, node.inputs) == (NodeKind.PARTITION, (0,))
        assert node.function == PartitionSpec(partitioner)
        assert (node.output_type, node.parallelism, node.uid) == (PAIR, None, None)

    def test_each_call_is_a_partitioning_of_its_own(self, pairs):
        pairs.rebalance().map(str).print()
        last = nodes_of(pairs.rebalance().shuffle())
        assert [node.kind.name for node in last].count("PARTITION") == 3
        assert last[-1].inputs == (last[-2].id,)

    @pytest.mark.parametrize("custom", [ByRemainder(), lambda key, n: key % n, OpenedByRemainder()])
    @pytest.mark.parametrize("selector", [Second(), lambda value: value[1]])
    def test_a_custom_partitioner_gets_the_selected_key(self, pairs, custom, selector):
        spec = nodes_of(pairs.partition_custom(custom, selector))[1].function
        assert spec.partitioner is nodes.Partitioner.CUSTOM
        assert spec.custom(spec.key_selector(("x", 7)), 4) == 3

    def test_a_partitioner_is_opened_and_closed(self, pairs):
        partitioner = OpenedByRemainder()
        spec = nodes_of(pairs.partition_custom(partitioner, Second()))[1].function
        spec.custom.open("context")
        assert partitioner.opened == "context"
        spec.custom.close()
        assert partitioner.opened is None
        assert not hasattr(
            nodes_of(pairs.partition_custom(ByRemainder(), Second()))[1].function.custom, "open"
        )

    def test_a_custom_partitioner_can_be_shipped(self, pairs):
        spec = nodes_of(pairs.partition_custom(OpenedByRemainder(), Second()))[1].function
        assert pickle.loads(pickle.dumps(spec)).custom(9, 4) == 1

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda ds: ds.partition_custom(5, Second()),
                "partition_custom: partitioner needs a Partitioner or",
            ),
            (lambda ds: ds.partition_custom(ByRemainder, Second()), r"write ByRemainder\(\)"),
            (
                lambda ds: ds.partition_custom(Same(), Second()),
                "partitioner needs a Partitioner or a function",
            ),
            (lambda ds: ds.partition_custom(ByRemainder(), 5), "key_selector needs a KeySelector or"),
            (lambda ds: ds.broadcast("rules"), "must be a MapStateDescriptor, got a str"),
            (lambda ds: ds.broadcast(None, RULES), "must be a MapStateDescriptor, got None"),
            (lambda ds: ds.broadcast(RULES, RULES), "two broadcast states have the name 'rules'"),
        ],
    )
    def test_partitionings_refuse_bad_arguments_by_name(self, pairs, call, message):
        with pytest.raises(ConfigurationError, match=message):
            call(pairs)

    def test_broadcast_with_descriptors(self, pairs):
        more = MapStateDescriptor("more", Types.STRING(), Types.INT())
        stream = pairs.broadcast(RULES, more)
        assert type(stream) is BroadcastStream
        assert stream.broadcast_state_descriptors == [RULES, more]
        node = nodes_of(stream.input_stream)[-1]
        assert node.function == PartitionSpec(nodes.Partitioner.BROADCAST)

    @pytest.mark.parametrize("method", ["rebalance", "rescale", "shuffle", "forward", "broadcast", "global_"])
    def test_a_keyed_stream_has_its_partitioning(self, pairs, method):
        with pytest.raises(
            InvalidJobError, match=rf"KeyedStream\.{method} is not possible, since key_by\(\) decides"
        ):
            getattr(pairs.key_by(Second()), method)()

    def test_a_keyed_stream_has_no_partition_custom(self, pairs):
        with pytest.raises(InvalidJobError, match=r"KeyedStream\.partition_custom is not possible"):
            pairs.key_by(Second()).partition_custom(ByRemainder(), Second())


class TestProject:
    def test_fields_in_the_order_asked_for(self, pairs):
        projected = pairs.project(1, 0, 1)
        assert projected.get_type() == Types.TUPLE([Types.INT(), Types.STRING(), Types.INT()])
        node = nodes_of(projected)[1]
        assert node.kind is NodeKind.MAP
        assert pickle.loads(pickle.dumps(node.function)).map(("a", 1)) == (1, "a", 1)

    def test_one_field_is_a_tuple(self, pairs):
        assert nodes_of(pairs.project(1))[1].function.map(("a", 1)) == (1,)

    def test_a_keyed_stream_projects_the_stream_before(self, pairs):
        kinds = [node.kind.name for node in nodes_of(pairs.key_by(Second()).project(0))]
        assert kinds == ["SOURCE", "MAP"]

    @pytest.mark.parametrize(
        ("fields", "message"),
        [((2,), "between 0 and 1, got 2"), ((-1,), "got -1"), ((), "one field"), (("a",), "'a'")],
    )
    def test_a_projection_refuses_fields_that_are_not_there(self, pairs, fields, message):
        with pytest.raises(ConfigurationError, match=message):
            pairs.project(*fields)

    @pytest.mark.parametrize("type_info", [None, NAMED])
    def test_a_projection_needs_tuples(self, env, type_info):
        with pytest.raises(ConfigurationError, match="needs a stream of tuples"):
            env.from_collection([("a", 1)], type_info).project(0)


class TestSideOutputs:
    def test_a_side_output_is_a_node_with_settings_of_its_own(self, pairs):
        main = pairs.process(Split())
        side = main.get_side_output(TAG)
        assert side.get_type() == Types.STRING()
        node = nodes_of(side.name("late ones").uid("late-1").set_parallelism(2))[-1]
        assert (node.kind, node.function, node.output_type) == (NodeKind.SIDE_OUTPUT, "late", Types.STRING())
        assert (node.inputs, node.name, node.uid) == ((1,), "late ones", "late-1")

    def test_the_same_tag_twice(self, pairs):
        main = pairs.process(Split())
        first, second = main.get_side_output(TAG), main.get_side_output(OutputTag("late", Types.STRING()))
        last = nodes_of(first.union(second))
        assert [node.kind.name for node in last[-3:]] == ["SIDE_OUTPUT", "SIDE_OUTPUT", "UNION"]

    def test_without_a_type(self, pairs):
        assert pairs.process(Split()).get_side_output(OutputTag("x")).get_type() == Types.PICKLED_BYTE_ARRAY()

    def test_another_type_under_the_same_name(self, pairs):
        main = pairs.process(Split())
        main.get_side_output(TAG)
        with pytest.raises(
            ConfigurationError, match="'late' of 'Process' was asked for with type STRING before"
        ):
            main.get_side_output(OutputTag("late", Types.INT()))
        pairs.process(Split()).get_side_output(OutputTag("late", Types.INT()))

    @pytest.mark.parametrize("make", [lambda ds: ds, lambda ds: ds.map(str), lambda ds: ds.key_by(str)])
    def test_operators_without_side_outputs(self, pairs, make):
        with pytest.raises(InvalidJobError, match="has no side outputs"):
            make(pairs).get_side_output(TAG)

    def test_a_side_output_needs_a_tag(self, pairs):
        with pytest.raises(ConfigurationError, match="must be an OutputTag, got a str"):
            pairs.process(Split()).get_side_output("late")

    def test_the_class_is_the_one_of_pyflinks_module(self):
        assert SameTag is OutputTag


class TestOperatorSettings:
    def test_they_chain_and_are_kept(self, pairs):
        group = SlotSharingGroup.builder("g").build()
        stream = pairs.map(str)
        chained = (
            stream.set_buffer_timeout(-1)
            .disable_chaining()
            .start_new_chain()
            .set_description("what it does")
            .slot_sharing_group(group)
            .set_uid_hash("0123456789abcdef0123456789ABCDEF")
        )
        assert chained is stream
        kept = stream._transformation
        assert (kept.buffer_timeout_ms, kept.chaining.value, kept.description) == (-1, "head", "what it does")
        assert kept.slot_sharing_group is group
        assert nodes_of(stream)[1].uid == "0123456789abcdef0123456789ABCDEF"

    def test_a_sink_keeps_what_is_set_on_it(self, pairs):
        sink = pairs.print()
        assert (
            sink.disable_chaining().set_description("d").slot_sharing_group("g").set_uid_hash("a" * 32)
            is sink
        )
        kept = sink._transformation
        assert (kept.chaining.value, kept.description, kept.slot_sharing_group) == ("never", "d", "g")
        env = pairs.get_execution_environment()
        assert env._take_job("job")[0].nodes[-1].uid == "a" * 32

    def test_a_uid_goes_before_its_hash(self, pairs):
        assert nodes_of(pairs.map(str).set_uid_hash("a" * 32).uid("mine"))[1].uid == "mine"

    def test_duplicate_uid_hash(self, pairs):
        pairs.map(str).set_uid_hash("a" * 32).map(str).set_uid_hash("a" * 32).print()
        with pytest.raises(InvalidJobError, match="is given to two operators"):
            pairs.get_execution_environment()._take_job("job")

    def test_force_non_parallel(self, pairs):
        stream = pairs.rebalance().map(str).set_parallelism(2).force_non_parallel()
        node = nodes_of(stream)[-1]
        assert (node.parallelism, node.max_parallelism) == (1, 1)
        stream.set_parallelism(1).set_max_parallelism(1)
        for method in (stream.set_parallelism, stream.set_max_parallelism):
            with pytest.raises(ConfigurationError, match=r"must be 1 after force_non_parallel\(\), got 2"):
                method(2)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda ds: ds.set_buffer_timeout(-2),
                "DataStream.set_buffer_timeout: timeout_millis must be at least -1",
            ),
            (lambda ds: ds.set_uid_hash("xyz"), "set_uid_hash: uid_hash must be 32 hexadecimal digits"),
            (lambda ds: ds.set_uid_hash("a" * 33), "32 hexadecimal"),
            (lambda ds: ds.set_description(5), "set_description: the description must be a str"),
            (lambda ds: ds.slot_sharing_group(5), "must be a name or a SlotSharingGroup, got 5"),
            (lambda ds: ds.slot_sharing_group(" "), "must be a name or a SlotSharingGroup"),
            (lambda ds: ds.print().set_uid_hash("x"), "DataStreamSink.set_uid_hash"),
            (lambda ds: ds.print().slot_sharing_group(None), "DataStreamSink.slot_sharing_group"),
            (
                lambda ds: ds.print().set_parallelism(0),
                "DataStreamSink.set_parallelism of 'Print to Std. Out'",
            ),
        ],
    )
    def test_settings_of_an_operator_refuse_bad_arguments_by_name(self, pairs, call, message):
        with pytest.raises(ConfigurationError, match=message):
            call(pairs.map(str))

    @pytest.mark.parametrize(
        ("make", "name"),
        [
            (lambda ds: ds.key_by(str), "key_by"),
            (lambda ds: ds.rebalance(), "rebalance"),
            (lambda ds: ds.global_(), "global_"),
            (lambda ds: ds.partition_custom(ByRemainder(), Second()), "partition_custom"),
            (lambda ds: ds.union(ds), "union"),
        ],
    )
    @pytest.mark.parametrize(
        "call",
        [
            lambda ds: ds.get_name(),
            lambda ds: ds.name("x"),
            lambda ds: ds.uid("x"),
            lambda ds: ds.set_uid_hash("a" * 32),
            lambda ds: ds.set_parallelism(1),
            lambda ds: ds.set_max_parallelism(1),
            lambda ds: ds.force_non_parallel(),
            lambda ds: ds.set_description("x"),
            lambda ds: ds.set_buffer_timeout(1),
            lambda ds: ds.start_new_chain(),
            lambda ds: ds.disable_chaining(),
            lambda ds: ds.slot_sharing_group("x"),
        ],
    )
    def test_streams_that_are_no_operators(self, pairs, make, name, call):
        with pytest.raises(
            InvalidJobError, match=rf"is not possible after {name}\(\).*not an operator of its own"
        ):
            call(make(pairs))

    def test_a_list_of_types_means_rows(self, pairs):
        types = [Types.STRING(), Types.INT()]
        streams = [
            pairs.map(Same(), types),
            pairs.flat_map(list, types),
            pairs.process(Split(), types),
            pairs.key_by(str).map(Same(), types),
        ]
        assert [stream.get_type() for stream in streams] == [Types.ROW(types)] * 4


class TestFunctionClasses:
    def test_null_byte_key_selector(self):
        assert NullByteKeySelector().get_key("anything") == 0

    def test_wrapped_functions_are_given_back(self):
        for wrapper in (SourceFunction, SinkFunction):
            assert isinstance(wrapper(print), JavaFunctionWrapper)
            assert wrapper(print).get_java_function() is print

    def test_a_partitioner_must_say_how(self):
        with pytest.raises(TypeError, match="partition"):
            Partitioner()


class Collecting(FlatMapFunction):
    def flat_map(self, value, out):
        out.collect(value)


class CollectingTimers(KeyedProcessFunction):
    def process_element(self, value, ctx, out):
        out.collect(value)


class CollectingPairs(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    def process_element2(self, value, ctx, out):
        out.collect(value)


class CollectingWindows(ProcessWindowFunction):
    def process(self, key, context, elements, out):
        out.collect(key)


class KeyOfTwo(KeySelector):
    def get_key(self, value, other):
        return value


class NotMerging(AggregateFunction):
    def create_accumulator(self, start=0):
        return start

    def add(self, *both):
        return sum(both)

    def get_result(self, accumulator):
        return accumulator

    def merge(self):
        """Called by windows that merge only."""


def test_a_function_written_for_javas_collector_is_refused_where_it_is_given(env):
    numbers = env.from_collection([1, 2])
    for give, says in [
        (lambda: numbers.flat_map(Collecting()), r"flat_map of Collecting takes \(value, out\)"),
        (
            lambda: numbers.key_by(lambda v: v).process(CollectingTimers()),
            r"called with \(value, ctx\).*no collector",
        ),
        (
            lambda: numbers.connect(numbers).process(CollectingPairs()),
            "process_element2 of CollectingPairs takes",
        ),
        (
            lambda: numbers.key_by(lambda v: v).count_window(2).process(CollectingWindows()),
            r"process of CollectingWindows takes .* called with \(key, content, elements\)",
        ),
        (lambda: numbers.key_by(KeyOfTwo()), "get_key of KeyOfTwo takes"),
    ]:
        with pytest.raises(ArgumentTypeError, match=says):
            give()
    numbers.key_by(lambda v: v).count_window(2).aggregate(NotMerging())


def collecting(method):
    """Java's collector, by a decorator that keeps what the method says of its arguments."""

    @functools.wraps(method)
    def call(self, *arguments):
        out = mock.Mock()
        method(self, *arguments, out)
        return [each.args[0] for each in out.collect.call_args_list]

    return call


class Decorated(FlatMapFunction):
    @collecting
    def flat_map(self, value, out):
        out.collect(value)


class Signed(MapFunction):
    def map(self, *values):
        return values

    map.__signature__ = inspect.Signature()


def test_what_a_decorated_method_says_of_its_arguments_is_not_believed(env):
    numbers = env.from_collection([1, 2])
    numbers.flat_map(Decorated())
    numbers.map(Signed())
