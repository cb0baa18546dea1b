"""WindowedStream and AllWindowedStream: a stream in windows, before a function is applied to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from changelog_engine.graph.nodes import NodeKind
from changelog_engine.types import TypeInformation, Types
from changelog_engine.windowing.assigner import WindowAssigner
from changelog_engine.windowing.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from changelog_engine.windowing.spec import Firing

from .. import _arguments
from ._transformation import Transformation
from ._windowed_base import WindowedBase, as_assigner, either
from .functions import AggregateFunction, ReduceFunction
from .window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

if TYPE_CHECKING:
    from .data_stream import DataStream
    from .keyed_stream import KeyedStream

__all__ = ["AllWindowedStream", "WindowedStream", "count_window", "count_window_all", "window", "window_all"]

_ALL_KEY = b"\0"
_ALL_KEY_TYPE = Types.PRIMITIVE_ARRAY(Types.BYTE())


class WindowedStream(WindowedBase):
    """A keyed stream in windows, from ``KeyedStream.window``. Each key has windows of its own.

    Args:
        keyed_stream: the stream.
        window_assigner: says which windows an element belongs to.

    Raises:
        ConfigurationError: no assigner.

    Example:
        >>> from changelog_engine.api.common import Time
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> from changelog_engine.api.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> keyed = env.from_collection([1, 2, 3]).key_by(lambda n: n % 2)
        >>> windows = WindowedStream(keyed, TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.reduce(lambda a, b: a + b).get_name()
        'Window(TumblingEventTimeWindows, EventTimeTrigger, function)'

    Source: pyflink.datastream.WindowedStream
    """

    _firings: ClassVar[dict[type, Firing]] = {
        WindowFunction: Firing.APPLY,
        ProcessWindowFunction: Firing.PROCESS,
    }

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner) -> None:
        super().__init__(keyed_stream, keyed_stream._transformation, window_assigner)

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Combine the elements of each window as they come.

        Args:
            reduce_function: takes the combination so far and an element, returns the new combination, of the same type.
            window_function: is given the combination when the window fires; without it, that is the result.
            output_type: type of the results; by default that of the elements when there is no window function.
            result_type: another name of output_type.

        Returns:
            The stream of results.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        return self._reduced(
            reduce_function, window_function, either(output_type, result_type, "WindowedStream.reduce")
        )

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        accumulator_type: TypeInformation | list[TypeInformation] | None = None,
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the elements of each window as they come.

        Args:
            aggregate_function: the function.
            window_function: is given the aggregate's result when the window fires; without it, that is the result.
            accumulator_type: type of the accumulator; a list of types means a row.
            output_type: type of the results.
            result_type: another name of output_type.

        Returns:
            The stream of results.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        output_type = either(output_type, result_type, "WindowedStream.aggregate")
        return self._aggregated(aggregate_function, window_function, accumulator_type, output_type)

    def apply(
        self,
        window_function: WindowFunction,
        result_type: TypeInformation | None = None,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Keep all elements of each window, and call a function with them when it fires.

        Args:
            window_function: the function.
            result_type: type of the results.
            output_type: another name of result_type.

        Returns:
            The stream of results.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        output_type = either(result_type, output_type, "WindowedStream.apply")
        return self._listed("apply", WindowFunction, window_function, output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction,
        result_type: TypeInformation | None = None,
        *,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Keep all elements of each window, and call a function with them when it fires; it sees time and state.

        Args:
            process_window_function: the function.
            result_type: type of the results.
            output_type: another name of result_type.

        Returns:
            The stream of results.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        output_type = either(result_type, output_type, "WindowedStream.process")
        return self._listed("process", ProcessWindowFunction, process_window_function, output_type)


class AllWindowedStream(WindowedBase):
    """A stream in windows over all its elements, from ``DataStream.window_all``. One subtask does all the work.

    Args:
        data_stream: the stream.
        window_assigner: says which windows an element belongs to.

    Raises:
        ConfigurationError: no assigner.

    Source: pyflink.datastream.AllWindowedStream
    """

    _firings: ClassVar[dict[type, Firing]] = {
        AllWindowFunction: Firing.APPLY_ALL,
        ProcessAllWindowFunction: Firing.PROCESS_ALL,
    }

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner) -> None:
        stream = data_stream._unkeyed()
        keyed = Transformation(
            NodeKind.KEY_BY,
            "KeyBy",
            (stream._transformation,),
            _all_key,
            stream._transformation.output_type,
            key_type=_ALL_KEY_TYPE,
        )
        super().__init__(stream, keyed, window_assigner)

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: AllWindowFunction | ProcessAllWindowFunction | None = None,
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Combine the elements of each window as they come. Args and Raises as `WindowedStream.reduce`."""
        return self._reduced(
            reduce_function, window_function, either(output_type, result_type, "AllWindowedStream.reduce")
        )

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: AllWindowFunction | ProcessAllWindowFunction | None = None,
        accumulator_type: TypeInformation | list[TypeInformation] | None = None,
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the elements of each window as they come. Args and Raises as `WindowedStream.aggregate`."""
        output_type = either(output_type, result_type, "AllWindowedStream.aggregate")
        return self._aggregated(aggregate_function, window_function, accumulator_type, output_type)

    def apply(
        self,
        window_function: AllWindowFunction,
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Keep all elements of each window, and call a function with them when it fires.

        Args and Raises as `WindowedStream.apply`.
        """
        output_type = either(output_type, result_type, "AllWindowedStream.apply")
        return self._listed("apply", AllWindowFunction, window_function, output_type)

    def process(
        self,
        process_window_function: ProcessAllWindowFunction,
        output_type: TypeInformation | None = None,
        *,
        result_type: TypeInformation | None = None,
    ) -> DataStream:
        """Keep all elements of each window, and call a function with them when it fires; it sees time and state.

        Args and Raises as `WindowedStream.process`.
        """
        output_type = either(output_type, result_type, "AllWindowedStream.process")
        return self._listed("process", ProcessAllWindowFunction, process_window_function, output_type)

    def _place(self, transformation: Transformation) -> None:
        transformation.parallelism = transformation.max_parallelism = 1


def window(stream: KeyedStream, assigner: WindowAssigner) -> WindowedStream:
    """What ``KeyedStream.window`` gives."""
    return WindowedStream(stream, as_assigner(assigner, "KeyedStream.window"))


def count_window(stream: KeyedStream, size: int, slide: int = 0) -> WindowedStream:
    """What ``KeyedStream.count_window`` gives; a slide of 0 means windows that do not overlap."""
    return WindowedStream(stream, _counted(size, slide, "KeyedStream.count_window"))


def window_all(stream: DataStream, assigner: WindowAssigner) -> AllWindowedStream:
    """What ``DataStream.window_all`` gives."""
    return AllWindowedStream(stream, as_assigner(assigner, "DataStream.window_all"))


def count_window_all(stream: DataStream, size: int, slide: int | None = None) -> AllWindowedStream:
    """What ``DataStream.count_window_all`` gives; no slide means windows that do not overlap."""
    return AllWindowedStream(stream, _counted(size, slide, "DataStream.count_window_all"))


def _all_key(value: Any) -> bytes:
    return _ALL_KEY


def _counted(size: Any, slide: Any, what: str) -> WindowAssigner:
    _arguments.whole_number(size, f"{what}: size", 1)
    if slide is None or _arguments.whole_number(slide, f"{what}: slide", 0) == 0:
        return CountTumblingWindowAssigner(size)
    return CountSlidingWindowAssigner(size, slide)
