"""Running a script as ``python script.py`` does, with the import alias in place."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType

from changelog_engine.api_names import alias_installed, install_alias, remove_alias


def run_program(script: str, arguments: Sequence[str] = ()) -> None:
    """Run a script in this process as its main program.

    ``sys.argv``, ``sys.path[0]`` and ``__main__`` are what the script would see under plain Python; they stay so after
    it, for threads that outlive it. What it defines is pickled by value, as from any main module.

    Raises:
        BaseException: whatever the script raises, SystemExit included.
    """
    install_alias()
    sys.argv[:] = [script, *arguments]
    folder = os.path.dirname(os.path.realpath(script))
    if sys.flags.safe_path or not sys.path:
        sys.path.insert(0, folder)
    else:
        sys.path[0] = folder  # until now that of the command itself
    runpy.run_path(script, run_name="__main__")


@contextlib.contextmanager
def process_as_before() -> Iterator[None]:
    """Put arguments, import path and alias back afterwards: for scripts that run in a process which outlives them."""
    had_alias, argv, path = alias_installed(), list(sys.argv), list(sys.path)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, path
        if not had_alias:
            remove_alias()


def no_script(script: str) -> str | None:
    """Why a path is not that of a script that can be run; None where it is."""
    if os.path.isfile(script):
        try:
            open(script, "rb").close()
        except OSError as error:
            return f"{script} cannot be read: {error.strerror}. Give this user the right to read it"
        return None
    if os.path.isdir(script):
        return f"{script} is a folder, not a script"
    if script != "-" and not os.path.exists(script):
        return f"{script} does not exist"
    return (
        f"{script} is not a file, and messages and workers read a script again: write what comes through standard input or "
        "a pipe to a file, and name that file"
    )


def script_frames(error: BaseException, script: str) -> TracebackType | None:
    """The part of an error's traceback that begins in the script; None when it never got there, as for bad syntax."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != script:
        frames = frames.tb_next
    return frames
