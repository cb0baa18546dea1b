"""Producing records: how elements become records, and producers that say what was not delivered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from changelog_engine.clock import Deadline
from changelog_engine.connectors.kafka.clients import (
    ADVICE,
    Troubles,
    failure,
    make,
    named,
    no_topic,
    serve,
    topics_of,
)
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.packages import KAFKA
from changelog_engine.connectors.protocols import INPUT_END_MS
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.connectors.schemas import unwritable
from changelog_engine.connectors.still_ours import ASKS_EVERY, check_still_ours
from changelog_engine.errors import ConnectorError, RefusedForGoodError, TypeMismatchError
from changelog_engine.graph.hooks import bulk_of
from changelog_engine.types.typeinfo import shown

log = logging.getLogger("changelog_engine")

_ANY_PARTITION = -1
_POLL_S = 0.1
_FLUSH_STEP_S = 1.0
_SILENT_S = 10.0  # after which the log says that nothing is delivered
_LOOK_S = 2.0  # for a look whether a topic is there
_NAMED = 3  # topics, in a message


@dataclass(eq=False)
class RecordSchema:
    """How an element becomes a record."""

    topic: str | None  # of all records; None when there is a selector
    select_topic: Callable[[Any], str] | None
    value_schema: Any  # has ``serialize(element)``
    key_schema: Any = None  # the same for keys; None for records without

    def records_of(self, elements: Sequence[Any]) -> tuple[list[str], list[Any], list[Any]]:
        """Topics, values and keys of elements."""
        count = len(elements)
        topics = (
            [self.topic_of(element) for element in elements] if self.topic is None else [self.topic] * count
        )
        keys = (
            [None] * count if self.key_schema is None else _serialized(self.key_schema, elements, self.topic)
        )
        values = _serialized(self.value_schema, elements, self.topic)
        if not all(values):  # one is None, or empty
            self._refuse_nothing(elements, values, keys)
        return topics, values, keys

    def _refuse_nothing(self, elements: Sequence[Any], values: list[Any], keys: list[Any]) -> None:
        """A record without a value deletes its key; without a key, too, it is a `serialize` that forgot to return."""
        for element, value, key in zip(elements, values, keys, strict=True):
            if value is None and key is None:
                raise TypeMismatchError(
                    f"{type(self.value_schema).__name__}.serialize() gave None for {shown(element)}, and the record has no "
                    "key that it could delete: return bytes, or leave such elements out by a filter()"
                )

    def topic_of(self, element: Any) -> str:
        """The topic that an element goes to."""
        assert self.select_topic is not None
        topic: Any = self.select_topic(element)
        if not isinstance(topic, str) or not topic:
            raise unwritable("the topic selector", topic, element, "a topic's name")
        return topic


class RecordProducer:
    """A producer and what it failed to deliver.

    Args:
        settings: which take the place of the properties.
        only_log: write failures to the log, and go on.
    """

    def __init__(
        self, properties: ClientProperties, settings: dict[str, Any], only_log: bool = False
    ) -> None:
        self._properties = properties
        self._only_log = only_log
        self._troubles = Troubles()
        self._failed: Any = None
        self._topics: set[str] = set()
        self._trouble = Trouble(f"{named(properties)}: writing")
        self._kafka = KAFKA.load()
        given = properties.settings
        defaults = {
            "partitioner": "murmur2_random",  # Java's
            "queue.buffering.max.messages": "1000000",
            "queue.buffering.max.kbytes": "131072",
        }
        if not {"acks", "request.required.acks", "max.in.flight", "retries"} & given.keys():
            defaults["enable.idempotence"] = "true"
        chosen = {name: value for name, value in defaults.items() if name not in given}
        reports = {"delivery.report.only.error": True, "on_delivery": self._delivered}
        self.client = make(
            self._kafka.Producer, properties, {**chosen, **settings, **reports}, self._troubles
        )

    def _delivered(self, error: Any, record: Any) -> None:
        if error is None:
            return
        if self._only_log:
            log.error("Kafka: a record for topic %r was not delivered: %s", record.topic(), error.str())
        elif self._failed is None:
            self._failed = (error, record.topic())

    def send(
        self,
        schema: RecordSchema,
        elements: Sequence[Any],
        timestamps: Iterable[int] | None,
        partition: int | None,
    ) -> None:
        """Hand elements over for delivery.

        Args:
            timestamps: ms for each; one below 0, that of the input's end, and None mean the current time.
            partition: of all; None chooses by key.

        Raises:
            ConnectorError: one before was not delivered.
        """
        topics, values, keys = schema.records_of(elements)
        self._topics.update(topics if schema.topic is None else topics[:1])
        where = _ANY_PARTITION if partition is None else partition
        # To librdkafka 0 is now.
        times = [0] * len(values)
        if timestamps is not None:
            times = [time if 0 < time < INPUT_END_MS else 0 for time in timestamps]
        produce = self.client.produce
        records = zip(topics, values, keys, times, strict=True)
        for _ in range(0, len(values) + 1, ASKS_EVERY):
            check_still_ours()
            for topic, value, key, time in islice(records, ASKS_EVERY):
                try:
                    # By position, which costs half of what names do.
                    produce(topic, value, key, where, None, None, time)
                except BufferError:
                    self._send_later(topic, value, key, where, time)
                except self._kafka.KafkaException as error:
                    raise self._refused(topic, error) from None
        self.poll()

    def _send_later(self, topic: str, *record: Any) -> None:
        """Hand a record over that had no room; its fields are those of ``produce``."""
        value, key, where, time = record
        silent = Deadline(_SILENT_S)
        while True:
            self.poll(_POLL_S)
            check_still_ours()
            try:
                self.client.produce(topic, value, key, where, None, None, time)
                return
            except BufferError:
                self._say_if(silent)
            except self._kafka.KafkaException as error:
                raise self._refused(topic, error) from None

    def _refused(self, topic: str, error: Any) -> ConnectorError:
        self.poll()
        return self.failure(f"writing to topic {topic!r}", error)

    def poll(self, wait_s: float = 0) -> None:
        """Take reports on deliveries.

        Raises:
            ConnectorError: something was not delivered.
        """
        self._report(self.client.poll, wait_s)
        self.check()

    def call(self, doing: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of the client.

        Raises:
            ConnectorError: the client is unusable.
            KafkaException: the method's own.
        """
        return serve(self._properties, self._troubles, doing, call, *arguments)

    def flush_for(self, wait_s: float) -> int:
        """Wait for deliveries; returns how many records are not delivered yet.

        Raises:
            ConnectorError: the client is unusable.
        """
        return int(self._report(self.client.flush, wait_s))

    def _report(self, call: Callable[..., Any], wait_s: float) -> Any:
        try:
            return self.call("writing", call, wait_s)
        except self._kafka.KafkaException as error:  # so says confluent-kafka 2.8 that the client is unusable
            raise self.failure("writing", error) from None

    def flush(self) -> None:
        """Wait until everything is delivered.

        Raises:
            ConnectorError: something was not, which librdkafka knows after ``delivery.timeout.ms``.
        """
        least, silent = None, Deadline(_SILENT_S)
        while left := self.flush_for(_FLUSH_STEP_S):
            self.check()
            if least is None or left < least:
                least, silent = left, Deadline(_SILENT_S)
            self._say_if(silent)
        self._trouble.over()
        self.check()

    def _say_if(self, silent: Deadline) -> None:
        """Say that the brokers take nothing, when it has been so for a while: librdkafka waits for minutes."""
        if silent.passed:
            what = f"{len(self.client)} records are not delivered yet"
            self._trouble.again(
                f"{self.failure(f'writing to {self._named_topics()}', what)}{self._missing()}"
            )

    def _named_topics(self) -> str:
        names = [repr(topic) for topic in sorted(self._topics)]
        more = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
        return f"topic {', '.join(names[:_NAMED])}{more}"

    def _missing(self) -> str:
        """What to add where the cluster answers that it has not one of the topics: librdkafka waits for it to come up."""
        for topic in sorted(self._topics)[:_NAMED]:
            try:
                found = topics_of(self.client, topic, timeout_s=_LOOK_S).topics[topic]
            except self._kafka.KafkaException:  # it does not answer, which the message says
                return ""
            if not found.partitions:
                return f"; topic {topic!r} does not exist"
        return ""

    def check(self) -> None:
        """Raise when something was not delivered."""
        if self._failed is not None:
            (error, topic), self._failed = self._failed, None
            why = self.failure(f"writing to topic {topic!r}", error)
            if error.code() in (
                self._kafka.KafkaError._UNKNOWN_TOPIC,
                self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
            ):
                why = RefusedForGoodError(
                    f"{why}: it does not exist, and librdkafka has waited for it. {ADVICE}"
                )
            raise why
        if self._troubles.final is not None and not self._only_log:
            raise self.failure("writing", self._troubles.final)

    def failure(self, doing: str, error: Any) -> ConnectorError:
        """What to raise for an error of the client."""
        return failure(self._properties, doing, error, self._troubles)

    def partition_of(self, topic: str, subtask: int) -> int:
        """The partition that all records of a subtask go to, as Flink's older producer has it."""
        try:
            found = topics_of(self.client, topic).topics[topic]
        except self._kafka.KafkaException as error:
            self.poll()
            raise self.failure(f"looking for topic {topic!r}", error) from None
        if found.error is not None or not found.partitions:
            raise RefusedForGoodError(no_topic(self._properties, topic))
        partitions = sorted(found.partitions)
        return int(partitions[subtask % len(partitions)])


def _serialized(schema: Any, elements: Sequence[Any], topic: str | None) -> list[Any]:
    serialize = schema.serialize
    bulk = bulk_of(schema, "serialize")
    if bulk is None or type(elements) is not list:
        return [serialize(element) for element in elements]
    failed: Exception | None = None
    try:
        found = list(bulk(elements))
    except Exception as error:
        failed = error
    if failed is not None:
        for element in elements:
            serialize(element)  # who asks one by one hears at which one it failed
        raise failed
    if len(found) != len(elements):
        to = "" if topic is None else f" of topic {topic!r}"
        raise RefusedForGoodError(
            f"Kafka: {type(schema).__name__}.serialize_all() gave {len(found)} messages{to} for {len(elements)} elements: "
            "it must give one for each"
        )
    return found
