"""Whether Spark's JVM still lives, and what to say when it does not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from changelog_engine.errors import SparkEndedError

# What calls to a JVM raise; OSError and EOFError when nobody answers.
LOST = (Py4JError, OSError, EOFError)
_DYING_S = 5
_FRAMES = re.compile(
    r"^(\s+at |\s+\.\.\. \d+ more|Driver stacktrace:|Caused by: |[\w.$/<>]+\(\w+\.(java|scala):\d+\)$)"
)
_PREFIX = re.compile(r"^An error occurred while calling \S+\n: (org\.apache\.spark\.[\w.]+Exception: )?")
_LONGEST = 2_000


def without_frames(text: str) -> str:
    """What Java says of an error, as py4j gives it, without stack traces."""
    lines = [line for line in _PREFIX.sub("", text).splitlines() if line.strip() and not _FRAMES.match(line)]
    return "\n".join(lines)[:_LONGEST]


def spark_ended(context: SparkContext, error: BaseException | None) -> SparkEndedError | None:
    """What to raise when the JVM has ended; None while it lives.

    Args:
        error: what a call to it raised; None when none did.
    """
    return jvm_ended(getattr(context._gateway, "proc", None), error)


@contextlib.contextmanager
def said_when_ended(context: SparkContext) -> Iterator[None]:
    """Within it, a call that fails since the JVM has ended raises a SparkEndedError."""
    try:
        yield
    except LOST as error:
        ended = spark_ended(context, error)
        if ended is None:
            raise
        raise ended from None


def jvm_ended(process: subprocess.Popen[bytes] | None, error: BaseException | None) -> SparkEndedError | None:
    """The same for the process of a JVM; None for one that somebody else started."""
    unreachable = isinstance(error, Py4JNetworkError | ConnectionError | EOFError) or _is_unanswered(error)
    if process is None:  # spark-submit, or somebody's own gateway
        return _ended(None, None) if unreachable else None
    status = process.poll()
    if status is None and unreachable:
        try:
            status = process.wait(_DYING_S)  # its sockets are closed a moment before it is gone
        except subprocess.TimeoutExpired:
            return None
    return None if status is None else _ended(process.pid, status)


def _is_unanswered(error: BaseException | None) -> bool:
    """Whether py4j lost its connection amid a call: what Java itself says to one has a trace, or is an object of its own."""
    said = str(error) if type(error) is Py4JError else ""
    return said.startswith("An error occurred while calling ") and "\n" not in said


def _ended(pid: int | None, status: int | None) -> SparkEndedError:
    who = "the JVM of Spark" if pid is None else f"the JVM of Spark (process {pid})"
    crash = None if pid is None else os.path.abspath(f"hs_err_pid{pid}.log")
    if crash is not None and os.path.exists(crash):
        log = f"it crashed: {crash} says where"
    else:
        log = "what it wrote last is on this program's standard error"
    failure = SparkEndedError(f"{who} {_how(status)}; {log}{_hint(status)}")
    failure.pid, failure.status = pid, status
    return failure


_OUT_OF_MEMORY = 52  # Spark's exit status then


def _how(status: int | None) -> str:
    if status is None:
        return "does not answer any more"
    if status >= 0:
        return f"has ended with status {status}"
    return f"was killed by {signal.Signals(-status).name}"


def _hint(status: int | None) -> str:
    if status == _OUT_OF_MEMORY:
        return (
            ". It had an OutOfMemoryError: give it more (spark.driver.memory); or, where that is about native threads, let "
            "this user, or its container, have more processes (ulimit -u, pids.max)"
        )
    if status != -signal.SIGKILL:
        return ""
    return (
        ". Where nobody killed it, the machine ran out of memory (`dmesg` says so): give Spark less "
        "(spark.driver.memory) or the machine more"
    )


def answers(context: Any) -> bool:
    """Whether a SparkContext runs.

    Raises:
        SparkEndedError: its JVM has ended.
    """
    try:
        return not context._jsc.sc().isStopped()
    except LOST as error:
        ended = spark_ended(context, error)
        if ended is not None:
            raise type(ended)(f"{ended}. A new job needs a new Python process") from None
        raise


def byte_array_tag(context: SparkContext) -> Any:
    """Scala's ClassTag of byte arrays, which its RDDs of them are made with."""
    jvm: Any = context._jvm
    tags = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$")
    return tags.apply(jvm.java.lang.Class.forName("[B"))
