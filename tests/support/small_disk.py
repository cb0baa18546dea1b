"""A disk of so many bytes, where this process may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size_kb: int) -> Iterator[Callable[[int], None]]:
    """A file system in memory at a folder, which is made; gives what changes its size. Skips the test without the right."""
    folder.mkdir()
    if _mount("-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", folder):
        pytest.skip("only root may mount a disk")
    try:
        yield lambda kb: _must(_mount("-o", f"remount,size={kb}k", folder))
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _mount(*arguments: object) -> int:
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False).returncode


def _must(status: int) -> None:
    assert status == 0, "the disk could not be given another size"
