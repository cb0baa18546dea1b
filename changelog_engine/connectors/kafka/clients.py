"""Making librdkafka's clients: loaded when they are needed, quiet, and with errors that say what to do."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from changelog_engine.config.names import names_of
from changelog_engine.connectors.kafka.properties import ClientProperties
from changelog_engine.connectors.packages import KAFKA
from changelog_engine.errors import ConfigurationError, ConnectorError, RefusedForGoodError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

log = logging.getLogger("changelog_engine")

ADVICE = "Create it, or correct the name"
REQUEST_TIMEOUT_S = 30.0
CONTACT_TIMEOUT_S = 10.0  # within which a broker must have been reached
# Of what brokers and librdkafka answer: the same request would be answered so again.
_LASTING = names_of(
    "_AUTHENTICATION _INVALID_ARG _SSL _UNKNOWN_PARTITION _UNSUPPORTED_FEATURE "
    "CLUSTER_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED SASL_AUTHENTICATION_FAILED TOPIC_AUTHORIZATION_FAILED "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED ILLEGAL_SASL_STATE UNSUPPORTED_SASL_MECHANISM "
    "INVALID_CONFIG INVALID_RECORD INVALID_REQUIRED_ACKS INVALID_TIMESTAMP MSG_SIZE_TOO_LARGE POLICY_VIOLATION "
    "RECORD_LIST_TOO_LARGE TOPIC_EXCEPTION UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_VERSION"
)
# What to do, by what brokers and librdkafka answer.
_REMEDIES = {
    "MSG_SIZE_TOO_LARGE": "The record is larger than property 'max.request.size' (1,000,000 bytes if it is not set), or the "
    "topic's max.message.bytes, allows: make records smaller, or raise both",
    "_FENCED": "Another process has taken the transactional id: a newer run of this job, or another job whose "
    "transactional id prefix is the same",
}
_LOST = re.compile("transport|disconnect", re.IGNORECASE)  # a login that a broker's end interrupted


class Troubles:
    """What a client reports besides its answers: what it logs, and errors that hang on no request."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None
        self.count = 0  # of errors so far
        self.final: KafkaError | None = None  # the client will not recover from it
        self.fatal = ""  # what librdkafka logged when a client became unusable

    def log(self, level: int, message: str, *arguments: Any) -> None:
        """A line of librdkafka's log. A broker that is gone for a moment is not news to users."""
        log.debug(message, *arguments)
        if arguments and arguments[0] == "FATAL":
            self.fatal = str(arguments[-1])

    def error(self, error: KafkaError) -> None:
        """See librdkafka's error callback."""
        log.debug("Kafka: %s", error)
        self.last = error
        self.count += 1
        refused = error.code() == KAFKA.load().KafkaError._AUTHENTICATION
        if error.fatal() or refused or (error.name() == "_SSL" and _lasts(error)):
            self.final = error


def make(client: Any, properties: ClientProperties, settings: Mapping[str, Any], troubles: Troubles) -> Any:
    """A client.

    Args:
        client: class of it, confluent_kafka's Consumer or Producer.
        properties: the user's.
        settings: which take the place of the user's.

    Raises:
        ConfigurationError: a property that librdkafka does not know, or a value that it can't use; named.
    """
    confluent_kafka = KAFKA.load()
    given = {**properties.settings, **settings, "error_cb": troubles.error}
    try:
        return client(given, logger=troubles)
    except (confluent_kafka.KafkaException, ValueError, TypeError) as error:
        raise ConfigurationError(f"{properties.what}: {properties.redacted(_text_of(error))}") from None


def serve(properties: ClientProperties, troubles: Troubles, doing: str, call: Any, *arguments: Any) -> Any:
    """Call a client's method that serves callbacks.

    When a client became unusable, confluent_kafka raises a KafkaError there, which is not a class of exceptions, so
    that only a bare ``except`` catches it; a callback that is called after it makes a SystemError of it.

    Raises:
        ConnectorError: the client is unusable.
        KafkaException: the method's own.
    """
    kafka = KAFKA.load()
    try:
        return call(*arguments)
    except (kafka.KafkaException, BufferError, KeyboardInterrupt):
        raise
    except:  # noqa: E722 # see above
        error = sys.exc_info()[1]
        if troubles.fatal:
            raise failure(properties, doing, troubles.fatal) from None
        if isinstance(error, BaseException):
            raise
        raise failure(properties, doing, error) from None


def check_known_to_consumer(properties: ClientProperties) -> None:
    """Find out whether the servers are named and librdkafka knows all properties of a consumer, without a connection.

    Raises:
        ConfigurationError: no server is named, or librdkafka doesn't know a property; names the first.
    """
    if (client := _checked(KAFKA.load().Consumer, properties, {"group.id": "check"})) is not None:
        client.close()


def check_known_to_producer(properties: ClientProperties) -> None:
    """As ``check_known_to_consumer``, of a producer.

    Raises:
        ConfigurationError: likewise.
    """
    _checked(KAFKA.load().Producer, properties, {})


def _checked(client: Any, properties: ClientProperties, settings: Mapping[str, Any]) -> Any:
    if not properties.bootstrap_servers:
        raise ConfigurationError(f"{properties.what}: property 'bootstrap.servers' is missing")
    confluent_kafka = KAFKA.load()
    given = {name: value for name, value in properties.settings.items() if name != "bootstrap.servers"}
    try:
        return client({**given, **settings}, logger=Troubles())
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() == confluent_kafka.KafkaError._INVALID_ARG:
            text = properties.redacted(_text_of(error))
            name = (
                text.rpartition('"')[0].rpartition('"')[2] if "No such configuration property" in text else ""
            )
            known = f"property {name!r} is not known to Kafka's clients" if name else text
            raise ConfigurationError(f"{properties.what}: {known}") from None
        return None  # what else is wrong shows when it is used


def topics_of(client: Any, *topic: str, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
    """The topics that a cluster has, as a client lists them.

    Args:
        topic: which; none for all.
        timeout_s: for the answer. Where no broker could be reached at all, it is known sooner.

    Raises:
        KafkaException: the client's.
    """
    kafka = KAFKA.load()
    contact_s = min(CONTACT_TIMEOUT_S, timeout_s)
    try:
        return client.list_topics(*topic, timeout=contact_s)
    except kafka.KafkaException as error:
        unreached = error.args[0].code() == kafka.KafkaError._TRANSPORT
        if unreached or contact_s == timeout_s:
            raise
    return client.list_topics(*topic, timeout=timeout_s - contact_s)


def failure(
    properties: ClientProperties, doing: str, error: Any, troubles: Troubles | None = None
) -> ConnectorError:
    """What to raise when the cluster didn't do something.

    Args:
        doing: what was to be done, such as ``listing topics``.
        troubles: of the client; its last trouble tells more than a timeout does.

    Returns:
        A RefusedForGoodError where the same would be answered so again.
    """
    text = _text_of(error)
    final = None if troubles is None else troubles.final
    last = None if troubles is None else final or troubles.last
    if last is not None and last.str() not in text:
        text += f" ({last.str()})"
    kind = RefusedForGoodError if _lasts(error) or _lasts(final) else ConnectorError
    remedy = _REMEDIES.get(_name_of(error), "")
    return kind(f"{named(properties)}: {doing} failed: {properties.redacted(text)}{remedy and f'. {remedy}'}")


def named(properties: ClientProperties) -> str:
    """Kafka and where it is."""
    return f"Kafka ({properties.bootstrap_servers})"


def no_topic(properties: ClientProperties, topic: str) -> str:
    """That a topic is missing, and what to do."""
    return f"{named(properties)}: topic {topic!r} does not exist. {ADVICE}"


def _text_of(error: Any) -> str:
    inner = _inner(error)
    return str(inner.str()) if isinstance(inner, KAFKA.load().KafkaError) else str(inner)


def _lasts(error: Any) -> bool:
    return _name_of(error) in _LASTING and _LOST.search(_text_of(error)) is None


def _name_of(error: Any) -> str:
    inner = _inner(error)
    return str(inner.name()) if isinstance(inner, KAFKA.load().KafkaError) else ""


def _inner(error: Any) -> Any:
    return error.args[0] if isinstance(error, Exception) and error.args else error
