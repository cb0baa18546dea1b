"""The job's process: a real one, started by the console's own command, so that it can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


@contextmanager
def process_of(
    command: Sequence[str], output: Path, folder: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own; at the end it gets SIGKILL, and all that it started in this session.

    Args:
        output: what it prints goes to the end of this file.
        environment: its variables; None for this process's.

    Raises:
        OSError: it cannot be started.
    """
    with output.open("ab") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder,
            env=environment, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # all of it may have ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def console_command(*arguments: str) -> list[str]:
    """The console's command as a process: this interpreter, this copy of the engine."""
    return [sys.executable, "-m", _PACKAGE.name, *arguments]


def environment_of() -> dict[str, str]:
    """This process's variables; a copy of the engine that is not installed is found from every folder."""
    root = _PACKAGE.parent
    if root.name in ("site-packages", "dist-packages"):
        return dict(os.environ)
    path = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
