"""Streams: what a program says about the way of its elements, from ``key_by`` to the sink.

A stream is a handle on one operator of the program's graph (`_graph`): each method checks its arguments, adds an operator
and returns the handle of that, and nothing runs. The kinds of streams make each other, so they are here together:

* `DataStream`, and `KeyedStream`, which is one that is partitioned by key;
* `WindowedStream` and `AllWindowedStream`, in windows, before a function is applied to them;
* `ConnectedStreams`, `BroadcastStream` and `BroadcastConnectedStream`, two streams before one function;
* `DataStreamSink` and `SparkTable`, where a stream ends, and `CloseableIterator`, its elements in this process.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from changelog_engine import connectors as engine
from changelog_engine.connectors.delta import DeltaSink
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    EnvironmentNotReadyError,
    InvalidJobError,
    JobCancelledError,
)
from changelog_engine.graph.nodes import NO_KEY, BroadcastSpec, NodeKind, PartitionSpec, StateKind, StateSpec
from changelog_engine.graph.nodes import Partitioner as Way
from changelog_engine.types import TypeInformation, Types
from changelog_engine.types.typeinfo import a_class, type_from_spec
from changelog_engine.windowing.assigner import MergingWindowAssigner, WindowAssigner
from changelog_engine.windowing.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from changelog_engine.windowing.namespaces import window_codec
from changelog_engine.windowing.spec import Firing, WindowSpec, contents_spec
from changelog_engine.windowing.trigger import Trigger

from .. import _arguments
from .._arguments import OutputType
from .._kept_settings import kept
from .._unsupported import NamesOfPyFlink
from ..common.execution_config import ExecutionConfig
from ..common.watermark_strategy import WatermarkStrategy
from . import _wrappers
from ._connectors import as_sink, as_sink_function
from ._elsewhere import OF_STREAMS, OF_WINDOWS
from ._fields import KeyAndElement, Projection, aggregation, projected_type, subtask_of_key
from ._graph import Chaining, GraphBuilder, Transformation
from ._java_environment import JavaDataStream
from ._not_a_collection import NotACollection
from .connectors.base import Sink
from .connectors.delta import as_row_type
from .functions import (
    AggregateFunction,
    AllWindowFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    SinkFunction,
    WindowFunction,
)
from .output_tag import OutputTag
from .slot_sharing_group import SlotSharingGroup
from .state_descriptors import MapStateDescriptor
from .window_functions import is_window_function

if TYPE_CHECKING:
    from .stream_execution_environment import StreamExecutionEnvironment

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

_LOG = logging.getLogger("changelog_engine")

A = TypeVar("A")  # what windows call when they fire
P = TypeVar("P")  # the same, with time and state

_ALL_KEY_TYPE = Types.PRIMITIVE_ARRAY(Types.BYTE())


class _OfOperator(NotACollection, NamesOfPyFlink, ABC):
    """What may be set on an operator, through the stream that it makes or the sink that it is.

    Attributes:
        _said: the class, in errors.
    """

    _said = ""

    @abstractmethod
    def _operator(self, method: str) -> Transformation:
        """The operator that a method means.

        Raises:
            InvalidJobError: there is none that could be set.
        """

    def name(self, name: str) -> Self:
        """Set the name of the operator. People see it; nothing depends on it.

        Args:
            name: any text.

        Raises:
            InvalidJobError: the stream is keyed, partitioned or a union, which is not an operator; so with all
                methods that set something on it.
        """
        self._operator("name").set_name(name, f"{self._said}.name")
        return self

    def uid(self, uid: str) -> Self:
        """Set the stable id of the operator.

        State finds its operator by it when the program has changed, and the changelog shows it.

        Args:
            uid: unique in the job; two operators with the same one are an error at ``execute()``.
        """
        self._operator("uid").set_uid(uid, f"{self._said}.uid")
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the stable id of an operator without uid, such as one that an earlier version of the job had.

        Args:
            uid_hash: 32 hexadecimal digits, unique in the job. It is the id as it is; ``uid()`` goes before it.
        """
        self._operator("set_uid_hash").set_uid_hash(uid_hash, f"{self._said}.set_uid_hash")
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the parallelism of the operator.

        Args:
            parallelism: 1 to 32768, or -1 (``ExecutionConfig.PARALLELISM_DEFAULT``) to forget what was set; 1 for a
                source that is not parallel, such as a collection, and after `DataStream.force_non_parallel`.
        """
        self._operator("set_parallelism").set_parallelism(parallelism, f"{self._said}.set_parallelism")
        return self

    def set_description(self, description: str) -> Self:
        """Say what the operator does. Kept; nothing depends on it.

        Args:
            description: any text.
        """
        self._operator("set_description").set_description(description, f"{self._said}.set_description")
        return self


class DataStream(_OfOperator):
    """A stream of elements of one type. Its methods add operators to the program and run nothing.

    Wherever a function is wanted, an object of the function class will do, or anything callable.
    ``output_type`` declares the new elements, a list of types declares rows: they are checked against it.
    Without it any Python object passes, by pickling.

    Example:
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([1, 2, 3]).map(lambda n: n * 2).filter(lambda n: n > 2).get_name()
        'Filter'
    """

    _said = "DataStream"
    _not_here: Mapping[str, str] = {
        "cache": "keeps results in Flink's processes, and a job's workers here end with it: write the stream with a "
        "DeltaSink, and read it with a DeltaSource in the next job"
    }
    _elsewhere = OF_STREAMS

    def __init__(
        self,
        environment: StreamExecutionEnvironment | JavaDataStream,
        transformation: Transformation | None = None,
        named: Transformation | None = None,
    ) -> None:
        if isinstance(environment, JavaDataStream):
            environment, transformation = environment.environment, environment.transformation
        if transformation is None:
            raise ArgumentTypeError(
                "DataStream() takes the stream of env._j_stream_execution_environment.socketTextStream(host, port), got "
                f"{environment!r}: streams are made by the environment's methods"
            )
        self._environment = environment
        self._graph: GraphBuilder = environment._graph
        self._transformation = transformation
        # What name(), uid() and set_parallelism() mean; the source where watermarks were added to it.
        self._named = named or transformation

    # What the stream is.

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """The environment's `ExecutionConfig`."""
        return self._environment.get_config()

    def get_type(self) -> TypeInformation:
        """The declared type of the elements; ``Types.PICKLED_BYTE_ARRAY()`` when none is declared."""
        return type_from_spec(self._element_type().spec())  # as there, rows show all names

    def _element_type(self) -> TypeInformation:
        return self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def get_name(self) -> str:
        """The name of the operator that makes the stream.

        Raises:
            InvalidJobError: the stream is keyed, partitioned or a union, which is not an operator.
        """
        return self._operator("get_name").name

    # Settings of the operator that makes it.

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator that makes the stream.

        It bounds the parallelism for ever.

        Args:
            max_parallelism: 1 to 32768; 1 after `force_non_parallel`.
        """
        operator = self._operator("set_max_parallelism")
        operator.set_max_parallelism(max_parallelism, "DataStream.set_max_parallelism")
        return self

    def force_non_parallel(self) -> Self:
        """Set parallelism and max parallelism of the operator that makes the stream to 1, for good."""
        self._operator("force_non_parallel").force_non_parallel()
        return self

    @kept
    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Set how long elements may wait in a buffer. Kept, without effect: elements travel by epoch.

        Args:
            timeout_millis: in ms; 0 for no waiting, -1 for the default.
        """
        self._operator("set_buffer_timeout").set_buffer_timeout(
            timeout_millis, "DataStream.set_buffer_timeout"
        )
        return self

    def start_new_chain(self) -> Self:
        """Begin a chain with this operator: what it reads has its declared type. It stays in its input's task."""
        self._operator("start_new_chain").chaining = Chaining.HEAD
        return self

    def disable_chaining(self) -> Self:
        """Chain this operator with none: what it reads and gives has its declared type. It stays in its input's task."""
        self._operator("disable_chaining").chaining = Chaining.NEVER
        return self

    @kept
    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Ask to share slots with the operators of a group. Kept, without effect: Spark places tasks.

        Args:
            slot_sharing_group: a name or a `SlotSharingGroup`.
        """
        self._operator("slot_sharing_group").set_slot_sharing_group(
            slot_sharing_group, "DataStream.slot_sharing_group"
        )
        return self

    # New streams of its elements.

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: OutputType = None) -> DataStream:
        """Make one element of each element.

        Args:
            func: takes an element, returns the new one; of a keyed stream it may use keyed state.
            output_type: type of the new elements.
        """
        what = f"{type(self).__name__}.map"
        function = _wrappers.as_function(func, MapFunction, what)
        return self._then(NodeKind.MAP, "Map", function, _output_type(output_type, what))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: OutputType = None
    ) -> DataStream:
        """Make any number of elements of each element.

        Args:
            func: takes an element, returns an iterable of new ones; it may be a generator function. None is
                an error. Of a keyed stream it may use keyed state.
            output_type: type of the new elements.
        """
        what = f"{type(self).__name__}.flat_map"
        function = _wrappers.as_function(func, FlatMapFunction, what)
        return self._then(NodeKind.FLAT_MAP, "FlatMap", function, _output_type(output_type, what))

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep the elements for which a function is true.

        Args:
            func: takes an element, returns whether it stays; of a keyed stream it may use keyed state.

        Returns:
            The new stream, of the same type.
        """
        function = _wrappers.as_function(func, FilterFunction, f"{type(self).__name__}.filter")
        return self._then(NodeKind.FILTER, "Filter", function, self._transformation.output_type)

    def process(
        self, func: ProcessFunction | KeyedProcessFunction, output_type: OutputType = None
    ) -> DataStream:
        """Make any number of elements of each element, seeing its time.

        Args:
            func: the function. One with keyed state or timers needs `key_by` first: a `KeyedProcessFunction` runs here
                too, and an error says so when it asks for them.
            output_type: type of the new elements.
        """
        what = "DataStream.process"
        function = _wrappers.as_process_function(func, what)
        return self._then(NodeKind.PROCESS, "Process", function, _output_type(output_type, what))

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some of the fields of tuples.

        Args:
            *field_indexes: numbers of the fields, from 0, in the order in which they are wanted.

        Returns:
            The new stream, of tuples.

        Raises:
            ConfigurationError: the stream's type is not a tuple, or has no such field.
        """
        stream = self._unkeyed()
        output_type = projected_type(stream._element_type(), field_indexes)
        return stream._then(NodeKind.MAP, "Projection", Projection(field_indexes), output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give the elements event times, and the stream watermarks.

        Args:
            watermark_strategy: says how; earlier times and watermarks are replaced.

        Returns:
            The new stream, of the same type.
        """
        what = "DataStream.assign_timestamps_and_watermarks: watermark_strategy"
        such_as = "WatermarkStrategy.no_watermarks()"
        spec = _arguments.instance(watermark_strategy, WatermarkStrategy, what, such_as)._spec()
        stream = self._unkeyed()
        return stream._then(
            NodeKind.TIMESTAMPS, "Timestamps/Watermarks", spec, stream._transformation.output_type
        )

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The elements that the operator that makes this stream emitted with a tag.

        Returns:
            The new stream, of the tag's type.

        Raises:
            ConfigurationError: no OutputTag, or one whose name was used with another type.
            InvalidJobError: the operator has no side outputs: those of ``process()`` and of windows have.
        """
        _arguments.instance(output_tag, OutputTag, "DataStream.get_side_output: output_tag")
        tag_id, type_info = output_tag.tag_id, output_tag.type_info
        # The source, where timestamps are assigned after it.
        producer = self._named if self._named.has_side_output(tag_id) else self._transformation
        producer.add_side_output(tag_id, type_info)
        return DataStream(
            self._environment,
            self._graph.add(NodeKind.SIDE_OUTPUT, "SideOutput", (producer,), tag_id, type_info),
        )

    # By key, and in windows.

    def key_by(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """Partition the stream by key: elements of one key come to one subtask, which keeps state for it.

        Keys that it had before are replaced.

        Args:
            key_selector: takes an element, returns its key; always the same for the same element.
            key_type: type of the keys. Without it 1, 1.0 and True are three keys, and any key that pickles
                will do.
        """
        what = "DataStream.key_by"
        function = _wrappers.as_key_function(key_selector, what)
        declared = _arguments.type_info(key_type, f"{what}: key_type")
        stream = self._unkeyed()
        origin = stream._transformation
        keyed = self._graph.add(
            NodeKind.KEY_BY, "KeyBy", (origin,), function, origin.output_type, key_type=declared
        )
        return KeyedStream(self._environment, keyed, stream)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Put the elements into windows, all keys together. One subtask does the work.

        Args:
            window_assigner: says which windows an element belongs to.
        """
        return AllWindowedStream(self, _as_assigner(window_assigner, "DataStream.window_all"))

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Put the elements into windows of a fixed number of elements, all keys together. One subtask does the work.

        Args:
            slide: number of elements from one window to the next; 0, the default, for ``size``.
        """
        return AllWindowedStream(self, _counted(size, slide, "DataStream.count_window_all"))

    # With other streams.

    def union(self, *streams: DataStream) -> DataStream:
        """Put streams together: every element of each of them, in no given order.

        Args:
            *streams: streams of the same type; a keyed one counts as the stream it was made of.

        Returns:
            The new stream, of the same type.

        Raises:
            ConfigurationError: no stream, one of another environment, or one of another type.
        """
        stream = self._unkeyed()
        for position, other in enumerate(streams, start=1):
            stream._check_union(other, position)
        origins = tuple(each._unkeyed()._transformation for each in (stream, *streams))
        united = self._graph.add(
            NodeKind.UNION, "Union", origins, output_type=stream._transformation.output_type
        )
        return DataStream(self._environment, united)

    def _check_union(self, stream: Any, position: int) -> None:
        _arguments.instance(stream, DataStream, f"DataStream.union: argument {position}")
        self._check_same_environment(stream, f"union: argument {position}")
        mine, other = self._element_type(), stream._element_type()
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

        Raises:
            ConfigurationError: no stream, or one of another environment.
        """
        other = ds.input_stream if isinstance(ds, BroadcastStream) else ds
        if not isinstance(other, DataStream):
            raise ArgumentTypeError(f"DataStream.connect needs a DataStream or a BroadcastStream, got {ds!r}")
        self._check_same_environment(other, "connect")
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return ConnectedStreams(self, ds)

    # Which subtasks its elements go to. What reads the new stream has the environment's parallelism unless it sets its own.

    def rebalance(self) -> DataStream:
        """Send the elements to all subtasks in turn, evenly.

        Raises:
            InvalidJobError: the stream is keyed, which says already where elements go; so with all
                methods of this kind.
        """
        return self._partitioned("rebalance", "Rebalance", Way.REBALANCE)

    def rescale(self) -> DataStream:
        """Send the elements in turn to some of the subtasks: those that are this subtask's share of all."""
        return self._partitioned("rescale", "Rescale", Way.RESCALE)

    def shuffle(self) -> DataStream:
        """Send each element to a subtask at random, evenly."""
        return self._partitioned("shuffle", "Shuffle", Way.SHUFFLE)

    def forward(self) -> DataStream:
        """Send the elements of a subtask to the subtask with the same number.

        Returns:
            The stream, of the same type. Operators that read it need the parallelism of the one before it.
        """
        return self._partitioned("forward", "Forward", Way.FORWARD)

    def global_(self) -> DataStream:
        """Send all elements to the first subtask. Beyond PyFlink: ``global()`` of Flink's Java API."""
        return self._partitioned("global_", "Global", Way.GLOBAL)

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Send every element to every subtask; with descriptors, for the broadcast state that they declare.

        Args:
            broadcast_state_descriptor: declares a broadcast state; None, the default, for a plain stream.
            *other_broadcast_state_descriptors: declare more of them.

        Returns:
            Without descriptors the stream, of the same type; with descriptors a `BroadcastStream`, for
            ``connect()``.

        Raises:
            ConfigurationError: no MapStateDescriptor, or two with the same name.
        """
        stream = self._partitioned("broadcast", "Broadcast", Way.BROADCAST)
        if broadcast_state_descriptor is None and not other_broadcast_state_descriptors:
            return stream
        descriptors = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        return BroadcastStream(stream, descriptors)  # type: ignore[arg-type] # it refuses None

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """Send each element to the subtask that a function chooses.

        Args:
            partitioner: takes an element's key and the number of subtasks, returns the number of one, from 0.
            key_selector: takes an element, returns its key.
        """
        custom = _wrappers.as_partitioner(partitioner, "DataStream.partition_custom: partitioner")
        keys = _wrappers.as_key_function(key_selector, "DataStream.partition_custom: key_selector")
        return self._partitioned("partition_custom", "PartitionCustom", Way.CUSTOM, custom, keys)

    def _partitioned(
        self, method: str, name: str, way: Way, custom: Any = None, key_selector: Any = None
    ) -> DataStream:
        if self._transformation.keyed:
            raise InvalidJobError(
                f"KeyedStream.{method} is not possible, since key_by() decides where elements go: call "
                f"{method} on the stream before key_by() or on a result of the keyed stream"
            )
        spec = PartitionSpec(way, custom, key_selector)
        return self._then(NodeKind.PARTITION, name, spec, self._transformation.output_type)

    # Where its elements end up: in sinks, in a table that Spark reads, and in this process.

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each element on standard output: of the driver, where users see it.

        Args:
            sink_identifier: begins each line. A line is ``id:N> value`` with an identifier and several
                subtasks, where N counts subtasks from 1; ``id> value`` with an identifier only; ``N> value``
                with several subtasks only; else ``value``.
        """
        if sink_identifier is not None and not isinstance(sink_identifier, str):
            raise ArgumentTypeError(
                f"DataStream.print: sink_identifier must be a str, got {sink_identifier!r}"
            )
        sink = engine.PrintSink(sink_identifier, self._transformation.output_type)
        return self._unkeyed()._end("Print to Std. Out", sink)

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """Write the stream with a sink function.

        Args:
            sink_func: a SinkFunction; or, beyond PyFlink, what one would be made of.
        """
        return self._unkeyed()._end("Sink", as_sink_function(sink_func, "DataStream.add_sink"))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream with a sink.

        Args:
            sink: a Sink; or, beyond PyFlink, what one would be made of.
        """
        return self._unkeyed()._end("Sink", as_sink(sink, "DataStream.sink_to"))

    def to_spark(self, path: str, partition_by: list[str] | None = None) -> SparkTable:
        """Write the stream to a Delta table, exactly once, that Spark reads while the job runs and after it. Beyond PyFlink.

        Args:
            path: of the table, or its URI; it is made when it is not there, and appended to when it is.
            partition_by: fields whose values part its files.

        Returns:
            The sink, whose ``read`` gives a DataFrame.

        Raises:
            ConfigurationError: the stream has no row type, or an argument that cannot be used.
            NotSupportedError: a field that Delta has no type for.
        """
        _arguments.text(path, "DataStream.to_spark: path")
        row_type = as_row_type(self._transformation.output_type)
        sink = self._end("Delta", DeltaSink(path, row_type, partition_by or ()))
        return SparkTable(sink._transformation, path)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the program in the background and bring the elements of this stream here.

        Other sinks that were added since the last execution run as well.

        Args:
            job_execution_name: name of the job; without it the script's file name.
            limit: number of elements after which the job is cancelled.

        Returns:
            A `CloseableIterator`, which must be closed; with a limit, a list of at most that many elements.

        Raises:
            InvalidJobError: the program cannot run.
        """
        if limit is not None:
            _arguments.whole_number(limit, "DataStream.execute_and_collect: limit", 1)
        results = CloseableIterator(
            *self._environment._start_and_collect(self._to_collect(), job_execution_name)
        )
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
            self._environment, self._graph.add(kind, name, (self._transformation,), function, output_type)
        )

    def _end(self, name: str, sink: engine.AnySink) -> DataStreamSink:
        typed = sink.for_type(self._transformation.output_type)
        return DataStreamSink(self._graph.add(NodeKind.SINK, name, (self._transformation,), typed))

    def _unkeyed(self) -> DataStream:
        """The stream itself, of a keyed stream the one before ``key_by``."""
        return self

    def _to_collect(self) -> Transformation:
        """What makes the elements that `execute_and_collect` gives."""
        return self._transformation

    def _with_its_keys(self) -> Transformation:
        """What a function of two inputs reads where one alone has keys: of a keyed stream, rows with the key."""
        return self._transformation

    def _operator(self, method: str) -> Transformation:
        """The operator that a method means.

        Raises:
            InvalidJobError: the stream has no operator that could be set.
        """
        self._transformation.check_operator(type(self).__name__, method)
        return self._named

    def _check_same_environment(self, other: DataStream, method: str) -> None:
        if other._environment is not self._environment:
            raise ConfigurationError(
                f"DataStream.{method}: the other stream belongs to another environment, which is another job: call "
                "get_execution_environment() once, and make both streams by what it gives"
            )


class KeyedStream(DataStream):
    """A stream partitioned by key, from ``key_by``.

    Its functions may use keyed state; ``process`` also timers.

    Methods that have nothing to do with keys (``union``, ``project``, ``window_all``, ``print``,
    ``add_sink``, ``sink_to``) work on the stream before ``key_by``; ``execute_and_collect`` gives rows of key and
    element. Methods that set something on an operator or say where elements go raise InvalidJobError.

    Example:
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection([1, 2, 3]).key_by(lambda n: n % 2).reduce(lambda a, b: a + b).get_name()
        'Reduce'
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        transformation: Transformation,
        origin_stream: DataStream,
    ) -> None:
        super().__init__(environment, transformation)
        self._origin_stream = origin_stream

    def _unkeyed(self) -> DataStream:
        return self._origin_stream

    def _to_collect(self) -> Transformation:
        origin, keyed = self._origin_stream._transformation, self._transformation
        return self._graph.prepare(
            NodeKind.MAP, "KeyAndElement", (origin,), KeyAndElement(keyed.function), self.get_type()
        )

    def _with_its_keys(self) -> Transformation:
        keyed = self._transformation
        rows = self._origin_stream._then(
            NodeKind.MAP, "KeyAndElement", KeyAndElement(keyed.function), self.get_type()
        )
        subtask = functools.partial(subtask_of_key, keyed.key_type)
        return rows.partition_custom(subtask, itemgetter(0))._transformation

    def get_type(self) -> TypeInformation:
        """The type of the rows of key and element that ``execute_and_collect`` gives."""
        key_type = self._transformation.key_type or Types.PICKLED_BYTE_ARRAY()
        return type_from_spec(Types.ROW([key_type, self._element_type()]).spec())

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction, output_type: OutputType = None
    ) -> DataStream:
        """Make any number of elements of each element, with keyed state and timers.

        Args:
            output_type: type of the new elements.
        """
        what = "KeyedStream.process"
        function = _wrappers.as_function(func, KeyedProcessFunction, what)
        return self._then(NodeKind.PROCESS, "KeyedProcess", function, _output_type(output_type, what))

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combine the elements of each key: every element brings out the combination so far.

        Args:
            func: takes the combination so far and an element, returns the new combination, of the same type.

        Returns:
            The new stream, of the same type.
        """
        function = _wrappers.as_function(func, ReduceFunction, "KeyedStream.reduce")
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
        """
        return self._aggregated("min", position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Keep the largest value of a field of each key's elements.

        As `sum`: the other fields are those of the key's first element; see `max_by` for whole elements.

        Args:
            position_to_max: as that of `sum`.
        """
        return self._aggregated("max", position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Keep the element whose field is smallest, of each key's elements; the first of equal ones.

        Args:
            position_to_min_by: as that of `sum`.
        """
        return self._aggregated("min_by", position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Keep the element whose field is largest, of each key's elements; the first of equal ones.

        Args:
            position_to_max_by: as that of `sum`.
        """
        return self._aggregated("max_by", position_to_max_by)

    def _aggregated(self, method: str, position: Any) -> DataStream:
        function = aggregation(method, position, self._transformation.output_type)
        return self._then(NodeKind.REDUCE, "Reduce", function, self._transformation.output_type)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Put the elements of each key into windows.

        Args:
            window_assigner: says which windows an element belongs to.
        """
        return WindowedStream(self, _as_assigner(window_assigner, "KeyedStream.window"))

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Put the elements of each key into windows of a fixed number of elements.

        Args:
            slide: number of elements from one window to the next; 0, the default, for ``size``.
        """
        return WindowedStream(self, _counted(size, slide, "KeyedStream.count_window"))


class _Windows(NotACollection, NamesOfPyFlink, Generic[A, P]):
    """What both windowed streams are: the settings of the windows, and the operator made of them."""

    _firings: ClassVar[dict[ABCMeta, Firing]] = {}
    _elsewhere = OF_WINDOWS
    _described = "Window"
    _asks_can_merge = False  # PyFlink asks triggers of windows of all elements only

    def __init__(
        self, stream: DataStream, keyed: Transformation, window_assigner: WindowAssigner[Any, Any]
    ) -> None:
        self._stream = stream
        self._keyed = keyed
        self._assigner = _as_assigner(window_assigner, type(self).__name__)
        self._trigger: Trigger[Any, Any] | None = None
        self._lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """The declared type of the elements; ``Types.PICKLED_BYTE_ARRAY()`` when none is declared."""
        return self._stream._element_type()

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set what decides when a window fires, in place of the assigner's own trigger.

        Args:
            trigger: the trigger. Of windows that merge, as sessions do, its ``on_merge`` is called; its ``can_merge``
                should be true, and has to be for windows of all elements.
        """
        what = f"{type(self).__name__}.trigger"
        _arguments.instance(trigger, Trigger, f"{what}: the trigger")
        if isinstance(self._assigner, MergingWindowAssigner) and trigger.can_merge() is not True:
            windows, name = type(self._assigner).__name__, type(trigger).__name__
            if self._asks_can_merge:
                raise ArgumentTypeError(
                    f"{what}: windows of {windows} merge, and {name} does not support that; its can_merge() must return True"
                )
            _LOG.warning(
                "%s: windows of %s merge, and can_merge() of %s does not return True. The job runs, as in PyFlink: "
                "on_merge() is called, and has to merge the trigger's state and set the timers of the merged window",
                what,
                windows,
                name,
            )
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Set how long after its end a window still takes elements. Means something for windows of event time only.

        Args:
            time_ms: ms; 0 by default. Each late element fires its window again. Elements that come later are dropped,
                or go where ``side_output_late_data`` says.
        """
        self._lateness_ms = _arguments.whole_number(
            time_ms, f"{type(self).__name__}.allowed_lateness: the time in ms", 0
        )
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send elements that no window takes any more to a side output, in place of dropping them.

        Args:
            output_tag: the side output, for ``get_side_output`` of the resulting stream.
        """
        _arguments.instance(output_tag, OutputTag, f"{type(self).__name__}.side_output_late_data: output_tag")
        self._late_tag = output_tag
        return self

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: A | P | None = None,
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Combine the elements of each window as they come.

        Args:
            reduce_function: takes the combination so far and an element, returns the new combination, of the same type.
            window_function: is given the combination when the window fires; without it, that is the result.
            output_type: type of the results; by default the elements' type when there is no window function.
            result_type: another name of output_type.
        """
        what = f"{type(self).__name__}.reduce"
        output_type = _either(output_type, result_type, what)
        wrapped = _wrappers.as_function(reduce_function, ReduceFunction, what)
        contents = contents_spec(StateKind.REDUCING, self.get_input_type(), wrapped)
        if window_function is None and output_type is None:
            output_type = self._stream._transformation.output_type
        return self._result(what, contents, window_function, output_type, reduce_function)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: A | P | None = None,
        accumulator_type: OutputType = None,
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the elements of each window as they come.

        Args:
            window_function: is given the aggregate's result when the window fires; without it, that is the result.
            accumulator_type: type of the accumulator; a list of types means a row.
            output_type: type of the results.
            result_type: another name of output_type.
        """
        what = f"{type(self).__name__}.aggregate"
        output_type = _either(output_type, result_type, what)
        wrapped = _wrappers.as_function(aggregate_function, AggregateFunction, what)
        declared = _arguments.output_type(accumulator_type, f"{what}: accumulator_type")
        contents = contents_spec(StateKind.AGGREGATING, declared or Types.PICKLED_BYTE_ARRAY(), wrapped)
        return self._result(what, contents, window_function, output_type, aggregate_function)

    def _listed(self, name: str, wanted: ABCMeta, function: Any, output_type: Any) -> DataStream:
        what = f"{type(self).__name__}.{name}"
        function = _wrappers.as_function(function, wanted, what)
        return self._result(what, contents_spec(StateKind.LIST, self.get_input_type()), function, output_type)

    def _result(
        self, what: str, contents: StateSpec, function: Any, output_type: Any, combined: Any = None
    ) -> DataStream:
        """The stream of results.

        Args:
            what: class and method, for messages.
            contents: the state of a window's elements.
            function: called when a window fires; None emits the combination.
            output_type: declared type of the results.
            combined: the user's reduce or aggregate function, for the operator's description.
        """
        window_codec(self._assigner.get_window_serializer())  # refuses what is not a serializer
        trigger = self._trigger or self._assigner.get_default_trigger(self.get_execution_environment())
        spec = WindowSpec(
            self._assigner,
            trigger,
            contents,
            self._firing(what, function),
            function,
            self._lateness_ms,
            None if self._late_tag is None else self._late_tag.tag_id,
        )
        operator = self._stream._graph.add(
            NodeKind.WINDOW,
            type(self._assigner).__name__,
            (self._keyed,),
            spec,
            _arguments.type_info(output_type, f"{what}: output_type"),
        )
        names = [type(each).__name__ for each in (trigger, combined, function) if each is not None]
        operator.description = f"{self._described}({', '.join([str(self._assigner), *names])})"
        self._place(operator)
        return DataStream(self.get_execution_environment(), operator)

    def _firing(self, what: str, function: Any) -> Firing:
        if function is None:
            return Firing.EMIT
        for wanted, firing in self._firings.items():
            if isinstance(function, wanted):
                _wrappers.refuse_other_arguments(function, wanted, what)
                return firing
        names = " or ".join([a_class(each) for each in self._firings])
        got = type(function).__name__ if is_window_function(function) else repr(function)
        raise ArgumentTypeError(f"{what}: the window function must be {names}, got {got}")

    def _place(self, operator: Transformation) -> None:
        """Say where the operator runs."""


class WindowedStream(_Windows[WindowFunction[Any, Any, Any, Any], ProcessWindowFunction[Any, Any, Any, Any]]):
    """A keyed stream in windows, from ``KeyedStream.window``. Each key has windows of its own.

    Args:
        window_assigner: says which windows an element belongs to.

    Example:
        >>> from changelog_engine.api.common import Time
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> from changelog_engine.api.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> keyed = env.from_collection([1, 2, 3]).key_by(lambda n: n % 2)
        >>> windows = WindowedStream(keyed, TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.reduce(lambda a, b: a + b).get_name()
        'TumblingEventTimeWindows'
    """

    _firings: ClassVar[dict[ABCMeta, Firing]] = {
        WindowFunction: Firing.APPLY,
        ProcessWindowFunction: Firing.PROCESS,
    }

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(keyed_stream, keyed_stream._transformation, window_assigner)

    def apply(
        self,
        window_function: WindowFunction[Any, Any, Any, Any],
        result_type: TypeInformation | None = None,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Keep all elements of each window, and call a function with them when it fires.

        Args:
            output_type: another name of result_type.
        """
        output_type = _either(result_type, output_type, "WindowedStream.apply")
        return self._listed("apply", WindowFunction, window_function, output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[Any, Any, Any, Any],
        result_type: TypeInformation | None = None,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Keep all elements of each window, and call a function with them when it fires; it sees time and state.

        Args:
            output_type: another name of result_type.
        """
        output_type = _either(result_type, output_type, "WindowedStream.process")
        return self._listed("process", ProcessWindowFunction, process_window_function, output_type)


class AllWindowedStream(_Windows[AllWindowFunction[Any, Any, Any], ProcessAllWindowFunction[Any, Any, Any]]):
    """A stream in windows over all its elements, from ``DataStream.window_all``. One subtask does all the work.

    Args:
        window_assigner: says which windows an element belongs to.
    """

    _firings: ClassVar[dict[ABCMeta, Firing]] = {
        AllWindowFunction: Firing.APPLY_ALL,
        ProcessAllWindowFunction: Firing.PROCESS_ALL,
    }
    _described = "AllWindow"
    _asks_can_merge = True

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        stream = data_stream._unkeyed()
        origin = stream._transformation
        keyed = stream._graph.add(
            NodeKind.KEY_BY, "KeyBy", (origin,), _all_key, origin.output_type, key_type=_ALL_KEY_TYPE
        )
        super().__init__(stream, keyed, window_assigner)

    def apply(
        self,
        window_function: AllWindowFunction[Any, Any, Any],
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Keep all elements of each window, and call a function with them when it fires.

        Args as `WindowedStream.apply`.
        """
        output_type = _either(output_type, result_type, "AllWindowedStream.apply")
        return self._listed("apply", AllWindowFunction, window_function, output_type)

    def process(
        self,
        process_window_function: ProcessAllWindowFunction[Any, Any, Any],
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Keep all elements of each window, and call a function with them when it fires; it sees time and state.

        Args as `WindowedStream.process`.
        """
        output_type = _either(output_type, result_type, "AllWindowedStream.process")
        return self._listed("process", ProcessAllWindowFunction, process_window_function, output_type)

    def _place(self, operator: Transformation) -> None:
        operator.parallelism = operator.max_parallelism = 1


class ConnectedStreams(NotACollection, NamesOfPyFlink):
    """Two streams, of types of their own, whose elements come to one function; from ``connect()``.

    With both streams keyed, elements of either stream with the same key come to the same subtask, and the
    function may use keyed state. With one keyed it may not, and gets rows of key and element (``f0``, ``f1``) from that
    one, those of a key in one subtask. Which of two elements of different streams comes first is not determined.

    Args:
        stream1: the first stream.
        stream2: the second stream.

    Example:
        >>> from changelog_engine.api.datastream import CoMapFunction, StreamExecutionEnvironment
        >>> class Texts(CoMapFunction):
        ...     def map1(self, value):
        ...         return str(value)
        ...     def map2(self, value):
        ...         return value
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers, words = env.from_collection([1]), env.from_collection(["a"])
        >>> numbers.connect(words).map(Texts()).get_name()
        'Co-Map'
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector,
        key_selector2: Callable[[Any], Any] | KeySelector,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Partition both streams by key; keys they had before are replaced.

        Args:
            key_selector1: takes an element of the first stream, returns its key.
            key_selector2: takes an element of the second stream, returns its key.
            key_type: type of the keys of both. Without it 1, 1.0 and True are three keys, and any key that
                pickles will do.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: OutputType = None) -> DataStream:
        """Make at most one element of each element.

        Args:
            func: ``map1`` takes elements of the first stream, ``map2`` of the second; None makes no element.
            output_type: type of the new elements; a list of types for rows.
        """
        function = _wrappers.as_function(func, CoMapFunction, "ConnectedStreams.map")
        return self._then(NodeKind.CO_MAP, "map", "Co-Map", function, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: OutputType = None) -> DataStream:
        """Make any number of elements of each element.

        Args:
            func: ``flat_map1`` takes elements of the first stream, ``flat_map2`` of the second; None makes no
                elements.
            output_type: type of the new elements; a list of types for rows.
        """
        function = _wrappers.as_function(func, CoFlatMapFunction, "ConnectedStreams.flat_map")
        return self._then(NodeKind.CO_FLAT_MAP, "flat_map", "Co-Flat Map", function, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: OutputType = None
    ) -> DataStream:
        """Make any number of elements of each element, seeing its time; with keyed state and timers if keyed.

        Args:
            func: ``process_element1`` takes elements of the first stream, ``process_element2`` of the second.
                Without keys a `KeyedCoProcessFunction` runs too: an error says so when it asks for keyed state.
            output_type: type of the new elements; a list of types for rows.
        """
        name = "Keyed Co-Process" if self.is_keyed() else "Co-Process"
        function = _wrappers.as_co_process_function(func, "ConnectedStreams.process")
        return self._then(NodeKind.CO_PROCESS, "process", name, function, output_type)

    def is_keyed(self) -> bool:
        """Whether both streams are keyed. Beyond PyFlink."""
        return self.stream1._transformation.keyed and self.stream2._transformation.keyed

    def _then(
        self, kind: NodeKind, method: str, name: str, function: Any, output_type: OutputType
    ) -> DataStream:
        what = f"ConnectedStreams.{method}"
        first, second = self.stream1._transformation, self.stream2._transformation
        if first.keyed != second.keyed:
            first, second = self.stream1._with_its_keys(), self.stream2._with_its_keys()
        declared = _output_type(output_type, what)
        operator = self.stream1._graph.add(kind, name, (first, second), function, declared)
        return DataStream(self.stream1.get_execution_environment(), operator)


class BroadcastStream(NotACollection, NamesOfPyFlink):
    """A stream whose elements come to every subtask, with the broadcast states that they may change.

    From ``DataStream.broadcast(descriptor, ...)``; the only thing to do with it is ``connect()`` of another
    stream.

    Args:
        broadcast_state_descriptors: declare the broadcast states.

    Raises:
        ConfigurationError: no MapStateDescriptor, or two with the same name.
    """

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        names: set[str] = set()
        for descriptor in broadcast_state_descriptors:
            _arguments.instance(descriptor, MapStateDescriptor, "DataStream.broadcast: a descriptor")
            if descriptor.get_name() in names:
                raise ConfigurationError(
                    f"DataStream.broadcast: two broadcast states have the name {descriptor.get_name()!r}; "
                    "give each its own"
                )
            names.add(descriptor.get_name())
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream(NotACollection, NamesOfPyFlink):
    """A stream, keyed or not, connected with a broadcast stream; from ``connect()``.

    Args:
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
        output_type: OutputType = None,
    ) -> DataStream:
        """Make any number of elements of each element of both streams, with the broadcast states.

        The operator has the parallelism that the environment has now, unless it is set on the result.

        Args:
            func: a `KeyedBroadcastProcessFunction` when the stream is keyed, else a
                `BroadcastProcessFunction`.
            output_type: type of the new elements; a list of types for rows.
        """
        what = "BroadcastConnectedStream.process"
        stream = self.non_broadcast_stream
        environment = stream.get_execution_environment()
        keyed = stream._transformation.keyed
        function = _wrappers.as_broadcast_process_function(func, keyed, what)
        states = tuple(descriptor.to_spec() for descriptor in self.broadcast_state_descriptors)
        operator = stream._graph.add(
            NodeKind.BROADCAST_PROCESS,
            "Keyed-Co-Process-Broadcast" if keyed else "Co-Process-Broadcast",
            (stream._transformation, self.broadcast_stream.input_stream._transformation),
            BroadcastSpec(function, states),
            _output_type(output_type, what),
            # How often a broadcast element is processed must not depend on where the other stream comes from.
            parallelism=environment.get_parallelism(),
        )
        return DataStream(environment, operator)


class DataStreamSink(_OfOperator):
    """The handle of a sink, from ``print()``, ``add_sink()`` or ``sink_to()``."""

    _said = "DataStreamSink"

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation

    def _operator(self, method: str) -> Transformation:
        return self._transformation

    @kept
    def disable_chaining(self) -> Self:
        """Ask for a task of its own. Kept, without effect: chains follow exchanges."""
        self._transformation.chaining = Chaining.NEVER
        return self

    @kept
    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Ask to share slots with the operators of a group. Kept, without effect: Spark places tasks.

        Args:
            slot_sharing_group: a name or a `SlotSharingGroup`.
        """
        self._transformation.set_slot_sharing_group(slot_sharing_group, "DataStreamSink.slot_sharing_group")
        return self


class SparkTable(DataStreamSink):
    """The handle of a stream's Delta table, from ``to_spark()``. Beyond PyFlink."""

    def __init__(self, transformation: Transformation, path: str) -> None:
        super().__init__(transformation)
        self.path = path

    def read(self, spark: Any, version: int | None = None) -> Any:
        """A DataFrame of the table: as its newest checkpoint left it, at the time when Spark looks.

        Args:
            spark: a SparkSession with Delta's extension.
            version: of the table; None for the newest.

        Raises:
            EnvironmentNotReadyError: the session has no Delta; says how to build one that has.
        """
        reader = spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return self._loaded(reader)

    def read_stream(self, spark: Any) -> Any:
        """A streaming DataFrame of the table, which goes on with each checkpoint.

        Args:
            spark: a SparkSession with Delta's extension.

        Raises:
            EnvironmentNotReadyError: as ``read``.
        """
        return self._loaded(spark.readStream.format("delta"))

    def _loaded(self, reader: Any) -> Any:
        try:
            return reader.load(self.path)
        except Exception as error:  # PySpark's, which is not imported here
            if "DATA_SOURCE_NOT_FOUND" not in str(error):
                raise
            raise EnvironmentNotReadyError(
                f"this SparkSession has no Delta, so it cannot read {self.path}",
                "Build it with configure_spark_with_delta_pip of the package delta, as docs/connectors/spark_and_delta.md "
                "shows, or read the table without Spark: deltalake.DeltaTable(path).to_pandas()",
            ) from None


class CloseableIterator:
    """The elements of a stream while its job runs, from ``execute_and_collect``. Close it: that ends the job.

    Example:
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> with env.from_collection([1, 2]).execute_and_collect() as results:  # doctest: +SKIP
        ...     print(list(results))
        [1, 2]
    """

    def __init__(self, running_job: Any, results: Iterator[Any]) -> None:
        self._running = running_job
        self._results = results
        self._ended = False

    def __iter__(self) -> Iterator[Any]:
        """This object."""
        return self

    def __next__(self) -> Any:
        """The next element; waits for it.

        Raises:
            StopIteration: the job has ended.
            JobExecutionError: the job failed.
        """
        if self._ended:
            raise StopIteration
        try:
            return next(self._results)
        except StopIteration:
            # The job goes on for a moment after its last element; the next one must not run beside it.
            self._ended = True
            self._running.wait()
            raise
        except Exception:
            self._ended = True  # the job failed
            raise
        except BaseException:
            self.close()  # Ctrl-C
            raise

    def next(self) -> Any:
        """As ``next(iterator)``."""
        return self.__next__()

    def close(self) -> None:
        """Cancel the job if it still runs, and wait for its end. May be called again."""
        if self._ended:
            return
        self._ended = True
        self._running.cancel()
        with contextlib.suppress(JobCancelledError):
            self._running.wait()

    def __enter__(self) -> Self:
        """This object."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()


def _output_type(output_type: Any, what: str) -> TypeInformation | None:
    return _arguments.output_type(output_type, f"{what}: output_type")


def _as_assigner(assigner: Any, what: str) -> WindowAssigner[Any, Any]:
    return _arguments.instance(assigner, WindowAssigner, f"{what}: window_assigner")


def _counted(size: Any, slide: Any, what: str) -> WindowAssigner[Any, Any]:
    """Windows of a fixed number of elements; a slide of 0 means windows that do not overlap."""
    _arguments.whole_number(size, f"{what}: size", 1)
    if slide is None or _arguments.whole_number(slide, f"{what}: slide", 0) == 0:
        return CountTumblingWindowAssigner(size)
    return CountSlidingWindowAssigner(size, slide)


def _all_key(value: Any) -> bytes:
    return NO_KEY


def _either(documented: Any, other: Any, what: str) -> Any:
    if documented is not None and other is not None:
        raise ConfigurationError(f"{what}: result_type and output_type are the same thing; give one of them")
    return documented if other is None else other
