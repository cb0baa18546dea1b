"""A real HTTP server on loopback that is slow, fails, drops connections and hangs as its paths say; and a client for it.

A path is ``/<what>/<number>``: ``ok/7`` answers after the server's delay, ``slow/300`` after so many ms, ``error/7`` with
status 500, ``drop/7`` closes the connection, ``hang/7`` never answers, ``flaky/7`` fails twice and then answers.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any, Self

from api.datastream import AsyncFunction


class HttpService:
    """The server, in a thread of its own.

    Args:
        delay_ms: before each answer.
    """

    def __init__(self, delay_ms: int = 0) -> None:
        self.delay_ms = delay_ms
        self.asked: Counter[str] = Counter()
        self.open = 0
        self.most_open = 0
        self.port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="http service")

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._hanging: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        server.close()
        for task in [*self._hanging]:
            task.cancel()
        await asyncio.gather(*self._hanging, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._hanging.add(task)
        try:
            await self._one(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._hanging.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1].decode()
        self.asked[path] += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            what, number = path.strip("/").split("/")
            if what == "hang":
                await reader.read()  # until the client goes away
                return
            await asyncio.sleep((int(number) if what == "slow" else self.delay_ms) / 1000)
            if what == "drop":
                writer.transport.abort()
                return
            failed = what == "error" or (what == "flaky" and self.asked[path] < 3)
            status = "500 Broken" if failed else "200 OK"
            body = number.encode()
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
        finally:
            self.open -= 1


async def fetch(port: int, path: str) -> str:
    """GET, over a connection of its own.

    Raises:
        OSError: no answer, or another status than 200.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status = head.split()[1]
        body = await reader.read()
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError(f"{path}: the connection was dropped") from error
    finally:
        writer.close()
    if status != b"200":
        raise OSError(f"{path}: status {status.decode()}")
    return body.decode()


class Ask(AsyncFunction[Any, Any]):
    """Asks the server for each element, which is a path, and gives (path, answer); counts how many it asks at a time."""

    def __init__(self, port: int) -> None:
        self.port = port

    def open(self, runtime_context: Any) -> None:
        self.under_way = UNDER_WAY[0] = 0

    async def async_invoke(self, value: str) -> list[Any]:
        self.under_way += 1
        UNDER_WAY[0] = max(UNDER_WAY[0], self.under_way)
        try:
            return [(value, await fetch(self.port, value))]
        finally:
            self.under_way -= 1


UNDER_WAY = [0]  # at most, of the last Ask that was opened in this process


class AskOrGiveUp(Ask):
    """As Ask; an element whose time is over gives (path, None)."""

    def timeout(self, value: str) -> list[Any]:
        return [(value, None)]
