"""The page's one question that runs a program: which record made a change. ``explain`` answers it, in a child process.

Invariants:
    * Nothing is run unless whoever started the page named the script; what a browser sends chooses a change, never what is
      run.
    * One question at a time, each for a bounded time, with bounded output. Whoever asked and goes away ends it.
    * The child has a session of its own, and all processes of that are killed at the end: what the script started, too. When
      the page itself is killed, the child's standard input ends, and the child kills its session.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changelog_engine.errors import ChangelogEngineError
from changelog_engine.readable import size_text

_TIMEOUT_S = 300.0
_PATIENCE_S = 3.0  # for a question before this one, whose asker has just gone
_END_S = 2.0
_MOST_ANSWER_BYTES = 8_000_000
_MOST_SAID_BYTES = 32_000
_DEPTH = 2


@dataclass(frozen=True)
class Program:
    """The program whose jobs the page shows."""

    script: str
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # as ``-D`` gives them, ``key=value``


@dataclass(frozen=True)
class AskedChange:
    """A change that is asked about.

    Args:
        operator, state, key, checkpoint: whose change, and with which checkpoint it became durable.
    """

    job: str
    path: str
    operator: str
    state: str
    key: str
    checkpoint: int


class CannotExplainError(ChangelogEngineError):
    """There is no answer.

    Args:
        said: what the program and the command wrote, or the end of it.
    """

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said


class Explainer:
    """Asks ``changelog-engine explain``."""

    def __init__(self, program: Program, timeout_s: float = _TIMEOUT_S) -> None:
        self.program = program
        self._timeout_s = timeout_s
        self._busy = asyncio.Lock()

    async def explain(
        self, change: AskedChange, gone: Callable[[], Coroutine[Any, Any, None]]
    ) -> dict[str, Any]:
        """The answer, as ``explain --json`` gives it; also one that says that the replay differs from the log.

        Args:
            gone: returns when nobody waits for the answer any more.

        Raises:
            CannotExplainError: refused, failed, too slow, too large, or another question is being answered.
        """
        try:
            await asyncio.wait_for(self._busy.acquire(), _PATIENCE_S)
        except TimeoutError:
            raise CannotExplainError("another change is being explained: wait for it, or cancel it") from None
        try:
            with tempfile.TemporaryDirectory(prefix="changelog-engine-") as folder:
                return await self._ask(change, Path(folder) / "answer.json", gone)
        finally:
            self._busy.release()

    async def _ask(
        self, change: AskedChange, answer: Path, gone: Callable[[], Coroutine[Any, Any, None]]
    ) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *self._command(change, answer),
            stdin=asyncio.subprocess.PIPE,  # nothing is written: it ends when this process does, by kill -9 too
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        leaves = asyncio.ensure_future(gone())
        ended = asyncio.ensure_future(process.wait())
        said = asyncio.ensure_future(_end_of(process))
        try:
            await asyncio.wait({ended, leaves}, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
            done, alone = ended.done(), leaves.done()
        finally:
            leaves.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            status = await ended
            # Its end has come, unless what holds the pipe has left the session.
            await asyncio.wait({said}, timeout=_END_S)
            said.cancel()
        if not done:
            why = "nobody waits for it any more" if alone else f"it took over {self._timeout_s:g} s"
            raise CannotExplainError(
                f"the replay was ended: {why}. The command has all the time that it needs"
            )
        return _answer_in(answer, status, "" if said.cancelled() or not said.done() else said.result())

    def _command(self, change: AskedChange, answer: Path) -> list[str]:
        # -P: the working directory is not where modules are looked for, as when the command itself is called.
        command = [sys.executable, "-P", "-m", "changelog_engine", "explain", f"--answer={answer}"]
        command += [f"--job={change.job}", f"--key={change.key}", f"--operator={change.operator}"]
        command += [f"--state={change.state}", f"--at={change.checkpoint}", f"--depth={_DEPTH}"]
        for option in self.program.options:
            command += ["-D", option]
        return [*command, "--", self.program.script, change.path, *self.program.arguments]


async def _end_of(process: asyncio.subprocess.Process) -> str:
    """What a process writes: the last of it."""
    stream = process.stdout
    assert stream is not None
    data = b""
    while piece := await stream.read(65_536):
        data = (data + piece)[-_MOST_SAID_BYTES:]
    return data.decode(errors="replace").strip()


def _answer_in(answer: Path, status: int | None, said: str) -> dict[str, Any]:
    try:
        with answer.open("rb") as file:
            data = file.read(_MOST_ANSWER_BYTES + 1)
    except FileNotFoundError:
        how = (
            f"was killed by signal {-status}"
            if status is not None and status < 0
            else f"ended with status {status}"
        )
        raise CannotExplainError(f"explain {how} without an answer", said) from None
    if len(data) > _MOST_ANSWER_BYTES:
        raise CannotExplainError(
            f"the explanation has over {size_text(_MOST_ANSWER_BYTES)}: use the command", said
        )
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):  # it ended while it wrote, as where a disk is full
        found = None
    if not isinstance(found, dict):
        raise CannotExplainError("explain left only a part of its answer", said)
    return found
