"""Packages that only some connectors need: the one place that names them. They are imported when one is used, and quiet."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from dataclasses import dataclass
from typing import Any

from changelog_engine.errors import ConfigurationError


@dataclass(frozen=True)
class Package:
    """A package that a connector needs.

    Args:
        said: who needs it, with the verb, such as "Kafka needs".
        name: of the package, as ``pip`` knows it.
        extra: of this project's, which brings the package.
        more: modules below its own that are imported with it.
        logger: that is to say nothing unless the user gave it a level: what goes wrong is raised, and told once.
    """

    said: str
    name: str
    extra: str
    module: str
    more: tuple[str, ...] = ()
    logger: str | None = None

    @property
    def advice(self) -> str:
        """What to say where it is not installed."""
        return f"{self.said} the package {self.name}: pip install 'changelog-engine[{self.extra}]'"

    def is_here(self) -> bool:
        """Whether it is installed; it is not imported for that."""
        return importlib.util.find_spec(self.module) is not None

    def _in_its_place(self) -> str | None:
        """A file of the user's with the name of its module, such as a script ``kafka.py``; None for none."""
        with contextlib.suppress(ImportError, ValueError):  # half-imported modules have no spec
            spec = importlib.util.find_spec(self.module)
            if spec is not None and spec.origin is not None and not spec.submodule_search_locations:
                return spec.origin
        return None

    def load(self) -> Any:
        """The package's module."""
        try:
            first, *_ = [importlib.import_module(module) for module in (self.module, *self.more)]
        except ImportError:
            advice, other = self.advice, self._in_its_place()
            if other is not None:
                advice = f"{self.said} the package {self.name}, and {other} is imported in its place: "
                advice += "give that file another name"
            raise ConfigurationError(advice) from None
        if self.logger is not None and logging.getLogger(self.logger).level == logging.NOTSET:
            logging.getLogger(self.logger).setLevel(logging.CRITICAL)
        return first


_OF_CASSANDRA = tuple(f"cassandra.{name}" for name in ("auth", "cluster", "protocol", "query"))
_OF_KINESIS = tuple(f"botocore.{name}" for name in ("config", "exceptions", "loaders", "session"))
_OF_TRANSACTIONS = ("kafka.admin", "kafka.protocol.metadata", "kafka.protocol.producer.transaction")

AVRO = Package("Avro needs", "fastavro", "avro", "fastavro")
CASSANDRA = Package(
    "Cassandra needs", "cassandra-driver", "cassandra", "cassandra", _OF_CASSANDRA, "cassandra"
)
ELASTICSEARCH = Package("Elasticsearch and OpenSearch need", "urllib3", "elasticsearch", "urllib3")
KAFKA = Package("Kafka needs", "confluent-kafka", "kafka", "confluent_kafka")
KAFKA_TRANSACTIONS = Package(
    "writing to Kafka exactly once needs", "kafka-python", "kafka", "kafka", _OF_TRANSACTIONS, "kafka"
)
KINESIS = Package("Kinesis needs", "boto3", "kinesis", "botocore", _OF_KINESIS)
MYSQL = Package("JDBC's URLs of MySQL and MariaDB need", "pymysql", "jdbc", "pymysql")
POSTGRESQL = Package("JDBC's URLs of PostgreSQL need", "psycopg", "jdbc", "psycopg")
PULSAR = Package("Pulsar needs", "pulsar-client", "pulsar", "pulsar")
RABBITMQ = Package(
    "RabbitMQ needs", "pika", "rabbitmq", "pika", ("pika.adapters.utils.connection_workflow",), logger="pika"
)
