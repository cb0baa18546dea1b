"""Small names that PyFlink has, those of 1.18 to 2.3 among them."""

from __future__ import annotations

import copy
import pickle

import pytest

from api.common import (
    ByteArraySchema,
    ConfigOption,
    ConfigOptions,
    Configuration,
    Duration,
    Encoder,
    ExecutionConfig,
    Row,
    RowKind,
    Types,
    WatermarkStrategy,
)
from api.common.serialization import RowFieldExtractorSchema
from api.common.typeinfo import (
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from api.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    OutputTag,
    StreamExecutionEnvironment,
)
from api.datastream.connectors.file_system import FileSink
from api.datastream.formats.csv import CsvSchema
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    NotSupportedError,
    TypeMismatchError,
)


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


class TestConfigOptions:
    def test_each_kind(self) -> None:
        key = ConfigOptions.key("a.b")
        assert key.int_type().default_value(2**31 - 1) == ConfigOption("a.b", 2**31 - 1)
        assert key.long_type().default_value(2**40).default == 2**40
        assert key.float_type().default_value(1).default == 1.0
        assert key.double_type().default_value(1.5).default == 1.5
        assert key.boolean_type().default_value(True).default is True
        assert key.string_type().no_default_value() == ConfigOption("a.b")

    @pytest.mark.parametrize("default", [2**31, True, 1.0, "1", None])
    def test_a_default_of_another_kind(self, default: object) -> None:
        with pytest.raises(ArgumentTypeError, match="'a' must be int of 32 bits"):
            ConfigOptions.key("a").int_type().default_value(default)  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match=r"ConfigOptions\.key"):
            ConfigOptions.key(5)  # type: ignore[arg-type]


class TestConfiguration:
    def test_from_dict(self) -> None:
        conf = Configuration.from_dict({"parallelism.default": "2"})
        assert conf.get_integer("parallelism.default", 1) == 2
        with pytest.raises(ArgumentTypeError, match="needs a dict"):
            Configuration.from_dict([("a", "b")])  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("text", "items"),
        [("", []), ("a;b", ["a", "b"]), ("[a, 'b;c']", ["a", "b;c"]), ("- a\n- b", ["a", "b"]), ("a", ["a"])],
    )
    def test_parse_list_value(self, text: str, items: list[str]) -> None:
        assert Configuration.parse_list_value(text) == items

    def test_a_list_that_is_not_yaml(self) -> None:
        with pytest.raises(ConfigurationError, match="not YAML"):
            Configuration.parse_list_value("[a, b")

    def test_it_is_shown_as_in_flink_without_secrets(self) -> None:
        conf = Configuration().set_integer("a", 1).set_boolean("b", True).set_string("s3.secret-key", "x")
        assert str(conf) == "{a=1, b=true, s3.secret-key=******}"
        assert str(Configuration()) == "{}"


class TestSchemas:
    def test_bytes(self) -> None:
        schema = ByteArraySchema()
        assert schema.serialize(memoryview(b"ab")) == schema.deserialize(bytearray(b"ab")) == b"ab"  # type: ignore[arg-type]
        assert schema.get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())
        with pytest.raises(TypeMismatchError, match="the element is 'a' of type str"):
            schema.serialize("a")  # type: ignore[arg-type]

    def test_a_field_of_a_row(self) -> None:
        schema = RowFieldExtractorSchema(1)
        assert schema.serialize(Row(key="a", value=b"1")) == schema.serialize(("a", b"1")) == b"1"  # type: ignore[arg-type]
        with pytest.raises(TypeMismatchError, match="field 1 of"):
            schema.serialize(Row(b"1", 2))
        with pytest.raises(TypeMismatchError, match="takes field 1 of rows"):
            schema.serialize(Row(b"1"))
        with pytest.raises(ConfigurationError, match="at least 0"):
            RowFieldExtractorSchema(-1)


class TestCheckpointConfig:
    def test_retention_is_the_newer_name_of_cleanup(self) -> None:
        config = environment().get_checkpoint_config()
        assert (
            config.get_externalized_checkpoint_retention()
            is ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )
        mode = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
        assert config.set_externalized_checkpoint_retention(mode) is config
        assert config.get_externalized_checkpoint_retention() is mode
        assert (
            config.get_externalized_checkpoint_cleanup()
            is ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION
        )
        with pytest.raises(ArgumentTypeError, match="ExternalizedCheckpointRetention"):
            config.set_externalized_checkpoint_retention("DELETE_ON_CANCELLATION")  # type: ignore[arg-type]

    def test_aligned_checkpoint_timeout(self) -> None:
        config = environment().get_checkpoint_config()
        assert config.set_aligned_checkpoint_timeout(Duration.of_seconds(2)) is config
        assert (
            config.get_aligned_checkpoint_timeout()
            == config.get_alignment_timeout()
            == Duration.of_seconds(2)
        )
        with pytest.raises(
            ArgumentTypeError, match="set_aligned_checkpoint_timeout: alignment_timeout must be a Duration"
        ):
            config.set_aligned_checkpoint_timeout(5)  # type: ignore[arg-type]


class TestEnvironment:
    def test_what_is_set_is_given_back(self) -> None:
        env = environment()
        env.enable_checkpointing(1000, CheckpointingMode.AT_LEAST_ONCE)
        assert env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE
        assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
        key = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
        other = StreamExecutionEnvironment(Configuration().set_boolean(key, False))
        assert not other.is_chaining_of_operators_with_different_max_parallelism_enabled()

    def test_it_can_be_used_after_close(self) -> None:
        env = environment()
        env.close()
        assert env.from_collection([1]).get_name() == "Collection Source"

    def test_equal_settings_are_equal(self) -> None:
        one, other = environment().get_config(), environment().get_config()
        assert isinstance(one, ExecutionConfig)
        assert (one == other, hash(one) == hash(other)) == (True, True)
        assert one != "settings"
        one.set_global_job_parameters({"a": "b"})
        assert one != other
        other.set_global_job_parameters({"a": "b"})
        other.disable_auto_type_registration()
        assert (
            other.is_auto_type_registration_disabled() is True is not one.is_auto_type_registration_disabled()
        )
        assert one != other

    def test_rocksdb_takes_paths_and_uris_of_files(self) -> None:
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths("file:///tmp/one", "file:/tmp/two", "/tmp/three")
        assert backend.get_db_storage_paths() == ["/tmp/one", "/tmp/two", "/tmp/three"]
        assert backend.get_number_of_transfer_threads() == 4


@pytest.mark.parametrize(
    "name",
    [
        "STRING",
        "BOOLEAN",
        "BYTE",
        "SHORT",
        "INT",
        "LONG",
        "FLOAT",
        "DOUBLE",
        "CHAR",
        "BIG_INT",
        "BIG_DEC",
        "INSTANT",
    ],
)
def test_basic_types_by_their_longer_names(name: str) -> None:
    assert getattr(BasicTypeInfo, f"{name}_TYPE_INFO")() == getattr(Types, name)()


def test_times_by_their_shorter_names() -> None:
    found = SqlTimeTypeInfo.DATE(), SqlTimeTypeInfo.TIME(), SqlTimeTypeInfo.TIMESTAMP()
    assert found == (Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP())
    assert found == (DateTypeInfo(), TimeTypeInfo(), TimestampTypeInfo())
    assert [type(each) for each in found] == [DateTypeInfo, TimeTypeInfo, TimestampTypeInfo]
    assert len({*found, DateTypeInfo()}) == 3
    assert type(Types.INSTANT()) is InstantTypeInfo
    assert Types.INSTANT() == InstantTypeInfo() != TimestampTypeInfo()


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (Types.LIST(Types.INT()), "get_java_type_info"),
        (Types.STRING(), "to_internal_type"),
        (RowKind.INSERT, "to_j_row_kind"),
        (OutputTag("late"), "get_java_output_tag"),
    ],
)
def test_members_of_javas_side_say_that_there_is_none(found: object, name: str) -> None:
    with pytest.raises(
        NotSupportedError, match=rf"{type(found).__name__}\.{name} takes values to Java's side"
    ):
        getattr(found, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        found.nothing  # type: ignore[attr-defined] # noqa: B018
    assert (copy.deepcopy(found), pickle.loads(pickle.dumps(found))) == (found, found)
    assert not hasattr(found, name)


def test_a_sink_has_no_transformer() -> None:
    sink = FileSink.for_row_format("/tmp/out", Encoder.simple_string_encoder()).build()
    with pytest.raises(NotSupportedError, match=r"FileSink\.get_transformer is for sinks of Java's"):
        sink.get_transformer()


def test_an_array_of_bytes_is_bytes() -> None:
    wanted = Types.PRIMITIVE_ARRAY(Types.BYTE())
    assert wanted.check(b"ab") == wanted.check(bytearray(b"ab")) == b"ab"
    assert type(wanted.check(memoryview(b"ab"))) is bytes


def test_what_cannot_work_says_why_and_what_to_use() -> None:
    stream = environment().from_collection([1])
    with pytest.raises(NotSupportedError, match=r"DataStream\.cache keeps .* DeltaSource"):
        stream.cache()
    with pytest.raises(NotSupportedError, match=r"KeyedStream\.cache keeps"):
        stream.key_by(lambda value: value).cache()
    with pytest.raises(NotSupportedError, match="add a column for each cell"):
        CsvSchema.builder().set_any_property_name("rest")
    with pytest.raises(NotSupportedError, match=r"use parse_list_value\(\)"):
        Configuration.parse_jars_value("[]", None)
    assert not hasattr(stream, "cache")


def test_watermark_alignment_changes_nothing() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    aligned = strategy.with_watermark_alignment("group", Duration.of_seconds(1), Duration.of_seconds(2))
    assert aligned is not strategy
    assert aligned._spec() == strategy._spec()
    with pytest.raises(ConfigurationError, match="max_allowed_watermark_drift"):
        strategy.with_watermark_alignment("group", 5)  # type: ignore[arg-type]
