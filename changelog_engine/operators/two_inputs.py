"""Operators with two inputs: connected streams, keyed and not. Each input is a port that the stage pushes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from changelog_engine.clock import WallClock
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.operators.base import Operator, results_of
from changelog_engine.operators.context import ElementContext, KeyedElementContext, KeyedTimerService
from changelog_engine.operators.failures import UsersCode
from changelog_engine.operators.keyed import KeyedElements, KeyedParts, TimerFunctionOperator, run_process
from changelog_engine.operators.stateless import FunctionOperator, run_elements

Call = Callable[[Any, Any], Any]

_CALLS = {
    NodeKind.CO_MAP: ("map1", "map2"),
    NodeKind.CO_FLAT_MAP: ("flat_map1", "flat_map2"),
    NodeKind.CO_PROCESS: ("process_element1", "process_element2"),
    NodeKind.BROADCAST_PROCESS: ("process_element", "process_broadcast_element"),
}


class InputPort:
    """One input of an operator, as the stage sees it."""

    def __init__(self, operator: Any, call: str, context: Any) -> None:
        self.operator = operator
        self.call = call
        self.context = context

    def process(self, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Take elements without keys."""
        self.operator.process_input(self, values, times)

    def process_keyed(
        self, identities: list[Any], values: Sequence[Any], times: Sequence[int] | None
    ) -> None:
        """Take elements with the identities of their keys."""
        self.operator.process_keyed_input(self, identities, values, times)


def call_of(kind: NodeKind, function: Any, name: str) -> Call:
    """One input's method as a process function has it: (value, context) to what it gives, or None."""
    method = getattr(function, name)

    def co_map(value: Any, context: Any) -> Any:
        result = method(value)
        return None if result is None else (result,)  # PyFlink leaves None out; of a flat_map too

    def co_flat_map(value: Any, context: Any) -> Any:
        result = method(value)
        return None if result is None else results_of(result)

    calls: dict[NodeKind, Call] = {NodeKind.CO_MAP: co_map, NodeKind.CO_FLAT_MAP: co_flat_map}
    call: Call = calls.get(kind, method)
    return call


class TwoInputs(FunctionOperator):
    """A function over two streams that are not keyed: CO_MAP, CO_FLAT_MAP, CO_PROCESS or BROADCAST_PROCESS."""

    def __init__(
        self,
        name: str,
        output: Any,
        function: Any,
        context: Any,
        kind: NodeKind,
        clock: WallClock,
    ) -> None:
        super().__init__(name, output, function, context)
        self.kind = kind
        self.ports = [
            InputPort(self, call, self.context_of(side, clock)) for side, call in enumerate(_CALLS[kind])
        ]

    def context_of(self, side: int, clock: WallClock) -> ElementContext:
        """What the function gets with the elements of the first (0) or the second input."""
        return ElementContext(self, clock)

    def process_input(self, port: InputPort, values: Sequence[Any], times: Sequence[int] | None) -> None:
        """Take elements of one input."""
        rest = iter(values)
        with UsersCode(self.name, port.call, values, rest):
            call = call_of(self.kind, self.function, port.call)
            out, out_times = run_elements(call, port.context, rest, times, self)
        self.emit_tagged(out, out_times)


class KeyedTwoInputs(TimerFunctionOperator):
    """A function over two keyed streams that share their state; CO_PROCESS has timers.

    Args:
        second_context: what the function gets with the second input's elements, where they have no key.
    """

    def __init__(
        self,
        parts: KeyedParts,
        timers: KeyedTimerService,
        kind: NodeKind,
        element_context: KeyedElementContext | None = None,
        second_context: ElementContext | None = None,
    ) -> None:
        super().__init__(parts, timers, element_context)
        self.kind = kind
        first, second = _CALLS[kind]
        self.ports = (
            InputPort(self, first, self.element_context),
            InputPort(self, second, second_context or self.element_context),
        )

    def process_keyed_input(
        self, port: InputPort, identities: list[Any], values: Sequence[Any], times: Sequence[int] | None
    ) -> None:
        """Take elements of one input with the identities of their keys."""

        def run(batch: KeyedElements) -> None:
            call = call_of(self.kind, self.function, port.call)
            run_process(call, port.context, batch, self)

        self.take(identities, values, times, run, port.call)


Head = Operator | InputPort
"""What reads an exchange: an operator, or one of its inputs."""


def operator_of(head: Head) -> Operator:
    """The operator that a stage's head belongs to: itself, or the owner of the port."""
    operator: Operator = head.operator if isinstance(head, InputPort) else head
    return operator
