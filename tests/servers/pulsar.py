"""A Pulsar broker with its storage in one process, and what tests do with its topics."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.request import Request, urlopen

import pulsar
from rocksdict import Options, Rdict

from servers.process import (
    CACHE,
    HOST,
    Server,
    ServerMissing,
    accepts_connections,
    classes_options,
    free_port,
    java,
)

VERSION = "3.0.7"
LIBRARIES = CACHE / f"pulsar-{VERSION}"
TOKENS = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
_SECRET = hashlib.sha256(os.urandom(32)).digest()
_OPENED = """
java.base/java.nio java.base/java.util.zip java.base/jdk.internal.misc java.base/sun.net java.management/sun.management
"""
_CONFIGURATION = """
brokerServicePort={port}
webServicePort={http_port}
bindAddress={host}
advertisedAddress={host}
clusterName=standalone
listeningInterface=lo
allowLoopback=true
prometheusStatsHttpPort=0
httpServerEnabled=false
allowAutoTopicCreation=false
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
numHttpServerThreads=4
numIOThreads=2
loadBalancerEnabled=false
transactionCoordinatorEnabled=false
topicLevelPoliciesEnabled=false
webSocketServiceEnabled=false
# Whatever this machine is short of is no matter here.
diskUsageThreshold=0.99999
diskUsageWarnThreshold=0.9999
diskUsageLwmThreshold=0.9999
minUsableSizeForIndexFileCreation=0
journalMaxSizeMB=64
journalSyncData=false
# A ledger may be closed, and then deleted, as soon as it has one entry.
managedLedgerMinLedgerRolloverTimeMinutes=0
authenticationEnabled=true
authorizationEnabled=true
authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken
superUserRoles=admin
tokenSecretKey=data:;base64,{secret}
brokerClientAuthenticationPlugin={plugin}
brokerClientAuthenticationParameters=token:{token}
"""
_LOGGING = """
<Configuration status="ERROR">
  <Appenders><Console name="log"><PatternLayout pattern="%level %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="log"/></Root></Loggers>
</Configuration>
"""


class PulsarServer(Server):
    """A broker. Whoever asks needs a token: `token` makes one for a role; ``admin`` may do all.

    Args:
        jvm_options: more options of its JVM.

    Attributes:
        http_port: Where its HTTP service listens.
    """

    name = "pulsar"

    def __init__(self, *, jvm_options: Sequence[str] = ()) -> None:
        super().__init__()
        self._jvm_options = jvm_options
        self.http_port = free_port()
        self._storage_port = free_port()
        self._client: pulsar.Client | None = None

    @classmethod
    def check_installed(cls) -> None:
        java()
        if not LIBRARIES.is_dir():
            raise ServerMissing(f"Pulsar {VERSION} is not here ({LIBRARIES.name}): make servers")

    def prepare(self) -> None:
        (self.folder / "standalone.conf").write_text(
            _CONFIGURATION.format(
                host=HOST,
                port=self.port,
                http_port=self.http_port,
                secret=base64.b64encode(_SECRET).decode(),
                plugin=TOKENS,
                token=self.token("admin"),
            )
        )
        (self.folder / "log4j2.xml").write_text(_LOGGING)

    def command(self) -> list[str]:
        modules = [f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED.split()]
        quick = ["-Xmx512m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        given = {
            "io.netty.tryReflectionSetAccessible": "true",
            "java.io.tmpdir": self.folder,
            "log4j2.configurationFile": self.folder / "log4j2.xml",
        }
        settings = [f"-D{name}={value}" for name, value in given.items()]
        options = ["-c", "standalone.conf", "-nfw", "-nss", "-a", HOST]
        options += ["--metadata-dir", "metadata", "--bookkeeper-dir", "bookkeeper"]
        options += ["--bookkeeper-port", str(self._storage_port)]
        starter = "org.apache.pulsar.PulsarStandaloneStarter"
        quick += [*classes_options(LIBRARIES), *self._jvm_options]
        return [java(), *quick, *modules, *settings, "-cp", f"{LIBRARIES}/*", starter, *options]

    def kill(self) -> None:
        if self._client is not None:  # it would wait longer and longer between two tries to connect
            self._client.close()
            self._client = None
        super().kill()

    def start(self) -> None:
        self._end_sessions()
        super().start()

    def _end_sessions(self) -> None:
        """Remove what says that the storage is there, as its session's end would have done.

        RocksDB, where the metadata lie, knows no end of a session, so a process that was killed leaves that entry. The next
        process replaces it by its own; on a busy machine it hears that the old one is gone when its own is there, takes that
        for the end of its own, and replaces it for ever (apache/pulsar, issue 17759). Meanwhile nothing is stored or read.
        """
        metadata = self.folder / "metadata"
        if metadata.is_dir() and not self.running:
            with contextlib.closing(Rdict(str(metadata), Options(raw_mode=True))) as entries:
                for name in list(entries.keys()):
                    if name.startswith(b"/ledgers/available/"):
                        del entries[name]

    def is_ready(self) -> bool:
        if not accepts_connections(self.http_port):
            return False
        with contextlib.suppress(OSError):
            return "public/default" in json.loads(self.ask("namespaces/public"))
        return False

    @property
    def url(self) -> str:
        """``pulsar://host:port``."""
        return f"pulsar://{HOST}:{self.port}"

    @property
    def admin_url(self) -> str:
        """``http://host:port``."""
        return f"http://{HOST}:{self.http_port}"

    @staticmethod
    def token(role: str) -> str:
        """A token for a role."""

        def encoded(part: bytes) -> str:
            return base64.urlsafe_b64encode(part).rstrip(b"=").decode()

        body = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256"}, {"sub": role}))
        return f"{body}.{encoded(hmac.digest(_SECRET, body.encode(), 'sha256'))}"

    def ask(self, path: str, method: str = "GET", body: Any = None) -> bytes:
        """Send a request to the HTTP service; what it answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token('admin')}", "Content-Type": "application/json"}
        request = Request(f"{self.admin_url}/admin/v2/{path}", data, headers, method=method)
        with urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    @property
    def client(self) -> pulsar.Client:
        """A client of the role ``admin``."""
        if self._client is None:
            self._client = pulsar.Client(
                self.url,
                authentication=pulsar.AuthenticationToken(self.token("admin")),
                logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
            )
        return self._client

    def create_topic(self, partitions: int | None = None, name: str | None = None) -> str:
        """Make a topic of public/default, with partitions or without; its short name."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        if partitions is None:
            self.ask(f"persistent/public/default/{name}", "PUT", {})
        else:
            self.ask(f"persistent/public/default/{name}/partitions", "PUT", partitions)
        return name

    def put(self, topic: str, values: Iterable[Any], **more: Any) -> list[bytes]:
        """Write messages, each an entry of its own, in this order; their ids."""
        found = []
        with self._producer(topic) as producer:
            for value in values:
                encoded = value if isinstance(value, bytes) else str(value).encode()
                found.append(producer.send(encoded, **more))
        return [each.serialize() for each in found]

    def put_batches(self, topic: str, values: Iterable[Any], size: int) -> None:
        """Write messages, so many in one entry."""
        arguments = {"batching_max_messages": size, "batching_max_publish_delay_ms": 10_000}
        with self._producer(topic, batching_enabled=True, block_if_queue_full=True, **arguments) as producer:
            for value in values:
                producer.send_async(str(value).encode(), lambda result, message_id: None)
            producer.flush()

    @contextlib.contextmanager
    def _producer(self, topic: str, **arguments: Any) -> Iterator[Any]:
        producer = self.client.create_producer(topic, **arguments)
        try:
            yield producer
        finally:
            producer.close()

    def messages(self, topic: str) -> list[Any]:
        """All messages that a topic's partitions have."""
        found = []
        for partition in self.client.get_topic_partitions(topic):
            reader = self.client.create_reader(partition, pulsar.MessageId.earliest)
            while reader.has_message_available():
                found.append(reader.read_next(10_000))
            reader.close()
        return found

    def values(self, topic: str) -> list[str]:
        """The values of all messages, as text."""
        return [message.data().decode() for message in self.messages(topic)]

    def subscription(self, topic: str, name: str) -> dict[str, Any]:
        """What the broker knows of a partition's subscription."""
        stats = json.loads(self.ask(f"persistent/public/default/{topic}/internalStats"))
        return dict(stats["cursors"][name])

    def unload(self, topic: str) -> None:
        """Let the broker close the topic and its ledger, and open it again when it is used."""
        self.ask(f"persistent/public/default/{topic}/unload", "PUT")

    def trim(self, topic: str) -> None:
        """Let the broker delete what no subscription needs."""
        self.ask(f"persistent/public/default/{topic}/trim", "POST")
