"""KeyedStream: a stream partitioned by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from api import _arguments
from api.common.watermark_strategy import WatermarkStrategy
from api.datastream import _wrappers
from api.datastream._transformation import Transformation
from api.datastream.connectors.base import Sink
from api.datastream.data_stream import DataStream
from api.datastream.data_stream_sink import DataStreamSink
from api.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
    SinkFunction,
)
from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.types import TypeInformation

if TYPE_CHECKING:
    from api.datastream.stream_execution_environment import StreamExecutionEnvironment


class KeyedStream(DataStream):
    """A stream partitioned by key, from ``key_by``.

    Its functions may use keyed state; ``process`` also timers.

    Methods that have nothing to do with keys (``union``, ``print``, ``add_sink``, ``sink_to``,
    ``execute_and_collect``) work on the stream before ``key_by``.

    Example:
        >>> from api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([1, 2, 3]).key_by(lambda n: n % 2).reduce(lambda a, b: a + b).get_name()
        'Reduce'

    Source: pyflink.datastream.KeyedStream
    """

    _not_here = frozenset({"count_window", "max", "max_by", "min", "min_by", "sum", "window"})

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        transformation: Transformation,
        origin_stream: DataStream,
    ) -> None:
        super().__init__(environment, transformation)
        self._origin_stream = origin_stream

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """As ``DataStream.map``; the function may use keyed state."""
        function = _wrappers.as_map_function(func, "KeyedStream.map")
        return self._then(
            NodeKind.MAP, "Map", function, _arguments.type_info(output_type, "KeyedStream.map: output_type")
        )

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """As ``DataStream.flat_map``; the function may use keyed state."""
        function = _wrappers.as_flat_map_function(func, "KeyedStream.flat_map")
        declared = _arguments.type_info(output_type, "KeyedStream.flat_map: output_type")
        return self._then(NodeKind.FLAT_MAP, "FlatMap", function, declared)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """As ``DataStream.filter``; the function may use keyed state."""
        function = _wrappers.as_filter_function(func, "KeyedStream.filter")
        return self._then(NodeKind.FILTER, "Filter", function, self._transformation.output_type)

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Make any number of elements of each element, with keyed state and timers.

        Args:
            func: the function.
            output_type: type of the new elements.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        function = _wrappers.as_keyed_process_function(func, "KeyedStream.process")
        declared = _arguments.type_info(output_type, "KeyedStream.process: output_type")
        return self._then(NodeKind.PROCESS, "KeyedProcess", function, declared)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combine the elements of each key: every element brings out the combination so far.

        Args:
            func: takes the combination so far and an element, returns the new combination, of the same type.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        function = _wrappers.as_reduce_function(func, "KeyedStream.reduce")
        return self._then(NodeKind.REDUCE, "Reduce", function, self._transformation.output_type)

    def key_by(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Partition the stream before this ``key_by`` in another way. See ``DataStream.key_by``."""
        return self._origin_stream.key_by(key_selector, key_type)

    def union(self, *streams: DataStream) -> DataStream:
        """As ``DataStream.union``, of the stream before ``key_by``."""
        return self._origin_stream.union(*streams)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """As ``DataStream.assign_timestamps_and_watermarks``, of the stream before ``key_by``."""
        return self._origin_stream.assign_timestamps_and_watermarks(watermark_strategy)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """As ``DataStream.print``, of the stream before ``key_by``."""
        return self._origin_stream.print(sink_identifier)

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """As ``DataStream.add_sink``, of the stream before ``key_by``."""
        return self._origin_stream.add_sink(sink_func)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """As ``DataStream.sink_to``, of the stream before ``key_by``."""
        return self._origin_stream.sink_to(sink)

    def get_name(self) -> str:
        """Not possible: a keyed stream is no operator.

        Raises:
            InvalidJobError: always.
        """
        raise _refused("get_name")

    def name(self, name: str) -> Self:
        """Not possible: a keyed stream is no operator.

        Raises:
            InvalidJobError: always.
        """
        raise _refused("name")

    def uid(self, uid: str) -> Self:
        """Not possible: a keyed stream is no operator.

        Raises:
            InvalidJobError: always.
        """
        raise _refused("uid")

    def set_parallelism(self, parallelism: int) -> Self:
        """Not possible: a keyed stream is no operator.

        Raises:
            InvalidJobError: always.
        """
        raise _refused("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Not possible: a keyed stream is no operator.

        Raises:
            InvalidJobError: always.
        """
        raise _refused("set_max_parallelism")

    def _unkeyed(self) -> DataStream:
        return self._origin_stream


def _refused(method: str) -> InvalidJobError:
    """The error of methods that mean an operator, on a keyed stream, which is none."""
    return InvalidJobError(
        f"KeyedStream.{method} is not possible: a keyed stream is no operator of its own; call {method} "
        "on the stream before key_by(), or on the result of the operator after it"
    )
