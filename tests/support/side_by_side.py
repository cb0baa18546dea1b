"""Something that happens in the middle of something else: between any two of its calls to the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from changelog_engine.storage.local_disk import LocalDisk

_CALLS = (
    "write_durable", "put_if_absent", "delete", "read", "read_document", "read_footer", "list", "size", "stamp", "exists",
)  # fmt: skip


@contextlib.contextmanager
def interrupted(at: int, what: Callable[[], object]) -> Iterator[list[int]]:
    """Do something before the call to the disk with a number, from 0; gives a list that isn't empty when that came."""
    calls, busy, done = [0], [False], list[int]()
    with contextlib.ExitStack() as stack:
        for name in _CALLS:
            inner = getattr(LocalDisk, name)

            def counted(storage: LocalDisk, *args: Any, inner: Any = inner, **named: Any) -> Any:
                if not busy[0]:
                    calls[0] += 1
                    if calls[0] == at + 1:
                        busy[0] = True
                        what()
                        busy[0] = False
                        done.append(at)
                return inner(storage, *args, **named)

            stack.enter_context(mock.patch.object(LocalDisk, name, counted))
        yield done
