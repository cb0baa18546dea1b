"""Kafka sinks: at least once, or not even that."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from changelog_engine.connectors.kafka.clients import check_known_to_producer
from changelog_engine.connectors.kafka.producing import RecordProducer, RecordSchema
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.protocols import Sink, SinkWriter
from changelog_engine.errors import ConnectorError, NotSupportedError

log = logging.getLogger("changelog_engine")

_LAST_FLUSH_S = 10.0


@dataclass(eq=False, repr=False)
class KafkaSink(Sink):
    """Writes to topics of Kafka. After a failure some records are written again.

    Args:
        waits: whether an epoch ends only when the brokers have its records; without, a failure may lose some.
        only_log: write failed deliveries to the log instead of failing.
        one_partition: each subtask writes to one partition, as Flink's older producer does.
    """

    schema: RecordSchema
    properties: ClientProperties
    waits: bool = True
    only_log: bool = False
    timed: bool = True
    one_partition: bool = False

    def __post_init__(self) -> None:
        check_producer(self.properties)

    def writer(self, subtask: int, parallelism: int) -> KafkaWriter:
        return KafkaWriter(self, subtask)


class KafkaWriter(SinkWriter):
    """Writes one subtask's elements."""

    def __init__(self, sink: KafkaSink, subtask: int) -> None:
        self._sink = sink
        self._producer = RecordProducer(sink.properties, {}, sink.only_log)
        self._partition = (
            first_partition(self._producer, sink.schema, subtask) if sink.one_partition else None
        )

    def write(self, values: Sequence[object]) -> None:
        self.write_timed(values, None, 0)

    def write_timed(self, values: Sequence[object], timestamps: Sequence[int] | None, watermark: int) -> None:
        times = timestamps if self._sink.timed else None
        self._producer.send(self._sink.schema, values, times, self._partition)

    def flush(self) -> None:
        if self._sink.waits:
            self._producer.flush()
        else:
            self._producer.poll()

    def close(self) -> None:
        try:
            left = self._producer.flush_for(0 if self._sink.waits else _LAST_FLUSH_S)
            if left and not self._sink.waits:  # else they come again
                log.warning("%s", self._producer.failure("writing", f"{left} records were not delivered"))
        except ConnectorError as error:
            log.warning("%s", error)


def first_partition(producer: RecordProducer, schema: RecordSchema, subtask: int) -> int | None:
    """The partition that a subtask writes to, None for any when topics are selected."""
    return None if schema.topic is None else producer.partition_of(schema.topic, subtask)


def check_producer(properties: ClientProperties) -> None:
    """Refuse properties that cannot be used.

    Raises:
        ConfigurationError: one is unknown, or missing.
        NotSupportedError: one that the engine sets.
    """
    if "transactional.id" in properties.settings:
        raise NotSupportedError(
            f"{properties.what}: property 'transactional.id' is set by the engine, one for each subtask; give a "
            "transactional id prefix, and ask for exactly once"
        )
    check_known_to_producer(properties)
