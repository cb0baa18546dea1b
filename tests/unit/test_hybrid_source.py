"""HybridSource: what it takes and refuses, and that its parts are read as they would be alone."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from api.common import Types
from api.common.serialization import SimpleStringSchema
from api.common.time import Duration
from api.common.watermark_strategy import WatermarkStrategy
from api.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from api.datastream.connectors import FileSource, NumberSequenceSource, StreamFormat
from api.datastream.connectors.hybrid_source import HybridSource, HybridSourceBuilder
from api.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder
from api.datastream.output_tag import OutputTag
from changelog_engine import connectors as engine
from changelog_engine.connectors.protocols import SourceOfParts, Split, is_endless
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, NotSupportedError, RestoreError
from changelog_engine.testing import without_spark
from changelog_engine.testing.conformance import check_source


def lines(folder: Path, watched: bool = False) -> FileSource:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    return (builder.monitor_continuously(Duration.of_millis(5)) if watched else builder).build()


def topic() -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("t").set_group_id("g")
    return made.set_value_only_deserializer(SimpleStringSchema())


def test_files_and_then_a_topic(tmp_path: Path) -> None:
    (tmp_path / "a:b.txt").write_text("1\n2\n")
    source = HybridSource.builder(lines(tmp_path)).add_source(topic().build()).build()
    inner = source._source
    assert isinstance(source, HybridSource)
    assert isinstance(inner, SourceOfParts)
    assert (inner.bounded, inner.parallel, inner.timed, inner.acknowledges) == (False, True, True, True)
    assert inner.output_type == Types.STRING()
    assert is_endless(inner)
    (split,) = inner.splits(2)
    assert split.id == f"0:{tmp_path}/a:b.txt"
    shipped = pickle.loads(pickle.dumps(inner))
    assert list(shipped.reader(split).read(split.start, 10).values) == ["1", "2"]


def test_bounded_ones(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n")
    bounded = topic().set_bounded(KafkaOffsetsInitializer.latest()).build()
    source = HybridSource.builder(lines(tmp_path)).add_source(bounded).build()._source
    assert source.bounded
    assert not is_endless(source)
    alone = HybridSource.builder(NumberSequenceSource(1, 9)).build()._source
    assert sorted(check_source(alone, range(1, 10))) == list(range(1, 10))


def test_a_hybrid_source_counts_as_its_sources() -> None:
    first = HybridSource.builder(NumberSequenceSource(1, 2)).add_source(NumberSequenceSource(3, 4)).build()
    source = HybridSource.builder(first).add_source(first).build()._source
    assert [part.start for part in source.parts] == [1, 3, 1, 3]


def test_a_source_that_is_not_last_ends(tmp_path: Path) -> None:
    builder = HybridSource.builder(lines(tmp_path)).add_source(lines(tmp_path, watched=True))
    with pytest.raises(
        ConfigurationError, match=r"source 2 of 3, a MonitoringFileSource, is not bounded.*put it last"
    ):
        builder.add_source(lines(tmp_path))
    with pytest.raises(
        ConfigurationError, match=r"source 1 of 2, a DiscoveringKafkaSource, is not .*set_bounded\(\)"
    ):
        HybridSource.builder(topic().build()).add_source(lines(tmp_path))


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match=r"HybridSource\.builder needs a Source"):
        HybridSource.builder(5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"add_source needs a Source.*build\(\) it"):
        HybridSource.builder(lines(tmp_path)).add_source(topic())  # type: ignore[arg-type]
    with pytest.raises(NotSupportedError, match="Java"):
        HybridSourceBuilder("org.apache.Source")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="at least one"):
        engine.HybridSource([])


def test_elements_are_of_one_type(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"source 1, a FileSource, .* STRING, .*source 2, a NumberSeq.* LONG"
    ):
        HybridSource.builder(lines(tmp_path)).add_source(NumberSequenceSource(1, 2))
    untyped = FileSource.for_record_stream_format(StreamFormat.json_line_format(), str(tmp_path)).build()
    assert HybridSource.builder(lines(tmp_path)).add_source(untyped).build()._source.output_type is None


def test_splits_of_others_are_refused() -> None:
    source = engine.HybridSource([engine.NumberSequenceSource(1, 2)])
    for split in ("topic-0", "file:///a", "1:1..2", ":", "x:1"):
        with pytest.raises(RestoreError, match="is not of this HybridSource, which has 1 sources"):
            source.part_of(split)
    assert source.reader(Split("0:", None)).read(None, 5).finished


def test_a_job(tmp_path: Path) -> None:
    """Files, an empty folder, and files again: all of one before any of the next."""
    for name, texts in (("a", "12"), ("none", ""), ("z", "34")):
        (tmp_path / name).mkdir()
        for text in texts:
            (tmp_path / name / f"{text}.txt").write_text(f"{text}\n{text}{text}\n")
    builder = HybridSource.builder(lines(tmp_path / "z"))
    for name in ("none", "a"):
        builder.add_source(lines(tmp_path / name))
    for mode in ("checkpoints", "none", "batch"):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        if mode == "batch":
            env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        if mode == "checkpoints":
            env.enable_checkpointing(10).get_checkpoint_config().set_checkpoint_storage_dir(
                str(tmp_path / "job")
            )
        stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "hybrid")
        with without_spark(), stream.execute_and_collect(f"hybrid {mode}") as found:
            assert list(found) == ["3", "33", "4", "44", "1", "11", "2", "22"]


def test_bad_records_go_aside(tmp_path: Path) -> None:
    """Of a source of files alone, and of one of several."""
    (tmp_path / "a").write_text('{"n": 1}\nno\n{"n": 2}\n')
    builder = FileSource.for_record_stream_format(StreamFormat.json_line_format(), str(tmp_path))
    tag = OutputTag("bad")
    files = builder.set_bad_records_tag(tag).build()
    for source, times in ((files, 1), (HybridSource.builder(files).add_source(files).build(), 2)):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        aside = stream.get_side_output(tag).map(lambda row: row.record, Types.STRING())
        kept = stream.map(lambda value: str(value["n"]), Types.STRING())
        with without_spark(), kept.union(aside).execute_and_collect() as found:
            assert sorted(found) == sorted(["1", "2", "no"] * times)
    other = builder.set_bad_records_tag(OutputTag("other")).build()
    with pytest.raises(
        ConfigurationError, match=r"different side outputs, \['bad', 'other'\]: give them one"
    ):
        HybridSource.builder(files).add_source(other)
