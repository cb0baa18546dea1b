"""The one line at the bottom of a terminal that changes while a job runs.

It is drawn with the cursor back at its beginning, so that whatever else is written to the terminal writes over it. Those who
are known to write (``hidden()``) take it away first; it comes back at the next ``show()``. Rich is loaded where there is a
terminal, and not before.

Invariants:
    * It is drawn only below whole lines: what a program printed without a line's end stays.
    * A terminal that is gone, or does not take it, fails nobody: the line is drawn no more.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

_ERASE = "\r\x1b[2K"


class LiveLine:
    """A line at the bottom of the terminal that standard error is."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stream: TextIO | None = None
        self._drawn = False
        self._at_line_start = True
        self._beside: list[tuple[str, _Beside]] = []

    def begin(self) -> bool:
        """Use the terminal that standard error is; returns whether it is one."""
        with self._lock:
            stream = sys.stderr
            if not is_terminal(stream):
                return False
            self._stream = stream
            self._drawn, self._at_line_start = False, True
            for name, each in _standard_streams().items():
                if is_terminal(each):
                    beside = _Beside(each, self)
                    setattr(sys, name, beside)
                    self._beside.append((name, beside))
            return True

    def end(self) -> None:
        """Take the line away, and give the streams back."""
        with self._lock:
            self._erase()
            for name, beside in self._beside:
                if _standard_streams()[name] is beside:
                    setattr(sys, name, beside.stream)
            self._beside.clear()
            self._stream = None

    def show(self, text: str) -> None:
        """Draw the line, as much of it as fits."""
        with self._lock:
            stream = self._stream
            if stream is None or not self._at_line_start or not takes_text(stream):
                return
            from rich.console import Console
            from rich.text import Text

            with self._lenient():
                console = Console(file=stream, highlight=False)
                line = Text(_fitting(text, max(1, console.width - 1)), no_wrap=True, end="")
                stream.write(_ERASE)
                console.print(line, end="", style="dim")
                stream.write("\r")
                stream.flush()
                self._drawn = True

    def say(self, text: str) -> None:
        """Write a line that stays, above the live one."""
        with self._lock:
            stream = self._stream
            if stream is None or not takes_text(stream):
                return
            with self._lenient():
                self._erase()
                stream.write(f"{text}\n" if self._at_line_start else f"\n{text}\n")
                stream.flush()
                self._at_line_start = True

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """While somebody else writes to the terminal."""
        with self._lock:
            self._erase()
            yield

    def forget(self) -> None:
        """In a forked child: the line is the parent's, and whoever held the lock there is not here."""
        self._lock = threading.RLock()
        self._stream, self._drawn = None, False

    def wrote(self, text: str) -> None:
        """Somebody else has written this to the terminal."""
        if text:
            self._at_line_start = text.endswith("\n")

    def _erase(self) -> None:
        stream = self._stream
        if self._drawn and stream is not None and takes_text(stream):
            self._drawn = False
            with self._lenient():
                stream.write(_ERASE)
                stream.flush()

    @contextlib.contextmanager
    def _lenient(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # nobody reads any more; it was closed
            self._stream = None


class _Beside:
    """A program's standard stream that is the terminal of the live line."""

    def __init__(self, stream: TextIO, line: LiveLine) -> None:
        self.stream = stream
        self._line = line

    def write(self, text: str) -> int:
        with self._line.hidden():
            written = self.stream.write(text)
            self.stream.flush()
            self._line.wrote(text)
            return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _fitting(text: str, width: int) -> str:
    """As many whole words as fit: half of a number would be another one."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    part = set_cell_size(text, width)
    return (part.rpartition(" ")[0].rstrip(", ") or part[:-1]) + "…"


def _standard_streams() -> dict[str, Any]:
    return {"stdout": sys.stdout, "stderr": sys.stderr}


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal that can take a line away again."""
    try:
        if stream is None or not stream.isatty():
            return False
        from rich.console import Console

        return not Console(file=stream).is_dumb_terminal
    except (OSError, ValueError, AttributeError):  # closed, or somebody's own
        return False


def takes_text(stream: Any) -> bool:
    """Whether a line can be written now without waiting for somebody to read: a full pipe, or Ctrl-S, has no end."""
    try:
        return bool(select.select([], [stream.fileno()], [], 0)[1])
    except (OSError, ValueError, AttributeError):  # not a file; closed
        return True


LINE = LiveLine()
"""The process's."""
os.register_at_fork(after_in_child=LINE.forget)
