"""`run --check`: what it finds by line, what it leaves alone, and that it runs nothing.

A line of a script that is to have findings says so in a comment: ``# error: a part of the message``.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result
from packaging.requirements import Requirement

from api import _differences, _kept_settings
from api._kept_settings import KEPT
from api.datastream import StreamExecutionEnvironment
from api.datastream._settings import default_local_parallelism
from changelog_engine.cli import main
from changelog_engine.cli.check import _wrapped
from changelog_engine.config import set_command_line
from changelog_engine.connectors import packages
from changelog_engine.errors import ConfigurationError
from changelog_engine.static_check import Level, NotReadableError, Report, answers, check_program

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("[0-9]*.py"))
EXAMPLES = sorted((ROOT / "docs" / "examples").rglob("*.py"))
_EXPECTED = re.compile(r"# (error|warning|note): (.*?)(?= # (?:error|warning|note): |$)")
BEGIN = """\
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
"""

Check = Callable[..., Report]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Checks the text of a script beside other modules, and compares the findings with the comments."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, **modules: str) -> Report:
        for name, body in modules.items():
            path = Path(*name.split("__"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".py").write_text(textwrap.dedent(body))
        Path("script.py").write_text(textwrap.dedent(text))
        report = check_program("script.py")
        expected = []
        for file in report.files:
            lines = Path(file).read_text().splitlines() if Path(file).is_file() else []
            for number, line in enumerate(lines, 1):
                expected += [(file, number, level, said) for level, said in _EXPECTED.findall(line)]
        found = [(each.file, each.line, each.level.value, each.message) for each in report.in_order()]
        assert [each[:3] for each in found] == [each[:3] for each in expected], found
        for (*_, message), (*_, said) in zip(found, expected, strict=True):
            assert said in message
        return report

    return run


def with_begin(text: str) -> str:
    """A script with an environment."""
    return BEGIN + textwrap.dedent(text)


@pytest.mark.parametrize("program", [*GOLDEN, *EXAMPLES], ids=lambda path: path.stem)
def test_programs_that_run_have_no_errors(program: Path) -> None:
    report = check_program(str(program))
    assert [each for each in report.findings if each.level is not Level.NOTE] == []
    assert report.uses or program in EXAMPLES


class TestImports:
    def test_modules_and_names_that_are_not_here(self, check: Check) -> None:
        check("""\
            from pyflink.datastream import MapFunction, StreamExecutionEnviroment  # error: did you mean 'StreamExecutionEnvironment'?
            from pyflink.datastream import KafkaSource  # error: from pyflink.datastream.connectors import KafkaSource
            from pyflink.common.typeinfo import LocalTimeTypeInfo  # error: use Types.SQL_DATE()
            from pyflink.java_gateway import java_import  # error: reaches into Flink's Java process
            from pyflink.datastraem import DataStream  # error: No module named 'pyflink.datastraem'
            import pyflink.ml  # error: use the model of a Python library
            import pyflink.examples  # error: is not part of this version
            from pyflink.util.java_utils import to_jarray  # error: reaches into Flink's Java process
            from pyflink.datastream.watermark_strategy import WatermarkStrategy  # error: did you mean 'pyflink.common.watermark_strategy'
            import api.common.tmie  # error: No module named 'pyflink.common.tmie'
            from changelog_engine.api.common import Typs  # error: did you mean 'Types'?
            """)

    def test_names_from_where_people_import_them(self, check: Check) -> None:
        report = check("""\
            import pyflink.datastream as ds
            from pyflink import datastream
            from pyflink.datastream.connectors.kafka import DeliveryGuarantee
            from pyflink.datastream.window import Time as T
            from pyflink.datastream.functions import ValueStateDescriptor, TimeDomain, KEY
            from pyflink.common import JsonRowSerializationSchema
            from pyflink.table import DataTypes, Row
            ds.StreamExecutionEnvironment.get_execution_environment()
            datastream.StreamExecutionEnvironment.get_execution_environment().set_paralelism(1)  # error: did you mean 'set_parallelism'?
            T.seconds(5).to_milliseconds()
            DeliveryGuarantee.EXACTLY  # error: has no attribute 'EXACTLY'
            """)
        assert len(report.imports) == 10

    def test_java_objects_behind_pyflinks_are_not_here(self, check: Check) -> None:
        check("""\
            from pyflink.common import Configuration
            from pyflink.datastream import StreamExecutionEnvironment
            env = StreamExecutionEnvironment.get_execution_environment()
            env._j_stream_execution_environment.socketTextStream("localhost", 9999)
            env.from_collection([1])._j_data_stream  # error: is the Java object behind PyFlink's
            """)

    def test_star_imports(self, check: Check) -> None:
        check("""\
            from pyflink.common import *
            from pyflink.datastream import *
            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_collection([1], Types.INT()).fliter()  # error: has no attribute 'fliter'; did you mean 'filter'?
            KafkaSource.builder()  # error: write from pyflink.datastream.connectors import KafkaSource
            """)

    def test_methods_without_their_parentheses(self, check: Check) -> None:
        check(with_begin("""\
            from pyflink.datastream import KeyedProcessFunction
            from pyflink.datastream.state import ValueStateDescriptor
            class Count(KeyedProcessFunction):
                def open(self, runtime_context):
                    self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
                    self.read = self.count.value
                def process_element(self, value, ctx):
                    if self.count.value == 1:  # error: ValueState.value is a method, and is not called here
                        return
                    if self.count.value:  # error: write value(...)
                        return
                    n = (self.count.value or 0) + 1  # error: ValueState.value is a method
                    n += self.count.value  # error: ValueState.value is a method
                    late = ctx.timestamp > 5  # error: Context.timestamp is a method
                    yield f"{self.count.value:>{n}}"  # error: ValueState.value is a method
                    yield self.read() if self.count.value() == 1 else f"{self.count.value()}"
            """))  # fmt: skip

    def test_what_is_caught_or_only_for_types_is_no_error(self, check: Check) -> None:
        check("""\
            from typing import TYPE_CHECKING
            try:
                from pyflink.table import StreamTableEnvironment  # note: the script catches the error
            except ImportError:
                StreamTableEnvironment = None
            if TYPE_CHECKING:
                from pyflink.table import Table
            def f(table: "Table"):
                return StreamTableEnvironment
            """)

    def test_names_that_nothing_defines(self, check: Check) -> None:
        check(with_begin("""\
            results = env.from_collection([1])
            def later(values):
                return [found for value in values if (found := value)], reslts  # error: did you mean 'results'?
            result.print()  # error: name 'result' is not defined, and nothing in this file defines it; did you mean 'results'? (used in line 8)
            result.name("out")
            try:
                profile
            except NameError:
                pass
            text = unicode if str is bytes else str
            match text:
                case [head, *rest]: print(head, rest)
                case {"a": a, **others}: print(a, others)
            def sets():
                global late
                late = __file__
            print(late)
            """).replace("profile", "profile  # note: name 'profile' is not defined"))  # fmt: skip
        check("globals().update(brought=1)\nprint(brought)")
        check("from beside import *\nprint(brought)", beside="from json import *")

    def test_streams_that_are_taken_for_collections(self, check: Check) -> None:
        says = "DataStream is not a collection"
        check(with_begin(f"""\
            numbers = env.from_collection([1, 2])
            for number in numbers:  # error: {says}
                pass
            found = [number for number in numbers.map(str)]  # error: {says}
            print(len(numbers))  # error: {says}
            print(numbers[0])  # error: {says}
            list(map(str, numbers))  # error: {says}
            for number in numbers.execute_and_collect():
                print(number)
            if numbers:
                print([numbers] == [numbers])
            """))  # fmt: skip

    def test_modules_of_others(self, check: Check) -> None:
        check("""\
            import json, numpy.linalg, beside, package.inner
            import no_such_module  # error: No module named 'no_such_module' beside the script or in this environment
            from package import other
            from package.nothing import x  # error: the package beside the script has none of this name
            def f(value):
                import neither_this_one  # error: No module named 'neither_this_one'
                return neither_this_one.f(value)
            """, beside="import json", package____init__="", package__inner="", package__other="from . import inner")  # fmt: skip

    def test_modules_of_a_folder_above_are_told_with_the_path_to_set(
        self, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "theirs").mkdir()
        (tmp_path / "theirs" / "maps.py").write_text("")
        (tmp_path / "jobs").mkdir()
        monkeypatch.chdir(tmp_path / "jobs")
        check(f"from theirs.maps import twice  # error: it is in {tmp_path}: set PYTHONPATH={tmp_path}\n")

    def test_modules_that_may_be_found_all_the_same(self, check: Check) -> None:
        check("""\
            import sys
            sys.path.append("lib")
            import no_such_module  # warning: the script changes sys.path
            """)
        Path("more.py").write_text("")
        check(with_begin("""\
            env.add_python_file("more.py")
            def f(value):
                import no_such_module  # note: the workers find it
                return no_such_module.f(value)
            """))  # fmt: skip

    def test_modules_beside_the_script_are_read_too(self, check: Check) -> None:
        report = check(
            with_begin("import build\nbuild.stream(env).print()\nbuild.tools.twice(env)\n"),
            build="""\
                from tools import twice
                import tools
                from pyflink.table import Schema  # error: is part of the Table API
                def stream(env):
                    twice(env)
                    return env.from_collection([1]).cache()  # error: write the stream with a DeltaSink
                """,
            tools="def twice(env):\n    env.nothing()  # error: has no attribute 'nothing'\n",
        )
        assert report.files == ["script.py", "build.py", "tools.py"]

    def test_a_package_api_beside_the_script_is_the_users(self, check: Check) -> None:
        report = check("from api.shop import nothing\nimport changelog_engine.api.common\n", api__shop="")
        assert len(report.imports) == 1


class TestTheTableApi:
    def test_imports_and_their_uses(self, check: Check) -> None:
        check(with_begin("""\
            from pyflink.table import EnvironmentSettings, StreamTableEnvironment  # error: EnvironmentSettings is part of # error: (used in lines 7, 8, 9, 10)
            from pyflink.table.expressions import col  # error: use DataStream's methods
            def main():
                tables = StreamTableEnvironment.create(env)
                tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'kafka')")  # error: use KafkaSource and KafkaSink
                tables.from_path("t").select(col("a")).execute()
                return StreamTableEnvironment
            """))  # fmt: skip


class TestJarsAndFiles:
    def test_jars(self, check: Check) -> None:
        Path("mine.jar").write_text("")
        check(with_begin("""\
            FOLDER = "file:///opt/flink/lib"
            env.add_jars(FOLDER + "/flink-sql-connector-kafka-1.17.jar")  # warning: the engine needs none
            env.add_jars("file:///opt/flink/lib/mine.jar")  # error: there is no file or folder '/opt/flink/lib/mine.jar'
            env.add_jars("mine.jar")  # note: connectors and formats here are Python and need none
            env.add_classpaths(f"{FOLDER}/x.jar")  # note: hands jars to a Spark session
            """))  # fmt: skip

    def test_jars_of_the_configuration(self, check: Check) -> None:
        check("""\
            from pyflink.common import Configuration
            configuration = Configuration()
            configuration.set_string("pipeline.jars", "file:///nowhere/flink-connector-jdbc.jar")  # warning: the engine needs none
            configuration.set_string("pipeline.jars", "file:///nowhere/mine.jar")  # error: there is no file
            """)

    def test_files_of_the_job(self, check: Check) -> None:
        check(with_begin("""\
            env.add_python_file("not_there.py")  # error: there is no file or folder
            env.set_python_requirements("requirements.txt")  # error: there is no file or folder
            """))  # fmt: skip


class TestCalls:
    def test_members_and_arguments(self, check: Check) -> None:
        check(with_begin("""\
            from pyflink.common import WatermarkStrategy, Duration
            from pyflink.datastream.connectors.kafka import KafkaSource
            from pyflink.datastream.formats.csv import CsvSchema
            ds = env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))
            ds = ds.map(lambda v: v, output_typ=Types.INT())  # error: unexpected keyword argument 'output_typ'; it has func, output_type
            ds.map(lambda v: v, Types.STRING)  # error: write its parentheses
            ds.map()  # error: missing a required argument: 'func'
            if ds:
                keyed = ds.key_by(lambda v: v[0])
            else:
                keyed = ds.key_by(lambda v: v[1], key_type=Types.STRING())
            keyed.reduce(lambda a, b: a).cache()  # error: read it with a DeltaSource
            for _ in range(3):
                ds = ds.rebalance()
            ds.nothing()  # error: has no attribute 'nothing'
            KafkaSource.builder().set_topics("a").set_value_deserialiser(None)  # error: did you mean 'set_value_only_deserializer'?
            WatermarkStrategy.for_generator(None)  # error: use for_bounded_out_of_orderness()
            strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
            strategy.with_watermark_alignment("g", Duration.of_seconds(1))  # note: each epoch reads from every source
            Types.DATE()  # error: has no attribute 'DATE'
            Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()])  # error: needs as many different field names
            Types.ROW_NAMED([1], [Types.INT()])  # error: needs a list of names such as ['id'], got [1]
            from pyflink.datastream import CheckpointingMode, Partitioner
            CheckpointingMode["EXACTLY_ONCE"].value, CheckpointingMode.AT_LEAST_ONCE.name
            Partitioner()  # error: Can't instantiate abstract class Partitioner
            Row(a=1).a, Row(1)[0], Row(1).to_j_row_kind
            """))  # fmt: skip

    def test_what_the_environment_refuses(self, check: Check) -> None:
        check(with_begin("""\
            from pyflink.common import Configuration
            from pyflink.datastream import SourceFunction, MapFunction
            class Mine(MapFunction):
                pass
            env.from_collection([1, 1.5], Types.LONG())  # error: element 1 of from_collection is declared LONG but got 1.5
            env.from_collection([1, 2.0, True], Types.DOUBLE()).map(Mine)  # error: write Mine()
            env.from_collection([1], Types.LIST(Types()))  # error: Types.LIST needs types such as Types.STRING()
            env.set_parallelism(0)  # error: between 1 and 32768
            env.add_jars(3)  # error: must be a non-empty str, got 3
            env.add_source(SourceFunction("org.example.Source"))  # error: Java classes cannot be used
            env.from_collection([1]).add_sink("org.example.Sink")  # error: Java classes cannot be used
            Configuration().set_string("state.backend.tipe", "x")  # error: did you mean 'state.backend.type'?
            Configuration().set_string("table.exec.state.ttl", "1 h")  # note: has no effect here
            Configuration().set_string("python.execution-mode", "thread")
            """))  # fmt: skip

    def test_builders_that_were_not_built(self, check: Check) -> None:
        check(with_begin("""\
            from pyflink.common import SimpleStringSchema, WatermarkStrategy
            from pyflink.datastream.connectors.kafka import KafkaSink, KafkaSource
            builder = KafkaSource.builder().set_topics("t").set_value_only_deserializer(SimpleStringSchema())
            ds = env.from_source(builder, WatermarkStrategy.no_watermarks(), "k")  # error: ; build() it
            ds.sink_to(KafkaSink.builder().set_bootstrap_servers("x"))  # error: needs a Sink or a CommittingSink, got
            source = builder.build()
            env.from_source(source, WatermarkStrategy.no_watermarks(), "k")
            env.from_source(source, watermark_strategy=None, source_name="k")  # error: must be a WatermarkStrategy such as
            env.from_source(source, WatermarkStrategy, "k")  # error: got the class WatermarkStrategy
            env.from_source(source, WatermarkStrategy.no_watermarks(), 5, None)  # error: source_name must be a non-empty str
            """))  # fmt: skip

    def test_what_only_a_builder_makes(self, check: Check) -> None:
        check(with_begin("""\
            from pyflink.datastream.connectors.file_system import FileSink
            from pyflink.datastream.connectors.kafka import KafkaSource
            sink = FileSink("out")  # error: a FileSink is made by FileSink.for_row_format(...) or FileSink.for_bulk_format(...)
            KafkaSource("topic")  # error: a KafkaSource is made by KafkaSource.builder(...), then build()
            """))  # fmt: skip

    def test_functions_that_the_stream_does_not_take(self, check: Check) -> None:
        check(with_begin("""\
            from pyflink.datastream import FilterFunction, KeyedProcessFunction, MapFunction, ProcessFunction
            from pyflink.datastream.window import TumblingEventTimeWindows
            class Keep(FilterFunction):
                def __init__(self, least):
                    self.least = least
                def filter(self, value):
                    return value > self.least
            class Same(MapFunction):
                def map(self, value):
                    return value
            class Own(Same):
                pass
            ds = env.from_collection([1])
            ds.filter(Keep(1)).map(Own()).map(str.upper)
            ds.map(Keep(1))  # error: DataStream.map needs a MapFunction, got Keep
            ds.key_by(Own())  # error: needs a KeySelector
            ds.process(lambda v: v)  # error: needs a ProcessFunction
            ds.union(3)  # error: argument 1 must be a DataStream, got 3
            ds.connect("other")  # error: needs a DataStream or a BroadcastStream
            ds.assign_timestamps_and_watermarks(5)  # error: must be a WatermarkStrategy
            ds.partition_custom(3, lambda v: v)  # error: needs a Partitioner
            ds.key_by(lambda v: v).reduce(Keep(1))  # error: needs a ReduceFunction
            windows = ds.key_by(lambda v: v).window(5)  # error: must be a WindowAssigner, got 5
            windows.allowed_lateness("1 s").reduce(lambda a, b: a)  # error: must be a whole number
            windows.trigger(5).reduce(lambda a, b: a)  # error: trigger
            ds.key_by(lambda v: v).window(TumblingEventTimeWindows.of(5))  # error: size must be a Time
            ds.key_by(lambda v: v).count_window(0)  # error: size must be at least 1
            """))  # fmt: skip

    def test_functions_of_windows_over_all_and_of_two_streams(self, check: Check) -> None:
        report = check(with_begin("""\
            from pyflink.datastream.functions import CoMapFunction, KeyedCoProcessFunction, ProcessWindowFunction
            from pyflink.datastream.functions import ProcessAllWindowFunction, WindowFunction
            from pyflink.datastream.state import MapStateDescriptor
            from pyflink.datastream.window import CountTumblingWindowAssigner
            class Each(ProcessWindowFunction):
                def process(self, key, context, elements):
                    yield key
            class All(ProcessAllWindowFunction):
                def process(self, context, elements):
                    yield 1
            class Old(WindowFunction):
                def apply(self, key, window, inputs):
                    yield key
            class Two(CoMapFunction):
                def map1(self, value):
                    return value
                def map2(self, value):
                    return value
            class TwoOfKey(KeyedCoProcessFunction):
                def process_element1(self, value, ctx):
                    yield value
                def process_element2(self, value, ctx):
                    yield value
            ds = env.from_collection([1])
            windows = CountTumblingWindowAssigner.of(2)
            each = ds.key_by(lambda v: v).window(windows).process(Each())
            each.window_all(windows).process(All())
            each.window_all(windows).process(lambda c, e: [1])  # error: AllWindowedStream.process needs a Process
            each.count_window_all(2).process(Each())  # error: it is a ProcessWindowFunction, which window
            ds.key_by(lambda v: v).window(windows).process(Old())  # error: it is a WindowFunction, which window
            ds.connect(ds).map(Two())
            ds.connect(ds).map(lambda v: v)  # error: ConnectedStreams.map needs a CoMapFunction
            ds.key_by(lambda v: v).connect(each.key_by(lambda v: v)).process(TwoOfKey())
            ds.connect(ds).process(Two())  # error: ConnectedStreams.process needs a CoProcessFunction
            state = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
            ds.connect(ds.broadcast(state)).map(Two())  # error: 'BroadcastConnectedStream' object has no attribute 'map'
            ds.broadcast().connect(ds).map(3)  # error: ConnectedStreams.map needs a CoMapFunction
            def later(other, *states):
                ds.connect(other).map(3)
                ds.broadcast(*states).map(3)
            """))  # fmt: skip
        assert len(report.unknown) == 2, "of what `later` is given"

    def test_functions_that_are_called_otherwise_or_give_nothing(self, check: Check) -> None:
        report = check(with_begin("""\
            from pyflink.datastream import FlatMapFunction, KeyedProcessFunction, MapFunction
            class Split(FlatMapFunction):
                def flat_map(self, value, collector):
                    collector.collect(value)
            class Below(Split):
                pass
            class Mended(Split):
                def flat_map(self, value, twice=open("never/there")):
                    return [value]
            class Count(KeyedProcessFunction):
                def process_element(self, value: int, ctx: "KeyedProcessFunction.Context", out: list) -> None:
                    out.append(value)
            class Forgets(MapFunction):
                @open("never/there").read
                def close(self):
                    pass
                def map(self, value):
                    str(value)
            def forgets(value):
                value.sort()
            async def later(value):
                return value
            def several(value, /, *rest, by=open("never/there"), **named):
                yield value
            @str
            def any(a, b, c):
                pass
            ds = env.from_collection([1])
            ds.flat_map(Split())  # error: flat_map of Split takes (value, collector), and is called with (value)
            ds.flat_map(Below())  # error: flat_map of Below takes (value, collector)
            ds.flat_map(Mended()).flat_map(several).flat_map(forgets).map(any)
            ds.key_by(lambda v: v).process(Count())  # error: process_element of Count takes (value, ctx, out)
            ds.map(Forgets())  # warning: Forgets.map() has no 'return' with a value, so each element
            ds.filter(forgets)  # warning: DataStream.filter: forgets() has no 'return' with a value, so no element is kept
            ds.map(later)  # error: declared 'async def'
            ds.map(several)  # error: the function has a 'yield'
            ds.key_by(lambda a, b: a)  # error: takes (a, b), and is called with (value)
            def within():
                count = 0
                def counts(value, more):
                    nonlocal count
                    count += 1
                ds.map(counts)
            class Holds(MapFunction):
                def map(self, value):
                    return self.other(value)
                def other(self, value):
                    return value
                @staticmethod
                def plain(a, b):
                    return a
                def built(self):
                    return ds.map(self.other).map(Holds.other)
            ds.map(Holds()).map(Holds().other).map(Holds.map)
            """))  # fmt: skip
        assert not [each for each in report.findings if ".py, line" in each.message]

    def test_settings_without_effect_and_differences(self, check: Check) -> None:
        check(with_begin("""\
            env.get_checkpoint_config().enable_unaligned_checkpoints()  # note: kept without effect: epochs end together
            env.set_buffer_timeout(10).disable_operator_chaining()  # note: Stored without effect # note: run in one task
            env.set_python_executable("python3")  # warning: docs/compatibility.md, Programs
            """))  # fmt: skip

    def test_what_the_script_is_ready_for_is_a_note(self, check: Check) -> None:
        check(with_begin("""\
            import contextlib
            ds = env.from_collection([1])
            try:
                ds = ds.cache()  # note: the script catches the error
            except AttributeError:
                pass
            with contextlib.suppress(Exception):
                ds.cache()  # note: the script catches the error
            checks = [lambda: env.set_parallelism(0)]  # note: if this is called
            """))  # fmt: skip


class TestFunctions:
    def test_contexts_and_states(self, check: Check) -> None:
        check(with_begin("""\
            from pyflink.datastream import KeyedProcessFunction
            from pyflink.datastream.state import ValueStateDescriptor
            class Count(KeyedProcessFunction):
                def __init__(self):
                    self.state = None
                def open(self, context):
                    self.state = context.get_state(ValueStateDescriptor("n", Types.LONG()))
                    context.get_stat("n")  # error: did you mean 'get_state'?
                def process_element(self, value, ctx):
                    self.state.set(1)  # error: 'ValueState' object has no attribute 'set'
                    ctx.timer_service().register_timer(5)  # error: has no attribute 'register_timer'
                    yield self.state.value()
                def on_timer(self, timestamp, ctx):
                    ctx.get_current_key(), ctx.timer_service().current_watermark()
            env.from_collection([1]).key_by(lambda v: v).process(Count())
            """))  # fmt: skip

    def test_values_go_through_functions_and_objects(self, check: Check) -> None:
        check("""\
            from pyflink.datastream import DataStream, StreamExecutionEnvironment
            class Job:
                def __init__(self, env):
                    self.env = env
                def words(self):
                    return self.env.from_collection(["a"])
            def run(stream, name="x"):
                return stream.nothing()  # error: has no attribute 'nothing'
            def annotated(stream: DataStream, other: "DataStream"):
                stream.window(1)
                other.cache()  # error: keeps results in Flink's processes
            def main():
                env = StreamExecutionEnvironment.get_execution_environment()
                run(Job(env).words())
            if __name__ == "__main__":
                main()
            """)

    def test_what_means_something_else_in_workers(self, check: Check) -> None:
        check(
            with_begin("""\
            import argparse, sys
            import beside
            from pyflink.datastream import MapFunction
            first = sys.argv[1]
            class Own(MapFunction):
                def __init__(self):
                    self.name = sys.argv[1]
                def map(self, value):
                    if value is None:
                        sys.exit(1)  # warning: docs/compatibility.md, Elements
                    return inner(value)
            def inner(value):
                return value, sys.argv[1]  # warning: in a function that runs in workers
            def here():
                return argparse.ArgumentParser().parse_args()
            def there(value):
                parser = argparse.ArgumentParser()
                parser.add_argument("--x")
                return parser.parse_args().x  # warning: ArgumentParser.parse_args() in a function that runs in workers
            here()
            env.from_collection([1]).map(Own()).map(there).filter(lambda v: v in sys.argv)  # warning: not the script's
            """),
            beside="import sys\nFIRST = sys.argv[1:]  # warning: workers import it too\ndef f():\n    return sys.argv\n",
        )

    def test_one_result_where_several_are_gone_through(self, check: Check) -> None:
        check(
            with_begin("""\
            from pyflink.datastream import FlatMapFunction, KeyedProcessFunction, MapFunction, ProcessWindowFunction
            class Count(KeyedProcessFunction):
                def process_element(self, value, ctx):
                    if value > 3:
                        return f"{value} is large"  # warning: process_element returns a str, and each of its characters
                    if value > 2:
                        return "two"  # warning: returns a str
                    if value > 1:
                        return ["one"]
                    def name():
                        return "of its own"
                    return
                def on_timer(self, timestamp, ctx):
                    return 5  # error: on_timer returns 5, which is not iterable: yield it, or return a list
            class Generator(KeyedProcessFunction):
                def process_element(self, value, ctx):
                    yield value
                    return "the end"
            class Split(FlatMapFunction):
                def flat_map(self, value):
                    return "a b"  # warning: flat_map returns a str
            class Upper(MapFunction):
                def map(self, value):
                    return "A"
                def process(self):
                    return "A"
            class NoFunction:
                def process_element(self, value, ctx):
                    return "a"
            class Windows(ProcessWindowFunction):
                def process(self, key, context, elements):
                    return "all"  # warning: process returns a str
            env.from_collection([1]).key_by(lambda v: v).process(Count()).map(Upper()).flat_map(Split())
            """)
        )

    def test_what_is_not_known_is_counted_and_not_claimed(self, check: Check) -> None:
        report = check("""\
            import somewhere
            def run(stream, rows):
                stream.key_by(rows.pop).reduce(max)
                rows.append(1)
            run(somewhere.stream(), [])
            run(somewhere.other(), somewhere)
            """, somewhere="def stream(): ...\ndef other(): return stream().map(1)")  # fmt: skip
        assert {(file, line) for file, line, _ in report.unknown} == {("script.py", 3), ("somewhere.py", 2)}


class TestKindsOfPrograms:
    """Programs of each kind of issue 11 that run as they are."""

    @pytest.mark.parametrize(
        "text",
        [
            'env.from_collection(["a"]).map(lambda v: None, Types.STRING()).filter(lambda x: x is not None).print()',
            "env.from_collection([1, True], Types.DOUBLE()).map(print)\nenv.execute()",
            """\
            from pyflink.common import WatermarkStrategy
            from pyflink.common.watermark_strategy import TimestampAssigner
            class Assigner(TimestampAssigner):
                def extract_timestamp(self, value, record_timestamp):
                    return value.timestamp() * 1000
            strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assigner())
            env.from_collection([1]).assign_timestamps_and_watermarks(strategy).print()
            """,
            """\
            from pyflink.datastream import AsyncDataStream, AsyncFunction
            from pyflink.common import Time
            class Ask(AsyncFunction):
                async def async_invoke(self, value):
                    return [value]
                def timeout(self, value):
                    return []
            AsyncDataStream.unordered_wait(env.from_collection([1]), Ask(), Time.seconds(5), 100, Types.INT()).print()
            """,
            """\
            from pyflink.datastream.functions import KeyedCoProcessFunction, RuntimeContext
            from pyflink.datastream.state import MapStateDescriptor, StateTtlConfig
            from pyflink.common.time import Time
            from pyflink.datastream.window import TumblingEventTimeWindows
            ttl = StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite).build()
            class Join(KeyedCoProcessFunction):
                def open(self, runtime_context: RuntimeContext):
                    descriptor = MapStateDescriptor("m", Types.STRING(), Types.LONG())
                    descriptor.enable_time_to_live(ttl)
                    self.m = runtime_context.get_map_state(descriptor)
                def process_element1(self, value, ctx):
                    self.m.put("a", 1)
                def process_element2(self, value, ctx):
                    yield from self.m.items()
            left = env.from_collection([1]).key_by(lambda v: v)
            left.connect(env.from_collection([2]).key_by(lambda v: v)).process(Join())
            left.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: a).print()
            """,
        ],
    )  # fmt: skip
    def test_they_have_no_findings(self, check: Check, text: str) -> None:
        report = check(with_begin(text))
        assert not report.unknown


class TestTheCommand:
    @pytest.fixture
    def run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
        monkeypatch.chdir(tmp_path)

        def invoke(text: str, *options: str) -> Result:
            Path("script.py").write_text(textwrap.dedent(text))
            try:
                return CliRunner().invoke(main, ["run", "--check", *options, "script.py", "--its-own"])
            finally:
                set_command_line({})

        return invoke

    def test_a_clean_script(self, run: Callable[..., Result]) -> None:
        result = run(BEGIN)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == (
            "looked at script.py: 3 imports and 1 use of the API; 0 errors, 0 warnings, 0 notes\n"
        )

    def test_findings_and_what_is_not_checked(self, run: Callable[..., Result]) -> None:
        result = run(BEGIN + "env.nothing()\ndef f(x):\n    x.key_by(1)\n")
        assert result.exit_code == 1
        assert result.stdout.splitlines()[0].startswith(
            "script.py:4: error: 'StreamExecutionEnvironment' object has no"
        )
        assert result.stdout.splitlines()[1:] == [
            "looked at script.py: 3 imports and 2 uses of the API; 1 error, 0 warnings, 0 notes",
            "not checked: 1 call on a value whose type isn't known here (script.py:6)",
        ]

    def test_as_json(self, run: Callable[..., Result]) -> None:
        found = json.loads(run(BEGIN + "env.nothing()\n", "--json").stdout)
        (finding,) = found.pop("findings")
        assert (finding["level"], finding["file"], finding["line"]) == ("error", "script.py", 4)
        assert found == {
            "files": ["script.py"], "errors": 1, "warnings": 0, "notes": 0, "imports": 3, "uses": 2, "not_checked": [],
        }  # fmt: skip

    def test_what_cannot_be_read(self, run: Callable[..., Result]) -> None:
        result = run("x = 1\nif x:\nprint(x)\n")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Error: script.py:3: not Python: expected an indented block")
        assert CliRunner().invoke(main, ["run", "--check", "nowhere.py"]).exit_code == 2
        assert CliRunner().invoke(main, ["run", "--json", "script.py"]).exit_code == 2

    def test_a_module_beside_it_that_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "script.py").write_text("import beside\n")
        (tmp_path / "beside.py").write_text("x = \n")
        with pytest.raises(NotReadableError, match=r"beside\.py:1: not Python"):
            check_program(str(tmp_path / "script.py"))

    def test_lines_fit_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        text = "script.py:1: error: " + "words " * 40
        assert _wrapped(text, 80) == [text]
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert max(map(len, _wrapped(text, 80))) <= 80

    def test_nothing_runs(self, tmp_path: Path) -> None:
        (tmp_path / "script.py").write_text(BEGIN + "import beside\nopen('ran', 'w').close()\n")
        (tmp_path / "beside.py").write_text("open('ran', 'w').close()\n")
        code = (
            "import sys; from changelog_engine.cli import main\n"
            "try: main(['run', '--check', 'script.py'])\n"
            "finally: print([name for name in ('pyspark', 'py4j.java_gateway', 'beside') if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]", done
        assert not (tmp_path / "ran").exists()

    def test_no_module_is_searched_for_the_scripts_functions(
        self, check: Check, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lazy, asked = ModuleType("lazy"), []
        lazy.__getattr__ = asked.append  # type: ignore[method-assign]
        monkeypatch.setitem(sys.modules, "lazy", lazy)
        check(with_begin("""
            from pyflink.datastream import MapFunction
            class Twice(MapFunction):
                def map(self, value):
                    return value * 2
            env.from_collection([1]).map(lambda v: v + 1).map(Twice()).print()
            env.execute()
            """))  # fmt: skip
        assert not {"<lambda>", "Twice", "map"} & set(asked)


def marked() -> dict[str, _differences.Difference]:
    """The API's methods that have a mark."""
    found = {}
    for cls in answers.classes().values():
        for name, function in inspect.getmembers(cls, inspect.isfunction):
            mark = _differences.difference_of(function)
            if mark is not None:
                found[name] = mark
    return found


def test_marks_name_sections_of_the_page() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^#+ (.*)$", page, re.MULTILINE))
    assert {mark.section for mark in marked().values()} <= headings
    for section in re.findall(
        r"docs/compatibility\.md, (\w+)", inspect.getsource(sys.modules[check_program.__module__])
    ):
        assert section in headings


def test_the_table_of_what_is_kept_without_effect_is_that_of_the_marked_methods() -> None:
    setters = [setter for row in KEPT for setter in row.setters()]
    assert len(set(setters)) == len(setters) > 40
    classes = answers.classes()
    there = {
        f"{cls}.{name}"
        for cls, found in classes.items()
        for name, function in vars(found).items()
        if (mark := _differences.difference_of(function)) is not None
        and mark.section == "Stored without effect"
    }
    assert there == set(setters)
    for row in KEPT:
        arguments = inspect.signature(classes[row.owner]).parameters if row.what else {}
        assert all(hasattr(classes[row.owner], name) or name in arguments for name in row.names), row


def test_a_setting_without_effect_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kept_settings, "_said", set())
    environment = StreamExecutionEnvironment.get_execution_environment()
    with caplog.at_level("INFO", "changelog_engine"):
        environment.set_buffer_timeout(10).set_buffer_timeout(20)
    assert caplog.messages == [
        "StreamExecutionEnvironment.set_buffer_timeout is kept without effect: output leaves at the end of an epoch"
    ]
    assert environment.get_buffer_timeout() == 20


def test_what_is_tried_leaves_no_trace(check: Check) -> None:
    before = default_local_parallelism()
    check(BEGIN + f"env.set_default_local_parallelism({before + 1})\n")
    assert default_local_parallelism() == before


CONNECTED = """
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream.connectors import FlinkKafkaConsumer, JdbcConnectionOptions, RMQConnectionConfig, RMQSink
from pyflink.datastream.connectors.cassandra import CassandraSink
from pyflink.datastream.connectors.elasticsearch import Elasticsearch7SinkBuilder
from pyflink.datastream.connectors.kafka import KafkaSource
from pyflink.datastream.connectors.kinesis import KinesisStreamsSink
from pyflink.datastream.connectors.pulsar import PulsarSink
from pyflink.datastream.formats.avro import AvroBulkWriters, AvroRowDeserializationSchema, AvroSchema
def read(which):
    config = RMQConnectionConfig.Builder().set_uri("amqp://h").build()
    RMQSink(config, which, SimpleStringSchema())  {pika}
    CassandraSink.add_sink(which)  {cassandra}
    Elasticsearch7SinkBuilder().set_hosts("h:1")  {urllib3}
    KafkaSource.builder().set_topics(which).build()  {confluent_kafka}
    FlinkKafkaConsumer(which, SimpleStringSchema(), {{}})  {confluent_kafka}
    sink = KinesisStreamsSink.builder()  {botocore}
    sink.set_fail_on_error(True)
    PulsarSink.builder()  {pulsar}
    AvroBulkWriters.for_generic_record(which)  {fastavro}
    AvroRowDeserializationSchema(avro_schema_string=which)  {fastavro}
    AvroSchema.parse_file(which)
    build = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    build.with_url("jdbc:postgresql://h/d")  {psycopg}
    build.with_url("jdbc:mysql://h/d")  {pymysql}
    build.with_url("jdbc:sqlite:/a.db")
    build.with_url(which)
read(input())
"""
PACKAGES = {
    value.module: value for value in vars(packages).values() if isinstance(value, packages.Package)
}  # by what is imported


@pytest.mark.parametrize("here", [True, False], ids=["installed", "missing"])
def test_packages_of_connectors(check: Check, monkeypatch: pytest.MonkeyPatch, here: bool) -> None:
    said = {name: f"# error: {package.advice}" for name, package in PACKAGES.items()}
    monkeypatch.setattr(packages.Package, "is_here", lambda package: here)
    check(CONNECTED.format_map(dict.fromkeys(said, "") if here else said))


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert packages.RABBITMQ.is_here()
    monkeypatch.setitem(sys.modules, "pika", None)
    assert not packages.RABBITMQ.is_here()
    assert not packages.Package("This needs", "no-such", "no", "no_such_package").is_here()


def test_extras_bring_their_packages() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package in PACKAGES.values():
        names = [Requirement(each).name.lower() for each in extras[package.extra]]
        assert package.name.lower() in names, package


def test_a_file_that_is_imported_in_a_packages_place_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user's script ``kafka.py``: the package is installed, and cannot be imported."""
    (tmp_path / "in_its_place.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    package = packages.Package(
        "Kafka needs", "kafka-python", "kafka", "in_its_place", ("in_its_place.admin",)
    )
    with pytest.raises(ConfigurationError) as raised:
        package.load()
    file = tmp_path / "in_its_place.py"
    assert str(raised.value) == (
        f"Kafka needs the package kafka-python, and {file} is imported in its place: give that file another name"
    )
    (tmp_path / "too_old").mkdir()
    (tmp_path / "too_old" / "__init__.py").touch()
    with pytest.raises(ConfigurationError, match="pip install"):
        packages.Package("Kafka needs", "kafka-python", "kafka", "too_old", ("too_old.admin",)).load()
    with pytest.raises(ConfigurationError, match="pip install"):
        packages.Package("Kafka needs", "kafka-python", "kafka", "not_here_at_all").load()
