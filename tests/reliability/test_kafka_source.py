"""The Kafka source: where it starts and ends, what it reads again after a restore, what it says when it can't read."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from servers.kafka import KafkaServer
from servers.process import wait_for
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.script import Failure, Fault, Script

from api.common import Types
from api.common.serialization import DeserializationSchema, SimpleStringSchema
from api.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from api.datastream.formats.json import JsonRowDeserializationSchema
from changelog_engine.clock import Deadline
from changelog_engine.connectors import kafka as engine
from changelog_engine.connectors.kafka import clients, topic_ids
from changelog_engine.connectors.kafka import reader as reader_module
from changelog_engine.connectors.kafka.offsets import Cluster
from changelog_engine.connectors.protocols import Split
from changelog_engine.errors import ConnectorError, JobExecutionError, RefusedForGoodError
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.graph.tags import OutputTag
from changelog_engine.testing.conformance import check_source

pytestmark = pytest.mark.slow

_PAUSE_S = 0.005  # before who found nothing looks again

LATEST = KafkaOffsetsInitializer.latest()


def builder(kafka: KafkaServer, *topics: str) -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap_servers)
    made.set_value_only_deserializer(SimpleStringSchema())
    return made.set_topics(*topics) if topics else made


def graph_of(source: Any, name: str | None = None, parallelism: int = 1) -> JobGraph:
    build = GraphBuilder(name or f"job-{uuid.uuid4().hex[:8]}", parallelism, 16)
    build.collect(build.source(source._source, uid="kafka"))
    return build.graph()


def read_by_job(base: Path, source: Any, script: Script | None = None, **more: Any) -> list[Any]:
    job = TestJob(base, script or Script((7,)), **more)
    job.run(graph_of(source))
    return job.output


def read_some(source: Any, splits: list[Any] | None = None) -> list[str]:
    """What a bounded source gives, without a job."""
    found = []
    for split in source.splits(1) if splits is None else splits:
        reader, position, finished = source.reader(split), split.start, False
        while not finished:
            values, position, finished, _, _ = reader.read(position, 100)
            found += values
        reader.close()
    return found


@pytest.fixture
def numbers(kafka: KafkaServer) -> str:
    """A topic of one partition with 0 to 9, of which n has timestamp 1000 + n."""
    topic = kafka.create_topic()
    producer = kafka.producer()
    for number in range(10):
        producer.produce(topic, str(number), timestamp=1000 + number)
    assert not producer.flush(30)
    return topic


def texts(*numbers: int) -> list[str]:
    return [str(number) for number in numbers]


class TestStart:
    def test_each_start(self, kafka: KafkaServer, numbers: str) -> None:
        partition = KafkaTopicPartition(numbers, 0)
        group = f"group-{uuid.uuid4().hex}"
        consumer = kafka.consumer(group_id=group)
        consumer.commit(offsets=[_offset(numbers, 4)], asynchronous=False)
        consumer.close()
        starts = {
            5: KafkaOffsetsInitializer.timestamp(1005),
            10: LATEST,
            0: KafkaOffsetsInitializer.earliest(),
            8: KafkaOffsetsInitializer.offsets({partition: 8}),
            4: KafkaOffsetsInitializer.committed_offsets(),
        }
        for first, start in starts.items():
            made = builder(kafka, numbers).set_group_id(group).set_starting_offsets(start).set_bounded(LATEST)
            assert read_some(made.build()._source) == texts(*range(first, 10)), start._offsets

    def test_a_group_without_offsets(self, kafka: KafkaServer, numbers: str) -> None:
        group = f"group-{uuid.uuid4().hex}"

        def splits(reset: KafkaOffsetResetStrategy) -> Any:
            made = builder(kafka, numbers).set_group_id(group)
            made.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(reset))
            return made.build()._source.splits(1)

        assert [split.start for split in splits(KafkaOffsetResetStrategy.EARLIEST)] == [0]
        assert [split.start for split in splits(KafkaOffsetResetStrategy.LATEST)] == [10]
        with pytest.raises(
            ConnectorError, match=f"'{numbers}', partition 0: group '{group}' has committed no"
        ):
            splits(KafkaOffsetResetStrategy.NONE)

    def test_flink_kafka_consumer(self, kafka: KafkaServer, numbers: str) -> None:
        properties = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"group-{uuid.uuid4().hex}"}
        consumer = FlinkKafkaConsumer(numbers, SimpleStringSchema(), properties)

        def start() -> list[int]:
            return [split.start for split in consumer._function.splits(1)]

        assert start() == [10], "no committed offset, and auto.offset.reset is latest"
        assert start() == [10]
        consumer.set_start_from_earliest()
        assert start() == [0]
        consumer.set_start_from_timestamp(1003)
        assert start() == [3]
        consumer.set_start_from_latest()
        assert start() == [10]
        assert consumer.get_produced_type() == Types.STRING()

    def test_patterns_and_partitions(self, kafka: KafkaServer) -> None:
        name = f"pattern-{uuid.uuid4().hex[:8]}"
        for suffix, partitions in (("a", 1), ("b", 2), ("b-not", 1)):
            kafka.create_topic(f"{name}-{suffix}", partitions=partitions)
        source = builder(kafka).set_topic_pattern(f"{name}-[ab]").build()._source
        assert [split.id for split in source.splits(1)] == [f"{name}-a-0", f"{name}-b-0", f"{name}-b-1"]
        chosen = {KafkaTopicPartition(f"{name}-b", 1)}
        source = builder(kafka).set_partitions(chosen).build()._source
        assert [split.id for split in source.splits(1)] == [f"{name}-b-1"]

    def test_what_is_missing_is_named(self, kafka: KafkaServer, numbers: str) -> None:
        with pytest.raises(ConnectorError, match=r"topic 'nowhere' does not exist\. Create it, or correct"):
            builder(kafka, numbers, "nowhere").build()._source.splits(1)
        absent = {KafkaTopicPartition(numbers, 3)}
        with pytest.raises(
            ConnectorError, match=f"topic '{numbers}' has no partition 3: it has 1 partition, "
        ):
            builder(kafka).set_partitions(absent).build()._source.splits(1)


def _offset(topic: str, offset: int) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, 0, offset)


def test_conformance_with_transactions(kafka: KafkaServer) -> None:
    """Committed and aborted transactions, control records at the end, read from every position."""
    topic = kafka.create_topic(partitions=2)
    producer = kafka.producer(transactional_id=topic)
    producer.init_transactions(30)
    expected = []
    for round_number, commit in enumerate((True, False, True, False)):
        producer.begin_transaction()
        values = [f"{round_number}-{number}" for number in range(12)]
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 2)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
            expected += values
        else:
            producer.abort_transaction(30)
    made = builder(kafka, topic).set_bounded(LATEST)
    check_source(made.set_property("isolation.level", "read_committed").build()._source, expected)
    source = builder(kafka, topic).set_bounded(LATEST).build()._source
    assert len(read_some(source)) == 2 * len(expected), "read_uncommitted is the default, as in Java"


@pytest.mark.parametrize("seed", [1, 2])
def test_partitions_of_one_worker_in_turns(kafka: KafkaServer, seed: int) -> None:
    """Many records of several partitions come through one consumer, with what was aborted between them."""
    chance = random.Random(seed)
    topic = kafka.create_topic(partitions=3)
    producer = kafka.producer(transactional_id=topic, linger_ms=5)
    producer.init_transactions(30)
    expected: dict[int, list[tuple[str, int]]] = {partition: [] for partition in range(3)}
    for commit in (True, False, True, True, False):
        producer.begin_transaction()
        for partition in range(3):
            first, count = chance.randrange(10**6), chance.choice([0, 1, 2_000, 4_500])
            records = [(f"é{number}", number) for number in range(first, first + count)]
            for value, time in records:
                producer.produce(topic, value, partition=partition, timestamp=time)
            expected[partition] += records if commit else []
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    made = builder(kafka, topic).set_bounded(LATEST).set_property("isolation.level", "read_committed")
    source = made.build()._source
    splits = source.splits(1)
    readers = {split.id: source.reader(split) for split in splits}
    positions = {split.id: split.start for split in splits}
    found: dict[str, list[tuple[str, int]]] = {split.id: [] for split in splits}
    left = set(positions)
    while left:
        split = chance.choice(sorted(left))
        most = chance.choice([1, 64, 1_999, 2_001, 32_768])
        if found[split] and chance.random() < 0.1:  # a rewind
            positions[split], found[split] = next(each.start for each in splits if each.id == split), []
        values, positions[split], finished, times, _ = readers[split].read(positions[split], most)
        assert len(values) <= most
        found[split] += zip(values, times, strict=True)
        if finished:
            left.discard(split)
    for reader in readers.values():
        reader.close()
    assert found == {f"{topic}-{partition}": records for partition, records in expected.items()}


def test_an_open_transaction_ends_what_is_committed(kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, ["before"])
    producer = kafka.producer(transactional_id=topic)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(30)
    made = builder(kafka, topic).set_property("isolation.level", "read_committed").set_bounded(LATEST)
    assert read_some(made.build()._source) == ["before"]
    producer.abort_transaction(30)


@pytest.mark.parametrize("fault", [Fault.WORKER, Fault.PARTS, Fault.COMMIT_LIES, Fault.HANDED_OUT])
def test_a_restore_reads_exactly_from_its_checkpoint(
    kafka: KafkaServer, tmp_path: Path, fault: Fault
) -> None:
    topic = kafka.create_topic(partitions=3)
    for partition in range(3):
        kafka.produce(topic, [f"{partition}/{number}" for number in range(20)], partition=partition)
    script = Script((9,), (True, False), (Failure(2, fault), Failure(4, Fault.WORKER)))
    job = TestJob(tmp_path / "log", script)
    graph = graph_of(builder(kafka, topic).set_bounded(LATEST).build(), parallelism=2)
    job.run(graph)
    for partition in range(3):
        found = [text for text in job.output if text.startswith(f"{partition}/")]
        assert found == [f"{partition}/{number}" for number in range(20)]


def test_an_old_checkpoint_is_read_again(kafka: KafkaServer, tmp_path: Path, numbers: str) -> None:
    """The stopping offset is the one of the job's first start, though the topic has grown."""
    source = builder(kafka, numbers).set_bounded(LATEST).build()
    graph = graph_of(source)
    job = TestJob(tmp_path / "log", Script((3,)))
    job.run(graph)
    assert job.output == texts(*range(10))
    kafka.produce(numbers, ["later"])
    first = job.commits[0]
    ((position, _),) = first.sources["kafka"].values()
    job.outputs.clear()
    job.run_driver(graph, restore=str(first.id))
    assert job.output == texts(*range(position["offset"], 10))
    assert position["stop"] == 10


class Stopped(TestJob):
    """Ends an endless job when its output is as expected."""

    def __init__(self, base: Path, expected: list[Any], then: Callable[[], None], after: int) -> None:
        super().__init__(base, Script((50,)))
        self.expected = sorted(expected)
        self.then = then
        self.after = after

    def collected(self, node: int, elements: list[Any]) -> None:
        super().collected(node, elements)
        if len(self.output) >= self.after:
            self.then()
            self.then = lambda: None
        if len(self.output) >= len(self.expected):
            self.coordinator.control.stop()


def test_new_partitions_and_topics_while_it_runs(kafka: KafkaServer, tmp_path: Path) -> None:
    name = f"grows-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(f"{name}-a")
    kafka.produce(f"{name}-a", ["a0"])

    def grow() -> None:
        kafka.add_partitions(f"{name}-a", 2)
        kafka.produce(f"{name}-a", ["a1"], partition=1)
        kafka.create_topic(f"{name}-b")
        kafka.produce(f"{name}-b", ["b0"])

    made = builder(kafka).set_topic_pattern(f"{name}-.*").set_property("partition.discovery.interval.ms", "1")
    job = Stopped(tmp_path / "log", ["a0", "a1", "b0"], grow, after=1)
    job.run(graph_of(made.set_starting_offsets(KafkaOffsetsInitializer.earliest()).build()))
    assert sorted(job.output) == ["a0", "a1", "b0"]
    assert set(job.commits[-1].sources["kafka"]) == {f"{name}-a-0", f"{name}-a-1", f"{name}-b-0"}


def test_the_broker_dies_while_it_reads(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, texts(*range(5)))

    def die() -> None:
        kafka.kill()
        kafka.start()
        kafka.produce(topic, texts(*range(5, 10)))

    job = Stopped(tmp_path / "log", texts(*range(10)), die, after=5)
    job.run(graph_of(builder(kafka, topic).build()))
    assert job.output == texts(*range(10))


def test_it_says_that_an_open_transaction_holds_records_back(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of a producer that was stopped; once, however long it lasts."""
    monkeypatch.setattr(reader_module, "_HELD_S", 1.0)
    topic = kafka.create_topic()
    kafka.produce(topic, ["before"])
    source: Any = builder(kafka, topic).set_property("isolation.level", "read_committed").build()._source
    reader = source.reader(Split(f"{topic}-0", 0))
    position: Any = 0
    found: list[str] = []

    def read_until(done: Callable[[], bool]) -> None:
        nonlocal position
        deadline = Deadline(60)
        while not done():
            assert not deadline.passed, caplog.text
            values, position = reader.read(position, 10)[:2]
            found.extend(values)
            sleep(0 if values else _PAUSE_S)

    idle_until = Deadline(2)
    read_until(lambda: idle_until.passed)
    assert not caplog.messages
    producer = kafka.producer(transactional_id=topic)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(30)
    read_until(lambda: bool(caplog.messages))
    still_until = Deadline(2)
    read_until(lambda: still_until.passed)
    (message,) = caplog.messages
    assert (
        f"topic '{topic}', partition 0: a transaction that is open holds back 1 offsets from 1 on" in message
    )
    producer.commit_transaction(30)
    read_until(lambda: found == ["before", "open"])
    reader.close()


class Stuck:
    """A consumer that does not find its partitions any more, as librdkafka's after a broker had no leader for a moment."""

    def __init__(self, consumer: Any, troubles: Any) -> None:
        self._consumer, self._troubles = consumer, troubles
        self.stuck = self.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, *arguments: Any) -> list[Any]:
        return [] if self.stuck else self._consumer.consume(*arguments)

    def get_watermark_offsets(self, *arguments: Any, **options: Any) -> Any:
        if self.stuck and not options.get("cached"):
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return self._consumer.get_watermark_offsets(*arguments, **options)

    def close(self) -> None:
        self.closed = True
        self._consumer.close()


def test_a_client_that_goes_on_not_to_find_its_partitions_is_replaced(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_LOOK_EVERY_S", 0.1)
    made: list[Any] = []

    def make_stuck(client: Any, properties: Any, settings: Any, troubles: Any) -> Any:
        made.append(clients.make(client, properties, settings, troubles))
        if len(made) == 1:
            made[0] = Stuck(made[0], troubles)
        return made[-1]

    monkeypatch.setattr(reader_module, "make", make_stuck)
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, ["a"], partition=0)
    kafka.produce(topic, ["b"], partition=1)
    source: Any = builder(kafka, topic).build()._source
    readers = [source.reader(Split(f"{topic}-{number}", 0)) for number in range(2)]
    found: list[list[str]] = [[], []]

    def read_until(wanted: list[list[str]]) -> None:
        deadline = Deadline(60)
        while found != wanted:
            assert not deadline.passed, (found, caplog.text)
            for reader, values in zip(readers, found, strict=True):
                values.extend(reader.read(len(values), 10).values)

    read_until([["a"], ["b"]])
    made[0].stuck = True
    made[0]._troubles.error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    kafka.produce(topic, ["c"], partition=0)
    kafka.produce(topic, ["d"], partition=1)
    read_until([["a", "c"], ["b", "d"]])
    (message,) = [each for each in caplog.messages if "another one takes its place" in each]
    assert f"the client goes on not to find topic '{topic}', partition" in message
    wait_for(lambda: made[0].closed, "the end of the client that was stuck", 60)
    assert len(made) == 2
    for reader in readers:
        reader.close()


def test_it_says_that_the_broker_is_silent_and_that_it_answers_again(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, ["before"])
    source: Any = builder(kafka, topic).set_property("socket.timeout.ms", "3000").build()._source
    reader = source.reader(Split(f"{topic}-0", 0))
    found: list[str] = []

    def read_until(done: Callable[[], bool]) -> None:
        deadline = Deadline(120)
        while not done():
            assert not deadline.passed, caplog.text
            values, position = reader.read(len(found), 10)[:2]
            found.extend(values)
            assert position == len(found)
            sleep(0 if values else _PAUSE_S)

    read_until(lambda: bool(found))
    with kafka.stopped():
        read_until(lambda: "trying again" in caplog.text)
    read_until(lambda: "works again" in caplog.text)
    assert f"Kafka ({kafka.bootstrap_servers}): reading topic '{topic}', partition 0 failed" in caplog.text
    kafka.produce(topic, ["after"])
    read_until(lambda: found == ["before", "after"])
    reader.close()


def test_offsets_are_committed_for_monitoring(kafka: KafkaServer, tmp_path: Path, numbers: str) -> None:
    group = f"group-{uuid.uuid4().hex}"
    read_by_job(tmp_path / "a", builder(kafka, numbers).set_group_id(group).set_bounded(LATEST).build())
    assert kafka.group_offsets(group, numbers) == {0: 10}
    other = f"group-{uuid.uuid4().hex}"
    made = builder(kafka, numbers).set_group_id(other).set_property("commit.offsets.on.checkpoint", "false")
    read_by_job(tmp_path / "b", made.set_bounded(LATEST).build())
    assert kafka.group_offsets(other, numbers) == {}


class TestLost:
    def lose(self, kafka: KafkaServer, topic: str) -> None:
        """Delete the records before offset 6."""
        admin = kafka.admin()  # its answers end with it
        (deleted,) = admin.delete_records([_offset(topic, 6)]).values()
        assert deleted.result(30).low_watermark == 6

    def test_it_is_an_error(self, kafka: KafkaServer, numbers: str) -> None:
        source = builder(kafka, numbers).set_bounded(LATEST).build()._source
        splits = source.splits(1)
        self.lose(kafka, numbers)
        where = f"topic '{numbers}', partition 0 has no offset 0: it holds offsets 6 to 9"
        with pytest.raises(ConnectorError, match=where):
            read_some(source, splits)
        source._fetcher.give_back()

    def test_unless_the_property_says_otherwise(
        self, kafka: KafkaServer, numbers: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        made = builder(kafka, numbers).set_bounded(LATEST).set_property("auto.offset.reset", "earliest")
        source = made.build()._source
        splits = source.splits(1)
        self.lose(kafka, numbers)
        assert read_some(source, splits) == texts(*range(6, 10))
        assert f"topic '{numbers}', partition 0 has no offset 0: it holds offsets 6 to 9" in caplog.text
        assert "'auto.offset.reset' is earliest: reading goes on at offset 6" in caplog.text

    def make_anew(self, kafka: KafkaServer, topic: str, first: int, last: int, partitions: int = 1) -> None:
        admin = kafka.admin()
        admin.delete_topics([topic])[topic].result(30)
        wait_for(lambda: topic not in admin.list_topics(timeout=10).topics, "the end of the topic", 30)
        kafka.create_topic(topic, partitions)
        for partition in range(partitions):
            kafka.produce(topic, texts(*range(first, last)), partition=partition)

    def read_again(self, kafka: KafkaServer, topic: str, made: KafkaSourceBuilder, base: Path) -> list[str]:
        """What a job gives from its first checkpoint on, when its topic was made anew with 20 to 39 meanwhile."""
        graph = graph_of(made.set_bounded(LATEST).build())
        job = TestJob(base / "log", Script((3,)), restart=NO_RESTART)
        job.run(graph)
        assert job.output == texts(*range(10))
        self.make_anew(kafka, topic, 20, 40)
        job.outputs.clear()
        job.run_driver(graph, restore=str(job.commits[0].id))
        return job.output

    def test_a_topic_that_was_made_anew(self, kafka: KafkaServer, numbers: str, tmp_path: Path) -> None:
        """Its offsets go on where the old one's ended: its first records would be left out."""
        what = r"up to offset \d+, and is not the same topic any more: it holds offsets 0 to 19"
        with pytest.raises(JobExecutionError, match=what):
            self.read_again(kafka, numbers, builder(kafka, numbers), tmp_path)

    def test_a_topic_made_anew_is_read_from_its_beginning_if_asked_for(
        self, kafka: KafkaServer, numbers: str, tmp_path: Path
    ) -> None:
        made = builder(kafka, numbers).set_property("auto.offset.reset", "earliest")
        assert self.read_again(kafka, numbers, made, tmp_path) == texts(*range(20, 30))

    @pytest.mark.parametrize("reset", ["none", "earliest"])
    def test_a_topic_made_anew_while_it_is_read(self, kafka: KafkaServer, reset: str) -> None:
        topic = kafka.create_topic(partitions=2)
        for partition in (0, 1):
            kafka.produce(topic, texts(*range(10)), partition=partition)
        source = builder(kafka, topic).set_property("auto.offset.reset", reset).build()._source
        splits = source.splits(1)
        readers = {split.id: source.reader(split) for split in splits}
        positions = {split.id: split.start for split in splits}

        def read() -> list[str]:
            found = []
            for split, reader in readers.items():
                values, positions[split], _, _, _ = reader.read(positions[split], 3 - len(found) % 3)
                found += values
                _ = reader.behind
            return found

        wait_for(lambda: len(read()) == 6, "records", 30)
        self.make_anew(kafka, topic, 20, 28, partitions=2)
        found: list[str] = []
        deadline = Deadline(30)
        try:
            if reset == "none":
                told = r"is not the same topic any more|has no offset|failed"
                with pytest.raises(ConnectorError, match=told):
                    wait_for(lambda: read() is None, "an error", 30)
            else:
                while len(found) < 16 and not deadline.passed:
                    found += [value for value in read() if int(value) >= 20]
                assert sorted(found) == sorted(2 * texts(*range(20, 28)))
        finally:
            for reader in readers.values():
                reader.close()

    def test_a_start_that_is_gone(self, kafka: KafkaServer, numbers: str) -> None:
        self.lose(kafka, numbers)
        given = {KafkaTopicPartition(numbers, 0): 2}
        start = KafkaOffsetsInitializer.offsets(given)
        assert builder(kafka, numbers).set_starting_offsets(start).build()._source.splits(1)[0].start == 6
        start = KafkaOffsetsInitializer.offsets(given, KafkaOffsetResetStrategy.NONE)
        with pytest.raises(ConnectorError, match=r"offset 2 is not there any more \(the oldest is 6\)"):
            builder(kafka, numbers).set_starting_offsets(start).build()._source.splits(1)


class TestMissing:
    """What somebody has to make, or a name to mend: no restart does."""

    def ends(self, base: Path, graph: JobGraph, said: str, job: TestJob | None = None) -> None:
        job = job or TestJob(base)
        with pytest.raises(JobExecutionError, match=f"(?s){said}.*seen 3 times") as failed:
            job.run_driver(graph)
        assert isinstance(failed.value.__cause__, RefusedForGoodError)

    @pytest.mark.parametrize("missing", ["topic", "partition", "start"])
    def test_from_the_start(self, kafka: KafkaServer, numbers: str, tmp_path: Path, missing: str) -> None:
        made, said = builder(kafka), f"topic '{numbers}', partition 0: group 'new' has committed no offset"
        if missing == "topic":
            made, said = (
                made.set_topics(numbers, "typo"),
                "topic 'typo' does not exist. Create it, or correct",
            )
        elif missing == "partition":
            made = made.set_partitions({KafkaTopicPartition(numbers, 1)})
            said = f"topic '{numbers}' has no partition 1: it has 1 partition"
        else:
            start = KafkaOffsetsInitializer.committed_offsets()
            made = made.set_topics(numbers).set_group_id("new").set_starting_offsets(start)
        self.ends(tmp_path, graph_of(made.build()), said)

    def test_a_pattern_that_no_topic_matches(
        self, kafka: KafkaServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The job waits for one, and said nothing."""
        assert builder(kafka).set_topic_pattern("typo-.*").build()._source.splits(1) == []
        assert "no topic matches 'typo-.*'. Create it, or correct the name" in caplog.text

    def test_a_topic_that_is_deleted(
        self, kafka: KafkaServer, numbers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While it is read, and before a run that goes on."""
        monkeypatch.setattr(topic_ids, "_MISSING_S", 0.3)
        monkeypatch.setattr(topic_ids, "_AGAIN_S", 0.1)
        monkeypatch.setattr(reader_module, "_LOOK_EVERY_S", 0.5)
        soon = ("topic.metadata.propagation.max.ms", "500")  # in which librdkafka does not believe it
        graph = graph_of(builder(kafka, numbers).set_property(*soon).build())
        job = Deletes(tmp_path, kafka, numbers)
        self.ends(tmp_path, graph, f"topic '{numbers}' does not exist", job)
        assert job.output == texts(*range(10))
        self.ends(tmp_path, graph, f"topic '{numbers}' does not exist", job)


class Deletes(TestJob):
    """The topic is deleted when all of it is in a checkpoint."""

    def __init__(self, base: Path, kafka: KafkaServer, topic: str) -> None:
        super().__init__(base, Script((10,)))
        self.admin, self.topic, self.left = kafka.admin(), topic, [topic]

    def on_commit(self, checkpoint: Any) -> None:
        ((position, _),) = [split for splits in checkpoint.sources.values() for split in splits.values()]
        offset = position["offset"] if isinstance(position, dict) else position
        if self.left and offset == 10:
            self.admin.delete_topics([self.left.pop()])[self.topic].result(30)


ITEM = Types.ROW_NAMED(["id"], [Types.LONG()])


class TestSchemas:
    def bad_topic(self, kafka: KafkaServer) -> str:
        topic = kafka.create_topic()
        kafka.produce(topic, ['{"id": 1}', '{"id": "one"}', None, '{"id": 2}'], timestamp=1234)
        return topic

    def test_an_error_names_the_record(self, kafka: KafkaServer, tmp_path: Path) -> None:
        topic = self.bad_topic(kafka)
        made = builder(kafka, topic).set_bounded(LATEST)
        made.set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(ITEM).build())
        with pytest.raises(JobExecutionError) as failed:
            read_by_job(tmp_path, made.build(), restart=NO_RESTART)
        message = str(failed.value)
        assert f"topic '{topic}', partition 0, offset 1" in message
        assert "field 'id': invalid literal" in message
        assert """b'{"id": "one"}'""" in message

    def test_parse_errors_can_be_ignored(self, kafka: KafkaServer, tmp_path: Path) -> None:
        schema = JsonRowDeserializationSchema.builder().type_info(ITEM).ignore_parse_errors().build()
        made = builder(kafka, self.bad_topic(kafka)).set_bounded(LATEST)
        found = read_by_job(tmp_path, made.set_value_only_deserializer(schema).build())
        assert [row.id for row in found] == [1, None, 2]

    def test_bad_records_go_aside(self, kafka: KafkaServer, tmp_path: Path) -> None:
        topic = self.bad_topic(kafka)
        schema = JsonRowDeserializationSchema.builder().type_info(ITEM).build()
        made = builder(kafka, topic).set_bounded(LATEST).set_value_only_deserializer(schema)
        source = made.set_bad_records_tag(OutputTag("bad")).build()
        build = GraphBuilder("aside")
        stream = build.source(source._source, uid="kafka")
        good = build.collect(stream)
        bad = build.collect(build.add(NodeKind.SIDE_OUTPUT, "bad", stream, function="bad"))
        job = TestJob(tmp_path, Script((10,)))
        job.run(build.graph())
        assert [row.id for row in job.outputs[good]] == [1, 2]
        first, second = job.outputs[bad]
        assert (first.topic, first.partition, first.offset, first.timestamp) == (topic, 0, 1, 1234)
        assert (first.key, first.value) == (None, b'{"id": "one"}')
        assert first.error.startswith("ValueError: field 'id'")
        assert (second.offset, second.value) == (2, None)

    def test_whole_records(self, kafka: KafkaServer) -> None:
        topic = kafka.create_topic()
        kafka.produce(topic, ["value"], key="key", timestamp=77)
        made = builder(kafka, topic).set_bounded(LATEST).set_deserializer(Whole())
        assert read_some(made.build()._source) == [KafkaRecord(topic, 0, 0, 77, b"key", b"value", ())]

    def test_an_element_may_end_the_stream(self, kafka: KafkaServer, tmp_path: Path) -> None:
        topic = kafka.create_topic()
        kafka.produce(topic, ["a", "b", "end", "c"])
        made = builder(kafka, topic).set_property("partition.discovery.interval.ms", "-1")
        assert read_by_job(tmp_path, made.set_value_only_deserializer(Ends()).build()) == ["a", "b"]


class Whole(KafkaRecordDeserializationSchema):
    def deserialize_record(self, record: KafkaRecord) -> Any:
        return record


class Ends(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return message.decode()

    def is_end_of_stream(self, next_element: Any) -> bool:
        return next_element == "end"


def test_event_time_is_the_records_and_each_partition_is_watched(kafka: KafkaServer, numbers: str) -> None:
    source = builder(kafka, numbers).set_bounded(LATEST).build()._source
    assert source.timed
    assert source.watermarks_by_split
    (split,) = source.splits(1)
    reader = source.reader(split)
    times: list[int] = []
    position, finished = split.start, False
    while not finished:
        _, position, finished, found, _ = reader.read(position, 4)
        times += found
    reader.close()
    assert times == [1000 + number for number in range(10)]


def test_a_busy_partition_does_not_fill_the_memory(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes for a partition that nobody asks for stops at a bound, and nothing of it is lost."""
    monkeypatch.setattr("changelog_engine.connectors.kafka.reader._STORED", 100)
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, texts(*range(2_000)), partition=0)
    source = builder(kafka, topic).build()._source
    first, second = source.splits(1)
    busy, idle = source.reader(first), source.reader(second)
    values, position, _, _, _ = busy.read(first.start, 1)
    at = second.start
    for _ in range(50):
        _, at, _, _, _ = idle.read(at, 50)
        held = busy._fetcher._partitions[topic, 0].held
        assert held <= 200
    while len(values) < 2_000:
        found, position, _, _, _ = busy.read(position, 300)
        values = [*values, *found]
    busy.close()
    idle.close()
    assert values == texts(*range(2_000))


def test_no_cluster_and_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changelog_engine.connectors.kafka.offsets.REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(engine.source, "Cluster", partial(Cluster, timeout_s=0.5))
    made = KafkaSource.builder().set_bootstrap_servers("127.0.0.1:1").set_topics("t")
    made.set_value_only_deserializer(SimpleStringSchema())
    made.set_property("security.protocol", "SASL_PLAINTEXT").set_property("sasl.mechanism", "PLAIN")
    made.set_property("sasl.username", "me").set_property("sasl.password", "hush-hush")
    source = made.build()
    with pytest.raises(ConnectorError, match=r"Kafka \(127.0.0.1:1\): listing topics failed") as failed:
        source._source.splits(1)
    assert "hush-hush" not in f"{failed.value!r} {source._source.properties!r} {vars(source._source)!r}"
