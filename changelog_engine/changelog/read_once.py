"""What a process remembers of files that never change, so that it reads them once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ReadOnce(Generic[T]):
    """Something that was read out of each of many files.

    Only for files whose names carry the checksum of what they hold: such a name stands for the content.

    Args:
        most: so many are remembered; with the next one all others are forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[str, T] = {}

    def of(self, path: str, read: Callable[[], T]) -> T:
        """What was read out of a file.

        Args:
            path: of the file, in full.
            read: reads it, when it is not remembered.
        """
        if path not in self._found:
            found = read()
            if len(self._found) >= self._most:
                self._found.clear()
            self._found[path] = found
        return self._found[path]

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()
