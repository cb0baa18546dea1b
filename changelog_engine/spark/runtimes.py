"""The runtimes of stages that a process holds from epoch to epoch.

Invariants:
    * Before each epoch it is checked that a runtime's state is exactly that of the epoch before. Pinning is a cache, never
      an assumption.
    * An epoch that failed half-way, or is run a second time by Spark, never continues on the state it left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from changelog_engine.clock import WallClock, monotonic_s, wall_ms
from changelog_engine.driver.structured_logs import log_as_json
from changelog_engine.errors import StateLostError
from changelog_engine.graph.subtask_warnings import collected
from changelog_engine.operators.blocks import encode_report
from changelog_engine.operators.build import StageBuilder
from changelog_engine.operators.forked import ends_in_forked_children
from changelog_engine.operators.kept_state import KeptState
from changelog_engine.operators.messages import Durable, EpochOrder
from changelog_engine.operators.stage import StageRuntime
from changelog_engine.spark.notes import Teller, note_closing
from changelog_engine.spark.shipping import ShippedJob
from changelog_engine.storage.file_systems import use_options

Assemble = Callable[[StageBuilder], StageRuntime]
Subtask = tuple[int, int]  # stage, and its subtask


@dataclass
class _Held:
    run: str
    attempt: int
    runtime: StageRuntime

    def goes_on_with(self, order: EpochOrder) -> bool:
        """Whether the state is that of the epoch before the order's."""
        return self.attempt == order.attempt and self.runtime.done == order.epoch - 1


class Runtimes:
    """The runtimes of one process, by (stage, subtask).

    Args:
        assemble: makes a runtime of its parts; explaining a replay puts its wrappers round them there.
    """

    def __init__(self, clock: WallClock = wall_ms, assemble: Assemble = StageBuilder.build) -> None:
        self.held: dict[Subtask, _Held] = {}
        self._closed: dict[Subtask, tuple[str, int]] = {}  # run and attempt of those that have ended
        self._clock = clock
        self._assemble = assemble

    def run(
        self,
        load_job: Callable[[], ShippedJob],
        order: EpochOrder,
        stage: int,
        subtask: int,
        data: Iterable[bytes],
        notes: str | None = None,
    ) -> list[tuple[int, bytes]]:
        """Run one subtask's epoch.

        Args:
            load_job: gives the job; called only when a runtime is built.
            notes: where it notes how a start goes; None for nowhere.

        Returns:
            (partition, bytes) pairs for the next stages; partition -1 goes to the driver.

        Raises:
            StateLostError: this process doesn't hold the state, and no checkpoint has it either.
            UserFunctionError: a user's function raised.
        """
        with ends_in_forked_children():
            with collected() as warnings:
                runtime, restored_ms = self._runtime(load_job, order, (stage, subtask), notes)
                sent, report = runtime.run(order, data)
            report.warnings = warnings
            report.restored_ms, report.kept = restored_ms, restored_ms is not None and runtime.kept
            sent.append((0 if runtime.exchanges else -1, encode_report(report)))
            if order.kind.closes:
                del self.held[stage, subtask]
                self._closed[stage, subtask] = order.run, order.attempt
                runtime.close()
            return sent

    def commit(self, durable: Durable) -> None:
        """Between two epochs: the sinks of all subtasks here commit what is durable now; see StageRuntime.commit."""
        with ends_in_forked_children():
            for held in self.held.values():
                if (held.run, held.attempt) == (durable.run, durable.attempt):
                    held.runtime.commit(durable.epoch)

    def _runtime(
        self, load_job: Callable[[], ShippedJob], order: EpochOrder, whose: Subtask, notes: str | None
    ) -> tuple[StageRuntime, float | None]:
        """A subtask's runtime, and how many ms it took its state for where it had to."""
        for name, other in list(self.held.items()):
            if other.run != order.run:
                self._drop(name)
        held = self.held.get(whose)
        if held is not None and held.goes_on_with(order):
            return held.runtime, None
        self._refuse_a_second_run(held, order, whose)
        kept = None
        if held is not None:
            if notes is not None:
                note_closing(notes)
            kept = self._drop(whose, leaves=held.attempt < order.attempt)
        began = monotonic_s()
        try:
            _refuse_lost_state(order, whose)
            runtime = self._build(load_job(), order, *whose)
            try:
                tell = None if notes is None else Teller(notes)
                runtime.start(order, tell, kept)
                if tell is not None:
                    tell.ready()
            except BaseException:
                _close_quietly(runtime)
                raise
        except BaseException:
            if kept is not None:
                kept.let_go()
            raise
        self.held[whose] = _Held(order.run, order.attempt, runtime)
        return runtime, (monotonic_s() - began) * 1000

    def _refuse_a_second_run(self, held: _Held | None, order: EpochOrder, whose: Subtask) -> None:
        """Spark repeats a stage whose output it could not fetch, and its tasks pass for first ones then."""
        ended = self._closed.get(whose) == (order.run, order.attempt)
        if ended or (held is not None and held.attempt == order.attempt):
            raise StateLostError(
                f"Spark ran stage {whose[0]}, subtask {whose[1]} a second time in epoch {order.epoch}: "
                "others may have taken what it gave the first time"
            )

    def _build(self, job: ShippedJob, order: EpochOrder, stage: int, subtask: int) -> StageRuntime:
        use_options(job.settings.file_systems)
        if job.settings.json_logs:
            log_as_json()
        planned = job.plan.stages[stage]
        wanted = set(planned.nodes) | {edge.route.id for edge in planned.outputs if edge.route is not None}
        functions = job.functions_of(wanted)
        builder = StageBuilder(
            job.plan, functions, job.settings, planned, subtask, job.folder, order.restarts, self._clock
        )
        return self._assemble(builder)

    def _drop(self, whose: Subtask, leaves: bool = False) -> KeptState | None:
        """Close a runtime; gives what it leaves to the next attempt, if it is to leave anything."""
        runtime = self.held.pop(whose).runtime
        kept = runtime.leave() if leaves else None
        _close_quietly(runtime)
        if kept is not None:
            kept.seal()
        return kept

    def clear(self) -> None:
        """Drop everything."""
        for whose in list(self.held):
            self._drop(whose)


def _refuse_lost_state(order: EpochOrder, whose: Subtask) -> None:
    """What a new runtime begins with must be in a checkpoint."""
    if order.committed_epoch != order.epoch - 1:
        raise StateLostError(
            f"the worker process of stage {whose[0]}, subtask {whose[1]} does not hold the state of epoch "
            f"{order.epoch - 1}, which is newer than the last checkpoint"
        )


def _close_quietly(runtime: StageRuntime) -> None:
    with contextlib.suppress(Exception):  # the attempt is over; its functions' complaints no longer matter
        runtime.close()
