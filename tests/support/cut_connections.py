"""A way to a server that can be cut: connections through it end in the middle of what is said."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

_HOST = "127.0.0.1"


class CutConnections:
    """Passes bytes on between clients and a server on this machine.

    Args:
        port: The server's.

    Attributes:
        port: Where clients connect.
        cuts: How many connections were cut.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server((_HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._cut_after: int | None = None
        self._answers = True
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        with self._lock:
            for each in self._open:
                each.close()

    def cut_after(self, sent_bytes: int) -> None:
        """Cut the connection over which so many more bytes have gone to the server, once."""
        self._cut_after = sent_bytes

    def lose_an_answer(self) -> None:
        """Let the next request reach the server, and cut the connection when it answers."""
        self._answers = False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((_HOST, self._to))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, False), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, to_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                if self._is_cut(len(data), to_server):
                    break
                other.sendall(data)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _is_cut(self, size: int, to_server: bool) -> bool:
        with self._lock:
            if not to_server:
                lost, self._answers = not self._answers, True
                self.cuts += lost
                return lost
            if self._cut_after is None:
                return False
            self._cut_after -= size
            if self._cut_after >= 0:
                return False
            self._cut_after = None
            self.cuts += 1
            return True
