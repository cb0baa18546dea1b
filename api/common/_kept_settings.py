"""Settings of Flink's own execution that mean nothing here: kept, and given back by their getters."""

from __future__ import annotations

from typing import Any, Self

from changelog_engine.errors import ArgumentTypeError

from .. import _arguments
from .._differences import without_effect
from .execution_mode import ExecutionMode
from .input_dependency_constraint import InputDependencyConstraint


class KeptSettings:
    """What `ExecutionConfig` keeps without effect: closures, Kryo, Avro, object reuse, task cancellation.

    Functions and values are pickled; generic types, POJOs and their serializers are Java's.
    """

    _kept: dict[str, Any]

    def _keep(self, name: str, value: Any) -> Self:
        self._kept[name] = value
        return self

    def _flag(self, name: str, default: bool) -> bool:
        value: bool = self._kept.get(name, default)
        return value

    @without_effect("it is about Java's objects")
    def enable_closure_cleaner(self) -> Self:
        """Keep that closures are cleaned. Returns this object."""
        return self._keep("closure cleaner", True)

    @without_effect("it is about Java's objects")
    def disable_closure_cleaner(self) -> Self:
        """Keep that closures are not cleaned. Returns this object."""
        return self._keep("closure cleaner", False)

    def is_closure_cleaner_enabled(self) -> bool:
        """What was set; True by default."""
        return self._flag("closure cleaner", True)

    @without_effect("it is about Java's objects")
    def enable_force_kryo(self) -> Self:
        """Keep that Kryo writes POJOs. Returns this object."""
        return self._keep("force kryo", True)

    @without_effect("it is about Java's objects")
    def disable_force_kryo(self) -> Self:
        """Keep that Kryo does not write POJOs. Returns this object."""
        return self._keep("force kryo", False)

    def is_force_kryo_enabled(self) -> bool:
        """What was set; False by default."""
        return self._flag("force kryo", False)

    @without_effect("it is about Java's objects")
    def enable_force_avro(self) -> Self:
        """Keep that Avro writes POJOs. Returns this object."""
        return self._keep("force avro", True)

    @without_effect("it is about Java's objects")
    def disable_force_avro(self) -> Self:
        """Keep that Avro does not write POJOs. Returns this object."""
        return self._keep("force avro", False)

    def is_force_avro_enabled(self) -> bool:
        """What was set; False by default."""
        return self._flag("force avro", False)

    @without_effect("it is about Java's objects")
    def enable_generic_types(self) -> Self:
        """Keep that generic types are allowed. Returns this object."""
        return self._keep("generic types disabled", False)

    @without_effect("it is about Java's objects")
    def disable_generic_types(self) -> Self:
        """Keep that generic types are not allowed. Returns this object."""
        return self._keep("generic types disabled", True)

    def has_generic_types_disabled(self) -> bool:
        """What was set; False by default."""
        return self._flag("generic types disabled", False)

    @without_effect("it is about Java's objects")
    def disable_auto_type_registration(self) -> Self:
        """Keep that Kryo is not told of types. Returns this object."""
        return self._keep("auto type registration disabled", True)

    def is_auto_type_registration_disabled(self) -> bool:
        """What was set; False by default."""
        return self._flag("auto type registration disabled", False)

    @without_effect("files are always compressed")
    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> Self:
        """Keep whether snapshots are compressed; the engine's files always are.

        Args:
            use_snapshot_compression: True or False.

        Returns:
            This object.

        Raises:
            ConfigurationError: no bool.
        """
        what = "ExecutionConfig.set_use_snapshot_compression: use_snapshot_compression"
        return self._keep("snapshot compression", _arguments.flag(use_snapshot_compression, what))

    def is_use_snapshot_compression(self) -> bool:
        """What was set; False by default."""
        return self._flag("snapshot compression", False)

    @without_effect("there are no latency marks")
    def set_latency_tracking_interval(self, interval: int) -> Self:
        """Keep the interval of latency marks; there are none.

        Args:
            interval: ms; 0 or less means off.

        Returns:
            This object.

        Raises:
            ConfigurationError: no whole number.
        """
        what = "ExecutionConfig.set_latency_tracking_interval: the interval in ms"
        return self._keep("latency interval", _arguments.whole_number(interval, what, -(2**63)))

    def get_latency_tracking_interval(self) -> int:
        """What was set, in ms; 0 by default."""
        return int(self._kept.get("latency interval", 0))

    @without_effect("Spark ends tasks")
    def set_task_cancellation_interval(self, interval: int) -> Self:
        """Keep the time between attempts to cancel a task.

        Args:
            interval: ms, at least 0.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        what = "ExecutionConfig.set_task_cancellation_interval: the interval in ms"
        return self._keep("cancellation interval", _arguments.whole_number(interval, what, 0))

    def get_task_cancellation_interval(self) -> int:
        """What was set, in ms; 30000 by default."""
        return int(self._kept.get("cancellation interval", 30_000))

    @without_effect("Spark ends tasks")
    def set_task_cancellation_timeout(self, timeout: int) -> Self:
        """Keep the time after which the cancellation of a task has failed.

        Args:
            timeout: ms; 0 for none.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        what = "ExecutionConfig.set_task_cancellation_timeout: the timeout in ms"
        return self._keep("cancellation timeout", _arguments.whole_number(timeout, what, 0))

    def get_task_cancellation_timeout(self) -> int:
        """What was set, in ms; 180000 by default."""
        return int(self._kept.get("cancellation timeout", 180_000))

    @without_effect("exchanges are those of epochs")
    def set_execution_mode(self, execution_mode: ExecutionMode) -> Self:
        """Keep how exchanges are performed.

        Args:
            execution_mode: an ExecutionMode.

        Returns:
            This object.

        Raises:
            ConfigurationError: another object.
        """
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

    @without_effect("a stage begins when its inputs are there")
    def set_default_input_dependency_constraint(
        self, input_dependency_constraint: InputDependencyConstraint
    ) -> Self:
        """Keep when tasks with several inputs are scheduled.

        Args:
            input_dependency_constraint: an InputDependencyConstraint.

        Returns:
            This object.

        Raises:
            ConfigurationError: another object.
        """
        if not isinstance(input_dependency_constraint, InputDependencyConstraint):
            raise ArgumentTypeError(
                "ExecutionConfig.set_default_input_dependency_constraint needs an InputDependencyConstraint, got "
                f"{input_dependency_constraint!r}"
            )
        return self._keep("input dependency", input_dependency_constraint)

    def get_default_input_dependency_constraint(self) -> InputDependencyConstraint:
        """What was set; ANY by default."""
        constraint: InputDependencyConstraint = self._kept.get(
            "input dependency", InputDependencyConstraint.ANY
        )
        return constraint

    @without_effect("values are Python's, and are not written by Kryo")
    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> Self:
        """Keep a default Kryo serializer of a Java class.

        Args:
            type_class_name: the class.
            serializer_class_name: its serializer.

        Returns:
            This object.

        Raises:
            ConfigurationError: an argument is no text.
        """
        return self._add(
            "default kryo", "add_default_kryo_serializer", type_class_name, serializer_class_name
        )

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Default Kryo serializers by the class they write; a copy."""
        return dict(self._kept.get("default kryo", {}))

    @without_effect("values are Python's, and are not written by Kryo")
    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> Self:
        """Keep the Kryo serializer of a Java class.

        Args:
            type_class_name: the class.
            serializer_class_name: its serializer.

        Returns:
            This object.

        Raises:
            ConfigurationError: an argument is no text.
        """
        what = "register_type_with_kryo_serializer"
        return self._add("typed kryo", what, type_class_name, serializer_class_name)

    def get_registered_types_with_kryo_serializer_classes(self) -> dict[str, str]:
        """Kryo serializers by the class they write; a copy."""
        return dict(self._kept.get("typed kryo", {}))

    @without_effect("values are Python's, and are not written by Kryo")
    def register_pojo_type(self, type_class_name: str) -> Self:
        """Keep a Java class that is to be written as a POJO.

        Args:
            type_class_name: the class.

        Returns:
            This object.

        Raises:
            ConfigurationError: not a str.
        """
        return self._add("pojo types", "register_pojo_type", type_class_name)

    def get_registered_pojo_types(self) -> list[str]:
        """Classes that are to be written as POJOs, in the order of their registration; a copy."""
        return list(self._kept.get("pojo types", {}))

    @without_effect("values are Python's, and are not written by Kryo")
    def register_kryo_type(self, type_class_name: str) -> Self:
        """Keep a Java class that Kryo is to write.

        Args:
            type_class_name: the class.

        Returns:
            This object.

        Raises:
            ConfigurationError: not a str.
        """
        return self._add("kryo types", "register_kryo_type", type_class_name)

    def get_registered_kryo_types(self) -> list[str]:
        """Classes that Kryo is to write, in the order of their registration; a copy."""
        return list(self._kept.get("kryo types", {}))

    def _add(self, name: str, method: str, type_class_name: str, serializer_class_name: str = "-") -> Self:
        key = _arguments.text(type_class_name, f"ExecutionConfig.{method}: type_class_name")
        value = _arguments.text(serializer_class_name, f"ExecutionConfig.{method}: serializer_class_name")
        self._kept.setdefault(name, {})[key] = value
        return self
