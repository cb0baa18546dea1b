"""DataStream: a stream of elements, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from api import _arguments
from api._unsupported import module_getattr
from api.common.watermark_strategy import WatermarkStrategy, as_watermark_strategy
from api.datastream import _wrappers
from api.datastream._named_stream import NamedStream
from api.datastream._sinks import as_sink, as_sink_function
from api.datastream._transformation import Transformation
from api.datastream.closeable_iterator import CloseableIterator
from api.datastream.connectors.base import Sink
from api.datastream.data_stream_sink import DataStreamSink
from api.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    SinkFunction,
)
from changelog_engine import connectors as engine
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.types import TypeInformation

if TYPE_CHECKING:
    from api.datastream.keyed_stream import KeyedStream

__all__ = ["CloseableIterator", "DataStream", "DataStreamSink", "KeyedStream"]


class DataStream(NamedStream):
    """A stream of elements of one type. Its methods add operators to the program and run nothing.

    Wherever a function is wanted, an object of the function class will do, or anything callable.
    ``output_type`` declares the new elements: they are checked against it. Without it any Python object
    passes, by pickling.

    Example:
        >>> from api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([1, 2, 3]).map(lambda n: n * 2).filter(lambda n: n > 2).get_name()
        'Filter'

    Source: pyflink.datastream.DataStream
    """

    _not_here = frozenset(
        {
            "broadcast",
            "cache",
            "connect",
            "count_window_all",
            "disable_chaining",
            "force_non_parallel",
            "forward",
            "get_side_output",
            "partition_custom",
            "project",
            "rebalance",
            "rescale",
            "set_buffer_timeout",
            "set_description",
            "set_uid_hash",
            "shuffle",
            "slot_sharing_group",
            "start_new_chain",
            "window_all",
        }
    )

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Make one element of each element.

        Args:
            func: takes an element, returns the new one.
            output_type: type of the new elements.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        function = _wrappers.as_map_function(func, "DataStream.map")
        return self._then(
            NodeKind.MAP, "Map", function, _arguments.type_info(output_type, "DataStream.map: output_type")
        )

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Make any number of elements of each element.

        Args:
            func: takes an element, returns an iterable of new ones; it may be a generator function. None is
                an error.
            output_type: type of the new elements.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        function = _wrappers.as_flat_map_function(func, "DataStream.flat_map")
        declared = _arguments.type_info(output_type, "DataStream.flat_map: output_type")
        return self._then(NodeKind.FLAT_MAP, "FlatMap", function, declared)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep the elements for which a function is true.

        Args:
            func: takes an element, returns whether it stays.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        function = _wrappers.as_filter_function(func, "DataStream.filter")
        return self._then(NodeKind.FILTER, "Filter", function, self._transformation.output_type)

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Make any number of elements of each element, seeing its time.

        Args:
            func: the function. One with keyed state or timers needs `key_by` first.
            output_type: type of the new elements.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        function = _wrappers.as_process_function(func, "DataStream.process")
        declared = _arguments.type_info(output_type, "DataStream.process: output_type")
        return self._then(NodeKind.PROCESS, "Process", function, declared)

    def key_by(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Partition the stream by key: elements of one key come to one subtask, which keeps state for it.

        Args:
            key_selector: takes an element, returns its key; always the same for the same element.
            key_type: type of the keys. Without it 1, 1.0 and True are three keys, and any key that pickles
                will do.

        Returns:
            The keyed stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        from api.datastream.keyed_stream import KeyedStream

        transformation = Transformation(
            NodeKind.KEY_BY,
            "KeyBy",
            (self._transformation,),
            _wrappers.as_key_function(key_selector, "DataStream.key_by"),
            self._transformation.output_type,
            key_type=_arguments.type_info(key_type, "DataStream.key_by: key_type"),
        )
        return KeyedStream(self._environment, transformation, self)

    def union(self, *streams: DataStream) -> DataStream:
        """Put streams together: every element of each of them, in no given order.

        Args:
            *streams: streams of the same type; a keyed one counts as the stream it was made of.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: no stream, one of another environment, or one of another type.
        """
        origins = [self, *streams]
        for position, stream in enumerate(streams, start=1):
            self._check_union(stream, position)
        transformation = Transformation(
            NodeKind.UNION,
            "Union",
            tuple(stream._unkeyed()._transformation for stream in origins),
            output_type=self._transformation.output_type,
        )
        return DataStream(self._environment, transformation)

    def _check_union(self, stream: Any, position: int) -> None:
        if not isinstance(stream, DataStream):
            raise ConfigurationError(
                f"DataStream.union: argument {position} must be a DataStream, got {stream!r}"
            )
        if stream._environment is not self._environment:
            raise ConfigurationError(f"DataStream.union: argument {position} belongs to another environment")
        mine, other = self.get_type(), stream.get_type()
        if mine.spec() != other.spec():
            raise ConfigurationError(
                f"DataStream.union: argument {position}, {stream._transformation.name!r}, has type "
                f"{other.name} and this stream, {self._transformation.name!r}, has type {mine.name}; "
                "give both the same output_type"
            )

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give the elements event times, and the stream watermarks.

        Args:
            watermark_strategy: says how; earlier times and watermarks are replaced.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: no WatermarkStrategy.
        """
        spec = as_watermark_strategy(
            watermark_strategy, "DataStream.assign_timestamps_and_watermarks"
        )._spec()
        return self._then(
            NodeKind.TIMESTAMPS, "Timestamps/Watermarks", spec, self._transformation.output_type
        )

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each element on standard output: of the driver, where users see it.

        Args:
            sink_identifier: begins each line. A line is ``id:N> value`` with an identifier and several
                subtasks, where N counts subtasks from 1; ``id> value`` with an identifier only; ``N> value``
                with several subtasks only; else ``value``.

        Returns:
            The sink.

        Raises:
            ConfigurationError: the identifier is no text.
        """
        if sink_identifier is not None and not isinstance(sink_identifier, str):
            raise ConfigurationError(
                f"DataStream.print: sink_identifier must be a text, got {sink_identifier!r}"
            )
        return self._end(
            "Print to Std. Out", engine.PrintSink(sink_identifier, self._transformation.output_type)
        )

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """Write the stream with a sink function. Only streams that end in a sink are run.

        Args:
            sink_func: a SinkFunction; or, beyond PyFlink, what one would be made of.

        Returns:
            The sink.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        return self._end("Sink", as_sink_function(sink_func, "DataStream.add_sink"))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream with a sink. Only streams that end in a sink are run.

        Args:
            sink: a Sink; or, beyond PyFlink, what one would be made of.

        Returns:
            The sink.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        return self._end("Sink", as_sink(sink, "DataStream.sink_to"))

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the program in the background and bring the elements of this stream here.

        Other sinks that were added since the last execution run as well.

        Args:
            job_execution_name: name of the job; without it the script's file name.
            limit: number of elements after which the job is cancelled.

        Returns:
            A `CloseableIterator`, which must be closed; with a limit, a list of at most so many elements.

        Raises:
            ConfigurationError: an argument that cannot be used.
            InvalidJobError: the program cannot run.
        """
        if limit is not None:
            _arguments.whole_number(limit, "DataStream.execute_and_collect: limit", 1)
        results = self._environment._execute_and_collect(self._unkeyed()._transformation, job_execution_name)
        if limit is None:
            return results
        taken: list[Any] = []
        with results:
            for element in results:
                taken.append(element)
                if len(taken) == limit:
                    break
        return taken

    def _then(
        self, kind: NodeKind, name: str, function: Any, output_type: TypeInformation | None
    ) -> DataStream:
        return DataStream(
            self._environment, Transformation(kind, name, (self._transformation,), function, output_type)
        )

    def _end(self, name: str, sink: Any) -> DataStreamSink:
        transformation = Transformation(NodeKind.SINK, name, (self._transformation,), sink)
        self._environment._add_sink(transformation)
        return DataStreamSink(transformation)

    def _unkeyed(self) -> DataStream:
        return self


_missing = module_getattr(
    __name__,
    {
        "AllWindowedStream",
        "BroadcastConnectedStream",
        "BroadcastStream",
        "ConnectedStreams",
        "WindowedStream",
    },
)


def __getattr__(name: str) -> Any:
    # KeyedStream is a DataStream and DataStream.key_by makes one; PyFlink has both in this module.
    if name == "KeyedStream":
        from api.datastream.keyed_stream import KeyedStream

        return KeyedStream
    return _missing(name)
