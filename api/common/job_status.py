"""JobStatus: what a job is doing."""

from __future__ import annotations

from enum import Enum


class JobStatus(Enum):
    """What a job is doing."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Whether the job has ended for good: finished, cancelled or failed."""
        return self in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)

    def is_terminal_state(self) -> bool:
        """Whether this driver does nothing more for the job."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED
