"""Clients' properties: Java's names in, librdkafka's out; what is secret stays unseen.

Invariant: the repr of whatever holds a property never shows a secret value, so no log, error or plan can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from changelog_engine.config.names import names_of
from changelog_engine.connectors.properties import Properties, Secret, checked
from changelog_engine.errors import NotSupportedError

_SECRET_NAMES = names_of(
    "sasl.password sasl.jaas.config sasl.oauthbearer.client.secret sasl.oauthbearer.config ssl.key.password "
    "ssl.key.pem ssl.keystore.key ssl.keystore.password ssl.truststore.password"
)

# Java's names of what librdkafka calls otherwise.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}

# What only Java's clients have, or what programs give though it is for brokers or other tools: it does nothing here.
_LEFT_OUT = names_of(
    "auto.create.topics.enable auto.include.jmx.reporter client.id.prefix commit.offsets.on.checkpoint "
    "default.api.timeout.ms exclude.internal.topics flink.disable-metrics flink.poll-timeout "
    "flink.partition-discovery.interval-millis key.deserializer key.serializer max.block.ms max.poll.records "
    "metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metric.reporters metrics.num.samples "
    "metrics.recording.level metrics.sample.window.ms partition.assignment.strategy "
    "partition.discovery.interval.ms partitioner.adaptive.partitioning.enable "
    "partitioner.availability.timeout.ms partitioner.ignore.keys register.consumer.metrics "
    "register.producer.metrics scan.topic-partition-discovery.interval schema.registry.url security.providers "
    "socket.connection.setup.timeout.max.ms specific.avro.reader ssl.enabled.protocols ssl.protocol "
    "ssl.provider ssl.secure.random.implementation value.deserializer value.serializer zookeeper.connect"
)

_DEFAULT_PARTITIONERS = frozenset(
    {
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
        "org.apache.kafka.clients.producer.UniformStickyPartitioner",
    }
)
_JAAS = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_JAAS_WITH_NAME = ("PlainLoginModule", "ScramLoginModule")


class ClientProperties(Properties):
    """Properties of Kafka clients, as users give them.

    Args:
        given: Java's names or librdkafka's, to values.
        what: names the giver in errors, such as ``KafkaSource``.

    Raises:
        ConfigurationError: a name or a value that is not a str, or a property that cannot be used; named.
        NotSupportedError: a property whose value only Java's clients can use.

    Example:
        >>> given = {"max.poll.records": "5", "fetch.max.wait.ms": "10", "sasl.password": "secret"}
        >>> ClientProperties(given, "KafkaSource").settings
        {'fetch.wait.max.ms': '10', 'sasl.password': '***'}
    """

    def __init__(self, given: Mapping[str, Any], what: str) -> None:
        super().__init__(checked(given, what, _SECRET_NAMES), what)
        self.settings = self._translate()

    @property
    def bootstrap_servers(self) -> str:
        """Where the cluster is."""
        return self.given.get("bootstrap.servers", "")

    def redacted(self, text: object) -> str:
        """A message without secret values."""
        message = str(text)
        values = (*self.given.values(), *self.settings.values())
        secrets = [value for value in values if isinstance(value, Secret) and value]
        for secret in sorted(secrets, key=len, reverse=True):
            message = message.replace(str(secret), "***")
        return message

    def _translate(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        for name, value in self.given.items():
            if name in _LEFT_OUT or name.startswith(("interceptor.", "metrics.", "flink.")):
                continue
            if name in ("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password"):
                continue
            if name in ("ssl.keystore.type", "sasl.jaas.config", "sasl.login.class", "partitioner.class"):
                continue
            if name == "buffer.memory":
                settings["queue.buffering.max.kbytes"] = str(
                    max(1, self.number(name, 0, 0, 2**63 - 1) // 1024)
                )
            elif name == "ssl.endpoint.identification.algorithm":
                settings[name] = value or "none"
            elif name == "auto.offset.reset" and value == "none":
                settings[name] = "error"
            else:
                settings[_RENAMED.get(name, name)] = value
        self._add_stores(settings)
        self._add_login(settings)
        self._check_partitioner()
        if "config.providers" in self.given:
            raise NotSupportedError(
                f"{self.what}: property 'config.providers' names Java classes that replace ${{...}} in other properties: "
                "leave it out, and give the values themselves"
            )
        return settings

    def _add_stores(self, settings: dict[str, str]) -> None:
        location = self.given.get("ssl.truststore.location")
        if location is not None:
            self._refuse_java_store("ssl.truststore", location, ("PEM",), "a PEM file: ssl.ca.location")
            settings["ssl.ca.location"] = location
        location = self.given.get("ssl.keystore.location")
        if location is not None:
            allowed = ("PEM", "PKCS12")
            kind = self._refuse_java_store(
                "ssl.keystore", location, allowed, "PKCS12, or PEM files: ssl.certificate.location"
            )
            if kind == "PEM":
                settings["ssl.certificate.location"] = settings.pop("ssl.keystore.location")
                settings.setdefault("ssl.key.location", location)

    def _refuse_java_store(self, store: str, location: str, allowed: tuple[str, ...], instead: str) -> str:
        kind = self.given.get(f"{store}.type", "")
        if not kind:
            ending = location.lower().rpartition(".")[2]
            kind = {"pem": "PEM", "crt": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}.get(ending, "JKS")
        if kind.upper() not in allowed:
            raise NotSupportedError(
                f"{self.what}: property '{store}.location' is a Java key store of type {kind}, which librdkafka cannot "
                f"read; give {instead}"
            )
        return kind.upper()

    def _add_login(self, settings: dict[str, str]) -> None:
        login = self.given.get("sasl.jaas.config")
        if login is None:
            return
        fields = dict(_JAAS.findall(login))
        if not any(module in login for module in _JAAS_WITH_NAME) or not {"username", "password"} <= set(
            fields
        ):
            raise NotSupportedError(
                f"{self.what}: of property 'sasl.jaas.config' only PlainLoginModule and ScramLoginModule with username "
                "and password are understood; give librdkafka's sasl.* properties instead"
            )
        settings.setdefault("sasl.username", _unescaped(fields["username"]))
        settings.setdefault("sasl.password", Secret(_unescaped(fields["password"])))

    def _check_partitioner(self) -> None:
        chosen = self.given.get("partitioner.class")
        if chosen is not None and chosen not in _DEFAULT_PARTITIONERS:
            raise NotSupportedError(
                f"{self.what}: property 'partitioner.class' names a Java class; give librdkafka's property "
                "'partitioner', or nothing for Java's default partitioning"
            )


def merged(properties: Mapping[str, Any], defaults: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The properties, and the defaults that they don't have."""
    return {**dict(defaults), **properties}


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
