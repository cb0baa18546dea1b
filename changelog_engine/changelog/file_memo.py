"""What a process remembers of files that never change, so that it reads them once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FileMemo(Generic[T]):
    """Something that was read out of each of many files.

    Only for files whose names carry the checksum of what they hold: such a name stands for the content.

    Args:
        most: how many are remembered; with the next one all others are forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[str, T] = {}

    def of(self, path: str, read: Callable[[], T]) -> T:
        """What was read out of a file.

        Any thread may ask; two that ask at once may both read.

        Args:
            read: reads it, when it is not remembered.
        """
        found = self._found.get(path)
        if found is None:
            found = read()
            if len(self._found) >= self._most:
                self._found.clear()
            self._found[path] = found
        return found

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()
