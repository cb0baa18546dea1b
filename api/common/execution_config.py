"""ExecutionConfig: settings of the program's execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from changelog_engine.config import options
from changelog_engine.errors import ArgumentTypeError

from .. import _arguments
from .._differences import without_effect
from .._unsupported import NamesOfPyFlink, module_getattr
from ._kept_settings import KeptSettings
from .restart_strategy import RestartStrategyConfiguration

if TYPE_CHECKING:
    from ..datastream._settings import EnvironmentSettings


class ExecutionConfig(KeptSettings, NamesOfPyFlink):
    """Settings of a program's execution, from ``env.get_config()``; a view on those of the environment.

    Source: pyflink.common.ExecutionConfig
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    _not_here = frozenset({"get_closure_cleaner_level", "set_closure_cleaner_level"})

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self._kept = settings.kept

    def get_parallelism(self) -> int:
        """Parallelism of operators that set none."""
        return self._settings.parallelism()

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism of operators that set none.

        Args:
            parallelism: 1 to 32768.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        value = _arguments.parallelism(parallelism, "ExecutionConfig.set_parallelism")
        self._settings.set(options.PARALLELISM, str(value))
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups of operators that set none; -1 when nobody set it."""
        return self._settings.get(options.MAX_PARALLELISM) or -1

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups of operators that set none.

        Args:
            max_parallelism: 1 to 32768.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        value = _arguments.max_parallelism(max_parallelism, "ExecutionConfig.set_max_parallelism")
        self._settings.set(options.MAX_PARALLELISM, str(value))
        return self

    def get_auto_watermark_interval(self) -> int:
        """The interval of periodic watermarks in ms; default 200."""
        value: int = self._settings.get(options.AUTO_WATERMARK_INTERVAL)
        return value

    @without_effect("watermarks come with the end of each epoch")
    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Keep an interval of periodic watermarks. They are emitted at the end of each epoch, whatever it is.

        Args:
            interval: ms, at least 1. Flink's 0, which switches watermarks off, is not part of this version:
                use ``WatermarkStrategy.no_watermarks()``.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        value = _arguments.whole_number(
            interval, "ExecutionConfig.set_auto_watermark_interval: the interval in ms", 1
        )
        self._settings.set(options.AUTO_WATERMARK_INTERVAL, f"{value} ms")
        return self

    def enable_object_reuse(self) -> ExecutionConfig:
        """Never copy elements: functions change neither what they are given nor what they gave. Returns this object."""
        self._settings.set(options.OBJECT_REUSE, "true")
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Give each function elements of its own, as they were when they were given; the default. Returns this object."""
        self._settings.set(options.OBJECT_REUSE, "false")
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Whether elements are never copied; False by default."""
        value: bool = self._settings.get(options.OBJECT_REUSE)
        return value

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> ExecutionConfig:
        """Set the restart strategy. Returns this object. See `RestartStrategies`."""
        self._settings.set_restart_strategy(restart_strategy_configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The restart strategy; the fall-back one when nobody set any."""
        return self._settings.restart_strategy()

    def get_global_job_parameters(self) -> dict[str, str]:
        """What ``RuntimeContext.get_job_parameter`` sees; a copy."""
        return self._settings.job_parameters()

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[Any, Any]) -> ExecutionConfig:
        """Set what ``RuntimeContext.get_job_parameter`` sees.

        Args:
            global_job_parameters_dict: names and texts.

        Returns:
            This object.

        Raises:
            ConfigurationError: a name or value is no str.
        """
        if not isinstance(global_job_parameters_dict, Mapping):
            raise ArgumentTypeError(
                f"ExecutionConfig.set_global_job_parameters needs a dict, got {global_job_parameters_dict!r}"
            )
        for name, value in global_job_parameters_dict.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise ArgumentTypeError(
                    f"ExecutionConfig.set_global_job_parameters needs texts, got {name!r}: {value!r}"
                )
        self._settings.set_job_parameters(dict(global_job_parameters_dict))
        return self

    def __eq__(self, other: object) -> bool:
        """Whether the other one has the same settings."""
        return isinstance(other, ExecutionConfig) and self._all() == other._all()

    def __hash__(self) -> int:
        """The same of all: settings change, and equal ones have equal hashes."""
        return hash(type(self))

    def _all(self) -> dict[str, Any]:
        """What every getter gives."""
        getters = (name for name in dir(type(self)) if name.startswith(("get_", "is_", "has_")))
        return {name: getattr(self, name)() for name in getters}

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Give operators without a ``uid()`` a stable id by their place in the graph. Returns this object."""
        return self._keep("generated uids", True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Ask for a ``uid()`` on every operator: a job that lacks one is refused. Returns this object."""
        return self._keep("generated uids", False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether operators without a ``uid()`` are given one; True by default."""
        return self._flag("generated uids", True)


__getattr__ = module_getattr(__name__)
