"""StreamExecutionEnvironment: where a program begins, and what runs it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from changelog_engine import connectors as engine
from changelog_engine.config import options
from changelog_engine.connectors import files
from changelog_engine.errors import ArgumentTypeError, InvalidJobError
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind
from changelog_engine.java import find_java
from changelog_engine.types import TypeInformation

from .. import _arguments
from .._unsupported import module_getattr
from ..common.configuration import Configuration
from ..common.job_client import JobClient, to_result
from ..common.job_execution_result import JobExecutionResult
from ..common.watermark_strategy import WatermarkStrategy, as_watermark_strategy
from ..serializers import PickleSerializer, Serializer
from ._connector_options import with_options
from ._execution_plan import execution_plan, refuse_missing_uids
from ._job_names import DEFAULT_JOB_NAME, name_of_job
from ._program_environment import ProgramEnvironment
from ._sources import as_source, as_source_function
from ._spark_streams import SparkSources
from ._transformation import OPERATORS, Transformation, build_graph, newest
from .closeable_iterator import CloseableIterator
from .connectors.base import Source
from .connectors.file_system import InputFormat
from .data_stream import DataStream
from .functions import SourceFunction


class StreamExecutionEnvironment(SparkSources, ProgramEnvironment):
    """Where a program begins: sources, settings, execution.

    Settings come from the program, from ``-D key=value`` on the command line, and from the YAML file that the
    environment variable CHANGELOG_ENGINE_CONF names; the first of these that says something holds.

    Example:
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> sink = env.from_collection([("a", 1), ("b", 2)]).key_by(lambda v: v[0]).print()
        >>> env.execute("an example")  # doctest: +SKIP

    Source: pyflink.datastream.StreamExecutionEnvironment
    """

    def __init__(
        self, configuration: Configuration | None = None, serializer: Serializer | None = None
    ) -> None:
        """Make one; `get_execution_environment` is the usual way.

        Args:
            configuration: options by Flink's keys.
            serializer: kept as ``serializer``; default a PickleSerializer. Elements are pickled, whatever it is.
        """
        super().__init__(configuration)
        self.serializer = PickleSerializer() if serializer is None else serializer
        self._pending: dict[Transformation, None] = {}  # operators that no execution has run, in their order
        self._taken = -1  # up to which order of transformations executions have taken what there was

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment.

        Args:
            configuration: options by Flink's keys.

        Raises:
            ConfigurationError: an unknown option, or a value that cannot be used.
        """
        return StreamExecutionEnvironment(configuration)

    def from_collection(self, collection: list[Any], type_info: TypeInformation | None = None) -> DataStream:
        """A stream of the elements of a collection, in order. Its source has parallelism one.

        Args:
            collection: the elements; they are read now. An empty one is an empty stream.
            type_info: type of the elements, each of which is checked now.

        Raises:
            ConfigurationError: no collection.
            TypeMismatchError: an element does not fit; the message holds its index.
        """
        declared = _arguments.type_info(type_info, "StreamExecutionEnvironment.from_collection: type_info")
        return self._begin("Collection Source", engine.CollectionSource(collection, declared), declared)

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        """As `from_collection`, with the elements as arguments.

        Args:
            elements: the elements, in order.
            type_info: type of the elements, each of which is checked now.

        Raises:
            TypeMismatchError: an element does not fit; the message holds its index.
        """
        declared = _arguments.type_info(type_info, "StreamExecutionEnvironment.from_elements: type_info")
        return self._begin("Collection Source", engine.CollectionSource(elements, declared), declared)

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a source reads.

        Args:
            source: a Source; or, beyond PyFlink, an object with the protocol
                ``changelog_engine.connectors.Source``.
            watermark_strategy: event times and watermarks of the elements.
            source_name: its name, which people see.
            type_info: type of the elements; leave it out when the source knows its type.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        what = "StreamExecutionEnvironment.from_source"
        strategy = as_watermark_strategy(watermark_strategy, what)
        name = _arguments.text(source_name, f"{what}: source_name")
        declared = _arguments.type_info(type_info, f"{what}: type_info")
        stream = self._begin(name, as_source(source, what), declared)
        if strategy._does_nothing():
            return stream
        timed = stream.assign_timestamps_and_watermarks(strategy)
        return DataStream(self, timed._transformation, named=stream._transformation)

    def add_source(
        self,
        source_func: SourceFunction,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a source function gives.

        Args:
            source_func: a SourceFunction; or, beyond PyFlink, what one would be made of, such as a generator
                function.
            source_name: its name, which people see.
            type_info: type of the elements.

        Raises:
            ConfigurationError: an argument that cannot be used.
        """
        what = "StreamExecutionEnvironment.add_source"
        name = _arguments.text(source_name, f"{what}: source_name")
        declared = _arguments.type_info(type_info, f"{what}: type_info")
        return self._begin(name, as_source_function(source_func, declared, what), declared)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """A stream of the lines of a file, or of all files of a folder; as `FileSource` with text lines.

        Args:
            file_path: plain, or as a URI of a file system that pyarrow opens.
            charset_name: any encoding that Python knows.

        Raises:
            ConfigurationError: an unknown charset, or no path.
        """
        source = files.FileSource([file_path], files.TextLines(charset_name))
        return self._begin("Text File Source", source, None)

    def create_input(self, input_format: InputFormat) -> DataStream:
        """A stream of what an input format reads.

        Args:
            input_format: such as ``AvroInputFormat(path, schema)``.

        Raises:
            ConfigurationError: something else.
        """
        if not isinstance(input_format, InputFormat):
            raise ArgumentTypeError(
                f"StreamExecutionEnvironment.create_input needs an InputFormat such as AvroInputFormat, got {input_format!r}"
            )
        source = files.FileSource([input_format._path], input_format._format)
        return self._begin("Custom File Source", source, input_format.get_produced_type())

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program and wait for its end.

        Every operator runs that was added since the last execution, and what leads to it, whether it ends in a sink
        or not.

        Args:
            job_name: name of the job, which also names the folder of its tables. Without it: the script's
                file name, and from the second such execution on with -2, -3 and so on. ``changelog.job.name``
                wins over it.

        Returns:
            The result: identity and run time.

        Raises:
            InvalidJobError: there is nothing new to run, or the program cannot run.
            JobExecutionError: the job failed and its restart strategy gave up.
            JobCancelledError: the job was stopped, such as by Ctrl-C.
        """
        graph, settings, _ = self._take_job(job_name)
        launch = _launch()

        return to_result(launch.run_job(graph, settings))

    def execute_async(self, job_name: str = DEFAULT_JOB_NAME) -> JobClient:
        """Run the program in the background.

        Args:
            job_name: name of the job. The default counts as no name; see `execute`.

        Returns:
            A handle of the job.

        Raises:
            InvalidJobError: there is nothing new to run, or the program cannot run.
        """
        graph, settings, _ = self._take_job(None if job_name == DEFAULT_JOB_NAME else job_name)
        launch = _launch()

        return JobClient(launch.start_job(graph, settings))

    def close(self) -> None:
        """Release the results that ``DataStream.cache()`` keeps in Flink: there are none here, so nothing changes.

        Jobs that run go on, and the environment can be used after it.
        """

    def get_execution_plan(self) -> str:
        """What the next execution would run, as JSON in Flink's form; nothing is run.

        Returns:
            ``{"nodes": [...]}``: each operator's id, type, pact, contents and parallelism, and its predecessors
            with their ship strategy: FORWARD, HASH, REBALANCE and so on.

        Raises:
            InvalidJobError: there is nothing new to run, or the program cannot run.
        """
        graph, ids = self._graph(
            self._new_operators(), self._settings.get(options.JOB_NAME) or DEFAULT_JOB_NAME
        )
        descriptions = {number: each.description for each, number in ids.items() if each.description}
        return execution_plan(graph, descriptions)

    def generate_stream_graph(
        self, clear_transformations: bool = False, job_name: str | None = None
    ) -> JobGraph:
        """What the next execution would run, as the engine's graph.

        Args:
            clear_transformations: forget the program, as an execution does; default False.
            job_name: the graph's name.

        Raises:
            InvalidJobError: there is nothing new to run, or the program cannot run.
        """
        name = job_name or self._settings.get(options.JOB_NAME) or DEFAULT_JOB_NAME
        graph, _ = self._graph(self._new_operators(), name)
        if clear_transformations:
            self._take_pending()
        return graph

    def _execute_and_collect(self, end: Transformation, job_name: str | None) -> CloseableIterator:
        sink = Transformation(NodeKind.SINK, "Collect", (end,), engine.CollectSink())
        graph, settings, ids = self._take_job(job_name, sink)
        launch = _launch()

        running = launch.start_job(graph, settings)
        return CloseableIterator(running, iter(running.results(ids[sink])))

    def _take_job(
        self, job_name: str | None, *more: Transformation
    ) -> tuple[JobGraph, JobSettings, dict[Transformation, int]]:
        """Freeze what was added since the last execution; an error leaves it there."""
        operators = self._new_operators(*more)
        if job_name is not None:
            _arguments.text(job_name, "the job name")
        graph, ids = self._graph(operators, job_name or "")
        graph = with_options(graph, self._settings.layers().merged())
        sources = [node.function for node in graph.nodes if node.kind is NodeKind.SOURCE]
        settings = self._settings.job_settings(sources)
        name = _arguments.text(name_of_job(job_name, self._settings.layers()), "the job name")
        self._take_pending()
        return replace(graph, name=name), settings, ids

    def _new_operators(self, *more: Transformation) -> list[Transformation]:
        operators = [*self._pending, *more]
        if not operators:
            raise InvalidJobError(
                "no operators to execute: a source alone does nothing. Add an operator or a sink, such as map(), print(), "
                "add_sink() or sink_to(), or use execute_and_collect(); what an earlier execution ran is not run again"
            )
        return operators

    def _take_pending(self) -> None:
        self._pending.clear()
        self._taken = newest()

    def _graph(
        self, operators: list[Transformation], name: str
    ) -> tuple[JobGraph, dict[Transformation, int]]:
        max_parallelism: int | None = self._settings.get(options.MAX_PARALLELISM)
        graph, ids = build_graph(operators, name, self._settings.parallelism(), max_parallelism)
        if not self._execution_config.has_auto_generated_uids_enabled():
            refuse_missing_uids(graph)
        return graph, ids

    def _begin(self, name: str, source: engine.Source, declared: TypeInformation | None) -> DataStream:
        return DataStream(
            self, Transformation(NodeKind.SOURCE, name, (), source, declared or source.output_type)
        )

    def _add(self, transformation: Transformation) -> None:
        """Note an operator for the next execution, unless one ran it already."""
        if transformation.kind in OPERATORS and transformation.order > self._taken:
            self._pending[transformation] = None


def _launch() -> Any:
    """The way down to Spark, loaded when a job is to run: a missing Java is said before that takes its seconds.

    Raises:
        EnvironmentNotReadyError: there is no Java.
    """
    if "changelog_engine.spark.launch" not in sys.modules:
        find_java()
    from changelog_engine.spark import launch

    return launch


__getattr__ = module_getattr(__name__)
