"""Source and Sink: what ``env.from_source`` reads and ``DataStream.sink_to`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from changelog_engine import connectors as engine
from changelog_engine.errors import ArgumentTypeError, NotSupportedError

from ..._unsupported import NamesOfPyFlink, module_getattr


class Source:
    """A source. In PyFlink it wraps a Java object, here a Python object.

    Args:
        source: an object with the protocol ``changelog_engine.connectors.Source``.

    Raises:
        NotSupportedError: the name of a Java class.
        ConfigurationError: an object without that protocol.

    Source: pyflink.datastream.connectors.Source
    """

    def __init__(self, source: Any) -> None:
        _refuse_java(self, source)
        if not isinstance(source, engine.Source):
            raise ArgumentTypeError(
                "Source needs an object with bounded, parallel, output_type, splits() and reader(), "
                f"got {source!r}"
            )
        self._source = source


class Sink(NamesOfPyFlink):
    """A sink. In PyFlink it wraps a Java object, here a Python object.

    Args:
        sink: an object with the protocol ``changelog_engine.connectors.Sink`` or ``CommittingSink``.

    Raises:
        NotSupportedError: the name of a Java class.
        ConfigurationError: an object without that protocol.

    Source: pyflink.datastream.connectors.Sink
    """

    _not_here: Mapping[str, str] = {
        "get_transformer": "is for sinks of Java's: sink_to() takes the sink as it is"
    }

    def __init__(self, sink: Any) -> None:
        _refuse_java(self, sink)
        if not isinstance(sink, (engine.Sink, engine.CommittingSink)):
            raise ArgumentTypeError(
                "Sink needs an object with writer(subtask, parallelism) or committing_writer(context), "
                f"got {sink!r}"
            )
        self._sink = sink


class DeliveryGuarantee(Enum):
    """What holds for the output of a sink after a failure.

    Source: pyflink.datastream.connectors.DeliveryGuarantee
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


def _refuse_java(owner: object, given: Any) -> None:
    if isinstance(given, str):
        raise NotSupportedError(
            f"{type(owner).__name__}({given!r}): Java classes cannot be used in this engine; give a "
            "Python object"
        )


__getattr__ = module_getattr(__name__)
