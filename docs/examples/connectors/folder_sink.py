"""A sink of one's own that writes exactly once: each checkpoint adds one file of lines to a folder."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Sequence
from typing import Any

from changelog_engine.connectors import CommittingSink, CommittingWriter, Prepared, SinkContext


class FolderSink(CommittingSink):
    """Writes texts as lines. A file is hidden until the checkpoint that holds its lines is durable."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def committing_writer(self, context: SinkContext) -> FolderWriter:
        """A writer for one subtask; it ends what the writers before it left."""
        os.makedirs(self.folder, exist_ok=True)
        writer = FolderWriter(self.folder)
        for restored in context.restored:
            writer.commit(restored.prepared.committables)
        return writer


class FolderWriter(CommittingWriter):
    """Writes the lines of one subtask."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.lines: list[str] = []

    def write(self, values: Sequence[Any]) -> None:
        self.lines += (f"{value}\n" for value in values)

    def prepare(self, final: bool) -> Prepared:
        if not self.lines:
            return Prepared()
        name = f"{uuid.uuid4().hex}.txt"
        with open(os.path.join(self.folder, f".{name}"), "w") as file:
            file.writelines(self.lines)
            file.flush()
            os.fsync(file.fileno())
        self.lines = []
        return Prepared([name])

    def commit(self, committables: Sequence[str]) -> None:
        for name in committables:
            with contextlib.suppress(FileNotFoundError):  # it was committed before, or just now
                os.replace(os.path.join(self.folder, f".{name}"), os.path.join(self.folder, name))

    def close(self) -> None:
        self.lines = []
