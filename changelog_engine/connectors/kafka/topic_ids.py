"""Which topic a name means: a topic that was deleted and made anew has another id, and its offsets begin again."""

from __future__ import annotations

import importlib

from changelog_engine.clock import Deadline
from changelog_engine.connectors.kafka.clients import Troubles, failure, make, named, no_topic
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.packages import KAFKA
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.errors import RefusedForGoodError

_ANSWER_S = 5.0
_AGAIN_S = 5.0  # before a cluster that did not answer is asked again
_MISSING_S = 10.0  # a broker that has just begun may not know its topics yet
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # brokers before Kafka 2.8 have none


class TopicIds:
    """What the cluster says of the topics that are read; each is asked for once."""

    def __init__(self, properties: ClientProperties) -> None:
        self._properties = properties
        self._known: dict[str, str] = {}
        self._later: dict[str, Deadline] = {}
        self._missing: dict[str, Deadline] = {}  # until when it may still come
        self._trouble = Trouble(f"{named(properties)}: looking whether topics are those that were read")

    def ask_again(self, topic: str) -> None:
        """The topic may have become another one."""
        self._known.pop(topic, None)

    def knows(self, topic: str) -> bool:
        """Whether the cluster has answered that it has the topic, since it was to be asked last."""
        return topic in self._known

    def of(self, topic: str) -> str | None:
        """A topic's id; "" where the cluster gives none, None where it does not answer.

        Raises:
            RefusedForGoodError: there is no such topic, for some seconds now.
        """
        found = self._known.get(topic)
        if found is not None:
            return found
        waits = self._later.get(topic)
        if waits is not None and not waits.passed:
            return None
        found = self._asked(topic)
        if found is None:
            self._later[topic] = Deadline(_AGAIN_S)
        else:
            self._known[topic] = found
        return found

    def _asked(self, topic: str) -> str | None:
        kafka = KAFKA.load()
        troubles = Troubles()
        client = make(
            importlib.import_module("confluent_kafka.admin").AdminClient, self._properties, {}, troubles
        )
        try:
            answers = client.describe_topics(kafka.TopicCollection([topic]), request_timeout=_ANSWER_S)
            found = str(answers[topic].result(2 * _ANSWER_S).topic_id)
        except (kafka.KafkaException, TimeoutError) as error:
            inner = error.args[0] if isinstance(error, kafka.KafkaException) else None
            if inner is not None and inner.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._is_missing(topic)
                return None
            if inner is not None and inner.code() > 0:  # the cluster's answer: reading says what is wrong
                return ""
            self._trouble.again(
                str(failure(self._properties, f"asking for topic {topic!r}", error, troubles))
            )
            return None
        self._trouble.over()
        self._missing.pop(topic, None)
        return "" if found == _NO_ID else found

    def _is_missing(self, topic: str) -> None:
        said = no_topic(self._properties, topic)
        if self._missing.setdefault(topic, Deadline(_MISSING_S)).passed:
            raise RefusedForGoodError(said)
        self._trouble.again(said)
