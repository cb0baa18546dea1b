"""Where the broker is, and how it is spoken to.

Invariant: the password is in no text that this module gives.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from changelog_engine.connectors.packages import RABBITMQ
from changelog_engine.errors import ConfigurationError

PORT = 5672
TLS_PORT = 5671
# The protocol has 16 bits for heartbeats, channels and messages that are not acknowledged
LARGEST_SHORT = 65_535
LARGEST_TIMEOUT_MS = 2**31 - 1
SMALLEST_FRAME, LARGEST_FRAME = 4_096, 131_072
RECOVERY_INTERVAL_MS = 5_000
# Of a client that was stopped the broker knows after three; until then it keeps messages from others
HEARTBEAT_S = 20
# How long a broker that is out of memory or disk may take nothing before the job fails
BLOCKED_TIMEOUT_S = 300
_SCHEMES = {"amqp": False, "amqps": True}
_TLS_PARAMETERS = ("cacertfile", "certfile", "keyfile", "verify")


@dataclass(frozen=True)
class Tls:
    """How a connection with TLS is made. The broker's certificate and name are checked unless ``verify`` is False.

    Args:
        ca_file: whom to trust; None for whom the system trusts.
        cert_file, key_file: what the client shows; the key may be in the first file.
        verify: whether the broker must show a certificate that is trusted.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """What Python's ssl makes of it."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


@dataclass(frozen=True)
class ConnectionOptions:
    """Where the broker is, and how to log in and connect.

    Args:
        tls: None for a plain connection.
        automatic_recovery: False: a broker that does not answer is not asked again, the attempt of the job fails.
        topology_recovery: kept, without effect: a new connection has a new consumer.
        connection_timeout_ms: how long a try to connect may take; None for pika's default, 0 for ever.
        channel_max, frame_max: asked of the broker; None for its own. 0 means no limit.
        heartbeat_s: asked of the broker, which may have a shorter one; None for 20 s. 0 means no heartbeats.
        prefetch_count: how many messages the source may have that are not acknowledged; None or 0 for no limit.
    """

    host: str
    port: int
    virtual_host: str
    user: str
    password: str = field(repr=False)
    tls: Tls | None = None
    network_recovery_interval_ms: int | None = None
    automatic_recovery: bool | None = None
    topology_recovery: bool | None = None
    connection_timeout_ms: int | None = None
    channel_max: int | None = None
    frame_max: int | None = None
    heartbeat_s: int | None = None
    prefetch_count: int | None = None

    @property
    def where(self) -> str:
        """The broker, for messages."""
        return f"RabbitMQ ({self.host}:{self.port}, virtual host {self.virtual_host!r})"

    def parameters(self) -> Any:
        """Pika's parameters.

        Raises:
            ConfigurationError: pika is not installed, or files of TLS that cannot be read.
        """
        pika = RABBITMQ.load()
        given: dict[str, Any] = {}
        if self.tls is not None:
            try:
                given["ssl_options"] = pika.SSLOptions(self.tls.context(), self.host)
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                raise ConfigurationError(
                    f"{self.where}: the certificates for TLS cannot be used: {error}"
                ) from None
        if self.connection_timeout_ms is not None:
            timeout_s = self.connection_timeout_ms / 1000 or None
            given |= {"socket_timeout": timeout_s, "stack_timeout": timeout_s}
        if self.channel_max:
            given["channel_max"] = self.channel_max
        if self.frame_max:
            given["frame_max"] = self.frame_max
        given["heartbeat"] = HEARTBEAT_S if self.heartbeat_s is None else self.heartbeat_s
        return pika.ConnectionParameters(
            host=self.host,
            port=self.port,
            virtual_host=self.virtual_host,
            credentials=pika.PlainCredentials(self.user, self.password),
            blocked_connection_timeout=BLOCKED_TIMEOUT_S,
            **given,
        )


def from_uri(uri: str, what: str) -> dict[str, Any]:
    """The arguments of `ConnectionOptions` that a URI has.

    Args:
        uri: ``amqp://user:password@host:port/virtual%20host?heartbeat=30``, or ``amqps://``.

    Raises:
        ConfigurationError: not such a URI, or a parameter that is not known.
    """
    parts, asked = _split(uri, what)
    tls = _SCHEMES[parts.scheme]
    virtual_host = unquote(parts.path[1:]) if parts.path else "/"
    if "/" in parts.path[1:]:
        raise ConfigurationError(
            f"{what}: the virtual host of the URI has a slash: write %2F for each that belongs to its name"
        )
    found: dict[str, Any] = {
        "host": parts.hostname,
        "port": parts.port or (TLS_PORT if tls else PORT),
        "virtual_host": virtual_host,
        "user": "guest" if parts.username is None else unquote(parts.username),
        "password": "guest" if parts.password is None else unquote(parts.password),
    }
    for name, (field_name, most) in _PARAMETERS.items():
        if name in asked:
            found[field_name] = _number(asked.pop(name), f"{what}: the URI's {name}", most)
    of_tls = {name: asked.pop(name) for name in _TLS_PARAMETERS if name in asked}
    if asked:
        known = ", ".join([*_PARAMETERS, *_TLS_PARAMETERS])
        raise ConfigurationError(f"{what}: the URI has {sorted(asked)[0]!r}, which is not one of {known}")
    if of_tls and not tls:
        raise ConfigurationError(f"{what}: {sorted(of_tls)[0]!r} is for URIs that begin with amqps://")
    if tls:
        found["tls"] = _tls(of_tls, what)
    return found


def _split(uri: str, what: str) -> tuple[SplitResult, dict[str, str]]:
    """The parts of a URI, and its parameters."""
    try:
        parts = urlsplit(uri)
        usable = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0 and not parts.fragment
        # An @ behind the host: what stands before it may be the rest of a password with a character such as / or ?.
        if usable and "@" not in parts.path + parts.query:
            strict = bool(parts.query)
            return parts, dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=strict))
    except ValueError:  # a port that is not a number, a parameter without a value
        pass
    raise ConfigurationError(
        f"{what}: the URI must look like amqp://user:password@host:5672/virtual_host?heartbeat=30, or begin with amqps:// "
        "for TLS; characters such as /, ? and @ in its parts are written as %2F, %3F and %40"
    )


def _tls(asked: dict[str, str], what: str) -> Tls:
    verify = asked.get("verify", "verify_peer")
    if verify not in ("verify_peer", "verify_none"):
        raise ConfigurationError(
            f"{what}: the URI's verify must be verify_peer or verify_none, got {verify!r}"
        )
    if "keyfile" in asked and "certfile" not in asked:
        raise ConfigurationError(f"{what}: the URI has keyfile and no certfile, which belongs to it")
    return Tls(asked.get("cacertfile"), asked.get("certfile"), asked.get("keyfile"), verify == "verify_peer")


def _number(text: str, what: str, most: int) -> int:
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not digits or int(text) > most:
        raise ConfigurationError(f"{what} must be a whole number from 0 to {most:,}, got {text!r}")
    return int(text)


_PARAMETERS = {  # the field, and its largest value
    "heartbeat": ("heartbeat_s", LARGEST_SHORT),
    "connection_timeout": ("connection_timeout_ms", LARGEST_TIMEOUT_MS),
    "channel_max": ("channel_max", LARGEST_SHORT),
}
