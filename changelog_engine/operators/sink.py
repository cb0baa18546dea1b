"""Sinks that write where they run: at least once, or exactly once in two phases.

Invariants:
    * A writer may do what it likes with the lists that it gets.

Invariants of the committing sink:
    * What was prepared is committed only when the checkpoint that keeps its names is durable, and before anything more is
      written.
    * A checkpoint keeps the names of everything that is prepared and not known to be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from changelog_engine.changelog.small_state import KeptSink
from changelog_engine.connectors.inherits import check_inherits
from changelog_engine.connectors.kept_values import kept_copy
from changelog_engine.connectors.protocols import (
    Committable,
    CommittingSink,
    CommittingWriter,
    RestoredSink,
    Sink,
    SinkContext,
    SinkWriter,
)
from changelog_engine.operators.base import Operator
from changelog_engine.operators.failures import UsersCode, element_in, user_failure
from changelog_engine.operators.messages import EpochOrder
from changelog_engine.operators.standing_still import StandingStill


def _own(given: Sequence[Any]) -> Sequence[Any]:
    """A list that the writer may clear or sort: others that get these elements have the same one."""
    return given.copy() if isinstance(given, (list, np.ndarray)) else given


class WritingOperator(Operator):
    """Hands elements to a writer, unless another driver took the job over while the process stood still."""

    def __init__(self, name: str, still: StandingStill) -> None:
        super().__init__(name, None)
        self._still = still
        self.typed = True
        self.records = 0
        self._writer: Any = None
        self._write: Any = None  # the writer's write_timed

    def _open_writer(self, make: Callable[[], Any], demand: str, base: type) -> None:
        with self._still, UsersCode(self.name, "opening the sink"):
            writer = make()
            check_inherits(writer, demand, base)
        self._writer, self._write = writer, writer.write_timed

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        self.records += len(values)
        with self._still:
            try:
                self._write(_own(values), None if times is None else _own(times), self.current_watermark)
            except BaseException as error:
                raise user_failure(error, self.name, "writing", element=element_in(error)) from error

    def close(self) -> None:
        if self._writer is not None:
            with UsersCode(self.name, "closing the sink"):
                self._writer.close()


class SinkOperator(WritingOperator):
    """Writes elements with a sink's writer; an epoch ends with a flush."""

    _writer: SinkWriter

    def __init__(self, name: str, sink: Sink, subtask: int, parallelism: int, still: StandingStill) -> None:
        super().__init__(name, still)
        self.sink = sink
        self.subtask = subtask
        self.parallelism = parallelism

    def open(self) -> None:
        demand = f"{type(self.sink).__name__}.writer() must return"
        self._open_writer(lambda: self.sink.writer(self.subtask, self.parallelism), demand, SinkWriter)

    def end_epoch(self, now_ms: int) -> None:
        with self._still, UsersCode(self.name, "flushing"):
            self._writer.flush()


class CommittingSinkOperator(WritingOperator):
    """Writes elements with a committing sink's writer."""

    _writer: CommittingWriter

    def __init__(self, name: str, sink: CommittingSink, context: SinkContext, still: StandingStill) -> None:
        super().__init__(name, still)
        self.sink = sink
        self.context = context  # what of it is known before the start
        self.moved = False  # whether the last barrier found anything new
        self._kept: KeptSink | None = None
        self._waiting: list[tuple[int, list[Committable]]] = []  # epoch that prepared them, oldest first

    def begin(
        self, order: EpochOrder, restored: Sequence[RestoredSink], beside: Sequence[RestoredSink] | None
    ) -> None:
        """Open the writer, which commits what a checkpoint before kept; see SinkContext."""
        context = self.context._replace(
            run=order.run,
            attempt=order.attempt,
            checkpoints=bool(order.checkpoint_id),
            restored=restored,
            folder=order.folder,
            branches=order.branches,
            beside=beside,
        )
        demand = f"{type(self.sink).__name__}.committing_writer() must return"
        self._open_writer(lambda: self.sink.committing_writer(context), demand, CommittingWriter)

    def end_epoch(self, now_ms: int) -> None:
        with self._still, UsersCode(self.name, "ending an epoch"):
            self._writer.end_epoch()

    def prepare(self, epoch: int, final: bool) -> KeptSink | None:
        """Prepare at a barrier; returns what the checkpoint is to keep, None for nothing."""
        with self._still, UsersCode(self.name, "preparing a checkpoint"):
            prepared = self._writer.prepare(final)
            committables = list(prepared.committables)
            state = kept_copy(prepared.state, "the state of the writer")
            kept_copy(committables, "what is to be committed")
        if committables:
            self._waiting.append((epoch, committables))
        waiting = [committable for _, some in self._waiting for committable in some]
        kept: KeptSink | None = None
        if waiting or state is not None:
            kept = {"committables": waiting, "state": state}
        self.moved = kept != self._kept
        self._kept = kept
        return kept

    def commit(self, committed_epoch: int) -> None:
        """Commit what was prepared up to an epoch whose checkpoint is durable."""
        if not self._waiting or self._waiting[0][0] > committed_epoch:
            return
        due = [
            committable for epoch, some in self._waiting if epoch <= committed_epoch for committable in some
        ]
        with UsersCode(self.name, "committing"):
            self._writer.commit(due)
        self._waiting = [entry for entry in self._waiting if entry[0] > committed_epoch]

    def commit_without_checkpoint(self, epoch: int) -> None:
        """The job ends and makes no checkpoints."""
        self.prepare(epoch, True)
        self.commit(epoch)
