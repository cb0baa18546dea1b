"""RabbitMQ: a queue as a source, whose messages are acknowledged when a checkpoint covers them, and as a sink.

pika talks to the broker. Nothing here imports it before a connection is made: a program without RabbitMQ does not need it.
"""

from changelog_engine.connectors.rabbitmq.options import (
    LARGEST_FRAME,
    LARGEST_SHORT,
    LARGEST_TIMEOUT_MS,
    SMALLEST_FRAME,
    ConnectionOptions,
    from_uri,
)
from changelog_engine.connectors.rabbitmq.sink import QueueSink
from changelog_engine.connectors.rabbitmq.source import QueueSource

__all__ = [
    "ConnectionOptions",
    "LARGEST_FRAME",
    "LARGEST_SHORT",
    "LARGEST_TIMEOUT_MS",
    "QueueSink",
    "QueueSource",
    "SMALLEST_FRAME",
    "from_uri",
]
