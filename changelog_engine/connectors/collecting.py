"""Writers that collect what they are given and send it in portions: at least once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.protocols import Committable, CommittingWriter, Prepared

Item = TypeVar("Item")


class CollectingWriter(CommittingWriter):
    """Sends what waits when it is old enough or a barrier comes; a subclass also when it is enough.

    ``write`` of a subclass appends to ``_waiting`` and sets ``_oldest_s`` where nothing waited.

    Args:
        interval_s: how long anything waits at most; None for as long as it takes.
    """

    def __init__(self, interval_s: float | None, clock: Callable[[], float] = monotonic_s) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._waiting: list[Any] = []
        self._size_bytes = 0  # of what waits, where a subclass counts it
        self._oldest_s = 0.0

    @abstractmethod
    def _send(self, items: Sequence[Any]) -> None:
        """Send items; when it returns they have arrived."""

    def end_epoch(self) -> None:
        if (
            self._interval_s is not None
            and self._waiting
            and self._clock() - self._oldest_s >= self._interval_s
        ):
            self._flush()

    def prepare(self, final: bool) -> Prepared:
        """Send everything; there is nothing to commit later."""
        self._flush()
        return Prepared()

    def commit(self, committables: Sequence[Committable]) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """What waits is dropped: it comes again."""
        self._waiting.clear()

    def _flush(self) -> None:
        if self._waiting:
            self._send(self._waiting)
            self._waiting = []
            self._size_bytes = 0


def to_send_again(
    items: Iterable[Item], failed: Collection[int], key_of: Callable[[Item], Hashable | None]
) -> list[Item]:
    """The items that failed, and the later ones of the same keys: what is older never comes last.

    Args:
        key_of: None for an item of which there is no older one.
    """
    again, late = [], set[Hashable]()
    for position, item in enumerate(items):
        key = key_of(item)
        if position in failed or key in late:
            again.append(item)
            if key is not None:
                late.add(key)
    return again
