"""Standard streams that were closed when the program began, as by ``>&-``, or that nobody reads any more."""

from __future__ import annotations

import contextlib
import os
import sys


def open_closed_streams() -> None:
    """Let standard streams that are closed lead nowhere.

    Else the next file that is opened has their number, and what a library or a child process prints is written into it.
    """
    streams = (("stdin", sys.stdin, "r"), ("stdout", sys.stdout, "w"), ("stderr", sys.stderr, "w"))
    for number, (name, stream, mode) in enumerate(streams):
        try:
            os.fstat(number)
            continue
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
        if stream is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def tell(text: str) -> None:
    """Write a line to standard error. Its fate ends nothing: the stream may be closed, full, or without a reader."""
    with contextlib.suppress(Exception):
        try:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        except BrokenPipeError:
            drop(sys.stderr.fileno())


def drop(number: int) -> None:
    """Let the rest of a stream without a reader go nowhere: else Python ends with a status of its own."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), number)
