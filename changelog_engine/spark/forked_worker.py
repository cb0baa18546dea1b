"""What a worker does that a daemon has forked: one task of its subtask after the other.

Of a broadcast variable Spark tells a connection once where its file lies, and once that it is gone. So the daemon hands on
to all workers what one of them was told, and what was told once is known to a worker before each task.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module

from changelog_engine.spark import fork_server
from changelog_engine.spark.daemon_messages import DURABLE, HOLDS_NOTHING, HOLDS_STATE, LONGEST_MESSAGE
from changelog_engine.spark.worker_imports import import_all

_LONGEST_WAIT_S = 3_600  # nobody comes back to a subtask that moved, or to one of a job that failed


def serve(link: socket.socket, broadcasts: Iterable[bytes] = ()) -> None:
    """In a worker: run one task after the other.

    Args:
        link: to the daemon, which sends a connection for each.
        broadcasts: variables that the daemon knows already, each as number and path: in time more than a message holds.
    """
    pyspark = import_all()
    told = dict(_named(each) for each in broadcasts)
    with pyspark.enable_faulthandler():
        while True:
            link.settimeout(_LONGEST_WAIT_S)
            try:
                message, descriptors, _, _ = socket.recv_fds(link, LONGEST_MESSAGE, 1)
            except TimeoutError:
                message = b""
            if not message:  # the daemon ends, or needs this worker no more
                _close_all()
                return
            kind, *lines = message.split(b"\n")
            if kind == DURABLE:
                _commit(lines[0])
                continue
            fork_server.keep_from_programs(descriptors)
            told.update(_named(each) for each in lines)
            _know(told)
            with socket.socket(fileno=descriptors[0]) as connection:
                if not _run_task(connection):
                    return
            news = _broadcasts(told)
            told.update(news)
            state = HOLDS_STATE if _holds_state() else HOLDS_NOTHING
            with suppress(OSError):  # the daemon has ended
                link.send(b"\n".join([state, *[b" ".join(item) for item in news.items()]]))
            gc.collect()


def _named(broadcast: bytes) -> tuple[bytes, bytes]:
    """A broadcast variable's number and path."""
    number, path = broadcast.split(b" ", 1)
    return number, path


def _know(told: dict[bytes, bytes]) -> None:
    """Have PySpark know these broadcast variables, by number and path."""
    broadcast = import_module("pyspark.core.broadcast")
    for number, path in told.items():
        if int(number) not in broadcast._broadcastRegistry:
            broadcast._broadcastRegistry[int(number)] = broadcast.Broadcast(path=os.fsdecode(path))


def _broadcasts(told: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Of the broadcast variables that PySpark knows, by number and path, those that weren't told of."""
    known = import_module("pyspark.core.broadcast")._broadcastRegistry
    return {
        b"%d" % number: os.fsencode(variable._path)
        for number, variable in known.items()
        if b"%d" % number not in told and variable._path is not None
    }


def _run_task(connection: socket.socket) -> bool:
    """Run the task of a connection; whether it left the process as it should be."""
    status = import_module("pyspark.daemon").worker(connection, True)
    if status or not os.environ.get("SPARK_REUSE_WORKER"):
        with suppress(OSError):
            while connection.recv(1024):  # Spark closes it when it has read the answer
                pass
        return False
    return True


def _commit(told: bytes) -> None:
    """Have sinks commit what is durable now; what fails there is told by the next task."""
    if _holds_state():
        sys.modules["changelog_engine.spark.worker"].commit(told)


def _close_all() -> None:
    """Close what functions and sinks have open: a transaction that is not aborted holds up those who read behind it."""
    if _holds_state():
        sys.modules["changelog_engine.spark.worker"].RUNTIMES.clear()


def _holds_state() -> bool:
    worker = sys.modules.get("changelog_engine.spark.worker")
    return worker is not None and bool(worker.RUNTIMES.held)
