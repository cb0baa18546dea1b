"""Small classes round the environment: metrics, slot sharing groups, schemas, TableConfig."""

from __future__ import annotations

import pytest

import api.table
from api.common import DeserializationSchema, Encoder, SerializationSchema, SimpleStringSchema, Types
from api.common.serializer import TypeSerializer
from api.datastream import MapFunction, MemorySize, RuntimeContext, SlotSharingGroup
from api.metrics import Counter, Distribution, Meter, Metric, MetricGroup
from api.table import TableConfig
from changelog_engine.errors import ConfigurationError, InvalidJobError, NotSupportedError, TypeMismatchError
from changelog_engine.operators.context import TaskContext, TaskInfo
from changelog_engine.operators.metrics import TaskMeter


def context(subtask: int = 0) -> TaskContext:
    return TaskContext(TaskInfo("count", subtask, 2, 128, 0, {}), None)


class TestMetrics:
    def test_metrics_of_every_kind_are_counted(self):
        runtime = context(1)
        assert isinstance(runtime, RuntimeContext)
        group = runtime.get_metrics_group()
        assert runtime.get_metric_group() is group
        counter, distribution, meter = group.counter("c"), group.distribution("d"), group.meter("m", 10)
        group.gauge("g", lambda: 42)
        group.gauge("broken", lambda: 1 // 0)
        for metric, kind in ((counter, Counter), (distribution, Distribution), (meter, Meter)):
            assert isinstance(metric, kind)
            assert issubclass(kind, Metric)
        assert isinstance(group, MetricGroup)
        counter.inc()
        counter.inc(5)
        counter.dec(2)
        distribution.update(3)
        distribution.update(-1)
        meter.mark_event(20)
        assert (counter.get_count(), meter.get_count(), meter.get_rate()) == (4, 20, 2.0)
        assert {each.full_name: each.figure for each in group.figures()} == {
            "count.1.c": 4,
            "count.1.d": {"sum": 2, "count": 2, "min": -1, "max": 3, "mean": 1.0},
            "count.1.m": {"rate": 2.0, "count": 20},
            "count.1.g": 42,
            "count.1.broken": None,
        }

    def test_a_group_inside_a_group_has_both_names(self):
        group = context().get_metrics_group()
        inner = group.add_group("outer").add_group("region", "north")
        assert inner.get_scope_components() == ["count", "0", "outer", "region", "north"]
        assert inner.get_all_variables() == {"region": "north"}
        assert group.get_all_variables() == {}
        assert inner.get_metric_identifier("x") == "count.0.outer.region.north.x"
        assert group.add_group("outer").add_group("region", "north") is inner
        assert group.add_group("outer").add_group("region") is not group.add_group("outer").add_group(
            "region", "south"
        )
        inner.counter("x").inc()
        assert {each.full_name: each.figure for each in group.figures()} == {
            "count.0.outer.region.north.x": 1
        }

    def test_a_name_is_one_metric(self):
        group = context().get_metrics_group()
        assert group.counter("a") is group.counter("a")
        assert group.meter("m") is group.meter("m")
        for call in (
            lambda: group.meter("a"),
            lambda: group.gauge("a", lambda: 1),
            lambda: group.gauge("b", 1),
            lambda: group.counter(""),
            lambda: group.add_group(1),
            lambda: group.meter("t", 0),
        ):
            with pytest.raises(InvalidJobError):
                call()

    def test_a_meter_forgets_what_is_older_than_its_span(self):
        now = [100.0]
        meter = TaskMeter(3, lambda: now[0])
        meter.mark_event(6)
        now[0] = 102.5
        meter.mark_event(3)
        assert meter.get_rate() == 3.0
        now[0] = 103.0
        assert meter.get_rate() == 1.0
        now[0] = 1000.0
        assert (meter.get_rate(), meter.get_count()) == (0.0, 9)
        for second in range(1000, 1100):
            now[0] = float(second)
            meter.mark_event()
        assert len(meter._seconds) == 3

    def test_subtasks_count_for_themselves(self):
        class Seen(MapFunction):
            def open(self, runtime_context):
                self.seen = runtime_context.get_metrics_group().counter("seen")

            def map(self, value):
                self.seen.inc()
                return self.seen.get_count()

        first, second = Seen(), Seen()
        first.open(context(0))
        second.open(context(1))
        assert [first.map(1), first.map(1), second.map(1)] == [1, 2, 1]


class TestSlotSharing:
    def test_memory_sizes_convert_and_compare(self):
        size = MemorySize(bytes_size=(1 << 40) + (1 << 30))
        assert (size.get_tebi_bytes(), size.get_gibi_bytes(), size.get_mebi_bytes()) == (1, 1025, 1025 << 10)
        assert (size.get_kibi_bytes(), size.get_bytes()) == (1025 << 20, 1025 << 30)
        assert [str(MemorySize(bytes_size=n)) for n in (0, 100, 1024, 1025, 5 << 20, 2 << 30, 1 << 40)] == [
            "0 bytes",
            "100 bytes",
            "1 kb",
            "1025 bytes",
            "5 mb",
            "2 gb",
            "1 tb",
        ]
        small, large = MemorySize.of_mebi_bytes(1), MemorySize.of_mebi_bytes(2)
        assert small < large
        assert small <= MemorySize(bytes_size=1 << 20)
        assert {small: 1}[MemorySize(bytes_size=1 << 20)] == 1
        for call in (
            lambda: MemorySize(),
            lambda: MemorySize(bytes_size=-1),
            lambda: MemorySize.of_mebi_bytes(1.5),
        ):
            with pytest.raises(ConfigurationError, match="MemorySize"):
                call()
        with pytest.raises(TypeError):
            small < 3  # noqa: B015
        with pytest.raises(NotSupportedError, match="get_bytes"):
            small.get_java_memory_size()
        with pytest.raises(NotSupportedError, match="bytes_size"):
            MemorySize(object())

    def test_a_group_gives_back_what_was_set(self):
        builder = SlotSharingGroup.builder("g")
        chained = (
            builder.set_cpu_cores(1)
            .set_task_heap_memory_mb(100)
            .set_task_heap_memory(MemorySize.of_mebi_bytes(200))
            .set_managed_memory_mb(0)
            .set_external_resource("gpu", 1)
            .set_external_resource("gpu", 2.0)
        )
        assert chained is builder
        group = builder.build()
        assert (group.get_name(), group.get_cpu_cores()) == ("g", 1.0)
        assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(200)
        assert group.get_managed_memory() == group.get_task_off_heap_memory() == MemorySize(bytes_size=0)
        assert group.get_external_resources() == {"gpu": 2.0}
        assert group == builder.build()
        assert group != builder.set_task_off_heap_memory_mb(1).build()
        with pytest.raises(NotSupportedError, match="get_name"):
            group.get_java_slot_sharing_group()

    def test_a_group_without_resources_has_none(self):
        group = SlotSharingGroup.builder("g").build()
        assert group.get_cpu_cores() is None
        assert group.get_managed_memory() is group.get_task_heap_memory() is None
        assert group.get_external_resources() == {}
        assert group == SlotSharingGroup.builder("g").build()
        assert group != SlotSharingGroup.builder("h").build()

    def test_what_is_refused(self):
        def made():
            return SlotSharingGroup.builder("g")

        for call in (
            lambda: SlotSharingGroup.builder(""),
            lambda: made().set_cpu_cores(0),
            lambda: made().set_cpu_cores("1"),
            lambda: made().set_task_heap_memory(100),
            lambda: made().set_task_heap_memory_mb(0),
            lambda: made().set_task_heap_memory(MemorySize(bytes_size=0)),
            lambda: made().set_managed_memory_mb(-1),
            lambda: made().set_external_resource("gpu", 0),
            lambda: made().set_external_resource("", 1),
            lambda: made().set_cpu_cores(1).build(),
            lambda: made().set_managed_memory_mb(1).build(),
        ):
            with pytest.raises(ConfigurationError):
                call()
        with pytest.raises(NotSupportedError, match="builder"):
            SlotSharingGroup(object())


class TestSchemas:
    def test_strings_are_written_in_their_charset(self):
        schema = SimpleStringSchema("latin-1")
        assert isinstance(schema, SerializationSchema)
        assert isinstance(schema, DeserializationSchema)
        assert (schema.serialize("é€"), schema.deserialize(b"\xe9")) == (b"\xe9?", "é")
        assert SimpleStringSchema().deserialize(b"a\xff") == "a\ufffd"
        assert (schema.get_produced_type(), schema.is_end_of_stream("x")) == (Types.STRING(), False)
        with pytest.raises(TypeMismatchError, match="int"):
            schema.serialize(1)
        for make in (SimpleStringSchema, Encoder.simple_string_encoder):
            with pytest.raises(ConfigurationError, match="no encoding 'klingon'"):
                make("klingon")
        assert Encoder.simple_string_encoder("ascii").charset_name == "ascii"

    @pytest.mark.parametrize("charset", ["UTF-8", "utf8", "ascii", "utf-16"])
    def test_many_simple_strings_are_as_one_after_the_other(self, charset):
        schema = SimpleStringSchema(charset)
        for texts in ([], ["a", "é", ""], ["a", "\ud800", "b"], ["\0", "\u2028", "😀"]):
            assert schema.serialize_all(texts) == [schema.serialize(text) for text in texts]
        for messages in ([], [b"a", "é".encode(), b""], [b"a", b"\xff", b"b"], [b"a", bytearray(b"b")]):
            assert schema.deserialize_all(messages) == [schema.deserialize(each) for each in messages]
        with pytest.raises(TypeMismatchError, match="int"):
            schema.serialize_all(["a", 1])
        with pytest.raises(TypeError):
            schema.deserialize_all([b"a", None])

    def test_a_serializer_has_both_ways(self):
        class Half(TypeSerializer[int]):
            def serialize(self, element, stream):
                stream.write(bytes([element]))

        with pytest.raises(TypeError, match="deserialize"):
            Half()


class TestTable:
    def test_the_one_setting(self):
        config = TableConfig()
        assert config.get_python_executable() is None
        config.set_python_executable("python3")
        assert config.get_python_executable() == "python3"
        with pytest.raises(ConfigurationError, match="python_exec"):
            config.set_python_executable("")

    def test_everything_else_says_so(self):
        with pytest.raises(
            ImportError, match=r"StreamTableEnvironment is part of the Table API, .*env\.from_spark"
        ):
            from api.table import StreamTableEnvironment  # noqa: F401
        assert not hasattr(api.table, "TableSchema")
        with pytest.raises(NotSupportedError, match=r"TableConfig\.set_local_timezone"):
            TableConfig().set_local_timezone("UTC")
