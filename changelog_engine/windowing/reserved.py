"""Descriptors of the state that the built-in assigners and triggers keep, under names that programs cannot take."""

from __future__ import annotations

from typing import Any

from changelog_engine.graph.nodes import StateDescription, StateKind, StateSpec
from changelog_engine.types import TypeInformation

RESERVED = "__"  # how the names of all entries of the engine's own begin
CONTENTS = "__window_contents"
REDUCED = "reduce"  # of reduce(), sum() and the like; programs may take it, too


def state_words(state: str) -> str:
    """A state in messages: what windows hold has no name that a user gave it."""
    return "the windows' content" if state == CONTENTS else f"state {state!r}"


def declared_in(state: str) -> str:
    """Where a program says the type of a state's values, for messages."""
    if state == CONTENTS:
        return "the stream that goes into the windows, or as accumulator_type of aggregate()"
    if state == REDUCED:
        return "the stream that is reduced, or in the descriptor of a state of your own"
    return "the state's descriptor"


class ReservedState(StateDescription):
    """A state descriptor of the engine's own.

    Args:
        name: begins with two underscores.
        function: the reduce function of a reducing state.
    """

    def __init__(self, name: str, kind: StateKind, value_type: TypeInformation, function: Any = None) -> None:
        self._spec = StateSpec(name, kind, value_type, function=function)

    def get_name(self) -> str:
        """The state's name."""
        return self._spec.name

    def to_spec(self) -> StateSpec:
        return self._spec
