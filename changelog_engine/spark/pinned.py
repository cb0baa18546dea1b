"""Python RDDs that run in a pinned process, made with few calls to the JVM.

How a subtask finds its process again: Spark keys its pool of Python workers by the environment variables of the function,
so each (stage, subtask) gets a variable of its own. PySpark's own ``RDD.mapPartitionsWithIndex`` would do, but makes some
40 calls through py4j a time (0.2 ms each): it converts the environment, the includes and the broadcast variables anew.
Here they are made once per job; an epoch makes four calls a subtask.

Jobs that run at the same time on one SparkContext never share a process: each takes the lowest free slot, which is part of
the variable. The next job finds the processes of the one before.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

from pyspark import SparkContext
from pyspark.serializers import CloudPickleSerializer, NoOpSerializer, PairDeserializer

from changelog_engine.spark.daemon import PIN_VARIABLE
from changelog_engine.spark.files import WorkerFiles
from changelog_engine.spark.session import engine_path
from changelog_engine.spark.task import SubtaskTask

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
        self._broadcasts: Any = jvm.java.util.ArrayList()
        self._broadcasts.add(broadcast._jbroadcast)
        self._slot = _take_slot(context.applicationId)
        self._environments: dict[tuple[int, int], Any] = {}
        self._serializer = CloudPickleSerializer()
        self._blocks = NoOpSerializer()
        self._located_blocks = PairDeserializer(NoOpSerializer(), NoOpSerializer())

    def rdd(self, source: Any, task: SubtaskTask) -> Any:
        """The (Scala) RDD of a subtask's output, as byte arrays.

        Args:
            source: Scala RDD of its input.
            task: what runs.
        """
        reads = self._located_blocks if task.located else self._blocks
        command = self._serializer.dumps((task, None, reads, self._blocks))
        self._context._pickled_broadcast_vars.clear()
        function = self._simple_function(
            bytearray(command),
            self._environment(task.stage, task.subtask),
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

    def close(self) -> None:
        """Give the slot back."""
        with _slots_lock:
            _slots_taken.discard(self._slot)


def _take_slot(application: str) -> tuple[str, int]:
    with _slots_lock:
        free = (slot for slot in itertools.count() if (application, slot) not in _slots_taken)
        slot = (application, next(free))
        _slots_taken.add(slot)
        return slot
