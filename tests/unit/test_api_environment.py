"""The environment: plans, modes, what is kept, and the handles of jobs."""

from __future__ import annotations

import io
import json
import os
import threading

import pytest

from api.common import Configuration, ExecutionMode, InputDependencyConstraint, JobClient, Types
from api.datastream import (
    RuntimeExecutionMode,
    SlotSharingGroup,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from api.datastream import _settings as settings_module
from api.serializers import PickleSerializer
from changelog_engine.connectors import Source
from changelog_engine.errors import ConfigurationError, InvalidJobError
from changelog_engine.graph.nodes import JobGraph, JobSettings


@pytest.fixture
def env(monkeypatch, tmp_path):
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    monkeypatch.chdir(tmp_path)
    return StreamExecutionEnvironment.get_execution_environment()


def taken(env) -> JobSettings:
    return env._take_job("job")[1]


class Endless(Source):
    """A source that never ends."""

    bounded = False
    parallel = False
    output_type = None

    def splits(self, parallelism):
        return []

    def reader(self, split, position):
        raise AssertionError("nothing runs here")


class TestPlan:
    def test_nodes_and_strategies(self, env):
        env.set_parallelism(2)
        stream = env.from_collection([1, 2], Types.INT()).map(lambda v: v, Types.INT()).name("twice")
        counted = stream.key_by(lambda v: v).reduce(lambda a, b: a + b).name("sum")
        counted.union(counted.map(lambda v: v, Types.INT()).name("text").set_parallelism(1)).print().name(
            "out"
        )
        plan = json.loads(env.get_execution_plan())
        by_type = {node["type"]: node for node in plan["nodes"]}
        assert list(by_type) == ["Source: Collection Source", "twice", "sum", "text", "Sink: out"]
        source, twice, reduced, text, sink = plan["nodes"]
        assert "predecessors" not in source
        assert [node["pact"] for node in plan["nodes"]] == ["Data Source", *["Operator"] * 3, "Data Sink"]
        assert [node["parallelism"] for node in plan["nodes"]] == [1, 1, 2, 1, 2]
        assert all(node["contents"] == node["type"] for node in plan["nodes"])
        assert twice["predecessors"] == [{"id": source["id"], "ship_strategy": "FORWARD", "side": "second"}]
        assert reduced["predecessors"] == [{"id": twice["id"], "ship_strategy": "HASH", "side": "second"}]
        assert text["predecessors"][0]["ship_strategy"] == "REBALANCE"
        assert [(each["id"], each["ship_strategy"]) for each in sink["predecessors"]] == [
            (reduced["id"], "FORWARD"),
            (text["id"], "REBALANCE"),
        ]

    def test_a_plan_leaves_the_program_as_it_is(self, env):
        env.from_elements("a", "b", type_info=Types.STRING()).print()
        assert env.get_execution_plan() == env.get_execution_plan()
        graph = env.generate_stream_graph(job_name="other")
        assert isinstance(graph, JobGraph)
        assert (graph.name, [node.kind.value for node in graph.nodes]) == ("other", ["source", "sink"])
        assert graph.nodes[0].output_type == Types.STRING()
        env.generate_stream_graph(True)
        with pytest.raises(InvalidJobError, match="no operators"):
            env.get_execution_plan()

    def test_uids_can_be_asked_for(self, env):
        env.get_config().disable_auto_generated_uids()
        stream = env.from_collection([1]).uid("source").map(str)
        stream.key_by(str).map(str).uid("map").print().uid("sink")
        with pytest.raises(InvalidJobError, match="has no uid"):
            env.get_execution_plan()
        stream.uid("text")
        assert len(json.loads(env.get_execution_plan())["nodes"]) == 4

    def test_uids_can_be_asked_for_by_key(self):
        env = StreamExecutionEnvironment(Configuration({"pipeline.auto-generate-uids": "false"}))
        env.from_collection([1]).uid("source").map(str).print()
        with pytest.raises(InvalidJobError, match="has no uid"):
            env.get_execution_plan()
        env.get_config().enable_auto_generated_uids()
        assert len(json.loads(env.get_execution_plan())["nodes"]) == 3


class TestModes:
    @pytest.mark.parametrize(
        ("mode", "endless", "batch"),
        [
            ("STREAMING", False, False),
            ("BATCH", False, True),
            ("AUTOMATIC", False, True),
            ("AUTOMATIC", True, False),
        ],
    )
    def test_batch(self, env, mode, endless, batch):
        assert env.set_runtime_mode(RuntimeExecutionMode[mode]) is env
        env.enable_checkpointing(100).enable_changelog_state_backend(True)
        stream = env.from_collection([1])
        if endless:
            stream = stream.union(env.add_source(Endless()))
        stream.print()
        made = taken(env)
        assert made.batch is batch
        assert (made.checkpoint_interval_ms, made.changelog) == ((None, False) if batch else (100, True))

    def test_batch_needs_an_end(self, env):
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        env.add_source(Endless()).print()
        with pytest.raises(InvalidJobError, match="sources that end"):
            taken(env)

    def test_a_source_function_counts_as_endless_unless_one_says_batch(self, env):
        env.configure(Configuration({"execution.runtime-mode": "automatic"}))
        env.add_source(lambda: iter([1])).print()
        assert not taken(env).batch
        env.configure(Configuration({"execution.runtime-mode": "batch"}))
        env.add_source(lambda: iter([1])).print()
        assert taken(env).batch


class TestKept:
    def test_savepoint_directory(self, env):
        assert env.get_default_savepoint_directory() is None
        assert env.set_default_savepoint_directory("file:///tmp/sp") is env
        assert env.get_default_savepoint_directory() == "file:/tmp/sp"
        env.set_default_savepoint_directory("hdfs://savepoints")
        assert env.get_default_savepoint_directory() == "hdfs://savepoints"
        conf = Configuration({"state.savepoints.dir": "/sp"})
        assert StreamExecutionEnvironment(conf).get_default_savepoint_directory() == "/sp"
        with pytest.raises(ConfigurationError, match="set_default_savepoint_directory"):
            env.set_default_savepoint_directory(None)

    def test_buffers_and_chains(self, env):
        assert env.get_buffer_timeout() == 100
        assert env.set_buffer_timeout(-1) is env
        assert env.get_buffer_timeout() == -1
        with pytest.raises(ConfigurationError, match="set_buffer_timeout"):
            env.set_buffer_timeout(-2)
        assert env.is_chaining_enabled()
        assert env.disable_operator_chaining() is env
        assert not env.is_chaining_enabled()
        conf = Configuration(
            {"execution.buffer-timeout": "1 s", "pipeline.operator-chaining.enabled": "false"}
        )
        other = StreamExecutionEnvironment(conf)
        assert (other.get_buffer_timeout(), other.is_chaining_enabled()) == (1000, False)
        with pytest.raises(ConfigurationError, match=r"execution\.buffer-timeout"):
            StreamExecutionEnvironment(Configuration({"execution.buffer-timeout": "soon"}))

    def test_time_and_alignment(self, env):
        assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
        env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
        assert env.get_stream_time_characteristic() is TimeCharacteristic.ProcessingTime
        with pytest.raises(ConfigurationError, match="TimeCharacteristic"):
            env.set_stream_time_characteristic("EventTime")
        assert (env.is_unaligned_checkpoints_enabled(), env.is_force_unaligned_checkpoints()) == (
            False,
            False,
        )
        env.get_checkpoint_config().enable_unaligned_checkpoints().set_force_unaligned_checkpoints()
        assert (env.is_unaligned_checkpoints_enabled(), env.is_force_unaligned_checkpoints()) == (True, True)

    def test_default_local_parallelism_is_of_later_environments(self, env, monkeypatch):
        monkeypatch.setattr(settings_module, "_default_local_parallelism", [None])
        cores = len(os.sched_getaffinity(0))
        assert env.get_default_local_parallelism() == cores
        env.set_default_local_parallelism(cores + 3)
        assert (env.get_default_local_parallelism(), env.get_parallelism()) == (cores + 3, cores)
        assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == cores + 3
        assert StreamExecutionEnvironment(Configuration({"parallelism.default": "2"})).get_parallelism() == 2
        with pytest.raises(ConfigurationError, match="set_default_local_parallelism"):
            env.set_default_local_parallelism(0)

    def test_java_types(self, env):
        env.register_type("a.B")
        env.register_type_with_kryo_serializer("a.C", "a.CSerializer")
        env.add_default_kryo_serializer("a.D", "a.DSerializer")
        config = env.get_config().register_kryo_type("a.E")
        assert config.get_registered_pojo_types() == ["a.B"]
        assert config.get_registered_kryo_types() == ["a.E"]
        assert config.get_registered_types_with_kryo_serializer_classes() == {"a.C": "a.CSerializer"}
        assert config.get_default_kryo_serializer_classes() == {"a.D": "a.DSerializer"}
        with pytest.raises(ConfigurationError, match="type_class_name"):
            env.register_type(int)

    def test_execution_config(self, env):
        config = env.get_config()
        pairs = [
            ("closure_cleaner", "is_closure_cleaner_enabled", True),
            ("force_kryo", "is_force_kryo_enabled", False),
            ("force_avro", "is_force_avro_enabled", False),
            ("generic_types", "has_generic_types_disabled", False),
            ("auto_generated_uids", "has_auto_generated_uids_enabled", True),
            ("object_reuse", "is_object_reuse_enabled", False),
        ]
        for name, getter, default in pairs:
            says_disabled = "disabled" in getter
            assert getattr(config, getter)() is default
            assert getattr(config, f"disable_{name}")() is config
            assert getattr(config, getter)() is says_disabled
            assert getattr(config, f"enable_{name}")() is config
            assert getattr(config, getter)() is not says_disabled
        numbers = [
            ("latency_tracking_interval", 0),
            ("task_cancellation_interval", 30_000),
            ("task_cancellation_timeout", 180_000),
        ]
        for name, number in numbers:
            assert getattr(config, f"get_{name}")() == number
            assert getattr(config, f"set_{name}")(7) is config
            assert getattr(config, f"get_{name}")() == 7
        assert config.get_execution_mode() is ExecutionMode.PIPELINED
        assert config.set_execution_mode(ExecutionMode.BATCH).get_execution_mode() is ExecutionMode.BATCH
        with pytest.raises(ConfigurationError, match="set_runtime_mode"):
            config.set_execution_mode(RuntimeExecutionMode.BATCH)
        assert config.get_default_input_dependency_constraint() is InputDependencyConstraint.ANY
        config.set_default_input_dependency_constraint(InputDependencyConstraint.ALL)
        assert config.get_default_input_dependency_constraint() is InputDependencyConstraint.ALL
        assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()
        assert not taken_batch(env)

    def test_slot_sharing_groups(self, env):
        assert env.register_slot_sharing_group(SlotSharingGroup.builder("a").build()) is env
        with pytest.raises(ConfigurationError, match="register_slot_sharing_group"):
            env.register_slot_sharing_group("a")

    def test_serializer(self, env):
        assert isinstance(env.serializer, PickleSerializer)
        stream = io.BytesIO()
        env.serializer.serialize([1, ("a", None), lambda v: v + 1], stream)
        stream.seek(0)
        one, pair, function = env.serializer.deserialize(stream)
        assert (one, pair, function(1)) == (1, ("a", None), 2)
        with pytest.raises(EOFError):
            list(env.serializer.deserialize(io.BytesIO(stream.getvalue()[:-1])))


def taken_batch(env) -> bool:
    """Whether a job of one collection runs in BATCH mode; what ExecutionConfig keeps has no say in it."""
    env.from_collection([1]).print()
    return taken(env).batch


class FakeJob:
    """A running job as JobClient sees it."""

    job_id = "ab" * 16

    def __init__(self) -> None:
        self.ended = threading.Event()

    def status(self) -> str:
        return "FINISHED" if self.ended.is_set() else "RUNNING"


class TestJobClient:
    def test_accumulators(self):
        client = JobClient(FakeJob())
        assert str(client.get_job_id()) == "ab" * 16
        assert client.get_job_status().result().name == "RUNNING"
        assert client.get_accumulators().result() == {}
