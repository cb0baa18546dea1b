"""File connectors as users name them: builders, arguments, and what they hand to the engine."""

from __future__ import annotations

import pickle

import pytest

from api.common import Configuration, Duration, Encoder, Types, WatermarkStrategy
from api.common.serialization import BulkWriterFactory, RowDataBulkWriterFactory
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSplitAssignerProvider,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
)
from api.datastream.connectors.file_system import DefaultRollingPolicy, OnCheckpointRollingPolicy
from api.datastream.formats.avro import AvroInputFormat, AvroSchema
from api.datastream.formats.csv import CsvBulkWriters, CsvSchema
from changelog_engine.connectors import CommittingSink, DiscoveringSource
from changelog_engine.connectors.files import (
    BasePathBuckets,
    DateTimeBuckets,
    FileNames,
    Rolling,
    StringEncoder,
)
from changelog_engine.errors import ConfigurationError

ENCODER = Encoder.simple_string_encoder()


def row_sink(**more):
    builder = FileSink.for_row_format("/out", ENCODER)
    for name, value in more.items():
        assert getattr(builder, name)(value) is builder
    return builder.build()._sink


class TestSinkBuilder:
    def test_a_sink_without_settings_has_flinks_defaults(self):
        sink = row_sink()
        assert isinstance(sink, CommittingSink)
        assert sink.base_path == "/out"
        assert sink.rolling == Rolling(128 * 1024 * 1024, 60_000, 60_000, False)
        assert (sink.names, sink.check_interval_ms) == (FileNames("part", ""), 60_000)
        assert isinstance(sink.buckets, DateTimeBuckets)
        assert (sink.buckets.pattern, sink.buckets.zone_id) == ("yyyy-MM-dd--HH", None)
        pickle.loads(pickle.dumps(sink))

    def test_a_sinks_settings_reach_the_engine(self):
        sink = row_sink(
            with_bucket_check_interval=5,
            with_bucket_assigner=BucketAssigner.base_path_bucket_assigner(),
            with_rolling_policy=RollingPolicy.default_rolling_policy(1, 2, 3),
            with_output_file_config=OutputFileConfig("a", ".b"),
        )
        assert (sink.rolling, sink.names) == (Rolling(1, 2, 3), FileNames("a", ".b"))
        assert isinstance(sink.buckets, BasePathBuckets)
        assert sink.check_interval_ms == 5

    @pytest.mark.parametrize(
        ("method", "value"),
        [
            ("with_bucket_check_interval", 0),
            ("with_bucket_assigner", "x"),
            ("with_rolling_policy", RollingPolicy),
            ("with_output_file_config", OutputFileConfig.builder()),
        ],
    )
    def test_a_sink_refuses_bad_settings_by_name(self, method, value):
        with pytest.raises(ConfigurationError, match=method):
            getattr(FileSink.for_row_format("/out", ENCODER), method)(value)

    def test_formats_paths_and_policies_of_sinks_are_checked(self):
        with pytest.raises(ConfigurationError, match="must be an Encoder"):
            FileSink.for_row_format("/out", "utf-8")
        with pytest.raises(ConfigurationError, match="base_path"):
            FileSink.for_row_format("", ENCODER)
        with pytest.raises(ConfigurationError, match="part_size"):
            RollingPolicy.default_rolling_policy(part_size=0)
        with pytest.raises(ConfigurationError, match="OutputFileConfig: part_prefix"):
            OutputFileConfig(None, "")

    def test_ready_made_policies_are_of_their_classes(self):
        assert isinstance(RollingPolicy.default_rolling_policy(), DefaultRollingPolicy)
        assert isinstance(RollingPolicy.on_checkpoint_rolling_policy(), OnCheckpointRollingPolicy)

    def test_bulk_formats_end_files_at_checkpoints(self):
        factory = CsvBulkWriters.for_schema(CsvSchema.builder().add_string_column("a").build())
        assert isinstance(factory, BulkWriterFactory)
        assert isinstance(factory, RowDataBulkWriterFactory)
        assert factory.get_row_type() == Types.ROW_NAMED(["a"], [Types.STRING()])
        builder = FileSink.for_bulk_format("/out", factory)
        assert builder.build()._sink.rolling.on_checkpoint
        builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
        with pytest.raises(ConfigurationError, match="on_checkpoint_rolling_policy"):
            builder.with_rolling_policy(RollingPolicy.default_rolling_policy()).build()

    def test_a_bucket_assigner_of_ones_own(self):
        class ByLength(BucketAssigner):
            def __init__(self):
                self.unit = "letters"

            def get_bucket_id(self, element):
                return f"{len(element)}-{self.unit}"

        sink = row_sink(with_bucket_assigner=ByLength())
        assert dict(sink.buckets.assign(["a", "bb", "c"], 0)) == {
            "1-letters": ["a", "c"],
            "2-letters": ["bb"],
        }

    def test_streaming_file_sink(self):
        builder = StreamingFileSink.for_row_format("/out", ENCODER)
        builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        with pytest.warns(DeprecationWarning, match="use FileSink"):
            sink = builder.build()
        assert sink._function.names.by_subtask

    def test_compaction_is_file_sinks(self):
        builder = StreamingFileSink.for_row_format("/out", ENCODER)
        with pytest.raises(AttributeError, match="enable_compact"):
            builder.enable_compact(None, None)


class TestSourceBuilder:
    def test_a_sources_settings_reach_the_engine(self):
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/a", "/b")
        assert (
            builder.set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator())
            is builder
        )
        assert (
            builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner()) is builder
        )
        assert builder.process_static_file_set().build()._source.bounded
        watching = builder.monitor_continuously(Duration.of_seconds(3)).build()._source
        assert isinstance(watching, DiscoveringSource)
        assert (watching.bounded, watching.discovery_interval_ms) == (False, 3_000)
        assert watching.output_type == Types.STRING()
        assert pickle.loads(pickle.dumps(watching)).discovery_interval_ms == 3_000

    @pytest.mark.parametrize(
        ("method", "value"),
        [
            ("monitor_continuously", 5),
            ("monitor_continuously", Duration.of_millis(0)),
            ("set_file_enumerator", "x"),
            ("set_split_assigner", None),
        ],
    )
    def test_a_source_refuses_bad_settings_by_name(self, method, value):
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/a")
        with pytest.raises(ConfigurationError, match=method):
            getattr(builder, method)(value)

    def test_formats_and_paths_of_sources_are_checked(self):
        with pytest.raises(ConfigurationError, match="at least one path"):
            FileSource.for_record_stream_format(StreamFormat.text_line_format())
        with pytest.raises(ConfigurationError, match="must be a StreamFormat"):
            FileSource.for_record_stream_format("text", "/a")
        with pytest.raises(ConfigurationError, match="must be a BulkFormat"):
            FileSource.for_bulk_file_format(StreamFormat.text_line_format(), "/a")
        with pytest.raises(ConfigurationError, match="row_type"):
            StreamFormat.json_line_format(Types.INT())


class TestInPrograms:
    def env(self, **options):
        configuration = Configuration()
        for key, value in options.items():
            configuration.set_string(key.replace("_", ".", 1), value)
        return StreamExecutionEnvironment.get_execution_environment(configuration)

    def test_the_sink_learns_the_type(self, tmp_path):
        env = self.env()
        pairs = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
        pairs.sink_to(FileSink.for_row_format(str(tmp_path), ENCODER).build())
        graph, _, _ = env._take_job(None)
        encoder = graph.nodes[-1].function.encoder
        assert isinstance(encoder, StringEncoder)
        assert encoder.encode([("a", 1)]) == [b"(a,1)\n"]

    def test_options_reach_connectors_and_nothing_else(self, tmp_path):
        env = self.env(s3_endpoint="http://localhost:1", **{"s3_secret-key": "geheim"})
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        lines.sink_to(FileSink.for_row_format(str(tmp_path), ENCODER).build())
        assert "geheim" not in env.get_execution_plan()
        graph, settings, _ = env._take_job(None)
        assert "geheim" not in repr(graph)
        assert "geheim" not in repr(settings)
        assert "geheim" not in repr(settings)
        for function in (graph.nodes[0].function._file_systems, graph.nodes[-1].function.file_systems):
            assert function._s3("secret_key") == "geheim"

    def test_a_path_that_cannot_be_written_to_is_an_error_before_the_start(self, tmp_path):
        (tmp_path / "file").write_text("")
        env = self.env()
        env.from_collection(["a"]).sink_to(FileSink.for_row_format(str(tmp_path / "file"), ENCODER).build())
        with pytest.raises(ConfigurationError, match=f"cannot write to the folder {tmp_path}/file"):
            env.execute()

    def test_an_input_that_no_file_system_has_is_an_error_before_the_start(self):
        env = self.env()
        source = FileSource.for_record_stream_format(
            StreamFormat.text_line_format(), "nosuch://key:geheim@x/y"
        )
        env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "lines").print()
        with pytest.raises(ConfigurationError, match="cannot open 'nosuch://x/y'") as error:
            env.execute()
        assert "geheim" not in str(error.value)

    def test_create_input_has_the_formats_type_and_refuses_others(self, tmp_path):
        schema = AvroSchema.parse_string('{"type": "record", "name": "r", "fields": []}')
        env = self.env()
        stream = env.create_input(AvroInputFormat(str(tmp_path), schema))
        assert stream.get_type() == Types.PICKLED_BYTE_ARRAY()
        with pytest.raises(ConfigurationError, match="input_format must be an InputFormat"):
            env.create_input(str(tmp_path))
