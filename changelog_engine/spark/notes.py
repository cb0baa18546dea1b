"""What workers note while an attempt begins: that they close what they had open, are up, read their state, have it all.

With a local master each subtask has a small file beside the driver's temporary files, which it writes anew; the driver reads
them when somebody looks. On other masters there are none.

Invariant: a note that can't be written or read is left out; it is for people only.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from changelog_engine.clock import monotonic_ms

_EVERY_MS = 200
_CLOSING = "closing"


class NotedWorkers(NamedTuple):
    """What the subtasks of an attempt have noted."""

    up: int = 0
    rows: int = 0  # of state, that they have read together
    bytes: int = 0  # of the files that these come from
    ready: int = 0  # subtasks that have all of their state
    closing: int = 0  # subtasks that are not up yet: they close what the attempt before had open


class WorkerNotes:
    """Where the subtasks of one run note it: a local folder of this machine's."""

    def __init__(self, folder: str, run: str) -> None:
        self._prefix = os.path.join(folder, f"note-{run}-")

    def path(self, attempt: int, stage: int, subtask: int) -> str:
        """The file of a subtask."""
        return f"{self._prefix}{attempt}-{stage}-{subtask}"

    def read(self, attempt: int) -> NotedWorkers:
        """What the subtasks of an attempt have noted."""
        folder, prefix = os.path.split(f"{self._prefix}{attempt}-")
        up = rows = size = ready = closing = 0
        for name in os.listdir(folder):
            if name.startswith(prefix):
                up += 1
                with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, name)) as file:
                    text = file.read()
                    if text == _CLOSING:
                        up, closing = up - 1, closing + 1
                        continue
                    own_rows, own_bytes, own_ready = (int(each) for each in text.split())
                    rows, size, ready = rows + own_rows, size + own_bytes, ready + own_ready
        return NotedWorkers(up, rows, size, ready, closing)

    def clear(self) -> None:
        """Remove all notes of the run."""
        folder, prefix = os.path.split(self._prefix)
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                if name.startswith(prefix):
                    os.unlink(os.path.join(folder, name))


def note_closing(path: str) -> None:
    """In a worker: a subtask closes what the attempt before had open, which may wait for a server that is away."""
    with contextlib.suppress(OSError), open(path, "w") as file:
        file.write(_CLOSING)


class Teller:
    """In a worker: notes that it is up, the rows that it reads, and that it has its state.

    Args:
        path: the file of the subtask.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._rows = self._bytes = 0
        self._noted_ms = monotonic_ms()
        self._write(ready=0)

    def __call__(self, rows: int, size: int) -> None:
        """So many rows, and bytes, have been read more."""
        self._rows, self._bytes = self._rows + rows, self._bytes + size
        now_ms = monotonic_ms()
        if now_ms - self._noted_ms >= _EVERY_MS:
            self._noted_ms = now_ms
            self._write(ready=0)

    def ready(self) -> None:
        """The subtask has its state."""
        self._write(ready=1)

    def _write(self, ready: int) -> None:
        with contextlib.suppress(OSError), open(self._path, "w") as file:
            file.write(f"{self._rows} {self._bytes} {ready}")
