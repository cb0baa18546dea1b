"""Source and sink of Kinesis: every record once, through splits, merges, crashes, throttling and a server that dies."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from servers.kinesis import KinesisServer, properties
from servers.process import free_port
from support.cut_connections import CutConnections
from support.faulty_kinesis import FaultyKinesis
from support.graphs import GraphBuilder, sink_job
from support.jobs import NO_RESTART, StoppedJob, TestJob
from support.script import Failure, Fault, Script

from api.common.serialization import DeserializationSchema, SimpleStringSchema
from api.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisDeserializationSchema,
    KinesisStreamsSink,
    PartitionKeyGenerator,
)
from changelog_engine.connectors import Prepared, SinkContext, Split
from changelog_engine.connectors.kinesis.reader import ShardReader
from changelog_engine.connectors.kinesis.sink import KinesisWriter
from changelog_engine.errors import ConnectorError, JobExecutionError, TypeMismatchError
from changelog_engine.graph.nodes import JobGraph
from changelog_engine.testing.conformance import check_source

pytestmark = pytest.mark.slow

CONTEXT = SinkContext("job", "sink", 0, 1, "run", 1, True, ())
QUICK = {
    "flink.stream.initpos": "TRIM_HORIZON",
    "flink.shard.getrecords.intervalmillis": "0",
    "flink.shard.getrecords.backoff.base": "1",
    "flink.shard.discovery.intervalmillis": "1",
}
HOUR_MS = 3_600_000


class FirstWord(PartitionKeyGenerator):
    def apply(self, element: str) -> str:
        return element.split()[0]


class Whole(KinesisDeserializationSchema):
    def deserialize_record(self, record: Any) -> Any:
        return record


class Picky(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return None if message == b"skip" else json.loads(message)


def source_of(endpoint: str, streams: Any, schema: Any = None, **more: Any) -> Any:
    given = properties(endpoint) | QUICK | {name.replace("_", "."): value for name, value in more.items()}
    return FlinkKinesisConsumer(streams, schema or SimpleStringSchema(), given)._function


def sink_of(endpoint: str, stream: str, generator: Any = None, **more: Any) -> Any:
    made = KinesisStreamsSink.builder().set_stream_name(stream).set_serialization_schema(SimpleStringSchema())
    made.set_partition_key_generator(generator or PartitionKeyGenerator.fixed())
    made.set_kinesis_client_properties(properties(endpoint))
    for name, value in more.items():
        getattr(made, f"set_{name}")(value)
    return made.build()._sink


def collected(source: Any, parallelism: int = 1) -> JobGraph:
    build = GraphBuilder("job", parallelism, 16)
    build.collect(build.source(source, uid="kinesis"))
    return build.graph()


def drained(source: Any, split: Split, count: int) -> list[Any]:
    """The next elements of a shard; the reader's place is of no matter."""
    reader, position, found = source.reader(split), split.start, []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        values, position, _, _, _ = reader.read(position, 3)
        found += values
        time.sleep(0 if values else 0.005)
    reader.close()
    return found


class TestReading:
    def test_conformance(self, kinesis: KinesisServer) -> None:
        """Shards that were split have an end, so that a reader can be tried in every way."""
        stream = kinesis.create_stream(2)
        kinesis.put(stream, [b"%d" % number for number in range(25)])
        for shard in [each["ShardId"] for each in kinesis.shards(stream)]:
            kinesis.split(stream, shard)
        source = source_of(kinesis.endpoint, stream, flink_shard_getrecords_maxrecordcount=7)
        assert len(source.splits(2)) == 2, "children wait for their parents"
        assert sorted(check_source(source)) == sorted(str(number) for number in range(25))

    def test_whole_records(self, kinesis: KinesisServer) -> None:
        stream = kinesis.create_stream()
        kinesis.put(stream, [b"\0\xff"], key="ключ")
        source = source_of(kinesis.endpoint, stream, Whole())
        (split,) = source.splits(1)
        (record,) = drained(source, split, 1)
        assert (record.stream, record.shard, record.partition_key, record.data) == (
            stream, "shardId-000000000000", "ключ", b"\0\xff",
        )  # fmt: skip
        assert abs(record.timestamp - time.time() * 1000) < 60_000

    def test_where_it_begins(self, kinesis: KinesisServer) -> None:
        stream = kinesis.create_stream()
        kinesis.put(stream, [b"early"])
        time.sleep(1.1)  # LATEST is of a second's grain
        latest = source_of(kinesis.endpoint, stream, flink_stream_initpos="LATEST")
        (split,) = latest.splits(1)
        time.sleep(1.1)
        cut = str(int(time.time()))
        kinesis.put(stream, [b"late", b"later"])
        assert drained(latest, split, 2) == ["late", "later"], "it is decided once, when the job starts"
        at = source_of(
            kinesis.endpoint, stream, flink_stream_initpos="AT_TIMESTAMP", flink_stream_initpos_timestamp=cut
        )
        assert drained(at, at.splits(1)[0], 2) == ["late", "later"]
        oldest = source_of(kinesis.endpoint, stream)
        assert drained(oldest, oldest.splits(1)[0], 3) == ["early", "late", "later"]

    @pytest.mark.parametrize("fault", [Fault.DRIVER, Fault.PARTS])
    def test_exactly_once_through_crashes(self, kinesis: KinesisServer, tmp_path: Path, fault: Fault) -> None:
        stream = kinesis.create_stream(3)
        elements = [f"{number}" for number in range(60)]
        kinesis.put(stream, [text.encode() for text in elements])
        script = Script((4,), (True, False), (Failure(2, fault), Failure(4, Fault.WORKER)))
        job = StoppedJob(tmp_path, 60, script)
        job.run(collected(source_of(kinesis.endpoint, stream), parallelism=2))
        assert sorted(job.output, key=int) == elements

    def test_children_come_after_their_parents(self, kinesis: KinesisServer, tmp_path: Path) -> None:
        stream = kinesis.create_stream(1)
        expected = [f"k {number}" for number in range(40)]
        kinesis.put(stream, [text.encode() for text in expected[:10]], key="k")
        kinesis.split(stream, "shardId-000000000000")
        kinesis.put(stream, [text.encode() for text in expected[10:20]], key="k")

        def merge() -> None:
            kinesis.merge(stream, "shardId-000000000001", "shardId-000000000002")
            kinesis.put(stream, [text.encode() for text in expected[20:30]], key="k")

        def split() -> None:
            kinesis.split(stream, "shardId-000000000003")
            kinesis.put(stream, [text.encode() for text in expected[30:]], key="k")

        script = Script((3,), (True, False), (Failure(5, Fault.PARTS), Failure(9, Fault.WORKER)))
        job = StoppedJob(tmp_path, 40, script)
        job.steps = [(15, merge), (25, split)]
        job.run(collected(source_of(kinesis.endpoint, stream), parallelism=2))
        assert job.output == expected, "the order of a key lasts over splits and merges"
        last = job.commits[-1].sources["kinesis"]
        assert len(last) >= 5

    def test_a_stream_that_was_split_before(self, kinesis: KinesisServer) -> None:
        """LATEST has nothing to do with shards that have ended."""
        stream = kinesis.create_stream(1)
        kinesis.split(stream, "shardId-000000000000")
        source = source_of(kinesis.endpoint, stream, flink_stream_initpos="LATEST")
        splits = source.splits(1)
        assert [split.id for split in splits] == [
            f"{stream}/shardId-00000000000{number}" for number in (1, 2)
        ]
        known = {split.id: (split.start, False) for split in splits}
        assert source.discover(known) == []
        kinesis.split(stream, "shardId-000000000001")
        assert source.discover(known) == [], "the parent has not ended"
        known[splits[0].id] = (splits[0].start, True)
        assert [split.id[-1] for split in source.discover(known)] == ["3", "4"]
        source.job_ended()


class TestFaults:
    def test_throttling_and_failures_of_the_service(self, kinesis: KinesisServer, tmp_path: Path) -> None:
        stream = kinesis.create_stream()
        kinesis.put(stream, [b"%d" % number for number in range(20)])
        with FaultyKinesis(kinesis.port) as way:
            way.fail("GetShardIterator", "LimitExceededException", 1)
            way.fail("GetRecords", "ProvisionedThroughputExceededException", 2)
            source = source_of(way.endpoint, stream)
            assert drained(source, source.splits(1)[0], 20) == [str(number) for number in range(20)]
            way.fail("GetRecords", "InternalFailure", 1, status=500)
            way.fail("GetRecords", "ExpiredIteratorException", 2)
            before = way.asked["GetShardIterator"]
            assert drained(source, source.splits(1)[0], 20) == [str(number) for number in range(20)]
            assert way.asked["GetShardIterator"] == before + 3, "an expired iterator is replaced"
            way.fail("GetRecords", "ProvisionedThroughputExceededException", 9)
            graph = collected(source_of(way.endpoint, stream))
            with pytest.raises(
                JobExecutionError, match=r"shard 'shardId-0+' .* failed 4 times: .*Throughput.*maxretries"
            ):
                TestJob(tmp_path, Script((9,)), restart=NO_RESTART).run(graph)

    def test_looking_for_shards_can_wait(
        self, kinesis: KinesisServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        stream = kinesis.create_stream()
        with FaultyKinesis(kinesis.port) as way:
            source = source_of(way.endpoint, stream)
            way.fail("ListShards", "LimitExceededException")
            assert source.discover({}) == []
            assert "looking for new shards failed" in caplog.text
            source.job_ended()

    def test_a_connection_that_is_cut(self, kinesis: KinesisServer, tmp_path: Path) -> None:
        stream = kinesis.create_stream()
        kinesis.put(stream, [b"%d" % number for number in range(30)])
        with CutConnections(kinesis.port) as way:
            endpoint = f"http://127.0.0.1:{way.port}"
            job = StoppedJob(tmp_path, 30, Script((4,)))
            job.steps = [(count, way.lose_an_answer) for count in (4, 12, 20)]
            job.run(collected(source_of(endpoint, stream, flink_shard_getrecords_maxrecordcount=5)))
            assert way.cuts == 3
        assert job.output == [str(number) for number in range(30)]

    def test_the_server_dies(self, kinesis: KinesisServer, tmp_path: Path) -> None:
        stream = kinesis.create_stream()
        kinesis.put(stream, [b"%d" % number for number in range(5)])

        def die() -> None:
            kinesis.kill()
            kinesis.start()
            kinesis.put(stream, [b"%d" % number for number in range(5, 10)])

        job = StoppedJob(tmp_path, 10, Script((50,)))
        job.steps = [(5, die)]
        job.run(collected(source_of(kinesis.endpoint, stream)))
        assert job.output == [str(number) for number in range(10)]

    def test_records_that_were_deleted_unread(
        self, kinesis: KinesisServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Kinesis itself goes on with the oldest record that is left, without a word."""
        stream = kinesis.create_stream()
        kinesis.put(stream, [b"a", b"b"])
        source = source_of(kinesis.endpoint, stream)
        (split,) = source.splits(1)
        reader = source.reader(split)
        _, (kind, number, _), _, _, _ = reader.read(split.start, 1)
        reader.close()
        old = Split(split.id, [kind, number, int(time.time() * 1000) - 25 * HOUR_MS])
        with pytest.raises(
            ConnectorError, match=r"up to 25 hours ago, and the stream keeps its records for 24 hours"
        ):
            drained(source, old, 1)
        careless = source_of(kinesis.endpoint, stream, **{"changelog.on-data-loss": "ignore"})
        assert drained(careless, old, 1) == ["b"]
        assert "may have been deleted" in caplog.text
        kinesis.split(stream, "shardId-000000000000")
        gone = {f"{stream}/shardId-000000000007": (["oldest", None, 1], True)}
        children = source.discover({**gone, split.id: (split.start, True)})
        assert [child.id[-1] for child in children] == ["1", "2"]
        source.job_ended()

    def test_a_stream_that_was_made_anew(self, kinesis: KinesisServer, tmp_path: Path) -> None:
        """Its shards have the names of those that were read: they would be left out as read."""
        stream = kinesis.create_stream()
        kinesis.put(stream, [b"0", b"1"])
        kinesis.split(stream, "shardId-000000000000")
        kinesis.put(stream, [b"2"])
        graph = collected(source_of(kinesis.endpoint, stream))
        job = StoppedJob(tmp_path, 3, restart=NO_RESTART)
        job.run(graph)
        kinesis.make_anew(stream)
        kinesis.put(stream, [b"3", b"4"])
        job.count = 5
        with pytest.raises(
            JobExecutionError, match=r"is not the one that the job has read: .*another uid\(\)"
        ):
            job.run_driver(graph)
        assert sorted(job.output) == ["0", "1", "2"]

    def test_a_quiet_shard_is_no_loss(self, kinesis: KinesisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = kinesis.create_stream()
        kinesis.put(stream, [b"a"])
        source = source_of(kinesis.endpoint, stream)
        (split,) = source.splits(1)
        reader_of = partial(ShardReader, now_ms=lambda: later_ms)
        monkeypatch.setattr("changelog_engine.connectors.kinesis.source.ShardReader", reader_of)
        later_ms = int(time.time() * 1000)
        reader = source.reader(split)
        position = split.start
        for _ in range(20):
            _, position, _, _, _ = reader.read(position, 5)
        later_ms += 20 * HOUR_MS
        for _ in range(3):
            _, position, _, _, _ = reader.read(position, 5)
        reader.close()
        assert position[2] == later_ms
        later_ms += 20 * HOUR_MS
        reader = source.reader(split)
        assert list(reader.read(position, 5).values) == []
        reader.close()

    def test_records_that_cannot_be_read(self, kinesis: KinesisServer) -> None:
        stream, aggregated = kinesis.create_stream(), kinesis.create_stream()
        kinesis.put(stream, [b"1", b"skip", b"{" + b"x" * 200])
        source = source_of(kinesis.endpoint, stream, Picky())
        (split,) = source.splits(1)
        with pytest.raises(
            ConnectorError, match=r"the record \d+ of shard '.*' of stream '.*JSONDecodeError.*\(201 bytes\)"
        ):
            drained(source, split, 1)
        body = b"\x0a\x01k\x1a\x05\x08\0\x1a\x01x"
        kinesis.put(aggregated, [b"\xf3\x89\x9a\xc2" + body + hashlib.md5(body).digest()])
        source = source_of(kinesis.endpoint, aggregated)
        with pytest.raises(ConnectorError, match="Kinesis Producer Library"):
            drained(source, source.splits(1)[0], 1)

    def test_before_the_start(self, kinesis: KinesisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        nowhere = f"http://127.0.0.1:{free_port()}"
        for made in (source_of(nowhere, "s"), sink_of(nowhere, "s")):
            with pytest.raises(ConnectorError, match=rf"{nowhere}\).*does not answer.*'aws.endpoint'"):
                made.check_before_start()
        for made in (source_of(kinesis.endpoint, ["nowhere"]), sink_of(kinesis.endpoint, "nowhere")):
            with pytest.raises(ConnectorError, match="there is no stream 'nowhere' there: create it"):
                made.check_before_start()
        stream = kinesis.create_stream()
        with FaultyKinesis(kinesis.port) as way:
            way.fail("DescribeStreamSummary", "UnrecognizedClientException", 2)
            for made in (source_of(way.endpoint, stream), sink_of(way.endpoint, stream)):
                with pytest.raises(
                    ConnectorError, match=r"UnrecognizedClientException.*Give credentials"
                ) as caught:
                    made.check_before_start()
                assert "s3cr3t" not in f"{caught.value!r} {made.properties!r}"
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
        given = {"aws.region": "us-east-1", "aws.endpoint": kinesis.endpoint}
        made = FlinkKinesisConsumer(stream, SimpleStringSchema(), given)._function
        with pytest.raises(ConnectorError, match=r"Unable to locate credentials.*Give credentials"):
            made.check_before_start()


class TestWriting:
    def test_records_arrive_at_the_barrier(self, kinesis: KinesisServer) -> None:
        stream = kinesis.create_stream(2)
        writer = sink_of(kinesis.endpoint, stream, FirstWord()).committing_writer(CONTEXT)
        writer.write(["a 1", "b 2", "a ü"])
        writer.end_epoch()
        assert kinesis.records(stream) == []
        assert writer.prepare(False) == Prepared()
        assert sorted(kinesis.records(stream)) == [("a", b"a 1"), ("a", "a ü".encode()), ("b", b"b 2")]
        writer.close()
        third = sink_of(kinesis.endpoint, stream).committing_writer(CONTEXT._replace(subtask=2))
        third.write(["x", "y"])
        third.prepare(True)
        third.close()
        assert [pair for pair in kinesis.records(stream) if pair[0] == "2"] == [("2", b"x"), ("2", b"y")]

    def test_requests_are_as_large_as_asked_for(self, kinesis: KinesisServer) -> None:
        stream = kinesis.create_stream()
        with FaultyKinesis(kinesis.port) as way:
            small = sink_of(way.endpoint, stream, max_batch_size=4).committing_writer(CONTEXT)
            small.write([str(number) for number in range(10)])
            assert way.asked["PutRecords"] == 2
            small.prepare(True)
            small.close()
            now_s = 0.0
            given = {"max_batch_size_in_bytes": 3_000_000, "max_time_in_buffer_ms": 20}
            large = KinesisWriter(sink_of(way.endpoint, stream, **given), 0, lambda: now_s)
            large.write(["x" * 1_000_000] * 4)
            assert way.asked["PutRecords"] == 4
            now_s = 0.02
            large.end_epoch()
            assert way.asked["PutRecords"] == 5
            large.close()
        assert len(kinesis.records(stream)) == 14

    def test_only_what_failed_is_sent_again_and_keys_keep_their_order(self, kinesis: KinesisServer) -> None:
        stream = kinesis.create_stream()
        with FaultyKinesis(kinesis.port) as way:
            writer = sink_of(way.endpoint, stream, FirstWord()).committing_writer(CONTEXT)
            way.take_only(lambda record: record["PartitionKey"] != "b")
            way.fail("PutRecords", "ProvisionedThroughputExceededException", 2)
            writer.write(["a 1", "b 1", "c 1", "b 2"])
            writer.prepare(False)
            found = kinesis.records(stream)
            assert [value for key, value in found if key == "b"] == [b"b 1", b"b 2"]
            assert sorted(value for key, value in found if key != "b") == [b"a 1", b"c 1"], "those were taken"
            seen: list[int] = []
            way.take_only(lambda record: bool(seen.append(1)) or len(seen) != 1)
            writer.write(["d 1", "d 2"])
            writer.prepare(False)
            writer.close()
        values = [value for key, value in kinesis.records(stream) if key == "d"]
        assert values == [b"d 2", b"d 1", b"d 2"], "an older record never comes last"

    def test_what_fails_the_job(self, kinesis: KinesisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("changelog_engine.connectors.kinesis.sink._MOST_TRIES", 3)
        stream = kinesis.create_stream()
        with FaultyKinesis(kinesis.port) as way:
            writer = sink_of(way.endpoint, stream).committing_writer(CONTEXT)
            way.take_only(lambda record: False, 3)
            writer.write(["a"])
            with pytest.raises(
                ConnectorError, match=r"took none of 1 records in 3 tries: Provisioned.*Rate exceeded"
            ):
                writer.prepare(False)
            writer.close()
            strict = sink_of(way.endpoint, stream, fail_on_error=True).committing_writer(CONTEXT)
            way.take_only(lambda record: False)
            strict.write(["a"])
            with pytest.raises(ConnectorError, match="did not take 1 of 1 records"):
                strict.prepare(False)
            strict.close()
            lying = sink_of(way.endpoint, stream).committing_writer(CONTEXT)
            way.answer("PutRecords", {"FailedRecordCount": 0, "Records": []})
            lying.write(["a"])
            with pytest.raises(ConnectorError, match="answered with 0 results"):
                lying.prepare(False)
            lying.close()
        assert kinesis.records(stream) == []

    def test_what_is_not_a_record(self, kinesis: KinesisServer) -> None:
        stream = kinesis.create_stream()
        writer = sink_of(kinesis.endpoint, stream, FirstWord()).committing_writer(CONTEXT)
        with pytest.raises(ConnectorError, match=r"partition key 'k' is too large: 2000003 bytes .* 1048576"):
            writer.write(["k " + "x" * 2_000_000])
        with pytest.raises(TypeMismatchError, match=r"partition key .* 1 to 256"):
            writer.write(["k" * 257])
        with pytest.raises(TypeMismatchError, match="writes text"):
            writer.write([7])
        writer.close()

    def test_at_least_once_loses_nothing(self, kinesis: KinesisServer, tmp_path: Path) -> None:
        stream = kinesis.create_stream(2)
        elements = [f"{number % 7} {number}" for number in range(60)]
        failures = (Failure(2, Fault.WORKER), Failure(3, Fault.PARTS), Failure(5, Fault.COMMITTED))
        job = TestJob(tmp_path, Script((9,), (True, False), failures))
        job.run(sink_job(sink_of(kinesis.endpoint, stream, FirstWord(), max_batch_size=4), elements))
        found = [value.decode() for _, value in kinesis.records(stream)]
        assert set(found) == set(elements)
        assert len(found) > len(elements), "the failures repeated nothing"

    def test_the_server_dies_and_connections_are_cut(self, kinesis: KinesisServer) -> None:
        stream = kinesis.create_stream()
        with CutConnections(kinesis.port) as way:
            writer = sink_of(f"http://127.0.0.1:{way.port}", stream).committing_writer(CONTEXT)
            way.lose_an_answer()
            writer.write(["a"])
            writer.prepare(False)
            kinesis.kill()
            again = threading.Timer(0.3, kinesis.start)
            again.start()
            writer.write(["b"])
            writer.prepare(False)
            again.join()
            writer.close()
        assert [value for _, value in kinesis.records(stream)] == [b"a", b"a", b"b"]
