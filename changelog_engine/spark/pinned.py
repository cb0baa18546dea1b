"""Python RDDs that run in a pinned process, made with few calls to the JVM.

How a subtask finds its process again: Spark keys its pool of Python workers by the environment variables of the function,
so each stage gets a variable of its own, and its daemon (``daemon.py``) hands the task of a partition to the worker of that
subtask. In a session of the user's with PySpark's daemon, each subtask needs a variable, and so a function, of its own.

PySpark's own ``RDD.mapPartitionsWithIndex`` would do, but makes some 40 calls through py4j a time (0.2 ms each): it converts
the environment, the includes and the broadcast variables anew. Here they are made once per job.

Workers of a session that the engine started are there before the first epoch, and those of all stages start side by side:
left to itself, Spark starts those of a stage when the stage before it is done.

Jobs that run at the same time on one SparkContext never share a process: each takes the lowest free slot, which is part of
the variable. The next job finds the processes of the one before.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from pyspark import SparkContext
from pyspark.serializers import CloudPickleSerializer, NoOpSerializer, PairDeserializer

from changelog_engine.operators.messages import Durable
from changelog_engine.spark.daemon_messages import PIN_VARIABLE, news_of, order_of_workers
from changelog_engine.spark.files import WorkerFiles
from changelog_engine.spark.same_code import worker_environment
from changelog_engine.spark.task import StageTask, WarmUp

log = logging.getLogger("changelog_engine")

_SLOW_START_S = 60.0
_DAEMON = "changelog_engine.spark.daemon"
_ROUTED = {"spark.python.daemon.module": _DAEMON, "spark.python.worker.reuse": "true"}
_SESSION = {**_ROUTED, "spark.python.unix.domain.socket.enabled": "true"}
# Spark finds a process by all its variables; it adds these to a function's, and with other settings others.
_OF_A_TASK = {
    "OMP_NUM_THREADS": "1",
    "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    "PYTHON_UDF_BATCH_SIZE": "100",
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_JOB_ARTIFACT_UUID": "default",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
    "SPARK_REUSE_WORKER": "1",
}
_OTHER_WORKERS = (
    "spark.buffer.size",
    "spark.python.authenticate.socketTimeout",
    "spark.executorEnv.OMP_NUM_THREADS",
    "spark.executor.pyspark.memory",
    "spark.python.daemon.killWorkerOnFlushFailure",
    "spark.python.use.daemon",
    "spark.python.worker.faulthandler.enabled",
    "spark.python.worker.module",
    "spark.python.worker.tracebackDumpIntervalSeconds",
    "spark.task.cpus",
)
_slots_taken: set[tuple[str, int]] = set()  # (application, slot)
_slots_lock = threading.Lock()


class _Reached(NamedTuple):
    """The daemons of this machine, as Spark's environment reaches them."""

    spark: Any  # Scala's SparkEnv
    folders: list[str]
    to_scala_map: Callable[[Any], Any]
    wrap: Callable[[bytearray], Any]
    daemons: dict[int, tuple[Any, ...]]  # by stage, what Spark finds its daemon by


class PinnedFunctions:
    """Makes the Python side of RDDs for one job.

    What starts processes needs none; functions carry the job's broadcast variable (``carry``).

    Args:
        files: the job's interpreter and variables.

    Attributes:
        routed: one function serves all subtasks of a stage.
    """

    def __init__(self, context: SparkContext, files: WorkerFiles) -> None:
        jvm: Any = context._jvm
        self._context = context
        self._python = files.python or context.pythonExec
        self._variables = files.variables
        self._hash_map: Any = jvm.java.util.HashMap
        self._simple_function: Any = jvm.SimplePythonFunction
        self._python_rdd: Any = jvm.PythonRDD
        self._includes: Any = jvm.java.util.ArrayList()
        for include in context._python_includes:
            self._includes.add(include)
        self._list: Any = jvm.java.util.ArrayList
        self._broadcasts: Any = None
        self._slot = _take_slot(context.applicationId)
        self._environments: dict[str, Any] = {}
        conf = context.getConf()
        self.routed = (
            all(conf.get(key, "true") == value for key, value in _ROUTED.items())
            and conf.get("spark.python.use.daemon", "true") == "true"
            and conf.get("spark.io.encryption.enabled", "false")
            == "false"  # broadcast variables would have no files
        )
        self._serializer = CloudPickleSerializer()
        self._blocks = NoOpSerializer()
        self._located_blocks = PairDeserializer(NoOpSerializer(), NoOpSerializer())

    def carry(self, broadcast: Any) -> None:
        """Functions that are made from now on carry this broadcast variable."""
        self._broadcasts = self._list()
        self._broadcasts.add(broadcast._jbroadcast)

    def rdd(self, source: Any, task: StageTask, subtask: int | None = None) -> Any:
        """The (Scala) RDD of the output of a stage, or of one subtask of it, as byte arrays.

        Args:
            source: Scala RDD of its input, with a partition for each subtask, or for the one.
            subtask: the one; None for all, which needs ``routed``.
        """
        reads = self._located_blocks if task.located else self._blocks
        return self._rdd(source, task, reads, task.stage, subtask)

    def warm_up(self, source: Any, task: WarmUp, stage: int, subtask: int | None = None) -> Any:
        """The (Scala) RDD that has processes of a stage import what they need.

        Args:
            source: Scala RDD with an element in each partition, where its subtask is to run.
        """
        return self._rdd(source, task, self._blocks, stage, subtask)

    def _rdd(self, source: Any, task: StageTask | WarmUp, reads: Any, stage: int, subtask: int | None) -> Any:
        command = self._serializer.dumps((task, None, reads, self._blocks))
        self._context._pickled_broadcast_vars.clear()
        function = self._simple_function(
            bytearray(command),
            self._environment(stage if subtask is None else f"{stage}/{subtask}"),
            self._includes,
            self._python,
            self._context.pythonVer,
            self._broadcasts,
            self._context._javaAccumulator,
        )
        return self._python_rdd(source, function, False, False)

    def _environment(self, whose: int | str) -> Any:
        pin = f"{self._slot[1]}/{whose}"
        known = self._environments.get(pin)
        if known is None:
            made = self._hash_map()
            for name, value in {**worker_environment(self._context.environment), **self._variables}.items():
                made.put(name, value)
            made.put(PIN_VARIABLE, pin)
            # Whole: a thread starts workers beside the driver's.
            known = self._environments.setdefault(pin, made)
        return known

    def start_workers(self, stages: Iterable[tuple[int, int]]) -> None:
        """Have the daemons of stages start their workers, before the first tasks do; a task that finds none has one started.

        Args:
            stages: pairs of stage and parallelism; none of them has a task under way.
        """
        if self._reached is not None:
            with _told_when_slow(self._python):
                for stage, parallelism in stages:
                    self._send(self._reached, stage, order_of_workers(parallelism))

    def tell(self, durable: Durable, stages: Iterable[int]) -> None:
        """Tell the workers of stages what is durable, between two of their tasks; where daemons can't be reached, nobody."""
        if self._reached is not None:
            for stage in stages:
                self._send(self._reached, stage, news_of(durable))

    def _send(self, reached: _Reached, stage: int, message: bytes) -> None:
        """Send a message to the daemon of a stage on a connection that no task has."""
        process = reached.daemons.get(stage)
        if process is None:
            variables = self._hash_map(self._environment(stage))
            variables["SPARK_LOCAL_DIRS"] = ",".join(reached.folders)
            for name, value in _OF_A_TASK.items():
                variables[name] = value
            named = reached.to_scala_map(variables)
            process = reached.daemons[stage] = (self._python, "pyspark.worker", _DAEMON, named)
        worker = reached.spark.createPythonWorker(*process, True)._1()
        worker.channel().write(reached.wrap(bytearray(message)))
        reached.spark.releasePythonWorker(*process, worker)

    @cached_property
    def _reached(self) -> _Reached | None:
        """How this process reaches the daemons; None where Spark's settings are others than those of our own sessions."""
        conf = self._context.getConf()
        if any(conf.get(key) != value for key, value in _SESSION.items()) or any(
            conf.contains(key) for key in _OTHER_WORKERS
        ):
            return None
        jvm: Any = self._context._jvm
        scala_context: Any = self._context._jsc.sc()
        spark = scala_context.env()
        folders = list(spark.blockManager().diskBlockManager().localDirsString())
        return _Reached(spark, folders, jvm.PythonUtils.toScalaMap, jvm.java.nio.ByteBuffer.wrap, {})

    def close(self) -> None:
        """Give the slot back."""
        with _slots_lock:
            _slots_taken.discard(self._slot)


@contextlib.contextmanager
def _told_when_slow(python: str) -> Iterator[None]:
    """Within it, a warning says that processes take long to start: no epoch's time limit is about that."""
    told = (
        "after %.0f s, Spark still waits for the job's Python processes to start. If it goes on, see what keeps %s from "
        "starting on this machine (a sitecustomize, a disk that does not answer); Ctrl-C ends the job"
    )
    timer = threading.Timer(_SLOW_START_S, log.warning, [told, _SLOW_START_S, python])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _take_slot(application: str) -> tuple[str, int]:
    with _slots_lock:
        free = (slot for slot in itertools.count() if (application, slot) not in _slots_taken)
        slot = (application, next(free))
        _slots_taken.add(slot)
        return slot
