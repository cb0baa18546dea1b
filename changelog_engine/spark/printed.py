"""What users' functions print, on its way from the workers to the driver's standard output.

Flink's local mode runs functions in the client's process, so their ``print()`` shows where the program's own does. Spark
sends the standard output of its workers to the JVM's standard error. With a local master the workers here write into a named
pipe instead, and the driver copies what comes to its ``sys.stdout``, whatever that is at the time: a terminal, a file, a
notebook's cell. On other masters it stays where Spark puts it, in the executors' logs.

Invariants:
    * What was printed during an epoch is shown before the epoch's own output, or its failure, leaves the runner.
    * A worker's output stays in order, and a line of up to 4,096 bytes goes into the pipe at once, so that those of
      several workers don't mix.
    * Printing fails no job: with nobody to read, it goes nowhere. Where it cannot be written, as on a full disk, a warning
      says so, once.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import functools
import io
import logging
import os
import selectors
import sys
import threading
from collections.abc import Callable

from pyspark import SparkContext

from changelog_engine.spark.masters import is_local

log = logging.getLogger("changelog_engine")

_PIPE = "printed"
_STDOUT = 1
_READ = 1 << 16


class PrintedOutput:
    """The driver's end: a thread shows what comes, and ``show()`` does so at once.

    Args:
        write: what shows text; the driver's standard output unless a test says otherwise.
    """

    def __init__(self, path: str, write: Callable[[str], None] | None = None) -> None:
        self.path = path
        self._write = write or show_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._closed = False
        os.mkfifo(path, 0o600)
        # Open for writing too: else it would be at its end whenever no worker has it open.
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        threading.Thread(target=self._follow, name="printed", daemon=True).start()

    def show(self) -> None:
        """Show all that was printed up to now."""
        with self._lock:
            while not self._closed:
                try:
                    data = os.read(self._pipe, _READ)
                except BlockingIOError:
                    return
                self._write(self._decoder.decode(data))

    def close(self) -> None:
        """Show the rest, and nothing after it: a thread that writes while Python ends would bring it down."""
        self.show()
        with self._lock, contextlib.suppress(BlockingIOError):
            if not self._closed:
                self._closed = True
                os.write(self._pipe, b"\n")  # wakes the thread, which a full pipe does too

    def _follow(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while not self._closed:
                selector.select()
                self.show()
        with self._lock:
            os.close(self._pipe)


def show_text(text: str) -> None:
    """Write to standard output what it can show; a closed one shows nothing."""
    stream = sys.stdout
    if not text:
        return
    if stream is None:
        if sys.__stdout__ is not None:
            _warn_of_loss("sys.stdout is None: the program or a function has set it so")
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (BrokenPipeError, ValueError):  # nobody reads any more; it was closed
        pass
    except OSError as error:
        _warn_of_loss(str(error))


@functools.cache
def _warn_of_loss(reason: str) -> None:
    log.warning(
        "standard output cannot be written (%s): what print() gives does not show; the job goes on", reason
    )


_outputs: dict[str, PrintedOutput] = {}  # by the temporary folder of the SparkContext, which the JVM removes
_outputs_lock = threading.Lock()


def printed_output(context: SparkContext) -> PrintedOutput | None:
    """Where the workers of a SparkContext print; None where their output stays with them."""
    folder = context._temp_dir
    if not is_local(context.master) or not folder:
        return None
    with _outputs_lock:
        known = _outputs.get(folder)
        if known is None:
            for ended in _outputs.values():
                ended.close()
            _outputs.clear()
            try:
                known = PrintedOutput(os.path.join(folder, _PIPE))
            except OSError:  # the folder is gone, or its file system has no pipes
                return None
            _outputs[folder] = known
            atexit.register(known.close)
        return known


class _IntoPipe(io.RawIOBase):
    """Standard output of a worker, for which a lost reader is not an error."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return _STDOUT

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        try:
            return os.write(_STDOUT, data)
        except OSError:
            return len(data)


class _Worker:
    """What this worker prints to."""

    path: str | None = None
    stream: io.TextIOWrapper | None = None


def print_to(path: str | None) -> None:
    """In a worker: from now on this process, and those that it starts, print into a pipe; None changes nothing."""
    if path is None or path == _Worker.path:
        return
    try:
        # Without a reader a plain open() would wait for one.
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # the driver is gone
        return
    os.set_blocking(pipe, True)
    if pipe != _STDOUT:  # which was closed
        os.dup2(pipe, _STDOUT)
        os.close(pipe)
    _Worker.path = path
    _Worker.stream = sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_IntoPipe()), "utf-8", "backslashreplace", line_buffering=True
    )


def flush_printed() -> None:
    """In a worker, at the end of an epoch: what is not a whole line goes out too."""
    for stream in {sys.stdout, _Worker.stream}:
        if stream is not None:
            with contextlib.suppress(Exception):  # somebody's own, or closed
                stream.flush()
