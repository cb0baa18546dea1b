"""Pulsar: topics as sources, read from message ids of the job's own, and as sinks, at least once.

Pulsar's client (pulsar-client) reads and writes. Nothing here imports it before a source or sink is made: a program without
Pulsar does not need it.
"""

from changelog_engine.connectors.pulsar.cursors import CursorKind, StartPosition, Stop
from changelog_engine.connectors.pulsar.properties import Authentication, ClientProperties
from changelog_engine.connectors.pulsar.reader import PulsarMessage
from changelog_engine.connectors.pulsar.routing import Routing
from changelog_engine.connectors.pulsar.sink import OutgoingMessage, PulsarSink
from changelog_engine.connectors.pulsar.source import DiscoveringPulsarSource, PulsarSource, Topics

__all__ = [
    "Authentication",
    "ClientProperties",
    "CursorKind",
    "DiscoveringPulsarSource",
    "OutgoingMessage",
    "PulsarMessage",
    "PulsarSink",
    "PulsarSource",
    "Routing",
    "StartPosition",
    "Stop",
    "Topics",
]
