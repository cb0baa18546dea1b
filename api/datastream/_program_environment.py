"""What a program brings along, and what is kept of Flink's own settings, as methods of the environment."""

from __future__ import annotations

from typing import Self

from changelog_engine.config import program_options
from changelog_engine.errors import ArgumentTypeError

from .. import _arguments
from .._differences import differs, without_effect
from . import _settings
from ._configurable_environment import ConfigurableEnvironment
from .checkpoint_storage import normalized
from .slot_sharing_group import SlotSharingGroup
from .time_characteristic import TimeCharacteristic

_ENVIRONMENT = "StreamExecutionEnvironment"
_JARS = (
    "hands jars to a Spark session that the job starts: connectors and formats here are Python and need none"
)


class ProgramEnvironment(ConfigurableEnvironment):
    """Files, packages and kept settings of an environment; see `StreamExecutionEnvironment`."""

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

        Raises:
            ConfigurationError: not a str, or an empty one.
        """
        what = f"{_ENVIRONMENT}.set_python_executable: python_exec"
        self._settings.dependencies.set_executable(python_exec, what)

    @differs(_JARS, "Programs", matters=False)
    def add_jars(self, *jars_path: str) -> None:
        """Put jar files on the class path of Spark, such as those of a catalog or a file system.

        They reach a Spark session that the job starts itself; one that is active already keeps its class path, and the
        job warns. Connectors and formats need none: a jar of Flink, of Kafka's clients or of a JDBC driver may be missing,
        with a warning.

        Args:
            jars_path: paths of jar files.

        Raises:
            ConfigurationError: another one is not there.
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
            ConfigurationError: one is not there.
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

    @without_effect("every subtask is a Spark task with one core")
    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Keep the resources of a group of operators. Spark gives every subtask a core, whatever they are.

        Args:
            slot_sharing_group: name and resources.

        Returns:
            This object.

        Raises:
            ConfigurationError: no SlotSharingGroup.
        """
        if not isinstance(slot_sharing_group, SlotSharingGroup):
            raise ArgumentTypeError(
                f"{_ENVIRONMENT}.register_slot_sharing_group needs a SlotSharingGroup such as "
                f"SlotSharingGroup.builder('name').build(), got {slot_sharing_group!r}"
            )
        groups: dict[str, SlotSharingGroup] = self._settings.kept.setdefault("slot sharing groups", {})
        groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    @without_effect("values are Python's, and are not written by Kryo")
    def register_type(self, type_class_name: str) -> None:
        """Keep a Java class to be serialized; ``get_config()`` gives it back. Values here are Python's.

        Args:
            type_class_name: the class.

        Raises:
            ConfigurationError: not a str.
        """
        self._execution_config.register_pojo_type(type_class_name)

    @without_effect("values are Python's, and are not written by Kryo")
    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Keep the Kryo serializer of a Java class; ``get_config()`` gives it back.

        Args:
            type_class_name: the class.
            serializer_class_name: its serializer.

        Raises:
            ConfigurationError: an argument is no text.
        """
        self._execution_config.register_type_with_kryo_serializer(type_class_name, serializer_class_name)

    @without_effect("values are Python's, and are not written by Kryo")
    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """Keep a default Kryo serializer of a Java class; ``get_config()`` gives it back.

        Args:
            type_class_name: the class.
            serializer_class_name: its serializer.

        Raises:
            ConfigurationError: an argument is no text.
        """
        self._execution_config.add_default_kryo_serializer(type_class_name, serializer_class_name)

    @without_effect("output leaves at the end of an epoch")
    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Keep how long output may wait in a buffer. Here it waits until the end of its epoch.

        Args:
            timeout_millis: ms; 0 for no wait, -1 for a full buffer.

        Returns:
            This object.

        Raises:
            ConfigurationError: no whole number, or below -1.
        """
        what = f"{_ENVIRONMENT}.set_buffer_timeout: timeout_millis"
        self._settings.kept["buffer timeout"] = _arguments.whole_number(timeout_millis, what, -1)
        return self

    def get_buffer_timeout(self) -> int:
        """How long output may wait in a buffer in ms, as set; default 100."""
        kept = self._settings.kept.get("buffer timeout")
        return int(self._settings.get(program_options.BUFFER_TIMEOUT) if kept is None else kept)

    @without_effect("operators between two exchanges run in one task")
    def disable_operator_chaining(self) -> Self:
        """Keep that operators are not to be chained. Here those between two exchanges always run in one task.

        Returns:
            This object.
        """
        self._settings.set(program_options.OPERATOR_CHAINING, "false")
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators are to be chained, as set; True by default."""
        enabled: bool = self._settings.get(program_options.OPERATOR_CHAINING)
        return enabled

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Whether operators of different maximum parallelism are to be chained, as set; True by default."""
        enabled: bool = self._settings.get(program_options.CHAINING_OF_DIFFERENT_MAX_PARALLELISM)
        return enabled

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism of environments made from now on, in this process, that nothing else gives one.

        Args:
            parallelism: 1 to 32768.

        Raises:
            ConfigurationError: out of range.
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

        Returns:
            This object.

        Raises:
            ConfigurationError: not a str, or an empty one.
        """
        what = f"{_ENVIRONMENT}.set_default_savepoint_directory: directory"
        self._settings.set(program_options.SAVEPOINT_DIR, _arguments.text(directory, what))
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Where savepoints are to lie, or None; ``file:///tmp`` reads ``file:/tmp``, as in Flink."""
        found: str | None = self._settings.get(program_options.SAVEPOINT_DIR)
        return None if found is None else normalized(found)

    @without_effect("event time is always on; timers and windows name the time that they mean")
    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """Keep the notion of time. Event time is always on; timers and windows name the domain they mean.

        Args:
            characteristic: a TimeCharacteristic.

        Raises:
            ConfigurationError: another object.
        """
        if not isinstance(characteristic, TimeCharacteristic):
            raise ArgumentTypeError(
                f"{_ENVIRONMENT}.set_stream_time_characteristic needs a TimeCharacteristic such as "
                f"TimeCharacteristic.EventTime, got {characteristic!r}"
            )
        self._settings.kept["time characteristic"] = characteristic

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """The notion of time as set; EventTime by default."""
        kept = self._settings.kept.get("time characteristic", TimeCharacteristic.EventTime)
        return TimeCharacteristic(kept)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """See ``CheckpointConfig.is_unaligned_checkpoints_enabled``."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """See ``CheckpointConfig.is_force_unaligned_checkpoints``."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()
