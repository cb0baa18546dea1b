"""The small state of a stage's subtasks, which is not keyed: what a checkpoint's row has of it beside the log.

In the row it stands under the names of subtasks, and under ``SHARED`` what all of them have alike (broadcast state).
docs/table-format.md says it for readers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NotRequired, TypedDict

from changelog_engine.graph.descriptions import DescribedState

_SHARED, _LOG, _INPUTS, _SINKS = "shared", "log", "inputs", "sinks"
_ENGINE_NAMES = (_INPUTS, _LOG, _SINKS)  # which uids may be as well
_UID = "uid:"  # before a uid that would be taken for one of these
_TYPES = "__types"  # beside the names of broadcast states
_KEY_TYPE = "key_type"  # of these, always null

Document = dict[str, Any]  # as it stands in the row


class LogPosition(NamedTuple):
    """How much of the log a subtask has written in its attempt."""

    rows: int = 0  # how many, which is the sequence number of the next one
    parts: int = 0  # how many, which is the number of the last one


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

    def to_json(self) -> Document:
        """What stands under the operator's uid."""
        types = {name: state.to_json() | {_KEY_TYPE: None} for name, state in self.types.items()}
        return {**self.rows, _TYPES: types}

    @staticmethod
    def from_json(document: Document) -> KeptBroadcast:
        """Read ``to_json`` back."""
        rows = {name: rows for name, rows in document.items() if name != _TYPES}
        types = {
            name: DescribedState.from_json({each: described[each] for each in described if each != _KEY_TYPE})
            for name, described in document.get(_TYPES, {}).items()
        }
        return KeptBroadcast(rows, types)

    def only(self, names: Collection[str]) -> KeptBroadcast:
        """The states of these names."""
        return KeptBroadcast(
            {name: rows for name, rows in self.rows.items() if name in names},
            {name: described for name, described in self.types.items() if name in names},
        )


@dataclass(frozen=True)
class SmallState:
    """What is kept of one subtask; nothing by default.

    Args:
        log: how much it has written, if it has a log.
        inputs: event time at its inputs, if it has any.
        operators: uid -> what ``Operator.snapshot`` gave, of those that gave something.
        sinks: uid of a committing sink -> what it has prepared.
    """

    log: LogPosition | None = None
    inputs: KeptInputs | None = None
    operators: Mapping[str, Any] = field(default_factory=dict)
    sinks: Mapping[str, KeptSink] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is kept."""
        return bool(self.log is not None or self.inputs is not None or self.operators or self.sinks)

    def to_json(self) -> Document:
        """What stands under the subtask's name."""
        document: Document = {
            f"{_UID}{uid}" if uid in _ENGINE_NAMES or uid.startswith(_UID) else uid: state
            for uid, state in self.operators.items()
        }
        engine = {_LOG: self.log, _INPUTS: self.inputs, _SINKS: self.sinks or None}
        return document | {name: state for name, state in engine.items() if state is not None}

    @staticmethod
    def from_json(document: Document) -> SmallState:
        """Read ``to_json`` back."""
        operators = {
            name.removeprefix(_UID): state for name, state in document.items() if name not in _ENGINE_NAMES
        }
        log = document.get(_LOG)
        position = None if log is None else LogPosition(*log)
        return SmallState(position, document.get(_INPUTS), operators, document.get(_SINKS, {}))


@dataclass(frozen=True)
class StageState:
    """What is kept of a stage.

    Args:
        subtasks: by number, of those that have some.
        shared: uid -> broadcast state, which all subtasks have alike.
    """

    subtasks: Mapping[int, SmallState] = field(default_factory=dict)
    shared: Mapping[str, KeptBroadcast] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is kept."""
        return bool(self.subtasks or self.shared)

    def to_json(self) -> Document:
        """What stands under the stage's uid.

        A stage has an input of each subtask before it, so that a row would grow by the square of the parallelism: the times
        of inputs stand once where subtasks have the same.
        """
        document = {str(number): state.to_json() for number, state in self.subtasks.items()}
        first = next((name for name, state in document.items() if _INPUTS in state), None)
        for name, state in document.items():
            if first not in (None, name) and state.get(_INPUTS) == document[first][_INPUTS]:
                state[_INPUTS] = first
        if self.shared:
            document[_SHARED] = {uid: kept.to_json() for uid, kept in self.shared.items()}
        return document

    @staticmethod
    def from_json(document: Document) -> StageState:
        """Read ``to_json`` back."""
        subtasks = {}
        for name, state in document.items():
            if name != _SHARED:
                inputs = state.get(_INPUTS)
                if isinstance(inputs, str):  # the subtask that has the same
                    state = {**state, _INPUTS: document[inputs][_INPUTS]}
                subtasks[int(name)] = SmallState.from_json(state)
        shared = document.get(_SHARED, {})
        return StageState(subtasks, {uid: KeptBroadcast.from_json(kept) for uid, kept in shared.items()})
