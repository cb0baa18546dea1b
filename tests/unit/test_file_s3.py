"""Files on a real S3-compatible server: the same promises as on a local disk, and no key in any text."""

from __future__ import annotations

import gzip
import random
from collections import Counter

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from support.graphs import sink_job
from support.jobs import TestJob
from support.script import DriverKilled, Failure, Fault, Script

from api.common import Configuration, Encoder, Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from api.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from changelog_engine.connectors import NumberSequenceSource, RestoredSink, SinkContext, files
from changelog_engine.errors import ConfigurationError, DamagedInputError, StorageError
from changelog_engine.storage.file_systems import FileSystems, public_uri
from changelog_engine.testing.conformance import check_committing_sink, check_source
from changelog_engine.types import Row

NUMBERS = 60
ALL = Counter(str(number) for number in range(1, NUMBERS + 1))


@pytest.fixture
def bucket(s3):
    return s3.create_bucket()


@pytest.fixture
def options(s3):
    return {
        "s3.endpoint": s3.endpoint,
        "s3.access-key": s3.access_key,
        "s3.secret-key": s3.secret_key,
        "s3.path.style.access": "true",
    }


def objects(s3, path):
    """Path below -> bytes, of all objects that a reader sees."""
    fs = s3.filesystem()
    selector = pafs.FileSelector(path, recursive=True, allow_not_found=True)
    found = {}
    for info in fs.get_file_info(selector):
        below = info.path[len(path) + 1 :]
        if info.is_file and not any(part.startswith(".") for part in below.split("/")):
            with fs.open_input_stream(info.path) as stream:
                found[below] = stream.read()
    return found


def hidden(s3, path):
    selector = pafs.FileSelector(f"{path}/.inprogress", recursive=True, allow_not_found=True)
    return [info.path for info in s3.filesystem().get_file_info(selector) if info.is_file]


def lines(s3, path):
    return Counter(line for data in objects(s3, path).values() for line in data.decode().splitlines())


def put(s3, path, text):
    with s3.filesystem().open_output_stream(path) as stream:
        stream.write(text.encode())


def sink_to(uri, options, compaction=None):
    return files.FileSink(
        uri,
        files.StringEncoder(),
        files.BasePathBuckets(),
        file_systems=FileSystems(options),
        compaction=compaction,
    )


def compacting(checkpoints):
    return files.Compaction(files.CompactStrategy(checkpoints=checkpoints), files.ConcatCompactor())


def job_into(sink, parallelism):
    return sink_job(sink, NumberSequenceSource(1, NUMBERS), parallelism)


def context(attempt=1, restored=()):
    return SinkContext("job", "sink", 0, 1, "run", attempt, True, restored)


class TestSource:
    def test_files_of_a_folder(self, s3, bucket, options):
        for name in ["b.txt", "a/c.txt", "a/.part.inprogress.x", "_meta/d.txt", ".inprogress/e"]:
            put(s3, f"{bucket}/in/{name}", f"{name} 1\n{name} 2")
        source = files.FileSource([f"s3://{bucket}/in/"], file_systems=FileSystems(options))
        assert [split.id for split in source.splits(1)] == [
            f"s3://{bucket}/in/a/c.txt",
            f"s3://{bucket}/in/b.txt",
        ]
        assert check_source(source) == ["a/c.txt 1", "a/c.txt 2", "b.txt 1", "b.txt 2"]
        one = files.FileSource([f"s3a://{bucket}/in/b.txt"], file_systems=FileSystems(options))
        assert check_source(one) == ["b.txt 1", "b.txt 2"]

    def test_an_object_that_was_replaced(self, s3, bucket, options):
        put(s3, f"{bucket}/f", "1\n2\n")
        source = files.FileSource([f"s3://{bucket}/f"], file_systems=FileSystems(options))
        (split,) = source.splits(1)
        put(s3, f"{bucket}/f", "1\n2\n3\n")
        with pytest.raises(StorageError, match="was cut or replaced: it has 6 bytes"):
            source.reader(split).read(split.start, 10)

    def test_an_object_that_is_replaced_while_it_is_read(self, s3, bucket, options):
        """Its bytes come by many requests, and some may be the other's."""
        put(s3, f"{bucket}/f", "1\n2\n")
        source = files.FileSource([f"s3://{bucket}/f"], file_systems=FileSystems(options))
        (split,) = source.splits(1)
        reader = source.reader(split)
        first = reader.read(split.start, 1)
        put(s3, f"{bucket}/f", "4\n5\n6\n")
        with pytest.raises(
            DamagedInputError, match=r"cut or replaced: it has 6 bytes .* when the job began to read it"
        ):
            reader.read(first.next, 10)
        reader.close()

    def test_new_objects_are_found(self, s3, bucket, options):
        source = files.MonitoringFileSource([f"s3://{bucket}/in"]).with_options(options)
        assert source.discover({}) == []
        put(s3, f"{bucket}/in/a", "1\n")
        (split,) = source.discover({})
        assert source.discover({split.id: (split.start, False)}) == []

    @pytest.mark.parametrize("how", ["options", "environment", "uri"])
    def test_ways_to_name_the_server(self, s3, bucket, options, how, monkeypatch):
        put(s3, f"{bucket}/in/a", "1\n2\n")
        uri = f"s3://{bucket}/in"
        if how == "environment":
            for name, value in s3.variables().items():
                monkeypatch.setenv(name, value)
        elif how == "uri":
            uri = s3.uri(bucket, "in")
        source = files.FileSource([uri], file_systems=FileSystems(options if how == "options" else {}))
        (split,) = source.splits(1)
        assert split.id == f"s3://{bucket}/in/a"
        assert list(source.reader(split).read(split.start, 10).values) == ["1", "2"]

    def test_no_such_place(self, bucket, options):
        for path in (f"{bucket}/none", "no-such-bucket/x"):
            with pytest.raises(ConfigurationError, match=f"the input path s3://{path}"):
                files.FileSource([f"s3://{path}"], file_systems=FileSystems(options)).splits(1)


class TestSink:
    @pytest.mark.parametrize("seed", range(6))
    def test_each_line_is_there_once_whatever_dies(self, tmp_path, s3, bucket, options, seed):
        rng = random.Random(seed)
        failures = tuple(
            Failure(rng.randint(1, 8), rng.choice(list(Fault)), 0, rng.randint(0, 1)) for _ in range(4)
        )
        job = TestJob(
            tmp_path / "log", Script((rng.randint(5, 12),), (True, rng.random() < 0.5, True), failures)
        )
        sink = sink_to(f"s3://{bucket}/out", options, compacting(2) if seed % 2 else None)
        job.run(lambda driver: job_into(sink, 1 + (seed + driver) % 2))
        while lines(s3, f"{bucket}/out") != ALL and job.progress.waiting:
            try:
                job.run_driver(job_into(sink, 2), restore="latest")
            except DriverKilled:
                continue
        assert lines(s3, f"{bucket}/out") == ALL, f"seed {seed}"
        for folder in tmp_path.rglob("*"):
            assert not folder.is_file() or s3.secret_key.encode() not in folder.read_bytes()

    def test_the_sink_shows_each_element_once_whatever_crashes(self, s3, bucket, options):
        sink = sink_to(f"s3://{bucket}/out", options)
        check_committing_sink(sink, lambda: list(lines(s3, f"{bucket}/out").elements()), runs=3, seed=2)
        compacts = sink_to(f"s3://{bucket}/compacted", options, compacting(1))
        check_committing_sink(
            compacts, lambda: list(lines(s3, f"{bucket}/compacted").elements()), runs=2, seed=3
        )

    def test_objects_are_merged_and_forks_get_copies(self, s3, bucket, options):
        """As objects: read back, merged, copied to their name; a fork makes copies on the server."""
        row_type = Types.ROW_NAMED(["n"], [Types.LONG()])
        by_record = files.Compaction(files.CompactStrategy(checkpoints=2), files.RecordWiseCompactor())
        sink = files.FileSink(
            f"s3://{bucket}/out",
            files.ColumnarFiles("parquet", files.arrow_schema(row_type)),
            files.BasePathBuckets(),
            file_systems=FileSystems(options),
            compaction=by_record,
        )
        writer = sink.committing_writer(context())
        writer.write([(1,)])
        kept = RestoredSink(0, writer.prepare(False))
        writer.write([(2,)])
        prepared = writer.prepare(False)
        fork = sink.committing_writer(context(restored=[kept])._replace(job="fork"))
        assert objects(s3, f"{bucket}/out") == {}
        writer.commit(prepared.committables)
        (data,) = objects(s3, f"{bucket}/out").values()
        assert pq.read_table(pa.BufferReader(data))["n"].to_pylist() == [1, 2]
        fork.commit(fork.prepare(True).committables)
        found = [pq.read_table(pa.BufferReader(data)) for data in objects(s3, f"{bucket}/out").values()]
        assert sorted(table["n"].to_pylist() for table in found) == [[1], [1, 2]]
        assert hidden(s3, f"{bucket}/out") == []
        sink.committing_writer(context(2, [RestoredSink(0, prepared)])).close()
        assert len(objects(s3, f"{bucket}/out")) == 2, "committing again changes nothing"

    def test_committing_again_changes_nothing(self, s3, bucket, options):
        writer = sink_to(f"s3://{bucket}/out", options).committing_writer(context())
        writer.write(["a"])
        prepared = writer.prepare(False)
        assert objects(s3, f"{bucket}/out") == {}
        assert len(hidden(s3, f"{bucket}/out")) == 1
        writer.commit(prepared.committables)
        before = objects(s3, f"{bucket}/out")
        assert list(before.values()) == [b"a\n"]
        again = sink_to(f"s3://{bucket}/out", options).committing_writer(
            context(2, [RestoredSink(0, prepared)])
        )
        again.commit(prepared.committables)
        again.close()
        assert objects(s3, f"{bucket}/out") == before
        assert hidden(s3, f"{bucket}/out") == []

    def test_what_a_dead_attempt_left_is_removed(self, s3, bucket, options):
        writer = sink_to(f"s3://{bucket}/out", options).committing_writer(context())
        writer.write(["a"])
        prepared = writer.prepare(False)
        writer.commit(prepared.committables)
        writer.write(["lost"])
        writer.prepare(False)
        assert len(hidden(s3, f"{bucket}/out")) == 1
        again = sink_to(f"s3://{bucket}/out", options).committing_writer(
            context(2, [RestoredSink(0, prepared)])
        )
        again.close()
        assert hidden(s3, f"{bucket}/out") == []
        assert list(objects(s3, f"{bucket}/out").values()) == [b"a\n"]

    def test_no_such_bucket(self, options):
        with pytest.raises(ConfigurationError, match="cannot write to s3://no-such-bucket/out"):
            sink_to("s3://no-such-bucket/out", options).check_before_start()


ROW = Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])
CSV = files.CsvSchema(
    (files.CsvColumn("n", Types.LONG()), files.CsvColumn("text", Types.STRING())), header=True
)
AVRO = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'


@pytest.mark.parametrize(
    ("writes", "reads", "element"),
    [
        (
            files.ColumnarFiles("parquet", files.arrow_schema(ROW)),
            files.ParquetRecords(ROW),
            lambda n: Row(n=n, text="ü"),
        ),
        (
            files.ColumnarFiles("orc", files.orc_schema(ROW)),
            files.OrcRecords(ROW),
            lambda n: Row(n=n, text="ü"),
        ),
        (files.CsvFiles(CSV), files.CsvRecords(CSV), lambda n: Row(n=n, text='a\n"')),
        (files.AvroFiles(AVRO), files.AvroRecords(AVRO), lambda n: {"n": n}),
    ],
    ids=["parquet", "orc", "csv", "avro"],
)
def test_every_format_comes_back_from_s3(s3, bucket, options, writes, reads, element):
    uri = f"s3://{bucket}/out"
    sink = files.FileSink(uri, writes, files.BasePathBuckets(), file_systems=FileSystems(options))
    writer = sink.committing_writer(context())
    for start in range(0, 60, 20):
        writer.write([element(n) for n in range(start, start + 20)])
    writer.commit(writer.prepare(False).committables)
    writer.close()
    source = files.FileSource([uri], reads, FileSystems(options))
    assert check_source(source) == [element(n) for n in range(60)]


@pytest.mark.parametrize("name", ["f.gz", "f.zst"])
def test_compressed_text_is_read_from_s3(s3, bucket, options, name):
    text = "".join(f"line {n}\n" for n in range(500)).encode()
    with s3.filesystem().open_output_stream(f"{bucket}/{name}", compression=None) as raw:
        raw.write(gzip.compress(text) if name == "f.gz" else pa.Codec("zstd").compress(text, asbytes=True))
    source = files.FileSource([f"s3://{bucket}/{name}"], file_systems=FileSystems(options))
    (split,) = source.splits(1)
    reader = source.reader(split)
    first = reader.read(split.start, 200)
    reader.close()
    rest = source.reader(split).read(first.next, 1000)
    assert [*first.values, *rest.values] == [f"line {n}" for n in range(500)]


class TestKeys:
    def test_are_in_no_text(self, s3, bucket, options):
        wrong = {**options, "s3.secret-key": "wr0ng/secret", "s3.access-key": "wr0ng-key"}
        for uri, given in [
            (f"s3://{bucket}/x", wrong),
            (s3.uri(bucket, "x").replace("se%2Fcr%2Bet", "wr0ng"), {}),
        ]:
            for fails in (
                lambda uri=uri, given=given: files.FileSource([uri], file_systems=FileSystems(given)).splits(
                    1
                ),
                lambda uri=uri, given=given: sink_to(uri, given).check_before_start(),
            ):
                with pytest.raises(ConfigurationError) as caught:
                    fails()
                assert "wr0ng" not in str(caught.value)
                assert f"s3://{bucket}/x" in str(caught.value)
                assert "The store refuses the key, or got none: set s3.access-key and" in str(caught.value)
        assert "wr0ng" not in repr(FileSystems(wrong))

    def test_the_endpoint_that_does_not_answer_is_named(self):
        silent = "AWS Error NETWORK_CONNECTION during HeadObject operation"
        given = FileSystems({"s3.endpoint": "http://key:secret@127.0.0.1:9"})
        assert given.told(silent) == (
            f"{silent}. Nothing answers at s3.endpoint or AWS_ENDPOINT_URL, which is http://127.0.0.1:9"
        )
        assert FileSystems({}).told(silent).startswith(f"{silent}. No endpoint is set, so Amazon was asked")

    @pytest.mark.parametrize(
        ("uri", "shown"),
        [
            ("s3://key:secret@bucket/a/b?region=x&scheme=http", "s3://bucket/a/b"),
            ("s3://key:se/cr@et@bucket/a", "s3://bucket/a"),
            ("s3://bucket/a b/", "s3://bucket/a b"),
            ("/local/a@b?c", "/local/a@b?c"),
        ],
    )
    def test_no_key_is_shown_of_a_uri(self, uri, shown):
        assert public_uri(uri) == shown


@pytest.mark.slow
def test_a_program_from_s3_to_s3(s3, bucket, options):
    """The options come from the configuration; files of both kinds."""
    put(s3, f"{bucket}/in/words", "b\na\nb\n")
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"s3://{bucket}/in").build()
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
    base = BucketAssigner.base_path_bucket_assigner()
    words.sink_to(
        FileSink.for_row_format(f"s3://{bucket}/out", Encoder.simple_string_encoder())
        .with_bucket_assigner(base)
        .build()
    )
    row_type = Types.ROW_NAMED(["word", "length"], [Types.STRING(), Types.INT()])
    rows = words.map(lambda word: Row(word, len(word)), output_type=row_type)
    rows.sink_to(
        FileSink.for_bulk_format(f"s3://{bucket}/rows", ParquetBulkWriters.for_row_type(row_type))
        .with_bucket_assigner(base)
        .build()
    )
    assert s3.secret_key not in env.get_execution_plan()
    env.execute()
    assert lines(s3, f"{bucket}/out") == Counter("bab")
    parquet = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(row_type), f"s3://{bucket}/rows"
    ).build()
    assert check_source(parquet._source.with_options(options)) == [Row(word=word, length=1) for word in "bab"]
