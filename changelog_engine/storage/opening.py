"""From a path or URI to its storage: the one place that decides between disks and object stores."""

from __future__ import annotations

import os

from changelog_engine.config import local_path
from changelog_engine.config.names import writable
from changelog_engine.storage.file_systems import FileSystems
from changelog_engine.storage.local_disk import MACHINE, DiskCalls, LocalDisk
from changelog_engine.storage.object_store import ObjectStore
from changelog_engine.storage.protocol import Storage
from changelog_engine.storage.retry import Retry

_mounted: dict[str, DiskCalls] = {}  # folder -> the disk that stands in for the machine's below it


def open_storage(
    root: str,
    retry: Retry | None = None,
    file_systems: FileSystems | None = None,
    follows_links: bool = False,
) -> Storage:
    """The storage of a root.

    Args:
        root: a local path, or a URI (``file:``, ``s3:``, ``gs:``, ``hdfs:`` ...).
        file_systems: knows how to reach object stores; None for the options of the process.
        follows_links: see LocalDisk.

    Raises:
        ConfigurationError: the path cannot be written down as UTF-8.
        StorageError: the URI cannot be opened.

    Example:
        >>> storage = open_storage("/data/jobs")  # doctest: +SKIP
        >>> storage.write_durable("a.txt", b"hello")  # doctest: +SKIP
    """
    writable(root, "the path")
    local = local_path(root)
    if local is None:
        return ObjectStore(root, retry, file_systems)
    return LocalDisk(local, retry, _calls_of(local), follows_links)


def mount(folder: str, calls: DiskCalls) -> None:
    """Let another disk stand in for the machine's below a folder, in this process."""
    _mounted[os.path.abspath(folder)] = calls


def unmount(folder: str) -> None:
    """Undo ``mount``."""
    del _mounted[os.path.abspath(folder)]


def _calls_of(path: str) -> DiskCalls:
    for folder, calls in _mounted.items():
        if path == folder or path.startswith(f"{folder}/"):
            return calls
    return MACHINE
