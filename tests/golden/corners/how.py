"""Marks on programs: what is to be done otherwise than by default when they run and are compared.

By default a program runs with parallelism 1, in PyFlink in processes of Python's own, and gives its elements in one order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Program = Callable[..., Any]


def unordered(why: str) -> Callable[[Program], Program]:
    """Flink gives no order here: lines are compared sorted.

    Args:
        why: Flink gives none.
    """

    def mark(program: Program) -> Program:
        program.unordered = why  # type: ignore[attr-defined]
        return program

    return mark


def in_threads(why: str) -> Callable[[Program], Program]:
    """What decides is PyFlink in thread mode (``python.execution-mode``).

    Args:
        why: its process mode does not.
    """

    def mark(program: Program) -> Program:
        program.in_threads = why  # type: ignore[attr-defined]
        return program

    return mark


def settings(**options: str) -> Callable[[Program], Program]:
    """Options of the environment.

    Args:
        options: with ``__`` for a dot and ``_`` for a hyphen.
    """

    def mark(program: Program) -> Program:
        named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
        program.settings = named  # type: ignore[attr-defined]
        return program

    return mark
