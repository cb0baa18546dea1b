"""Python RDDs that run in a pinned process, made with few calls to the JVM.

How a subtask finds its process again: Spark keys its pool of Python workers by the environment variables of the function,
so each (stage, subtask) gets a variable of its own. PySpark's own ``RDD.mapPartitionsWithIndex`` would do, but makes some
40 calls through py4j a time (0.2 ms each): it converts the environment, the includes and the broadcast variables anew.
Here they are made once per job; an epoch makes four calls a subtask.

Workers of a session that the engine started are there before the first epoch, and import side by side: left to itself, Spark
starts those of a stage when the stage before it is done.

Jobs that run at the same time on one SparkContext never share a process: each takes the lowest free slot, which is part of
the variable. The next job finds the processes of the one before.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import SparkContext
from pyspark.serializers import CloudPickleSerializer, NoOpSerializer, PairDeserializer

from changelog_engine.spark.daemon import PIN_VARIABLE
from changelog_engine.spark.files import WorkerFiles
from changelog_engine.spark.session import engine_path
from changelog_engine.spark.task import SubtaskTask, WarmUp

log = logging.getLogger("changelog_engine")

_SLOW_START_S = 60.0
_DAEMON = "changelog_engine.spark.daemon"
_SESSION = {
    "spark.python.daemon.module": _DAEMON,
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
}
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
    "spark.python.use.daemon",
    "spark.python.worker.module",
    "spark.task.cpus",
)
_slots_taken: set[tuple[str, int]] = set()  # (application, slot)
_slots_lock = threading.Lock()


class PinnedFunctions:
    """Makes the Python side of RDDs for one job.

    Args:
        context: the SparkContext.
        broadcast: the job's broadcast variable, which every function carries.
        files: the job's interpreter and variables.
    """

    def __init__(self, context: SparkContext, broadcast: Any, files: WorkerFiles) -> None:
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
        self.carry(broadcast)
        self._slot = _take_slot(context.applicationId)
        self._environments: dict[tuple[int, int], Any] = {}
        self._serializer = CloudPickleSerializer()
        self._blocks = NoOpSerializer()
        self._located_blocks = PairDeserializer(NoOpSerializer(), NoOpSerializer())

    def carry(self, broadcast: Any) -> None:
        """Functions that are made from now on carry this broadcast variable."""
        self._broadcasts = self._list()
        self._broadcasts.add(broadcast._jbroadcast)

    def rdd(self, source: Any, task: SubtaskTask) -> Any:
        """The (Scala) RDD of a subtask's output, as byte arrays.

        Args:
            source: Scala RDD of its input.
            task: what runs.
        """
        reads = self._located_blocks if task.located else self._blocks
        return self._rdd(source, task, reads, task.stage, task.subtask)

    def warm_up(self, source: Any, stage: int, subtask: int) -> Any:
        """The (Scala) RDD that has the process of a subtask import what it needs.

        Args:
            source: Scala RDD of one element, where the subtask is to run.
            stage: its stage.
            subtask: its number.
        """
        return self._rdd(source, WarmUp(), self._blocks, stage, subtask)

    def _rdd(self, source: Any, task: SubtaskTask | WarmUp, reads: Any, stage: int, subtask: int) -> Any:
        command = self._serializer.dumps((task, None, reads, self._blocks))
        self._context._pickled_broadcast_vars.clear()
        function = self._simple_function(
            bytearray(command),
            self._environment(stage, subtask),
            self._includes,
            self._python,
            self._context.pythonVer,
            self._broadcasts,
            self._context._javaAccumulator,
        )
        return self._python_rdd(source, function, False, False)

    def _environment(self, stage: int, subtask: int) -> Any:
        known = self._environments.get((stage, subtask))
        if known is None:
            known = self._environments[stage, subtask] = self._hash_map()
            inherited = self._context.environment
            for name, value in {**inherited, **engine_path(inherited), **self._variables}.items():
                known.put(name, value)
            known.put(PIN_VARIABLE, f"{self._slot[1]}/{stage}/{subtask}")
        return known

    def start_workers(self, subtasks: Iterable[tuple[int, int]]) -> None:
        """Have Spark start the processes of subtasks, as their first tasks would; a task that finds none has one started.

        Args:
            subtasks: pairs of stage and subtask; none of them has a task under way.
        """
        conf = self._context.getConf()
        if any(conf.get(key) != value for key, value in _SESSION.items()) or any(
            conf.contains(key) for key in _OTHER_WORKERS
        ):
            return
        jvm: Any = self._context._jvm
        scala_context: Any = self._context._jsc.sc()
        spark = scala_context.env()
        folders = list(spark.blockManager().diskBlockManager().localDirsString())
        with _told_when_slow(self._python, _SLOW_START_S):
            for subtask in subtasks:
                variables = self._hash_map(self._environment(*subtask))
                variables["SPARK_LOCAL_DIRS"] = ",".join(folders)
                for name, value in _OF_A_TASK.items():
                    variables[name] = value
                process = (self._python, "pyspark.worker", _DAEMON, jvm.PythonUtils.toScalaMap(variables))
                worker = spark.createPythonWorker(*process, True)._1()
                spark.releasePythonWorker(*process, worker)

    def close(self) -> None:
        """Give the slot back."""
        with _slots_lock:
            _slots_taken.discard(self._slot)


@contextlib.contextmanager
def _told_when_slow(python: str, after_s: float) -> Iterator[None]:
    """Within it, a warning says that processes take long to start: no epoch's time limit is about that."""
    told = (
        "after %.0f s, Spark still waits for the job's Python processes to start. If it goes on, see what keeps %s from "
        "starting on this machine (a sitecustomize, a disk that does not answer); Ctrl-C ends the job"
    )
    timer = threading.Timer(after_s, log.warning, [told, after_s, python])
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
