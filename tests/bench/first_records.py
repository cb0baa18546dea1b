"""Notes of restored_count.py: how long after its start a job came to its first records."""

from __future__ import annotations

import shutil
from pathlib import Path

from processes import MeasurementError

SUBTASKS = 2


class Notes:
    """The notes of one run.

    Args:
        folder: where they go; emptied now.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def all_began(self) -> bool:
        """Whether each subtask has processed a record."""
        return len(self._times("first")) >= SUBTASKS

    def grown(self) -> float | None:
        """When nearly all keys were known; None before that."""
        times = self._times("grown")
        return max(times) if len(times) >= SUBTASKS else None

    def seconds_to_first(self) -> float:
        """From the job's submission to the first record of the subtask that came to it last."""
        if not self.all_began():
            raise MeasurementError(f"a subtask never began; see the notes in {self.folder}")
        return max(self._times("first")) - float((self.folder / "started").read_text())

    def fail(self, failure: str) -> None:
        """Ask for a failure: ``raise`` or ``kill``."""
        (self.folder / failure).touch()

    def failed(self) -> float | None:
        """When the last failure was; None before the first."""
        return max(self._times("failed"), default=None)

    def first_after(self, time_s: float) -> float | None:
        """When each subtask had processed a record since a time, in epoch seconds; None before that."""
        times = [each for each in self._times("first") if each > time_s]
        return max(times) if len(times) >= SUBTASKS else None

    def _times(self, name: str) -> list[float]:
        found = [path for path in self.folder.glob(f"{name}-*") if path.suffix != ".part"]
        return [float(path.read_text()) for path in found]
