"""Disks that tests put below their folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from changelog_engine.storage.local_disk import DiskCalls
from changelog_engine.storage.opening import mount, unmount


class TrustedDisk(DiskCalls):
    """The machine's, without fsync: for tests in which nothing is killed."""

    def write_out(self, descriptor: int, offset: int, count: int) -> None:
        """See DiskCalls."""

    def fsync(self, descriptor: int) -> None:
        """See DiskCalls."""

    def sync_path(self, path: str) -> None:
        """See DiskCalls."""


@contextmanager
def trusted(folder: Path | str) -> Iterator[None]:
    """Let the files below a folder reach the disk when they do."""
    mount(str(folder), TrustedDisk())
    try:
        yield
    finally:
        unmount(str(folder))
