"""Names of jobs that the program does not name: the script's file name, and a number from the second on."""

from __future__ import annotations

import os
import sys

DEFAULT_JOB_NAME = "Flink Streaming Job"
_used: dict[str, int] = {}


def unnamed_job(configured: str | None = None) -> str:
    """The name of the next job without one: ``script``, then ``script-2``, ``script-3`` and so on.

    The number counts the executions of this process, so a script that does the same again finds its jobs
    again.

    Args:
        configured: what ``pipeline.name`` says, instead of the script.
    """
    base = configured or script_name()
    _used[base] = _used.get(base, 0) + 1
    return base if _used[base] == 1 else f"{base}-{_used[base]}"


def script_name() -> str:
    """The script's file name without its ending; 'Flink Streaming Job' where there is no script."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not path:
        return DEFAULT_JOB_NAME
    stem = os.path.splitext(os.path.basename(path))[0]
    if stem == "__main__":  # python -m package
        stem = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return stem or DEFAULT_JOB_NAME
