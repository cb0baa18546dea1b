"""A RabbitMQ broker, and what tests do with its queues."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
from pika.exceptions import AMQPError

from servers.process import HOST, Server, accepts_connections, free_port, require_program, wait_for

# Before PATH: what Debian has there changes the user and writes into /var/log.
_FOLDERS = ("/usr/lib/rabbitmq/bin",)
_CONFIGURATION = """
listeners.tcp.1 = {host}:{port}
listeners.ssl.1 = {host}:{tls_port}
ssl_options.cacertfile = {folder}/certificate.pem
ssl_options.certfile = {folder}/certificate.pem
ssl_options.keyfile = {folder}/key.pem
default_user = {user}
default_pass = {password}
loopback_users = none
log.console = true
log.console.level = warning
log.file = false
heartbeat = 60
max_message_size = 8000000
# Whatever this machine is short of is no matter here.
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.absolute = 1GB
"""
_SILENT_S = 60.0
_DURABLE_S = 3.0  # its database writes its log within two seconds
# The port mapper stays in our process group, so that it ends with the broker.
_COMMAND = 'epmd & mapper=$!; "$1" & broker=$!; trap "kill -TERM $broker" TERM; wait $broker; wait $broker; kill $mapper'


class RabbitMQServer(Server):
    """A broker.

    Attributes:
        user: Its only user, who may do all.
        password: Of that user.
        tls_port: Where it listens with TLS; its certificate is `certificate`, for the name ``localhost``.
    """

    name = "rabbitmq"
    users = ("rabbitmq", "nobody")
    user = "tester"
    password = "se:cr@t/word"

    def __init__(self) -> None:
        super().__init__()
        self.tls_port = free_port()
        self._mapper_port = free_port()
        self._distribution_port = free_port()
        self._declared_at = 0.0

    @classmethod
    def check_installed(cls) -> None:
        cls._script()
        for program, package in (("epmd", "erlang-base"), ("openssl", "openssl")):
            require_program(program, package=package)

    @staticmethod
    def _script() -> str:
        for folder in _FOLDERS:
            if (script := Path(folder) / "rabbitmq-server").is_file():
                return str(script)
        return require_program("rabbitmq-server", package="rabbitmq-server")

    def prepare(self) -> None:
        self.run_tool(
            [
                *(
                    "openssl",
                    "req",
                    "-x509",
                    "-newkey",
                    "rsa:2048",
                    "-nodes",
                    "-days",
                    "2",
                    "-subj",
                    "/CN=localhost",
                ),
                *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
                *("-keyout", str(self.folder / "key.pem"), "-out", str(self.certificate)),
            ]
        )
        self._write(
            "rabbitmq.conf",
            _CONFIGURATION.format(
                host=HOST,
                port=self.port,
                tls_port=self.tls_port,
                folder=self.folder,
                user=self.user,
                password=self.password,
            ),
        )
        self._write("enabled_plugins", "[].\n")

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o644)  # the folder is closed to others

    def command(self) -> list[str]:
        return ["/bin/sh", "-c", _COMMAND, "rabbitmq", self._script()]

    def environment(self) -> dict[str, str]:
        return {
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": f"tester{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_ALLOW_INPUT": "true",  # without a shell in between that would not pass signals on
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-noinput +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none "
                "-kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }

    def is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        with contextlib.suppress(AMQPError, OSError):
            self.connect().close()
            return True
        return False

    @property
    def certificate(self) -> Path:
        """The broker's own, which signs itself."""
        return self.folder / "certificate.pem"

    def uri(self, host: str = HOST) -> str:
        """``amqp://user:password@host:port/%2F``."""
        return f"amqp://{self.user}:{quote(self.password, safe='')}@{host}:{self.port}/%2F"

    def connect(self) -> pika.BlockingConnection:
        """A connection."""
        return pika.BlockingConnection(pika.URLParameters(self.uri()))

    @contextlib.contextmanager
    def channel(self) -> Iterator[Any]:
        """A channel of a connection of its own."""
        connection = self.connect()
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(AMQPError):
                connection.close()

    def create_queue(self, name: str | None = None, **arguments: Any) -> str:
        """Make a durable queue; its name. Arguments are the broker's, with underscores for dashes."""
        name = name or f"queue-{uuid.uuid4().hex[:12]}"
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        with self.channel() as channel:
            channel.queue_declare(name, durable=True, arguments=given)
        self._declared_at = time.monotonic()
        return name

    def wait_until_declared(self) -> None:
        """Wait until its queues are durable: one that was declared just before the broker was killed may be forgotten."""
        time.sleep(max(0.0, self._declared_at + _DURABLE_S - time.monotonic()))

    def let_go_of_a_silent_client(self) -> None:
        """Wait until the broker has closed a connection that promised a heartbeat each second and sends none."""
        said = len(self.log.read_text(errors="replace"))
        silent = pika.BlockingConnection(pika.URLParameters(f"{self.uri()}?heartbeat=1"))
        wait_for(
            lambda: "missed heartbeats from client" in self.log.read_text(errors="replace")[said:],
            f"{self.name} to let go of a silent client",
            _SILENT_S,
        )
        with contextlib.suppress(AMQPError, OSError):
            silent.close()

    def delete_queue(self, name: str) -> None:
        """Remove a queue."""
        with self.channel() as channel:
            channel.queue_delete(name)

    def publish(self, queue: str, messages: Iterable[bytes | str], ids: Iterable[str] | None = None) -> None:
        """Put messages into a queue, and wait until they are durable."""
        known = iter(ids) if ids is not None else None
        with self.channel() as channel:
            channel.tx_select()
            for body in messages:
                properties = pika.BasicProperties(
                    delivery_mode=2, correlation_id=None if known is None else next(known)
                )
                encoded = body.encode() if isinstance(body, str) else body
                channel.basic_publish("", queue, encoded, properties)
            channel.tx_commit()

    def take(self, queue: str) -> list[bytes]:
        """Take all messages that are ready out of a queue."""
        found = []
        with self.channel() as channel:
            while True:
                method, _, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return found
                found.append(body)

    def ready(self, queue: str) -> int:
        """How many messages a queue has that nobody has been given."""
        with self.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.message_count)

    def left(self, queue: str, timeout_s: float = 30.0) -> int:
        """How many messages a queue has once nobody reads it."""
        deadline = time.monotonic() + timeout_s
        with self.channel() as channel:
            while time.monotonic() < deadline:
                state = channel.queue_declare(queue, passive=True).method
                if not state.consumer_count:
                    return int(state.message_count)
                time.sleep(0.02)
        raise AssertionError(f"{queue} is still being read")
