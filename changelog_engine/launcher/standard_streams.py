"""Standard streams that were closed when the program began, as by ``>&-``."""

from __future__ import annotations

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
