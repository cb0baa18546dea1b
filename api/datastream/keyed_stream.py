"""KeyedStream: a stream partitioned by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from changelog_engine.graph.nodes import NodeKind
from changelog_engine.types import TypeInformation

from .. import _arguments
from ..common.watermark_strategy import WatermarkStrategy
from . import _wrappers
from ._aggregations import aggregation
from ._transformation import Transformation
from .connectors.base import Sink
from .data_stream import DataStream
from .data_stream_sink import DataStreamSink
from .functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
    SinkFunction,
)

if TYPE_CHECKING:
    from .stream_execution_environment import StreamExecutionEnvironment
    from .window import WindowAssigner
    from .windowed_stream import WindowedStream


class KeyedStream(DataStream):
    """A stream partitioned by key, from ``key_by``.

    Its functions may use keyed state; ``process`` also timers.

    Methods that have nothing to do with keys (``union``, ``project``, ``window_all``, ``print``,
    ``add_sink``, ``sink_to``, ``execute_and_collect``) work on the stream before ``key_by``. Methods that set
    something on an operator or say where elements go raise InvalidJobError.

    Example:
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([1, 2, 3]).key_by(lambda n: n % 2).reduce(lambda a, b: a + b).get_name()
        'Reduce'

    Source: pyflink.datastream.KeyedStream
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        transformation: Transformation,
        origin_stream: DataStream,
    ) -> None:
        super().__init__(environment, transformation)
        self._origin_stream = origin_stream

    def map(
        self,
        func: Callable[[Any], Any] | MapFunction,
        output_type: TypeInformation | list[TypeInformation] | None = None,
    ) -> DataStream:
        """As ``DataStream.map``; the function may use keyed state."""
        function = _wrappers.as_map_function(func, "KeyedStream.map")
        return self._then(
            NodeKind.MAP, "Map", function, _arguments.output_type(output_type, "KeyedStream.map: output_type")
        )

    def flat_map(
        self,
        func: Callable[[Any], Any] | FlatMapFunction,
        output_type: TypeInformation | list[TypeInformation] | None = None,
    ) -> DataStream:
        """As ``DataStream.flat_map``; the function may use keyed state."""
        function = _wrappers.as_flat_map_function(func, "KeyedStream.flat_map")
        declared = _arguments.output_type(output_type, "KeyedStream.flat_map: output_type")
        return self._then(NodeKind.FLAT_MAP, "FlatMap", function, declared)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """As ``DataStream.filter``; the function may use keyed state."""
        function = _wrappers.as_filter_function(func, "KeyedStream.filter")
        return self._then(NodeKind.FILTER, "Filter", function, self._transformation.output_type)

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction, output_type: TypeInformation | list[TypeInformation] | None = None
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
        declared = _arguments.output_type(output_type, "KeyedStream.process: output_type")
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

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Add up a field of each key's elements: every element brings out the sum so far.

        The other fields are those of the key's first element.

        Args:
            position_to_sum: number of the field, from 0, or its name in rows; 0, the default, is also an
                element that has no fields.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: no position, or the stream's type has no such field.
        """
        return self._aggregated("sum", position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Keep the smallest value of a field of each key's elements.

        As `sum`: the other fields are those of the key's first element; see `min_by` for whole elements.

        Args:
            position_to_min: as that of `sum`.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: as `sum`.
        """
        return self._aggregated("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Keep the largest value of a field of each key's elements.

        As `sum`: the other fields are those of the key's first element; see `max_by` for whole elements.

        Args:
            position_to_max: as that of `sum`.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: as `sum`.
        """
        return self._aggregated("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Keep the element whose field is smallest, of each key's elements; the first of equal ones.

        Args:
            position_to_min_by: as that of `sum`.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: as `sum`.
        """
        return self._aggregated("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Keep the element whose field is largest, of each key's elements; the first of equal ones.

        Args:
            position_to_max_by: as that of `sum`.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: as `sum`.
        """
        return self._aggregated("max_by", position_to_max_by)

    def _aggregated(self, method: str, position: Any) -> DataStream:
        function = aggregation(method, position, self._transformation.output_type)
        return self._then(NodeKind.REDUCE, "Reduce", function, self._transformation.output_type)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Put the elements of each key into windows.

        Args:
            window_assigner: says which windows an element belongs to.

        Returns:
            The windows.

        Raises:
            ConfigurationError: no WindowAssigner.
        """
        from . import windowed_stream

        return windowed_stream.window(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Put the elements of each key into windows of so many elements.

        Args:
            size: number of elements of a window.
            slide: number of elements from one window to the next; 0, the default, for ``size``.

        Returns:
            The windows.

        Raises:
            ConfigurationError: out of range.
        """
        from . import windowed_stream

        return windowed_stream.count_window(self, size, slide)

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

    def _unkeyed(self) -> DataStream:
        return self._origin_stream
