"""Standard streams that were closed when the program began (``>&-``), that lack letters, or that nobody reads any more."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys

# Of drawings and pages of the documentation, for terminals that are not of UTF-8.
_SPELLED = str.maketrans(
    {
        "●": "*",
        "○": "o",
        "◆": "#",
        "◇": "+",
        "│": "|",
        "├": "|",
        "─": "-",
        "→": "->",
        "←": "<-",
        "\N{MINUS SIGN}": "-",
        "…": "...",
        "▶": ">",
    }
)


def spell_what_the_encoding_lacks() -> None:
    """Let standard output show letters that its encoding, such as Latin-1, has not: signs as others, the rest escaped."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        codecs.register_error("changelog-engine", _spelled)
        stream.reconfigure(errors="changelog-engine")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_SPELLED)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


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
