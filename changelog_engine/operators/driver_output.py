"""Sinks at the end of a chain: those whose output goes to the driver, and those that write where they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from changelog_engine.connectors.protocols import Sink, SinkWriter
from changelog_engine.operators.base import Operator
from changelog_engine.operators.failures import user_failure


class DriverOutput(Operator):
    """Keeps what goes to the driver at the end of the epoch: printed lines, or elements that are collected.

    Args:
        name: of the sink.
        render: elements to what is sent; None sends the elements.
    """

    def __init__(self, name: str, render: Any | None) -> None:
        super().__init__(name, None)
        self.render = render
        self._kept: list[Any] = []

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        self._kept.extend(values if self.render is None else self.render(values))

    def take(self) -> list[Any]:
        """What was kept since the last call."""
        kept, self._kept = self._kept, []
        return kept


class SinkOperator(Operator):
    """Writes elements with a sink's writer; an epoch ends with a flush."""

    def __init__(self, name: str, sink: Sink, subtask: int, parallelism: int) -> None:
        super().__init__(name, None)
        self.sink = sink
        self.subtask = subtask
        self.parallelism = parallelism
        self._writer: SinkWriter | None = None

    def open(self) -> None:
        try:
            self._writer = self.sink.writer(self.subtask, self.parallelism)
        except Exception as error:
            raise user_failure(error, self.name, "opening the sink") from error

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        assert self._writer is not None
        try:
            self._writer.write(values)
        except Exception as error:
            raise user_failure(error, self.name, "writing") from error

    def end_epoch(self, now_ms: int) -> None:
        assert self._writer is not None
        try:
            self._writer.flush()
        except Exception as error:
            raise user_failure(error, self.name, "flushing") from error

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
