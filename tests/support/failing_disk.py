"""A disk on which any call may fail at random, also those that only look and read."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from changelog_engine.storage import local_disk
from changelog_engine.storage.local_disk import DiskCalls
from changelog_engine.storage.opening import mount, unmount

_CHANGES = ("create", "sync_path", "rename", "link", "unlink", "mkdir", "remove_tree", "write", "fsync")
_LOOKS = ("stat", "lstat", "scandir", "open")
_OF_CHANGES = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.EACCES)
_OF_LOOKS = (errno.EIO, errno.ESTALE, errno.EACCES)
_IN_A_ROW = (1, 1, 1, 4, 6)  # a call is tried four times


class FailingDisk(DiskCalls):
    """What this process does below a folder fails now and then, for one call or for some in a row. Nothing is fsynced.

    Args:
        often: the probability that a call is the first one to fail.
    """

    def __init__(self, folder: str, chance: random.Random, often: float) -> None:
        self.folder, self.often = folder, often
        self.failed: list[tuple[str, str]] = []  # calls and paths
        self._chance = chance
        self._left = self._number = 0
        for name in _CHANGES:
            setattr(self, name, self._failing(name, getattr(self, name), _OF_CHANGES))

    def sync_path(self, path: str) -> None:
        """See DiskCalls."""
        os.stat(path)

    def write_out(self, descriptor: int, offset: int, count: int) -> None:
        """See DiskCalls."""

    def fsync(self, descriptor: int) -> None:
        """See DiskCalls."""

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Let it stand in for the machine's disk below its folder."""
        looks = {name: self._failing(name, getattr(os, name), _OF_LOOKS) for name in _LOOKS[:3]}
        mount(self.folder, self)
        try:
            with (
                mock.patch.object(local_disk, "os", _Os(looks)),
                mock.patch.object(local_disk, "open", self._failing("open", open, _OF_LOOKS), create=True),
                mock.patch("time.sleep"),
            ):
                yield
        finally:
            unmount(self.folder)

    def heal(self) -> None:
        """Nothing fails any more."""
        self.often = self._left = 0

    def _failing(self, name: str, call: Callable[..., Any], numbers: tuple[int, ...]) -> Callable[..., Any]:
        def may_fail(path: Any, *more: Any, **named: Any) -> Any:
            if isinstance(path, int) or str(path).startswith(self.folder):
                if not self._left and self._chance.random() < self.often:
                    self._left, self._number = self._chance.choice(_IN_A_ROW), self._chance.choice(numbers)
                if self._left:
                    self._left -= 1
                    self.failed.append((name, str(path)))
                    raise OSError(self._number, os.strerror(self._number), str(path))
            return call(path, *more, **named)

        return may_fail


class _Os:
    def __init__(self, replaced: dict[str, Any]) -> None:
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)
