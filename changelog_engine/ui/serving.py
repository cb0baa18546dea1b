"""The page as a server: where it listens, who may ask, and how it ends."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass

import uvicorn

from changelog_engine.errors import ConfigurationError
from changelog_engine.ui.app import Page
from changelog_engine.ui.explaining import Program
from changelog_engine.ui.guard import PARAMETER, PageGuard

_KEEP_ALIVE_S = 30
_MOST_CONNECTIONS = 200


@dataclass(frozen=True)
class Address:
    """Where the page is."""

    url: str  # what a person opens; it has the token, if there is one
    host: str
    port: int


class PageServer:
    """A page that listens.

    Args:
        path: the base path, or a job's folder.
        port: 0 for any that is free.
        names: other names that it may be called by, when it is bound elsewhere than to the loopback.
        program: the script that explains changes; None: the page runs nothing.
    """

    def __init__(
        self,
        path: str,
        host: str = "127.0.0.1",
        port: int = 0,
        names: tuple[str, ...] = (),
        program: Program | None = None,
    ) -> None:
        self._socket = _listening(host, port)
        port = self._socket.getsockname()[1]
        loopback = _is_loopback(host)
        token = None if loopback else secrets.token_urlsafe(24)
        called = {host, *names, *(("localhost", "127.0.0.1", "::1") if loopback else _own_names(host))}
        hosts = frozenset(f"{_in_url(name)}:{port}".lower() for name in called)
        first = next(iter(names), socket.gethostname() if host in ("0.0.0.0", "::") else host)
        url = f"http://{_in_url(first)}:{port}/" + (f"?{PARAMETER}={token}" if token else "")
        self.address = Address(url, host, port)
        self._server = uvicorn.Server(
            uvicorn.Config(
                PageGuard(Page(path, program).app(), hosts, token, runs=program is not None),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",
                timeout_keep_alive=_KEEP_ALIVE_S,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=1,
            )
        )

    def run(self) -> None:
        """Answer until ``stop``, or Ctrl-C."""
        self._server.run([self._socket])

    def stop(self) -> None:
        """Let ``run`` return soon; from any thread."""
        self._server.should_exit = True


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(128)
    except OSError as error:
        raise ConfigurationError(
            f"the page cannot listen on {host} port {port}: {error.strerror or error}. Give another with --host and --port"
        ) from error
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _own_names(host: str) -> tuple[str, ...]:
    return (socket.gethostname(), "localhost", "127.0.0.1") if host in ("0.0.0.0", "::") else ()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
