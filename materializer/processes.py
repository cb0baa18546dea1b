"""Folds and truncations in processes of their own: from the console, without Spark, and where Spark has no slot to spare.

Why not in the driver's threads: a fold holds Python's lock for long stretches. A process of its own yields to the job by
its niceness, and gives its memory back when it ends. Where the next fold comes soon, processes may be kept: to start one
takes as long as to fold a few million mutations.

Invariants:
    * A worker reads tasks from its standard input and ends when that ends, so none outlives the driver by more than a task.
    * The user's program is never imported or run in it.
    * It stays in the driver's session: Linux shares a core among sessions first, whatever the niceness of their processes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from changelog_engine.errors import StorageError
from changelog_engine.storage.file_systems import options_in_use, use_options
from changelog_engine.storage.locks import stopped_materializer_is_told
from materializer.runner import R, T

NICENESS = 10
_PROGRAM = os.path.join(os.path.dirname(__file__), "fold_worker.py")


class FoldProcesses:
    """Runs fold tasks in processes; they start with ``map`` and end with it, or with ``stop`` when they are kept.

    Args:
        niceness: added to that of this process.
        keep: whether processes stay for the next call.

    Example:
        >>> materialize(folder, run=FoldProcesses(2))  # doctest: +SKIP
    """

    def __init__(self, processes: int = 1, niceness: int = NICENESS, keep: bool = False) -> None:
        self._processes = processes
        self.parallel = processes > 1
        self._niceness = niceness
        self._keep = keep
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self.workers: set[subprocess.Popen[bytes]] = set()
        self._stopped = threading.Event()

    def ready(self) -> bool:
        """Always."""
        return True

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """See TaskRunner.

        Raises:
            ChangelogEngineError: what a task raised, the first in the order of tasks.
            StorageError: a process died, or ``stop`` was called.
        """
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in range(len(tasks)):
            waiting.put(index)
        results: dict[int, R] = {}
        failures: dict[int, BaseException] = {}
        threads = [
            threading.Thread(
                target=self._drive,
                args=(function, tasks, waiting, results, failures),
                name="materializer",
                daemon=True,
            )
            for _ in range(min(self._processes, len(tasks)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[min(failures)]
        return [results[index] for index in range(len(tasks))]

    def stop(self) -> None:
        """End the processes at once; what they wrote is garbage that truncation removes. Safe from any thread."""
        self._stopped.set()
        for worker in list(self.workers):
            worker.kill()
        self._end_idle()

    def let_end(self) -> None:
        """As ``stop``: a process that was killed writes nothing any more."""
        self.stop()

    def _drive(
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        waiting: queue.SimpleQueue[int],
        results: dict[int, R],
        failures: dict[int, BaseException],
    ) -> None:
        worker = self._worker()
        assert worker.stdin is not None
        assert worker.stdout is not None
        index = -1
        usable = False
        try:
            while not failures and not self._stopped.is_set():
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    usable = self._keep
                    return
                pickle.dump((function, tasks[index]), worker.stdin)
                worker.stdin.flush()
                with stopped_materializer_is_told(lambda: worker.pid):
                    answer = pickle.load(worker.stdout)
                if isinstance(answer, BaseException):
                    raise answer
                results[index] = answer
            if self._stopped.is_set():
                raise StorageError("the materialization was stopped")
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            words = "was stopped" if self._stopped.is_set() else f"died with status {worker.wait()}"
            failures[index] = StorageError(f"a process of the materializer {words}: nothing was committed")
        except BaseException as failure:
            failures[index] = failure
        finally:
            if usable:
                self._idle.put(worker)
                if self._stopped.is_set():
                    self._end_idle()
            else:
                self._end(worker)

    def _worker(self) -> subprocess.Popen[bytes]:
        """A kept process that is still there, or a new one."""
        with contextlib.suppress(queue.Empty):
            while True:
                kept = self._idle.get_nowait()
                if kept.poll() is None:
                    return kept
                self._end(kept)
        worker = _start(self._niceness)
        self.workers.add(worker)
        return worker

    def _end_idle(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._end(self._idle.get_nowait())

    def _end(self, worker: subprocess.Popen[bytes]) -> None:
        self.workers.discard(worker)
        assert worker.stdin is not None
        assert worker.stdout is not None
        with contextlib.suppress(OSError):
            worker.stdin.close()
        worker.wait()
        worker.stdout.close()


def _start(niceness: int) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    worker = subprocess.Popen(
        [sys.executable, "-P", _PROGRAM, str(niceness)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        process_group=0,  # Ctrl-C is the driver's to handle
    )
    assert worker.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # its first task finds out that it died
        pickle.dump(options_in_use(), worker.stdin)
        worker.stdin.flush()
    return worker


def serve(niceness: int) -> None:
    """What a worker process does: tasks from standard input, results to standard output."""
    os.nice(niceness)
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    use_options(pickle.load(tasks))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints does not garble the answers
    while True:
        try:
            function, task = pickle.load(tasks)
        except EOFError:
            return
        answer: Any
        try:
            answer = function(task)
        except Exception as failure:
            answer = failure
        pa.default_memory_pool().release_unused()
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:
            return
