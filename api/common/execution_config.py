"""ExecutionConfig: settings of the program's execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from changelog_engine.config import Option, options, program_options
from changelog_engine.config.names import names_of
from changelog_engine.errors import ArgumentTypeError

from .. import _arguments
from .._arguments import SuchAs, Whole, checked, checked_later
from .._kept_settings import kept
from .._unsupported import NamesOfPyFlink
from .configuration import in_order_of_java
from .execution_mode import ExecutionMode
from .input_dependency_constraint import InputDependencyConstraint
from .restart_strategy import RestartStrategyConfiguration

if TYPE_CHECKING:
    from ..datastream._settings import EnvironmentSettings
else:
    EnvironmentSettings = Any  # that module imports this one

RestartStrategy = Annotated[RestartStrategyConfiguration, SuchAs("RestartStrategies.no_restart()")]
_Interval = Annotated[int, Whole(0, unit="ms")]


@checked
class ExecutionConfig(NamesOfPyFlink):
    """Settings of a program's execution, from ``env.get_config()``; a view on those of the environment."""

    PARALLELISM_DEFAULT = _arguments.PARALLELISM_DEFAULT
    PARALLELISM_UNKNOWN = _arguments.PARALLELISM_UNKNOWN

    _not_here = names_of("get_closure_cleaner_level set_closure_cleaner_level")

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self._kept = settings.kept

    def get_parallelism(self) -> int:
        """Parallelism of operators that set none."""
        return self._settings.parallelism()

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the parallelism of operators that set none.

        Args:
            parallelism: 1 to 32768; ``PARALLELISM_DEFAULT`` (-1) to forget what the program set, and
                ``PARALLELISM_UNKNOWN`` (-2) to leave it as it is.
        """
        self._settings.set_parallelism(parallelism, "ExecutionConfig.set_parallelism")
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups of operators that set none; -1 when nobody set it."""
        return self._settings.get(options.MAX_PARALLELISM) or -1

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of operators that set none.

        Args:
            max_parallelism: 1 to 32768.
        """
        value = _arguments.max_parallelism(max_parallelism, "ExecutionConfig.set_max_parallelism")
        return self._set(options.MAX_PARALLELISM, str(value))

    def get_auto_watermark_interval(self) -> int:
        """The interval of periodic watermarks in ms; default 200."""
        return int(self._settings.get(options.AUTO_WATERMARK_INTERVAL))

    @kept
    def set_auto_watermark_interval(self, interval: _Interval) -> Self:
        """Keep an interval of periodic watermarks. They are emitted at the end of each epoch, whatever it is.

        Args:
            interval: ms; 0 for none before the end of the input.
        """
        return self._set(options.AUTO_WATERMARK_INTERVAL, f"{interval} ms")

    def enable_object_reuse(self) -> Self:
        """Never copy elements: functions change neither what they are given nor what they gave."""
        return self._set(options.OBJECT_REUSE, "true")

    def disable_object_reuse(self) -> Self:
        """Give each function elements of its own, as they were when they were given; the default."""
        return self._set(options.OBJECT_REUSE, "false")

    def is_object_reuse_enabled(self) -> bool:
        """Whether elements are never copied; False by default."""
        return bool(self._settings.get(options.OBJECT_REUSE))

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategy) -> Self:
        """Set the restart strategy. See `RestartStrategies`."""
        self._settings.set_restart_strategy(restart_strategy_configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The restart strategy; the fall-back one when nobody set any."""
        return self._settings.restart_strategy()

    def get_global_job_parameters(self) -> dict[str, str]:
        """What ``RuntimeContext.get_job_parameter`` sees, in Flink's order; a copy."""
        return in_order_of_java(self._settings.job_parameters())

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[Any, Any]) -> Self:
        """Set what ``RuntimeContext.get_job_parameter`` sees.

        Args:
            global_job_parameters_dict: names and values; of values that are not strings, ``str(value)`` is kept.
        """
        if not isinstance(global_job_parameters_dict, Mapping):
            raise ArgumentTypeError(
                f"ExecutionConfig.set_global_job_parameters needs a dict, got {global_job_parameters_dict!r}"
            )
        for name in global_job_parameters_dict:
            if not isinstance(name, str):
                raise ArgumentTypeError(
                    f"ExecutionConfig.set_global_job_parameters: a name must be a str, got {name!r}"
                )
        self._settings.set_job_parameters(
            {name: str(value) for name, value in global_job_parameters_dict.items()}
        )
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

    def enable_auto_generated_uids(self) -> Self:
        """Give operators without a ``uid()`` a stable id by their place in the graph."""
        return self._set(options.AUTO_GENERATE_UIDS, "true")

    def disable_auto_generated_uids(self) -> Self:
        """Ask for a ``uid()`` on every operator: a job that lacks one is refused."""
        return self._set(options.AUTO_GENERATE_UIDS, "false")

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether operators without a ``uid()`` are given one; True by default."""
        return bool(self._settings.get(options.AUTO_GENERATE_UIDS))

    # What is about Flink's own execution: kept, and given back by its getters.

    @kept
    def enable_closure_cleaner(self) -> Self:
        """Keep that closures are cleaned."""
        return self._set(program_options.CLOSURE_CLEANER_LEVEL, "RECURSIVE")

    @kept
    def disable_closure_cleaner(self) -> Self:
        """Keep that closures are not cleaned."""
        return self._set(program_options.CLOSURE_CLEANER_LEVEL, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """What was set; True by default."""
        return bool(self._settings.get(program_options.CLOSURE_CLEANER_LEVEL) != "NONE")

    @kept
    def enable_force_kryo(self) -> Self:
        """Keep that Kryo writes POJOs."""
        return self._set(program_options.FORCE_KRYO, "true")

    @kept
    def disable_force_kryo(self) -> Self:
        """Keep that Kryo does not write POJOs."""
        return self._set(program_options.FORCE_KRYO, "false")

    def is_force_kryo_enabled(self) -> bool:
        """What was set; False by default."""
        return bool(self._settings.get(program_options.FORCE_KRYO))

    @kept
    def enable_force_avro(self) -> Self:
        """Keep that Avro writes POJOs."""
        return self._set(program_options.FORCE_AVRO, "true")

    @kept
    def disable_force_avro(self) -> Self:
        """Keep that Avro does not write POJOs."""
        return self._set(program_options.FORCE_AVRO, "false")

    def is_force_avro_enabled(self) -> bool:
        """What was set; False by default."""
        return bool(self._settings.get(program_options.FORCE_AVRO))

    @kept
    def enable_generic_types(self) -> Self:
        """Keep that generic types are allowed."""
        return self._set(program_options.GENERIC_TYPES, "true")

    @kept
    def disable_generic_types(self) -> Self:
        """Keep that generic types are not allowed."""
        return self._set(program_options.GENERIC_TYPES, "false")

    def has_generic_types_disabled(self) -> bool:
        """What was set; False by default."""
        return not self._settings.get(program_options.GENERIC_TYPES)

    @kept
    def disable_auto_type_registration(self) -> Self:
        """Keep that Kryo is not told of types."""
        return self._set(program_options.AUTO_TYPE_REGISTRATION, "false")

    def is_auto_type_registration_disabled(self) -> bool:
        """What was set; False by default."""
        return not self._settings.get(program_options.AUTO_TYPE_REGISTRATION)

    @kept
    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> Self:
        """Keep whether snapshots are compressed; the engine's files always are.

        Args:
            use_snapshot_compression: True or False.
        """
        return self._set(
            program_options.SNAPSHOT_COMPRESSION, "true" if use_snapshot_compression else "false"
        )

    def is_use_snapshot_compression(self) -> bool:
        """What was set; False by default."""
        return bool(self._settings.get(program_options.SNAPSHOT_COMPRESSION))

    @kept
    def set_latency_tracking_interval(self, interval: Annotated[int, Whole(-(2**63), unit="ms")]) -> Self:
        """Keep the interval of latency markers; the engine sends none.

        Args:
            interval: ms; 0 or less means off.
        """
        self._kept["latency below 0"] = min(interval, 0)
        return self._set(program_options.LATENCY_INTERVAL, f"{max(interval, 0)} ms")

    def get_latency_tracking_interval(self) -> int:
        """What was set, in ms; 0 by default."""
        return int(
            self._settings.get(program_options.LATENCY_INTERVAL) or self._kept.get("latency below 0", 0)
        )

    @kept
    def set_task_cancellation_interval(self, interval: _Interval) -> Self:
        """Keep the time between attempts to cancel a task.

        Args:
            interval: ms, at least 0.
        """
        return self._set(program_options.TASK_CANCELLATION_INTERVAL, str(interval))

    def get_task_cancellation_interval(self) -> int:
        """What was set, in ms; 30000 by default."""
        return int(self._settings.get(program_options.TASK_CANCELLATION_INTERVAL))

    @kept
    def set_task_cancellation_timeout(self, timeout: Annotated[int, Whole(0, unit="ms")]) -> Self:
        """Keep the time after which the cancellation of a task has failed.

        Args:
            timeout: ms; 0 for none.
        """
        return self._set(program_options.TASK_CANCELLATION_TIMEOUT, str(timeout))

    def get_task_cancellation_timeout(self) -> int:
        """What was set, in ms; 180000 by default."""
        return int(self._settings.get(program_options.TASK_CANCELLATION_TIMEOUT))

    @kept
    def set_execution_mode(self, execution_mode: Annotated[ExecutionMode, checked_later]) -> Self:
        """Keep how exchanges are performed."""
        if not isinstance(execution_mode, ExecutionMode):
            raise ArgumentTypeError(
                "ExecutionConfig.set_execution_mode needs an ExecutionMode such as ExecutionMode.PIPELINED, got "
                f"{execution_mode!r}; STREAMING and BATCH are set by env.set_runtime_mode()"
            )
        return self._keep("execution mode", execution_mode)

    def get_execution_mode(self) -> ExecutionMode:
        """What was set; PIPELINED by default."""
        mode: ExecutionMode = self._kept.get("execution mode", ExecutionMode.PIPELINED)
        return mode

    @kept
    def set_default_input_dependency_constraint(
        self, input_dependency_constraint: InputDependencyConstraint
    ) -> Self:
        """Keep when tasks with several inputs are scheduled."""
        return self._keep("input dependency", input_dependency_constraint)

    def get_default_input_dependency_constraint(self) -> InputDependencyConstraint:
        """What was set; ANY by default."""
        constraint: InputDependencyConstraint = self._kept.get(
            "input dependency", InputDependencyConstraint.ANY
        )
        return constraint

    @kept
    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> Self:
        """Keep a default Kryo serializer of a Java class."""
        return self._add("default kryo", type_class_name, serializer_class_name)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Default Kryo serializers by the class they write; a copy."""
        return dict(self._kept.get("default kryo", {}))

    @kept
    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> Self:
        """Keep the Kryo serializer of a Java class."""
        return self._add("typed kryo", type_class_name, serializer_class_name)

    def get_registered_types_with_kryo_serializer_classes(self) -> dict[str, str]:
        """Kryo serializers by the class they write; a copy."""
        return dict(self._kept.get("typed kryo", {}))

    @kept
    def register_pojo_type(self, type_class_name: str) -> Self:
        """Keep a Java class that is to be written as a POJO."""
        return self._add("pojo types", type_class_name)

    def get_registered_pojo_types(self) -> list[str]:
        """Classes that are to be written as POJOs, in the order of their registration; a copy."""
        return list(self._kept.get("pojo types", {}))

    @kept
    def register_kryo_type(self, type_class_name: str) -> Self:
        """Keep a Java class that Kryo is to write."""
        return self._add("kryo types", type_class_name)

    def get_registered_kryo_types(self) -> list[str]:
        """Classes that Kryo is to write, in the order of their registration; a copy."""
        return list(self._kept.get("kryo types", {}))

    def _add(self, name: str, type_class_name: str, serializer_class_name: str = "-") -> Self:
        self._kept.setdefault(name, {})[type_class_name] = serializer_class_name
        return self

    def _keep(self, name: str, value: Any) -> Self:
        self._kept[name] = value
        return self

    def _set(self, option: Option, text: str) -> Self:
        self._settings.set(option, text)
        return self
