"""The commands that a person runs at a moment: the page shows them and runs none."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from changelog_engine.config.options import BASE_PATH


class Command(NamedTuple):
    """A command to copy."""

    name: str
    says: str
    line: str  # quoted for a POSIX shell


def commands_at(root: str, job: str, checkpoint: int) -> list[Command]:
    """What can be done from a checkpoint."""
    base = root.rpartition("/")[0]
    fork = f"{base}/{job}-fork-{checkpoint}"
    return [
        Command(
            "Fork",
            "A job of its own that starts from this checkpoint; this job is not changed.",
            _line("fork", root, fork, "--at", checkpoint),
        ),
        Command(
            "Rewind",
            "Run the program again from this checkpoint. The log gets a branch; what came after stays in it.",
            _line("run", "--restore", checkpoint, "--job", job, "-D", f"{BASE_PATH.key}={base}", "SCRIPT"),
        ),
        Command(
            "Savepoint",
            "The whole state at this checkpoint, in a folder that can be moved and copied.",
            _line("savepoint", "create", root, "savepoints", "--at", checkpoint),
        ),
        Command(
            "Replay",
            "Run the program's code of now over what the job read from here on, and compare with the log.",
            _line("replay", "--from", checkpoint, "--job", job, "-D", f"{BASE_PATH.key}={base}", "SCRIPT"),
        ),
        Command("State", "This checkpoint's state on the console.", _line("state", root, "--at", checkpoint)),
    ]


def explain_command(
    root: str, operator: str, state: str, key: str, checkpoint: int, script: str = "SCRIPT"
) -> str:
    """The command that says which input records made a change: it replays what the job read, so it needs the program."""
    where = (f"--operator={operator}", f"--state={state}", "--at", checkpoint)
    return _line("explain", f"--key={key}", *where, script, root)


def timeline_command(root: str, last: int) -> str:
    """The command that lists a number of the newest checkpoints."""
    return _line("timeline", root, "--last", last)


def _line(*words: object) -> str:
    return shlex.join(["changelog-engine", *(str(word) for word in words)])
