"""A source of consecutive whole numbers."""

from __future__ import annotations

from changelog_engine import connectors as engine

from .base import Source


class NumberSequenceSource(Source):
    """The whole numbers from start to end, both included; bounded.

    As many contiguous pieces as there are subtasks, each in order; with parallelism 1 one sequence in order.

    Args:
        start: first number; 64 bits.
        end: last number; 64 bits, not below start.

    Raises:
        ConfigurationError: a bound that cannot be used.
    """

    def __init__(self, start: int, end: int) -> None:
        super().__init__(engine.NumberSequenceSource(start, end))
