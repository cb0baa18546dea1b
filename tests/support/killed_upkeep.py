"""Materializations and truncations in processes of their own that end themselves with SIGKILL at a numbered step.

Steps are changes of the disk: files written durably, commits, deletions. The processes are forks of one for each job.

    python -m support.killed_upkeep JOB_FOLDER_BASE
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate
from support.forked import forked, import_the_rest

TESTS = Path(__file__).parents[1]


@contextlib.contextmanager
def killing(base: Path) -> Iterator[Callable[[str, int], bool]]:
    """Gives a function that runs ``materialize`` or ``truncate`` for so many steps, and says whether it was killed.

    Args:
        base: the folder of the job's folder.
    """
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    with subprocess.Popen(
        [sys.executable, "-m", "support.killed_upkeep", str(base)],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        asked, answers = parent.stdin, parent.stdout

        def killed(what: str, steps: int) -> bool:
            print(what, steps, file=asked, flush=True)
            status = int(answers.readline())
            assert status in (0, -signal.SIGKILL), "its traceback is on standard error"
            return status != 0

        yield killed


def _upkeep(what: str, base: str, steps: int) -> None:
    """In a fork."""
    left = [steps]
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


def main(base: str) -> None:
    """Run what each line of standard input asks for."""
    import_the_rest()
    for line in sys.stdin:
        what, steps = line.split()
        print(forked(partial(_upkeep, what, base, int(steps))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
