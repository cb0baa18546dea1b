"""What a Spark master's URL says."""

from __future__ import annotations


def is_local(master: str) -> bool:
    """Whether the driver's own JVM runs the tasks; ``local-cluster`` starts executors."""
    return master.startswith("local") and not master.startswith("local-cluster")
