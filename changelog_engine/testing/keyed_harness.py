"""Harnesses of keyed process functions, with one input and two."""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.graph.nodes import JobGraph, Node, NodeKind
from changelog_engine.testing.harness import OperatorHarness
from changelog_engine.testing.harness_graph import empty_source


class KeyedHarness(OperatorHarness):
    """A KeyedProcessFunction (or any function of a keyed stream) by itself.

    Args:
        key_selector: a callable or KeySelector: element to key.
        key_type: declared type of the keys; None for undeclared.
        output_type: declared type of the output, which is then checked; None for undeclared.
        max_parallelism: number of key groups, 128 by default.

    Raises:
        ConfigurationError: function or key selector cannot be used.
        UserFunctionError: the function's ``open()`` raised.

    Source: no counterpart in PyFlink; Flink's KeyedOneInputStreamOperatorTestHarness

    Example:
        >>> class Twice:
        ...     def process_element(self, value, ctx):
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        ...         yield 2 * value
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.get_current_key()
        >>> harness = KeyedHarness(Twice(), lambda value: value % 2)
        >>> harness.process_element(3, 100)
        >>> harness.output, harness.event_time_timers
        ([6], [(110, 1)])
        >>> harness.process_watermark(110)
        >>> harness.output
        [6, 1]
        >>> [mutation.operation for mutation in harness.mutations]
        ['register_timer', 'delete_timer']
    """

    def __init__(
        self,
        function: Any,
        key_selector: Any,
        key_type: Any = None,
        output_type: Any = None,
        max_parallelism: int | None = None,
    ) -> None:
        _check(function, "KeyedHarness", "process_element")
        key_by = _key_by("KeyedHarness", 1, 0, key_selector, key_type)
        operator = Node(2, NodeKind.PROCESS, "process", (1,), function, output_type, "process")
        nodes = (empty_source(0), key_by, operator)
        super().__init__(JobGraph("harness", nodes, 1), "process", max_parallelism)


class KeyedCoHarness(OperatorHarness):
    """A KeyedCoProcessFunction by itself.

    Args:
        key_selector1: key of the first input's elements.
        key_selector2: key of the second input's elements.
        key_type: declared type of the keys; None for undeclared.
        output_type: declared type of the output; None for undeclared.

    Raises:
        ConfigurationError: function or key selectors cannot be used.

    Source: no counterpart in PyFlink; Flink's KeyedTwoInputStreamOperatorTestHarness
    """

    def __init__(
        self,
        function: Any,
        key_selector1: Any,
        key_selector2: Any,
        key_type: Any = None,
        output_type: Any = None,
    ) -> None:
        _check(function, "KeyedCoHarness", "process_element1", "process_element2")
        keys = (
            _key_by("KeyedCoHarness", 2, 0, key_selector1, key_type),
            _key_by("KeyedCoHarness", 3, 1, key_selector2, key_type),
        )
        operator = Node(4, NodeKind.CO_PROCESS, "process", (2, 3), function, output_type, "process")
        super().__init__(
            JobGraph("harness", (empty_source(0), empty_source(1), *keys, operator), 1), "process"
        )

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Give an element to the first input; see `OperatorHarness.process_element`."""
        self.process_element(value, timestamp, 1)

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Give an element to the second input; see `OperatorHarness.process_element`."""
        self.process_element(value, timestamp, 2)


def _check(function: Any, what: str, *methods: str) -> None:
    if isinstance(function, type):
        name = function.__name__
        raise ConfigurationError(f"{what}: function must be an object, got the class {name}; write {name}()")
    missing = [name for name in methods if hook_of(function, name) is None]
    if missing:
        raise ConfigurationError(f"{what}: function must have {missing[0]}(value, ctx), got {function!r}")


def _key_by(what: str, number: int, origin: int, selector: Any, key_type: Any) -> Node:
    key_of = hook_of(selector, "get_key") or selector
    if not callable(key_of):
        raise ConfigurationError(
            f"{what}: key_selector must be callable or have get_key(value), got {selector!r}"
        )
    return Node(number, NodeKind.KEY_BY, "key_by", (origin,), key_of, key_type=key_type)
