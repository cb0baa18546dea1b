"""One client for all that a source does in a process: it costs more than what it is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar


class Closing(Protocol):
    """A client of an outside system."""

    def close(self) -> None:
        """Let go of its connections."""


C = TypeVar("C", bound=Closing)


class SharedClient(Generic[C]):
    """Made when it is first taken, closed when all who took it have given it back. It is pickled without its client.

    Args:
        make: makes the client; it can be pickled.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._client: C | None = None
        self._users = 0

    def take(self) -> C:
        """The client, until ``give_back``."""
        if self._client is None:
            self._client = self._make()
        self._users += 1
        return self._client

    def give_back(self) -> None:
        """Give back a client that was taken."""
        self._users -= 1
        if not self._users and self._client is not None:
            self._client.close()
            self._client = None

    @contextlib.contextmanager
    def taken(self) -> Iterator[C]:
        """The client, inside a ``with``."""
        client = self.take()
        try:
            yield client
        finally:
            self.give_back()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_users": 0}
