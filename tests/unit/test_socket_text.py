"""The lines of a server, as Flink's socketTextStream reads them."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from api.datastream import DataStream, StreamExecutionEnvironment
from changelog_engine.connectors import SocketTextSource, Split, socket_text
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, ConnectorError
from changelog_engine.testing import without_spark

_SPLIT = Split("socket", 0)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_text, "_RETRY_S", 0.0)


class Server:
    """Gives each connection the next of some lists of pieces, and closes it."""

    def __init__(self, *connections: list[bytes]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(connections,), daemon=True)
        self._thread.start()

    def _serve(self, connections: tuple[list[bytes], ...]) -> None:
        for pieces in connections:
            connection, _ = self._listener.accept()
            with connection:
                for piece in pieces:
                    connection.sendall(piece)

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    servers = []

    def begin(*connections: list[bytes]) -> int:
        servers.append(Server(*connections))
        return servers[-1].port

    yield begin
    for each in servers:
        each.close()


def all_lines(source: SocketTextSource, at_once: int = 1000) -> list[str]:
    with closing(source.reader(_SPLIT)) as reader:
        lines: list[str] = []
        finished = False
        while not finished:
            values, position, finished, *_ = reader.read(len(lines), at_once)
            lines += values
            assert position == len(lines)
            assert len(values) <= at_once
    return lines


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_lines_without_their_ends_and_what_is_behind_the_last(
    serve: Callable[..., int], at_once: int
) -> None:
    port = serve([b"to be\r\nor no", b"t\n\nb\xc3", b"\xa4 \xff\nlast"])
    assert all_lines(SocketTextSource("127.0.0.1", port), at_once) == [
        "to be",
        "or not",
        "",
        "b\u00e4 \ufffd",
        "last",
    ]


def test_another_delimiter_leaves_everything_else(serve: Callable[..., int]) -> None:
    port = serve([b"a\r\n|", b"|b||"])
    assert all_lines(SocketTextSource("127.0.0.1", port, "||")) == ["a\r\n", "b"]


def test_connections_again_go_on_in_the_line(serve: Callable[..., int]) -> None:
    port = serve([b"a\nb"], [b"c\n"], [b"d"])
    assert all_lines(SocketTextSource("127.0.0.1", port, max_retry=3)) == ["a", "bc", "d"]


def test_nothing_comes_for_now(serve: Callable[..., int]) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    with (
        closing(silent),
        closing(SocketTextSource("127.0.0.1", silent.getsockname()[1]).reader(_SPLIT)) as reader,
    ):
        assert tuple(reader.read(0, 10)[:3]) == ([], 0, False)
        connection, _ = silent.accept()
        with connection:
            connection.sendall(b"late\n")
            given = reader.read(0, 10)
            while not given.values:
                given = reader.read(0, 10)
            assert (given.values, given.next, given.finished) == (["late"], 1, False)


def test_a_restore_says_what_is_lost(serve: Callable[..., int], caplog: pytest.LogCaptureFixture) -> None:
    port = serve([b"a\nb\nc\n"], [b"d\n"])
    caplog.set_level(logging.WARNING, "changelog_engine")
    with closing(SocketTextSource("127.0.0.1", port).reader(_SPLIT)) as reader:
        assert reader.read(0, 1).values == ["a"]
        assert reader.read(1, 1).values == ["b"]
        assert not caplog.messages
        assert reader.read(1, 5).values == ["d"]
    assert "connects again and goes on behind line 1" in caplog.text
    assert "is lost" in caplog.text


def test_no_server_is_an_error_that_names_it() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(ConnectorError, match=rf"socket stream of 127\.0\.0\.1:{port}: .*refused"):
        SocketTextSource("127.0.0.1", port).reader(_SPLIT).read(0, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("", 1), ArgumentTypeError, "hostname"),
        ((None, 1), ArgumentTypeError, "hostname"),
        (("host", "9999"), ArgumentTypeError, "port must be an int"),
        (("host", 0), ConfigurationError, "1 to 65535, got 0"),
        (("host", 65536), ConfigurationError, "1 to 65535"),
        (("host", 1, ""), ArgumentTypeError, "delimiter"),
        (("host", 1, "\n", -2), ConfigurationError, "maxRetry must be -1 or more"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments: Any, error: type[Exception], says: str) -> None:
    java = StreamExecutionEnvironment.get_execution_environment()._j_stream_execution_environment
    with pytest.raises(error, match=says):
        java.socketTextStream(*arguments)


def test_a_job_reads_it(serve: Callable[..., int]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    port = serve([b"to be\nor not\nto be\n"])
    lines = DataStream(env._j_stream_execution_environment.socketTextStream("127.0.0.1", port))
    assert (str(lines.get_type()), lines.get_name()) == ("String", "Socket Stream")
    words_of = lines.flat_map(lambda line: line.split(" "))
    with without_spark(), words_of.execute_and_collect() as words:
        assert sorted(words) == ["be", "be", "not", "or", "to", "to"]
