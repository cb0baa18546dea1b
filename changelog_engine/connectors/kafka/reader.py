"""Reading partitions in a worker. All partitions of a source that one worker reads share one consumer.

Invariants:
    * What is given out begins exactly at the position asked for, and follows the log without a gap.
    * Reading waits no longer than a few milliseconds for records that are not there.
    * What one partition has in store while others are asked for is bounded.
    * Offsets are of one topic: where it was deleted and made anew, none of the old one's is used for the new one.
    * Records that are not there any more are an error, or a warning where a property says to go on without them.
    * A reader to which no broker answers says so in the log: librdkafka tries again by itself, for ever.
    * A client that goes on not to find a partition of a topic that the cluster has is replaced: librdkafka may miss that a
      partition has a leader again (its issue 5430).
    * Closing waits ten seconds at most: librdkafka waits for minutes for the answer to a commit.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

from changelog_engine.clock import Deadline, monotonic_s
from changelog_engine.connectors.kafka.clients import Troubles, failure, make, named, serve
from changelog_engine.connectors.kafka.offsets import TopicPartition
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.kafka.topic_ids import TopicIds
from changelog_engine.connectors.packages import KAFKA
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.connectors.schemas import unreadable
from changelog_engine.errors import ConnectorError, RefusedForGoodError
from changelog_engine.graph.hooks import bulk_of, hook_of
from changelog_engine.types import Row
from changelog_engine.types.copies import as_given

log = logging.getLogger("changelog_engine")

_WAIT_S = 0.01
_LONGER_WAIT_S = 0.1  # for records that are known to be there
_DRY_S = 0.05  # how long after a fetch without records the next one doesn't wait
_STORED = 65_536
# More at once leave the processor's caches before they are decoded, which costs half as much again
_AT_ONCE = 2_000
_CLOSE_TIMEOUT_S = 10.0
_LOOK_EVERY_S = 5.0  # whether the broker answers, when something was wrong
_LOOK_TIMEOUT_S = 1.0
_MISSED = 3  # looks in a row at which a partition is not found
_HELD_S = 120.0  # for which a transaction may hold records back; those of Flink are as long as its checkpoint interval
_HELD_SAID_EVERY_S = 600.0
_NOT_THERE = ("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART")
_LATEST = ("latest", "largest", "end")
_NO_RESET = "error"


class KafkaRecord(NamedTuple):
    """A record as it is stored. ``timestamp`` is in ms, -1 for none; ``headers`` are pairs of str and bytes."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class _Partition:
    """What is known of a partition that is read."""

    def __init__(self, named: str, which: TopicPartition, offset: int) -> None:
        self.which = which
        self.next = offset  # where the next record that is given out lies, or after a gap
        self.stored: deque[list[Any]] = deque()  # records as they arrived, in pieces
        self.held = 0  # records in them
        self.end: int | None = None  # nothing between the last record and here; None when not known
        self.error: Any = None
        self.high = 0  # the partition's end, as far as it was ever told
        self.paused = False
        self.trouble = Trouble(f"{named}: reading {which}")
        self.troubles = 0  # that the client had had when the partition's broker answered last
        self.missed = (
            0  # looks in a row at which the client did not find it, although the cluster has its topic
        )
        # Where a transaction begins that holds records back, and since when:
        self.held_back: tuple[int, float] | None = None

    def begin_again(self) -> None:
        """What a client had fetched comes again, from another one."""
        self.stored.clear()
        self.held, self.end, self.error, self.paused = 0, None, None, False
        self.troubles, self.missed = -1, 0  # it is looked at when nothing comes


class Fetcher:
    """A consumer and the partitions that it reads; with a group, if there is one to commit offsets to."""

    def __init__(self, properties: ClientProperties, group: str | None) -> None:
        self._properties = properties
        self._group = group
        self._kafka = KAFKA.load()
        settings = {
            "group.id": group or "changelog-engine",
            "enable.auto.offset.store": properties.get("enable.auto.commit", "false"),
            "enable.partition.eof": "true",
            "allow.auto.create.topics": "false",
            "auto.offset.reset": "error",  # a reset that is asked for is ours: librdkafka's is silent
        }
        defaults = {
            "enable.auto.commit": "false",
            "isolation.level": "read_uncommitted",  # as Java's clients have it
            "fetch.wait.max.ms": "100",
            "fetch.queue.backoff.ms": "10",  # an epoch takes up in no time what was fetched ahead
        }
        given = {name: value for name, value in defaults.items() if name not in properties.settings}
        self._reset = (properties.settings.get("auto.offset.reset") or _NO_RESET).lower()
        self._topic_ids = TopicIds(properties)
        self._reading: dict[TopicPartition, str] = {}  # to the id of the topic whose offsets are used
        self._settings = {**given, **settings}
        self._consumer, self._troubles = self._made()
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._topics: set[str] = set()  # of all partitions that were ever read
        self._dry_at = 0.0
        self._looked_s = self._held_said_s = float("-inf")
        self._only_committed = properties.get("isolation.level") == "read_committed"
        self._plenty = False  # the last fetch gave as many records as it may
        self._uncommitted: dict[TopicPartition, int] = {}

    def _made(self) -> tuple[Any, Troubles]:
        troubles = Troubles()
        return make(self._kafka.Consumer, self._properties, self._settings, troubles), troubles

    def take(
        self, which: TopicPartition, offset: int, most: int, waits: bool = True
    ) -> tuple[list[Any], int]:
        """The next records of a partition, some of those that are there, and the offset after them.

        Args:
            waits: a few milliseconds when none are there.

        Raises:
            ConnectorError: the partition can't be read there.
        """
        place = self._partitions.get(which)
        if place is None or place.next != offset:
            place = self._turn(which, offset)
            self._fetch(place, most, _LONGER_WAIT_S)
        elif not place.stored and place.error is None:
            self._fetch(place, most, self._wait_s(place) if waits else 0.0, waits)
        if not place.stored:
            if place.error is not None:
                return [], self._gone_on(place)
            if place.end is not None:
                place.next = max(place.next, place.end)
            return [], place.next
        records = place.stored.popleft()
        if len(records) > most:
            place.stored.appendleft(records[most:])
            records = records[:most]
        place.held -= len(records)
        place.next = records[-1].offset() + 1
        if not place.stored:
            if place.paused:
                self._consumer.resume([self._kafka.TopicPartition(*which)])
                place.paused = False
            if place.end is not None:
                place.next = max(place.next, place.end)
        return records, place.next

    def at_hand(self, which: TopicPartition) -> bool:
        """Whether the next records of a partition are there, as far as can be told without waiting."""
        return self._plenty or self._partitions[which].held > 0

    def _wait_s(self, place: _Partition) -> float:
        """How long to wait for records: longer when the broker has said that there are more."""
        if monotonic_s() - self._dry_at < _DRY_S:
            return 0.0
        if place.end is None:
            where = self._kafka.TopicPartition(*place.which)
            _, high = self._consumer.get_watermark_offsets(where, cached=True)
            if high > place.next:
                return _LONGER_WAIT_S
        return _WAIT_S

    def _turn(self, which: TopicPartition, offset: int) -> _Partition:
        """Read a partition from an offset on."""
        self._assign(which, offset, which in self._partitions)
        place = self._partitions[which] = _Partition(named(self._properties), which, offset)
        self._topics.add(which.topic)
        return place

    def _assign(self, which: TopicPartition, offset: int, again: bool = False) -> None:
        where = self._kafka.TopicPartition(*which, offset)
        try:
            if again:
                self._consumer.incremental_unassign([where])
            self._consumer.incremental_assign([where])
        except self._kafka.KafkaException as error:
            raise self._failure(f"reading {which}", error) from None

    def _fetch(self, wanted: _Partition, most: int, wait_s: float, waits: bool = True) -> None:
        """Put records that have arrived into store; wait for some of the wanted partition."""
        deadline = Deadline(wait_s)
        most = min(most, _AT_ONCE)
        step_s = 0.0  # at first: consume() waits until it has as many as it may give
        self._check()
        while True:
            left_s = deadline.left_s
            step_s = min(left_s, step_s)
            try:
                consume = self._consumer.consume
                arrived = serve(self._properties, self._troubles, "reading", consume, most, step_s)
            except self._kafka.KafkaException as error:
                raise self._failure("reading", error) from None
            self._store(arrived)
            self._plenty = len(arrived) == most
            if wanted.stored or wanted.error is not None or wanted.end is not None:
                break
            if not left_s and not self._plenty:  # what is at hand is taken: its size is bounded
                break
            step_s = _WAIT_S
        if not arrived and waits:
            self._dry_at = monotonic_s()
        if wanted.stored:
            wanted.trouble.over()
        elif self._troubles.count != wanted.troubles:
            self._look(wanted)
        if self._only_committed:
            self._see_held_back(wanted)

    def _see_held_back(self, wanted: _Partition) -> None:
        """Say so when a transaction that is open holds records back for long: whoever began it may be stopped."""
        where = self._kafka.TopicPartition(*wanted.which)
        if wanted.stored or wanted.end is None:
            wanted.held_back = None
            return
        _, high = self._consumer.get_watermark_offsets(where, cached=True)
        if high <= wanted.end:
            wanted.held_back = None
            return
        now_s = monotonic_s()
        if wanted.held_back is None or wanted.held_back[0] != wanted.end:
            wanted.held_back = (wanted.end, now_s)
        if now_s - wanted.held_back[1] >= _HELD_S and now_s - self._held_said_s >= _HELD_SAID_EVERY_S:
            self._held_said_s = now_s
            log.warning(
                "%s: %s: a transaction that is open holds back %d offsets from %d on, for %.0f s now; "
                "brokers abort it after the transaction.timeout.ms of its producer",
                named(self._properties),
                wanted.which,
                high - wanted.end,
                wanted.end,
                now_s - wanted.held_back[1],
            )

    def _look(self, wanted: _Partition) -> None:
        """Whether a partition's broker answers, after some trouble of the client's."""
        if monotonic_s() - self._looked_s < _LOOK_EVERY_S:
            return
        where = self._kafka.TopicPartition(*wanted.which)
        reported = self._troubles.count
        try:
            self._consumer.get_watermark_offsets(where, timeout=_LOOK_TIMEOUT_S)
        except self._kafka.KafkaException as error:
            wanted.trouble.again(str(self._failure(f"reading {wanted.which}", error)))
            if error.args[0].name() in _NOT_THERE:
                self._missed(wanted)
        else:
            self._troubles.last = None
            wanted.troubles, wanted.missed = reported, 0
            wanted.trouble.over()
        self._looked_s = monotonic_s()

    def _missed(self, wanted: _Partition) -> None:
        """The client does not find a partition: its topic was deleted, its broker is away, or it never finds it again."""
        topic = wanted.which.topic
        wanted.missed = wanted.missed + 1 if self._topic_ids.knows(topic) else 0
        self._topic_ids.ask_again(topic)  # which says whether it was deleted
        if wanted.missed < _MISSED:
            return
        log.warning(
            "%s: the client goes on not to find %s, whose topic the cluster has: another one takes its place",
            named(self._properties),
            wanted.which,
        )
        old = self._consumer
        self._consumer, self._troubles = self._made()
        for place in self._partitions.values():
            place.begin_again()
            self._assign(place.which, place.next)
        self._let_go(old, [])

    def _store(self, arrived: list[Any]) -> None:
        if any(map(self._kafka.Message.error, arrived)):  # drives our own code
            arrived = self._without_errors(arrived)
        for topic, partition, records in self._runs(arrived):
            place = self._partitions.get((topic, partition))
            if place is None:
                continue
            if records[0].offset() < place.next:
                records = [record for record in records if record.offset() >= place.next]
                if not records:
                    continue
            place.stored.append(records)
            place.held += len(records)
            if place.end is not None and records[-1].offset() >= place.end:
                place.end = None
            if place.held > _STORED and not place.paused:
                self._consumer.pause([self._kafka.TopicPartition(*place.which)])
                place.paused = True

    def _runs(self, arrived: list[Any]) -> Iterator[tuple[str, int, list[Any]]]:
        """The records in their order, those of one partition that follow each other together."""
        message = self._kafka.Message
        topics = [*self._topics] * len(arrived)
        if len(self._topics) > 1:
            topics = list(map(message.topic, arrived))  # drives our own code
        partitions = list(map(message.partition, arrived))  # drives our own code
        if arrived and topics.count(topics[0]) == partitions.count(partitions[0]) == len(arrived):
            yield topics[0], partitions[0], arrived
            return
        for (topic, partition), run in groupby(  # drives our own code
            zip(topics, partitions, arrived, strict=True), itemgetter(0, 1)
        ):
            yield topic, partition, [record for *_, record in run]

    def _without_errors(self, arrived: list[Any]) -> list[Any]:
        """The records; what else arrived is noted."""
        records: list[Any] = []
        for record in arrived:
            error = record.error()
            if error is None:
                records.append(record)
                continue
            place = self._partitions.get((record.topic(), record.partition()))
            if place is None:
                continue
            if error.code() == self._kafka.KafkaError._PARTITION_EOF:
                place.end = record.offset()
            elif not error.retriable():
                place.error = error
        return records

    def _check(self) -> None:
        if self._troubles.final is not None:
            raise self._failure("reading", self._troubles.final)

    def _gone_on(self, place: _Partition) -> int:
        """Where to read a partition on that has not the offset which comes next, if a property says so.

        Raises:
            ConnectorError: it does not, or the partition cannot be read for another reason.
        """
        if place.error.code() not in (
            self._kafka.KafkaError._AUTO_OFFSET_RESET,
            self._kafka.KafkaError.OFFSET_OUT_OF_RANGE,
        ):
            raise self._failure(f"reading {place.which} at offset {place.next}", place.error)
        return self._elsewhere(
            place.which,
            f"{place.which} has no offset {place.next}",
            "Records between were deleted, by its retention perhaps, or the topic was made anew",
        )

    def _elsewhere(self, which: TopicPartition, what: str, why: str) -> int:
        """The offset that a property says to go on at; the log says so.

        Raises:
            ConnectorError: no property does.
        """
        held, bounds = "", None
        try:
            asked = self._kafka.TopicPartition(*which)
            low, high = bounds = self._consumer.get_watermark_offsets(asked, timeout=_CLOSE_TIMEOUT_S)
            held = f": it holds offsets {low} to {high - 1}" if high > low else f": it is empty, up to {high}"
        except self._kafka.KafkaException as error:
            if self._reset != _NO_RESET:
                raise self._failure(f"looking for offsets of {which}", error) from None
        if bounds is None or self._reset == _NO_RESET:
            raise RefusedForGoodError(
                f"{named(self._properties)}: {what}{held}. {why}. Start from other offsets, or set property "
                "'auto.offset.reset' to earliest or latest to go on there without them"
            )
        offset = int(bounds[self._reset in _LATEST])
        log.warning(
            "%s: %s%s. %s. Property 'auto.offset.reset' is %s: reading goes on at offset %d",
            named(self._properties),
            what,
            held,
            why,
            self._reset,
            offset,
        )
        self._turn(which, offset)
        return offset

    def offset_in(self, which: TopicPartition, offset: int, topic_id: str | None) -> int | None:
        """The offset to read at; None as long as the cluster does not say whether the topic is still the one that it was.

        Args:
            topic_id: of the topic that the offset is of; None where it is not known.

        Raises:
            ConnectorError: the topic was made anew.
        """
        found = self._topic_ids.of(which.topic)
        expected = topic_id or self._reading.get(which)
        if expected is not None and found is None:
            return None
        if not expected or not found or found == expected:
            if found:
                self._reading[which] = found
            return offset
        self._reading.pop(which, None)
        return self._elsewhere(
            which,
            f"{which} was read up to offset {offset}, and is not the same topic any more",
            "It was deleted and made anew, or is another cluster's, so its first records would be left out",
        )

    def topic_id(self, which: TopicPartition) -> str | None:
        """The id of the topic that a partition is read of; None where it is not known."""
        return self._reading.get(which)

    def _failure(self, doing: str, error: Any) -> ConnectorError:
        return failure(self._properties, doing, error, self._troubles)

    def behind(self, which: TopicPartition) -> int | None:
        """How many offsets lie between what was given out and the partition's end, as the last fetch told it."""
        place = self._partitions.get(which)
        if place is None:
            return None
        if place.end is not None and not place.stored:
            return 0
        try:
            _, high = self._consumer.get_watermark_offsets(self._kafka.TopicPartition(*which), cached=True)
        except self._kafka.KafkaException:
            return None
        if high < 0:
            return None
        if high < place.high:  # another broker's that lags behind, or another topic's
            self._topic_ids.ask_again(which.topic)
        place.high = int(high)
        return max(0, place.high - place.next)

    def commit(self, which: TopicPartition, offset: int) -> None:
        """Let the group's monitors see how far the job is; what is lost of it the next one brings."""
        if self._group is None:
            return
        self._uncommitted[which] = offset
        self._consumer.commit(offsets=[self._kafka.TopicPartition(*which, offset)], asynchronous=True)

    def close(self) -> None:
        """Commit what was not yet, and let go of the connections."""
        offsets = [self._kafka.TopicPartition(*each, offset) for each, offset in self._uncommitted.items()]
        closing = self._let_go(self._consumer, offsets)
        closing.join(_CLOSE_TIMEOUT_S)
        if closing.is_alive():
            log.warning(
                "%s does not answer, so the end of the client that has read is not waited for; offsets for monitoring may "
                "be those of an earlier checkpoint",
                named(self._properties),
            )

    def _let_go(self, consumer: Any, offsets: list[Any]) -> threading.Thread:
        """Commit offsets and close a client, in a thread, since it waits for brokers that are silent."""

        def run() -> None:
            try:
                if offsets:
                    consumer.commit(offsets=offsets, asynchronous=False)
            except self._kafka.KafkaException as error:
                log.warning("%s", self._failure("committing offsets for monitoring", error))
            consumer.close()

        closing = threading.Thread(target=run, name="kafka-close", daemon=True)
        closing.start()
        return closing


class _Place(NamedTuple):
    """A position: the next offset, where to stop, and in a checkpoint which topic it is of.

    As JSON it is the offset, a pair of offset and stop, or in a checkpoint an object of what is there of the three.
    """

    offset: int
    stop: int | None
    topic_id: str | None

    @staticmethod
    def of(position: Position) -> _Place:
        if isinstance(position, int):
            return _Place(position, None, None)
        if isinstance(position, dict):
            return _Place(position["offset"], position.get("stop"), position["topic"])
        offset, stop = position
        return _Place(offset, stop, None)

    @property
    def position(self) -> Position:
        if self.topic_id is None:
            return self.offset if self.stop is None else [self.offset, self.stop]
        stop = {} if self.stop is None else {"stop": self.stop}
        return {"offset": self.offset, **stop, "topic": self.topic_id}


class PartitionReader(SplitReader):
    """Reads one partition, and tells when it is closed."""

    def __init__(
        self, fetcher: Fetcher, closed: Callable[[], None], which: TopicPartition, decode: Decoder
    ) -> None:
        self._fetcher = fetcher
        self._which = which
        self._decode = decode
        self._closed = closed

    @property
    def behind(self) -> int | None:  # type: ignore[override]
        """A bounded source counts what comes after its end too."""
        return self._fetcher.behind(self._which)

    def read(self, position: Position, max_records: int) -> Range:
        """See `_Place` for positions."""
        at, stop, topic_id = _Place.of(position)
        if stop is not None and at >= stop:
            return Range((), position, True, ())
        offset = self._fetcher.offset_in(self._which, at, topic_id)
        if offset is None:
            return Range((), position, False, ())
        given, ended, left = Decoded([], [], []), False, max_records
        while True:
            records, offset = self._fetcher.take(self._which, offset, left, waits=left == max_records)
            left -= len(records)
            if stop is not None and offset >= stop:
                ended = True
                while records and records[-1].offset() >= stop:
                    records.pop()
                offset = stop
            ended |= self._decode(records, given)
            if ended or not records or not left or not self._fetcher.at_hand(self._which):
                after = offset if stop is None else [offset, stop]
                return Range(given.values, after, ended, given.times, given.aside or None)

    def at_barrier(self, position: Position) -> Position:
        place = _Place.of(position)
        if place.topic_id is None:
            place = place._replace(topic_id=self._fetcher.topic_id(self._which))
        return place.position

    def acknowledged(self, position: Position) -> None:
        self._fetcher.commit(self._which, _Place.of(position).offset)

    def close(self) -> None:
        self._closed()


class Decoded(NamedTuple):
    """Elements, their timestamps, and what goes to side outputs."""

    values: list[Any]
    times: list[int]
    aside: list[tuple[str, Any]]


class Decoder:
    """Turns records into elements.

    Args:
        schema: has ``deserialize(bytes)``, or ``deserialize_record(KafkaRecord)``; None leaves a record out.
        bad_tag: side output for records that the schema fails at; None lets the job fail.
    """

    def __init__(self, schema: Any, bad_tag: str | None, properties: ClientProperties) -> None:
        whole = hook_of(schema, "deserialize_record")
        self._whole = whole is not None
        self._call = schema.deserialize if whole is None else whole
        self._schema = type(schema).__name__
        self._bad_tag = bad_tag
        self._properties = properties
        self._all = None if self._whole else bulk_of(schema, "deserialize")
        self._is_end = hook_of(schema, "is_end_of_stream")
        self._message = KAFKA.load().Message

    def __call__(self, records: list[Any], into: Decoded) -> bool:
        """Add what records give to what there is; returns whether an element ended the stream."""
        if self._is_end is not None:
            return self._one_by_one(records, into)
        call = self._call
        raw = map(self._message.value, records)  # drives our own code
        try:
            if self._whole:
                found = [as_given(call(_record(record))) for record in records]
            elif self._all is not None:
                found = list(self._all(list(raw)))
            else:
                found = [as_given(call(value)) for value in raw]
        except Exception:
            return self._one_by_one(records, into)
        if len(found) != len(records):
            raise RefusedForGoodError(
                f"Kafka: {self._schema}.deserialize_all() gave {len(found)} values for {len(records)} messages: it must "
                "give one for each, None for one that is left out"
            )
        stamped = map(itemgetter(1), map(self._message.timestamp, records))  # drives our own code
        if NoneType in set(map(type, found)):  # arrays cannot be compared with None
            kept = [pair for pair in zip(found, stamped, strict=True) if pair[0] is not None]
            into.values.extend([value for value, _ in kept])
            into.times.extend([timestamp for _, timestamp in kept])
        else:
            into.values.extend(found)
            into.times.extend(stamped)
        return False

    def _one_by_one(self, records: list[Any], into: Decoded) -> bool:
        for record in records:
            try:
                value = as_given(self._call(_record(record) if self._whole else record.value()))
            except Exception as error:
                if self._bad_tag is None:
                    raise self._failure(record, error) from error
                into.aside.append((self._bad_tag, _bad(record, error)))
                continue
            if value is None:
                continue
            if self._is_end is not None and self._is_end(value):
                return True
            into.values.append(value)
            into.times.append(record.timestamp()[1])
        return False

    def _failure(self, record: Any, error: Exception) -> RefusedForGoodError:
        which = TopicPartition(record.topic(), record.partition())
        return unreadable(
            f"{named(self._properties)}: the record of {which}, offset {record.offset()}",
            error,
            record.value(),
            "Let the schema ignore such records, or send them to a side output by set_bad_records_tag()",
        )


def _record(record: Any) -> KafkaRecord:
    return KafkaRecord(
        record.topic(),
        record.partition(),
        record.offset(),
        record.timestamp()[1],
        record.key(),
        record.value(),
        record.headers() or (),
    )


def _bad(record: Any, error: Exception) -> Row:
    return Row(
        topic=record.topic(),
        partition=record.partition(),
        offset=record.offset(),
        timestamp=record.timestamp()[1],
        key=record.key(),
        value=record.value(),
        error=f"{type(error).__name__}: {error}",
    )
