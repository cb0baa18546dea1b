"""Sources and sinks of Apache Pulsar. They need ``pip install 'changelog-engine[pulsar]'``."""

from changelog_engine.connectors.pulsar import OutgoingMessage, PulsarMessage

from ._pulsar_cursors import StartCursor, StopCursor
from ._pulsar_sink import (
    MessageDelayer,
    PulsarSerializationSchema,
    PulsarSink,
    PulsarSinkBuilder,
    TopicRoutingMode,
)
from ._pulsar_source import (
    PulsarDeserializationSchema,
    PulsarSource,
    PulsarSourceBuilder,
    RangeGenerator,
    SubscriptionType,
)

__all__ = [
    "MessageDelayer",
    "OutgoingMessage",
    "PulsarDeserializationSchema",
    "PulsarMessage",
    "PulsarSerializationSchema",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "SubscriptionType",
    "TopicRoutingMode",
]
