"""The settings of an environment as its methods."""

from __future__ import annotations

from typing import Self

from changelog_engine.config import options
from changelog_engine.errors import ArgumentTypeError

from .. import _arguments
from .._differences import differs
from .._unsupported import NamesOfPyFlink
from ..common.configuration import Configuration
from ..common.execution_config import ExecutionConfig
from ..common.restart_strategy import RestartStrategyConfiguration
from ._settings import EnvironmentSettings
from ._state_settings import STATE_BACKEND, backend_from_code
from .checkpoint_config import CheckpointConfig
from .checkpointing_mode import CheckpointingMode
from .execution_mode import RuntimeExecutionMode
from .state_backend import StateBackend


class ConfigurableEnvironment(NamesOfPyFlink):
    """What can be set on an environment; see `StreamExecutionEnvironment`."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._settings = EnvironmentSettings(configuration)
        self._checkpoint_config = CheckpointConfig(self._settings)
        self._execution_config = ExecutionConfig(self._settings)

    def configure(self, configuration: Configuration) -> None:
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
            parallelism: 1 to 32768.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        value = _arguments.parallelism(parallelism, "StreamExecutionEnvironment.set_parallelism")
        self._settings.set(options.PARALLELISM, str(value))
        return self

    def get_parallelism(self) -> int:
        """Parallelism of operators that set none; by default the cores of Spark's local master."""
        return self._settings.parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of operators that set none: the bound of their parallelism for ever.

        Args:
            max_parallelism: 1 to 32768.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        value = _arguments.max_parallelism(max_parallelism, "StreamExecutionEnvironment.set_max_parallelism")
        self._settings.set(options.MAX_PARALLELISM, str(value))
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups of operators that set none; -1 when nobody set it."""
        return self._execution_config.get_max_parallelism()

    @differs(
        "with BATCH gives keys in the order of their first elements, where Flink sorts their bytes",
        "Programs",
        matters=False,
    )
    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Set the execution mode.

        Args:
            execution_mode: STREAMING, the default; BATCH, whose sources must all end; or AUTOMATIC.

        Returns:
            This object.

        Raises:
            ConfigurationError: no RuntimeExecutionMode.
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise ArgumentTypeError(
                "StreamExecutionEnvironment.set_runtime_mode needs a RuntimeExecutionMode such as "
                f"RuntimeExecutionMode.STREAMING, got {execution_mode!r}"
            )
        self._settings.set(options.RUNTIME_MODE, execution_mode.name)
        return self

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Make checkpoints: after a failure the job goes on from the last one.

        Args:
            interval: time between checkpoints in ms, at least 10.
            mode: the guarantee asked for; None leaves it as it is, EXACTLY_ONCE by default.

        Returns:
            This object.

        Raises:
            ConfigurationError: an argument that cannot be used.
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

        Returns:
            This object.

        Raises:
            ConfigurationError: no bool.
        """
        value = _arguments.flag(enabled, "StreamExecutionEnvironment.enable_changelog_state_backend: enabled")
        self._settings.set(options.CHANGELOG_ENABLED, "true" if value else "false")
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What the program said about the changelog: True, False, or None for no preference."""
        value: bool | None = self._settings.get_from_code(options.CHANGELOG_ENABLED)
        return value

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Set where the working state is kept.

        Args:
            state_backend: `HashMapStateBackend` (the default), `EmbeddedRocksDBStateBackend`, `CustomStateBackend`, or one
                of the deprecated backends, which bring their checkpoint storage along. What is set on it later holds too.

        Returns:
            This object.

        Raises:
            ConfigurationError: another object.
        """
        if not isinstance(state_backend, StateBackend) or state_backend._kind is None:
            raise ArgumentTypeError(
                "StreamExecutionEnvironment.set_state_backend needs a backend such as HashMapStateBackend() or "
                f"EmbeddedRocksDBStateBackend(), got {state_backend!r}"
            )
        self._settings.kept[STATE_BACKEND] = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Where the working state is kept as the program set it; None when it did not."""
        return backend_from_code(self._settings)

    @differs(
        "has a limit here: the same mistake of the program three times in a row, with no checkpoint between, fails the job",
        "Checkpoints and failures",
        matters=False,
    )
    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> None:
        """Set when a failed job goes on.

        Args:
            restart_strategy_configuration: from `RestartStrategies`.

        Raises:
            ConfigurationError: another object.
        """
        self._settings.set_restart_strategy(restart_strategy_configuration)

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """When a failed job goes on; the fall-back strategy when nobody set any."""
        return self._settings.restart_strategy()
