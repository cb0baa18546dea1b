"""Where the elements of a stream end up: sinks, and this program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from changelog_engine import connectors as engine
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.graph.nodes import NodeKind

from .. import _arguments
from ._partitioned_stream import PartitionedStream
from ._sinks import as_sink, as_sink_function
from ._transformation import Transformation
from .closeable_iterator import CloseableIterator
from .connectors.base import Sink
from .data_stream_sink import DataStreamSink
from .functions import SinkFunction

if TYPE_CHECKING:
    from .data_stream import DataStream


class StreamOutputs(PartitionedStream):
    """The ends of a stream; see `DataStream`."""

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
            raise ArgumentTypeError(
                f"DataStream.print: sink_identifier must be a str, got {sink_identifier!r}"
            )
        return self._end(
            "Print to Std. Out", engine.PrintSink(sink_identifier, self._transformation.output_type)
        )

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """Write the stream with a sink function.

        Args:
            sink_func: a SinkFunction; or, beyond PyFlink, what one would be made of.

        Returns:
            The sink.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        return self._end("Sink", as_sink_function(sink_func, "DataStream.add_sink"))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream with a sink.

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

    def _end(self, name: str, sink: Any) -> DataStreamSink:
        if hasattr(sink, "for_type"):
            sink = sink.for_type(self._transformation.output_type)
        transformation = Transformation(NodeKind.SINK, name, (self._transformation,), sink)
        self._environment._add(transformation)
        return DataStreamSink(transformation)

    def _unkeyed(self) -> DataStream:
        """The stream itself, of a keyed stream the one before ``key_by``."""
        return self  # type: ignore[return-value]
