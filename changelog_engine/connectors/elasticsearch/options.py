"""Where the cluster is, in which portions it is written, and how often a portion is tried again.

Invariant: the password is in no text that these classes give.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

DEFAULT_MAX_ACTIONS = 1_000
DEFAULT_CONNECT_TIMEOUT_MS = 5_000
DEFAULT_SOCKET_TIMEOUT_MS = 30_000
_LONGEST_WAIT_MS = 60_000


class Backoff(Enum):
    """How long to wait before a bulk request is tried again."""

    NONE = "it is not tried again"
    CONSTANT = "always as long"
    EXPONENTIAL = "each time twice as long, a minute at most"


@dataclass(frozen=True)
class ClusterOptions:
    """Where the cluster is.

    Args:
        hosts: URLs of its nodes, ``http://host:port``; the next one is asked where one cannot be reached.
        user: name, or None for no login.
        path_prefix: begins the path of every request.
        connect_timeout_ms, socket_timeout_ms: bounds of connecting, and of waiting for an answer.
    """

    hosts: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    path_prefix: str = ""
    connect_timeout_ms: int = DEFAULT_CONNECT_TIMEOUT_MS
    socket_timeout_ms: int = DEFAULT_SOCKET_TIMEOUT_MS

    @property
    def shown(self) -> str:
        """The hosts, for messages."""
        return ", ".join(self.hosts)


@dataclass(frozen=True)
class BulkOptions:
    """In which portions documents are written."""

    max_actions: int = DEFAULT_MAX_ACTIONS  # how many at a time; -1 for no such bound
    max_size_bytes: int = -1  # how much at a time; -1 for no such bound
    interval_ms: int = -1  # documents wait no longer than this; -1 for no such bound
    backoff: Backoff = Backoff.NONE  # how a request that may succeed later is tried again
    max_retries: int = 0
    delay_ms: int = 0  # the first wait

    @property
    def tries(self) -> int:
        """How often a request is sent at most."""
        return 1 if self.backoff is Backoff.NONE else 1 + self.max_retries

    def wait_s(self, tried: int) -> float:
        """The wait after a number of tries."""
        factor = 2 ** min(tried - 1, 30) if self.backoff is Backoff.EXPONENTIAL else 1
        longest = max(_LONGEST_WAIT_MS, self.delay_ms)
        return min(self.delay_ms * factor, longest) / 1000
