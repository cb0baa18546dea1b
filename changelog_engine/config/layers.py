"""The levels of configuration: code over command line over file over default.

Each level is a plain mapping of keys to texts, checked once when it enters. ``spark.*`` and Flink's other
keys are kept as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from changelog_engine.config.file import CONF_VARIABLE, read_file
from changelog_engine.config.options import (
    BASE_PATH,
    CHECKPOINT_DIR,
    DEFAULT_BASE_PATH,
    JOB_OVERRIDE,
    OPTIONS,
    Option,
    canonical,
    find,
)
from changelog_engine.nearest import did_you_mean

JOB_VARIABLE = "CHANGELOG_ENGINE_JOB"  # for programs without a command line of the engine's
_command_line: dict[str, str] = {}


def set_command_line(entries: Mapping[str, str]) -> None:
    """Set the level of ``-D key=value``: whoever starts a user's script calls this before it.

    Args:
        entries: keys and texts; they replace what was set before.

    Raises:
        ConfigurationError: an unknown key under our prefixes, or a value that does not fit.
    """
    checked = canonical(entries, "the command line")
    _command_line.clear()
    _command_line.update(checked)


@dataclass(frozen=True)
class ConfigLayers:
    """The three levels under the defaults, strongest first. Keys have their newest names."""

    code: Mapping[str, str] = field(default_factory=dict)
    command_line: Mapping[str, str] = field(default_factory=dict)
    file: Mapping[str, str] = field(default_factory=dict)

    def text(self, key: str) -> str | None:
        """The raw text of a key on the strongest level that has it, or None."""
        for level in (self.code, self.command_line, self.file):
            if key in level:
                return level[key]
        return None

    def get(self, option: Option) -> Any:
        """The value of an option: from the strongest level that sets it, else its default."""
        text = self.text(option.key)
        return option.default if text is None else option.parse(text)

    def is_set(self, option: Option) -> bool:
        """Whether any level sets the option."""
        return self.text(option.key) is not None

    def merged(self) -> dict[str, str]:
        """All entries of all levels in one mapping."""
        return {**self.file, **self.command_line, **self.code}

    def base_path(self) -> str:
        """The folder or URI under which the tables of jobs lie."""
        return str(self.get(BASE_PATH) or self.get(CHECKPOINT_DIR) or DEFAULT_BASE_PATH)

    def file_systems(self) -> dict[str, str]:
        """The entries for file systems: ``s3.endpoint``, ``fs.azure.account.key`` and so on."""
        return {key: text for key, text in self.merged().items() if key.startswith(FILE_SYSTEM_PREFIXES)}

    def spark(self) -> dict[str, str]:
        """The ``spark.*`` entries, which are handed to Spark as they are."""
        return {key: text for key, text in self.merged().items() if key.startswith("spark.")}


FILE_SYSTEM_PREFIXES = (
    "s3.",
    "fs.azure.account.key",
    "fs.azure.abfs.endpoint",
    "gs.storage.root.url",
    "gs.auth.type",
)


def without_effect(key: str) -> str | None:
    """What to say of a key that nothing reads; None for the others."""
    if find(key) is not None or key.startswith(("spark.", *FILE_SYSTEM_PREFIXES)):
        return None
    names = [name for option in OPTIONS for name in (option.key, *option.older)]
    return f"{key} has no effect here{did_you_mean(key, names, 0.8)}"


def outer_layers(environment: Mapping[str, str] | None = None) -> ConfigLayers:
    """The levels that exist before any code speaks: the command line and the file.

    The name for the job that ``CHANGELOG_ENGINE_JOB`` gives counts as one of the command line.

    Args:
        environment: the process's variables; ``os.environ`` by default.

    Returns:
        Layers whose code level is empty.

    Raises:
        ConfigurationError: the file named by ``CHANGELOG_ENGINE_CONF`` cannot be read or holds an unusable
        entry.
    """
    variables = os.environ if environment is None else environment
    path = variables.get(CONF_VARIABLE)
    file = canonical(read_file(path), f"the file {path}") if path else {}
    job = variables.get(JOB_VARIABLE)
    command_line = {JOB_OVERRIDE.key: job, **_command_line} if job else dict(_command_line)
    return ConfigLayers(command_line=command_line, file=file)
