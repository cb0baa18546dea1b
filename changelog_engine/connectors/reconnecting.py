"""What is being restarted comes back: connecting to it again, and what the log says meanwhile."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from changelog_engine.clock import Deadline, monotonic_s
from changelog_engine.errors import ConnectorError

log = logging.getLogger("changelog_engine")

T = TypeVar("T")

PATIENCE_S = 60.0
_SAID_EVERY_S = 30.0


class UnreachableError(ConnectorError):
    """Nobody answers there."""


class Trouble:
    """Something that fails and is tried again: the one place that says so.

    The log has a line when it begins, one with how long it has lasted every 30 seconds, and one when it is over. What begins
    again within 30 seconds is said when they have passed.

    Args:
        where: which server, and what it is asked for: begins the last line.
    """

    def __init__(self, where: str, clock: Callable[[], float] = monotonic_s) -> None:
        self._where = where
        self._clock = clock
        self._since_s: float | None = None
        self._said_s = float("-inf")
        self._is_said = False

    def again(self, why: str) -> None:
        """It went wrong, once more, and will be tried again; ``why`` names the server, in a sentence without its end."""
        now_s = self._clock()
        if self._since_s is None:
            self._since_s, self._is_said = now_s, False
        if now_s - self._said_s >= _SAID_EVERY_S:
            lasted_s = now_s - self._since_s
            since = f", for {lasted_s:.0f} s now" if lasted_s >= 1 else ""
            log.warning("%s; trying again%s", why, since)
            self._said_s, self._is_said = now_s, True

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """What fails with a ConnectorError within it is told, and not raised: it is tried again later."""
        try:
            yield
        except ConnectorError as error:
            self.again(str(error))
        else:
            self.over()

    def over(self) -> None:
        """It went well."""
        if self._since_s is None:
            return
        if self._is_said:
            log.warning("%s: works again, after %.0f s", self._where, self._clock() - self._since_s)
        self._since_s = None


def connected(
    connect: Callable[[], T],
    where: str,
    pause_s: float,
    sleep: Callable[[float], None] = time.sleep,
    patience_s: float = PATIENCE_S,
    clock: Callable[[], float] = monotonic_s,
) -> T:
    """What a function gives that connects, after some tries.

    Args:
        connect: raises UnreachableError where another try may help.

    Raises:
        ConnectorError: nobody answered, or somebody refused.
    """
    deadline, trouble = Deadline(patience_s, clock), Trouble(where, clock)
    while True:
        try:
            found = connect()
        except UnreachableError as error:
            if deadline.left_s <= pause_s:
                raise
            trouble.again(str(error))
            sleep(max(pause_s, 0.05))
        else:
            trouble.over()
            return found
