"""Building a program: what becomes a node, what is refused, and what an execution takes."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
import types as python_types

import pytest

import api.datastream
from api.common import ExecutionConfig, Types, WatermarkStrategy
from api.common.watermark_strategy import TimestampAssigner
from api.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from api.datastream import _job_names as job_names
from api.datastream.connectors import FileSource, NumberSequenceSource, Sink, Source, StreamFormat
from changelog_engine import connectors as engine
from changelog_engine.errors import (
    ConfigurationError,
    InvalidJobError,
    JobCancelledError,
    NotSupportedError,
    TypeMismatchError,
)
from changelog_engine.graph.nodes import JobGraph, NodeKind, WatermarkSpec


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Double(MapFunction):
    def map(self, value):
        return value * 2


class Modulo(KeySelector):
    def get_key(self, value):
        return value % 2


class OpenedModulo(Modulo):
    def open(self, runtime_context):
        self.opened = True


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Plain(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


@pytest.fixture
def env(monkeypatch, tmp_path):
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job_names, "_used", {})
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


class FakeLaunch(python_types.ModuleType):
    """Stands for the engine: notes what it is given; a job's results are set before."""

    def __init__(self):
        super().__init__("launch")
        self.jobs: list[JobGraph] = []
        self.results = [1, 2, 3]
        self.failure = None
        self.cancelled = False
        self.waited = 0

    def outcome(self):
        return python_types.SimpleNamespace(
            job_id="0" * 32, net_runtime_ms=5, cancelled=self.cancelled, last_checkpoint=None
        )

    def run_job(self, graph, settings):
        self.jobs.append(graph)
        return self.outcome()

    def start_job(self, graph, settings):
        self.jobs.append(graph)
        launch = self

        class Running:
            job_id = "0" * 32

            def results(self, node_id):
                assert isinstance(graph.nodes[node_id].function, engine.CollectSink)
                yield from launch.results
                if launch.failure:
                    raise launch.failure

            def cancel(self):
                launch.cancelled = True

            def wait(self, timeout_s=None):
                launch.waited += 1
                return launch.outcome()

            def status(self):
                return "RUNNING"

        return Running()


@pytest.fixture
def launch(monkeypatch):
    import changelog_engine.spark

    fake = FakeLaunch()
    monkeypatch.setitem(sys.modules, "changelog_engine.launch", fake)
    monkeypatch.setattr(changelog_engine, "launch", fake, raising=False)
    return fake


def nodes_of(env, name="job"):
    return env._take_job(name)[0].nodes


def test_importing_and_building_load_neither_spark_nor_delta():
    program = (
        "import sys, api.common, api.datastream, api.datastream.connectors, api.datastream.state\n"
        "from api.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(lambda v: v).key_by(lambda v: v).reduce(lambda a, b: a).print()\n"
        "print([m for m in ('pyspark', 'deltalake', 'delta', 'pandas') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr.partition(":")[0]) == ("[]", "note"), (
        "nothing runs before env.execute()"
    )


def test_a_job_loads_only_the_connectors_and_observers_that_it_uses():
    program = (
        "import sys\n"
        "from api.datastream import StreamExecutionEnvironment, connectors\n"
        "from changelog_engine.testing import without_spark\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).print()\n"
        "with without_spark(): env.execute()\n"
        "strange = ('kafka', 'jdbc', 'rabbitmq', 'pulsar', 'rich', 'prometheus_client', 'server')\n"
        "print([name for name in sys.modules if not set(strange).isdisjoint(name.split('.'))])\n"
        "print(connectors.kafka.KafkaSource is connectors.KafkaSource)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["1", "[]", "True"], done.stderr


class TestGraph:
    def test_each_method_adds_the_node_of_its_kind_with_what_was_set_on_it(self, env):
        numbers = env.from_collection([1, 2, 3], Types.LONG())
        result = (
            numbers.map(Double(), Types.LONG())
            .filter(lambda v: v > 2)
            .flat_map(lambda v: [v, v])
            .process(Plain(), Types.LONG())
            .key_by(Modulo(), Types.LONG())
            .process(Keyed(), Types.LONG())
            .name("keyed")
            .uid("keyed-1")
            .set_parallelism(1)
            .set_max_parallelism(64)
        )
        result.key_by(lambda v: v).reduce(Add()).print("out").name("printer").uid("p").set_parallelism(2)
        nodes = nodes_of(env)
        kinds = "SOURCE MAP FILTER FLAT_MAP PROCESS KEY_BY PROCESS KEY_BY REDUCE SINK"
        assert [node.kind.name for node in nodes] == kinds.split()
        assert [node.id for node in nodes] == list(range(len(nodes)))
        assert all(max(node.inputs, default=-1) < node.id for node in nodes)
        source, double, above, twice, _, by_modulo, keyed, _, add, sink = nodes
        assert isinstance(source.function, engine.CollectionSource)
        assert double.function.map(4) == 8
        assert (above.function.filter(3), above.output_type) == (True, Types.LONG())
        assert (twice.function.flat_map(7), twice.output_type) == ([7, 7], None)
        assert (by_modulo.function(5), by_modulo.key_type) == (1, Types.LONG())
        settings = (keyed.name, keyed.uid, keyed.parallelism, keyed.max_parallelism)
        assert settings == ("keyed", "keyed-1", 1, 64)
        assert (add.function.reduce(1, 2), add.output_type) == (3, Types.LONG())
        assert (sink.name, sink.uid, sink.parallelism) == ("printer", "p", 2)
        assert sink.function.lines([1], 0, 1) == ["out> 1"]

    def test_operators_run_with_and_without_a_sink(self, env):
        numbers = env.from_collection([1])
        numbers.map(lambda v: v).name("without")
        numbers.map(lambda v: v).name("with").print()
        numbers.key_by(lambda v: v)  # nothing happens in it
        env.from_collection([2])
        names = ["Collection Source", "without", "with", "Print to Std. Out"]
        assert [node.name for node in nodes_of(env)] == names
        numbers.map(lambda v: v).name("alone")
        assert [node.name for node in nodes_of(env)] == ["Collection Source", "alone"]
        numbers.rebalance()
        with pytest.raises(InvalidJobError, match="a source alone does nothing"):
            nodes_of(env)

    def test_an_execution_takes_what_was_added_since_the_last(self, env):
        numbers = env.from_collection([1])
        numbers.print("first")
        assert len(nodes_of(env)) == 2
        with pytest.raises(InvalidJobError, match="no operators to execute"):
            nodes_of(env)
        numbers.print("second")
        assert nodes_of(env)[1].function.identifier == "second"

    def test_a_graph_has_the_environments_parallelisms(self, env):
        env.from_collection([1]).print()
        env.set_max_parallelism(32)
        graph, settings, _ = env._take_job("a name")
        assert (graph.name, graph.parallelism, graph.max_parallelism) == ("a name", 2, 32)
        assert settings.checkpoint_interval_ms is None

    def test_duplicate_uid_keeps_the_program_for_another_try(self, env):
        numbers = env.from_collection([1]).uid("same")
        mapped = numbers.map(lambda v: v).name("mapped").uid("same")
        mapped.print()
        with pytest.raises(
            InvalidJobError, match="'same' is given to two operators, 'Collection Source' and 'mapped'"
        ):
            nodes_of(env)
        mapped.uid("other")
        assert len(nodes_of(env)) == 3

    def test_parallelism_above_max_parallelism(self, env):
        env.from_collection([1]).map(lambda v: v).set_parallelism(9).set_max_parallelism(4).print()
        with pytest.raises(InvalidJobError, match="'Map' has parallelism 9 and max parallelism 4"):
            nodes_of(env)

    def test_functions_pickle_by_name(self, env):
        env.from_collection([1]).map(Double()).key_by(OpenedModulo()).reduce(Add()).print()
        for node in nodes_of(env):
            pickle.loads(pickle.dumps(node))


class TestSources:
    def test_a_source_has_the_name_type_and_parallelism_it_was_given(self, env):
        numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
        assert numbers.get_type() == Types.LONG()
        assert numbers.get_name() == "numbers"
        numbers.set_parallelism(4).print()
        source, _ = nodes_of(env)
        assert (source.name, source.parallelism) == ("numbers", 4)

    def test_name_and_uid_mean_the_source_under_the_watermarks(self, env):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
        stream = env.from_source(NumberSequenceSource(1, 3), strategy, "numbers", Types.LONG())
        stream.uid("src").name("renamed").set_parallelism(3).print()
        source, timestamps, _ = nodes_of(env)
        assert (source.uid, source.name, source.parallelism) == ("src", "renamed", 3)
        assert timestamps.kind is NodeKind.TIMESTAMPS
        assert isinstance(timestamps.function, WatermarkSpec)
        assert timestamps.uid is None

    def test_generators_and_source_functions_become_the_same_source(self, env):
        def letters():
            yield from "ab"

        for given in (letters, SourceFunction(letters), engine.IterableSource(letters)):
            env.add_source(given, type_info=Types.STRING()).print()
            source = nodes_of(env)[0]
            assert source.name == "Custom Source"
            assert source.output_type == Types.STRING()
            reader = source.function.reader(source.function.splits(1)[0])
            assert reader.read(0, 5).values == ["a", "b"]

    def test_files_are_read_by_one_kind_of_source(self, env, tmp_path):
        (tmp_path / "f").write_text("x\n")
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
        env.from_source(source, WatermarkStrategy.no_watermarks(), "files").print()
        env.read_text_file(f"file://{tmp_path}/f", "UTF-8").print()
        first, second = (node for node in nodes_of(env) if node.kind is NodeKind.SOURCE)
        assert first.output_type == second.output_type == Types.STRING()
        assert [split.id for split in second.function.splits(1)] == [str(tmp_path / "f")]

    def test_own_source_and_sink_objects(self, env):
        source, sink = engine.NumberSequenceSource(1, 2), engine.FunctionSink(print)
        for given_source, given_sink in ((source, sink), (Source(source), Sink(sink))):
            stream = env.from_source(given_source, WatermarkStrategy.no_watermarks(), "s")
            stream.sink_to(given_sink)
            nodes = nodes_of(env)
            assert nodes[0].function is source
            assert nodes[1].function is sink

    def test_callables_and_sink_functions_become_the_same_sink(self, env):
        got = []
        for given in (got.append, SinkFunction(got.append), engine.FunctionSink(got.append)):
            env.from_collection([1]).add_sink(given)
            nodes_of(env)[1].function.writer(0, 1).write([1, 2])
        assert got == [1, 2] * 3

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda env: env.from_collection([1], Types.INT), "write its parentheses"),
            (lambda env: env.from_source("java.Source", WatermarkStrategy.no_watermarks(), "s"), "Java"),
            (lambda env: env.from_source(NumberSequenceSource(1, 2), None, "s"), "WatermarkStrategy"),
            (
                lambda env: env.from_source(
                    NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), ""
                ),
                "name",
            ),
            (
                lambda env: env.from_source(SourceFunction(list), WatermarkStrategy.no_watermarks(), "s"),
                "add_source",
            ),
            (
                lambda env: env.from_source(
                    FileSource.for_record_stream_format(StreamFormat.text_line_format(), "x"),
                    WatermarkStrategy.no_watermarks(),
                    "s",
                ),
                r"build\(\)",
            ),
            (lambda env: env.add_source("java.Class"), "Java"),
            (lambda env: env.add_source(SourceFunction("java.Class")), "Java"),
            (lambda env: env.add_source(NumberSequenceSource(1, 2)), "from_source"),
            (lambda env: env.add_source([1, 2]), "from_collection"),
            (lambda env: env.from_collection([1]).add_sink("java.Class"), "Java"),
            (lambda env: env.from_collection([1]).sink_to(SinkFunction(print)), "add_sink"),
            (lambda env: env.from_collection([1]).sink_to(print), "writer"),
            (lambda env: env.from_collection([1]).add_sink(5), "invoke"),
        ],
    )
    def test_an_environment_refuses_bad_arguments_by_name(self, env, call, message):
        with pytest.raises((ConfigurationError, NotSupportedError), match=message):
            call(env)

    def test_elements_are_checked_when_the_stream_is_made(self, env):
        with pytest.raises(TypeMismatchError, match="element 1"):
            env.from_collection([1, "a"], Types.INT())


class TestStreams:
    def test_a_stream_has_the_declared_type_or_pickles(self, env):
        untyped = env.from_collection([1])
        assert untyped.get_type() == Types.PICKLED_BYTE_ARRAY()
        typed = untyped.map(str, Types.STRING())
        assert typed.get_type() == typed.filter(bool).get_type() == Types.STRING()
        assert typed.key_by(len).get_type() == Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.STRING()])
        assert typed.key_by(len, Types.INT()).get_type() == Types.ROW([Types.INT(), Types.STRING()])
        assert typed.map(str).get_type() == Types.PICKLED_BYTE_ARRAY()
        assert typed.get_execution_environment() is env
        assert typed.get_execution_config() is env.get_config()

    def test_a_union_reads_each_stream_as_often_as_it_is_named(self, env):
        first, second = env.from_collection([1], Types.INT()), env.from_collection([2], Types.INT())
        first.key_by(lambda v: v).union(second, second, first.key_by(lambda v: v)).print()
        nodes = nodes_of(env)
        union = next(node for node in nodes if node.kind is NodeKind.UNION)
        assert union.inputs == (0, 1, 1, 0)
        assert union.output_type == Types.INT()
        assert not any(node.kind is NodeKind.KEY_BY for node in nodes)

    def test_union_of_other_types(self, env):
        numbers = env.from_collection([1], Types.INT())
        for other in (env.from_collection(["a"], Types.STRING()), env.from_collection([1])):
            with pytest.raises(ConfigurationError, match="same output_type"):
                numbers.union(other)
        elsewhere = StreamExecutionEnvironment.get_execution_environment().from_collection([1], Types.INT())
        with pytest.raises(ConfigurationError, match="another environment"):
            numbers.union(elsewhere)
        with pytest.raises(ConfigurationError, match="must be a DataStream"):
            numbers.union([1])
        numbers.union(env.from_collection([1], Types.INT()))

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda ds: ds.map(5), "DataStream.map needs a MapFunction or a function"),
            (lambda ds: ds.map(Double), r"write Double\(\)"),
            (
                lambda ds: ds.map(Add()),
                r"needs a MapFunction, got Add: it is a ReduceFunction, which reduce\(\) takes",
            ),
            (lambda ds: ds.map(str, "STRING"), "DataStream.map: output_type"),
            (
                lambda ds: ds.process(lambda v: v),
                r"needs a ProcessFunction, got .*; map\(\), flat_map\(\), filter\(\), reduce\(\) take plain functions",
            ),
            (lambda ds: ds.process(Keyed), r"write Keyed\(\)"),
            (lambda ds: ds.key_by(5), "KeySelector or a function"),
            (lambda ds: ds.key_by(Modulo), r"write Modulo\(\)"),
            (lambda ds: ds.key_by(str, key_type=Types.INT), "key_type"),
            (
                lambda ds: ds.key_by(str).process(Plain()),
                "needs a KeyedProcessFunction, got Plain: let it inherit KeyedProcessFunction",
            ),
            (lambda ds: ds.key_by(str).reduce(5), "ReduceFunction"),
            (lambda ds: ds.name(""), "name"),
            (lambda ds: ds.uid(None), "uid"),
            (
                lambda ds: ds.set_parallelism(2),
                "'Collection Source': the parallelism of a source that is not parallel",
            ),
            (lambda ds: ds.map(str).set_parallelism(0), "between 1 and 32768"),
            (lambda ds: ds.map(str).set_max_parallelism(32769), "between 1 and 32768"),
            (lambda ds: ds.print(5), "sink_identifier"),
            (lambda ds: ds.execute_and_collect(limit=0), "limit"),
            (lambda ds: ds.assign_timestamps_and_watermarks(At()), "WatermarkStrategy"),
        ],
    )
    def test_a_stream_refuses_bad_arguments_by_name(self, env, call, message):
        with pytest.raises(ConfigurationError, match=message):
            call(env.from_collection([1]))

    @pytest.mark.parametrize(
        "call",
        [
            lambda ks: ks.name("x"),
            lambda ks: ks.get_name(),
            lambda ks: ks.uid("x"),
            lambda ks: ks.set_parallelism(1),
            lambda ks: ks.set_max_parallelism(1),
        ],
    )
    def test_a_keyed_stream_is_no_operator(self, env, call):
        with pytest.raises(InvalidJobError, match="not an operator of its own"):
            call(env.from_collection([1]).key_by(lambda v: v))

    def test_a_keyed_stream_is_a_stream(self, env):
        keyed = env.from_collection([1]).key_by(lambda v: v)
        assert isinstance(keyed, KeyedStream)
        assert isinstance(keyed, DataStream)
        from api.datastream.data_stream import KeyedStream as SameClass

        assert SameClass is KeyedStream
        for function in (keyed.map, keyed.flat_map, keyed.filter):
            assert type(function(lambda v: v)) is DataStream
        assert keyed.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()).get_name()
        nodes_of(env)
        again = keyed.key_by(str)
        again.map(str).add_sink(print)
        assert [node.kind.name for node in nodes_of(env)] == ["SOURCE", "KEY_BY", "MAP", "SINK"]

    def test_key_selector_with_a_life_cycle(self, env):
        env.from_collection([1]).key_by(OpenedModulo()).map(str).print()
        function = nodes_of(env)[1].function
        function.open(None)
        assert function(3) == 1
        function.close()


class TestExecution:
    def test_execute_runs_what_is_new_once(self, env, launch):
        env.from_collection([1]).print()
        result = env.execute("the name")
        assert (len(str(result.get_job_id())), result.get_net_runtime()) == (32, 5)
        assert launch.jobs[0].name == "the name"
        with pytest.raises(InvalidJobError, match="no operators"):
            env.execute("again")

    def test_a_cancelled_job_raises(self, env, launch):
        launch.cancelled = True
        env.from_collection([1]).print()
        with pytest.raises(JobCancelledError):
            env.execute()

    def test_jobs_without_a_name_are_called_after_the_script(self, env, launch, monkeypatch):
        main = python_types.SimpleNamespace(__file__="/some/where/my job.py")
        monkeypatch.setitem(sys.modules, "__main__", main)
        numbers = env.from_collection([1])
        for _ in range(2):
            numbers.print()
            env.execute()
        numbers.print()
        env.execute("named")
        numbers.print()
        env.execute_async()
        list(numbers.execute_and_collect())
        names = [job.name for job in launch.jobs]
        assert names == ["my job", "my job-2", "named", "my job-3", "my job-4"]
        main.__file__ = "/some/package/__main__.py"
        assert job_names.script_name() == "package"
        del main.__file__
        assert job_names.script_name() == "Flink Streaming Job"
        assert job_names.unnamed_job("configured") == "configured"

    def test_execute_async_gives_a_client_of_the_job(self, env, launch):
        env.from_collection([1]).print()
        client = env.execute_async("in the background")
        assert client.get_job_execution_result().result().get_net_runtime() == 5
        assert launch.jobs[0].name == "in the background"

    def test_collected_elements_come_in_order_and_end(self, env, launch):
        numbers = env.from_collection([1])
        numbers.print("beside")
        with numbers.execute_and_collect("c") as results:
            assert next(results) == 1
            assert results.next() == 2
            assert list(results) == [3]
            with pytest.raises(StopIteration):
                next(results)
        assert (launch.cancelled, launch.waited) == (False, 1)
        assert [node.kind.name for node in launch.jobs[0].nodes] == ["SOURCE", "SINK", "SINK"]

    def test_closing_early_cancels(self, env, launch):
        results = env.from_collection([1]).execute_and_collect()
        next(results)
        results.close()
        results.close()
        assert (launch.cancelled, launch.waited) == (True, 1)
        assert list(results) == []

    def test_a_limit_cancels_the_job_once_it_is_reached(self, env, launch):
        numbers = env.from_collection([1])
        assert numbers.execute_and_collect(limit=2) == [1, 2]
        assert launch.cancelled
        assert numbers.execute_and_collect(limit=20) == [1, 2, 3]

    def test_a_failure_comes_through(self, env, launch):
        launch.failure = ValueError("text from the job")
        with (
            env.from_collection([1]).execute_and_collect() as results,
            pytest.raises(ValueError, match="text from"),
        ):
            list(results)


class TestNotHere:
    def test_a_method_that_is_not_here_says_what_to_do(self, env):
        stream = env.from_collection([1])
        cases = [
            (stream, "cache"),
            (stream.key_by(str), "cache"),
        ]
        for owner, name in cases:
            assert not hasattr(owner, name)
            with pytest.raises(
                NotSupportedError, match=rf"\.{name} keeps results in Flink's processes.*DeltaSource"
            ):
                getattr(owner, name)

    def test_a_misspelt_method_suggests_the_right_one(self, env):
        with pytest.raises(AttributeError, match="did you mean 'flat_map'") as error:
            env.from_collection([1]).flatmap  # noqa: B018
        assert not isinstance(error.value, NotSupportedError)
        said = "".join(traceback.format_exception_only(error.value))
        assert said.lower().count("did you mean") == 1

    def test_what_only_a_keyed_stream_has_says_how_to_get_one(self, env):
        with pytest.raises(AttributeError, match="'window'; a KeyedStream has it: call key_by\\(\\) before"):
            env.from_collection([1]).window  # noqa: B018

    def test_a_static_method_that_is_not_here_says_so(self):
        with pytest.raises(NotSupportedError, match=r"ExecutionConfig\.get_closure_cleaner_level"):
            ExecutionConfig.get_closure_cleaner_level  # noqa: B018

    def test_names_of_modules(self):
        missing = r"pyflink\.datastream\.data_stream\.CachedDataStream is what cache\(\) would give"
        with pytest.raises(ImportError, match=missing):
            from api.datastream.data_stream import CachedDataStream  # noqa: F401
        with pytest.raises(NotSupportedError, match=missing):
            api.datastream.data_stream.CachedDataStream  # noqa: B018
        assert not hasattr(api.datastream.data_stream, "CachedDataStream")
        with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):
            from api.datastream import Nonsense  # noqa: F401
