"""Logging in to Kafka, for librdkafka and for kafka-python alike, by properties as Java's clients have them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from servers.fixtures import _run
from servers.kafka import KafkaServer
from servers.process import HOST, free_port

from api.common.serialization import SimpleStringSchema
from changelog_engine.connectors import SinkContext
from changelog_engine.connectors.kafka import (
    ClientProperties,
    KafkaSource,
    Kind,
    Offsets,
    RecordSchema,
    Topics,
    TransactionalKafkaSink,
)
from changelog_engine.connectors.kafka.offsets import Cluster
from changelog_engine.errors import ConnectorError

pytestmark = [
    pytest.mark.slow,
    # kafka-python leaves the sockets of refused connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed.*socket:ResourceWarning"),
]

PASSWORD = "open-sesame"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class GuardedKafkaServer(KafkaServer):
    """A broker with a second listener, which asks for a password."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded_port = free_port()

    def prepare(self) -> None:
        super().prepare()
        text = self._configuration.read_text()
        for name in ("listeners", "advertised.listeners"):
            text = text.replace(f"\n{name}=", f"\n{name}=GUARDED://{HOST}:{self.guarded_port},", 1)
        login = f'{_LOGIN} user_me="{PASSWORD}";'
        text += (
            "\nlistener.security.protocol.map=GUARDED:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
            "\nsasl.enabled.mechanisms=PLAIN"
            "\nlistener.name.guarded.sasl.enabled.mechanisms=PLAIN"
            f"\nlistener.name.guarded.plain.sasl.jaas.config={login}\n"
        )
        self._configuration.write_text(text)


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedKafkaServer]:
    yield from _run(GuardedKafkaServer)


def properties(server: GuardedKafkaServer, password: str = PASSWORD, **more: str) -> ClientProperties:
    given = {
        "bootstrap.servers": f"{HOST}:{server.guarded_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_LOGIN} username="me" password="{password}";',
    }
    return ClientProperties({**given, **more}, "Test")


def source(server: GuardedKafkaServer, topic: str, **more: Any) -> KafkaSource:
    stop = Offsets(Kind.LATEST)
    return KafkaSource(
        Topics((topic,)), SimpleStringSchema(), properties(server, **more), stop=stop, bounded=True
    )


def sink(server: GuardedKafkaServer, topic: str, **more: Any) -> TransactionalKafkaSink:
    schema = RecordSchema(topic, None, SimpleStringSchema())
    return TransactionalKafkaSink(schema, properties(server, **more), "guarded")


CONTEXT = SinkContext("job", "uid", 0, 1, "run", 1, True, ())


def test_reading_and_writing(guarded: GuardedKafkaServer) -> None:
    topic = guarded.create_topic()
    writer = sink(guarded, topic).committing_writer(CONTEXT)
    writer.write(["a", "b"])
    writer.commit(writer.prepare(True).committables)
    writer.close()
    read = source(guarded, topic)
    (split,) = read.splits(1)
    reader = read.reader(split)
    found, position, finished = [], split.start, False
    while not finished:
        values, position, finished, _, _ = reader.read(position, 10)
        found += values
    reader.close()
    assert found == ["a", "b"]


def test_a_wrong_password_is_told_and_not_shown(
    guarded: GuardedKafkaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = partial(Cluster, timeout_s=3.0)
    monkeypatch.setattr("changelog_engine.connectors.kafka.source.Cluster", cluster)
    topic = guarded.create_topic()
    with caplog.at_level("DEBUG"):
        with pytest.raises(ConnectorError, match="Authentication failed") as reading:
            source(guarded, topic, password="close-sesame").splits(1)
        with pytest.raises(ConnectorError, match="Authentication failed") as writing:
            sink(guarded, topic, password="close-sesame").committing_writer(CONTEXT)
    gc.collect()
    assert "close-sesame" not in f"{reading.value!r} {writing.value!r} {caplog.text}"
