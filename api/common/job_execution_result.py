"""JobExecutionResult: what a finished job leaves behind."""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import ConfigurationError

from .job_id import JobID


class JobExecutionResult:
    """The result of a job that has ended."""

    def __init__(self, job_id: str, net_runtime_ms: int) -> None:
        self._job_id = JobID(job_id)
        self._net_runtime_ms = net_runtime_ms

    def get_job_id(self) -> JobID:
        """The identity of the run."""
        return self._job_id

    def is_job_execution_result(self) -> bool:
        """Always true: the job has ended."""
        return True

    def get_net_runtime(self) -> int:
        """How long the job ran, in ms."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """The value of an accumulator.

        Raises:
            ConfigurationError: always; the Python API has no way to register accumulators.
        """
        raise ConfigurationError(
            f"there is no accumulator {accumulator_name!r}: Python functions cannot register any"
        )

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """All accumulators by name: none."""
        return {}

    def __str__(self) -> str:
        """A few lines for people."""
        return (
            f"Program execution finished\nJob with JobID {self._job_id} has finished.\n"
            f"Job Runtime: {self._net_runtime_ms} ms"
        )

    def __repr__(self) -> str:
        """What a notebook shows behind ``env.execute()``."""
        return f"JobExecutionResult({str(self._job_id)!r}, {self._net_runtime_ms})"
