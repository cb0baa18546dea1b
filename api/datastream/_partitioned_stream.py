"""How a stream is spread over the subtasks of the operators after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from changelog_engine.errors import ConfigurationError, InvalidJobError
from changelog_engine.graph.nodes import NodeKind, Partitioner, PartitionSpec

from . import _wrappers
from ._named_stream import NamedStream
from ._transformation import Transformation

if TYPE_CHECKING:
    from .broadcast_streams import BroadcastStream
    from .data_stream import DataStream
    from .functions import KeySelector
    from .functions import Partitioner as CustomPartitioner
    from .state_descriptors import MapStateDescriptor


class PartitionedStream(NamedStream):
    """What can be said about the way of a stream's elements; see `DataStream`.

    The operators that read the new stream have the parallelism of the environment unless they set their own.
    """

    def rebalance(self) -> DataStream:
        """Send the elements to all subtasks in turn, evenly.

        Returns:
            The stream, of the same type.

        Raises:
            InvalidJobError: the stream is keyed, which says already where elements go; so with all
            methods of this kind.
        """
        return self._partitioned("rebalance", "Rebalance", Partitioner.REBALANCE)

    def rescale(self) -> DataStream:
        """Send the elements in turn to some of the subtasks: those that are this subtask's share of all.

        Returns:
            The stream, of the same type.
        """
        return self._partitioned("rescale", "Rescale", Partitioner.RESCALE)

    def shuffle(self) -> DataStream:
        """Send each element to a subtask at random, evenly.

        Returns:
            The stream, of the same type.
        """
        return self._partitioned("shuffle", "Shuffle", Partitioner.SHUFFLE)

    def forward(self) -> DataStream:
        """Send the elements of a subtask to the subtask with the same number.

        Returns:
            The stream, of the same type. Operators that read it need the parallelism of the one before it.
        """
        return self._partitioned("forward", "Forward", Partitioner.FORWARD)

    def global_(self) -> DataStream:
        """Send all elements to the first subtask. Beyond PyFlink: ``global()`` of Flink's Java API.

        Returns:
            The stream, of the same type.
        """
        return self._partitioned("global_", "Global", Partitioner.GLOBAL)

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
        from .broadcast_streams import BroadcastStream

        stream = self._partitioned("broadcast", "Broadcast", Partitioner.BROADCAST)
        if broadcast_state_descriptor is None and not other_broadcast_state_descriptors:
            return stream
        descriptors = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        return BroadcastStream(stream, descriptors)  # type: ignore[arg-type] # it refuses None

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | CustomPartitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """Send each element to the subtask that a function chooses.

        Args:
            partitioner: takes an element's key and the number of subtasks, returns the number of one, from 0.
            key_selector: takes an element, returns its key.

        Returns:
            The stream, of the same type.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        custom = _wrappers.as_partitioner(partitioner, "DataStream.partition_custom: partitioner")
        keys = _wrappers.as_key_function(key_selector, "DataStream.partition_custom: key_selector")
        return self._partitioned("partition_custom", "PartitionCustom", Partitioner.CUSTOM, custom, keys)

    def _partitioned(
        self, method: str, name: str, partitioner: Partitioner, custom: Any = None, key_selector: Any = None
    ) -> DataStream:
        from .data_stream import DataStream

        if self._transformation.kind is NodeKind.KEY_BY:
            raise InvalidJobError(
                f"KeyedStream.{method} is not possible: key_by() says already where elements go; call "
                f"{method} on the stream before key_by() or on a result of the keyed stream"
            )
        spec = PartitionSpec(partitioner, custom, key_selector)
        return DataStream(
            self._environment,
            Transformation(
                NodeKind.PARTITION, name, (self._transformation,), spec, self._transformation.output_type
            ),
        )

    def _check_same_environment(self, other: NamedStream, method: str) -> None:
        if other._environment is not self._environment:
            raise ConfigurationError(f"DataStream.{method}: the other stream belongs to another environment")
