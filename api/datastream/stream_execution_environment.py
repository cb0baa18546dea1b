"""StreamExecutionEnvironment: where a program begins, and what runs it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Self

from changelog_engine import connectors as engine
from changelog_engine.config import options, program_options
from changelog_engine.connectors import files
from changelog_engine.connectors.spark_frames import dataframe_source
from changelog_engine.errors import ArgumentTypeError, InvalidJobError
from changelog_engine.graph.nodes import JobGraph, JobSettings, NodeKind
from changelog_engine.java import find_java
from changelog_engine.operators.forked import in_task
from changelog_engine.spark.early_jvm import started_early
from changelog_engine.spark.jvm_options import JvmSettings
from changelog_engine.types import TypeInformation

from .. import _arguments
from .._arguments import SuchAs, Whole, checked, checked_later, checks_itself
from .._differences import differs
from .._kept_settings import kept
from .._unsupported import NamesOfPyFlink
from ..common.configuration import Configuration
from ..common.execution_config import ExecutionConfig, RestartStrategy
from ..common.job_client import JobClient, to_result
from ..common.job_execution_result import JobExecutionResult
from ..common.restart_strategy import RestartStrategyConfiguration
from ..common.watermark_strategy import Strategy, WatermarkStrategy
from ..serializers import PickleSerializer, Serializer
from . import _settings
from ._connectors import as_source, as_source_function, with_options
from ._elsewhere import OF_ENVIRONMENTS
from ._execution_plan import execution_plan
from ._graph import GraphBuilder, Transformation, freeze
from ._java_environment import JavaEnvironment
from ._job_names import DEFAULT_JOB_NAME, name_of_job
from .checkpoint_config import CheckpointConfig
from .checkpoint_storage import normalized
from .checkpointing_mode import CheckpointingMode
from .connectors.base import Source
from .connectors.file_system import InputFormat
from .data_stream import DataStream
from .execution_mode import RuntimeExecutionMode
from .functions import SourceFunction
from .slot_sharing_group import SlotSharingGroup
from .state_backend import StateBackend
from .time_characteristic import TimeCharacteristic

_ENVIRONMENT = "StreamExecutionEnvironment"
_UNNAMED = "Custom Source"
_Configuration = Annotated[Configuration, checked_later]
_Group = Annotated[SlotSharingGroup, SuchAs("SlotSharingGroup.builder('name').build()")]
_JARS = (
    "hands jars to a Spark session that the job starts: connectors and formats here are Python and need none"
)


@checked
class StreamExecutionEnvironment(NamesOfPyFlink):
    """Where a program begins: sources, settings, execution.

    Settings come from the program, from ``-D key=value`` on the command line, and from the YAML file that the
    environment variable CHANGELOG_ENGINE_CONF names; the first of these that says something holds.

    Example:
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> sink = env.from_collection([("a", 1), ("b", 2)]).key_by(lambda v: v[0]).print()
        >>> env.execute("an example")  # doctest: +SKIP
    """

    _elsewhere = OF_ENVIRONMENTS

    def __init__(
        self,
        configuration: _Configuration | JavaEnvironment | None = None,
        serializer: Annotated[Serializer, checked_later] | None = None,
    ) -> None:
        """Make one; `get_execution_environment` is the usual way.

        Args:
            configuration: options by Flink's keys; or ``env._j_stream_execution_environment``, as in PyFlink, for another
                handle on the same environment.
            serializer: kept as ``serializer``; default a PickleSerializer. Elements are pickled, whatever it is.
        """
        self.serializer = PickleSerializer() if serializer is None else serializer
        self._settings: _settings.EnvironmentSettings
        self._graph: GraphBuilder
        if isinstance(configuration, JavaEnvironment):
            self._settings, self._graph = configuration._python._settings, configuration._python._graph
        else:
            self._settings, self._graph = _settings.EnvironmentSettings(configuration), GraphBuilder()
        self._checkpoint_config = CheckpointConfig(self._settings)
        self._execution_config = ExecutionConfig(self._settings)

    @staticmethod
    def get_execution_environment(configuration: _Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment.

        Args:
            configuration: options by Flink's keys.

        Raises:
            ConfigurationError: an unknown option, or a value that cannot be used.
        """
        return StreamExecutionEnvironment(configuration)

    @property
    def _j_stream_execution_environment(self) -> JavaEnvironment:
        """What stands for the Java object behind it."""
        return JavaEnvironment(self)

    # Sources.

    def from_collection(self, collection: list[Any], type_info: TypeInformation | None = None) -> DataStream:
        """A stream of the elements of a collection, in order. Its source has parallelism one.

        Args:
            collection: the elements; they are read now. An empty one is an empty stream. Those of a set come in the
                order of their texts, which is the same in each run of the program.
            type_info: type of the elements, each of which is checked now.

        Raises:
            TypeMismatchError: an element does not fit; the message holds its index.
        """
        return self._begin("Collection Source", engine.CollectionSource(collection, type_info), type_info)

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        """As `from_collection`, with the elements as arguments.

        Args:
            elements: the elements, in order.
            type_info: type of the elements, each of which is checked now.

        Raises:
            TypeMismatchError: an element does not fit; the message holds its index.
        """
        return self._begin("Collection Source", engine.CollectionSource(elements, type_info), type_info)

    def from_source(
        self,
        source: Annotated[Source, checked_later],
        watermark_strategy: Strategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a source reads.

        Args:
            source: a Source; or, beyond PyFlink, an object that inherits
                ``changelog_engine.connectors.Source``.
            watermark_strategy: event times and watermarks of the elements.
            source_name: its name, which people see.
            type_info: type of the elements; leave it out when the source knows its type.
        """
        strategy = watermark_strategy._in_from_source()
        stream = self._begin(source_name, as_source(source, f"{_ENVIRONMENT}.from_source"), type_info)
        stream._transformation.named = True
        if strategy._does_nothing():
            return stream
        timed = stream.assign_timestamps_and_watermarks(strategy)
        return DataStream(self, timed._transformation, named=stream._transformation)

    def add_source(
        self,
        source_func: Annotated[SourceFunction, checked_later],
        source_name: str = _UNNAMED,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a source function gives.

        Args:
            source_func: a SourceFunction; or, beyond PyFlink, what one would be made of, such as a generator
                function.
            source_name: its name, which people see.
            type_info: type of the elements.
        """
        source = as_source_function(source_func, type_info, f"{_ENVIRONMENT}.add_source")
        stream = self._begin(source_name, source, type_info)
        stream._transformation.named = source_name != _UNNAMED
        return stream

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """A stream of the lines of a file, or of all files of a folder, without its subfolders; else as `FileSource`.

        Args:
            file_path: plain, or as a URI of a file system that pyarrow opens.
            charset_name: any encoding that Python knows.

        Raises:
            ConfigurationError: an unknown charset, or no path.
        """
        source = files.FileSource([file_path], files.TextLines(charset_name), subfolders=False)
        return self._begin("Split Reader: Custom File Source", source, None)  # as Flink names it

    def _socket_text_stream(self, hostname: str, port: int, delimiter: str, max_retry: int) -> DataStream:
        """Java's ``socketTextStream``, which PyFlink has behind ``_j_stream_execution_environment`` only."""
        source = engine.SocketTextSource(hostname, port, delimiter, max_retry)
        return self._begin("Socket Stream", source, source.output_type)

    def create_input(
        self,
        input_format: Annotated[InputFormat, SuchAs("AvroInputFormat")],
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what an input format reads.

        Args:
            input_format: such as ``AvroInputFormat(path, schema)``.
            type_info: type of the elements; that of the format by default.
        """
        source = files.FileSource([input_format._path], input_format._format, subfolders=False)
        return self._begin("Custom File Source", source, type_info or input_format.get_produced_type())

    def from_spark(
        self,
        dataframe: Any,
        watermark_strategy: Strategy | None = None,
        source_name: str = "Spark DataFrame",
        staging: str | None = None,
        available_now: bool = False,
    ) -> DataStream:
        """A stream of the rows of a Spark DataFrame. Beyond PyFlink.

        Spark computes the DataFrame when the job starts, in the session that it belongs to, and stages its rows in Parquet
        files; the job, and its restores, read those. Elements are rows with the columns as fields.

        Args:
            dataframe: of PySpark: a batch one, or a streaming one of any source that Spark can read again, a Python Data
                Source with a stream reader too.
            watermark_strategy: event times and watermarks of the elements; none by default.
            source_name: its name, which people see.
            staging: folder or URI for the staged rows, which the workers reach. A batch DataFrame has one in the job's base
                path by default. A streaming one needs it: what Spark has read is kept there.
            available_now: of a streaming DataFrame: end when all is read that was there at the start.

        Raises:
            ConfigurationError: no DataFrame, one that cannot be read again, or a streaming one without a folder.
            NotSupportedError: a column that rows cannot hold.
        """
        source = Source(dataframe_source(dataframe, staging, available_now))
        strategy = WatermarkStrategy.no_watermarks() if watermark_strategy is None else watermark_strategy
        return self.from_source(source, strategy, source_name)

    # Execution.

    @checks_itself
    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program and wait for its end.

        Every operator runs that was added since the last execution, and what leads to it, whether it ends in a sink
        or not.

        Args:
            job_name: name of the job, which also names the folder of its tables. Without it: the script's
                file name, and from the second such execution on with -2, -3 and so on. ``changelog.job.name``
                wins over it.

        Raises:
            InvalidJobError: there is nothing new to run, or the program cannot run.
            JobExecutionError: the job failed and its restart strategy gave up.
            JobCancelledError: the job was stopped, such as by Ctrl-C.
        """
        graph, settings, _ = self._take_job(job_name)
        with _launch(settings) as launch:
            return to_result(launch.run_job(graph, settings))

    def execute_async(self, job_name: str = DEFAULT_JOB_NAME) -> JobClient:
        """Run the program in the background.

        Args:
            job_name: name of the job. The default counts as no name; see `execute`.

        Raises:
            InvalidJobError: there is nothing new to run, or the program cannot run.
        """
        graph, settings, _ = self._take_job(None if job_name == DEFAULT_JOB_NAME else job_name)
        with _launch(settings) as launch:
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
        graph, ids = self._frozen(
            self._graph.to_run(), self._settings.get(options.JOB_NAME) or DEFAULT_JOB_NAME
        )
        descriptions = {number: each.description for each, number in ids.items() if each.description}
        return execution_plan(graph, descriptions)

    def generate_stream_graph(
        self, clear_transformations: bool = False, job_name: str | None = None
    ) -> JobGraph:
        """What the next execution would run, as the engine's graph.

        Args:
            clear_transformations: forget the program, as an execution does; default False.

        Raises:
            InvalidJobError: there is nothing new to run, or the program cannot run.
        """
        name = job_name or self._settings.get(options.JOB_NAME) or DEFAULT_JOB_NAME
        graph, _ = self._frozen(self._graph.to_run(), name)
        if clear_transformations:
            self._graph.taken()
        return graph

    # Settings.

    def configure(self, configuration: _Configuration) -> None:
        """Set all options of a configuration; they replace what was set before.

        Args:
            configuration: options by Flink's keys. Keys of Flink that mean nothing here are kept and ignored.

        Raises:
            ConfigurationError: an option that is misspelt, or a value that cannot be used; then nothing
            changes.
        """
        self._settings.configure(configuration)

    def get_config(self) -> ExecutionConfig:
        """The `ExecutionConfig`, a view on this environment."""
        return self._execution_config

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the parallelism of operators that set none.

        Args:
            parallelism: 1 to 32768; -1 (``ExecutionConfig.PARALLELISM_DEFAULT``) to forget what the program set, and
                -2 (``ExecutionConfig.PARALLELISM_UNKNOWN``) to leave it as it is.
        """
        self._settings.set_parallelism(parallelism, "StreamExecutionEnvironment.set_parallelism")
        return self

    def get_parallelism(self) -> int:
        """Parallelism of operators that set none; by default the cores of Spark's local master."""
        return self._settings.parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of operators that set none: the bound of their parallelism for ever.

        Args:
            max_parallelism: 1 to 32768.
        """
        value = _arguments.max_parallelism(max_parallelism, "StreamExecutionEnvironment.set_max_parallelism")
        self._settings.set(options.MAX_PARALLELISM, str(value))
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups of operators that set none; -1 when nobody set it."""
        return self._execution_config.get_max_parallelism()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Set the execution mode.

        Args:
            execution_mode: STREAMING, the default; BATCH, whose sources must all end; or AUTOMATIC.
        """
        self._settings.set(options.RUNTIME_MODE, execution_mode.name)
        return self

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Make checkpoints: after a failure the job goes on from the last one.

        Args:
            interval: time between checkpoints in ms, at least 10.
            mode: the guarantee asked for; None leaves it as it is, EXACTLY_ONCE by default.
        """
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The `CheckpointConfig`, a view on this environment."""
        return self._checkpoint_config

    def get_checkpoint_interval(self) -> int:
        """Time between checkpoints in ms; -1 when checkpointing is off."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The guarantee asked for."""
        return self._checkpoint_config.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """As `get_checkpointing_mode`, under the name that it has from 1.20 on."""
        return self.get_checkpointing_mode()

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Log every change of keyed state in a Delta table, so that a checkpoint is one small commit.

        When the program never calls this it has no preference, and the option ``state.changelog.enabled``
        decides. With the changelog on and no checkpoint interval, a checkpoint is made every second.

        Args:
            enabled: True or False.
        """
        self._settings.set(options.CHANGELOG_ENABLED, "true" if enabled else "false")
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What the program said about the changelog: True, False, or None for no preference."""
        value: bool | None = self._settings.get_from_code(options.CHANGELOG_ENABLED)
        return value

    def set_state_backend(self, state_backend: Annotated[StateBackend, checked_later]) -> Self:
        """Set where the working state is kept.

        Args:
            state_backend: `HashMapStateBackend` (the default), `EmbeddedRocksDBStateBackend`, `CustomStateBackend`, or one
                of the deprecated backends, which bring their checkpoint storage along. What is set on it later holds too.
        """
        if not isinstance(state_backend, StateBackend) or state_backend._kind is None:
            raise ArgumentTypeError(
                "StreamExecutionEnvironment.set_state_backend needs a backend such as HashMapStateBackend() or "
                f"EmbeddedRocksDBStateBackend(), got {state_backend!r}"
            )
        self._settings.set_state_backend(state_backend)
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Where the working state is kept as the program set it; None when it did not."""
        return self._settings.state_backend()

    @differs(
        "has a limit here: the same mistake of the program three times in a row, with no checkpoint between, fails the job",
        "Checkpoints and failures",
        matters=False,
    )
    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategy) -> None:
        """Set when a failed job goes on.

        Args:
            restart_strategy_configuration: from `RestartStrategies`.
        """
        self._settings.set_restart_strategy(restart_strategy_configuration)

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """When a failed job goes on; the fall-back strategy when nobody set any."""
        return self._settings.restart_strategy()

    # What a program brings along.

    def add_python_file(self, file_path: str) -> None:
        """Put a module, package or archive of them on the import path of the workers.

        Args:
            file_path: a ``.py`` file, a folder whose contents are to be imported, or a zip, egg or wheel.

        Raises:
            ConfigurationError: it is not there.
            NotSupportedError: a path of another file system.
        """
        what = f"{_ENVIRONMENT}.add_python_file: file_path"
        self._settings.dependencies.add_python_file(file_path, what)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Install packages for the workers. When the job starts, pip puts them into a folder that is shipped.

        Args:
            requirements_file_path: a list for pip, such as ``requirements.txt``.
            requirements_cache_dir: a folder with the packages' files; pip then asks no index.

        Raises:
            ConfigurationError: file or folder is not there.
            NotSupportedError: a path of another file system.
        """
        what = f"{_ENVIRONMENT}.set_python_requirements: a path"
        self._settings.dependencies.set_requirements(requirements_file_path, requirements_cache_dir, what)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive on the workers, in their working directory.

        A function reads its files by relative paths, such as ``open("target_dir/data.txt")``.

        Args:
            archive_path: a zip, jar, wheel or egg; also tar, tar.gz and tgz.
            target_dir: name of the folder it is unpacked to; by default that of the archive's file.

        Raises:
            ConfigurationError: it is not there or no archive, or the name leads elsewhere.
            NotSupportedError: a path of another file system.
        """
        what = f"{_ENVIRONMENT}.add_python_archive"
        self._settings.dependencies.add_archive(archive_path, target_dir, what)

    @differs("needs an interpreter of the driver's Python version that has this engine", "Programs")
    def set_python_executable(self, python_exec: str) -> None:
        """Set the interpreter of the workers: one with this engine installed, of the driver's Python version.

        Args:
            python_exec: its path; a relative one starts at the workers' working directory, so that it can name
                one of an archive: ``venv.zip/bin/python``.
        """
        self._settings.set(program_options.PYTHON_EXECUTABLE, python_exec)

    @differs(_JARS, "Programs", matters=False)
    def add_jars(self, *jars_path: str) -> None:
        """Put jar files on the class path of Spark, such as those of a catalog or a file system.

        They reach a Spark session that the job starts itself; one that is active already keeps its class path, and the
        job warns. Connectors and formats need none: a jar of Flink, of Kafka's clients or of a JDBC driver may be missing,
        with a warning.

        Raises:
            ConfigurationError: one of the files is not there.
            NotSupportedError: a path of another file system.
        """
        for path in jars_path:
            self._settings.dependencies.add_jar(path, f"{_ENVIRONMENT}.add_jars: jars_path")

    @differs(_JARS, "Programs", matters=False)
    def add_classpaths(self, *classpaths: str) -> None:
        """As `add_jars`.

        Args:
            classpaths: URLs of jar files, such as ``file:///lib/a.jar``.

        Raises:
            ConfigurationError: one of the files is not there.
            NotSupportedError: a URL of another file system.
        """
        for path in classpaths:
            self._settings.dependencies.add_jar(path, f"{_ENVIRONMENT}.add_classpaths: classpaths")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Ship a file to the workers, under a name in their working directory.

        Args:
            file_path: plain or as a ``file:`` URI.
            name: a plain file name; a function opens the file by it.
            executable: whether it is to be executable.

        Raises:
            ConfigurationError: it is not there, or the name is taken or no plain name.
            NotSupportedError: a path of another file system, or a folder.
        """
        what = f"{_ENVIRONMENT}.register_cached_file"
        self._settings.dependencies.add_cached(file_path, name, executable, what)

    def get_cached_files(self) -> list[tuple[str, str, bool]]:
        """The registered files as (name, path, executable), in the order of their registration."""
        return [(each.name, each.path, each.executable) for each in self._settings.dependencies.cached()]

    @kept
    def register_slot_sharing_group(self, slot_sharing_group: _Group) -> Self:
        """Keep the resources of a group of operators. Spark gives every subtask a core, whatever they are.

        Args:
            slot_sharing_group: name and resources.
        """
        groups: dict[str, SlotSharingGroup] = self._settings.kept.setdefault("slot sharing groups", {})
        groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    @kept
    def register_type(self, type_class_name: str) -> None:
        """Keep a Java class to be serialized; ``get_config()`` gives it back. Values here are Python's."""
        self._execution_config.register_pojo_type(type_class_name)

    @kept
    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Keep the Kryo serializer of a Java class; ``get_config()`` gives it back."""
        self._execution_config.register_type_with_kryo_serializer(type_class_name, serializer_class_name)

    @kept
    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Keep a default Kryo serializer of a Java class; ``get_config()`` gives it back."""
        self._execution_config.add_default_kryo_serializer(type_class_name, serializer_class_name)

    @kept
    def set_buffer_timeout(self, timeout_millis: Annotated[int, Whole(-1)]) -> Self:
        """Keep how long output may wait in a buffer. Here it waits until the end of its epoch.

        Args:
            timeout_millis: ms; 0 for no wait, -1 for a full buffer.
        """
        if timeout_millis < 0:  # from then on, as in Flink
            self._settings.set(program_options.BUFFER_TIMEOUT_ENABLED, "false")
        else:
            self._settings.set(program_options.BUFFER_TIMEOUT, f"{timeout_millis} ms")
        return self

    def get_buffer_timeout(self) -> int:
        """How long output may wait in a buffer in ms, as set; default 100."""
        enabled = self._settings.get(program_options.BUFFER_TIMEOUT_ENABLED)
        return int(self._settings.get(program_options.BUFFER_TIMEOUT)) if enabled else -1

    @kept
    def disable_operator_chaining(self) -> Self:
        """Keep that operators are not to be chained. Here those between two exchanges always run in one task."""
        self._settings.set(program_options.OPERATOR_CHAINING, "false")
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators are to be chained, as set; True by default."""
        return bool(self._settings.get(program_options.OPERATOR_CHAINING))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Whether operators of different maximum parallelism are to be chained, as set; True by default."""
        return bool(self._settings.get(program_options.CHAINING_OF_DIFFERENT_MAX_PARALLELISM))

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism of environments made from now on, in this process, that nothing else gives one.

        Args:
            parallelism: 1 to 32768.
        """
        what = f"{_ENVIRONMENT}.set_default_local_parallelism"
        _settings.set_default_local_parallelism(_arguments.parallelism(parallelism, what))

    def get_default_local_parallelism(self) -> int:
        """Parallelism of environments that nothing else gives one; by default the cores of this machine."""
        return _settings.default_local_parallelism()

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Keep where savepoints are to lie.

        Args:
            directory: folder or URI.
        """
        self._settings.set(program_options.SAVEPOINT_DIR, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints are to lie, or None; ``file:///tmp`` reads ``file:/tmp``, as in Flink."""
        found: str | None = self._settings.get(program_options.SAVEPOINT_DIR)
        return None if found is None else normalized(found)

    @kept
    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """Keep the notion of time. Event time is always on; timers and windows name the domain they mean."""
        self._settings.kept["time characteristic"] = characteristic

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """The notion of time as set; EventTime by default."""
        kept = self._settings.kept.get("time characteristic", TimeCharacteristic.EventTime)
        return TimeCharacteristic(kept)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints are unaligned, as set; False by default."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints are forced, as set; False by default."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def _start_and_collect(self, end: Transformation, job_name: str | None) -> tuple[Any, Iterator[Any]]:
        """Run the program in the background; the running job, and the elements of an operator."""
        sink = self._graph.prepare(NodeKind.SINK, "Collect", (end,), engine.CollectSink())
        graph, settings, ids = self._take_job(job_name, sink)
        with _launch(settings) as launch:
            running = launch.start_job(graph, settings)
        return running, iter(running.results(ids[sink]))

    def _take_job(
        self, job_name: str | None, *more: Transformation
    ) -> tuple[JobGraph, JobSettings, dict[Transformation, int]]:
        """Freeze what was added since the last execution; an error leaves it there.

        Raises:
            InvalidJobError: a function of a job asks, or there is nothing new to run.
        """
        if in_task():
            raise InvalidJobError(
                "a function of a job cannot execute another job: functions run in the workers. Execute it in the program "
                "itself; a module that the workers import must do so only behind if __name__ == '__main__'"
            )
        operators = self._graph.to_run(*more)
        if job_name is not None:
            _arguments.text(job_name, "the job name")
        graph, ids = self._frozen(operators, job_name or "")
        sources = [node for node in graph.nodes if node.kind is NodeKind.SOURCE]
        settings = self._settings.job_settings(sources)
        graph = with_options(graph, self._settings.layers().merged(), settings.checkpoint_interval_ms)
        name = _arguments.text(name_of_job(job_name, self._settings.layers()), "the job name")
        self._graph.taken()
        return replace(graph, name=name), settings, ids

    def _frozen(
        self, operators: list[Transformation], name: str
    ) -> tuple[JobGraph, dict[Transformation, int]]:
        return freeze(
            operators,
            name,
            self._settings.parallelism(),
            self._settings.get(options.MAX_PARALLELISM),
            with_uids=not self._execution_config.has_auto_generated_uids_enabled(),
        )

    def _begin(self, name: str, source: engine.Source, declared: TypeInformation | None) -> DataStream:
        origin = self._graph.add(
            NodeKind.SOURCE, name, function=source, output_type=declared or source.output_type
        )
        return DataStream(self, origin)


@contextlib.contextmanager
def _launch(settings: JobSettings) -> Iterator[Any]:
    """The way down to Spark, loaded when a job is to run: a missing Java is said before that takes its seconds.

    Raises:
        EnvironmentNotReadyError: there is no Java.
    """
    with contextlib.ExitStack() as opened:
        if "changelog_engine.launch" not in sys.modules:
            find_java()
            jvm = JvmSettings(settings.jvm_options, settings.class_archive)
            opened.enter_context(started_early(settings.spark, bool(settings.files.jars), jvm))
        from changelog_engine import launch

        yield launch
