"""A process that runs Python's command lines one after the other: Spark and its workers are started once for all of them.

A driver of its own takes four CPU seconds, of which the script's job is a tenth.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from changelog_engine.config import set_command_line

_TESTS = Path(__file__).resolve().parents[1]


class Done(NamedTuple):
    """How a script ended, and what it said."""

    status: int
    stdout: str
    stderr: str


class ScriptsInTurn:
    """Runs command lines of Python as if each had a process: ``NAME.py ...`` or ``-m MODULE ...``.

    What they share: Spark with its settings, its workers, and modules that one of them has imported. Java's working
    directory is ``folder``, so paths that a script gives Spark must be whole.

    Args:
        folder: for what Spark writes, and what scripts say.
        environment: of the process.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.scripts_in_turn"],
            cwd=folder,
            env={**environment, "PYTHONPATH": os.pathsep.join([str(_TESTS), environment["PYTHONPATH"]])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> ScriptsInTurn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def run(self, arguments: Sequence[str], cwd: Path) -> Done:
        """Run a command line in a folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        said = [str(self._folder / name) for name in ("stdout", "stderr")]
        print(json.dumps([list(arguments), str(cwd), *said]), file=self._process.stdin, flush=True)
        status = self._process.stdout.readline()
        texts = [Path(path).read_text(encoding="utf-8") for path in said]
        assert status, f"the process of the scripts ended with {arguments}:\n{texts[1]}"
        return Done(int(status), *texts)


def _run(arguments: list[str], cwd: str, stdout: str, stderr: str) -> int:
    for number, path in ((1, stdout), (2, stderr)):
        with open(path, "wb") as file:
            os.dup2(file.fileno(), number)
    before = dict(os.environ), list(sys.path)
    os.chdir(cwd)
    try:
        if arguments[0] == "-m":
            sys.argv[:] = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = arguments
            sys.path[0] = cwd
            _as_main(arguments[0])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.environ.clear()
        os.environ.update(before[0])
        sys.path[:] = before[1]
        set_command_line({})  # of `changelog-engine run`
    return 0


def _as_main(script: str) -> None:
    """Run a script; its functions live on while jobs of other scripts run, as those of `runpy` do not."""
    module = type(sys)("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    exec(compile(Path(script).read_text(encoding="utf-8"), script, "exec"), module.__dict__)


def main() -> None:
    """Run what each line of standard input asks for."""
    with os.fdopen(os.dup(1), "w") as answers:
        for line in sys.stdin:
            print(_run(*json.loads(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
