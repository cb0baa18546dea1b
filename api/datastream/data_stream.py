"""DataStream: a stream of elements, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from changelog_engine.errors import ArgumentTypeError, ConfigurationError, InvalidJobError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.types import TypeInformation

from .. import _arguments
from .._unsupported import module_getattr
from ..common.watermark_strategy import WatermarkStrategy, as_watermark_strategy
from . import _wrappers
from ._projection import Projection, projected_type
from ._spark_streams import SparkOutputs, SparkTable
from ._stream_outputs import StreamOutputs
from ._transformation import Transformation
from .closeable_iterator import CloseableIterator
from .data_stream_sink import DataStreamSink
from .functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
)
from .output_tag import OutputTag

if TYPE_CHECKING:
    from .broadcast_streams import BroadcastConnectedStream, BroadcastStream
    from .connected_streams import ConnectedStreams
    from .keyed_stream import KeyedStream
    from .window import WindowAssigner
    from .windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "SparkTable",
    "KeyedStream",
    "WindowedStream",
]


class DataStream(SparkOutputs, StreamOutputs):
    """A stream of elements of one type. Its methods add operators to the program and run nothing.

    Wherever a function is wanted, an object of the function class will do, or anything callable.
    ``output_type`` declares the new elements, a list of types declares rows: they are checked against it.
    Without it any Python object passes, by pickling.

    Example:
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([1, 2, 3]).map(lambda n: n * 2).filter(lambda n: n > 2).get_name()
        'Filter'

    Source: pyflink.datastream.DataStream
    """

    _not_here: Mapping[str, str] = {
        "cache": "keeps results in Flink's processes, and a job's workers here end with it: write the stream with a "
        "DeltaSink, and read it with a DeltaSource in the next job"
    }

    def map(
        self,
        func: Callable[[Any], Any] | MapFunction,
        output_type: TypeInformation | list[TypeInformation] | None = None,
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
            NodeKind.MAP, "Map", function, _arguments.output_type(output_type, "DataStream.map: output_type")
        )

    def flat_map(
        self,
        func: Callable[[Any], Any] | FlatMapFunction,
        output_type: TypeInformation | list[TypeInformation] | None = None,
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
        declared = _arguments.output_type(output_type, "DataStream.flat_map: output_type")
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

    def process(
        self,
        func: ProcessFunction | KeyedProcessFunction,
        output_type: TypeInformation | list[TypeInformation] | None = None,
    ) -> DataStream:
        """Make any number of elements of each element, seeing its time.

        Args:
            func: the function. One with keyed state or timers needs `key_by` first: a `KeyedProcessFunction` runs here
                too, and an error says so when it asks for them.
            output_type: type of the new elements.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        function = _wrappers.as_process_function(func, "DataStream.process")
        declared = _arguments.output_type(output_type, "DataStream.process: output_type")
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
        from .keyed_stream import KeyedStream

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
            raise ArgumentTypeError(
                f"DataStream.union: argument {position} must be a DataStream, got {stream!r}"
            )
        self._check_same_environment(stream, f"union: argument {position}")
        mine, other = self.get_type(), stream.get_type()
        if mine.spec() != other.spec():
            raise ConfigurationError(
                f"DataStream.union: argument {position}, {stream._transformation.name!r}, has type "
                f"{other.name} and this stream, {self._transformation.name!r}, has type {mine.name}; "
                "give both the same output_type"
            )

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Put this stream and another one, of types of their own, before one function.

        Args:
            ds: a stream, or a `BroadcastStream` with its broadcast states.

        Returns:
            `ConnectedStreams`, or a `BroadcastConnectedStream`.

        Raises:
            ConfigurationError: no stream, or one of another environment.
        """
        from .broadcast_streams import BroadcastConnectedStream, BroadcastStream
        from .connected_streams import ConnectedStreams

        other = ds.input_stream if isinstance(ds, BroadcastStream) else ds
        if not isinstance(other, DataStream):
            raise ArgumentTypeError(f"DataStream.connect needs a DataStream or a BroadcastStream, got {ds!r}")
        self._check_same_environment(other, "connect")
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return ConnectedStreams(self, ds)

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some of the fields of tuples.

        Args:
            *field_indexes: numbers of the fields, from 0, in the order in which they are wanted.

        Returns:
            The new stream, of tuples.

        Raises:
            ConfigurationError: the stream's type is no tuple, or has no such field.
        """
        stream = self._unkeyed()
        output_type = projected_type(stream.get_type(), field_indexes)
        return stream._then(NodeKind.MAP, "Projection", Projection(field_indexes), output_type)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The elements that the operator that makes this stream emitted with a tag.

        Args:
            output_tag: the tag.

        Returns:
            The new stream, of the tag's type.

        Raises:
            ConfigurationError: no OutputTag, or one whose name was used with another type.
            InvalidJobError: the operator has no side outputs: those of ``process()`` and of windows have.
        """
        if not isinstance(output_tag, OutputTag):
            raise ArgumentTypeError(f"DataStream.get_side_output needs an OutputTag, got {output_tag!r}")
        producer = self._transformation
        if getattr(self._named.function, "bad_tag", None) == output_tag.tag_id:
            producer = self._named  # a source, whose timestamps are assigned after it
        elif producer.kind not in _WITH_SIDE_OUTPUTS:
            raise InvalidJobError(
                f"get_side_output: {producer.name!r} has no side outputs; call get_side_output on the result "
                "of process() or of a window"
            )
        known = producer.side_outputs.setdefault(output_tag.tag_id, output_tag.type_info)
        if known.spec() != output_tag.type_info.spec():
            raise ConfigurationError(
                f"get_side_output: the side output {output_tag.tag_id!r} of {producer.name!r} was asked for "
                f"with type {known.name} before, and now with type {output_tag.type_info.name}"
            )
        side_output = Transformation(
            NodeKind.SIDE_OUTPUT, "SideOutput", (producer,), output_tag.tag_id, output_tag.type_info
        )
        return DataStream(self._environment, side_output)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Put the elements into windows, all keys together. One subtask does the work.

        Args:
            window_assigner: says which windows an element belongs to.

        Returns:
            The windows.

        Raises:
            ConfigurationError: no WindowAssigner.
        """
        from . import windowed_stream

        return windowed_stream.window_all(self._unkeyed(), window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Put the elements into windows of so many elements, all keys together. One subtask does the work.

        Args:
            size: number of elements of a window.
            slide: number of elements from one window to the next; 0, the default, for ``size``.

        Returns:
            The windows.

        Raises:
            ConfigurationError: out of range.
        """
        from . import windowed_stream

        return windowed_stream.count_window_all(self._unkeyed(), size, slide)

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

    def _then(
        self, kind: NodeKind, name: str, function: Any, output_type: TypeInformation | None
    ) -> DataStream:
        return DataStream(
            self._environment, Transformation(kind, name, (self._transformation,), function, output_type)
        )


_WITH_SIDE_OUTPUTS = frozenset(
    {NodeKind.PROCESS, NodeKind.CO_PROCESS, NodeKind.BROADCAST_PROCESS, NodeKind.WINDOW}
)

__getattr__ = module_getattr(__name__)
