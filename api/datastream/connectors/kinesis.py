"""Sources and sinks of Amazon Kinesis Data Streams. They need ``pip install 'changelog-engine[kinesis]'``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

from changelog_engine.connectors import kinesis as engine
from changelog_engine.connectors import packages
from changelog_engine.connectors.kinesis import KinesisRecord
from changelog_engine.errors import ConfigurationError
from changelog_engine.types import TypeInformation

from ..._arguments import Properties, Whole, checked, required, several
from ..._kept_settings import kept
from ..._needs import needs
from ..._unsupported import NamesOfPyFlink
from ...common.serialization import DeserializationSchema, SerializationSchema
from ..functions import SourceFunction
from .base import Sink

__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisRecord",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
]

_MOST_MS = 2**63 - 1


class KinesisShardAssigner:
    """Which subtask reads which shard; the engine spreads shards evenly whatever is asked for."""

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """By the hash of the shard's id, in Flink."""
        return KinesisShardAssigner()

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """By the range of hash keys, in Flink."""
        return KinesisShardAssigner()


class KinesisDeserializationSchema(ABC):
    """Turns a whole record, with its partition key and place, into a value. Beyond PyFlink you can write one in Python."""

    @abstractmethod
    def deserialize_record(self, record: KinesisRecord) -> Any:
        """The value of a record.

        Args:
            record: stream, shard, sequence_number, partition_key, timestamp (of its arrival, in ms), data.

        Returns:
            The value; None for a record that is to be left out.
        """

    def get_produced_type(self) -> TypeInformation | None:
        """Type of the values; None, the default, for undeclared."""
        return None


@checked
@needs(packages.KINESIS)
class FlinkKinesisConsumer(SourceFunction, NamesOfPyFlink):
    """A source of records of Kinesis's streams; unbounded.

    The job's checkpoints hold the sequence numbers up to which it has read, so a restore reads exactly the same records
    again. Shards that come by a split or a merge are read when those that they were made of have ended. Elements have the
    times at which their records arrived.

    Args:
        streams: a stream, or several.
        deserializer: what turns records into elements.
        config_props: Flink's properties, such as ``aws.region``, ``aws.endpoint``, ``flink.stream.initpos`` (``LATEST``, the
            default, ``TRIM_HORIZON`` or ``AT_TIMESTAMP``).

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> properties = {"aws.region": "eu-west-1", "flink.stream.initpos": "TRIM_HORIZON"}
        >>> consumer = FlinkKinesisConsumer("orders", SimpleStringSchema(), properties)
    """

    _not_here: Mapping[str, str] = {
        "set_periodic_watermark_assigner": "takes a Java object: call assign_timestamps_and_watermarks() on the stream",
        "set_watermark_tracker": "aligns Flink's subtasks, and here all of them read in the same epochs",
    }

    def __init__(
        self,
        streams: str | list[str],
        deserializer: DeserializationSchema | KinesisDeserializationSchema,
        config_props: Properties,
    ) -> None:
        names = several(streams, "FlinkKinesisConsumer: streams", "a stream")
        properties = engine.ClientProperties(config_props, "FlinkKinesisConsumer", True)
        super().__init__(engine.KinesisSource(names, deserializer, properties))

    @kept
    def set_shard_assigner(self, shard_assigner: KinesisShardAssigner) -> Self:
        """Which subtask reads which shard."""
        return self


class PartitionKeyGenerator:
    """How an element gets its partition key, which decides over its shard.

    Beyond PyFlink a subclass may have ``apply(element)``.

    Example:
        >>> class ByUser(PartitionKeyGenerator):
        ...     def apply(self, element):
        ...         return element["user"]
    """

    _kind: str | None = "own"

    def apply(self, element: Any) -> str:
        """The partition key of an element."""
        raise ConfigurationError(
            f"{type(self).__name__} makes keys in the sink: apply(element) is for subclasses"
        )

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """One key for each subtask, so that its records go to one shard, in their order."""
        return _Made(None)

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """A key for each element, so that they go to all shards."""
        return _Made("random")


class _Made(PartitionKeyGenerator):
    def __init__(self, kind: str | None) -> None:
        self._kind = kind


@needs(packages.KINESIS)
class KinesisStreamsSink(Sink):
    """Writes to a stream, at least once; made by its `builder`.

    A checkpoint is made only when the stream has every record before it; after a failure those since the last checkpoint are
    written again.
    """

    @staticmethod
    def builder() -> KinesisStreamsSinkBuilder:
        """A builder of such sinks."""
        return KinesisStreamsSinkBuilder()


@checked
@needs(packages.KINESIS)
class KinesisStreamsSinkBuilder:
    """Builds a `KinesisStreamsSink`. Each method but `build` returns this object.

    Needed are a stream, a schema, a generator of partition keys and the client's properties.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> sink = (
        ...     KinesisStreamsSink.builder()
        ...     .set_kinesis_client_properties({"aws.region": "eu-west-1"})
        ...     .set_stream_name("orders")
        ...     .set_serialization_schema(SimpleStringSchema())
        ...     .set_partition_key_generator(PartitionKeyGenerator.random())
        ...     .build()
        ... )
    """

    def __init__(self) -> None:
        self._stream: str | None = None
        self._schema: SerializationSchema | None = None
        self._generator: PartitionKeyGenerator | None = None
        self._properties: engine.ClientProperties | None = None
        self._options = engine.SinkOptions()

    def set_stream_name(self, stream_name: str) -> Self:
        """The stream."""
        self._stream = stream_name
        return self

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> Self:
        """What turns elements into the data of records."""
        self._schema = serialization_schema
        return self

    def set_partition_key_generator(self, partition_key_generator: PartitionKeyGenerator) -> Self:
        """How elements get their partition keys.

        Raises:
            ConfigurationError: a subclass without ``apply``.
        """
        kind = type(partition_key_generator)
        if kind is not _Made and kind.apply is PartitionKeyGenerator.apply:
            raise ConfigurationError(
                "KinesisStreamsSinkBuilder.set_partition_key_generator: take PartitionKeyGenerator.fixed() or .random(), or "
                f"give {kind.__name__} a method apply(element) that returns the key"
            )
        self._generator = partition_key_generator
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> Self:
        """Whether a record that the stream does not take fails the job at once.

        Args:
            fail_on_error: default False: it is sent again, 50 times at most while the stream takes none.
        """
        return self._set(fail_on_error=fail_on_error)

    def set_kinesis_client_properties(self, kinesis_client_properties: Properties) -> Self:
        """Where Kinesis is, and who writes.

        Args:
            kinesis_client_properties: Flink's properties, such as ``aws.region``.

        Raises:
            ConfigurationError: a property that cannot be used.
        """
        what = "KinesisStreamsSinkBuilder.set_kinesis_client_properties"
        self._properties = engine.ClientProperties(kinesis_client_properties, what, False)
        return self

    def set_max_batch_size(self, max_batch_size: Annotated[int, Whole(1, 500)]) -> Self:
        """How many records are in a request.

        Args:
            max_batch_size: 500 by default, the most that Kinesis takes.
        """
        return self._set(batch_size=max_batch_size)

    @kept
    def set_max_in_flight_requests(self, max_in_flight_requests: Annotated[int, Whole(1)]) -> Self:
        """How many requests are under way at once.

        Args:
            max_in_flight_requests: at least 1.
        """
        return self

    @kept
    def set_max_buffered_requests(self, max_buffered_requests: Annotated[int, Whole(1)]) -> Self:
        """How many records wait at most.

        Args:
            max_buffered_requests: at least 1.
        """
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: Annotated[int, Whole(1, 5 << 20)]) -> Self:
        """How large a request is, partition keys included.

        Args:
            max_batch_size_in_bytes: 5 MB by default, the most that Kinesis takes.
        """
        return self._set(batch_bytes=max_batch_size_in_bytes)

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: Annotated[int, Whole(1, _MOST_MS)]) -> Self:
        """How long a record waits at most. Epochs last up to a second, and are the grain of it.

        Args:
            max_time_in_buffer_ms: 5,000 by default.
        """
        return self._set(time_in_buffer_ms=max_time_in_buffer_ms)

    def set_max_record_size_in_bytes(
        self, max_record_size_in_bytes: Annotated[int, Whole(1, 10 << 20)]
    ) -> Self:
        """How large a record may be, its partition key included; a larger one fails the job.

        Args:
            max_record_size_in_bytes: 1 MB by default; streams can be set to take up to 10 MB.
        """
        return self._set(record_bytes=max_record_size_in_bytes)

    def build(self) -> KinesisStreamsSink:
        """The sink.

        Raises:
            ConfigurationError: something needed is missing, or boto3 is not installed.
        """
        what = "KinesisStreamsSinkBuilder.build"
        properties = required(self._properties, what, "give 'aws.region' by set_kinesis_client_properties()")
        stream = required(self._stream, what, "give a stream by set_stream_name()")
        schema = required(self._schema, what, "give a schema by set_serialization_schema()")
        generator = required(self._generator, what, "give a generator by set_partition_key_generator()")
        if self._options.record_bytes > self._options.batch_bytes:
            raise ConfigurationError(
                f"{what}: a record may have {self._options.record_bytes} bytes, and a request {self._options.batch_bytes}; "
                "make max_record_size_in_bytes smaller"
            )
        key_of = generator.apply if generator._kind == "own" else generator._kind
        return KinesisStreamsSink(engine.KinesisSink(stream, schema, key_of, properties, self._options))

    def _set(self, **options: Any) -> Self:
        self._options = replace(self._options, **options)
        return self
