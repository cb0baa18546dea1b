"""A materialization or truncation in a process of its own that ends itself with SIGKILL at a numbered step.

Steps are changes of the disk: files written durably, commits, deletions.

    python -m support.killed_upkeep materialize|truncate JOB_FOLDER_BASE STEPS
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate

TESTS = Path(__file__).parents[1]


def killed(what: str, base: Path, steps: int) -> bool:
    """Run one; whether it was killed (or else came to its end)."""
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    done = subprocess.run(
        [sys.executable, "-m", "support.killed_upkeep", what, str(base), str(steps)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def main(what: str, base: str, steps: str) -> None:
    """In the process."""
    left = [int(steps)]
    for name in ("write_durable", "put_if_absent", "delete"):
        inner = getattr(LocalDisk, name)

        def counted(storage: Storage, *arguments: Any, inner: Any = inner) -> Any:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return inner(storage, *arguments)

        setattr(LocalDisk, name, counted)
    folder = find_job_folder(base, "job")
    if what == "materialize":
        materialize(folder)
    else:
        truncate(folder, Retention(history_ms=0, retained=1, grace_ms=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
