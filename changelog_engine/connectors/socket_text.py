"""The lines that a server sends over a TCP connection, as Flink's ``socketTextStream`` reads them.

A server does not send again what it has sent: after a restore the reader connects anew, and what it had been given after the
checkpoint is lost, as in Flink. The log says so when it happens.

The position is the number of lines given.
"""

from __future__ import annotations

import codecs
import logging
import socket
import time
from typing import Any

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.protocols import Position, Range, Source, Split, SplitReader
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, ConnectorError
from changelog_engine.types import Types

log = logging.getLogger("changelog_engine")

_WAIT_S = 0.05  # for the first bytes of a read; an epoch ends with what is there
_READ_S = 0.5
_BYTES = 1 << 16
_CONNECT_S = 30.0
_RETRY_S = 0.5


class SocketTextSource(Source):
    """Reads lines from one server, in one subtask.

    Args:
        port: 1 to 65535.
        delimiter: what ends a line, and is not part of it. Where it is a newline, a carriage return before it is not part of
            the line either.
        max_retry: how many connections are made, one after the other, where the server closes them: 0 and 1 end with the
            first, -1 never ends. A connection that cannot be made, or is broken, is an error.
    """

    parallel = False
    replayable = False
    output_type = Types.STRING()

    def __init__(self, host: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> None:
        given: dict[str, Any] = {
            "hostname": host,
            "delimiter": delimiter,
            "port": port,
            "maxRetry": max_retry,
        }
        for name, value in given.items():
            wanted = str if name in ("hostname", "delimiter") else int
            if not isinstance(value, wanted) or isinstance(value, bool) or value == "":
                kind = "a non-empty str" if wanted is str else "an int"
                raise ArgumentTypeError(f"socketTextStream: {name} must be {kind}, got {value!r}")
        if not 0 < port < 65536:
            raise ConfigurationError(f"socketTextStream: port must be 1 to 65535, got {port}")
        if max_retry < -1:
            raise ConfigurationError(f"socketTextStream: maxRetry must be -1 or more, got {max_retry}")
        self.host = host
        self.port = port
        self.delimiter = delimiter
        self.max_retry = max_retry

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("socket", 0)]

    def reader(self, split: Split) -> SocketReader:
        return SocketReader(self)


class SocketReader(SplitReader):
    """Reads lines as they come. It connects when it first reads, and again for a position that it does not stand at."""

    def __init__(self, source: SocketTextSource) -> None:
        self._source = source
        self._where = f"{source.host}:{source.port}"
        self._connection: socket.socket | None = None
        self._given: int | None = None
        self._connections = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""  # what came after the last delimiter
        self._lines: list[str] = []  # that were read and not given yet
        self._ended = False

    def read(self, position: Position, max_records: int) -> Range:
        """The lines that are there, or come within a short time.

        Raises:
            ConnectorError: the server cannot be reached, or the connection broke.
        """
        if position != self._given:
            self._begin(position)
        self._fill(max_records)
        values, self._lines = self._lines[:max_records], self._lines[max_records:]
        self._given = position + len(values)
        return Range(values, self._given, self._ended and not self._lines)

    def _begin(self, position: int) -> None:
        if position or self._given:
            log.warning(
                "the socket stream of %s connects again and goes on behind line %d: what the server had sent after the "
                "checkpoint is lost, since a socket cannot be read again",
                self._where,
                position,
            )
        self.close()
        self._connections, self._rest, self._lines, self._ended = 0, "", [], False
        self._decoder.reset()

    def _fill(self, wanted: int) -> None:
        now = monotonic_s()
        deadline, wait_s = now + _READ_S, _WAIT_S
        while not self._ended and len(self._lines) < wanted and now < deadline:
            received = self._receive(wait_s)
            if received is None:
                return
            wait_s = 0.0  # then what is there already
            self._take(received)
            now = monotonic_s()

    def _take(self, received: bytes) -> None:
        """Cut what came into lines; nothing is a connection that the server has closed."""
        delimiter = self._source.delimiter
        *lines, self._rest = (self._rest + self._decoder.decode(received)).split(delimiter)
        self._lines += [line.removesuffix("\r") for line in lines] if delimiter == "\n" else lines
        if received:
            return
        self.close()
        retries = self._source.max_retry
        if retries == -1 or self._connections < retries:
            time.sleep(_RETRY_S)
            return
        self._ended = True
        self._rest += self._decoder.decode(b"", True)
        self._lines += [self._rest] if self._rest else []

    def _receive(self, wait_s: float) -> bytes | None:
        """What has come; nothing at the connection's end, None where nothing came in time."""
        try:
            if self._connection is None:
                self._connection = socket.create_connection(
                    (self._source.host, self._source.port), _CONNECT_S
                )
                self._connections += 1
            self._connection.settimeout(wait_s)
            return self._connection.recv(_BYTES)
        except (BlockingIOError, TimeoutError):
            if self._connection is None:
                raise self._failed("no connection within 30 s") from None
            return None
        except OSError as error:
            raise self._failed(str(error)) from error

    def _failed(self, why: str) -> ConnectorError:
        return ConnectorError(f"reading the socket stream of {self._where}: {why}")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
