"""The servers do what tests rely on: they are the real ones, keep their data over kill -9, and end with us."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException

from servers.kafka import KafkaServer
from servers.postgres import PostgresServer

pytestmark = pytest.mark.slow


def test_kafka_transactions(kafka: KafkaServer) -> None:
    topic = kafka.create_topic(partitions=2)
    old, new = (kafka.producer(transactional_id=f"writer of {topic}") for _ in range(2))
    old.init_transactions(60)
    for value, finish in (("committed", old.commit_transaction), ("aborted", old.abort_transaction)):
        old.begin_transaction()
        old.produce(topic, value, partition=0)
        old.flush(60)
        finish(60)
    old.begin_transaction()
    old.produce(topic, "open", partition=0)
    old.flush(60)

    new.init_transactions(60)  # fences the old one and aborts what it left open
    with pytest.raises(KafkaException) as fenced:
        old.commit_transaction(60)
    assert fenced.value.args[0].fatal()
    new.begin_transaction()
    new.produce(topic, "new", partition=1, timestamp=7)
    new.commit_transaction(60)

    assert [record.value for record in kafka.consume_uncommitted(topic)] == [
        b"committed",
        b"aborted",
        b"open",
        b"new",
    ]
    committed = kafka.consume_committed(topic)
    assert [(record.partition, record.value) for record in committed] == [(0, b"committed"), (1, b"new")]
    assert committed[1].timestamp_ms == 7

    kafka.kill()
    kafka.start()
    assert kafka.consume_committed(topic) == committed
    assert kafka.produce(topic, ["later"], partition=1) is None
    assert [record.value for record in kafka.consume_committed(topic)] == [b"committed", b"new", b"later"]
