"""Where reading starts and stops: partitions, reset strategies, offsets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated

from changelog_engine.connectors.kafka import Kind, Offsets, Reset, TopicPartition
from changelog_engine.errors import ArgumentTypeError

from ..._arguments import MadeBy, SuchAs, Whole, checked, whole_number

Timestamp = Annotated[int, Whole(0, 2**63 - 1)]  # ms
_STATIC_METHODS = "its static methods, such as KafkaOffsetsInitializer.earliest()"


@checked
class KafkaTopicPartition:
    """A partition of a topic.

    Args:
        topic: its name.
        partition: its number, from 0.

    Example:
        >>> KafkaTopicPartition("orders", 0) == KafkaTopicPartition("orders", 0)
        True
    """

    def __init__(self, topic: str, partition: Annotated[int, Whole(0)]) -> None:
        self._which = TopicPartition(topic, partition)

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._which.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._which.partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaTopicPartition) and self._which == other._which

    def __hash__(self) -> int:
        return hash(self._which)

    def __repr__(self) -> str:
        return f"KafkaTopicPartition({self.topic!r}, {self.partition})"


class KafkaOffsetResetStrategy(Enum):
    """What stands in for an offset that is not there."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@checked
class KafkaOffsetsInitializer:
    """Where reading starts or stops; made by its static methods. ``OffsetsInitializer`` is another name of it.

    Offsets are looked up once, on the driver, when the job starts from nothing; a restore goes on where its checkpoint is.
    """

    def __init__(self, offsets: Annotated[Offsets, MadeBy(_STATIC_METHODS)]) -> None:
        self._offsets = offsets

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the consumer group has committed.

        Args:
            offset_reset_strategy: for partitions without; NONE, the default, lets the job fail.
        """
        reset = Reset[offset_reset_strategy.name]
        return KafkaOffsetsInitializer(Offsets(Kind.COMMITTED, reset=reset))

    @staticmethod
    def timestamp(timestamp: Timestamp) -> KafkaOffsetsInitializer:
        """The first record whose timestamp is not before this one; the end where there is none.

        Args:
            timestamp: ms.
        """
        return KafkaOffsetsInitializer(Offsets(Kind.TIMESTAMP, timestamp))

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The oldest record there is."""
        return KafkaOffsetsInitializer(Offsets(Kind.EARLIEST))

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """The end, as it is when the job starts."""
        return KafkaOffsetsInitializer(Offsets(Kind.LATEST))

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets.

        Args:
            offsets: of each partition. One that is not among them has the group's committed offset.
            offset_reset_strategy: for partitions that have neither, and for offsets that are not there any more.

        Raises:
            ConfigurationError: other keys or values.

        Example:
            >>> start = KafkaOffsetsInitializer.offsets({KafkaTopicPartition("orders", 0): 100})
        """
        what = "KafkaOffsetsInitializer.offsets"
        if not isinstance(offsets, Mapping) or not all(
            isinstance(key, KafkaTopicPartition) for key in offsets
        ):
            raise ArgumentTypeError(f"{what}: offsets must map KafkaTopicPartition to int, got {offsets!r}")
        given = {
            key._which: whole_number(offset, f"{what}: offset of {key!r}", 0, 2**63 - 1)
            for key, offset in offsets.items()
        }
        reset = Reset[offset_reset_strategy.name]
        return KafkaOffsetsInitializer(Offsets(Kind.GIVEN, given=given, reset=reset))


Initializer = Annotated[KafkaOffsetsInitializer, SuchAs("KafkaOffsetsInitializer.latest()")]
