"""The process that starts a stage's workers, without Spark: this test speaks Spark's side of the protocol (case 60)."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from pyspark import SparkConf
from servers.process import wait_for

from changelog_engine.operators.messages import Durable
from changelog_engine.spark import daemon_messages, fork_server, forked_worker, garbage, pinned, task
from changelog_engine.spark.daemon import Daemon
from changelog_engine.spark.files import FILES_VARIABLE, WorkerFiles

INT = struct.Struct("!i")
MODULE = "changelog_engine.spark.daemon"
LONGEST_S = 300
SECRET = b"secret"
# The daemon with tasks that do as they are told, by a byte each: tell the process, hold state, end,
# end badly, hang, take a broadcast variable, have it and forget it, take a hundred, tell where PySpark comes from,
# draw random numbers, tell how often they heard what is durable, write to standard output, leave a program running, or a
# fork of itself, tell whether garbage is looked for and in how many objects it isn't, tell Arrow's allocator.
PROGRAM = """
import os, signal, socket, struct, sys, time
from changelog_engine.spark import daemon, fork_server, forked_worker

fork_server._ANSWER_S = float(os.environ.get("ANSWER_S", "300"))

if "IMPORTS" in os.environ:
    import numpy.random  # as numpy 1 does
else:
    sys.modules["changelog_engine.spark.worker"] = None  # what the engine's own tasks need, and these do not

def run(connection):
    from pyspark.core import broadcast
    connection.recv(4)
    while (asked := connection.recv(1)) not in (b"", b"e"):
        if asked == b"p":
            connection.sendall(struct.pack("!i", os.getpid()))
        elif asked == b"h":
            held.append(None)
        elif asked == b"s":
            while True:
                signal.pause()
        elif asked == b"b":
            broadcast._broadcastRegistry[7] = broadcast.Broadcast(path="/a file")
        elif asked == b"k":
            connection.sendall(broadcast._broadcastRegistry.pop(7)._path.encode())
        elif asked == b"m":
            known = len(broadcast._broadcastRegistry)
            for number in range(known, known + 100):
                broadcast._broadcastRegistry[number] = broadcast.Broadcast(path=f"/a file {number:0100}")
        elif asked == b"f":
            import pyspark
            connection.sendall(pyspark.__file__.encode())
        elif asked == b"r":
            import numpy, random
            connection.sendall(struct.pack("!2d", random.random(), numpy.random.random()))
        elif asked == b"t":
            connection.sendall(struct.pack("!i", len(told)))
        elif asked == b"w":
            os.write(1, os.environ[daemon.PIN_VARIABLE].encode())
        elif asked == b"l":
            os.posix_spawn("/bin/sleep", ["sleep", "60"], {}, setpgroup=0)
        elif asked == b"c":
            if os.fork() == 0:
                signal.pause()
        elif asked == b"g":
            import gc
            connection.sendall(struct.pack("!2i", gc.isenabled(), gc.get_freeze_count()))
        elif asked == b"a":
            import pyarrow
            connection.sendall(pyarrow.default_memory_pool().backend_name.encode())
        elif asked == b"n":
            connection.sendall(struct.pack("!i", len(broadcast._broadcastRegistry)))
            assert all(len(each._path) == 108 for each in broadcast._broadcastRegistry.values())
        else:
            os._exit(1)
    connection.sendall(b"d")
    return True

held, told = [], []
if "MESSAGES_MERGE" in os.environ:
    daemon._LINK = socket.SOCK_STREAM
forked_worker._run_task, forked_worker._holds_state, forked_worker._commit = run, lambda: bool(held), told.append

def close_all():
    if held:
        time.sleep(0.1)
        with open(os.path.join(os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"], "closed"), "a") as closed:
            closed.write(f"{os.getpid()} ")

forked_worker._close_all = close_all
daemon.main()
"""


class Spark:
    """What Spark's PythonWorkerFactory does with a daemon."""

    def __init__(
        self, folder: Path, by_path: bool, pin: str = "0/0", more: dict[str, str] | None = None
    ) -> None:
        self.by_path = by_path
        self.folder = folder
        variables = {
            daemon_messages.PIN_VARIABLE: pin,
            "PYTHON_UNIX_DOMAIN_ENABLED": str(by_path),
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
            "PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(),
            "SPARK_REUSE_WORKER": "1",
        }
        self.variables = {**os.environ, **variables, **(more or {})}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.variables,
        )
        self.address: Any = ("127.0.0.1", self._int())
        if by_path:
            assert self.process.stdout is not None
            self.address = self.process.stdout.read(self.address[1]).decode()

    def _int(self) -> int:
        assert self.process.stdout is not None
        return int(INT.unpack(self.process.stdout.read(INT.size))[0])

    def connect(self, secret: bytes = SECRET) -> socket.socket:
        """A connection."""
        connection = socket.socket(socket.AF_UNIX if self.by_path else socket.AF_INET)
        connection.settimeout(LONGEST_S)
        connection.connect(self.address)
        assert INT.unpack(connection.recv(INT.size, socket.MSG_WAITALL))[0] == self.process.pid
        if not self.by_path:
            connection.sendall(INT.pack(len(secret)) + secret)
            answer = connection.recv(INT.unpack(connection.recv(INT.size, socket.MSG_WAITALL))[0])
            assert answer == (b"ok" if secret == SECRET else b"err")
        return connection

    def workers(self) -> list[str]:
        """The names of the workers there are."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return sorted(Path(f"/proc/{pid}/comm").read_text().strip() for pid in listed)

    def end(self) -> int:
        """Close the daemon's input, as Spark's end does; returns its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def give_up(self, connection: socket.socket) -> None:
        """End a task that was cancelled."""
        self.tell()
        connection.close()

    def tell(self) -> None:
        """Say that a task is given up, as Spark does before it closes its connection."""
        assert self.process.stdin is not None
        self.process.stdin.write(INT.pack(self.process.pid))
        self.process.stdin.flush()


def begin(connection: socket.socket, subtask: int) -> int:
    """Begin a task; the process that runs it."""
    connection.sendall(INT.pack(subtask) + b"p")
    return int(INT.unpack(connection.recv(INT.size, socket.MSG_WAITALL))[0])


def end(connection: socket.socket) -> None:
    """Have the task end."""
    connection.sendall(b"e")
    assert connection.recv(1) == b"d"


def run(connection: socket.socket, subtask: int) -> int:
    """Run a task; the process that ran it."""
    process = begin(connection, subtask)
    end(connection)
    return process


@pytest.fixture(params=[True, False], ids=["path", "port"])
def spark(request: pytest.FixtureRequest) -> Iterator[Spark]:
    with tempfile.TemporaryDirectory() as folder:  # a short path: that of a socket may have 107 bytes
        started = Spark(Path(folder), request.param)
        yield started
        started.end()


def wait_gone(worker: int) -> None:
    wait_for(lambda: not is_running(worker), f"process {worker} to end", LONGEST_S)


def is_asleep(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_case_60_the_daemon_answers_without_pyspark_and_what_takes_long_to_import(spark: Spark) -> None:
    spark.connect().close()
    left = {"pyspark", "py4j", "dataclasses", "inspect", "traceback", "uuid", "ctypes"}
    loaded = subprocess.run(
        [sys.executable, "-c", f"import {MODULE}, sys; print(*{left} & set(sys.modules))"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert loaded.stdout == "\n"


def test_case_60_a_task_reaches_the_worker_of_its_subtask(spark: Spark) -> None:
    """Whatever connection it comes on, side by side with others; one that died is replaced, and Spark hears of it."""
    one, two = spark.connect(), spark.connect()
    first, second = begin(one, 0), begin(two, 1)
    assert first != second
    end(two)
    end(one)
    for connection in (two, one, one):
        assert (run(connection, 1), run(connection, 0)) == (second, first)
    assert spark.workers() == ["task 0/0/0", "task 0/0/1"]

    assert begin(one, 0) == first
    one.sendall(b"x")
    assert one.recv(1) == b""
    wait_gone(first)
    third = run(two, 0)
    assert third not in (first, second)
    assert run(two, 1) == second
    one.close()
    two.close()


def test_case_60_a_task_that_spark_gives_up_ends_with_its_worker(spark: Spark) -> None:
    """A task that came for it meanwhile is run by the next one."""
    one, two = spark.connect(), spark.connect()
    stuck = begin(one, 0)
    one.sendall(b"s")
    two.sendall(INT.pack(0) + b"p")
    spark.give_up(one)
    assert INT.unpack(two.recv(INT.size, socket.MSG_WAITALL))[0] != stuck
    wait_gone(stuck)
    end(two)
    two.close()


def test_case_60_a_task_that_ends_as_spark_gives_it_up_takes_no_other_along(spark: Spark) -> None:
    """Whether the daemon or the worker saw the end first: nothing is left to be killed."""
    one, runs = spark.connect(), spark.connect()
    begin(runs, 1)
    for _ in range(20):
        begin(one, 0)
        spark.give_up(one)
        one = spark.connect()
        worker = begin(one, 0)
        one.sendall(b"h")
        one.shutdown(socket.SHUT_WR)  # its task ends with it
        assert one.recv(2, socket.MSG_WAITALL) == b"d"
        one.close()
        one = spark.connect()
        assert run(one, 0) == worker
    end(runs)
    one.close()
    runs.close()


def test_case_60_a_task_that_had_ended_when_spark_gave_it_up_has_nobody_killed(spark: Spark) -> None:
    """Nothing runs that the daemon was told of: a worker that ends its task later keeps its state."""
    one, two = spark.connect(), spark.connect()
    worker = run(one, 0)
    assert run(two, 0) == worker  # the daemon has heard of the first one's end
    wait_for(lambda: is_asleep(worker), "the worker to have told of the second one's", LONGEST_S)
    spark.give_up(one)
    for _ in range(2):  # it has looked at the end of that connection
        spark.connect().close()
    assert begin(two, 0) == worker
    two.sendall(b"h")
    two.shutdown(socket.SHUT_WR)  # its task ends with it
    assert two.recv(2, socket.MSG_WAITALL) == b"d"
    two.close()
    three = spark.connect()
    assert run(three, 0) == worker
    three.close()


def test_case_60_a_worker_that_was_killed_leaves_the_next_ones_end_to_be_seen(spark: Spark) -> None:
    """Spark gives up two tasks at once, and the first one's worker is gone before the second one's connection is closed."""
    one, two = spark.connect(), spark.connect()
    first, second = begin(one, 0), begin(two, 1)
    for connection in (one, two):
        connection.sendall(b"s")
    spark.tell()
    spark.give_up(one)
    wait_gone(first)
    third = spark.connect()
    assert run(third, 0) != first  # the daemon knows that it is gone
    two.close()
    wait_gone(second)
    third.close()


def test_what_spark_gave_up_is_known_before_the_end_that_a_look_saw_alone() -> None:
    """A look passes standard input before Spark writes there, and sees the end of a connection that came after it."""
    looks, done = iter([[(7, 1)], [(0, 1), (5, 1), (7, 1)]]), list[str]()
    served = Daemon.__new__(Daemon)
    served._poll = SimpleNamespace(poll=lambda *_: next(looks))  # type: ignore[assignment]
    orders = {7: (4, "an end"), 5: (1, "a worker"), 0: (0, "what is given up")}
    served._on = {at: (order, lambda name=name: done.append(name)) for at, (order, name) in orders.items()}  # type: ignore[misc]
    served._serve_once()
    assert done == ["what is given up", "a worker", "an end"]


def test_case_60_workers_end_with_spark(spark: Spark) -> None:
    connection = spark.connect()
    worker = begin(connection, 0)
    assert spark.end() == 0
    wait_gone(worker)
    assert not list(spark.folder.glob(".*.sock"))
    connection.close()


def test_case_60_workers_between_two_tasks_close_what_they_have_open_when_spark_ends(spark: Spark) -> None:
    rests, works = spark.connect(), spark.connect()
    closes, is_killed = begin(rests, 0), begin(works, 1)
    for connection in (rests, works):
        connection.sendall(b"h")
    end(rests)
    begin(rests, 2)  # the daemon has heard of the end
    assert spark.end() == 0
    assert (spark.folder / "closed").read_text().split() == [str(closes)]
    wait_gone(is_killed)
    rests.close()
    works.close()


def test_case_60_a_worker_with_state_waits_for_its_next_connection(spark: Spark) -> None:
    """Spark closes all connections after a minute; workers without state end."""
    one, two = spark.connect(), spark.connect()
    holds, nothing = begin(one, 0), run(two, 1)
    one.sendall(b"h")
    end(one)
    one.close()
    two.close()
    wait_gone(nothing)
    three = spark.connect()
    assert run(three, 0) == holds
    three.close()


def test_what_spark_told_one_connection_all_workers_know(spark: Spark) -> None:
    one = spark.connect()
    begin(one, 0)
    one.sendall(b"b")
    end(one)
    for subtask in (
        1,
        2,
        1,
    ):  # Spark takes a variable away from each connection, and so from one worker more than once
        begin(one, subtask)
        one.sendall(b"k")
        assert one.recv(100) == b"/a file"
        end(one)
    one.close()


def test_a_new_worker_knows_what_many_jobs_before_were_told(spark: Spark) -> None:
    """A session of hundreds of jobs: more than a message holds."""
    one = spark.connect()
    for _ in range(10):
        begin(one, 0)
        one.sendall(b"m")
        end(one)
    begin(one, 1)
    one.sendall(b"n")
    assert INT.unpack(one.recv(INT.size, socket.MSG_WAITALL))[0] == 1_000
    end(one)
    one.close()


def test_tasks_beside_the_epochs_take_any_worker() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = Spark(Path(folder), True, f"{daemon_messages.BACKGROUND}5")
        one, two = spark.connect(), spark.connect()
        first, second = begin(one, 0), begin(two, 0)
        assert first != second
        end(one)
        assert run(one, 3) == first
        end(two)
        one.close()
        two.close()
        spark.end()


def test_case_60_workers_are_started_ahead(spark: Spark) -> None:
    connection = spark.connect()
    connection.sendall(daemon_messages.order_of_workers(2))
    run(connection, 1)
    assert len(spark.workers()) == 2  # the other one may not have its name yet
    connection.close()


def news(connection: socket.socket) -> int:
    """How often the worker of a task was told what is durable."""
    connection.sendall(b"t")
    return int(INT.unpack(connection.recv(INT.size, socket.MSG_WAITALL))[0])


def test_all_workers_hear_what_is_durable_between_two_tasks(spark: Spark) -> None:
    one, two = spark.connect(), spark.connect()
    run(one, 0)
    begin(one, 1)  # hears it behind this task
    two.sendall(daemon_messages.news_of(("run", 1, 7)))
    begin(two, 0)
    assert news(one) == 0
    assert news(two) == 1
    end(one)
    begin(one, 1)
    assert news(one) == 1
    for connection in (one, two):
        end(connection)
        connection.close()


def test_nothing_is_told_between_tasks_where_two_messages_could_come_as_one(tmp_path: Path) -> None:
    """Without a system's sockets that keep messages apart, a worker would take a part of one for the other's."""
    spark = Spark(tmp_path, by_path=False, more={"MESSAGES_MERGE": "1"})
    one, two = spark.connect(), spark.connect()
    process = begin(one, 0)
    for epoch in (7, 8):
        two.sendall(daemon_messages.news_of(("run", 1, epoch)))
    run(two, 1)  # behind both
    end(one)
    assert begin(one, 0) == process
    assert news(one) == 0
    end(one)
    one.close()
    two.close()
    spark.end()


@pytest.mark.parametrize(
    "setting",
    [
        "spark.python.daemon.killWorkerOnFlushFailure",
        "spark.python.worker.faulthandler.enabled",
        "spark.python.worker.tracebackDumpIntervalSeconds",
    ],
)
def test_no_daemon_is_started_that_no_task_would_come_to(setting: str) -> None:
    """Spark finds a daemon by all variables of its tasks, and these settings change them."""
    conf = SparkConf(loadDefaults=False).setAll(list(pinned._SESSION.items())).set(setting, "true")
    functions: Any = object.__new__(pinned.PinnedFunctions)
    functions._context = SimpleNamespace(getConf=lambda: conf)
    functions.start_workers([(0, 1)])
    functions.tell(Durable("run", 1, 7), [0])


def test_workers_import_pyspark_from_where_it_is_compiled() -> None:
    import pyspark

    package = Path(pyspark.__file__)
    place = package.parent / "python" / "lib" / "pyspark.zip"
    assert place.is_file()
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
        spark = Spark(Path(folder), by_path=True, more={"PYTHONPATH": path})
        connection = spark.connect()
        begin(connection, 0)
        connection.sendall(b"f")
        assert connection.recv(4096).decode() == str(package)
        end(connection)
        connection.close()
        spark.end()


@pytest.mark.skipif(sys.platform != "linux", reason="threads of a process are listed in /proc")
def test_what_was_imported_before_the_fork_runs_no_thread_and_workers_draw_their_own(tmp_path: Path) -> None:
    spark = Spark(tmp_path, False, more={"IMPORTS": "all"})
    connections = [spark.connect(), spark.connect()]
    drawn = []
    for subtask, connection in enumerate(connections):
        begin(connection, subtask)
        connection.sendall(b"r")
        drawn += struct.unpack("!2d", connection.recv(16, socket.MSG_WAITALL))
        end(connection)
    assert len(set(drawn)) == 4
    daemon_process = Path(f"/proc/{spark.process.pid}")
    assert "/pyarrow/" in (daemon_process / "maps").read_text()
    threads = {
        int(thread.name): (thread / "comm").read_text() for thread in (daemon_process / "task").iterdir()
    }
    del threads[spark.process.pid]
    assert set(threads.values()) <= {"jemalloc_bg_thd\n"}
    for connection in connections:
        connection.close()
    spark.end()


def test_workers_look_for_garbage_but_not_in_what_was_imported_before_the_fork(spark: Spark) -> None:
    with spark.connect() as connection:
        begin(connection, 0)
        connection.sendall(b"g")
        enabled, frozen = struct.unpack("!2i", connection.recv(8, socket.MSG_WAITALL))
        end(connection)
    assert enabled
    assert frozen > 10_000


def is_imported(daemon: Spark, package: str = "pyarrow") -> bool:
    return f"/{package}/" in Path(f"/proc/{daemon.process.pid}/maps").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has loaded is listed in /proc")
@pytest.mark.parametrize("files", [{}, {FILES_VARIABLE: "changelog-files-0"}], ids=["none", "files"])
def test_pandas_is_imported_before_the_fork_unless_the_jobs_files_may_have_it(
    tmp_path: Path, files: dict[str, str]
) -> None:
    """Packages of ``set_python_requirements`` come before those that are installed."""
    spark = Spark(tmp_path, False, more={"IMPORTS": "all", **files})
    with spark.connect() as connection:
        run(connection, 0)
    assert (is_imported(spark), is_imported(spark, "pandas")) == (True, not files)
    spark.end()


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="without glibc, Arrow's own stays")
@pytest.mark.parametrize(("asked", "expected"), [(None, "system"), ("jemalloc", "jemalloc")])
def test_arrow_takes_its_memory_from_glibc_where_nothing_else_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None, expected: str
) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    given = {} if asked is None else {"ARROW_DEFAULT_MEMORY_POOL": asked}
    spark = Spark(tmp_path, False, more={"IMPORTS": "all", **given})
    with spark.connect() as connection:
        begin(connection, 0)
        connection.sendall(b"a")
        assert connection.recv(4096).decode() == expected
        end(connection)
    spark.end()


def test_a_process_that_is_made_ready_has_the_jobs_files_first(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(task.pa, "array", lambda given: called.append("array"))
    job = mock.Mock()
    job.value.functions_of = lambda nodes: called.append("functions")
    assert len(list(task.WarmUp(job, frozenset())(0, []))) == 1
    assert called == ["functions", "array"]


@pytest.mark.skipif(sys.platform != "linux", reason="sockets have names in a file system")
def test_one_daemon_forks_the_workers_of_all_stages(tmp_path: Path) -> None:
    """They are their own daemon's otherwise: print there, end with it. When the one that forks is killed, others go on."""
    one, two = (Spark(tmp_path, False, f"0/{stage}", {"IMPORTS": "all"}) for stage in range(2))
    first, second = one.connect(), two.connect()
    own, others = begin(first, 0), begin(second, 3)
    assert (is_imported(one), is_imported(two), two.workers()) == (True, False, [])
    wait_for(lambda: one.workers() == ["task 0/0/0", "task 0/1/3"], "the workers to have names", LONGEST_S)
    assert (os.getpgid(own), os.getpgid(others)) == (one.process.pid, two.process.pid)
    drawn = []
    for connection in (first, second):
        connection.sendall(b"r")
        drawn += struct.unpack("!2d", connection.recv(16, socket.MSG_WAITALL))
    assert len(set(drawn)) == 4
    second.sendall(b"wh")
    assert two.process.stdout is not None
    assert two.process.stdout.read(3) == b"0/1"
    end(second)
    end(first)

    one.process.kill()
    assert one.end() == -signal.SIGKILL
    wait_gone(own)
    assert run(second, 3) == others
    third = Spark(tmp_path, False, "0/2", {"IMPORTS": "all"})
    connection = third.connect()
    begin(second, 0)
    worker = begin(connection, 0)
    assert (is_imported(two), is_imported(third)) == (True, False)
    assert third.end() == 0
    wait_gone(worker)
    assert is_running(others)
    two.end()
    wait_gone(others)
    for each in (first, second, connection):
        each.close()


def child_of(worker: int) -> int:
    children = Path(f"/proc/{worker}/task/{worker}/children")
    wait_for(lambda: children.read_text() != "", "a child to run", LONGEST_S)
    return int(children.read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="the number of a child is read in /proc")
@pytest.mark.parametrize("leaves", [b"l", b"c"], ids=["program", "fork"])
@pytest.mark.parametrize("stage", [0, 1], ids=["own", "of the daemon that forks for all"])
def test_a_workers_end_is_heard_while_a_child_runs_that_a_function_left(
    tmp_path: Path, stage: int, leaves: bytes
) -> None:
    """It ended by itself, or was killed since its task was given up."""
    daemons = [Spark(tmp_path, False, f"0/{number}") for number in range(2)]
    connections = [each.connect() for each in daemons]
    begin(connections[0], 0)  # its daemon forks for all from now on
    end(connections[0])
    spark, connection, left = daemons[stage], connections[stage], []
    worker = begin(connection, 1)
    connection.sendall(leaves)
    left.append(child_of(worker))
    os.kill(worker, signal.SIGKILL)
    assert connection.recv(1) == b""

    connection = spark.connect()
    other = begin(connection, 1)
    connection.sendall(leaves)
    left.append(child_of(other))
    connection.sendall(b"s")
    spark.give_up(connection)
    with spark.connect() as connection:
        assert run(connection, 1) not in (worker, other)
    for child in left:
        assert is_running(child)
        os.kill(child, signal.SIGKILL)
    for connection, each in zip(connections, daemons, strict=True):
        connection.close()
        each.end()


NAME = """
import os
from changelog_engine.spark import daemon, fork_server
name = fork_server.name_of_server(item for item in os.environ.items() if item[0] != daemon.PIN_VARIABLE)
"""
ASKS_NONSENSE = f"""{NAME}
import socket, struct
for said in (b"", struct.pack("!i", -1), struct.pack("!i", 4) + b"[1}}]"):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(name)
    socket.send_fds(connection, [said or b"x"], [0, 1] if said else [])
    connection.shutdown(socket.SHUT_WR)
    try:
        assert connection.recv(4) == b"", said
    except ConnectionResetError:  # not all of it was read
        pass
print(name.decode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sockets have names in a file system")
def test_a_daemon_that_gets_no_worker_from_the_other_forks_by_itself(tmp_path: Path) -> None:
    one = Spark(tmp_path, False, "0/0")
    two = Spark(tmp_path, False, "0/1", {"ANSWER_S": "0.5"})
    alike = Spark(tmp_path, False, "0/2", {"ANSWER_S": "0.5"})
    first, second = one.connect(), two.connect()
    begin(first, 0)
    assert run(second, 0) > 0
    assert two.workers() == ["task 0/1/0"]  # its variables are others than the first one's

    two.process.send_signal(signal.SIGSTOP)
    third = alike.connect()
    assert run(third, 0) > 0
    assert alike.workers() == ["task 0/2/0"]
    two.process.send_signal(signal.SIGCONT)
    wait_for(lambda: two.workers() == ["task 0/1/0"], "the worker that nobody waits for to end", LONGEST_S)
    run(second, 0)

    said = subprocess.run(
        [sys.executable, "-c", ASKS_NONSENSE], env=one.variables, check=True, capture_output=True, text=True
    )
    with socket.socket(socket.AF_UNIX) as stranger:  # not a child of this process
        stranger.connect(said.stdout.strip())
        assert stranger.recv(1) == b""
    end(first)
    for each in (one, two, alike):
        each.end()
    for connection in (first, second, third):
        connection.close()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed in /proc")
def test_a_daemon_may_have_any_name() -> None:
    """As with an interpreter whose name is cut in the middle of a letter."""
    name = Path("/proc/self/comm")
    before = name.read_bytes()
    ours, theirs = socket.socketpair()
    try:
        name.write_bytes(b"pyth\xc3")
        assert fork_server._sibling(ours) == os.getpid()
    finally:
        name.write_bytes(before.strip())
        ours.close()
        theirs.close()


def test_another_pyspark_than_that_of_the_zip_file_is_left_alone(tmp_path: Path) -> None:
    package = tmp_path / "site" / "pyspark"
    place = package / "python" / "lib" / "pyspark.zip"
    found = "import sys; from changelog_engine.spark.worker_imports import import_compiled; import_compiled(sys.path); "
    jar = tmp_path / "spark-core_2.13-4.2.0.jar"
    found += f"import pyspark; print(pyspark.where, {{{str(place)!r}, {str(jar)!r}}} <= set(sys.path))"
    place.parent.mkdir(parents=True)
    with zipfile.ZipFile(place, "w") as packed:
        packed.writestr("pyspark/__init__.py", "where = 'zip'")

    def imported(*path: Path) -> str:
        given = os.pathsep.join([*map(str, path), str(jar), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": given}
        return subprocess.check_output([sys.executable, "-c", found], env=environment, text=True).strip()

    assert imported(place, package.parent) == "zip True"  # nothing is installed there
    (package / "__init__.py").write_text("where = 'installed'")
    assert imported(place, package.parent) == "installed False"
    assert imported(place) == "zip True"  # installed for another Python than this one


@pytest.mark.parametrize("spark", [False], indirect=True, ids=["port"])
def test_nobody_gets_a_worker_without_sparks_secret(spark: Spark) -> None:
    connection = spark.connect(secret=b"guessed")
    assert connection.recv(1) == b""
    connection.close()
    assert spark.workers() == []


def test_processes_that_do_not_start_are_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No epoch runs yet whose time limit would end it."""
    monkeypatch.setattr(pinned, "_SLOW_START_S", 0.0)
    context, spark, told = mock.MagicMock(), mock.MagicMock(), threading.Event()
    context.getConf().get.side_effect = pinned._SESSION.get
    context.getConf().contains.return_value = False
    context.environment = {}
    context._jsc.sc().env.return_value = spark
    spark.blockManager().diskBlockManager().localDirsString.return_value = ["/tmp"]
    spark.createPythonWorker.side_effect = lambda *process: told.wait(60) and mock.MagicMock()
    monkeypatch.setattr(
        pinned.log, "warning", lambda *message: (logging.getLogger().warning(*message), told.set())
    )
    functions = pinned.PinnedFunctions(context, WorkerFiles("/opt/python", {}))
    functions.start_workers([(0, 1), (1, 2)])
    functions.close()
    assert spark.releasePythonWorker.call_count == 2
    assert "/opt/python from starting" in caplog.text


def test_case_60_a_worker_that_nobody_comes_back_to_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(forked_worker, "_LONGEST_WAIT_S", 0.01)
    forked_worker.serve(theirs)
    for each in (ours, theirs):
        each.close()


@pytest.mark.parametrize(("before", "after"), [(700, 250_000), (2_000, 250_000), (1_234, 1_234), (0, 0)])
def test_garbage_is_looked_for_rarely_unless_the_program_says_when(before: int, after: int) -> None:
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(before, *thresholds[1:])
        garbage.collect_rarely()
        assert gc.get_threshold() == (after, *thresholds[1:])
    finally:
        gc.set_threshold(*thresholds)


def test_a_tasks_own_garbage_goes_after_it_and_all_other_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cycle() -> weakref.ref[Any]:
        held: set[Any] = set()
        held.add(lambda: held)
        return weakref.ref(held)

    now_s = garbage.monotonic_s()
    monkeypatch.setattr(garbage, "monotonic_s", lambda: now_s)
    monkeypatch.setattr(garbage, "_looked_at_all_s", now_s)
    monkeypatch.setattr(garbage, "_took_s", 0.0)

    def tick(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(garbage, "collect_rarely", lambda: None)
    gc.disable()  # or one may come between
    try:
        before = cycle()
        garbage.before_task()
        during = cycle()
        garbage.after_task()
        gc.collect()  # as the daemons do
        assert before() is not None
        assert during() is None
        now_s += 61
        garbage.after_task()
        slow = [lambda phase, info: tick(2 if phase == "stop" else 0)]  # it takes two seconds
        gc.callbacks[:0] = slow
        gc.collect()
        gc.callbacks.remove(slow[0])
        assert before() is None
        assert garbage._time not in gc.callbacks
        for later_s, looks in ((61, False), (600, True)):  # so it is not asked for as often
            before = cycle()
            garbage.before_task()
            now_s += later_s
            garbage.after_task()
            gc.collect()
            assert (before() is None) is looks
    finally:
        gc.enable()
        gc.freeze()  # as pytest_collection_finish does
