"""In which order jobs are shown, and how many there are of each state: what needs somebody comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from changelog_engine.inspection.jobs import JobSummary

_NEEDS_SOMEBODY = ("unreadable", "damaged", "failed", "killed", "ended", "killed or running")
_FIRST = (*_NEEDS_SOMEBODY, "running")


def by_urgency(jobs: Sequence[JobSummary]) -> list[JobSummary]:
    """Jobs that stopped by themselves, then those that run, then all others; as they came within each."""
    return sorted(jobs, key=lambda job: _urgency(job.state))


def count_by_state(jobs: Sequence[JobSummary]) -> list[tuple[str, int]]:
    """States and how many jobs have them, in the order of their urgency, the frequent ones first among the others."""
    counted = Counter(job.state for job in jobs).most_common()
    return sorted(counted, key=lambda each: _FIRST.index(each[0]) if each[0] in _FIRST else len(_FIRST))


def _urgency(state: str) -> int:
    return 0 if state in _NEEDS_SOMEBODY else 1 if state == "running" else 2
