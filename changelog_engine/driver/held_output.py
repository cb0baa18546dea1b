"""Collected output until it is final: nothing is handed out that a restart could give once more.

Invariant: what is handed out is covered by a checkpoint, or the job makes none.
"""

from __future__ import annotations

from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.connectors.sinks import PrintSink
from changelog_engine.driver.protocols import Outputs
from changelog_engine.graph.plan import JobPlan


class HeldOutput:
    """The output of one attempt that came to the driver. What is printed goes on at once, what is collected waits."""

    def __init__(self, outputs: Outputs, plan: JobPlan) -> None:
        self._outputs = outputs
        self._printing = {node.id for node in plan.graph.nodes if isinstance(node.function, PrintSink)}
        self._held: list[tuple[int, list[Any]]] = []
        # Checkpoints, and how much of what is held each covers.
        self._tried: list[tuple[Checkpoint, int]] = []

    def take(self, output: dict[int, list[Any]]) -> None:
        """Take what a subtask sent, by sink's node."""
        for node, elements in output.items():
            if node in self._printing:
                self._outputs.printed(elements)
            else:
                self._held.append((node, elements))

    def trying(self, checkpoint: Checkpoint) -> None:
        """A checkpoint that covers all that is held is about to be committed, and may be although it seems to fail."""
        self._tried.append((checkpoint, len(self._held)))

    def hand_out(self) -> None:
        """Hand out all: it cannot be repeated any more."""
        self._hand_out(len(self._held))
        self._tried.clear()

    def hand_out_covered_by(self, checkpoint: Checkpoint) -> None:
        """Hand out what a checkpoint made final whose commit had seemed to fail."""
        document = checkpoint.to_json()
        for tried, covered in self._tried:
            if tried.to_json() == document:
                self._hand_out(covered)

    def _hand_out(self, count: int) -> None:
        for node, elements in self._held[:count]:
            self._outputs.collected(node, elements)
        del self._held[:count]
