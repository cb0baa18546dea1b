"""The engine's log as lines of JSON on standard error, for systems that collect logs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from changelog_engine.driver.figures import JobFigures
from changelog_engine.state.backend import TIMER_STATES

log = logging.getLogger("changelog_engine")


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message; the error's text; the job's figures, in progress lines."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            document["exception"] = self.formatException(record.exc_info)
        figures = vars(record).get("figures")
        if isinstance(figures, JobFigures):
            document |= {"job": figures.job, "figures": summary(figures)}
        return json.dumps(document, ensure_ascii=False)


class _StandardError(logging.StreamHandler[Any]):
    """Writes to what standard error is at the time."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    def handleError(self, record: logging.LogRecord) -> None:
        """With nobody to read, a line goes nowhere."""


def log_as_json() -> None:
    """From now on the engine's records go to standard error as JSON, and to no other handler; INFO and above."""
    if any(isinstance(handler.formatter, JsonFormatter) for handler in log.handlers):
        return
    handler = _StandardError()
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    log.propagate = False
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)


def summary(now: JobFigures) -> dict[str, Any]:
    """The figures that a line of a log has."""
    return {
        "status": now.status,
        "attempt": now.attempt,
        "epoch": now.epoch,
        "restarts": now.restarts,
        "records_in": now.records_in,
        "records_out": now.records_out,
        "mutations": now.all_mutations,
        "checkpoint": None if now.checkpoint is None else now.checkpoint._asdict(),
        "checkpoints": now.checkpoints,
        "uncovered": now.uncovered,
        "sources": {uid: source._asdict() for uid, source in now.sources.items()},
        "stages": {uid: stage._asdict() for uid, stage in now.stages.items()},
        "sizes": {
            uid: {TIMER_STATES.get(state, state): size._asdict() for state, size in states.items()}
            for uid, states in now.sizes.items()
        },
    }
