"""Kafka sinks without transactions: what records look like, where they go, and what happens when they can't be delivered."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from servers.kafka import KafkaServer
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.script import Failure, Fault, Script

from api.common.serialization import SimpleStringSchema
from api.datastream.connectors import DeliveryGuarantee
from api.datastream.connectors.kafka import (
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    Semantic,
)
from changelog_engine.connectors import SinkContext
from changelog_engine.connectors.kafka import producing
from changelog_engine.errors import ConnectorError, JobExecutionError
from changelog_engine.graph.nodes import JobGraph, NodeKind

pytestmark = pytest.mark.slow

AT_LEAST_ONCE = DeliveryGuarantee.AT_LEAST_ONCE


class First(SimpleStringSchema):
    """The first letter."""

    def serialize(self, element: str) -> bytes:
        return super().serialize(element[:1])


def sink_into(
    kafka: KafkaServer, topic: Any, guarantee: DeliveryGuarantee = AT_LEAST_ONCE, **more: Any
) -> Any:
    record = KafkaRecordSerializationSchema.builder()
    record = record.set_topic_selector(topic) if callable(topic) else record.set_topic(topic)
    record.set_value_serialization_schema(SimpleStringSchema())
    if more.pop("keyed", False):
        record.set_key_serialization_schema(First())
    made = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap_servers)
    for name, value in more.items():
        made.set_property(name.replace("_", "."), value)
    return made.set_record_serializer(record.build()).set_delivery_guarantee(guarantee).build()._sink


def job_into(sink: Any, elements: list[Any], parallelism: int = 1) -> JobGraph:
    build = GraphBuilder(f"job-{uuid.uuid4().hex[:8]}", parallelism, 16)
    stream = build.source(elements, uid="elements")
    build.add(NodeKind.SINK, "sink", stream, function=sink, uid="sink")
    return build.graph()


def values(kafka: KafkaServer, topic: str) -> list[str]:
    return [record.value.decode() for record in kafka.consume_committed(topic) if record.value]


def test_a_missing_topic_is_named_while_it_is_waited_for(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "_SILENT_S", 0.0)
    topic = f"missing-{uuid.uuid4().hex[:8]}"
    writer = sink_into(kafka, topic, topic_metadata_propagation_max_ms="2500").writer(0, 1)
    writer.write(["a"])
    with pytest.raises(ConnectorError, match=f"writing to topic '{topic}' failed"):
        writer.flush()
    assert f"1 records are not delivered yet; topic '{topic}' does not exist; trying again" in caplog.text


def test_keys_timestamps_and_topics(kafka: KafkaServer) -> None:
    first, second = kafka.create_topic(partitions=3), kafka.create_topic()
    writer = sink_into(kafka, lambda text: second if text == "b2" else first, keyed=True).writer(0, 1)
    writer.write_timed(["a1", "a2", "b1", "b2"], [1, 2, -5, 4], 0)
    writer.flush()
    writer.close()
    found = kafka.consume_committed(first)
    assert {record.value: record.key for record in found} == {b"a1": b"a", b"a2": b"a", b"b1": b"b"}
    times = {record.value: record.timestamp_ms for record in found}
    assert (times[b"a1"], times[b"a2"]) == (1, 2)
    assert times[b"b1"] > 1_000_000_000_000, "a timestamp before 1970 is none"
    where = {record.key: record.partition for record in found}
    # Java's murmur2 of "a" and "b", modulo 3, as kafka-python has it too.
    assert where == {b"a": 1, b"b": 2}
    assert [(record.value, record.timestamp_ms) for record in kafka.consume_committed(second)] == [(b"b2", 4)]


def test_at_least_once_loses_nothing(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic(partitions=2)
    elements = [str(number) for number in range(60)]
    failures = (Failure(2, Fault.WORKER), Failure(3, Fault.PARTS), Failure(5, Fault.COMMITTED))
    job = TestJob(tmp_path, Script((9,), (True, False), failures))
    graph = job_into(sink_into(kafka, topic), elements)
    job.run(lambda driver: graph)
    found = Counter(values(kafka, topic))
    assert set(found) == set(elements)
    assert sum(found.values()) > len(elements), "the failures repeated nothing"


def test_what_cannot_be_delivered(kafka: KafkaServer, tmp_path: Path) -> None:
    missing = sink_into(kafka, "nowhere", topic_metadata_propagation_max_ms="200")
    with pytest.raises(JobExecutionError, match=r"writing to topic 'nowhere' failed: .*[Uu]nknown"):
        TestJob(tmp_path, Script((9,)), restart=NO_RESTART).run(job_into(missing, ["a"]))
    late = sink_into(kafka, "t", bootstrap_servers="127.0.0.1:1", delivery_timeout_ms="300", linger_ms="0")
    writer = late.writer(0, 1)
    writer.write(["a"])
    with pytest.raises(
        ConnectorError, match=r"Kafka \(127.0.0.1:1\): writing to topic 't' failed: .*timed out"
    ):
        writer.flush()
    writer.close()


class TestOlderProducer:
    def producer(self, kafka: KafkaServer, topic: str, semantic: Semantic, **more: str) -> FlinkKafkaProducer:
        properties = {"bootstrap.servers": kafka.bootstrap_servers}
        properties |= {name.replace("_", "."): value for name, value in more.items()}
        return FlinkKafkaProducer(topic, SimpleStringSchema(), properties, semantic=semantic)

    def test_one_partition_a_subtask(self, kafka: KafkaServer) -> None:
        topic = kafka.create_topic(partitions=2)
        sink = (
            self.producer(kafka, topic, Semantic.AT_LEAST_ONCE).set_write_timestamp_to_kafka(True)._function
        )
        for subtask in range(3):
            writer = sink.writer(subtask, 3)
            writer.write_timed([f"{subtask}-{number}" for number in range(5)], [7] * 5, 0)
            writer.flush()
            writer.close()
        found = kafka.consume_committed(topic)
        assert {record.timestamp_ms for record in found} == {7}
        assert {(record.partition, (record.value or b"")[:1]) for record in found} == {
            (0, b"0"),
            (1, b"1"),
            (0, b"2"),
        }

    def test_failures_may_only_be_logged(self, kafka: KafkaServer, caplog: pytest.LogCaptureFixture) -> None:
        topic = kafka.create_topic(max_message_bytes="1000")
        producer = self.producer(kafka, topic, Semantic.AT_LEAST_ONCE)
        writer = producer.set_log_failures_only(True)._function.writer(0, 1)
        with caplog.at_level(logging.ERROR, "changelog_engine"):
            for text in ("small", "large" * 1_000):
                writer.write([text])
                writer.flush()
        writer.close()
        assert values(kafka, topic) == ["small"]
        assert f"a record for topic '{topic}' was not delivered" in caplog.text
        strict = self.producer(kafka, topic, Semantic.AT_LEAST_ONCE)._function.writer(0, 1)
        strict.write(["large" * 1_000])
        with pytest.raises(ConnectorError, match=r"[Ll]arge"):
            strict.flush()
        strict.close()

    def test_exactly_once_without_checkpoints_has_no_transactions(
        self, kafka: KafkaServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        topic = kafka.create_topic()
        sink = self.producer(kafka, topic, Semantic.EXACTLY_ONCE)._function
        writer = sink.committing_writer(SinkContext("job", "uid", 0, 1, "run", 1, False, ()))
        writer.write(["a"])
        writer.close()
        assert values(kafka, topic) == ["a"]
        assert kafka.end_offsets(topic) == {0: 1}, "a transaction would have left its marker"
        assert "without checkpoints it writes without transactions" in caplog.text
