"""Many bad calls, made in PyFlink or here: which exceptions does each raise?

    python tests/support/bad_calls.py pyflink > tests/support/bad_calls_pyflink.json   # with apache-flink installed
    python tests/support/bad_calls.py api                                              # the same calls here

A call that raises nothing is recorded as such. Lone surrogates in names are not among the calls: PyFlink's bridge to Java
never returns from them. Nothing of the project is imported, so that the file runs wherever PyFlink does.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

_MODULES = (
    "common",
    "common.restart_strategy",
    "common.serialization",
    "common.typeinfo",
    "common.watermark_strategy",
    "datastream",
    "datastream.connectors.number_seq",
    "datastream.checkpoint_config",
    "datastream.checkpoint_storage",
    "datastream.functions",
    "datastream.output_tag",
    "datastream.slot_sharing_group",
    "datastream.state",
    "datastream.state_backend",
    "datastream.window",
)


class _Use:
    """What a call works with: the package's names, an environment, and streams."""

    def __init__(self, package: str) -> None:
        self.f = SimpleNamespace()
        for module in _MODULES:
            self.f.__dict__.update(vars(importlib.import_module(f"{package}.{module}")))
        self.env = self.f.StreamExecutionEnvironment.get_execution_environment()
        self.env.set_parallelism(1)

    @property
    def ints(self) -> Any:
        return self.env.from_collection([1, 1, 1], self.f.Types.INT())

    @property
    def texts(self) -> Any:
        return self.env.from_collection(["a", "a"], self.f.Types.STRING())

    @property
    def pairs(self) -> Any:
        types = self.f.Types
        return self.env.from_collection([(1, "a"), (1, "b")], types.TUPLE([types.INT(), types.STRING()]))

    @property
    def rows(self) -> Any:
        types = self.f.Types
        type_info = types.ROW_NAMED(["number", "name"], [types.INT(), types.STRING()])
        return self.env.from_collection([self.f.Row(1, "a")] * 2, type_info)

    @property
    def keyed(self) -> Any:
        return self.pairs.key_by(lambda value: value[0], self.f.Types.INT())

    @property
    def windowed(self) -> Any:
        return self.keyed.window(self.f.TumblingEventTimeWindows.of(self.f.Time.seconds(1)))

    @property
    def config(self) -> Any:
        return self.env.get_checkpoint_config()

    @property
    def mapped(self) -> Any:
        return self.ints.map(lambda value: value, self.f.Types.INT())


class _Other:
    """An object of no class that either package knows."""

    def __repr__(self) -> str:
        return "Other()"


_OTHER = _Other()


def _ended(stream: Any) -> None:
    with stream.execute_and_collect() as results:
        list(results)


def _state(make: Callable[[Any], Any]) -> Callable[[_Use], None]:
    """A call that works with state in a function of a job."""

    def call(u: _Use) -> None:
        f = u.f

        class Function(f.KeyedProcessFunction):  # type: ignore[misc,name-defined]
            def process_element(self, value: Any, ctx: Any) -> Any:
                yield value

            def open(self, runtime_context: Any) -> None:
                make(SimpleNamespace(f=f, context=runtime_context))

        _ended(u.keyed.process(Function(), f.Types.TUPLE([f.Types.INT(), f.Types.STRING()])))

    return call


# Of each call: what it is, the way a program would write it.
CALLS: dict[str, Callable[[_Use], Any]] = {
    # -- the environment
    "env.set_parallelism('2')": lambda u: u.env.set_parallelism("2"),
    "env.set_parallelism(1.5)": lambda u: u.env.set_parallelism(1.5),
    "env.set_parallelism(None)": lambda u: u.env.set_parallelism(None),
    "env.set_parallelism(0)": lambda u: u.env.set_parallelism(0),
    "env.set_parallelism(-3)": lambda u: u.env.set_parallelism(-3),
    "env.set_max_parallelism(0)": lambda u: u.env.set_max_parallelism(0),
    "env.set_max_parallelism(40000)": lambda u: u.env.set_max_parallelism(40000),
    "env.set_max_parallelism('a')": lambda u: u.env.set_max_parallelism("a"),
    "env.set_buffer_timeout(-2)": lambda u: u.env.set_buffer_timeout(-2),
    "env.set_buffer_timeout('a')": lambda u: u.env.set_buffer_timeout("a"),
    "env.set_runtime_mode('BATCH')": lambda u: u.env.set_runtime_mode("BATCH"),
    "env.enable_checkpointing(0)": lambda u: u.env.enable_checkpointing(0),
    "env.enable_checkpointing(-1)": lambda u: u.env.enable_checkpointing(-1),
    "env.enable_checkpointing('1s')": lambda u: u.env.enable_checkpointing("1s"),
    "env.enable_checkpointing(1000, 'EXACTLY_ONCE')": lambda u: u.env.enable_checkpointing(
        1000, "EXACTLY_ONCE"
    ),
    "env.set_state_backend('rocksdb')": lambda u: u.env.set_state_backend("rocksdb"),
    "env.set_restart_strategy('none')": lambda u: u.env.set_restart_strategy("none"),
    "env.set_stream_time_characteristic('x')": lambda u: u.env.set_stream_time_characteristic("x"),
    "env.register_slot_sharing_group('g')": lambda u: u.env.register_slot_sharing_group("g"),
    "env.configure({})": lambda u: u.env.configure({}),
    "env.enable_changelog_state_backend('yes')": lambda u: u.env.enable_changelog_state_backend("yes"),
    "env.set_default_savepoint_directory(5)": lambda u: u.env.set_default_savepoint_directory(5),
    "env.from_collection(5)": lambda u: u.env.from_collection(5),
    "env.from_collection([])": lambda u: u.env.from_collection([]),
    "env.from_collection([1], Types.INT)": lambda u: u.env.from_collection([1], u.f.Types.INT),
    "env.from_collection([1], 'INT')": lambda u: u.env.from_collection([1], "INT"),
    "env.from_collection(['a'], Types.INT())": lambda u: u.env.from_collection(["a"], u.f.Types.INT()),
    "env.from_collection([None], Types.INT())": lambda u: u.env.from_collection([None], u.f.Types.INT()),
    "env.from_collection([(1, 2, 3)], Types.TUPLE of two)": lambda u: u.env.from_collection(
        [(1, 2, 3)], u.f.Types.TUPLE([u.f.Types.INT(), u.f.Types.INT()])
    ),
    "env.from_collection([(1, 2)], Types.ROW of three)": lambda u: u.env.from_collection(
        [(1, 2)], u.f.Types.ROW([u.f.Types.INT(), u.f.Types.INT(), u.f.Types.INT()])
    ),
    "env.from_collection([1], Types.TUPLE of one)": lambda u: u.env.from_collection(
        [1], u.f.Types.TUPLE([u.f.Types.INT()])
    ),
    "env.from_collection([Row(a=1)], Types.ROW_NAMED of 'b')": lambda u: u.env.from_collection(
        [u.f.Row(a=1)], u.f.Types.ROW_NAMED(["b"], [u.f.Types.INT()])
    ),
    "env.from_collection(['2020-01-01'], Types.SQL_DATE())": lambda u: u.env.from_collection(
        ["2020-01-01"], u.f.Types.SQL_DATE()
    ),
    "env.from_collection([2**63], Types.LONG())": lambda u: u.env.from_collection([2**63], u.f.Types.LONG()),
    "env.from_source(5, ...)": lambda u: u.env.from_source(5, u.f.WatermarkStrategy.no_watermarks(), "s"),
    "env.from_source(source, None, 's')": lambda u: u.env.from_source(
        u.f.NumberSequenceSource(1, 2), None, "s"
    ),
    "env.add_source(5)": lambda u: u.env.add_source(5),
    "env.read_text_file(5)": lambda u: u.env.read_text_file(5),
    "env.read_text_file('')": lambda u: u.env.read_text_file(""),
    "env.generate_sequence('a', 'b')": lambda u: u.env.from_source(
        u.f.NumberSequenceSource("a", "b"), u.f.WatermarkStrategy.no_watermarks(), "s"
    ),
    "NumberSequenceSource(5, 1)": lambda u: u.f.NumberSequenceSource(5, 1),
    "env.execute() without operators": lambda u: u.env.execute("nothing"),
    "env.execute(5)": lambda u: (u.ints.print(), u.env.execute(5)),
    "env.get_execution_plan() without operators": lambda u: u.env.get_execution_plan(),
    "env.add_jars('no url')": lambda u: u.env.add_jars("no url"),
    "env.add_classpaths('no url')": lambda u: u.env.add_classpaths("no url"),
    "env.add_python_file(missing)": lambda u: u.env.add_python_file("/there/is/none.py"),
    "env.add_python_archive(missing)": lambda u: u.env.add_python_archive("/there/is/none.zip"),
    "env.set_python_requirements(missing)": lambda u: u.env.set_python_requirements("/there/is/none.txt"),
    "env.register_cached_file(missing)": lambda u: u.env.register_cached_file("/there/is/none", "name"),
    # -- streams
    "map(5)": lambda u: u.ints.map(5),
    "map(None)": lambda u: u.ints.map(None),
    "map(f, output_type='INT')": lambda u: u.ints.map(lambda v: v, "INT"),
    "map(f, output_type=Types.INT)": lambda u: u.ints.map(lambda v: v, u.f.Types.INT),
    "map(FilterFunction)": lambda u: u.ints.map(
        type("F", (u.f.FilterFunction,), {"filter": lambda s, v: True})()
    ),
    "map(MapFunction class)": lambda u: u.ints.map(type("M", (u.f.MapFunction,), {"map": lambda s, v: v})),
    "flat_map(5)": lambda u: u.ints.flat_map(5),
    "filter(5)": lambda u: u.ints.filter(5),
    "process(5)": lambda u: u.ints.process(5),
    "process(lambda)": lambda u: u.ints.process(lambda v: v),
    "process(KeyedProcessFunction) without key_by": lambda u: u.ints.process(
        _process(u, "KeyedProcessFunction")
    ),
    "key_by(5)": lambda u: u.pairs.key_by(5),
    "key_by(None)": lambda u: u.pairs.key_by(None),
    "key_by('number')": lambda u: u.rows.key_by("number"),
    "key_by(f, 'INT')": lambda u: u.pairs.key_by(lambda v: v[0], "INT"),
    "key_by(f, Types.INT)": lambda u: u.pairs.key_by(lambda v: v[0], u.f.Types.INT),
    "union(5)": lambda u: u.ints.union(5),
    "union of other types": lambda u: u.ints.union(u.texts),
    "connect(5)": lambda u: u.ints.connect(5),
    "broadcast('x')": lambda u: u.ints.broadcast("x"),
    "broadcast(ValueStateDescriptor)": lambda u: u.ints.broadcast(
        u.f.ValueStateDescriptor("v", u.f.Types.INT())
    ),
    "partition_custom(5, f)": lambda u: u.ints.partition_custom(5, lambda v: v),
    "partition_custom(f, 5)": lambda u: u.ints.partition_custom(lambda k, n: 0, 5),
    "project() of no field": lambda u: u.pairs.project(),
    "project(5)": lambda u: u.pairs.project(5),
    "project(-1)": lambda u: u.pairs.project(-1),
    "project('a')": lambda u: u.pairs.project("a"),
    "project(1.5)": lambda u: u.pairs.project(1.5),
    "project of ints": lambda u: u.ints.project(0),
    "get_side_output('tag')": lambda u: u.mapped.get_side_output("tag"),
    "add_sink(5)": lambda u: u.ints.add_sink(5),
    "sink_to(5)": lambda u: u.ints.sink_to(5),
    "print(5)": lambda u: u.ints.print(5),
    "execute_and_collect(job_execution_name=5)": lambda u: u.ints.execute_and_collect(5),
    "execute_and_collect(limit='a')": lambda u: u.ints.execute_and_collect("name", "a"),
    "assign_timestamps_and_watermarks(5)": lambda u: u.ints.assign_timestamps_and_watermarks(5),
    "name(5)": lambda u: u.mapped.name(5),
    "name(None)": lambda u: u.mapped.name(None),
    "uid(5)": lambda u: u.mapped.uid(5),
    "uid('')": lambda u: u.mapped.uid(""),
    "uid(None)": lambda u: u.mapped.uid(None),
    "set_uid_hash('x')": lambda u: u.mapped.set_uid_hash("x"),
    "set_uid_hash(5)": lambda u: u.mapped.set_uid_hash(5),
    "set_description(5)": lambda u: u.mapped.set_description(5),
    "set_parallelism('2')": lambda u: u.mapped.set_parallelism("2"),
    "set_parallelism(0)": lambda u: u.mapped.set_parallelism(0),
    "set_parallelism(2) of a collection": lambda u: u.ints.set_parallelism(2),
    "set_parallelism(2) after force_non_parallel()": lambda u: u.mapped.force_non_parallel().set_parallelism(
        2
    ),
    "set_max_parallelism(2) after force_non_parallel()": lambda u: (
        u.mapped.force_non_parallel().set_max_parallelism(2)
    ),
    "set_max_parallelism(0)": lambda u: u.mapped.set_max_parallelism(0),
    "set_max_parallelism('a')": lambda u: u.mapped.set_max_parallelism("a"),
    "set_buffer_timeout(-2)": lambda u: u.mapped.set_buffer_timeout(-2),
    "slot_sharing_group(5)": lambda u: u.mapped.slot_sharing_group(5),
    "name() after union": lambda u: u.ints.union(u.ints).name("n"),
    "uid() after key_by": lambda u: u.keyed.uid("n"),
    "name() after key_by": lambda u: u.keyed.name("n"),
    "set_parallelism() after key_by": lambda u: u.keyed.set_parallelism(1),
    "shuffle() after key_by": lambda u: u.keyed.shuffle(),
    "rebalance() after key_by": lambda u: u.keyed.rebalance(),
    "broadcast() after key_by": lambda u: u.keyed.broadcast(),
    "partition_custom() after key_by": lambda u: u.keyed.partition_custom(lambda k, n: 0, lambda v: v),
    "two operators with one uid": lambda u: (
        u.ints.map(lambda v: v).uid("same").map(lambda v: v).uid("same").print(),
        u.env.get_execution_plan(),
    ),
    # -- keyed streams
    "keyed.reduce(5)": lambda u: u.keyed.reduce(5),
    "keyed.process(ProcessFunction)": lambda u: u.keyed.process(_process(u, "ProcessFunction")),
    "keyed.process(5)": lambda u: u.keyed.process(5),
    "keyed.map(5)": lambda u: u.keyed.map(5),
    "keyed.flat_map(5)": lambda u: u.keyed.flat_map(5),
    "keyed.filter(5)": lambda u: u.keyed.filter(5),
    "keyed.sum(1.5)": lambda u: _ended(u.keyed.sum(1.5)),
    "keyed.sum(None)": lambda u: _ended(u.keyed.sum(None)),
    "keyed.sum(-1)": lambda u: _ended(u.keyed.sum(-1)),
    "keyed.sum(7)": lambda u: _ended(u.keyed.sum(7)),
    "keyed.sum('a') of tuples": lambda u: _ended(u.keyed.sum("a")),
    "keyed.sum(1) of texts": lambda u: _ended(u.keyed.sum(1)),
    "keyed.sum('none') of rows": lambda u: _ended(u.rows.key_by(lambda v: v[0]).sum("none")),
    "keyed.sum(1) of ints": lambda u: _ended(u.ints.key_by(lambda v: v).sum(1)),
    "keyed.min(1.5)": lambda u: _ended(u.keyed.min(1.5)),
    "keyed.min(7)": lambda u: _ended(u.keyed.min(7)),
    "keyed.max(1.5)": lambda u: _ended(u.keyed.max(1.5)),
    "keyed.max('a') of tuples": lambda u: _ended(u.keyed.max("a")),
    "keyed.min_by(1.5)": lambda u: _ended(u.keyed.min_by(1.5)),
    "keyed.min_by(7)": lambda u: _ended(u.keyed.min_by(7)),
    "keyed.max_by(1.5)": lambda u: _ended(u.keyed.max_by(1.5)),
    "keyed.max_by(7)": lambda u: _ended(u.keyed.max_by(7)),
    "keyed.window(5)": lambda u: u.keyed.window(5),
    "keyed.count_window('a')": lambda u: u.keyed.count_window("a"),
    "keyed.count_window(0)": lambda u: u.keyed.count_window(0),
    "window_all(5)": lambda u: u.ints.window_all(5),
    # -- two inputs
    "connected.map(5)": lambda u: u.ints.connect(u.texts).map(5),
    "connected.flat_map(5)": lambda u: u.ints.connect(u.texts).flat_map(5),
    "connected.process(5)": lambda u: u.ints.connect(u.texts).process(5),
    "connected.process(KeyedCoProcessFunction) without key_by": lambda u: u.ints.connect(u.texts).process(
        _co_process(u, "KeyedCoProcessFunction")
    ),
    "connected.key_by(5, 6)": lambda u: u.ints.connect(u.texts).key_by(5, 6),
    "broadcast.process(5)": lambda u: u.ints.connect(_broadcast(u)).process(5),
    "broadcast.process(KeyedBroadcastProcessFunction) without key_by": lambda u: u.ints.connect(
        _broadcast(u)
    ).process(_broadcast_process(u, "KeyedBroadcastProcessFunction")),
    "keyed broadcast.process(BroadcastProcessFunction)": lambda u: u.keyed.connect(_broadcast(u)).process(
        _broadcast_process(u, "BroadcastProcessFunction")
    ),
    # -- windows
    "windowed.trigger(5)": lambda u: u.windowed.trigger(5),
    "windowed.allowed_lateness('a')": lambda u: u.windowed.allowed_lateness("a"),
    "windowed.allowed_lateness(-1)": lambda u: u.windowed.allowed_lateness(-1),
    "windowed.side_output_late_data('tag')": lambda u: u.windowed.side_output_late_data("tag"),
    "windowed.reduce(5)": lambda u: u.windowed.reduce(5),
    "windowed.aggregate(5)": lambda u: u.windowed.aggregate(5),
    "windowed.apply(5)": lambda u: u.windowed.apply(5),
    "windowed.process(5)": lambda u: u.windowed.process(5),
    "windowed.reduce(f, 5)": lambda u: u.windowed.reduce(lambda a, b: a, 5),
    "window_all sessions with a trigger that does not merge": lambda u: u.ints.window_all(
        u.f.EventTimeSessionWindows.with_gap(u.f.Time.seconds(1))
    ).trigger(_trigger(u)),
    "TumblingEventTimeWindows.of(-1 s)": lambda u: u.f.TumblingEventTimeWindows.of(u.f.Time.seconds(-1)),
    "TumblingEventTimeWindows.of(5)": lambda u: u.f.TumblingEventTimeWindows.of(5),
    "TumblingEventTimeWindows.of(1 s, 2 s)": lambda u: u.f.TumblingEventTimeWindows.of(
        u.f.Time.seconds(1), u.f.Time.seconds(2)
    ),
    "TumblingProcessingTimeWindows.of(5)": lambda u: u.f.TumblingProcessingTimeWindows.of(5),
    "TumblingProcessingTimeWindows.of(0)": lambda u: u.f.TumblingProcessingTimeWindows.of(
        u.f.Time.seconds(0)
    ),
    "SlidingEventTimeWindows.of(1 s, 0)": lambda u: u.f.SlidingEventTimeWindows.of(
        u.f.Time.seconds(1), u.f.Time.seconds(0)
    ),
    "SlidingProcessingTimeWindows.of(1 s, 1 s, 2 s)": lambda u: u.f.SlidingProcessingTimeWindows.of(
        u.f.Time.seconds(1), u.f.Time.seconds(1), u.f.Time.seconds(2)
    ),
    "EventTimeSessionWindows.with_gap(0)": lambda u: u.f.EventTimeSessionWindows.with_gap(
        u.f.Time.seconds(0)
    ),
    "EventTimeSessionWindows.with_gap(5)": lambda u: u.f.EventTimeSessionWindows.with_gap(5),
    "ProcessingTimeSessionWindows.with_gap(0)": lambda u: u.f.ProcessingTimeSessionWindows.with_gap(
        u.f.Time.seconds(0)
    ),
    "EventTimeSessionWindows.with_dynamic_gap(5)": lambda u: u.f.EventTimeSessionWindows.with_dynamic_gap(5),
    "TimeWindow(1, 2) < 5": lambda u: u.f.TimeWindow(1, 2) < 5,
    "CountTrigger.of('a')": lambda u: u.f.CountTrigger.of("a"),
    "PurgingTrigger.of(5)": lambda u: u.f.PurgingTrigger.of(5),
    "ContinuousEventTimeTrigger.of(5)": lambda u: u.f.ContinuousEventTimeTrigger.of(5),
    # -- tags
    "OutputTag('')": lambda u: u.f.OutputTag(""),
    "OutputTag(None)": lambda u: u.f.OutputTag(None),
    "OutputTag(5)": lambda u: u.f.OutputTag(5),
    "OutputTag('t', 5)": lambda u: u.f.OutputTag("t", 5),
    "OutputTag('t', Types.INT)": lambda u: u.f.OutputTag("t", u.f.Types.INT),
    # -- state
    "ValueStateDescriptor(5, type)": lambda u: u.f.ValueStateDescriptor(5, u.f.Types.INT()),
    "ValueStateDescriptor('', type)": lambda u: u.f.ValueStateDescriptor("", u.f.Types.INT()),
    "ValueStateDescriptor(None, type)": lambda u: u.f.ValueStateDescriptor(None, u.f.Types.INT()),
    "ValueStateDescriptor('v', 5)": lambda u: u.f.ValueStateDescriptor("v", 5),
    "ValueStateDescriptor('v', None)": lambda u: u.f.ValueStateDescriptor("v", None),
    "ValueStateDescriptor('v', Types.INT)": lambda u: u.f.ValueStateDescriptor("v", u.f.Types.INT),
    "ListStateDescriptor('l', 5)": lambda u: u.f.ListStateDescriptor("l", 5),
    "MapStateDescriptor('m', 5, 6)": lambda u: u.f.MapStateDescriptor("m", 5, 6),
    "ReducingStateDescriptor('r', 5, type)": lambda u: u.f.ReducingStateDescriptor("r", 5, u.f.Types.INT()),
    "AggregatingStateDescriptor('a', 5, type)": lambda u: u.f.AggregatingStateDescriptor(
        "a", 5, u.f.Types.INT()
    ),
    "descriptor.enable_time_to_live(5)": lambda u: u.f.ValueStateDescriptor(
        "v", u.f.Types.INT()
    ).enable_time_to_live(5),
    "StateTtlConfig.new_builder(5)": lambda u: u.f.StateTtlConfig.new_builder(5).build(),
    "StateTtlConfig.new_builder(0)": lambda u: u.f.StateTtlConfig.new_builder(u.f.Time.seconds(0)).build(),
    "StateTtlConfig...set_update_type(5)": lambda u: (
        u.f.StateTtlConfig.new_builder(u.f.Time.seconds(1)).set_update_type(5).build()
    ),
    "StateTtlConfig...set_state_visibility(5)": lambda u: (
        u.f.StateTtlConfig.new_builder(u.f.Time.seconds(1)).set_state_visibility(5).build()
    ),
    "StateTtlConfig...cleanup_incrementally('a')": lambda u: (
        u.f.StateTtlConfig.new_builder(u.f.Time.seconds(1)).cleanup_incrementally("a", True).build()
    ),
    "StateTtlConfig...cleanup_incrementally(0)": lambda u: (
        u.f.StateTtlConfig.new_builder(u.f.Time.seconds(1)).cleanup_incrementally(0, True).build()
    ),
    "StateTtlConfig...cleanup_in_rocksdb_compact_filter('a')": lambda u: (
        u.f.StateTtlConfig.new_builder(u.f.Time.seconds(1)).cleanup_in_rocksdb_compact_filter("a").build()
    ),
    "get_state(5)": _state(lambda u: u.context.get_state(5)),
    "get_state(ListStateDescriptor)": _state(
        lambda u: u.context.get_state(u.f.ListStateDescriptor("l", u.f.Types.INT()))
    ),
    "get_list_state(ValueStateDescriptor)": _state(
        lambda u: u.context.get_list_state(u.f.ValueStateDescriptor("v", u.f.Types.INT()))
    ),
    "get_map_state(5)": _state(lambda u: u.context.get_map_state(5)),
    "get_reducing_state(5)": _state(lambda u: u.context.get_reducing_state(5)),
    "get_aggregating_state(5)": _state(lambda u: u.context.get_aggregating_state(5)),
    # -- backends and storages
    "EmbeddedRocksDBStateBackend('yes')": lambda u: u.f.EmbeddedRocksDBStateBackend("yes"),
    "EmbeddedRocksDBStateBackend().set_predefined_options(5)": lambda u: (
        u.f.EmbeddedRocksDBStateBackend().set_predefined_options(5)
    ),
    "EmbeddedRocksDBStateBackend().set_options('no.such.Factory')": lambda u: (
        u.f.EmbeddedRocksDBStateBackend().set_options("no.such.Factory")
    ),
    "EmbeddedRocksDBStateBackend().set_number_of_transfer_threads(0)": lambda u: (
        u.f.EmbeddedRocksDBStateBackend().set_number_of_transfer_threads(0)
    ),
    "EmbeddedRocksDBStateBackend().set_db_storage_paths()": lambda u: (
        u.f.EmbeddedRocksDBStateBackend().set_db_storage_paths()
    ),
    "EmbeddedRocksDBStateBackend().set_db_storage_paths(5)": lambda u: (
        u.f.EmbeddedRocksDBStateBackend().set_db_storage_paths(5)
    ),
    "FsStateBackend()": lambda u: u.f.FsStateBackend(),
    "RocksDBStateBackend()": lambda u: u.f.RocksDBStateBackend(),
    "MemoryStateBackend(max_state_size='a')": lambda u: u.f.MemoryStateBackend(max_state_size="a"),
    "FileSystemCheckpointStorage()": lambda u: u.f.FileSystemCheckpointStorage(),
    "FileSystemCheckpointStorage(None)": lambda u: u.f.FileSystemCheckpointStorage(None),
    "FileSystemCheckpointStorage(5)": lambda u: u.f.FileSystemCheckpointStorage(5),
    "JobManagerCheckpointStorage(max_state_size='a')": lambda u: u.f.JobManagerCheckpointStorage(
        max_state_size="a"
    ),
    "CustomCheckpointStorage(5)": lambda u: u.f.CustomCheckpointStorage(5),
    "CustomStateBackend(5)": lambda u: u.f.CustomStateBackend(5),
    # -- checkpoints
    "checkpoints.set_checkpointing_mode(5)": lambda u: u.config.set_checkpointing_mode(5),
    "checkpoints.set_checkpoint_interval(0)": lambda u: u.config.set_checkpoint_interval(0),
    "checkpoints.set_checkpoint_interval('a')": lambda u: u.config.set_checkpoint_interval("a"),
    "checkpoints.set_checkpoint_timeout(0)": lambda u: u.config.set_checkpoint_timeout(0),
    "checkpoints.set_checkpoint_timeout('a')": lambda u: u.config.set_checkpoint_timeout("a"),
    "checkpoints.set_min_pause_between_checkpoints(-1)": lambda u: u.config.set_min_pause_between_checkpoints(
        -1
    ),
    "checkpoints.set_min_pause_between_checkpoints('a')": lambda u: (
        u.config.set_min_pause_between_checkpoints("a")
    ),
    "checkpoints.set_max_concurrent_checkpoints(0)": lambda u: u.config.set_max_concurrent_checkpoints(0),
    "checkpoints.set_max_concurrent_checkpoints('a')": lambda u: u.config.set_max_concurrent_checkpoints("a"),
    "checkpoints.set_tolerable_checkpoint_failure_number(-1)": lambda u: (
        u.config.set_tolerable_checkpoint_failure_number(-1)
    ),
    "checkpoints.set_tolerable_checkpoint_failure_number('a')": lambda u: (
        u.config.set_tolerable_checkpoint_failure_number("a")
    ),
    "checkpoints.set_checkpoint_storage(5)": lambda u: u.config.set_checkpoint_storage(5),
    "checkpoints.set_checkpoint_storage_dir(5)": lambda u: u.config.set_checkpoint_storage_dir(5),
    "checkpoints.set_alignment_timeout(5)": lambda u: u.config.set_alignment_timeout(5),
    "checkpoints.enable_unaligned_checkpoints('yes')": lambda u: u.config.enable_unaligned_checkpoints("yes"),
    "checkpoints.enable_externalized_checkpoints(5)": lambda u: u.config.enable_externalized_checkpoints(5),
    "checkpoints.set_fail_on_checkpointing_errors('a')": lambda u: u.config.set_fail_on_checkpointing_errors(
        "a"
    ),
    # -- restarts
    "RestartStrategies.fixed_delay_restart(-1, 1)": lambda u: u.f.RestartStrategies.fixed_delay_restart(
        -1, 1
    ),
    "RestartStrategies.fixed_delay_restart('a', 1)": lambda u: u.f.RestartStrategies.fixed_delay_restart(
        "a", 1
    ),
    "RestartStrategies.fixed_delay_restart(1, 'a')": lambda u: u.f.RestartStrategies.fixed_delay_restart(
        1, "a"
    ),
    "RestartStrategies.fixed_delay_restart(1, -1)": lambda u: u.f.RestartStrategies.fixed_delay_restart(
        1, -1
    ),
    "RestartStrategies.failure_rate_restart(0, 1, 1)": lambda u: u.f.RestartStrategies.failure_rate_restart(
        0, 1, 1
    ),
    "RestartStrategies.failure_rate_restart(1, 'a', 1)": lambda u: u.f.RestartStrategies.failure_rate_restart(
        1, "a", 1
    ),
    # -- the execution configuration
    "config.set_parallelism('a')": lambda u: u.env.get_config().set_parallelism("a"),
    "config.set_parallelism(0)": lambda u: u.env.get_config().set_parallelism(0),
    "config.set_max_parallelism(0)": lambda u: u.env.get_config().set_max_parallelism(0),
    "config.set_auto_watermark_interval('a')": lambda u: u.env.get_config().set_auto_watermark_interval("a"),
    "config.set_auto_watermark_interval(-1)": lambda u: u.env.get_config().set_auto_watermark_interval(-1),
    "config.set_latency_tracking_interval('a')": lambda u: u.env.get_config().set_latency_tracking_interval(
        "a"
    ),
    "config.set_execution_mode(5)": lambda u: u.env.get_config().set_execution_mode(5),
    "config.set_global_job_parameters(5)": lambda u: u.env.get_config().set_global_job_parameters(5),
    "config.set_global_job_parameters({1: 2})": lambda u: u.env.get_config().set_global_job_parameters(
        {1: 2}
    ),
    "config.set_restart_strategy(5)": lambda u: u.env.get_config().set_restart_strategy(5),
    "config.set_task_cancellation_interval('a')": lambda u: u.env.get_config().set_task_cancellation_interval(
        "a"
    ),
    "Configuration().set_string(5, 'a')": lambda u: u.f.Configuration().set_string(5, "a"),
    "Configuration().set_string('a', 5)": lambda u: u.f.Configuration().set_string("a", 5),
    "Configuration().set_integer('a', 'b')": lambda u: u.f.Configuration().set_integer("a", "b"),
    "Configuration().set_boolean('a', 'b')": lambda u: u.f.Configuration().set_boolean("a", "b"),
    "Configuration().set_bytearray('a', 'b')": lambda u: u.f.Configuration().set_bytearray("a", "b"),
    "Configuration().get_integer of a text": lambda u: (
        u.f.Configuration().set_string("a", "b").get_integer("a", 1)
    ),
    "Configuration().get_boolean of a text": lambda u: (
        u.f.Configuration().set_string("a", "b").get_boolean("a", True)
    ),
    "Configuration().get_bytearray of a text": lambda u: (
        u.f.Configuration().set_string("a", "b").get_bytearray("a", bytearray(b"x"))
    ),
    "Configuration(5)": lambda u: u.f.Configuration(5),
    # -- watermarks
    "WatermarkStrategy.for_bounded_out_of_orderness(5)": lambda u: (
        u.f.WatermarkStrategy.for_bounded_out_of_orderness(5)
    ),
    "WatermarkStrategy...with_idleness(5)": lambda u: u.f.WatermarkStrategy.no_watermarks().with_idleness(5),
    "WatermarkStrategy...with_idleness(0)": lambda u: u.f.WatermarkStrategy.no_watermarks().with_idleness(
        u.f.Duration.of_seconds(0)
    ),
    "WatermarkStrategy...with_timestamp_assigner(5)": lambda u: u.ints.assign_timestamps_and_watermarks(
        u.f.WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(5)
    ),
    "Duration.of_seconds('a')": lambda u: u.f.Duration.of_seconds("a"),
    "Time.seconds('a')": lambda u: u.f.Time.seconds("a"),
    # -- types and rows
    "Types.TUPLE(5)": lambda u: u.f.Types.TUPLE(5),
    "Types.TUPLE([5])": lambda u: u.f.Types.TUPLE([5]),
    "Types.ROW(5)": lambda u: u.f.Types.ROW(5),
    "Types.ROW_NAMED(['a'], [])": lambda u: u.f.Types.ROW_NAMED(["a"], []),
    "Types.LIST(5)": lambda u: u.f.Types.LIST(5),
    "Types.MAP(5, 6)": lambda u: u.f.Types.MAP(5, 6),
    "Types.PRIMITIVE_ARRAY(Types.STRING())": lambda u: u.f.Types.PRIMITIVE_ARRAY(u.f.Types.STRING()),
    "Types.BASIC_ARRAY(Types.LIST(...))": lambda u: u.f.Types.BASIC_ARRAY(u.f.Types.LIST(u.f.Types.INT())),
    "Types.OBJECT_ARRAY(5)": lambda u: u.f.Types.OBJECT_ARRAY(5),
    "Row(1, a=2)": lambda u: u.f.Row(1, a=2),
    "Row(1)['a']": lambda u: u.f.Row(1)["a"],
    "Row(a=1)['b']": lambda u: u.f.Row(a=1)["b"],
    "Row(1)[5]": lambda u: u.f.Row(1)[5],
    "Row(a=1).b": lambda u: u.f.Row(a=1).b,
    "Row(1).b": lambda u: u.f.Row(1).b,
    "Row(a=1)['b'] = 2": lambda u: u.f.Row(a=1).__setitem__("b", 2),
    "Row(1)['b'] = 2": lambda u: u.f.Row(1).__setitem__("b", 2),
    "Row(a=1).b = 2": lambda u: setattr(u.f.Row(a=1), "b", 2),
    "Row(1).as_dict()": lambda u: u.f.Row(1).as_dict(),
    "Row(a=1).get_fields_by_names(['b'])": lambda u: u.f.Row(a=1).get_fields_by_names(["b"]),
    "Row('a')(1, 2)": lambda u: u.f.Row("a")(1, 2),
    "Row(1).set_row_kind(5)": lambda u: u.f.Row(1).set_row_kind(5),
    # -- slots
    "MemorySize.of_mebi_bytes('a')": lambda u: u.f.MemorySize.of_mebi_bytes("a"),
    "MemorySize(bytes_size=-1)": lambda u: u.f.MemorySize(bytes_size=-1),
    "MemorySize(bytes_size=1) < 5": lambda u: u.f.MemorySize(bytes_size=1) < 5,
    "SlotSharingGroup.builder(5)": lambda u: u.f.SlotSharingGroup.builder(5).build(),
    "SlotSharingGroup.builder('')": lambda u: u.f.SlotSharingGroup.builder("").build(),
    "SlotSharingGroup...set_cpu_cores('a')": lambda u: u.f.SlotSharingGroup.builder("g").set_cpu_cores("a"),
    "SlotSharingGroup...set_cpu_cores(0)": lambda u: u.f.SlotSharingGroup.builder("g").set_cpu_cores(0),
    "SlotSharingGroup...set_task_heap_memory(5)": lambda u: u.f.SlotSharingGroup.builder(
        "g"
    ).set_task_heap_memory(5),
    "SlotSharingGroup...set_task_heap_memory(0)": lambda u: u.f.SlotSharingGroup.builder(
        "g"
    ).set_task_heap_memory(u.f.MemorySize(bytes_size=0)),
    "SlotSharingGroup...set_cpu_cores(1).build()": lambda u: (
        u.f.SlotSharingGroup.builder("g").set_cpu_cores(1).build()
    ),
    # -- formats
    "SimpleStringSchema('no such')": lambda u: u.f.SimpleStringSchema("no such"),
    "SimpleStringSchema(5)": lambda u: u.f.SimpleStringSchema(5),
    "Encoder.simple_string_encoder('no such')": lambda u: u.f.Encoder.simple_string_encoder("no such"),
}


def _process(u: _Use, base: str) -> Any:
    return type("P", (getattr(u.f, base),), {"process_element": lambda self, value, ctx: [value]})()


def _co_process(u: _Use, base: str) -> Any:
    members = {f"process_element{side}": lambda self, value, ctx: [value] for side in (1, 2)}
    return type("P", (getattr(u.f, base),), members)()


def _broadcast(u: _Use) -> Any:
    return u.texts.broadcast(u.f.MapStateDescriptor("m", u.f.Types.INT(), u.f.Types.INT()))


def _broadcast_process(u: _Use, base: str) -> Any:
    members = {
        "process_element": lambda self, value, ctx: [value],
        "process_broadcast_element": lambda self, value, ctx: [],
    }
    return type("P", (getattr(u.f, base),), members)()


def _trigger(u: _Use) -> Any:
    fire = u.f.TriggerResult.FIRE
    members = {
        name: lambda self, *given: fire
        for name in ("on_element", "on_processing_time", "on_event_time", "clear")
    }
    members["can_merge"] = lambda self: False
    members["on_merge"] = lambda self, window, ctx: None
    return type("T", (u.f.Trigger,), members)()


def answer(package: str, name: str) -> BaseException | None:
    """What a call raises; None if it raises nothing."""
    use = _Use(package)
    try:
        CALLS[name](use)
    except Exception as error:
        return error
    return None


def classes(error: BaseException | None) -> list[str]:
    """The names of an exception's classes but for those that all have, the most special first; [] of None."""
    if error is None:
        return []
    return [cls.__name__ for cls in type(error).__mro__ if cls not in (BaseException, object)]


def main(package: str) -> None:
    """Make all calls; the answers as JSON on standard output."""
    found = {}
    for name in CALLS:
        error = answer(package, name)
        print(
            name, "->", type(error).__name__, str(error)[:100].replace("\n", " "), file=sys.stderr, flush=True
        )
        found[name] = classes(error)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1])
