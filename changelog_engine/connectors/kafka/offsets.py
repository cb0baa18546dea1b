"""Where reading a partition starts or stops: chosen by users, resolved to plain offsets on the driver.

Invariant: what is resolved is a number that the checkpoint keeps, so a replay reads exactly the same records.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from changelog_engine.connectors.kafka.clients import (
    REQUEST_TIMEOUT_S,
    Troubles,
    failure,
    make,
    named,
    topics_of,
)
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.packages import KAFKA
from changelog_engine.errors import RefusedForGoodError


class TopicPartition(NamedTuple):
    """A partition of a topic; its str is what messages call it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"


class Kind(enum.Enum):
    """What an offset is counted from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    GIVEN = "given"


class Reset(enum.Enum):
    """What stands in for an offset that isn't there."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True)
class Offsets:
    """A choice of offsets, one for each partition.

    Args:
        timestamp_ms: for TIMESTAMP: the first record that is not older; the end where there is none.
        given: for GIVEN: by partition. Partitions without have the group's committed offset, or the reset's.
        reset: for COMMITTED and GIVEN.
    """

    kind: Kind
    timestamp_ms: int = 0
    given: Mapping[TopicPartition, int] = field(default_factory=dict)
    reset: Reset = Reset.NONE


class Cluster:
    """What the driver asks the cluster: its partitions and their offsets."""

    def __init__(self, properties: ClientProperties, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._properties = properties
        self._timeout_s = timeout_s
        self._troubles = Troubles()
        # A consumer, because its properties are those of a consumer.
        settings = {
            "group.id": properties.get("group.id") or "changelog-engine",
            "enable.auto.commit": "false",
            "allow.auto.create.topics": "false",
        }
        self._consumer = make(KAFKA.load().Consumer, properties, settings, self._troubles)

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()

    def topics(self) -> dict[str, list[int]]:
        """All topics and their partitions.

        Raises:
            ConnectorError: the cluster doesn't answer.
        """
        found = self._ask("listing topics", lambda: topics_of(self._consumer, timeout_s=self._timeout_s))
        return {name: sorted(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    def resolve(self, offsets: Offsets, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of each partition.

        Raises:
            ConnectorError: a partition has no such offset, or the cluster doesn't answer.
        """
        if offsets.kind in (Kind.EARLIEST, Kind.LATEST):
            return self._bounds(partitions, offsets.kind is Kind.LATEST)
        if offsets.kind is Kind.TIMESTAMP:
            return self._at(partitions, offsets.timestamp_ms)
        found = {each: offsets.given[each] for each in partitions if each in offsets.given}
        missing = [each for each in partitions if each not in found]
        if missing and self._properties.get("group.id"):
            found |= self._committed(missing)
        return self._reset(found, offsets, partitions)

    def _reset(
        self, found: dict[TopicPartition, int], offsets: Offsets, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Put the reset's offsets where there are none, or none that can be read any more."""
        low = self._bounds(partitions, False)
        gone = [each for each in partitions if found.get(each, -1) < low[each]]
        if gone and offsets.reset is Reset.NONE:
            each = gone[0]
            group = self._properties.get("group.id")
            why = (
                f"offset {found[each]} is not there any more (the oldest is {low[each]})"
                if each in found
                else f"group {group!r} has committed no offset"
                if group
                else "there is no group.id whose committed offset could be taken"
            )
            raise RefusedForGoodError(
                f"{named(self._properties)}: {each}: {why}; choose a "
                "reset strategy, or other offsets to start from"
            )
        instead = self._bounds(gone, True) if gone and offsets.reset is Reset.LATEST else low
        return {each: instead[each] if each in gone else found[each] for each in partitions}

    def _bounds(self, partitions: Sequence[TopicPartition], latest: bool) -> dict[TopicPartition, int]:
        kafka = KAFKA.load()
        special = kafka.OFFSET_END if latest else kafka.OFFSET_BEGINNING
        return self._lookup(partitions, special)

    def _at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        found = self._lookup(partitions, timestamp_ms)
        late = [each for each, offset in found.items() if offset < 0]
        return found | (self._bounds(late, True) if late else {})

    def _lookup(self, partitions: Sequence[TopicPartition], when: int) -> dict[TopicPartition, int]:
        """Offsets by timestamp; by -1 the end and by -2 the beginning, as the isolation level sees them."""
        asked = [KAFKA.load().TopicPartition(*each, when) for each in partitions]
        answers = self._ask(
            "looking for offsets",
            lambda: self._consumer.offsets_for_times(asked, timeout=self._timeout_s) if asked else [],
        )
        return self._checked(answers, "looking for offsets")

    def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked = [KAFKA.load().TopicPartition(*each) for each in partitions]
        doing = f"asking for the committed offsets of group {self._properties.get('group.id')!r}"
        answers = self._ask(doing, lambda: self._consumer.committed(asked, timeout=self._timeout_s))
        return {each: offset for each, offset in self._checked(answers, doing).items() if offset >= 0}

    def _checked(self, answers: Sequence[Any], doing: str) -> dict[TopicPartition, int]:
        found = {}
        for answer in answers:
            which = TopicPartition(answer.topic, answer.partition)
            if answer.error is not None:
                raise failure(self._properties, f"{doing} of {which}", answer.error, self._troubles)
            found[which] = answer.offset
        return found

    def _ask(self, doing: str, call: Any) -> Any:
        try:
            return call()
        except KAFKA.load().KafkaException as error:
            self._consumer.poll(0)  # lets the client say what it has seen
            raise failure(self._properties, doing, error, self._troubles) from None
