"""``changelog-engine explain`` and ``impact``: where state and output came from, by a replay without Spark.

Exit status: 0 explained, 1 the replay differs from the log, 2 the question could not be answered.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TextIO

import click

from changelog_engine.cli.options import (
    PATH,
    arguments_argument,
    entries_option,
    most_option,
    name_option,
    operator_option,
    point_option,
    script_argument,
    state_option,
)
from changelog_engine.cli.script import CannotAskError, ask_script
from changelog_engine.display import printable
from changelog_engine.provenance.result import Explanation
from changelog_engine.types import Row
from changelog_engine.types.row import field_names_of

_SLOW_S = 5.0
_REPLAYS = (
    "still at it: each record of the range is processed again, which takes longer than in the job; "
    "--from and --at make the range shorter"
)


@dataclass(frozen=True)
class _Question:
    """What both commands are given: the script, and which piece of its job's history is replayed."""

    script: str
    arguments: tuple[str, ...]
    name: str | None
    entries: tuple[str, ...]
    path: str
    job: str | None
    start: str | None
    at: str | None
    as_json: bool
    limit: int

    def answer(self, ask: Callable[..., Explanation]) -> Explanation:
        """What a function gives, of a program and the piece of history."""
        piece = {"path": self.path, "job": self.job, "start": self.start, "at": self.at}
        with _told_if_slow(sys.stderr):
            return ask_script(
                "explain",
                self.script,
                self.arguments,
                self.name,
                self.entries,
                lambda program: ask(program, **piece),
            )


class _AfterScript(click.Command):
    """A command of SCRIPT and PATH that says which of the two is missing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            script = str(ctx.params.get("script") or "")
            if os.path.isfile(script) or not script:
                raise
            message = f"{printable(script)} is not a script: the job's program stands before the job's folder"
            raise click.UsageError(f"Missing argument 'SCRIPT'. {message}", ctx) from None


def _shared(asked: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options and arguments that both have, as a question."""

    @functools.wraps(asked)
    def command(**given: Any) -> None:
        asked(_Question(**{field.name: given.pop(field.name) for field in fields(_Question)}), **given)

    for option in reversed(
        (
            point_option(
                "--from",
                "start",
                what="Checkpoint whose state the replay begins with; 0 for the start of the job, else",
            ),
            click.option("--job", metavar="NAME", help="Which job, in a script that executes several."),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
            most_option("Show at most this many.", 50),
            name_option,
            entries_option(),
            script_argument,
            click.argument("path", metavar="PATH", type=PATH),
            arguments_argument,
        )
    ):
        command = option(command)
    return command


@click.command(cls=_AfterScript, options_metavar="[OPTIONS]")
@click.option("--key", metavar="K", help="The key, as it is shown or as plain text.")
@operator_option
@state_option()
@click.option(
    "--output", "sink", metavar="SINK", help="Instead of a key: the output of this sink, by uid or name."
)
@click.option(
    "--where",
    metavar="EXPRESSION",
    help="With --output: a Python expression that says which elements. `value` is the element; a Row's fields go by their "
    "names.",
)
@point_option(
    "--at",
    what="The checkpoint whose mutations or outputs are explained",
    left_out="When left out: for a key the newest that changed it, for outputs the newest.",
)
@click.option(
    "--depth",
    metavar="D",
    type=click.IntRange(1, 100),
    help="1: only the causes; 2: also the state that they read, and its causes; 3 and more: likewise of that. By "
    "default 1 for keys, 2 for outputs.",
)
@click.option(
    "--answer", metavar="FILE", hidden=True, help="Write the answer as JSON to FILE, and print nothing."
)
@_shared
def explain(
    question: _Question,
    key: str | None,
    operator: str | None,
    state: str | None,
    sink: str | None,
    where: str | None,
    depth: int | None,
    answer: str | None,
) -> None:
    """Show which records and timers changed a key, and in which line of the code.

    The state before the change is restored from PATH, the job's folder; from there the script, as it is now, reads the
    recorded input again, and its changes are compared with the log. It runs in this process, without Spark; the folder is
    only read, and nothing goes to the job's sinks. Options of the script's own stand after `--`.

    The exit status is 1 when the replay differs from the log: then nothing is explained.
    """
    from changelog_engine.provenance.explain import explain as explain_key
    from changelog_engine.provenance.explain import explain_output

    if (key is None) == (sink is None):
        raise click.UsageError("give either --key or --output")
    if where is not None and sink is None:
        raise click.UsageError("--where goes with --output")

    def ask(program: Callable[[], Any], **piece: Any) -> Explanation:
        if sink is not None:
            return explain_output(program, sink, _condition(where), depth=depth or 2, **piece)
        return explain_key(program, key, operator=operator, state=state, depth=depth or 1, **piece)

    if answer is not None:
        _end_with_parent()
    found = question.answer(ask)
    if answer is not None:  # the script may print what it likes
        Path(answer).write_text(json.dumps(found.to_json()))
        sys.exit(0 if found.equal else 1)
    _show(found, question)


@click.command(cls=_AfterScript, options_metavar="[OPTIONS]")
@click.option("--source", metavar="S", required=True, help="The source, by uid or name.")
@click.option("--position", metavar="P", required=True, help="Position of the record in its split.")
@click.option("--split", metavar="ID", help="The split; may be left out when the source has one.")
@click.option(
    "--through-state",
    is_flag=True,
    help="Also what was changed or given by calls that had read a mutation in which the record had a part.",
)
@point_option(
    "--at", what="The last checkpoint that is looked at", left_out="By default the one with the record."
)
@_shared
def impact(question: _Question, source: str, position: str, split: str | None, through_state: bool) -> None:
    """Show which states and outputs a record had a part in, by itself and by timers that were set for it.

    `explain --help` says how it is found out, what PATH is, and what the exit status means.
    """
    from changelog_engine.provenance.explain import impact as impact_of

    try:
        where: Any = ast.literal_eval(position)
    except (ValueError, SyntaxError):
        where = position

    def ask(program: Callable[[], Any], **piece: Any) -> Explanation:
        return impact_of(program, source, where, split=split, through_state=through_state, **piece)

    _show(question.answer(ask), question)


def _end_with_parent() -> None:
    """Kill this session when standard input ends, as it does when the process at its other end is gone, by kill -9 too.

    The script has an empty standard input. Nothing is done where this process does not lead a session of its own.
    """
    if os.getsid(0) != os.getpid():
        return
    asked = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def wait() -> None:
        while os.read(asked, 4096):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="changelog-asked", daemon=True).start()


def _condition(where: str | None) -> Callable[[Any], Any]:
    """An expression as a test of elements."""
    if where is None:
        return lambda value: True
    try:
        code = compile(where, "--where", "eval")
    except (SyntaxError, ValueError) as error:
        raise CannotAskError(f"--where is not a Python expression: {error}") from None

    def test(value: Any) -> Any:
        named = value.as_dict() if isinstance(value, Row) and field_names_of(value) else {}
        try:
            return eval(code, {**named, "value": value})  # the user's own expression, as in `python -c`
        except Exception as error:
            raise CannotAskError(f"--where fails for the element {value!r}: {error!r}") from None

    return test


@contextlib.contextmanager
def _told_if_slow(stream: TextIO) -> Iterator[None]:
    """Within it, somebody who waits at a terminal is told what for."""
    waits = threading.Timer(_SLOW_S, click.echo, (_REPLAYS, stream))
    waits.daemon = True
    if stream.isatty():
        waits.start()
    try:
        yield
    finally:
        waits.cancel()


def _show(found: Explanation, question: _Question) -> None:
    if question.as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        click.echo(printable(found.text(question.limit)))
    sys.exit(0 if found.equal else 1)
