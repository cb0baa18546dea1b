"""What workers note while an attempt begins: that they are up, and how much of their state they have read.

With a local master each subtask has a small file beside the driver's temporary files, which it writes anew; the driver reads
them when somebody looks. On other masters there are none.

Invariant: a note that can't be written or read is left out; it is for people only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from changelog_engine.clock import monotonic_ms

_EVERY_MS = 200
Tell = Callable[[int, int], None]
"""Takes so many rows, and bytes, that have been read more."""


class WorkerNotes:
    """Where the subtasks of one run note it: a local folder of this machine's."""

    def __init__(self, folder: str, run: str) -> None:
        self._prefix = os.path.join(folder, f"note-{run}-")

    def path(self, attempt: int, stage: int, subtask: int) -> str:
        """The file of a subtask."""
        return f"{self._prefix}{attempt}-{stage}-{subtask}"

    def read(self, attempt: int) -> tuple[int, int, int]:
        """How many subtasks are up, and the rows and bytes that they have read together."""
        folder, prefix = os.path.split(f"{self._prefix}{attempt}-")
        up = rows = size = 0
        for name in os.listdir(folder):
            if name.startswith(prefix):
                up += 1
                with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, name)) as file:
                    one, other = file.read().split()
                    rows, size = rows + int(one), size + int(other)
        return up, rows, size

    def clear(self) -> None:
        """Remove all notes of the run."""
        folder, prefix = os.path.split(self._prefix)
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if name.startswith(prefix):
                    os.unlink(os.path.join(folder, name))


def teller(path: str | None) -> Tell | None:
    """In a worker: notes that it is up, and gives what takes note of rows; None where nobody looks."""
    if path is None:
        return None
    rows, size, noted_ms = 0, 0, monotonic_ms()

    def write() -> None:
        with contextlib.suppress(OSError), open(path, "w") as file:
            file.write(f"{rows} {size}")

    def tell(more_rows: int, more_bytes: int) -> None:
        nonlocal rows, size, noted_ms
        rows, size = rows + more_rows, size + more_bytes
        now_ms = monotonic_ms()
        if now_ms - noted_ms >= _EVERY_MS:
            noted_ms = now_ms
            write()

    write()
    return tell
