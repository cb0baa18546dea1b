"""The small state of a stage's subtasks, which is not keyed: what a checkpoint's row has of it, and under which names.

Of a subtask: ``LOG``, ``INPUTS`` and ``SINKS``, and what its operators keep, by ``small_name`` of their uids. Beside the
subtasks, under ``SHARED``, what all of them have alike (broadcast state), by uid. All of it is JSON; docs/table-format.md
says it for readers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict

from changelog_engine.graph.descriptions import DescribedState

SHARED = "shared"
LOG = "log"  # the next sequence number of its log, and the number of its last part
INPUTS = "inputs"  # event time at its inputs: ``KeptInputs``
SINKS = "sinks"  # uid of a committing sink -> ``KeptSink``
_TYPES = "__types"  # beside the names of broadcast states
_ENGINE_NAMES = (INPUTS, LOG, SINKS)  # which uids may be as well

SmallState = dict[str, Any]
"""Of one subtask, or what all have alike."""


StageState = dict[str, SmallState]
"""Of a stage: subtask -> its small state; and ``SHARED``."""


class KeptInputs(TypedDict):
    """The watermarks of a subtask's inputs; a channel is ``edge/upstream subtask``."""

    current: int  # the stage's
    channels: dict[str, int]
    idle: list[str]


class KeptTimes(TypedDict):
    """How far an operator that makes watermarks by split has come."""

    current: int  # its watermark
    splits: dict[str, int | None]  # the largest timestamp of each
    before: NotRequired[int]  # the timestamp that stands for the watermark before these splits


class KeptSink(TypedDict):
    """What a committing sink has prepared."""

    committables: list[Any]
    state: Any


@dataclass(frozen=True)
class KeptBroadcast:
    """The broadcast states of an operator, by name.

    Args:
        rows: key, value and payload in base 64 of each entry.
        types: as checkpoints describe states; an older engine kept none.
    """

    rows: dict[str, list[list[str | None]]] = field(default_factory=dict)
    types: dict[str, DescribedState] = field(default_factory=dict)

    def to_json(self) -> SmallState:
        """What stands under the operator's uid in ``SHARED``."""
        return {**self.rows, _TYPES: self.types}

    @staticmethod
    def from_json(document: SmallState) -> KeptBroadcast:
        """Read ``to_json`` back."""
        rows = {name: rows for name, rows in document.items() if name != _TYPES}
        return KeptBroadcast(rows, document.get(_TYPES, {}))

    def only(self, names: Collection[str]) -> KeptBroadcast:
        """The states of these names."""
        return KeptBroadcast(
            {name: rows for name, rows in self.rows.items() if name in names},
            {name: described for name, described in self.types.items() if name in names},
        )


def small_name(uid: str) -> str:
    """The name of an operator's small state beside what the engine keeps of a subtask by names of its own."""
    return f"uid:{uid}" if uid in _ENGINE_NAMES or uid.startswith("uid:") else uid


def inputs_once(subtasks: StageState) -> StageState:
    """The subtasks' small state with the times of their inputs once where all have the same.

    A stage has an input of each subtask before it, so that a row would grow by the square of the parallelism.
    """
    first = next((subtask for subtask in subtasks if subtask != SHARED and INPUTS in subtasks[subtask]), None)
    if first is None:
        return subtasks
    known = subtasks[first][INPUTS]
    return {
        subtask: {**state, INPUTS: first}
        if subtask not in (SHARED, first) and state.get(INPUTS) == known
        else state
        for subtask, state in subtasks.items()
    }


def give_inputs_back(subtasks: StageState) -> None:
    """Undo ``inputs_once``."""
    for subtask, state in subtasks.items():
        if subtask != SHARED and isinstance(state.get(INPUTS), str):  # the subtask that has the same
            state[INPUTS] = subtasks[state[INPUTS]][INPUTS]
