"""OpenSearch and Elasticsearch: a cluster of one node, with a login, and what tests do with its documents.

Their jars have no program to start that needs no installation, so `SearchNode.java` makes a node. It is compiled by
Eclipse's compiler, which is a jar too: no JDK is needed.
"""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import Any, ClassVar

import urllib3

from servers.process import (
    CACHE,
    HOST,
    Server,
    ServerFailed,
    ServerMissing,
    accepts_connections,
    free_port,
    java,
)

COMPILER = "org.eclipse.jdt:ecj:3.42.0"
SOURCE = Path(__file__).with_name("SearchNode.java")
_LOGGING = """
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
_MAX_REQUEST_BYTES = 1 << 20
_TIMEOUT_S = 60.0


class SearchServer(Server):
    """A cluster of one node. Its requests are a megabyte at most.

    Attributes:
        url: Its address.
        user: Who may use it.
        password: Of that user.
    """

    version: ClassVar[str]
    log4j_version: ClassVar[str]
    user = "tester"
    password = "se:cr@t/ö"

    def __init__(self) -> None:
        super().__init__()
        self.address = f"{HOST}:{self.port}"
        self.url = f"http://{self.address}"
        self._transport_port = free_port()
        self._http = urllib3.PoolManager(retries=False)

    @classmethod
    def libraries(cls) -> Path:
        """The folder of the jars."""
        return CACHE / f"{cls.name}-{cls.version}"

    @classmethod
    def check_installed(cls) -> None:
        java()
        if not cls.libraries().is_dir():
            raise ServerMissing(f"{cls.name} {cls.version} is not here: make servers")

    @classmethod
    def source(cls) -> str:
        """The node's program for this product."""
        text = SOURCE.read_text(encoding="utf-8")
        if cls.name == "opensearch":
            return text
        return text.replace("org.opensearch.core.rest", "org.elasticsearch.rest").replace(
            "org.opensearch", "org.elasticsearch"
        )

    def prepare(self) -> None:
        (self.folder / "log4j2.properties").write_text(_LOGGING)

    def command(self) -> list[str]:
        settings = {
            "cluster.name": "tests",
            "network.host": HOST,
            "http.port": self.port,
            "http.max_content_length": f"{_MAX_REQUEST_BYTES}b",
            "transport.port": self._transport_port,
            "discovery.type": "single-node",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
        quick = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        logging = [
            "-Dlog4j2.disable.jmx=true",
            f"-Dlog4j.configurationFile={self.folder / 'log4j2.properties'}",
        ]
        jars = self.libraries()
        path = f"{jars / 'classes'}:{jars}/*"
        given = [str(self.folder), self.user, self.password]
        named = [f"{name}={value}" for name, value in settings.items()]
        return [java(), *quick, *logging, "-Dfile.encoding=UTF-8", "-cp", path, "SearchNode", *given, *named]

    def environment(self) -> dict[str, str]:
        return {"LC_ALL": "C.UTF-8"}  # of the password, among the arguments

    def is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        try:
            health = self.request("GET", "/_cluster/health", missing_is_none=True)
        except (urllib3.exceptions.HTTPError, ServerFailed):
            return False
        return bool(health) and health["status"] != "red" and not health["initializing_shards"]

    def request(self, method: str, path: str, body: Any = None, *, missing_is_none: bool = False) -> Any:
        """Send a request; its answer.

        Raises:
            ServerFailed: The cluster refused it.
        """
        response = self._http.request(
            method,
            self.url + path,
            body=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "Authorization": "Basic " + _base64(f"{self.user}:{self.password}"),
            },
            timeout=_TIMEOUT_S,
        )
        if response.status == 404 and missing_is_none:
            return None
        if response.status >= 300:
            raise ServerFailed(f"{method} {path}: {response.status} {response.data.decode()}")
        return json.loads(response.data)

    def create_index(self, name: str | None = None, **properties: str) -> str:
        """Make an index.

        Args:
            name: Its name. Default: one that no other index has.
            properties: Types of its fields.

        Returns:
            The name.
        """
        name = name or f"index-{uuid.uuid4().hex[:12]}"
        fields = {field: {"type": kind} for field, kind in properties.items()}
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        self.request("PUT", f"/{name}", {"settings": settings, "mappings": {"properties": fields}})
        return name

    def documents(self, index: str) -> dict[str, dict[str, Any]]:
        """All documents of an index, by id. At most 10,000."""
        self.request("POST", f"/{index}/_refresh")
        found = self.request("POST", f"/{index}/_search", {"size": 10_000})["hits"]["hits"]
        return {each["_id"]: each["_source"] for each in found}

    def count(self, index: str) -> int:
        """How many documents an index has; 0 when there is none."""
        if self.request("POST", f"/{index}/_refresh", missing_is_none=True) is None:
            return 0
        return int(self.request("GET", f"/{index}/_count")["count"])


class OpenSearchServer(SearchServer):
    """OpenSearch."""

    name = "opensearch"
    version = "2.19.3"
    log4j_version = "2.21.0"


class ElasticsearchServer(SearchServer):
    """Elasticsearch."""

    name = "elasticsearch"
    version = "7.17.28"
    log4j_version = "2.17.1"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
