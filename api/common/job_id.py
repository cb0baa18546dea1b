"""JobID: the identity of one run of a job."""

from __future__ import annotations


class JobID:
    """Identity of one run of a job; ``str()`` gives 32 hexadecimal digits."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __str__(self) -> str:
        """32 hexadecimal digits."""
        return self._job_id

    def __repr__(self) -> str:
        """The digits."""
        return f"JobID({self._job_id})"

    def __eq__(self, other: object) -> bool:
        """Whether the other one is of the same run."""
        return isinstance(other, JobID) and self._job_id == other._job_id

    def __hash__(self) -> int:
        """Hash of the digits."""
        return hash(self._job_id)
