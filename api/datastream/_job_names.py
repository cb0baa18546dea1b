"""Names of jobs: the program's, else the script's file name and a number from the second on; or one that wins over both."""

from __future__ import annotations

import os
import sys

from changelog_engine.config import ConfigLayers, options
from changelog_engine.errors import ConfigurationError

DEFAULT_JOB_NAME = "Flink Streaming Job"
_used: dict[str, int] = {}
_renamed: dict[str, str] = {}


def name_of_job(given: str | None, layers: ConfigLayers) -> str:
    """The name of the next job.

    Args:
        given: what the program calls it.
        layers: the configuration.

    Raises:
        ConfigurationError: another job of this process has the name that was to win, or the job would not look for its
            tables where the command line says; or the command line names a job that has a name.
    """
    wins = _name_that_wins(layers)
    if wins is not None:
        return _only(wins, given or unnamed_job(layers.get(options.JOB_NAME)))
    configured = layers.command_line.get(options.JOB_NAME.key)
    if given is not None and configured not in (None, given) and configured not in _used:
        raise ConfigurationError(
            f"the job name {configured!r} (--name, {options.JOB_NAME.key}) is not used: it is for jobs without a name, and "
            f"the program calls its job {given!r}. To run it under another name, write run --job {configured!r}, or "
            f"-D {options.JOB_OVERRIDE.key}={configured}, which wins over the program"
        )
    return given or unnamed_job(layers.get(options.JOB_NAME))


def _name_that_wins(layers: ConfigLayers) -> str | None:
    """``changelog.job.name``: here the command line wins over the program, since it is to replace what that says."""
    key = options.JOB_OVERRIDE.key
    wins = layers.command_line.get(key) or layers.text(key)
    base = options.BASE_PATH.key
    program, asked = layers.code.get(base), layers.command_line.get(base)
    if wins and asked is not None and program not in (None, asked):
        raise ConfigurationError(
            f"the job {wins!r} ({key}) is to have its tables below {asked!r}, and the program sets {base} to {program!r}: "
            "take that line out of the program, or make the fork below the program's path"
        )
    return wins or None


def _only(wins: str, program_says: str) -> str:
    first = _renamed.setdefault(wins, program_says)
    if first != program_says:
        raise ConfigurationError(
            f"{options.JOB_OVERRIDE.key} gives the name {wins!r} to one job, which is {first!r}, and the program executes "
            f"another one, {program_says!r}. Nothing of that has run, since it would go on with the job of this name; give "
            "it a program of its own, or let the program take its jobs' names from its arguments"
        )
    return wins


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
