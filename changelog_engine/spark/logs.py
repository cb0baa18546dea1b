"""What the program sets of ``logging``, in the workers too.

Python's settings are a process's own, and workers are other processes than the program. So levels and the format of lines go
with the job. What a user's function logs is written to its worker's standard error, or to its standard output where the
program's handler writes there; with a local master they are the program's own.

Invariants:
    * Warnings and errors are written, whatever the program has set or not, unless it says otherwise by a level.
    * Nothing of the program's handlers is shipped but the format: a handler may hold a file, a connection or a lock.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Any, Literal

_ENGINES = "changelog_engine"
_Style = Literal["%", "{", "$"]
_STYLES: dict[type, _Style] = {
    logging.PercentStyle: "%",
    logging.StrFormatStyle: "{",
    logging.StringTemplateStyle: "$",
}


@dataclass(frozen=True)
class Format:
    """How a line looks: the arguments of ``logging.Formatter``; and whether it goes to standard output."""

    fmt: str | None = None
    datefmt: str | None = None
    style: _Style = "%"
    to_stdout: bool = False

    def formatter(self) -> logging.Formatter:
        """As the handlers of ``logging`` have it."""
        return logging.Formatter(self.fmt, self.datefmt, self.style)


class _Handler(logging.StreamHandler[Any]):
    """Writes to what standard error or output is at the time."""

    def __init__(self, to_stdout: bool) -> None:
        self._to_stdout = to_stdout
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stdout if self._to_stdout else sys.stderr

    @stream.setter
    def stream(self, stream: Any) -> None:
        raise AttributeError("it follows sys.stdout and sys.stderr")


@dataclass(frozen=True)
class LoggingSetup:
    """Levels and format of a process."""

    levels: dict[str, int]  # of the loggers that were given one, and of the root's, by name
    disabled: int  # up to this level nothing is logged
    format: Format | None  # of the root logger's first handler; None where it has none

    def use(self) -> None:
        """Let this process log so. What a function sets later goes on top of it."""
        global _handler
        for name, level in self.levels.items():
            logger = logging.getLogger(name)
            if logger.level != level:
                logger.setLevel(level)  # makes all loggers of the process forget what they are enabled for
        if logging.root.manager.disable != self.disabled:
            logging.disable(self.disabled)
        root = logging.getLogger()
        if _handler is not None:
            root.removeHandler(_handler)
            _handler = None
        if self.format is None:  # for what no handler takes; basicConfig() in open() still has an effect
            logging.lastResort = _Handler(to_stdout=False)
        elif not root.handlers:
            _handler = _Handler(self.format.to_stdout)
            _handler.setFormatter(self.format.formatter())
            root.addHandler(_handler)


_handler: logging.Handler | None = None


def logging_here() -> LoggingSetup:
    """As this process logs now."""
    root = logging.getLogger()
    levels = {
        name: int(logger.level)  # of a user's enum, which workers may not have
        for name, logger in root.manager.loggerDict.copy().items()
        if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET
    }
    if not logging.getLogger(_ENGINES).propagate:  # it has a way of its own in the program, such as JSON
        levels.pop(_ENGINES, None)
    levels["root"] = int(root.level)
    return LoggingSetup(levels, int(root.manager.disable), _format_of(root.handlers))


def _format_of(handlers: list[logging.Handler]) -> Format | None:
    if not handlers:
        return None
    first = handlers[0]
    given = first.formatter
    # A handler or formatter of somebody's own may have none of this.
    stream = getattr(first, "stream", None) if isinstance(first, logging.StreamHandler) else None
    to_stdout = stream is not None and any(stream is each for each in (sys.stdout, sys.__stdout__))
    try:
        style, fmt, datefmt = _STYLES.get(type(given._style)), given._fmt, given.datefmt  # type: ignore[union-attr]
    except AttributeError:
        return Format(to_stdout=to_stdout)
    if style is None or type(fmt) is not str or type(datefmt) not in (str, type(None)):
        return Format(to_stdout=to_stdout)
    found = Format(fmt, datefmt, style, to_stdout)
    try:
        found.formatter().format(logging.makeLogRecord({"msg": "a message"}))
    except Exception:  # it needs fields that the program's own filters add
        return Format(logging.BASIC_FORMAT, to_stdout=to_stdout)
    return found
