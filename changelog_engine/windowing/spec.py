"""What a window node of the graph says."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.types import TypeInformation
from changelog_engine.types.in_state import in_state
from changelog_engine.windowing.assigner import WindowAssigner
from changelog_engine.windowing.reserved import CONTENTS
from changelog_engine.windowing.trigger import Trigger


class Firing(enum.Enum):
    """What happens to a window's contents when it fires."""

    EMIT = "emit"  # they are the result
    APPLY = "apply"  # function.apply(key, window, contents)
    PROCESS = "process"  # function.process(key, context, contents), and function.clear(context) when the window goes
    APPLY_ALL = "apply_all"  # function.apply(window, contents)
    PROCESS_ALL = "process_all"  # function.process(context, contents), and function.clear(context)


@dataclass(frozen=True)
class WindowSpec:
    """Windows over a keyed stream.

    Args:
        assigner: says an element's windows.
        trigger: says when they fire.
        contents: what is kept of a window's elements: all of them (LIST), or their combination (REDUCING, AGGREGATING).
        firing: what happens when a window fires.
        function: called when a window fires; None for EMIT.
        allowed_lateness_ms: how long after its end a window of event time still takes elements.
        late_tag_id: id of the side output of elements that no window takes any more; None drops them.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: StateSpec
    firing: Firing = Firing.EMIT
    function: Any = None
    allowed_lateness_ms: int = 0
    late_tag_id: str | None = None


def contents_spec(kind: StateKind, value_type: TypeInformation, function: Any = None) -> StateSpec:
    """The state that keeps a window's elements.

    Args:
        kind: LIST, REDUCING or AGGREGATING.
        value_type: of the elements, or of the accumulator.
        function: the reduce or aggregate function.
    """
    return StateSpec(CONTENTS, kind, in_state(value_type), function=function)
