"""The process that starts a subtask's worker: Spark runs it as ``spark.python.daemon.module``.

Spark has one daemon for each environment of Python functions, so one for each subtask, and holds one lock for all of them
from a daemon's start until its worker has told its process id. PySpark's daemon imports PySpark before that, so workers
start one after another. This one imports nothing: the worker tells its id, then imports, side by side with the others.

Spark also closes the connection of a worker that had nothing to do for a minute, and PySpark's worker ends then. A worker
of ours that holds state waits for its next connection, so a subtask may take as long as it likes while others wait for it.

Invariants:
    * Neither PySpark nor anything that may start a thread is imported before the fork.
    * A worker gets a connection only after it said that it has none; else the connection gets a new worker.
    * A worker whose task failed ends, as PySpark's does.
    * Functions that aren't the engine's get PySpark's own daemon.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
import uuid
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

PIN_VARIABLE = "CHANGELOG_ENGINE_SUBTASK"
_INT = struct.Struct("!i")
_BACKLOG = 1024
_LONGEST_WAIT_S = 3_600  # nobody comes back to a subtask that moved, or to one of a job that failed


class Daemon:
    """Accepts connections, and gives each to a worker that waits for one, or to a new one."""

    def __init__(self) -> None:
        self._listening = _listen()
        self._waiting: list[socket.socket] = []  # the links to workers without a connection
        self._links: set[socket.socket] = set()
        self._events = selectors.PollSelector()  # unlike epoll, nothing that a fork shares

    def run(self) -> NoReturn:
        """Serve until Spark closes this process's standard input."""
        signal.signal(signal.SIGTERM, lambda number, frame: self._shut_down(1))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers
        _tell_address(self._listening)
        self._events.register(0, selectors.EVENT_READ)
        self._events.register(self._listening, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in self._events.select():
                    self._on(key.fileobj)
        except BaseException:
            traceback.print_exc()
            self._shut_down(1)

    def _on(self, ready: Any) -> None:
        if ready == 0:
            self._kill_worker()
        elif ready is self._listening:
            connection, _ = self._listening.accept()
            with connection:
                self._hand_over(connection)
        elif ready.recv(1):
            self._waiting.append(ready)
        else:
            self._forget(ready)

    def _kill_worker(self) -> None:
        """Spark names the worker of a task that does not end."""
        told = os.read(0, _INT.size)
        if not told:
            self._shut_down(0)
        with suppress(OSError):
            os.kill(_INT.unpack(told)[0], signal.SIGKILL)

    def _hand_over(self, connection: socket.socket) -> None:
        while self._waiting:
            link = self._waiting.pop()
            with suppress(OSError):  # it ended while it waited
                socket.send_fds(link, [b"\0"], [connection.fileno()])
                return
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            ours.close()
            self._become_worker(connection, theirs)
        theirs.close()
        self._links.add(ours)
        self._events.register(ours, selectors.EVENT_READ)

    def _forget(self, link: socket.socket) -> None:
        self._events.unregister(link)
        self._links.discard(link)
        if link in self._waiting:
            self._waiting.remove(link)
        link.close()

    def _become_worker(self, connection: socket.socket, link: socket.socket) -> NoReturn:
        status = 1
        try:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            self._listening.close()
            for other in self._links:
                other.close()
            with open(os.devnull) as nothing:
                os.dup2(nothing.fileno(), 0)
            serve(connection, link)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _shut_down(self, status: int) -> NoReturn:
        if self._listening.family == socket.AF_UNIX:
            with suppress(OSError):
                os.remove(self._listening.getsockname())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(0, signal.SIGHUP)  # the workers
        os._exit(status)


def serve(connection: socket.socket, link: socket.socket) -> None:
    """In a worker: run the tasks of one connection after another.

    Args:
        connection: the first one.
        link: to the daemon, which sends the others.
    """
    while True:
        with connection:
            connection.sendall(_INT.pack(os.getpid()))
            reusable = _run_tasks(connection)
        if not reusable or not _holds_state():
            return
        link.send(b"\0")
        link.settimeout(_LONGEST_WAIT_S)
        try:
            message, descriptors, _, _ = socket.recv_fds(link, 1, 1)
        except TimeoutError:
            return
        if not message:  # the daemon ended
            return
        connection = socket.socket(fileno=descriptors[0])


def _run_tasks(connection: socket.socket) -> bool:
    """Run tasks until the connection is closed; whether the last one left the process as it should be."""
    pyspark = import_module("pyspark.daemon")  # after the fork, and after Spark knows the process
    with suppress(Exception):  # the task says it again
        import changelog_engine.spark.worker  # noqa: F401 - the first task may be a while in coming
    authenticated = _by_path()
    with pyspark.enable_faulthandler():
        while _open(connection):
            status = pyspark.worker(connection, authenticated)
            if status or not os.environ.get("SPARK_REUSE_WORKER"):
                with suppress(OSError):
                    while connection.recv(1024):  # Spark closes it when it has read the answer
                        pass
                return False
            authenticated = True
            gc.collect()
    return True


def _open(connection: socket.socket) -> bool:
    """Wait for the next task; False when there is none, as the connection is closed."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def _holds_state() -> bool:
    worker = sys.modules.get("changelog_engine.spark.worker")
    return worker is not None and bool(worker.REGISTRY.held)


def _by_path() -> bool:
    return os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() == "true"


def _listen() -> socket.socket:
    """A socket of the kind that Spark's settings ask for."""
    if _by_path():
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(os.path.join(os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"], f".{uuid.uuid4()}.sock"))
    elif os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true":
        listening = socket.socket(socket.AF_INET6)
        listening.bind(("::1", 0))
    else:
        listening = socket.socket(socket.AF_INET)
        listening.bind(("127.0.0.1", 0))
    listening.listen(_BACKLOG)
    return listening


def _tell_address(listening: socket.socket) -> None:
    """As PySpark's daemon does: a path after its length, or a port."""
    address = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        path = address.encode()
        os.write(1, _INT.pack(len(path)) + path)
    else:
        os.write(1, _INT.pack(address[1]))


def main() -> None:
    """Be the daemon."""
    if PIN_VARIABLE not in os.environ:
        import_module("pyspark.daemon").manager()
    else:
        os.setpgid(0, 0)
        Daemon().run()


if __name__ == "__main__":
    main()
