"""CheckpointConfig: everything about checkpoints."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Self

from changelog_engine.config import Option, options
from changelog_engine.config.names import names_of
from changelog_engine.errors import ArgumentTypeError

from .._arguments import Whole, checked, checked_later
from .._kept_settings import kept
from .._unsupported import NamesOfPyFlink
from ..common.time import AtLeast, Duration
from ._settings import EnvironmentSettings
from .checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage, normalized
from .checkpointing_mode import CheckpointingMode
from .externalized_checkpoint_retention import ExternalizedCheckpointRetention

_UNLIMITED = 2**31 - 1


class ExternalizedCheckpointCleanup(Enum):
    """What happens to the job's checkpoints when it is cancelled. After a failure they are always kept."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


_Timeout = Annotated[Duration, AtLeast(0)]
_Interval = Annotated[int, Whole(10, unit="ms")]  # as in Flink; timeouts too


@checked
class CheckpointConfig(NamesOfPyFlink):
    """Everything about checkpoints: a view on the settings of an environment.

    It comes from ``env.get_checkpoint_config()``.

    Example:
        >>> from changelog_engine.api.datastream import StreamExecutionEnvironment
        >>> config = StreamExecutionEnvironment.get_execution_environment().get_checkpoint_config()
        >>> config.set_checkpoint_interval(1000).get_checkpoint_interval()
        1000
    """

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    _not_here = names_of(
        "enable_approximate_local_recovery get_checkpoint_id_of_ignored_in_flight_data "
        "is_approximate_local_recovery_enabled set_checkpoint_id_of_ignored_in_flight_data"
    )

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings

    def _set(self, option: Option, text: str) -> Self:
        self._settings.set(option, text)
        return self

    def is_checkpointing_enabled(self) -> bool:
        """Whether there are checkpoints: whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The guarantee asked for; default EXACTLY_ONCE."""
        return CheckpointingMode[self._settings.get(options.CHECKPOINT_MODE)]

    @kept
    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> Self:
        """Set the guarantee asked for. State is exactly once in either mode."""
        return self._set(options.CHECKPOINT_MODE, checkpointing_mode.name)

    def get_checkpoint_interval(self) -> int:
        """Time between checkpoints in ms; -1 when checkpointing is off."""
        return self._settings.get(options.CHECKPOINT_INTERVAL) or -1

    def set_checkpoint_interval(self, checkpoint_interval: _Interval) -> Self:
        """Set the time between checkpoints.

        Args:
            checkpoint_interval: ms, at least 10.
        """
        return self._set(options.CHECKPOINT_INTERVAL, f"{checkpoint_interval} ms")

    def get_checkpoint_timeout(self) -> int:
        """How long a checkpoint may take, in ms; default 600000."""
        return int(self._settings.get(options.CHECKPOINT_TIMEOUT))

    def set_checkpoint_timeout(self, checkpoint_timeout: _Interval) -> Self:
        """Set how long a checkpoint may take; a longer one counts as failed.

        Args:
            checkpoint_timeout: ms, at least 10.
        """
        return self._set(options.CHECKPOINT_TIMEOUT, f"{checkpoint_timeout} ms")

    def get_min_pause_between_checkpoints(self) -> int:
        """Least time between the end of a checkpoint and the next, in ms; default 0."""
        return int(self._settings.get(options.CHECKPOINT_MIN_PAUSE))

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: Annotated[int, Whole(0, unit="ms")]
    ) -> Self:
        """Set the least time between the end of a checkpoint and the next.

        Args:
            min_pause_between_checkpoints: ms, at least 0.
        """
        return self._set(options.CHECKPOINT_MIN_PAUSE, f"{min_pause_between_checkpoints} ms")

    def get_max_concurrent_checkpoints(self) -> int:
        """The number set; default 1."""
        return int(self._settings.get(options.CHECKPOINT_MAX_CONCURRENT))

    @kept
    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: Annotated[int, Whole(1)]) -> Self:
        """Keep the number of checkpoints that may be under way at a time; this engine makes one at a time.

        Args:
            max_concurrent_checkpoints: at least 1.
        """
        return self._set(options.CHECKPOINT_MAX_CONCURRENT, f"{max_concurrent_checkpoints}")

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job; default True."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> Self:
        """Say whether a failed checkpoint fails the job.

        False tolerates any number of them, unless `set_tolerable_checkpoint_failure_number` gives a number.

        Args:
            fail_on_checkpointing_errors: True, the default, or False.
        """
        current = self._settings.get_from_code(options.CHECKPOINT_TOLERABLE_FAILURES)
        if current not in (None, 0, _UNLIMITED):
            return self
        tolerated = 0 if fail_on_checkpointing_errors else _UNLIMITED
        return self._set(options.CHECKPOINT_TOLERABLE_FAILURES, str(tolerated))

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Failed checkpoints in a row that do not fail the job; default 0."""
        return int(self._settings.get(options.CHECKPOINT_TOLERABLE_FAILURES))

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: Annotated[int, Whole(0)]
    ) -> Self:
        """Set how many failed checkpoints in a row do not fail the job.

        Args:
            tolerable_checkpoint_failure_number: at least 0; 0 fails the job at the first.
        """
        return self._set(options.CHECKPOINT_TOLERABLE_FAILURES, f"{tolerable_checkpoint_failure_number}")

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointCleanup) -> Self:
        """As `set_externalized_checkpoint_cleanup`, the older name."""
        return self.set_externalized_checkpoint_cleanup(cleanup_mode)

    def set_externalized_checkpoint_cleanup(self, cleanup_mode: ExternalizedCheckpointCleanup) -> Self:
        """Set what happens to the job's checkpoints when it is cancelled."""
        return self._set(options.CHECKPOINT_RETENTION, cleanup_mode.name)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether a clean-up other than NO_EXTERNALIZED_CHECKPOINTS is set."""
        cleanup = self.get_externalized_checkpoint_cleanup()
        return cleanup not in (None, ExternalizedCheckpointCleanup.NO_EXTERNALIZED_CHECKPOINTS)

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointCleanup | None:
        """What happens to the job's checkpoints when it is cancelled; default NO_EXTERNALIZED_CHECKPOINTS.

        The documentation says None for the default; PyFlink gives this.
        """
        return ExternalizedCheckpointCleanup[self._settings.get(options.CHECKPOINT_RETENTION)]

    def set_externalized_checkpoint_retention(self, retention_mode: ExternalizedCheckpointRetention) -> Self:
        """As `set_externalized_checkpoint_cleanup`, under the name that it has from 1.20 on."""
        return self._set(options.CHECKPOINT_RETENTION, retention_mode.name)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to the job's checkpoints when it is cancelled; default NO_EXTERNALIZED_CHECKPOINTS."""
        return ExternalizedCheckpointRetention[self._settings.get(options.CHECKPOINT_RETENTION)]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """As set; default False."""
        return bool(self._settings.get(options.UNALIGNED))

    @kept
    def enable_unaligned_checkpoints(self, enabled: bool = True) -> Self:
        """Keep whether checkpoints are unaligned. Epochs end together, so there is no alignment to skip.

        Args:
            enabled: True by default.
        """
        return self._set(options.UNALIGNED, "true" if enabled else "false")

    @kept
    def disable_unaligned_checkpoints(self) -> Self:
        """Keep that checkpoints are aligned."""
        return self.enable_unaligned_checkpoints(False)

    def is_force_unaligned_checkpoints(self) -> bool:
        """As set; default False."""
        return bool(self._settings.get(options.UNALIGNED_FORCED))

    @kept
    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> Self:
        """Keep whether unaligned checkpoints are forced.

        See `enable_unaligned_checkpoints`.
        """
        return self._set(options.UNALIGNED_FORCED, "true" if force_unaligned_checkpoints else "false")

    def get_alignment_timeout(self) -> Duration:
        """As `get_aligned_checkpoint_timeout`, the older name."""
        return self.get_aligned_checkpoint_timeout()

    @kept
    def set_alignment_timeout(self, alignment_timeout: _Timeout) -> Self:
        """As `set_aligned_checkpoint_timeout`, the older name."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """As set; default 0."""
        return Duration.of_millis(self._settings.get(options.ALIGNMENT_TIMEOUT))

    @kept
    def set_aligned_checkpoint_timeout(self, alignment_timeout: _Timeout) -> Self:
        """Keep a timeout of the alignment; see `enable_unaligned_checkpoints`.

        Args:
            alignment_timeout: 0 or more.
        """
        return self._set(options.ALIGNMENT_TIMEOUT, f"{alignment_timeout.to_milliseconds()} ms")

    def set_checkpoint_storage(self, storage: Annotated[CheckpointStorage | str, checked_later]) -> Self:
        """Set where checkpoints lie. The option ``state.changelog.dstl.dfs.base-path`` goes before it.

        Args:
            storage: a storage, or a folder or URI.
        """
        if isinstance(storage, str):
            return self.set_checkpoint_storage_dir(storage)
        if not isinstance(storage, CheckpointStorage):
            raise ArgumentTypeError(
                "CheckpointConfig.set_checkpoint_storage needs a CheckpointStorage or a path, got "
                f"{storage!r}"
            )
        self._settings.set_checkpoint_storage(storage)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> Self:
        """Set the folder in which checkpoints lie.

        Args:
            checkpoint_path: folder or URI.
        """
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(normalized(checkpoint_path)))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Where checkpoints lie, or None when nobody set it."""
        return self._settings.checkpoint_storage()
