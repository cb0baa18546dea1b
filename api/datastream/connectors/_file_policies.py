"""Where file sinks write, when their files end, and how they are called."""

from __future__ import annotations

from typing import Annotated, Any, Self

from changelog_engine.connectors import files
from changelog_engine.errors import ConfigurationError

from ..._arguments import AnyText, Whole, checked

_Ms = Annotated[int, Whole(1, unit="ms")]


@checked
class BucketAssigner:
    """Which folder below the base path an element goes to; made by its static methods.

    Beyond PyFlink you can write one in Python: a subclass with ``get_bucket_id``.

    Example:
        >>> class ByFirstLetter(BucketAssigner):
        ...     def get_bucket_id(self, element):
        ...         return element[0]
    """

    def __init__(self, buckets: Any = None) -> None:
        self._given = buckets

    def get_bucket_id(self, element: Any) -> str:
        """The path below the base path; the empty text for the base path itself. For subclasses.

        Args:
            element: what is written.

        Raises:
            ConfigurationError: one made by a static method, which goes by the time.
        """
        raise ConfigurationError(
            f"{type(self).__name__} has no get_bucket_id(element): define it in the class"
        )

    @property
    def _buckets(self) -> Any:
        # A subclass may have an __init__ of its own.
        given = self.__dict__.get("_given")
        return files.ElementBuckets(self.get_bucket_id) if given is None else given

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """All files lie in the base path."""
        return BucketAssigner(files.BasePathBuckets())

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """A folder for each span of the wall clock, by when elements are written.

        Args:
            format_str: a pattern of Java's DateTimeFormatter; default ``yyyy-MM-dd--HH``, a folder for each hour.
            timezone_id: such as ``Europe/Berlin`` or ``GMT-08:00``; None, the default, for the system's.

        Raises:
            ConfigurationError: a pattern or zone that cannot be used.
        """
        return BucketAssigner(files.DateTimeBuckets(format_str, timezone_id))


@checked
class RollingPolicy:
    """When the file that is written ends and the next one begins; made by its static methods."""

    def __init__(self, rolling: files.Rolling) -> None:
        self._rolling = rolling

    @staticmethod
    def default_rolling_policy(
        part_size: Annotated[int, Whole(1)] = 1024 * 1024 * 128,
        rollover_interval: _Ms = 60 * 1000,
        inactivity_interval: _Ms = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """By size and time. The times are looked at once in the sink's bucket check interval.

        Args:
            part_size: a file with more bytes gets no further element; default 128 MiB.
            rollover_interval: most time in ms that a file stays open; default a minute.
            inactivity_interval: most time in ms that a file stays open without being written to; default a minute.
        """
        return DefaultRollingPolicy(files.Rolling(part_size, rollover_interval, inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """At every checkpoint, and only then."""
        return OnCheckpointRollingPolicy(files.ON_CHECKPOINT)


class DefaultRollingPolicy(RollingPolicy):
    """By size and time; see `RollingPolicy.default_rolling_policy`."""


class OnCheckpointRollingPolicy(RollingPolicy):
    """At every checkpoint; see `RollingPolicy.on_checkpoint_rolling_policy`."""


@checked
class OutputFileConfig:
    """How part files are called.

    Args:
        part_prefix: how their names begin.
        part_suffix: how they end.

    Raises:
        ConfigurationError: not a str, or one with a slash.

    Example:
        >>> config = OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
        >>> config.get_part_prefix(), config.get_part_suffix()
        ('out', '.txt')
    """

    def __init__(self, part_prefix: AnyText, part_suffix: AnyText) -> None:
        self._names = files.FileNames(part_prefix, part_suffix)

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """A builder with the defaults: the prefix ``part`` and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """How the names begin."""
        return self._names.prefix

    def get_part_suffix(self) -> str:
        """How the names end."""
        return self._names.suffix

    class OutputFileConfigBuilder:
        """Builds an `OutputFileConfig`."""

        def __init__(self) -> None:
            self.part_prefix = "part"
            self.part_suffix = ""

        def with_part_prefix(self, prefix: str) -> Self:
            """Set how names begin."""
            self.part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> Self:
            """Set how names end."""
            self.part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """The configuration.

            Raises:
                ConfigurationError: see `OutputFileConfig`.
            """
            return OutputFileConfig(self.part_prefix, self.part_suffix)
