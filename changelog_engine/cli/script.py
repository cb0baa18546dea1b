"""A script whose job is asked about instead of being run: what ``replay`` and ``explain`` share.

Invariant: arguments, import path, alias and configuration are afterwards what they were.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from changelog_engine.cli.command_line import options_by_key, use
from changelog_engine.config import set_command_line
from changelog_engine.display import printable
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.launcher import run_program
from changelog_engine.launcher.program import no_script, process_as_before, script_frames
from changelog_engine.launcher.standard_streams import tell

Answer = TypeVar("Answer")


class CannotAskError(click.ClickException):
    """The question cannot be answered."""

    exit_code = 2


def ask_script(
    verb: str,
    script: str,
    arguments: tuple[str, ...],
    name: str | None,
    entries: tuple[str, ...],
    ask: Callable[[Callable[[], Any]], Answer],
) -> Answer:
    """Run a script up to its job and ask about that.

    Args:
        verb: for messages, such as ``replay``.
        name: of a job whose execute() gives none.
        ask: a program that executes the job to the answer.

    Raises:
        CannotAskError: the question cannot be answered; the message says why.
    """
    problem = no_script(script)
    if problem is not None:
        raise CannotAskError(problem)
    with process_as_before():
        try:
            use(options_by_key({"name": name}, entries))
            return ask(lambda: run_program(script, arguments))
        except ChangelogEngineError as error:
            raise CannotAskError(printable(f"cannot {verb}: {error}")) from None
        except SystemExit as error:
            raise CannotAskError(
                f"cannot {verb}: {script} ended with status {error.code} before it executed a job"
            ) from None
        except click.ClickException:
            raise
        except Exception as error:
            _fail(error, script, verb)
        finally:
            set_command_line({})


def _fail(error: Exception, script: str, verb: str) -> NoReturn:
    """A script that failed by itself: its traceback, and what is not to be had for it."""
    frames: Any = script_frames(error, script)
    sys.excepthook(type(error), error.with_traceback(frames), frames)
    tell(f"Error: cannot {verb}: {script} failed before it executed a job")
    sys.exit(CannotAskError.exit_code)
