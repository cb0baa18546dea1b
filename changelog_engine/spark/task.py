"""The function that Spark runs in a worker, and how its failure finds the driver."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import pack_long

from changelog_engine import errors
from changelog_engine.codec import by_value
from changelog_engine.driver.mistakes import in_engine, origin_of
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.spark.garbage import after_task, before_task
from changelog_engine.spark.jvm import without_frames
from changelog_engine.spark.notes import WorkerNotes
from changelog_engine.spark.printed import flush_printed, print_to
from changelog_engine.spark.session_options import SOCKETS

_MARK = "changelog-engine-failure:"
_SHUT_DOWN = re.compile(r"SparkContext (?:has been|was) shut ?down|stopped SparkContext")
_MISSING_PYTHON = re.compile(r'Cannot run program "([^"\n]*)": error=2,')
_MISSING_MODULE = re.compile(r"(ModuleNotFoundError|ImportError): .*")
_LONG_PATHS = ("AF_UNIX path too long", "Unix domain path too long")  # Python's words, Java's words
_FULL = ("No space left on device", "Disk quota exceeded")
_REMOVED = re.compile(
    r"(?:NoSuchFileException: |FileNotFoundException: (?=.*\(No such file or directory\)))(\S*/blockmgr-[0-9a-f-]+)"
)


@dataclass
class StageTask:
    """The subtasks of one stage in one epoch, as Spark's mapPartitionsWithIndex takes them.

    A failure goes the way of the data, past all later subtasks, which do nothing then. Raised, it would cost the process
    with all the state it holds, and on a session with Spark's defaults the task would run again: without that state, so
    that the second failure hid the first.

    Args:
        orders: what to do, one a partition, pickled each by itself: a subtask looks at its own only.
        first: the subtask of the first partition; the others follow.
        partitions: how many partitions the stage's output is shuffled to, as PySpark writes pairs of (partition, block);
            0 for a stage whose output goes to the driver.
        located: True when the elements are (location, block) pairs.
        printed: the pipe to which functions print; None for what Spark gives them.
        notes: where subtasks note how their starts go; None for nowhere.
    """

    job: Any
    orders: list[bytes]
    stage: int
    first: int
    partitions: int
    located: bool
    printed: str | None
    notes: WorkerNotes | None = None

    def __call__(self, index: int, data: Iterable[Any]) -> Iterator[bytes]:
        before_task()
        blocks: Iterable[bytes] = (block for _, block in data) if self.located else data
        for partition, block in self._run(index, [block for block in blocks if block]):
            if self.partitions:
                yield pack_long(partition)
            yield block
        after_task()

    def _run(self, index: int, blocks: list[bytes]) -> list[tuple[int, bytes]]:
        from changelog_engine.spark.worker import RUNTIMES

        failure = next((block for block in blocks if is_failure(block)), None)
        if failure is None:
            try:
                _refuse_a_second_run(TaskContext.get())
                print_to(self.printed)
                order, subtask = pickle.loads(self.orders[index]), self.first + index
                notes = None if self.notes is None else self.notes.path(order.attempt, self.stage, subtask)
                return RUNTIMES.run(lambda: _program(self.job), order, self.stage, subtask, blocks, notes)
            except BaseException as error:
                # SystemExit as well: the process holds the state of all its subtasks.
                failure = describe_failure(error)
            finally:
                flush_printed()
        return [(partition, failure) for partition in range(self.partitions or 1)]


@dataclass
class WarmUp:
    """Has a process import what a subtask needs, before it is one: see StageTask."""

    job: Any  # broadcast variable of the ShippedJob
    nodes: frozenset[int]  # of the stage, with functions whose modules it imports

    def __call__(self, index: int, data: Iterable[Any]) -> Iterator[bytes]:
        from changelog_engine.spark import worker

        with contextlib.suppress(Exception):  # the first epoch says it with the operator's name
            self.job.value.functions_of(set(self.nodes))
        pa.array([0])  # imports pandas, where there is one: that of the job's files before others
        list(data)  # PySpark ends a worker whose task left input unread, and what it imported would be gone
        yield worker.__name__.encode()


def pickled(order: EpochOrder) -> bytes:
    """An order as bytes.

    A source's position may be of a class of the user's main module, which workers know by value only.
    """
    try:
        data = pickle.dumps(order, 5)
    except Exception:
        return by_value.dumps(order, 5)
    return by_value.dumps(order, 5) if b"__main__" in data else data


def _program(job: Any) -> Any:
    """The ShippedJob of a broadcast variable, which lies in a file of Spark's until a worker needs it."""
    try:
        return job.value
    except FileNotFoundError as error:
        failure = errors.EpochFailedError(
            f"Spark's file {error.filename}, out of which a new worker takes the job's program, is gone: somebody removed "
            "it, as cleaners of temporary files do with old ones. Nothing that was acknowledged is lost, and the file is "
            "made again; name folders that nobody cleans by spark.local.dir"
        )
        failure.program_gone = True
        raise failure from None


def _refuse_a_second_run(task: TaskContext | None) -> None:
    """Spark repeats what a lost executor held, and speculates: not with state.

    A user's function need not give the same twice, so another subtask may already have taken what differs now; only a
    restart of all subtasks from the checkpoint is exact.
    """
    if task is not None and task.attemptNumber():
        raise errors.StateLostError("an executor was lost, or Spark ran a task a second time")


def is_failure(data: bytes) -> bool:
    """Whether these bytes are a failure, not a block or report."""
    return data.startswith(_MARK.encode())


def describe_failure(error: BaseException) -> bytes:
    """An exception as bytes that travel as blocks do."""
    if isinstance(error, errors.ChangelogEngineError):
        failure = error
        failure.origin = origin_of(error)
    else:
        failure = in_engine(error, "".join(traceback.format_exception(error)))
    document = {
        "type": type(failure).__name__,
        "message": str(failure),
        "facts": _facts(failure),
        "origin": failure.origin,
    }
    return _MARK.encode() + json.dumps(document).encode()


def failure_of(data: bytes) -> errors.ChangelogEngineError:
    """The exception that a worker described."""
    document = json.loads(data.removeprefix(_MARK.encode()))
    kind = errors.class_named(document["type"])
    facts = document.get("facts", {})
    if kind is errors.NoCurrentKeyError:
        return errors.NoCurrentKeyError(**facts)
    failure: errors.ChangelogEngineError = kind(document["message"])
    for name, fact in facts.items():
        setattr(failure, name, fact)
    classes, message, frame, outage = document["origin"]
    failure.origin = errors.Origin(tuple(classes), message, frame, outage)
    return failure


def _facts(error: errors.ChangelogEngineError) -> dict[str, Any]:
    """What an error knows beside its message, as far as JSON has it."""
    return {name: fact for name, fact in vars(error).items() if isinstance(fact, (str, int, type(None)))}


def _unready_python(text: str) -> errors.ChangelogEngineError | None:
    """What is to be said where no worker can begin; None where it is something else."""
    if "No module named 'changelog_engine'" in text:
        return errors.EnvironmentNotReadyError(
            "the Python of Spark's executors has no changelog_engine: install it there, in the driver's version"
        )
    interpreter = _MISSING_PYTHON.search(text)
    if interpreter is not None:
        return errors.EnvironmentNotReadyError(
            f"Spark's executors have no Python {interpreter[1]!r}",
            "Install one there with the packages of the driver's, or ship it: spark.archives=environment.tar.gz#environment "
            "and spark.pyspark.python=./environment/bin/python (docs/cluster.md)",
        )
    if any(words in text for words in _LONG_PATHS):
        return errors.EnvironmentNotReadyError(
            "Spark's sockets to Python lie in Java's temporary folder (java.io.tmpdir), whose path is too long for them",
            f"Name a folder with a short path that is there on each machine, as {SOCKETS}: /tmp",
        )
    missing = _MISSING_MODULE.search(text)
    if missing is not None:
        return errors.NotLoadableError(f"a Python worker could not begin: {missing[0]}. {errors.HOW_TO_SHIP}")
    return None


def failure_of_spark(
    text: str, folders: str = "its folders (spark.local.dir)"
) -> errors.ChangelogEngineError:
    """What Spark itself says of a failed job, without Java's stack traces: a process or executor was lost, mostly.

    Args:
        text: as Java gave it.
        folders: where Spark keeps what tasks send each other, for people.
    """
    if (unready := _unready_python(text)) is not None:
        return unready
    said = without_frames(text)
    if any(words in text for words in _FULL):
        return errors.EpochFailedError(
            f"disk full: there is no room in {folders} for what Spark keeps there of a job and sends from task to task. "
            "Nothing that was acknowledged is lost: free space there, raise the quota, or name folders on a larger disk by "
            f"spark.local.dir. Spark says: {said}"
        )
    removed = _REMOVED.search(text)
    if removed is not None:
        return errors.EpochFailedError(
            f"something in Spark's folder {removed[1]} is gone: somebody removed it, as cleaners of temporary files do. "
            "Nothing that was acknowledged is lost. If the folder itself is gone, Spark does not make it again: make it, or "
            f"run the job again; and name folders that nobody cleans by spark.local.dir. Spark says: {said}"
        )
    if "Python worker exited unexpectedly" in text:
        # What it names tells nothing of a process that was killed.
        said = said.partition(" Consider setting")[0]
        worker_ended = errors.EpochFailedError(
            "a Python worker ended without an error, as one does that the system kills for want of memory (its log says so: "
            "journalctl -k | grep -i -E 'oom|killed process') or that calls os._exit(), or whose native code crashes. Where "
            f"it is memory: state in RocksDB, or more parallelism (docs/runbook.md). Spark says: {said}"
        )
        worker_ended.ended_from_outside = True
        return worker_ended
    if _SHUT_DOWN.search(text):
        return errors.SparkEndedError(
            "Spark was stopped: by the program (spark.stop()), by a signal to Spark's processes, or by itself, as where its "
            "master does not answer or YARN ends its application. What it wrote last is on this program's standard error. "
            f"Spark says: {said.partition(chr(10))[0].rstrip('.')}"
        )
    return errors.EpochFailedError(f"a Spark task failed: {said}")
