"""A queue of RabbitMQ as source and sink. They need ``pip install 'changelog-engine[rabbitmq]'``."""

from __future__ import annotations

from typing import Annotated, Any, Self

from changelog_engine.connectors import packages
from changelog_engine.connectors import rabbitmq as engine
from changelog_engine.errors import ConfigurationError
from changelog_engine.types import TypeInformation

from ..._arguments import Password, SuchAs, Whole, checked, whole_number
from ..._kept_settings import kept
from ..._needs import needs
from ...common.serialization import DeserializationSchema, SerializationSchema
from ..functions import SinkFunction, SourceFunction

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource"]

_Short = Annotated[int, Whole(0, engine.LARGEST_SHORT)]
_Timeout = Annotated[int, Whole(0, engine.LARGEST_TIMEOUT_MS)]


class RMQConnectionConfig:
    """Where a broker is, and how it is spoken to; made by its builder.

    Example:
        >>> builder = RMQConnectionConfig.Builder().set_host("localhost").set_port(5672).set_virtual_host("/")
        >>> builder.set_user_name("me").set_password("x").build()
        RMQConnectionConfig(host='localhost', port=5672, virtual_host='/', user_name='me')
    """

    def __init__(self, options: engine.ConnectionOptions, uri: str | None = None) -> None:
        self._options = options
        self._uri = uri

    def get_host(self) -> str:
        """The host; of a URI, the one that it has."""
        return self._options.host

    def get_port(self) -> int:
        """The port; of a URI without one, 5672, or 5671 with TLS."""
        return self._options.port

    def get_virtual_host(self) -> str:
        """The virtual host."""
        return self._options.virtual_host

    def get_user_name(self) -> str:
        """The user."""
        return self._options.user

    def get_password(self) -> str:
        """The password."""
        return self._options.password

    def get_uri(self) -> str | None:
        """The URI as it was given, with its password; or None."""
        return self._uri

    def get_network_recovery_interval(self) -> int | None:
        """The time between two tries to connect, in ms; None for 5,000."""
        return self._options.network_recovery_interval_ms

    def is_automatic_recovery(self) -> bool | None:
        """Whether an attempt tries to connect more than once; None for yes."""
        return self._options.automatic_recovery

    def is_topology_recovery(self) -> bool | None:
        """What was set, or None; see `Builder.set_topology_recovery_enabled`."""
        return self._options.topology_recovery

    def get_connection_timeout(self) -> int | None:
        """How long a try to connect may take, in ms; None for 10,000 to connect and 15,000 in all, 0 for ever."""
        return self._options.connection_timeout_ms

    def get_requested_channel_max(self) -> int | None:
        """The largest number of channels asked for, 0 for no limit; None for the broker's."""
        return self._options.channel_max

    def get_requested_frame_max(self) -> int | None:
        """The largest frame asked for, in bytes, 0 for no limit; None for the broker's."""
        return self._options.frame_max

    def get_requested_heartbeat(self) -> int | None:
        """The heartbeat asked for, in seconds, 0 for none; None for the broker's."""
        return self._options.heartbeat_s

    def __repr__(self) -> str:
        options = self._options
        return (
            f"RMQConnectionConfig(host={options.host!r}, port={options.port}, virtual_host={options.virtual_host!r}, "
            f"user_name={options.user!r})"
        )

    @checked
    class Builder:
        """Builds `RMQConnectionConfig`. Its methods return the builder.

        A URI, or host, port, virtual host, user and password are needed; a URI takes the place of those.
        """

        def __init__(self) -> None:
            self._given: dict[str, Any] = {}
            self._uri: str | None = None
            self._of_uri: dict[str, Any] = {}

        def set_port(self, port: Annotated[int, Whole(1, 65_535)]) -> Self:
            """Set the port.

            Args:
                port: 5672 where brokers are left as they are.
            """
            return self._set("port", port)

        def set_host(self, host: str) -> Self:
            """Set the host.

            Args:
                host: name or address.
            """
            return self._set("host", host)

        def set_virtual_host(self, vhost: str) -> Self:
            """Set the virtual host.

            Args:
                vhost: ``/`` where brokers are left as they are.
            """
            return self._set("virtual_host", vhost)

        def set_user_name(self, user_name: str) -> Self:
            """Set the user.

            Args:
                user_name: ``guest`` is let in from the broker's own machine only, where brokers are left as they are.
            """
            return self._set("user", user_name)

        def set_password(self, password: Password) -> Self:
            """Set the password. It is shipped to the workers, and is in no message and no table.

            Args:
                password: of the user.
            """
            return self._set("password", password)

        def set_uri(self, uri: Password) -> Self:
            """Set the URI, which takes the place of host, port, virtual host, user and password.

            Args:
                uri: ``amqp://user:password@host:port/virtual_host``, or ``amqps://...`` for TLS. Parameters after ``?``:
                    ``heartbeat`` (s), ``connection_timeout`` (ms), ``channel_max``; for TLS ``cacertfile``, ``certfile``,
                    ``keyfile`` (PEM files, on every worker) and ``verify=verify_none``.

            Raises:
                ConfigurationError: not such a URI, or another parameter.
            """
            self._of_uri = engine.from_uri(uri, "RMQConnectionConfig.Builder.set_uri")
            self._uri = uri
            return self

        @kept
        def set_topology_recovery_enabled(self, topology_recovery_enabled: bool) -> Self:
            """Set whether queues, exchanges and consumers are made again after a lost connection."""
            return self._set("topology_recovery", topology_recovery_enabled)

        def set_requested_heartbeat(self, requested_heartbeat: _Short) -> Self:
            """Set how often the two sides say that they are there. Epochs may take longer: a thread of its own says it.

            Args:
                requested_heartbeat: in seconds; 0 for none, by default the broker's (60).
            """
            return self._set("heartbeat_s", requested_heartbeat)

        def set_requested_frame_max(self, requested_frame_max: int) -> Self:
            """Set the size of the largest frame; messages may be larger.

            Args:
                requested_frame_max: in bytes, from 4,096 to 131,072; 0 for the largest.
            """
            if requested_frame_max != 0 or isinstance(requested_frame_max, bool):
                what = "RMQConnectionConfig.Builder.set_requested_frame_max: requested_frame_max"
                whole_number(requested_frame_max, what, engine.SMALLEST_FRAME, engine.LARGEST_FRAME)
            return self._set("frame_max", requested_frame_max)

        def set_requested_channel_max(self, requested_channel_max: _Short) -> Self:
            """Set how many channels a connection may have; one is used.

            Args:
                requested_channel_max: 0 for no limit.
            """
            return self._set("channel_max", requested_channel_max)

        def set_network_recovery_interval(self, network_recovery_interval: _Timeout) -> Self:
            """Set the time between two tries to connect.

            Args:
                network_recovery_interval: in ms; by default 5,000.
            """
            return self._set("network_recovery_interval_ms", network_recovery_interval)

        def set_connection_timeout(self, connection_timeout: _Timeout) -> Self:
            """Set how long a try to connect may take.

            Args:
                connection_timeout: in ms; 0 for ever.
            """
            return self._set("connection_timeout_ms", connection_timeout)

        def set_automatic_recovery(self, automatic_recovery: bool) -> Self:
            """Set whether an attempt of the job tries for a minute to connect, or once.

            A connection that is lost fails the attempt in either case, and the job's restart strategy decides: what was not
            acknowledged comes again, so the state has to go back to the checkpoint.

            Args:
                automatic_recovery: by default True.
            """
            return self._set("automatic_recovery", automatic_recovery)

        def set_prefetch_count(self, prefetch_count: _Short) -> Self:
            """Set how many messages a source may have that are not acknowledged.

            Messages are acknowledged by checkpoints, so this is also how many are read between two of them.

            Args:
                prefetch_count: by default 0: no limit between two checkpoints, and few wait in the worker.
            """
            return self._set("prefetch_count", prefetch_count)

        def build(self) -> RMQConnectionConfig:
            """The configuration.

            Raises:
                ConfigurationError: something is missing.
            """
            if self._uri is not None:
                own = {name: value for name, value in self._given.items() if name not in _OF_URI}
                return RMQConnectionConfig(engine.ConnectionOptions(**{**self._of_uri, **own}), self._uri)
            for name, method in _OF_URI.items():
                if name not in self._given:
                    raise ConfigurationError(
                        f"RMQConnectionConfig.Builder.build: give {method} or set_uri() first"
                    )
            return RMQConnectionConfig(engine.ConnectionOptions(**self._given))

        def _set(self, name: str, value: Any) -> Self:
            self._given[name] = value
            return self


_OF_URI = {
    "host": "set_host()",
    "port": "set_port()",
    "virtual_host": "set_virtual_host()",
    "user": "set_user_name()",
    "password": "set_password()",
}


@checked
@needs(packages.RABBITMQ)
class RMQSource(SourceFunction):
    """A source of the messages of a queue, for ``env.add_source``; unbounded, read by one subtask.

    Messages are acknowledged when a checkpoint that covers them is durable. What was not acknowledged when the job fails
    comes again:

    * with correlation ids and checkpoints, each message counts exactly once: the checkpoint has the ids of messages that may
      come again, and they are dropped;
    * without correlation ids, with checkpoints, at least once: the state goes back to the checkpoint, but messages that it
      covers and whose acknowledgement was lost count again;
    * without checkpoints messages are acknowledged when they are read, and correlation ids are not looked at: those that
      were being processed when the job failed are lost.

    Args:
        connection_config: where the broker is.
        queue_name: the queue. If it is missing when the job starts it is made, durable.
        use_correlation_id: whether every message has a correlation id that no other message has.
        deserialization_schema: what turns the bodies of messages into elements; None leaves a message out.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> builder = RMQConnectionConfig.Builder().set_uri("amqp://me:x@localhost:5672/%2F")
        >>> source = RMQSource(builder.build(), "orders", True, SimpleStringSchema())
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        use_correlation_id: bool,
        deserialization_schema: Annotated[DeserializationSchema, SuchAs("SimpleStringSchema()")],
    ) -> None:
        self._schema = deserialization_schema
        options = connection_config._options
        super().__init__(engine.QueueSource(options, queue_name, use_correlation_id, deserialization_schema))

    def get_produced_type(self) -> TypeInformation | None:
        """Type of the elements."""
        return self._schema.get_produced_type()


@checked
@needs(packages.RABBITMQ)
class RMQSink(SinkFunction):
    """A sink that puts elements into a queue, for ``DataStream.add_sink``: at least once.

    An epoch ends only when the broker has confirmed its messages, which are persistent. After a failure those since the last
    checkpoint are written again. A message that the broker refuses or cannot deliver fails the job.

    Args:
        connection_config: where the broker is.
        queue_name: the queue. If it is missing when the job starts it is made, durable.
        serialization_schema: what turns elements into bytes.

    Example:
        >>> from changelog_engine.api.common.serialization import SimpleStringSchema
        >>> builder = RMQConnectionConfig.Builder().set_uri("amqp://me:x@localhost:5672/%2F")
        >>> sink = RMQSink(builder.build(), "bills", SimpleStringSchema())
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        serialization_schema: Annotated[SerializationSchema, SuchAs("SimpleStringSchema()")],
    ) -> None:
        super().__init__(engine.QueueSink(connection_config._options, queue_name, serialization_schema))
