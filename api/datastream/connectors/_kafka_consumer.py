"""FlinkKafkaConsumer, the older source of Kafka."""

from __future__ import annotations

from typing import Self

from changelog_engine.connectors import kafka as engine
from changelog_engine.connectors import packages
from changelog_engine.errors import ConfigurationError
from changelog_engine.types import TypeInformation

from ..._arguments import Properties, checked, several
from ..._needs import needs
from ...common.serialization import DeserializationSchema
from ..functions import SourceFunction
from ._kafka_offsets import Timestamp
from ._kafka_source import LONGEST_INTERVAL_MS, source_of

_INTERVAL = "flink.partition-discovery.interval-millis"


@checked
@needs(packages.KAFKA)
class FlinkKafkaConsumerBase(SourceFunction):
    """What consumers of all versions of Kafka share. Each setter returns this object."""

    def __init__(
        self, topics: tuple[str, ...], schema: DeserializationSchema, properties: engine.ClientProperties
    ) -> None:
        self._topics = topics
        self._schema = schema
        self._properties = properties
        self._start: engine.Offsets | None = None
        self._commits = True
        super().__init__(self._source())

    def _source(self) -> engine.KafkaSource:
        start = self._start
        if start is None:
            reset = self._properties.get("auto.offset.reset", "latest")
            known = {each.value: each for each in engine.Reset}
            if reset not in known:
                raise ConfigurationError(
                    f"{type(self).__name__}: property 'auto.offset.reset' must be earliest, latest or none, got {reset!r}"
                )
            start = engine.Offsets(engine.Kind.COMMITTED, reset=known[reset])
        return source_of(
            engine.Topics(names=self._topics),
            self._schema,
            self._properties,
            start,
            commits=self._commits,
            interval_ms=self._properties.number(_INTERVAL, 0, -LONGEST_INTERVAL_MS, LONGEST_INTERVAL_MS),
        )

    def _start_from(self, start: engine.Offsets | None) -> Self:
        self._start = start
        self._function = self._source()
        return self

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Whether offsets are committed to the group, for monitoring, when a checkpoint is durable; default True."""
        self._commits = commit_on_checkpoints
        self._function = self._source()
        return self

    def set_start_from_earliest(self) -> Self:
        """Start at the oldest record, when the job starts from nothing."""
        return self._start_from(engine.Offsets(engine.Kind.EARLIEST))

    def set_start_from_latest(self) -> Self:
        """Start at the end, as it is when the job starts from nothing."""
        return self._start_from(engine.Offsets(engine.Kind.LATEST))

    def set_start_from_timestamp(self, startup_offsets_timestamp: Timestamp) -> Self:
        """Start at the first record whose timestamp is not before this one, when the job starts from nothing.

        Args:
            startup_offsets_timestamp: ms.
        """
        return self._start_from(engine.Offsets(engine.Kind.TIMESTAMP, startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> Self:
        """Start at what the group has committed, when the job starts from nothing; this is the default.

        Partitions without start where property ``auto.offset.reset`` says: ``latest`` if it isn't given.
        """
        return self._start_from(None)

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Nothing to disable: a restored job reads the partitions of its checkpoint."""
        return self

    def get_produced_type(self) -> TypeInformation | None:
        """Type of the elements."""
        return self._schema.get_produced_type()


@checked
class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """A source of records of Kafka's topics; unbounded. `KafkaSource` can do more.

    Args:
        topics: a topic, or several.
        deserialization_schema: what turns the values of records into elements.
        properties: of the consumer, by Java's names or librdkafka's; ``bootstrap.servers`` is needed, ``group.id`` to start
            from the group's offsets. ``flink.partition-discovery.interval-millis`` lets it look for new partitions.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> properties = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
        >>> consumer = FlinkKafkaConsumer("orders", SimpleStringSchema(), properties).set_start_from_earliest()
    """

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Properties,
    ) -> None:
        names = several(topics, "FlinkKafkaConsumer: topics", "a topic")
        known = engine.ClientProperties(properties, "FlinkKafkaConsumer")
        super().__init__(names, deserialization_schema, known)
