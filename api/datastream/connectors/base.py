"""Source and Sink: what ``env.from_source`` reads and ``DataStream.sink_to`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from changelog_engine import connectors as engine
from changelog_engine.errors import ArgumentTypeError, ConfigurationError

from ..._arguments import refuse_java
from ..._unsupported import NamesOfPyFlink


class Source:
    """A source. In PyFlink it wraps a Java object, here a Python object.

    Args:
        source: an object that inherits ``changelog_engine.connectors.Source``.

    Raises:
        NotSupportedError: the name of a Java class.
    """

    def __init__(self, source: Any) -> None:
        _refuse_name(source, type(self))
        self._source = engine_source(source, "Source")


class Sink(NamesOfPyFlink):
    """A sink. In PyFlink it wraps a Java object, here a Python object.

    Args:
        sink: an object that inherits ``changelog_engine.connectors.Sink`` or ``CommittingSink``.

    Raises:
        NotSupportedError: the name of a Java class.
    """

    _not_here: Mapping[str, str] = {
        "get_transformer": "is for sinks of Java's: sink_to() takes the sink as it is"
    }

    def __init__(self, sink: Any) -> None:
        _refuse_name(sink, type(self))
        self._sink = engine_sink(sink, "Sink")


class DeliveryGuarantee(Enum):
    """What holds for the output of a sink after a failure."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


def _refuse_name(given: Any, of: type) -> None:
    """Raise when it is a str: a path, of a class that is made by a builder, else the name of a Java class."""
    builders = [
        f"{of.__name__}.{name}(...)"
        for name, found in vars(of).items()
        if isinstance(found, staticmethod) and (name == "builder" or name.startswith("for_"))
    ]
    if builders and isinstance(given, str):
        raise ArgumentTypeError(
            f"{of.__name__}({given!r}): a {of.__name__} is made by {' or '.join(builders)}, then build()"
        )
    refuse_java(given, of.__name__)


def engine_source(given: Any, what: str) -> engine.Source:
    """A source of the engine, as it was given.

    Raises:
        ConfigurationError: it does not inherit the base class.
    """
    engine.check_inherits(given, f"{what} needs", engine.Source)
    source: engine.Source = given
    parts = source.parts if isinstance(source, engine.SourceOfParts) else (source,)
    if not parts:
        raise ConfigurationError(
            f"{what}: {type(source).__name__} has no parts: a SourceOfParts needs at least one"
        )
    return source


def engine_sink(given: Any, what: str) -> engine.Sink | engine.CommittingSink:
    """A sink of the engine, as it was given.

    Raises:
        ConfigurationError: it does not inherit a base class.
    """
    engine.check_inherits(given, f"{what} needs", engine.Sink, engine.CommittingSink)
    sink: engine.Sink | engine.CommittingSink = given
    return sink
