"""A Cassandra node, and what tests do with its tables."""

from __future__ import annotations

import contextlib
import json
import logging
import uuid
from collections.abc import Sequence
from typing import Any

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session

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

VERSION = "5.0.5"
LIBRARIES = CACHE / f"cassandra-{VERSION}"
_TIMEOUT_S = 60.0
# Of the node's own conf/jvm17-server.options.
_EXPORTED = """
java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch java.rmi/sun.rmi.registry java.rmi/sun.rmi.server
java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.transport.tcp java.sql/java.sql
"""
_OPENED = """
java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.nio java.base/java.util
java.base/java.util.concurrent java.base/java.util.concurrent.atomic java.base/jdk.internal.loader
java.base/jdk.internal.math
java.base/jdk.internal.module java.base/jdk.internal.ref java.base/jdk.internal.reflect java.base/jdk.internal.util.jar
java.base/sun.nio.ch java.rmi/sun.rmi.transport.tcp jdk.management/com.sun.management.internal
"""
_LOGGING = """
<configuration>
  <appender name="log" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%level %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="log"/></root>
</configuration>
"""


class CassandraServer(Server):
    """A cluster of one node.

    Args:
        jvm_options: more options of its JVM.

    Attributes:
        user: Its superuser.
        password: Of that user.
    """

    name = "cassandra"
    user = "cassandra"
    password = "cassandra"

    def __init__(self, *, jvm_options: Sequence[str] = ()) -> None:
        super().__init__()
        self._jvm_options = jvm_options
        self._storage_port = free_port()
        self._session: Session | None = None

    @classmethod
    def check_installed(cls) -> None:
        java()
        if not LIBRARIES.is_dir():
            raise ServerMissing(f"Cassandra {VERSION} is not here ({LIBRARIES.name}): make servers")

    def prepare(self) -> None:
        configuration: dict[str, Any] = {
            "cluster_name": "tests",
            "num_tokens": 1,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "commitlog_sync": "batch",  # what it has acknowledged outlives kill -9
            "commitlog_segment_size": "4MiB",
            "data_file_directories": [str(self.folder / "data")],
            **{
                f"{name}_directory": str(self.folder / name)
                for name in ("commitlog", "saved_caches", "hints", "cdc_raw")
            },
            "listen_address": HOST,
            "rpc_address": HOST,
            "storage_port": self._storage_port,
            "native_transport_port": self.port,
            "endpoint_snitch": "SimpleSnitch",
            "authenticator": "PasswordAuthenticator",
            "seed_provider": [
                {
                    "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                    "parameters": [{"seeds": f"{HOST}:{self._storage_port}"}],
                }
            ],
        }
        (self.folder / "cassandra.yaml").write_text(json.dumps(configuration))  # JSON is YAML
        (self.folder / "logback.xml").write_text(_LOGGING)

    def command(self) -> list[str]:
        modules = [f"--add-exports={each}=ALL-UNNAMED" for each in _EXPORTED.split()]
        modules += [f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED.split()]
        settings = {
            "cassandra.config": (self.folder / "cassandra.yaml").as_uri(),
            "cassandra.storagedir": self.folder,
            "cassandra.superuser_setup_delay_ms": 0,
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "cassandra.ring_delay_ms": 1,
            "java.io.tmpdir": self.folder,
            "jdk.attach.allowAttachSelf": "true",
            "logback.configurationFile": self.folder / "logback.xml",
        }
        given = [f"-D{name}={value}" for name, value in settings.items()]
        quick = ["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        daemon = "org.apache.cassandra.service.CassandraDaemon"
        quick += [*classes_options(LIBRARIES), *self._jvm_options]
        return [java(), *quick, *modules, *given, "-cp", f"{LIBRARIES}/*", daemon]

    def is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        logging.getLogger("cassandra").setLevel(logging.CRITICAL)
        with contextlib.suppress(NoHostAvailable, OSError):
            self.execute("SELECT key FROM system.local")
            return True
        return False

    def kill(self) -> None:
        self._forget()
        super().kill()

    def _forget(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.cluster.shutdown()

    def execute(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement; its rows, if it has any. ``%s`` stand for parameters."""
        if self._session is None:
            profile = ExecutionProfile(request_timeout=_TIMEOUT_S)
            cluster = Cluster(
                [HOST],
                port=self.port,
                auth_provider=PlainTextAuthProvider(self.user, self.password),
                execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                connect_timeout=_TIMEOUT_S,
            )
            try:
                self._session = cluster.connect()
            except BaseException:
                cluster.shutdown()
                raise
        return [tuple(row) for row in self._session.execute(query, parameters or None)]

    def create_table(self, columns: str) -> str:
        """Make a table with a name of its own; ``keyspace.table``."""
        self.execute(
            "CREATE KEYSPACE IF NOT EXISTS tests WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        name = f"tests.t{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE TABLE {name} ({columns})")
        return name
