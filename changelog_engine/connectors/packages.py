"""Packages that only some connectors need: the one place that names them. They are imported when one is used, and quiet."""

from __future__ import annotations

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
    """

    said: str
    name: str
    extra: str
    module: str

    @property
    def advice(self) -> str:
        """What to say where it is not installed."""
        return f"{self.said} the package {self.name}: pip install 'changelog-engine[{self.extra}]'"

    def is_here(self) -> bool:
        """Whether it is installed; it is not imported for that."""
        return importlib.util.find_spec(self.module) is not None

    def load(self, *below: str) -> Any:
        """The package's module.

        Args:
            below: modules below it that are to be imported too.

        Raises:
            ConfigurationError: it is not installed.
        """
        try:
            first, *_ = [importlib.import_module(module) for module in (self.module, *below)]
            return first
        except ImportError:
            raise ConfigurationError(self.advice) from None


AVRO = Package("Avro needs", "fastavro", "avro", "fastavro")
CASSANDRA = Package("Cassandra needs", "cassandra-driver", "cassandra", "cassandra")
ELASTICSEARCH = Package("Elasticsearch and OpenSearch need", "urllib3", "elasticsearch", "urllib3")
KAFKA = Package("Kafka needs", "confluent-kafka", "kafka", "confluent_kafka")
KAFKA_TRANSACTIONS = Package("writing to Kafka exactly once needs", "kafka-python", "kafka", "kafka")
KINESIS = Package("Kinesis needs", "boto3", "kinesis", "boto3")
MYSQL = Package("JDBC's URLs of MySQL and MariaDB need", "pymysql", "jdbc", "pymysql")
POSTGRESQL = Package("JDBC's URLs of PostgreSQL need", "psycopg", "jdbc", "psycopg")
PULSAR = Package("Pulsar needs", "pulsar-client", "pulsar", "pulsar")
RABBITMQ = Package("RabbitMQ needs", "pika", "rabbitmq", "pika")


def quieten(logger: str) -> None:
    """Let a package's logger say nothing, unless the user gave it a level: what goes wrong is raised, and told once."""
    found = logging.getLogger(logger)
    if found.level == logging.NOTSET:
        found.setLevel(logging.CRITICAL)
