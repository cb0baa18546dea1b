"""The command line as a level of the configuration: options with names of their own, and those by key, ``-D``."""

from __future__ import annotations

import importlib
from typing import Any

import click

from changelog_engine.config import find, set_command_line, without_effect
from changelog_engine.display import printable
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.launcher.standard_streams import tell

_OPTIONS = {
    "--restore": "changelog.restore",
    "--parallelism": "parallelism.default",
    "--master": "spark.master",
    "--job": "changelog.job.name",
    "--name": "pipeline.name",
}


class RefusedError(click.ClickException):
    """A command line that cannot be used."""

    exit_code = 2


def options_by_key(given: dict[str, Any], entries: tuple[str, ...]) -> dict[str, str]:
    """All options of a command line, by key.

    Args:
        given: those that have a name of their own, such as ``parallelism``; None for one that was not given.
        entries: those that ``-D`` gives.
    """
    chosen = {
        key: (option, str(given.get(option.removeprefix("--"))))
        for option, key in _OPTIONS.items()
        if given.get(option.removeprefix("--")) is not None
    }
    result = {key: text for key, (_, text) in chosen.items()}
    for entry in entries:
        key, equals, text = entry.partition("=")
        key = key.strip()
        if not equals or not key:
            raise RefusedError(f"-D {entry}: write it as -D key=value")
        known = find(key)
        name = key if known is None else known.key
        if name in chosen:
            raise RefusedError(f"{chosen[name][0]} and -D {key} say the same: leave one of them out")
        result[key] = text
    return result


def use(entries: dict[str, str]) -> None:
    """Set the command line's level, and say which keys have no effect.

    Raises:
        RefusedError: no job could run with them. Misspelt keys under the engine's own prefixes are among these.
    """
    try:
        set_command_line(entries)
        api = importlib.import_module("changelog_engine.api.datastream")
        api.StreamExecutionEnvironment.get_execution_environment()
    except ChangelogEngineError as error:
        raise RefusedError(printable(str(error))) from None
    for key in entries:
        note = without_effect(key)
        if note is not None:
            tell(f"note: -D {printable(note)}")
