"""Pulsar's client: made from Flink's options, quiet, and with errors that say what to do."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

from changelog_engine.config.names import names_of
from changelog_engine.connectors.packages import PULSAR
from changelog_engine.connectors.pulsar.properties import Authentication, ClientProperties
from changelog_engine.connectors.reconnecting import UnreachableError
from changelog_engine.errors import ConfigurationError, ConnectorError, NotSupportedError, RefusedForGoodError

log = logging.getLogger("changelog_engine")

T = TypeVar("T")

_CLIENT = "pulsar.client."
_PROBE_TIMEOUT_S = 3.0
_HTTP_TIMEOUT_S = 30.0


class Client:
    """A client and what it is asked.

    Raises:
        ConfigurationError: the client cannot use an option.
        NotSupportedError: a way to log in that only Java's client has.
    """

    def __init__(self, properties: ClientProperties) -> None:
        self.properties = properties
        self.pulsar = PULSAR.load()
        number = properties.number
        arguments: dict[str, Any] = {
            "operation_timeout_seconds": max(1, number(f"{_CLIENT}operationTimeoutMs", 30_000, 1) // 1000),
            "connection_timeout_ms": number(f"{_CLIENT}connectionTimeoutMs", 10_000, 1),
            "io_threads": number(f"{_CLIENT}numIoThreads", 1, 1, 1000),
            "concurrent_lookup_requests": number(f"{_CLIENT}concurrentLookupRequest", 5000, 1),
            "listener_name": properties.get(f"{_CLIENT}listenerName"),
            "tls_trust_certs_file_path": properties.get(f"{_CLIENT}tlsTrustCertsFilePath"),
            "tls_private_key_file_path": properties.get(f"{_CLIENT}tlsKeyFilePath"),
            "tls_certificate_file_path": properties.get(f"{_CLIENT}tlsCertificateFilePath"),
            "tls_allow_insecure_connection": properties.flag(f"{_CLIENT}tlsAllowInsecureConnection", False),
            "tls_validate_hostname": properties.flag(f"{_CLIENT}tlsHostnameVerificationEnable", False),
            # What goes wrong is raised, and told once.
            "logger": self.pulsar.FileLogger(self.pulsar.LoggerLevel.Error, os.devnull),
        }
        if properties.authentication is not None:
            arguments["authentication"] = self._authentication(properties.authentication)
        try:
            self._client = self.pulsar.Client(properties.service_url, **arguments)
        except (self.pulsar.PulsarException, ValueError, RuntimeError) as error:
            raise ConfigurationError(f"{properties.what}: Pulsar's client says: {error}") from None

    def _authentication(self, given: Authentication) -> Any:
        pulsar, what = self.pulsar, self.properties.what
        try:
            if given.kind == "AuthenticationToken":
                return pulsar.AuthenticationToken(given.token())
            fields = given.fields()
            if given.kind == "AuthenticationTls":
                return pulsar.AuthenticationTLS(fields["tlsCertFile"], fields["tlsKeyFile"])
            if given.kind == "AuthenticationBasic":
                return pulsar.AuthenticationBasic(fields["userId"], fields["password"])
            if given.kind == "AuthenticationOAuth2":
                names = {"issuerUrl": "issuer_url", "privateKey": "private_key"}
                renamed = {names.get(name, name): value for name, value in fields.items()}
                return pulsar.AuthenticationOauth2(json.dumps(renamed))
            if given.kind == "AuthenticationAthenz":
                return pulsar.AuthenticationAthenz(json.dumps(fields))
        except KeyError as error:
            raise ConfigurationError(f"{what}: {given.kind} needs parameter {error}") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "they are not what it takes"
            raise ConfigurationError(f"{what}: the parameters of {given.kind} can't be used: {why}") from None
        raise NotSupportedError(
            f"{what}: {given.plugin} is a Java class that this version has nothing for: take AuthenticationToken, "
            "AuthenticationTls, AuthenticationBasic, AuthenticationOAuth2 or AuthenticationAthenz"
        )

    def partitions(self, topic: str) -> list[str]:
        """The partitions of a topic, or the topic itself if it has none, by their full names.

        Raises:
            ConnectorError: there is no such topic, or Pulsar does not answer.
        """
        return list(
            self.asked(f"looking for topic {topic!r}", topic, self._client.get_topic_partitions, topic)
        )

    def reader(self, topic: str, message_id: Any, inclusive: bool, name: str | None, queue: int) -> Any:
        """A reader of a partition.

        Args:
            inclusive: whether with that message or behind it.
            queue: how many messages it has in store.
        """
        return self.asked(
            f"reading {topic!r}", topic, self._client.create_reader, topic, message_id,
            receiver_queue_size=queue, reader_name=name, start_message_id_inclusive=inclusive,
        )  # fmt: skip

    def subscribed(self, topic: str, subscription: str, name: str | None) -> Any:
        """The only consumer of a durable subscription; nothing is sent to it."""
        return self.asked(
            f"subscription {subscription!r} of {topic!r}", topic, self._client.subscribe, topic, subscription,
            consumer_type=self.pulsar.ConsumerType.Exclusive, receiver_queue_size=0, consumer_name=name,
            initial_position=self.pulsar.InitialPosition.Earliest,
        )  # fmt: skip

    def producer(self, topic: str, **arguments: Any) -> Any:
        """A producer of a partition."""
        return self.asked(f"writing to {topic!r}", topic, self._client.create_producer, topic, **arguments)

    def asked(self, doing: str, topic: str, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a method of the client.

        Raises:
            ConnectorError: it failed; an UnreachableError where another try may help.
        """
        try:
            return call(*arguments, **named)
        except self.pulsar.PulsarException as error:
            raise self.failure(doing, topic, type(error).__name__, str(error)) from None

    def failure(self, doing: str, topic: str, kind: str, text: str) -> ConnectorError:
        """What to raise when Pulsar did not do something; ``kind`` is the name of the client's error."""
        said = f"{self.named}: {doing} failed: {text.removeprefix('Pulsar error: ')}"
        if kind in ("TopicNotFound", "BrokerMetadataError"):
            return (RefusedForGoodError if kind == "TopicNotFound" else ConnectorError)(
                f"{self.named}: there is no topic {topic!r}: create it, or correct the name "
                "(persistent://tenant/namespace/topic; a name alone is in public/default)"
            )
        if kind == "AuthenticationError":
            return RefusedForGoodError(
                f"{said}. The broker does not let us in: give set_authentication() a plugin that the brokers use, and "
                "parameters that are valid, such as a token that has not expired"
            )
        if kind in ("AuthorizationError", "NotAllowedError"):
            return RefusedForGoodError(
                f"{said}. The role that logs in has no permission: let it produce to or consume from the namespace "
                "(pulsar-admin namespaces grant-permission)"
            )
        if kind in ("ConsumerBusy", "ProducerBusy", "ProducerFenced"):
            return UnreachableError(
                f"{said}. Another program, or a run of this job that is still going on, is connected under the same name: "
                "end it, or give this one another name (set_subscription_name, set_producer_name)."
            )
        if kind == "MessageTooBig":
            return RefusedForGoodError(
                f"{said}. The message is larger than the brokers take: make messages smaller, or let brokers take larger "
                "ones (maxMessageSize, 5 MB by default)"
            )
        if kind in _PASSING:
            return UnreachableError(f"{said}{self._reachability()}")
        return (RefusedForGoodError if kind in _LASTING else ConnectorError)(said)

    def _reachability(self) -> str:
        """What a plain connection says, where the client knows only that there was no answer."""
        found = []
        for host, port in self.properties.addresses():
            try:
                socket.create_connection((host, port), _PROBE_TIMEOUT_S).close()
                return (
                    ", although somebody listens there. Brokers that do not know the token, certificate or password of "
                    "set_authentication() answer like this, and their log says so; ones with TLS need a URL that "
                    "begins with pulsar+ssl://. One that does not answer in time, as it is stopped or busy, looks "
                    "like this, too: pulsar.client.connectionTimeoutMs says how long it is waited for"
                )
            except OSError as error:
                found.append(f"{host}:{port}: {error.strerror or error}")
        return f" ({'; '.join(found)}). Is Pulsar running, and is the service URL right?"

    @property
    def named(self) -> str:
        """Pulsar and where it is."""
        return f"Pulsar ({self.properties.service_url})"

    def close(self) -> None:
        """Let go of the connections, readers, consumers and producers."""
        # shutdown() keeps Python's lock, and may wait 10 s for it.
        with contextlib.suppress(self.pulsar.PulsarException):
            self._client.close()


_PASSING = names_of(
    "AlreadyClosed ConnectError Disconnected Interrupted LookupError NotConnected ServiceUnitNotReady Timeout "
    "TooManyLookupRequestException BrokerPersistenceError"
)
_LASTING = names_of(
    "CryptoError IncompatibleSchema InvalidConfiguration InvalidMessage InvalidTopicName InvalidUrl "
    "OperationNotSupported TopicTerminated UnsupportedVersionError"
)


def topics_of_namespace(properties: ClientProperties, namespace: str) -> list[str]:
    """The persistent topics of a namespace, and the partitions of those that have some, by Pulsar's HTTP service.

    Args:
        namespace: ``tenant/namespace``.

    Raises:
        ConnectorError: it did not answer.
    """
    assert properties.admin_url is not None
    url = f"{properties.admin_url.rstrip('/')}/admin/v2/persistent/{namespace}"
    request = urllib.request.Request(url, headers=_login(properties))
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_TIMEOUT_S, context=_context(properties)) as answer:
            return [str(each) for each in json.loads(answer.read())]
    except urllib.error.HTTPError as error:
        hint = (
            "let the role that logs in see the namespace"
            if error.code in (401, 403)
            else "is it the admin URL?"
        )
        raise (RefusedForGoodError if 400 <= error.code < 500 else ConnectorError)(
            f"Pulsar ({url}): listing topics failed: {error.code} {error.reason}; {hint}"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise UnreachableError(
            f"Pulsar ({url}): listing topics failed: {reason}. Is the admin URL right?"
        ) from None


def _login(properties: ClientProperties) -> dict[str, str]:
    given = properties.authentication
    if given is None or given.kind == "AuthenticationTls":
        return {}
    if given.kind == "AuthenticationToken":
        return {"Authorization": f"Bearer {given.token()}"}
    if given.kind == "AuthenticationBasic":
        fields = given.fields()
        pair = f"{fields['userId']}:{fields['password']}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    raise NotSupportedError(
        f"{properties.what}: a topic pattern asks the admin URL, which {given.kind} cannot be used for: give set_topics()"
    )


def _context(properties: ClientProperties) -> ssl.SSLContext | None:
    if not (properties.admin_url or "").startswith("https://"):
        return None
    context = ssl.create_default_context(cafile=properties.get(f"{_CLIENT}tlsTrustCertsFilePath"))
    if properties.flag(f"{_CLIENT}tlsAllowInsecureConnection", False):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    given = properties.authentication
    if given is not None and given.kind == "AuthenticationTls":
        fields = given.fields()
        context.load_cert_chain(fields["tlsCertFile"], fields["tlsKeyFile"])
    return context
