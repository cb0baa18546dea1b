"""The process that starts a subtask's worker, without Spark: this test speaks Spark's side of the protocol (case 60)."""

from __future__ import annotations

import gc
import logging
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from changelog_engine.spark import daemon, pinned
from changelog_engine.spark.files import WorkerFiles
from changelog_engine.spark.task import collect_rarely
from changelog_engine.spark.worker import REGISTRY

INT = struct.Struct("!i")
MODULE = "changelog_engine.spark.daemon"


class Spark:
    """What Spark's PythonWorkerFactory does with a daemon."""

    def __init__(self, folder: Path, by_path: bool) -> None:
        self.by_path = by_path
        self.folder = folder
        variables = {
            daemon.PIN_VARIABLE: "0/0/0",
            "PYTHON_UNIX_DOMAIN_ENABLED": str(by_path),
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
            "SPARK_REUSE_WORKER": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", MODULE, "pyspark.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **variables},
        )
        self.address: Any = ("127.0.0.1", self._int())
        if by_path:
            assert self.process.stdout is not None
            self.address = self.process.stdout.read(self.address[1]).decode()

    def _int(self) -> int:
        assert self.process.stdout is not None
        return int(INT.unpack(self.process.stdout.read(INT.size))[0])

    def connect(self) -> tuple[socket.socket, int]:
        """A connection, and the worker that has it."""
        connection = socket.socket(socket.AF_UNIX if self.by_path else socket.AF_INET)
        connection.connect(self.address)
        return connection, INT.unpack(connection.recv(INT.size, socket.MSG_WAITALL))[0]

    def end(self) -> int:
        """Close the daemon's input, as Spark's end does; returns its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def kill(self, worker: int) -> None:
        """Ask the daemon to kill a worker."""
        assert self.process.stdin is not None
        self.process.stdin.write(INT.pack(worker))
        self.process.stdin.flush()


@pytest.fixture(params=[True, False], ids=["path", "port"])
def spark(request: pytest.FixtureRequest) -> Iterator[Spark]:
    with tempfile.TemporaryDirectory() as folder:  # a short path: that of a socket may have 107 bytes
        started = Spark(Path(folder), request.param)
        yield started
        started.end()


def wait_gone(worker: int) -> None:
    try:
        descriptor = os.pidfd_open(worker)
    except ProcessLookupError:
        return
    assert select.select([descriptor], [], [], 300)[0], f"process {worker} is still there"
    os.close(descriptor)


def test_case_60_the_daemon_answers_without_pyspark(spark: Spark) -> None:
    connection, _ = spark.connect()
    connection.close()
    loaded = subprocess.run(
        [sys.executable, "-c", f"import {MODULE}, sys; print('pyspark' in sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert loaded.stdout == "False\n"


def test_case_60_connections_at_once_have_workers_of_their_own(spark: Spark) -> None:
    (one, first), (two, second) = spark.connect(), spark.connect()
    assert first != second
    one.close()
    wait_gone(first)  # it held no state
    spark.kill(second)
    wait_gone(second)
    two.close()


def test_case_60_workers_end_with_spark(spark: Spark) -> None:
    connection, worker = spark.connect()
    assert spark.end() == 0
    wait_gone(worker)
    assert not list(spark.folder.glob(".*.sock"))
    connection.close()


def test_case_60_a_worker_with_state_waits_for_its_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection closed, it asks its daemon for another; without state it ends."""
    ours, theirs = socket.socketpair()
    given, spark_side = socket.socketpair()
    monkeypatch.setitem(REGISTRY.held, (0, 0), object())
    monkeypatch.setattr(daemon, "_run_tasks", lambda connection: not connection.recv(1))
    worker = threading.Thread(target=daemon.serve, args=(given, theirs))
    worker.start()
    for _ in range(3):
        assert INT.unpack(spark_side.recv(INT.size))[0] == os.getpid()
        spark_side.close()
        assert ours.recv(1) == b"\0"
        given, spark_side = socket.socketpair()
        socket.send_fds(ours, [b"\0"], [given.fileno()])
        given.close()
    assert INT.unpack(spark_side.recv(INT.size))[0] == os.getpid()
    REGISTRY.held.clear()
    spark_side.close()
    worker.join(300)
    assert not worker.is_alive()
    ours.close()
    theirs.close()


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
    functions = pinned.PinnedFunctions(context, mock.MagicMock(), WorkerFiles("/opt/python", {}))
    functions.start_workers([(0, 0), (1, 0)])
    functions.close()
    assert spark.releasePythonWorker.call_count == 2
    assert "/opt/python from starting" in caplog.text


def test_case_60_a_worker_that_nobody_comes_back_to_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    given, spark_side = socket.socketpair()
    monkeypatch.setitem(REGISTRY.held, (0, 0), object())
    monkeypatch.setattr(daemon, "_run_tasks", lambda connection: True)
    monkeypatch.setattr(daemon, "_LONGEST_WAIT_S", 0.01)
    daemon.serve(given, theirs)
    for each in (ours, theirs, spark_side):
        each.close()


@pytest.mark.parametrize(("before", "after"), [(700, 50_000), (2_000, 50_000), (1_234, 1_234), (0, 0)])
def test_garbage_is_looked_for_rarely_unless_the_program_says_when(before: int, after: int) -> None:
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(before, *thresholds[1:])
        collect_rarely()
        assert gc.get_threshold() == (after, *thresholds[1:])
    finally:
        gc.set_threshold(*thresholds)
