"""A Kafka broker, which is its own controller (KRaft), and what tests do with its topics."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from servers.process import (
    CACHE,
    HOST,
    Server,
    ServerFailed,
    ServerMissing,
    accepts_connections,
    classes_options,
    free_port,
    java,
    wait_for,
)

VERSION = "4.1.1"
LIBRARIES = CACHE / f"kafka-{VERSION}"
_SOON = "-XX:TieredStopAtLevel=1"
_CLUSTER_ID = "Y2hhbmdlbG9nLWVuZ2luZQ"
_TIMEOUT_S = 60.0
_QUIET = {"log_level": 0}  # a killed broker is no news to those who killed it

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
log.dirs={folder}/data

offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
auto.create.topics.enable=false

# A broker that was killed is let in again at once.
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=1000
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
# A broker that nobody asks does little.
metadata.max.idle.interval.ms=60000

# Records keep whatever timestamps tests give them.
log.retention.ms=-1
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807

# Small.
log.cleaner.dedupe.buffer.size=4194304
log.index.size.max.bytes=1048576
num.network.threads=2
num.io.threads=4
"""


@dataclass(frozen=True)
class Record:
    """A record of a topic, as it is stored."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaServer(Server):
    """A broker.

    Args:
        thorough: Let the JVM compile as well as it can, for benchmarks. Default: so that it starts soon.
        jvm_options: More options of the broker's JVM.

    Attributes:
        bootstrap_servers: For clients' ``bootstrap.servers``.
    """

    name = "kafka"

    def __init__(self, *, thorough: bool = False, jvm_options: Sequence[str] = ()) -> None:
        super().__init__()
        self._jvm_options = [*([] if thorough else [_SOON]), *jvm_options]
        self._controller_port = free_port()
        self.bootstrap_servers = f"{HOST}:{self.port}"

    @classmethod
    def check_installed(cls) -> None:
        java()
        if not LIBRARIES.is_dir():
            raise ServerMissing(f"Kafka {VERSION} is not here ({LIBRARIES.name}): make servers")

    def prepare(self) -> None:
        self._configuration.write_text(
            _PROPERTIES.format(
                host=HOST, port=self.port, controller_port=self._controller_port, folder=self.folder
            )
        )
        format_arguments = ["format", "--cluster-id", _CLUSTER_ID, "--config", str(self._configuration)]
        self.run_tool([*_java_command(_SOON), "kafka.tools.StorageTool", *format_arguments])

    def command(self) -> list[str]:
        return [*_java_command("-Xmx256m", *self._jvm_options), "kafka.Kafka", str(self._configuration)]

    def is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        try:
            return bool(self.admin().list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    @property
    def _configuration(self) -> Path:
        return self.folder / "server.properties"

    def admin(self) -> AdminClient:
        """A client for topics, groups and offsets."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, **_QUIET})

    def producer(self, **options: Any) -> Producer:
        """A producer; options have underscores for dots."""
        return Producer({"bootstrap.servers": self.bootstrap_servers, **_QUIET, **_dotted(options)})

    def consumer(self, **options: Any) -> Consumer:
        """A read_committed consumer that does not commit; options have underscores for dots."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": f"test-{uuid.uuid4()}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        return Consumer({**settings, **_QUIET, **_dotted(options)})

    def create_topic(self, name: str | None = None, partitions: int = 1, **settings: str) -> str:
        """Make a topic, and wait until it can be written.

        Args:
            name: Its name. Default: one that no other topic has.
            partitions: How many.
            settings: Of the topic, with underscores for dots.

        Returns:
            The name.
        """
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        admin = self.admin()
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=_dotted(settings))
        admin.create_topics([topic])[name].result(_TIMEOUT_S)
        wait_for(lambda: _led_partitions(admin, name) == partitions, f"leaders of {name}", _TIMEOUT_S)
        return name

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Let a topic have so many partitions, and wait until they can be written."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_TIMEOUT_S)
        wait_for(lambda: _led_partitions(admin, topic) == partitions, f"leaders of {topic}", _TIMEOUT_S)

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Write records in their order, and wait until the broker has them all.

        Args:
            topic: Where.
            values: One record each.
            key: Of all.
            partition: Of all. Default: by key, without a key any.
            timestamp: Of all, in ms. Default: now.

        Raises:
            KafkaException: The broker did not take one of them.
        """
        producer = self.producer(enable_idempotence=True, linger_ms=5)
        failures: list[KafkaError] = []
        optional = {
            name: value
            for name, value in (("partition", partition), ("timestamp", timestamp))
            if value is not None
        }
        for value in values:
            while True:
                try:
                    producer.produce(
                        topic, value, key, on_delivery=lambda error, _: failures.append(error), **optional
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(_TIMEOUT_S)
        errors = [error for error in failures if error is not None]
        if left or errors:
            raise KafkaException(errors[0] if errors else KafkaError(KafkaError._TIMED_OUT))

    def consume_committed(self, topic: str) -> list[Record]:
        """All records of a topic that a read_committed consumer sees now, by partition and offset."""
        return self._consume(topic, "read_committed")

    def consume_uncommitted(self, topic: str) -> list[Record]:
        """All records of a topic, of open and aborted transactions too, by partition and offset."""
        return self._consume(topic, "read_uncommitted")

    def end_offsets(self, topic: str, *, committed: bool = False) -> dict[int, int]:
        """By partition, the offset after the last record; committed: where the first open transaction begins."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        admin = self.admin()
        partitions = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        request = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            answers = admin.list_offsets(request, isolation_level=level, request_timeout=_TIMEOUT_S)
            try:
                return {
                    asked.partition: answer.result(_TIMEOUT_S).offset
                    for asked, answer in sorted(answers.items())
                }
            except KafkaException:  # a broker that was killed just now takes a moment to know its partitions
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """By partition, what a consumer group has committed; partitions without are left out."""
        partitions = [TopicPartition(topic, partition) for partition in self.end_offsets(topic)]
        consumer = self.consumer(group_id=group)
        try:
            committed = consumer.committed(partitions, timeout=_TIMEOUT_S)
        finally:
            consumer.close()
        return {entry.partition: entry.offset for entry in committed if entry.offset >= 0}

    def each_committed(self, topic: str) -> Iterator[Message]:
        """The same one by one as they come, of any partition, for topics that are large."""
        return self._messages(topic, "read_committed")

    def _consume(self, topic: str, isolation_level: str) -> list[Record]:
        records = [_record(message) for message in self._messages(topic, isolation_level)]
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def _messages(self, topic: str, isolation_level: str) -> Iterator[Message]:
        partitions = self.end_offsets(topic)
        consumer = self.consumer(
            isolation_level=isolation_level, enable_partition_eof=True, fetch_wait_max_ms=50
        )
        unfinished = set(partitions)
        try:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            deadline = time.monotonic() + _TIMEOUT_S
            while unfinished:
                messages = consumer.consume(10_000, timeout=0.05)
                if messages:
                    deadline = time.monotonic() + _TIMEOUT_S
                elif time.monotonic() > deadline:
                    raise ServerFailed(f"no records of {topic} and no end within {_TIMEOUT_S:g} s")
                for message in messages:
                    error = message.error()
                    if error is None:
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unfinished.discard(message.partition())
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()


def _record(message: Message) -> Record:
    return Record(
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


def _led_partitions(admin: AdminClient, topic: str) -> int:
    """How many partitions have a leader."""
    partitions = admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
    return sum(partition.leader >= 0 for partition in partitions.values())


def _dotted(options: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in options.items()}


def _java_command(*options: str) -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java(), "-XX:+UseSerialGC", *classes_options(LIBRARIES), *options, quiet, "-cp", f"{LIBRARIES}/*"]
