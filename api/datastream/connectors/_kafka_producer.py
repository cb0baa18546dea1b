"""FlinkKafkaProducer, the older sink for Kafka."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Self

from changelog_engine.connectors import kafka as engine
from changelog_engine.connectors import packages

from ..._arguments import Properties, Whole, checked
from ..._needs import needs
from ...common.serialization import SerializationSchema
from ..functions import SinkFunction

_PREFIX = "kafka-producer"


class Semantic(Enum):
    """What holds for a producer's records after a failure; see `KafkaSink` for what each means here."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


@checked
@needs(packages.KAFKA)
class FlinkKafkaProducerBase(SinkFunction):
    """What producers of all versions of Kafka share. Each setter returns this object."""

    def __init__(
        self, schema: engine.RecordSchema, properties: engine.ClientProperties, semantic: Semantic
    ) -> None:
        self._schema = schema
        self._properties = properties
        self._semantic = semantic
        self._only_log = False
        self._waits = True
        self._timed = False
        self._only_log_lost = False
        super().__init__(self._sink())

    def _sink(self) -> engine.KafkaSink | engine.TransactionalKafkaSink:
        if self._semantic is Semantic.EXACTLY_ONCE:
            return engine.TransactionalKafkaSink(
                self._schema,
                self._properties,
                _PREFIX,
                timed=self._timed,
                one_partition=True,
                only_log_lost=self._only_log_lost,
                plain_without_checkpoints=True,
            )
        return engine.KafkaSink(
            self._schema,
            self._properties,
            waits=self._waits and self._semantic is Semantic.AT_LEAST_ONCE,
            only_log=self._only_log,
            timed=self._timed,
            one_partition=True,
        )

    def set_log_failures_only(self, log_failures_only: bool) -> Self:
        """Whether records that cannot be delivered are written to the log only; by default they fail the job.

        It has no effect on transactions: there the job fails.
        """
        self._only_log = log_failures_only
        self._function = self._sink()
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> Self:
        """Whether an epoch ends only when the brokers have its records; default True. Without, a failure may lose some."""
        self._waits = flush_on_checkpoint
        self._function = self._sink()
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> Self:
        """Whether records get their elements' timestamps; by default they get the time at which they are written."""
        self._timed = write_timestamp_to_kafka
        self._function = self._sink()
        return self


@checked
class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """A sink of records for one of Kafka's topics. `KafkaSink` can do more.

    Each subtask writes to one partition of the topic.

    Args:
        topic: its name.
        serialization_schema: what turns elements into the values of records.
        producer_config: properties of the producer, by Java's names or librdkafka's; ``bootstrap.servers`` is needed.
        kafka_producer_pool_size: how many checkpoints may be on their way; it has no meaning here.
        semantic: default AT_LEAST_ONCE. In a job without checkpoints EXACTLY_ONCE writes without transactions, as in Flink.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> producer = FlinkKafkaProducer("counts", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Properties,
        kafka_producer_pool_size: Annotated[int, Whole(1, 2**31 - 1)] = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        properties = engine.ClientProperties(producer_config, "FlinkKafkaProducer")
        super().__init__(engine.RecordSchema(topic, None, serialization_schema), properties, semantic)

    def ignore_failures_after_transaction_timeout(self) -> Self:
        """Only write to the log when a restored checkpoint keeps a transaction that the brokers have aborted.

        Its records are lost then: it was not committed within ``transaction.timeout.ms``.
        """
        self._only_log_lost = True
        self._function = self._sink()
        return self
