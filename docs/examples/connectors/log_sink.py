"""A sink of one's own that writes at least once: each subtask appends lines to a file of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from changelog_engine.connectors import Sink, SinkWriter


class LogSink(Sink):
    """Appends elements as lines, each with its timestamp if it has one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def check_before_start(self) -> None:
        os.makedirs(self.folder, exist_ok=True)

    def writer(self, subtask: int, parallelism: int) -> LogWriter:
        return LogWriter(os.path.join(self.folder, f"{subtask}.log"))


class LogWriter(SinkWriter):
    """Appends to one file."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "a")  # noqa: SIM115 # close() closes it

    def write(self, values: Sequence[Any]) -> None:
        self.file.writelines(f"{value}\n" for value in values)

    def write_timed(self, values: Sequence[Any], timestamps: Sequence[int] | None, watermark: int) -> None:
        if timestamps is None:
            self.write(values)
        else:
            self.write([f"{time} {value}" for time, value in zip(timestamps, values, strict=True)])

    def flush(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()
