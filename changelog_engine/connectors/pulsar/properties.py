"""Flink's options of Pulsar's connectors: which there are, and what they mean here.

Invariant: the repr of whatever holds an option never shows a secret value, so no log, error or plan can.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from changelog_engine.config.names import names_of
from changelog_engine.connectors.properties import Properties, checked
from changelog_engine.errors import ConfigurationError, NotSupportedError

_CLIENT, _SOURCE, _CONSUMER, _SINK, _PRODUCER = (
    f"pulsar.{part}." for part in ("client", "source", "consumer", "sink", "producer")
)
_ADMIN_URL = "pulsar.admin.adminUrl"


_EFFECTIVE = {
    "both": {_ADMIN_URL}
    | names_of(
        "serviceUrl authPluginClassName authParams authParamMap operationTimeoutMs connectionTimeoutMs numIoThreads "
        "concurrentLookupRequest listenerName tlsKeyFilePath tlsCertificateFilePath tlsTrustCertsFilePath "
        "tlsAllowInsecureConnection tlsHostnameVerificationEnable",
        _CLIENT,
    ),
    "source": {"changelog.on-data-loss"}
    | names_of("partitionDiscoveryIntervalMs autoCommitCursorInterval verifyInitialOffsets", _SOURCE)
    | names_of("subscriptionName consumerName receiverQueueSize", _CONSUMER),
    "sink": names_of("deliveryGuarantee topicMetadataRefreshInterval messageKeyHash", _SINK)
    | names_of(
        "producerName sendTimeoutMs batchingMaxPublishDelayMicros batchingMaxMessages batchingMaxBytes batchingEnabled "
        "compressionType properties",
        _PRODUCER,
    ),
}
# What tunes Java's client and Flink's threads, and does nothing here.
_LEFT_OUT = {
    "both": names_of(
        "lookupTimeoutMs statsIntervalSeconds numListenerThreads connectionsPerBroker connectionMaxIdleSeconds "
        "useTcpNoDelay maxLookupRequest maxLookupRedirects maxNumberOfRejectedRequestPerConnection "
        "keepAliveIntervalSeconds requestTimeoutMs initialBackoffIntervalNanos maxBackoffIntervalNanos enableBusyWait "
        "sslProvider tlsCiphers tlsProtocols memoryLimitBytes dnsLookupBindAddress",
        _CLIENT,
    ),
    "source": names_of(
        "enableAutoAcknowledgeMessage fetchOneMessageTime maxFetchTime maxFetchRecords allowKeySharedOutOfOrderDelivery "
        "enableMetrics initialCursor",
        _SOURCE,
    )
    | names_of(
        "subscriptionProperties acknowledgementsGroupTimeMicros negativeAckRedeliveryDelayMicros "
        "maxTotalReceiverQueueSizeAcrossPartitions ackTimeoutMillis tickDurationMillis priorityLevel "
        "maxPendingChunkedMessage autoAckOldestChunkedMessageOnQueueFull expireTimeOfIncompleteChunkedMessageMillis "
        "properties retryEnable replicateSubscriptionState ackReceiptEnabled poolMessages "
        "autoScaledReceiverQueueSizeEnabled",
        _CONSUMER,
    ),
    "sink": names_of(
        "transactionTimeoutMillis maxRecommitTimes enableMetrics validateSinkMessageBytes", _SINK
    )
    | names_of("batchingPartitionSwitchFrequencyByPublishDelay chunkMaxMessageSize", _PRODUCER),
}
_JAVA_STORES = "takes Java's key stores: give PEM files by 'pulsar.client.tlsTrustCertsFilePath', '...tlsKeyFilePath' and "
_JAVA_STORES += "'...tlsCertificateFilePath'"
_STORE_NAMES = "tlsKeyStoreType tlsKeyStorePath tlsKeyStorePassword "
_STORE_NAMES += "tlsTrustStoreType tlsTrustStorePath tlsTrustStorePassword"
_PROXY_NAMES = "proxyServiceUrl proxyProtocol socks5ProxyAddress socks5ProxyUsername socks5ProxyPassword"
_NO_PROXY = "is not known to Pulsar's Python client: give the address of Pulsar's own proxy as service URL"
_NO_ENCRYPTION = "is about encrypted messages, which are not part of this version"
_NO_SCHEMA = "is about Pulsar's schemas, which are not part of this version: messages are bytes to the serialization schema"
# Options that would change what a job does, with the values that change nothing.
_REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(names_of(_STORE_NAMES, _CLIENT), ((), _JAVA_STORES)),
    **dict.fromkeys(names_of(_PROXY_NAMES, _CLIENT), ((), _NO_PROXY)),
    f"{_CLIENT}useKeyStoreTls": (("false",), _JAVA_STORES),
    f"{_CLIENT}enableTransaction": (("false",), "needs transactions, which Pulsar's Python client does not have"),
    f"{_SOURCE}enableSchemaEvolution": (("false",), _NO_SCHEMA),
    f"{_SOURCE}resetSubscriptionCursor": (
        ("true",), "is always true here: a job that starts from nothing begins at its start cursor, one with a checkpoint "
        "goes on there",
    ),
    f"{_CONSUMER}subscriptionMode": (("Durable",), "must be Durable: the subscription keeps what the job may still need"),
    f"{_CONSUMER}subscriptionType": (
        ("Exclusive", "Failover"), "must be Exclusive or Failover: with the others the broker decides who reads what, and "
        "what was read could not be read again",
    ),
    f"{_CONSUMER}readCompacted": (("false",), "is not part of this version: every message is read"),
    f"{_CONSUMER}cryptoFailureAction": (("FAIL",), _NO_ENCRYPTION),
    f"{_SINK}enableSchemaEvolution": (("false",), _NO_SCHEMA),
    f"{_PRODUCER}chunkingEnabled": (("false",), "is not part of this version: a message is as large as brokers take them"),
    f"{_PRODUCER}initialSequenceId": ((), "makes brokers drop what is written after a restore"),
    f"{_PRODUCER}producerCryptoFailureAction": (("FAIL",), _NO_ENCRYPTION),
}  # fmt: skip
_SECRET_NAMES = names_of(
    "authParams authParamMap tlsKeyStorePassword tlsTrustStorePassword socks5ProxyPassword", _CLIENT
)
_MAPS = (f"{_CLIENT}authParamMap", f"{_PRODUCER}properties")


@dataclass(frozen=True)
class Authentication:
    """How to log in.

    Args:
        plugin: Java's class; its last part decides.
        params: as Flink has them, ``key:value,...``, JSON, or a dict.
    """

    plugin: str
    params: str | Mapping[str, str] = field(repr=False)

    @property
    def kind(self) -> str:
        """The class's name without its package."""
        return self.plugin.rpartition(".")[2]

    def fields(self) -> dict[str, str]:
        """The parameters by their names."""
        if not isinstance(self.params, str):
            return dict(self.params)
        if self.params.lstrip().startswith("{"):
            found = json.loads(self.params)
            return {str(name): str(value) for name, value in found.items()}
        pairs = (pair.partition(":") for pair in self.params.split(",") if ":" in pair)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def token(self) -> str:
        """The token, of a class that has one; a file is read now."""
        if isinstance(self.params, str) and not self.params.startswith(("token:", "file:", "{")):
            return self.params
        if isinstance(self.params, str) and self.params.startswith("file:"):
            path: str | None = urlsplit(self.params).path
        else:
            fields = self.fields()
            if "token" in fields:
                return fields["token"]
            path = urlsplit(fields["file"]).path if "file" in fields else None
        if path is None:
            raise KeyError("token")
        with open(path, encoding="utf-8") as file:
            return file.read().strip()


class ClientProperties(Properties):
    """Options of a source or a sink, checked.

    Args:
        given: by Flink's names.
        what: the class that they are of, for messages.
        authentication: how to log in; None for what the options say, or no login.

    Raises:
        ArgumentTypeError: a value that is not a str, a number or a bool.
        ConfigurationError: an unknown option, a value that cannot be used, or no service URL.
        NotSupportedError: an option that only Java's client can use.
    """

    noun = "option"

    def __init__(
        self, given: Mapping[str, Any], what: str, kind: str, authentication: Authentication | None = None
    ) -> None:
        super().__init__({}, what)
        self.maps: dict[str, dict[str, str]] = {}
        effective = _EFFECTIVE["both"] | _EFFECTIVE[kind]
        left_out = _LEFT_OUT["both"] | _LEFT_OUT[kind]
        for name, value in given.items():
            if name in _MAPS and isinstance(value, Mapping):
                self.maps[name] = {str(key): str(each) for key, each in value.items()}
        texts = {name: value for name, value in given.items() if name not in self.maps}
        for name, text in checked(texts, what, _SECRET_NAMES).items():
            if name in _REFUSED:
                allowed, why = _REFUSED[name]
                if text.lower() not in [each.lower() for each in allowed]:
                    raise NotSupportedError(f"{what}: option {name!r} {why}")
            elif name in effective:
                self.given[name] = text
            elif name not in left_out:
                raise ConfigurationError(f"{what}: option {name!r} is not known to Flink's Pulsar connector")
        self.authentication = authentication or self._authentication()
        self._check_url()

    def _authentication(self) -> Authentication | None:
        plugin = self.given.pop(f"{_CLIENT}authPluginClassName", None)
        params: Any = self.given.pop(f"{_CLIENT}authParams", None)
        params = self.maps.pop(f"{_CLIENT}authParamMap", params)
        if (plugin is None) != (params is None):
            raise ConfigurationError(
                f"{self.what}: '{_CLIENT}authPluginClassName' and '{_CLIENT}authParams' or '...authParamMap' need each other"
            )
        return None if plugin is None else Authentication(plugin, params)

    def _check_url(self) -> None:
        url = self.given.get(f"{_CLIENT}serviceUrl")
        if url is None:
            raise ConfigurationError(f"{self.what}: call set_service_url() first")
        if not url.startswith(("pulsar://", "pulsar+ssl://", "http://", "https://")) or not self.addresses():
            raise ConfigurationError(
                f"{self.what}: the service URL must look like pulsar://host:6650 or pulsar+ssl://host:6651, got {url!r}"
            )
        if "@" in url:
            raise ConfigurationError(
                f"{self.what}: a service URL has no user and password; call set_authentication()"
            )

    @property
    def service_url(self) -> str:
        """Where the brokers are."""
        return self.given[f"{_CLIENT}serviceUrl"]

    @property
    def admin_url(self) -> str | None:
        """Where their HTTP service is, where that was given."""
        return self.get(_ADMIN_URL)

    def addresses(self) -> list[tuple[str, int]]:
        """Hosts and ports of the service URL."""
        scheme, _, rest = self.service_url.partition("://")
        port = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}[scheme]
        found = []
        for each in rest.partition("/")[0].split(","):
            try:
                parts = urlsplit(f"//{each}")
                if parts.hostname:
                    found.append((parts.hostname, parts.port or port))
            except ValueError:
                return []
        return found

    def __repr__(self) -> str:
        return f"ClientProperties({self.given!r}, {self.authentication!r})"
