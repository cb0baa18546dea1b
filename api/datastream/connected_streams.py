"""Two connected streams, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.types import TypeInformation

from .. import _arguments
from .._unsupported import NamesOfPyFlink
from . import _wrappers
from ._transformation import Transformation

if TYPE_CHECKING:
    from .data_stream import DataStream
    from .functions import (
        CoFlatMapFunction,
        CoMapFunction,
        CoProcessFunction,
        KeyedCoProcessFunction,
        KeySelector,
    )


class ConnectedStreams(NamesOfPyFlink):
    """Two streams, of types of their own, whose elements come to one function; from ``connect()``.

    With both streams keyed, elements of either stream with the same key come to the same subtask, and the
    function may use keyed state. Which of two elements of different streams comes first is not determined.

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

    Source: pyflink.datastream.ConnectedStreams
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

        Returns:
            The connected streams, keyed.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(
        self, func: CoMapFunction, output_type: TypeInformation | list[TypeInformation] | None = None
    ) -> DataStream:
        """Make at most one element of each element.

        Args:
            func: ``map1`` takes elements of the first stream, ``map2`` of the second; None makes no element.
            output_type: type of the new elements; a list of types for rows.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
            InvalidJobError: one stream is keyed and the other is not.
        """
        function = _wrappers.as_co_map_function(func, "ConnectedStreams.map")
        return self._then(NodeKind.CO_MAP, "map", "Co-Map", function, output_type)

    def flat_map(
        self, func: CoFlatMapFunction, output_type: TypeInformation | list[TypeInformation] | None = None
    ) -> DataStream:
        """Make any number of elements of each element.

        Args:
            func: ``flat_map1`` takes elements of the first stream, ``flat_map2`` of the second; None makes no
                elements.
            output_type: type of the new elements; a list of types for rows.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
            InvalidJobError: one stream is keyed and the other is not.
        """
        function = _wrappers.as_co_flat_map_function(func, "ConnectedStreams.flat_map")
        return self._then(NodeKind.CO_FLAT_MAP, "flat_map", "Co-Flat Map", function, output_type)

    def process(
        self,
        func: CoProcessFunction | KeyedCoProcessFunction,
        output_type: TypeInformation | list[TypeInformation] | None = None,
    ) -> DataStream:
        """Make any number of elements of each element, seeing its time; with keyed state and timers if keyed.

        Args:
            func: ``process_element1`` takes elements of the first stream, ``process_element2`` of the second.
                Without keys a `KeyedCoProcessFunction` runs too: an error says so when it asks for keyed state.
            output_type: type of the new elements; a list of types for rows.

        Returns:
            The new stream.

        Raises:
            ConfigurationError: an argument that cannot be used.
            InvalidJobError: one stream is keyed and the other is not.
        """
        name = "Keyed Co-Process" if self.is_keyed() else "Co-Process"
        function = _wrappers.as_co_process_function(func, "ConnectedStreams.process")
        return self._then(NodeKind.CO_PROCESS, "process", name, function, output_type)

    def is_keyed(self) -> bool:
        """Whether both streams are keyed. Beyond PyFlink."""
        return all(kind is NodeKind.KEY_BY for kind in self._kinds())

    def _kinds(self) -> tuple[NodeKind, NodeKind]:
        return self.stream1._transformation.kind, self.stream2._transformation.kind

    def _then(
        self,
        kind: NodeKind,
        method: str,
        name: str,
        function: Any,
        output_type: TypeInformation | list[TypeInformation] | None,
    ) -> DataStream:
        from .data_stream import DataStream

        what = f"ConnectedStreams.{method}"
        if not self.is_keyed() and NodeKind.KEY_BY in self._kinds():
            raise InvalidJobError(
                f"{what}: one of the streams is keyed and the other is not; call key_by() for both or for none"
            )
        transformation = Transformation(
            kind,
            name,
            (self.stream1._transformation, self.stream2._transformation),
            function,
            _arguments.output_type(output_type, f"{what}: output_type"),
        )
        return DataStream(self.stream1.get_execution_environment(), transformation)
