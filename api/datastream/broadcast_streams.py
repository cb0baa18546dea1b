"""Broadcast streams, and what a stream connected with one can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.nodes import BroadcastSpec, NodeKind
from changelog_engine.types import TypeInformation

from .. import _arguments
from .._unsupported import NamesOfPyFlink
from . import _wrappers
from ._transformation import Transformation
from .state_descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from .broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
    from .data_stream import DataStream


class BroadcastStream(NamesOfPyFlink):
    """A stream whose elements come to every subtask, with the broadcast states that they may change.

    From ``DataStream.broadcast(descriptor, ...)``; the only thing to do with it is ``connect()`` of another
    stream.

    Args:
        input_stream: the broadcast stream.
        broadcast_state_descriptors: declare the broadcast states.

    Raises:
        ConfigurationError: no MapStateDescriptor, or two with the same name.

    Source: pyflink.datastream.BroadcastStream
    """

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        names: set[str] = set()
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise ArgumentTypeError(
                    f"DataStream.broadcast: a broadcast state needs a MapStateDescriptor, got {descriptor!r}"
                )
            if descriptor.get_name() in names:
                raise ConfigurationError(
                    f"DataStream.broadcast: two broadcast states have the name {descriptor.get_name()!r}; "
                    "give each its own"
                )
            names.add(descriptor.get_name())
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream(NamesOfPyFlink):
    """A stream, keyed or not, connected with a broadcast stream; from ``connect()``.

    Args:
        non_broadcast_stream: the stream.
        broadcast_stream: the broadcast stream.
        broadcast_state_descriptors: declare the broadcast states.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> from changelog_engine.api.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
        >>> from changelog_engine.api.datastream.state import MapStateDescriptor
        >>> class Price(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(prices).put(value[0], value[1])
        ...     def process_element(self, value, ctx):
        ...         yield value, ctx.get_broadcast_state(prices).get(value)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> prices = MapStateDescriptor("prices", Types.STRING(), Types.LONG())
        >>> broadcast = env.from_collection([("tea", 2)]).broadcast(prices)
        >>> env.from_collection(["tea"]).connect(broadcast).process(Price()).get_name()
        'Co-Process-Broadcast'

    Source: pyflink.datastream.BroadcastConnectedStream
    """

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: TypeInformation | list[TypeInformation] | None = None,
    ) -> DataStream:
        """Make any number of elements of each element of both streams, with the broadcast states.

        The operator has the parallelism that the environment has now, unless it is set on the result.

        Args:
            func: a `KeyedBroadcastProcessFunction` when the stream is keyed, else a
                `BroadcastProcessFunction`.
            output_type: type of the new elements; a list of types for rows.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        from .data_stream import DataStream

        what = "BroadcastConnectedStream.process"
        stream = self.non_broadcast_stream
        environment = stream.get_execution_environment()
        keyed = stream._transformation.kind is NodeKind.KEY_BY
        function = _wrappers.as_broadcast_process_function(func, keyed, what)
        states = tuple(descriptor.to_spec() for descriptor in self.broadcast_state_descriptors)
        transformation = Transformation(
            NodeKind.BROADCAST_PROCESS,
            "Keyed-Co-Process-Broadcast" if keyed else "Co-Process-Broadcast",
            (stream._transformation, self.broadcast_stream.input_stream._transformation),
            BroadcastSpec(function, states),
            _arguments.output_type(output_type, f"{what}: output_type"),
            # How often a broadcast element is processed must not depend on where the other stream comes from.
            parallelism=environment.get_parallelism(),
        )
        return DataStream(environment, transformation)
