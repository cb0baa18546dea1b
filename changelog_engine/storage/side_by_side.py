"""Reading several files at once, where that pays: an object store's answers are waited for, a local disk's are not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from changelog_engine.storage.protocol import Storage

What = TypeVar("What")
Found = TypeVar("Found")


def side_by_side(storage: Storage, read: Callable[[What], Found], files: Collection[What]) -> list[Found]:
    """What a function reads of each of some files, in their order.

    Args:
        storage: where they are; it says how many reads at once pay.
        read: called in several threads where more than one pays.

    Raises:
        Exception: what ``read`` raised of the first file of which it did.
    """
    if storage.reads_at_once == 1 or len(files) < 2:
        return [read(file) for file in files]
    with ThreadPoolExecutor(storage.reads_at_once) as pool:
        return list(pool.map(read, files))
