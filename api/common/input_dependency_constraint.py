"""InputDependencyConstraint: when a task with several inputs was to be scheduled."""

from __future__ import annotations

from enum import Enum


class InputDependencyConstraint(Enum):
    """When a task with several inputs was to be scheduled. Kept without effect; obsolete in Flink since 1.13."""

    ANY = 0
    ALL = 1
