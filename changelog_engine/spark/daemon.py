"""The process that starts the workers of a stage: Spark runs it as ``spark.python.daemon.module``.

Spark takes any connection to this process for any task of the stage. A task begins with the number of its partition, which
is that of its subtask: the daemon looks at it and hands the connection to that subtask's worker, which alone has its state.
When the worker has run the task, the daemon waits for the next one on that connection. Between two tasks the driver tells it
what has become durable, and it tells all its workers. Tasks beside the epochs have no state: any worker of theirs takes
them.

Spark holds one lock for all daemons from a daemon's start until it has told a process id. PySpark's daemon imports
PySpark before that. This one imports little before it answers. What all workers need, one of a job's daemons imports
when it is to start its first, and the workers of all stages are forks of it (``fork_server.py``). A daemon that finds
none imports it itself.

Invariants:
    * Nothing that was imported before a fork runs a thread of its own then, but for allocators, which know of forks, or has
      drawn random numbers: workers would draw the same.
    * A subtask has one worker, which has one connection at a time.
    * The connection of a worker that has ended is closed, or Spark would wait for it: also while processes live that it
      has forked.
    * A worker whose task failed ends, as PySpark's does; one that Spark has killed (its task was cancelled) too.
    * A worker that holds state stays although Spark closes all connections: it does after a minute without tasks.
    * Functions that aren't the engine's get PySpark's own daemon.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from changelog_engine.clock import Deadline
from changelog_engine.spark import fork_server
from changelog_engine.spark.daemon_messages import (
    BACKGROUND,
    DURABLE,
    HOLDS_STATE,
    INT,
    LONGEST_MESSAGE,
    NEWS,
    NEWS_BEGIN,
    PIN_VARIABLE,
    TASK,
)
from changelog_engine.spark.forked_worker import serve
from changelog_engine.spark.worker_imports import import_all

_BACKLOG = 1024
_SECRET_WAIT_S = 10
_LONGEST_CLOSING_S = 5.0  # as long as a Kafka sink waits for its transaction to be aborted
_LONGEST_SECRET = 4_096
_LONGEST_NAME = 15  # the kernel's bound
if sys.platform == "linux":
    _CLOSED = select.POLLRDHUP  # the end of a local connection is told unasked
    _LINK = socket.SOCK_SEQPACKET
else:
    _CLOSED, _LINK = 0, socket.SOCK_STREAM


class _Worker:
    """A worker as the daemon sees it.

    Attributes:
        connection: of the task that it runs; None while it runs none.
        waiting: connections whose tasks come next: Spark gave up a task that still runs, and began another.
        holds_state: whether it does.
        killed: it may have said that it is done before that; it gets no more tasks.
        process: a descriptor that can be read from when the process has ended; None where there is no such thing.
    """

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self.link = link
        self.connection: socket.socket | None = None
        self.waiting: deque[socket.socket] = deque()
        self.holds_state = False
        self.killed = False
        self.process = _process(pid)
        self.told = 0  # how many of the daemon's broadcast variables it was sent


class Daemon:
    """Accepts connections, and hands each task to the worker of its subtask."""

    def __init__(self) -> None:
        self._listening = _listen()
        self._background = os.environ[PIN_VARIABLE].startswith(BACKGROUND)
        self._workers: dict[int, _Worker] = {}  # by subtask
        self._idle: set[socket.socket] = set()
        self._prepared = False
        self._server = fork_server.name_of_server(
            item for item in os.environ.items() if item[0] != PIN_VARIABLE
        )
        self._serving: socket.socket | None = None  # where other daemons ask this one for workers
        self._broadcasts: list[bytes] = []  # number and path of each; there is one for each job
        self._to_kill = 0  # tasks that Spark gave up, and whose connections it is about to close
        self._poll = select.poll()  # unlike epoll, nothing that a fork shares
        self._on: dict[int, tuple[int, Callable[[], None]]] = {}  # descriptor -> order, what to do

    def run(self) -> NoReturn:
        """Serve until Spark closes this process's standard input."""
        signal.signal(signal.SIGTERM, lambda number, frame: self._shut_down(1))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers
        _tell_address(self._listening)
        self._watch(0, 0, self._read_kills)
        self._watch(self._listening.fileno(), 2, self._accept)
        try:
            while True:
                self._serve_once()
        except BaseException:
            _print_error()
            self._shut_down(1)

    def _serve_once(self) -> None:
        """What Spark gave up is known before a connection is closed, and what a worker said before that.

        A poll looks at one descriptor after the other: what came before an end that it saw may have come after it looked
        there. A second look sees it.
        """
        ready = {descriptor for descriptor, _ in self._poll.poll()}
        ready |= {descriptor for descriptor, _ in self._poll.poll(0)}
        for descriptor in sorted(ready, key=lambda each: self._on[each][0]):
            known = self._on.get(descriptor)
            if known is not None:
                known[1]()

    def _watch(
        self, descriptor: int, order: int, action: Callable[[], None], mask: int = select.POLLIN
    ) -> None:
        self._on[descriptor] = order, action
        self._poll.register(descriptor, mask)

    def _unwatch(self, descriptor: int) -> None:
        if self._on.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _read_kills(self) -> None:
        """Spark tells the process of each task that it gives up, which is always this one, then closes its connection."""
        told = os.read(0, 256 * INT.size)
        if not told:
            self._shut_down(0)
        self._to_kill += len(told) // INT.size

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except BlockingIOError:
            return
        try:
            connection.sendall(INT.pack(os.getpid()))
            if not _by_path():
                _check_secret(connection)
        except OSError:
            connection.close()
            return
        self._wait_for_task(connection)

    def _wait_for_task(self, connection: socket.socket) -> None:
        self._idle.add(connection)
        self._watch(connection.fileno(), 3, lambda: self._dispatch(connection))

    def _dispatch(self, connection: socket.socket) -> None:
        """A task has come on an idle connection, or its end."""
        try:
            begins = connection.recv(INT.size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            begins = b""
        if begins and len(begins) < INT.size:
            return
        subtask = INT.unpack(begins)[0] if begins else 0
        if subtask == NEWS:
            self._pass_on(connection)
            return
        if subtask < 0:
            connection.recv(INT.size)
            for number in range(-subtask):
                self._worker_of(number)
            return
        # A fork closes idle connections, this one too.
        worker = self._worker_of(self._number(subtask)) if begins else None
        self._idle.discard(connection)
        self._unwatch(connection.fileno())
        if worker is not None:
            self._give(worker, connection)
            return
        connection.close()
        if not any(worker.connection for worker in self._workers.values()):
            self._to_kill = 0
            if not self._idle:
                self._end_idle_workers()

    def _pass_on(self, connection: socket.socket) -> None:
        """Tell all workers what is durable; one that runs a task hears it behind that."""
        try:
            _, size = NEWS_BEGIN.unpack(fork_server.exactly(connection, NEWS_BEGIN.size))
            told = fork_server.exactly(connection, size)
        except OSError:  # its end comes next
            return
        if _LINK != socket.SOCK_SEQPACKET:  # two messages may come as one; the next task tells it
            return
        for worker in self._workers.values():
            with suppress(OSError):  # it ended, or has not heard anything for long: its next task tells it
                worker.link.send(DURABLE + b"\n" + told, socket.MSG_DONTWAIT)

    def _give(self, worker: _Worker, connection: socket.socket) -> None:
        """Give a worker a connection with a task, now or when it has run those before."""
        if worker.connection is not None:
            worker.waiting.append(connection)
            return
        worker.connection = connection
        with suppress(OSError):  # it ended; its link says so
            news = b"\n".join([TASK, *self._broadcasts[worker.told :]])
            socket.send_fds(worker.link, [news], [connection.fileno()])
            worker.told = len(self._broadcasts)
        self._watch(connection.fileno(), 4, lambda: self._hung_up(worker, connection), _CLOSED)

    def _hung_up(self, worker: _Worker, connection: socket.socket) -> None:
        """Spark closed the connection of a task that runs: it gave the task up, or the worker is about to say it is done."""
        self._unwatch(connection.fileno())
        if self._to_kill:
            self._to_kill -= 1
            worker.killed = True
            with suppress(OSError):
                _kill(worker)

    def _number(self, subtask: int) -> int:
        """Whose worker runs a task of this partition."""
        if not self._background:
            return subtask
        free = [number for number, worker in self._workers.items() if worker.connection is None]
        return free[0] if free else max(self._workers, default=-1) + 1

    def _worker_of(self, subtask: int) -> _Worker:
        known = self._workers.get(subtask)
        return self._start(subtask) if known is None else known

    def _start(self, subtask: int) -> _Worker:
        self._prepare()
        pid, ours = self._fork_elsewhere(subtask) or self._fork(subtask)
        worker = self._workers[subtask] = _Worker(pid, ours)
        worker.told = len(self._broadcasts)  # the fork took them along
        self._watch(ours.fileno(), 1, lambda: self._hear(subtask, worker))
        if worker.process is not None:
            self._watch(worker.process, 2, lambda: self._see_end(subtask, worker))
        return worker

    def _prepare(self) -> None:
        """Become the process that forks all workers, if none is."""
        if self._prepared or self._server is None:
            return
        self._serving = fork_server.become_server(self._server)
        if self._serving is not None:
            self._import()
            self._watch(self._serving.fileno(), 3, self._fork_for_another)

    def _import(self) -> None:
        if self._prepared:
            return
        self._prepared = True
        collects = gc.isenabled()
        gc.disable()  # nearly all of what imports make stays, and would be looked at again and again: a tenth of their time
        try:
            with suppress(Exception):  # the worker will fail in the same way, and Spark hears of it
                import_all()
        finally:
            gc.freeze()  # or looking for garbage in a worker would copy all of it; what little there is stays until it does
            if collects:
                gc.enable()

    def _fork_elsewhere(self, subtask: int) -> tuple[int, socket.socket] | None:
        """A worker's process and link, from the process that forks for all; None if this one does so."""
        if self._prepared or self._server is None:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, _LINK)
        request = fork_server.WorkerRequest(
            os.environ[PIN_VARIABLE], subtask, self._broadcasts, [theirs.fileno(), 1, 2]
        )
        pid = fork_server.ask(self._server, request)
        theirs.close()
        if pid is None:
            ours.close()  # should a worker come of it after all, it ends
            return None
        return pid, ours

    def _fork(self, subtask: int) -> tuple[int, socket.socket]:
        """A worker's process and link."""
        self._import()
        ours, theirs = socket.socketpair(socket.AF_UNIX, _LINK)
        pid = _forked()
        if pid == 0:
            ours.close()
            self._become_worker(subtask, theirs, self._broadcasts)
        theirs.close()
        return pid, ours

    def _fork_for_another(self) -> None:
        """Another stage's daemon asks for a worker."""
        assert self._serving is not None
        asked = fork_server.accept(self._serving)
        if asked is None:
            return
        link, *printed = asked.request.descriptors
        try:
            pid = _forked()
        except OSError:  # who asked hears of it when it tries by itself
            pid = -1
        if pid == 0:
            asked.connection.close()
            for target, descriptor in enumerate(printed, 1):
                os.dup2(descriptor, target)
                os.close(descriptor)
            os.environ[PIN_VARIABLE] = asked.request.pin
            self._background = asked.request.pin.startswith(BACKGROUND)
            self._become_worker(
                asked.request.subtask, socket.socket(fileno=link), asked.request.broadcasts, asked.daemon
            )
        for descriptor in asked.request.descriptors:
            os.close(descriptor)
        if pid > 0:
            fork_server.answer(asked.connection, pid)
        asked.connection.close()

    def _hear(self, subtask: int, worker: _Worker) -> None:
        """A worker has run its task, or has ended."""
        try:
            said = worker.link.recv(LONGEST_MESSAGE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._end(subtask, worker)
            return
        if worker.killed:
            return
        connection = self._take_connection(worker)
        state, *broadcasts = said.split(b"\n")
        worker.holds_state = state == HOLDS_STATE
        self._broadcasts += [each for each in broadcasts if each not in self._broadcasts]
        if connection is not None:
            self._wait_for_task(connection)
        if worker.waiting:
            self._give(worker, worker.waiting.popleft())

    def _see_end(self, subtask: int, worker: _Worker) -> None:
        """A worker's process is gone: a child that a function forked may hold its link and its connection."""
        assert worker.process is not None
        if _is_ready(worker.process, select.POLLIN):  # and not what had this number a moment ago
            self._end(subtask, worker)

    def _end(self, subtask: int, worker: _Worker) -> None:
        """A worker has ended; its tasks that wait are for the next one."""
        connection = self._take_connection(worker)
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # whoever holds it
            connection.close()
        self._forget(subtask, worker)
        for waiting in worker.waiting:
            self._wait_for_task(waiting)

    def _take_connection(self, worker: _Worker) -> socket.socket | None:
        """The connection of a task that has ended."""
        connection, worker.connection = worker.connection, None
        if connection is not None:
            self._unwatch(connection.fileno())
            if self._to_kill and not worker.killed and _is_ready(connection.fileno(), _CLOSED):
                self._to_kill -= 1  # the worker was faster
        return connection

    def _forget(self, subtask: int, worker: _Worker) -> None:
        self._unwatch(worker.link.fileno())
        worker.link.close()
        if worker.process is not None:
            self._unwatch(worker.process)
            os.close(worker.process)
        del self._workers[subtask]

    def _end_idle_workers(self) -> None:
        for subtask, worker in list(self._workers.items()):
            if not worker.holds_state:
                self._forget(subtask, worker)

    def _become_worker(
        self, subtask: int, link: socket.socket, broadcasts: list[bytes], group: int = 0
    ) -> NoReturn:
        status = 1
        try:
            if group:
                os.setpgid(0, group)
            if self._serving is not None:
                self._serving.close()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            self._listening.close()
            for connection in self._idle:
                connection.close()
            for other in self._workers.values():
                for each in (other.link, other.connection, *other.waiting):
                    if each is not None:
                        each.close()
                if other.process is not None:
                    os.close(other.process)
            with open(os.devnull) as nothing:
                os.dup2(nothing.fileno(), 0)
            numpy_random = sys.modules.get("numpy.random")  # numpy 1 imports it along, and it draws
            if numpy_random is not None:
                numpy_random.seed()
            pin = os.environ[PIN_VARIABLE]
            _name_process(pin if self._background else f"task {pin}/{subtask}")
            serve(link, broadcasts)
            status = 0
        except BaseException:
            _print_error()
        finally:
            os._exit(status)

    def _shut_down(self, status: int) -> NoReturn:
        if self._listening.family == socket.AF_UNIX:
            with suppress(OSError):
                os.remove(self._listening.getsockname())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with suppress(Exception):
            self._let_close()
        os.kill(0, signal.SIGHUP)  # the workers
        os._exit(status)

    def _let_close(self) -> None:
        """Workers between two tasks close what they have open; the others are ended now."""
        closing = select.poll()
        left = 0
        for worker in self._workers.values():
            if worker.process is None:  # nothing says when it has ended
                continue
            if worker.holds_state and worker.connection is None:
                closing.register(worker.process, select.POLLIN)
                left += 1
                worker.link.close()
            else:
                _kill(worker)
        deadline = Deadline(_LONGEST_CLOSING_S)
        while left and not deadline.passed:
            for ended, _ in closing.poll(deadline.left_s * 1000):
                closing.unregister(ended)
                left -= 1


def _print_error() -> None:
    import traceback

    traceback.print_exc()


def _forked() -> int:
    """0 in the new process, its id in this one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 counts allocators' threads
        return os.fork()


def _process(pid: int) -> int | None:
    """A descriptor of a process: unlike its number, never another one's."""
    if sys.platform == "linux":
        with suppress(OSError):  # an old kernel, or it has ended, and its link says so
            return os.pidfd_open(pid)
    return None


def _kill(worker: _Worker) -> None:
    if worker.process is None:
        os.kill(worker.pid, signal.SIGKILL)
    elif sys.platform == "linux":
        signal.pidfd_send_signal(worker.process, signal.SIGKILL)


def _name_process(name: str) -> None:
    """For people who look at the machine's processes."""
    with suppress(OSError), open("/proc/self/comm", "w") as file:
        file.write(name[:_LONGEST_NAME])


def _check_secret(connection: socket.socket) -> None:
    """Let nobody in who doesn't know Spark's secret, as PySpark's daemon does.

    Raises:
        OSError: it isn't Spark, or says nothing.
    """
    connection.settimeout(_SECRET_WAIT_S)
    length = INT.unpack(fork_server.exactly(connection, INT.size))[0]
    given = fork_server.exactly(connection, length) if 0 <= length <= _LONGEST_SECRET else b""
    known = given == os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    answer = b"ok" if known else b"err"
    connection.sendall(INT.pack(len(answer)) + answer)
    if not known:
        raise ConnectionError("a connection with a wrong secret")
    connection.settimeout(None)


def _is_ready(descriptor: int, mask: int) -> bool:
    looked = select.poll()
    looked.register(descriptor, mask)
    return bool(looked.poll(0))


def _by_path() -> bool:
    return os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() == "true"


def _listen() -> socket.socket:
    """A socket of the kind that Spark's settings ask for."""
    if _by_path():
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(
            os.path.join(os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"], f".{os.urandom(16).hex()}.sock")
        )
    elif os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true":
        listening = socket.socket(socket.AF_INET6)
        listening.bind(("::1", 0))
    else:
        listening = socket.socket(socket.AF_INET)
        listening.bind(("127.0.0.1", 0))
    listening.listen(_BACKLOG)
    listening.setblocking(False)
    return listening


def _tell_address(listening: socket.socket) -> None:
    """As PySpark's daemon does: a path after its length, or a port."""
    address = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        path = address.encode()
        os.write(1, INT.pack(len(path)) + path)
    else:
        os.write(1, INT.pack(address[1]))


def main() -> None:
    """Be the daemon."""
    if PIN_VARIABLE not in os.environ:
        import_module("pyspark.daemon").manager()
    else:
        os.setpgid(0, 0)
        Daemon().run()


if __name__ == "__main__":
    main()
