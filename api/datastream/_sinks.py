"""Turns what users pass as a sink into what the engine runs."""

from __future__ import annotations

from typing import Any

from changelog_engine import connectors as engine
from changelog_engine.errors import ArgumentTypeError, NotSupportedError

from .connectors.base import Sink
from .functions import SinkFunction


def as_sink_function(sink_func: Any, what: str) -> engine.Sink | engine.CommittingSink:
    """A SinkFunction, or what one would be made of, as a sink of the engine.

    Raises:
        ConfigurationError: it is neither.
        NotSupportedError: the name of a Java class.
    """
    if isinstance(sink_func, Sink):
        raise ArgumentTypeError(
            f"{what} takes a SinkFunction; give this {type(sink_func).__name__} to sink_to()"
        )
    function = sink_func._function if isinstance(sink_func, SinkFunction) else sink_func
    _refuse_java(function, what)
    if isinstance(function, (engine.Sink, engine.CommittingSink)):
        return function
    return engine.FunctionSink(function)


def as_sink(sink: Any, what: str) -> engine.Sink | engine.CommittingSink:
    """A Sink, or an object with the engine's protocol, as a sink of the engine.

    Raises:
        ConfigurationError: it is neither.
        NotSupportedError: the name of a Java class.
    """
    if isinstance(sink, SinkFunction):
        raise ArgumentTypeError(f"{what} takes a Sink; give this SinkFunction to add_sink()")
    inner = sink._sink if isinstance(sink, Sink) else sink
    _refuse_java(inner, what)
    if not isinstance(inner, (engine.Sink, engine.CommittingSink)):
        raise ArgumentTypeError(
            f"{what} needs a Sink, or an object with writer(subtask, parallelism) or committing_writer(context), "
            f"got {sink!r}"
        )
    return inner


def _refuse_java(given: Any, what: str) -> None:
    if isinstance(given, str):
        raise NotSupportedError(
            f"{what}({given!r}): Java classes cannot be used in this engine; give a Python object"
        )
