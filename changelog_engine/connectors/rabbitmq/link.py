"""A connection to the broker with one channel. A thread of its own serves it, so heartbeats go on whatever the job does.

Invariants:
    * pika's objects are touched by the link's thread only, once the link is open.
    * Once the link has failed, every call says why, for ever: nothing reconnects behind a caller's back, because the broker
      gives what was not acknowledged to somebody else then.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from changelog_engine.connectors import reconnecting
from changelog_engine.connectors.packages import RABBITMQ
from changelog_engine.connectors.rabbitmq.options import (
    BLOCKED_TIMEOUT_S,
    RECOVERY_INTERVAL_MS,
    ConnectionOptions,
)
from changelog_engine.connectors.reconnecting import UnreachableError
from changelog_engine.errors import ConnectorError, RefusedForGoodError

log = logging.getLogger("changelog_engine")

ANSWER_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 10.0
GONE = "it was deleted, or the broker has lost its storage, and what waited in it is lost"


class Link:
    """An open connection and its channel.

    Args:
        changed: who waits on it is woken when the link has failed.

    Raises:
        ConnectorError: there is no connection to be had.
    """

    def __init__(self, options: ConnectionOptions, changed: threading.Condition) -> None:
        pika = RABBITMQ.load()
        self.channel: Any = None
        self._options = options
        self._changed = changed
        self._failed: ConnectorError | None = None
        self._closing = False
        # Guards what follows, and the loop against being asked when it is closed.
        self._lock = threading.Lock()
        self._served = True
        self.blocked: str | None = None  # why the broker takes no messages now
        self._opened: Future[Any] = Future()
        self._waiting: set[Future[Any]] = {self._opened}
        self._connection = pika.SelectConnection(
            options.parameters(),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._channel_open),
            on_open_error_callback=lambda _, error: self._ended("connecting", error),
            on_close_callback=lambda _, error: self._ended("the connection", error),
        )
        self._connection.add_on_connection_blocked_callback(self._is_blocked)
        self._connection.add_on_connection_unblocked_callback(self._is_unblocked)
        self._thread = threading.Thread(target=self._serve, name="rabbitmq", daemon=True)
        self._thread.start()
        try:
            self._opened.result(ANSWER_TIMEOUT_S + (options.connection_timeout_ms or 0) / 1000)
        except TimeoutError:
            self.close()
            raise failure(options, "connecting", "there was no answer in time") from None

    def _serve(self) -> None:
        try:
            self._connection.ioloop.start()
            self.fail(failure(self._options, "the connection", "it was closed"))
        except BaseException as error:
            self.fail(failure(self._options, "the connection", error))
        with self._lock:
            self._served = False
        self._connection.ioloop.close()

    def _channel_open(self, channel: Any) -> None:
        self.channel = channel
        channel.add_on_close_callback(self._channel_closed)
        self._forget(self._opened)
        self._opened.set_result(None)

    def fail(self, error: ConnectorError) -> None:
        """In the link's thread: let every call raise this from now on."""
        with self._lock:
            if self._failed is None and not self._closing:
                self._failed = error
            waiting, self._waiting = self._waiting, set()
            failed = self._failed or failure(self._options, "the connection", "it was closed")
        for one in waiting:
            one.set_exception(failed)
        with self._changed:
            self._changed.notify_all()

    def refuse(self, doing: str, why: Any) -> None:
        """As `fail`, with what the broker did not do, and why: see `failure`."""
        self.fail(failure(self._options, doing, why))

    def _ended(self, doing: str, error: Any) -> None:
        self.refuse(doing, error)
        loop = self._connection.ioloop
        loop.add_callback_threadsafe(loop.stop)  # after what pika still does, such as closing the socket

    def _channel_closed(self, channel: Any, reason: Any) -> None:
        lost = not isinstance(reason, RABBITMQ.load().exceptions.ChannelClosed)
        self.fail(failure(self._options, "the connection" if lost else "the channel", reason))
        if self._connection.is_open:
            self._connection.close()

    def _is_blocked(self, connection: Any, frame: Any) -> None:
        self.blocked = str(frame.method.reason)
        log.warning(
            "%s takes no messages until it has room again (%s); after %d s without the job fails",
            self._options.where,
            self.blocked,
            BLOCKED_TIMEOUT_S,
        )

    def _is_unblocked(self, connection: Any, frame: Any) -> None:
        self.blocked = None

    @property
    def failed(self) -> bool:
        """Whether it has failed."""
        return self._failed is not None

    def check(self) -> None:
        """Raise what the link failed with, if it has."""
        if self._failed is not None:
            raise self._failed

    def soon(self, work: Callable[[], None]) -> None:
        """Let the link's thread do something, without waiting for it.

        Raises:
            ConnectorError: the link has failed.
        """
        self.check()
        with self._lock:
            if self._served:
                self._connection.ioloop.add_callback_threadsafe(work)
        self.check()

    def call(self, work: Callable[[Callable[..., None]], None], doing: str) -> None:
        """Let the link's thread do something, and wait until the broker has answered.

        Args:
            work: begins it; is given what to call with the answer.

        Raises:
            ConnectorError: the link has failed, or there was no answer in time.
        """
        answer: Future[Any] = Future()
        with self._lock:
            if self._failed is None:
                self._waiting.add(answer)

        def answered(*_: Any) -> None:
            self._forget(answer)
            if not answer.done():
                answer.set_result(None)

        self.soon(lambda: work(answered))
        try:
            answer.result(ANSWER_TIMEOUT_S)
        except TimeoutError:
            self._forget(answer)
            raise failure(self._options, doing, f"no answer for {ANSWER_TIMEOUT_S:.0f} s") from None

    def _forget(self, answer: Future[Any]) -> None:
        with self._lock:
            self._waiting.discard(answer)

    def close(self) -> None:
        """End the connection: the broker has back what was not acknowledged."""
        self._closing = True
        with self._lock:
            if self._served:
                self._connection.ioloop.add_callback_threadsafe(self._end)
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _end(self) -> None:
        if self._connection.is_open:
            self._connection.close()
        elif not self._connection.is_closing:
            self._ended("connecting", "it was given up")


def connected(
    options: ConnectionOptions,
    changed: threading.Condition,
    sleep: Callable[[float], None] = time.sleep,
) -> Link:
    """A link, after some tries: a broker that is being restarted comes back.

    Raises:
        ConnectorError: the broker does not answer for a minute, or does not let us in.
    """
    interval_ms = options.network_recovery_interval_ms
    pause_s = (RECOVERY_INTERVAL_MS if interval_ms is None else interval_ms) / 1000
    patience_s = 0.0 if options.automatic_recovery is False else reconnecting.PATIENCE_S
    return reconnecting.connected(
        lambda: Link(options, changed), options.where, pause_s, sleep, patience_s=patience_s
    )


def declare(options: ConnectionOptions, queue: str) -> bool:
    """Make sure that a queue is there: one that is missing is made durable, as by Flink; returns whether it was.

    Raises:
        ConnectorError: no connection, or the broker does not let us.
    """
    pika = RABBITMQ.load()
    # A broker that is silent within the handshake ends it with an error of pika's that is not one of AMQPError.
    workflow = pika.adapters.utils.connection_workflow.AMQPConnectorException
    try:
        connection = pika.BlockingConnection(options.parameters())
    except (OSError, pika.exceptions.AMQPError, workflow) as error:
        raise failure(options, "connecting", error) from None
    try:
        try:
            connection.channel().queue_declare(queue, passive=True)
            return False
        except pika.exceptions.ChannelClosedByBroker as error:
            if error.reply_code != _NOT_FOUND:
                raise
            connection.channel().queue_declare(queue, durable=True)
            log.warning(
                "%s: queue %r was not there, and was made, durable. If the job used it before, %s",
                options.where,
                queue,
                GONE,
            )
            return True
    except (OSError, pika.exceptions.AMQPError) as error:
        raise failure(options, f"looking for queue {queue!r}", error) from None
    finally:
        if connection.is_open:
            connection.close()


_NOT_FOUND = 404
_REFUSED = 403
# Too large, no right, no such queue, a queue of another kind, not allowed; and what has such a code, and may pass.
_LASTING = (311, _REFUSED, _NOT_FOUND, 406, 530)
_PASSING = re.compile("delivery acknowledgement on channel|is down or inaccessible")


def failure(options: ConnectionOptions, doing: str, error: Any) -> ConnectorError:
    """What to raise when the broker did not do something; pika's exception, or a str, says why."""
    exceptions = RABBITMQ.load().exceptions
    where, cause = options.where, _cause(error)
    if isinstance(cause, (exceptions.ProbableAuthenticationError, exceptions.AuthenticationError)) or (
        isinstance(cause, exceptions.ConnectionClosed)
        and cause.reply_code == _REFUSED
        and "ACCESS_REFUSED - Login" in cause.reply_text
    ):
        return RefusedForGoodError(
            f"{where} refuses user {options.user!r}: the password is wrong, there is no such user, or it may not log in "
            "from here (guest may only from the broker's own machine)"
        )
    if isinstance(cause, exceptions.ProbableAccessDeniedError):
        return RefusedForGoodError(
            f"{where} does not let user {options.user!r} into the virtual host: it does not exist, or the user has no "
            "permissions there (rabbitmqctl set_permissions)"
        )
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return RefusedForGoodError(
            f"{where}: {doing} failed, TLS: {cause}. Is the port one for TLS? Name the authority that signed the broker's "
            "certificate by cacertfile in the URI"
        )
    kind: type[ConnectorError] = ConnectorError
    if isinstance(cause, (exceptions.ChannelClosed, exceptions.ConnectionClosed)):
        if cause.reply_code in _LASTING and _PASSING.search(cause.reply_text) is None:
            kind = RefusedForGoodError
        text = f"the broker says {cause.reply_code} {cause.reply_text}"
        if "delivery acknowledgement on channel" in cause.reply_text:
            text += ": checkpoints come more seldom than its consumer_timeout allows"
        if cause.reply_code == _NOT_FOUND:
            text += f": {GONE}. The program makes it when it is started again"
    else:
        text = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}".rstrip(": ")
    if doing == "connecting":
        return UnreachableError(
            f"{where} cannot be reached: {text}. Is it running, and does it listen there? (a port for TLS needs a URI that "
            "begins with amqps://)"
        )
    return kind(f"{where}: {doing} failed: {text}")


def _cause(error: Any) -> Any:
    """The innermost of pika's errors round errors."""
    for _ in range(10):
        inner = getattr(error, "exceptions", None) or getattr(error, "exception", None)
        if (
            inner is None
            and isinstance(error, BaseException)
            and type(error).__name__ == "AMQPConnectionError"
        ):
            inner = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
        if not inner:
            return error
        error = inner[-1] if isinstance(inner, (list, tuple)) else inner
    return error
