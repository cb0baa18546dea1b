"""The Kafka source: a split is a partition, a position the next offset."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from changelog_engine.connectors.kafka.clients import ADVICE, check_known_to_consumer, named, no_topic
from changelog_engine.connectors.kafka.offsets import Cluster, Kind, Offsets, TopicPartition
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.kafka.reader import Decoder, Fetcher, PartitionReader
from changelog_engine.connectors.protocols import DiscoveringSource, Position, Source, Split
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.connectors.shared_client import SharedClient
from changelog_engine.errors import RefusedForGoodError
from changelog_engine.readable import counted

log = logging.getLogger("changelog_engine")

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_DISCOVERY_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Topics:
    """What is read: topics by name or by pattern, or partitions. One of them is given."""

    names: tuple[str, ...] = ()  # all partitions of these topics; they must exist
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def of(self, there: Mapping[str, list[int]], properties: ClientProperties) -> list[TopicPartition]:
        """The partitions among those that are there.

        Raises:
            RefusedForGoodError: a topic or a partition is missing.
        """
        if self.pattern is not None:
            chosen = re.compile(self.pattern)
            names = [name for name in sorted(there) if name not in _INTERNAL and chosen.fullmatch(name)]
            return [TopicPartition(name, partition) for name in names for partition in there[name]]
        wanted = self.names or [topic for topic, _ in self.partitions]
        missing = sorted(name for name in set(wanted) if name not in there)
        if missing:
            raise RefusedForGoodError(no_topic(properties, missing[0]))
        for topic, partition in self.partitions:
            if partition not in there[topic]:
                raise RefusedForGoodError(
                    f"{named(properties)}: topic {topic!r} has no partition {partition}: it has "
                    f"{counted(len(there[topic]), 'partition')}, numbered from 0. Add it, or correct the number"
                )
        if self.partitions:
            return sorted(self.partitions)
        return [TopicPartition(name, partition) for name in self.names for partition in there[name]]


class KafkaSource(Source):
    """Reads topics of Kafka, from offsets of its own: nothing that other readers do changes what this one gives.

    Args:
        schema: see Decoder; ``get_produced_type`` says of what type its elements are.
        start: where, when the job starts from nothing.
        stop: where it ends, None for never.
        bounded: whether the job may count on its end; ``stop`` is given then.
        commits: whether offsets are committed to the group of the properties, for monitoring.
        bad_tag: side output for records that the schema fails at.
    """

    parallel = True
    timed = True
    watermarks_by_split = True

    def __init__(
        self,
        topics: Topics,
        schema: Any,
        properties: ClientProperties,
        start: Offsets | None = None,
        stop: Offsets | None = None,
        bounded: bool = False,
        commits: bool = True,
        bad_tag: str | None = None,
    ) -> None:
        check_known_to_consumer(properties)
        self.topics = topics
        self.schema = schema
        self.properties = properties
        self.start = start or Offsets(Kind.EARLIEST)
        self.stop = stop
        self.bounded = bounded
        self.bad_tag = bad_tag
        self.group = properties.get("group.id") or None
        self.acknowledges = commits and self.group is not None
        self.output_type = schema.get_produced_type()
        self._fetcher = SharedClient(partial(Fetcher, properties, self.group if self.acknowledges else None))

    def splits(self, parallelism: int) -> list[Split]:
        with contextlib.closing(Cluster(self.properties)) as cluster:
            partitions = self.topics.of(cluster.topics(), self.properties)
            if not partitions:
                log.warning(
                    "%s: no topic matches %r. %s", named(self.properties), self.topics.pattern, ADVICE
                )
            return self._planned(cluster, partitions, self.start)

    def _planned(self, cluster: Cluster, partitions: list[TopicPartition], start: Offsets) -> list[Split]:
        first = cluster.resolve(start, partitions)
        if self.stop is None:
            return [Split(_split_id(each), first[each]) for each in partitions]
        last = cluster.resolve(self.stop, partitions)
        return [Split(_split_id(each), [first[each], last[each]]) for each in partitions]

    def reader(self, split: Split) -> PartitionReader:
        topic, _, partition = split.id.rpartition("-")
        decoder = Decoder(self.schema, self.bad_tag, self.properties)
        which = TopicPartition(topic, int(partition))
        return PartitionReader(self._fetcher.take(), self._fetcher.give_back, which, decoder)


class DiscoveringKafkaSource(KafkaSource, DiscoveringSource):
    """Also reads partitions that come while the job runs, from their beginnings."""

    def __init__(self, *arguments: Any, discovery_interval_ms: int, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.discovery_interval_ms = discovery_interval_ms
        self._trouble = Trouble(f"{self.properties.what}: looking for new partitions")

    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """A cluster that doesn't answer is asked again later."""
        found: list[Split] = []
        asked = contextlib.closing(Cluster(self.properties, timeout_s=_DISCOVERY_TIMEOUT_S))
        with self._trouble.told(), asked as cluster:
            partitions = self.topics.of(cluster.topics(), self.properties)
            new = [each for each in partitions if _split_id(each) not in known]
            found = self._planned(cluster, new, Offsets(Kind.EARLIEST)) if new else []
        return found


def _split_id(which: TopicPartition) -> str:
    return f"{which.topic}-{which.partition}"
