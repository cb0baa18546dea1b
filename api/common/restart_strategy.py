"""Restart strategies: when a failed job goes on from its last checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from changelog_engine.config import Option, options
from changelog_engine.config.numbers import is_number
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.graph.nodes import RestartKind, RestartSettings

from .._arguments import whole_number

_FOREVER = 2**31 - 1
# The fields of each kind's settings, in the order in which its strategy takes them, and the options that they are.
_OPTIONS: dict[RestartKind, dict[str, Option]] = {
    RestartKind.NONE: {},
    RestartKind.FIXED_DELAY: {
        "attempts": options.FIXED_DELAY_ATTEMPTS,
        "delay_ms": options.FIXED_DELAY_DELAY,
    },
    RestartKind.FAILURE_RATE: {
        "failures": options.FAILURE_RATE_MAX,
        "interval_ms": options.FAILURE_RATE_INTERVAL,
        "delay_ms": options.FAILURE_RATE_DELAY,
    },
    RestartKind.EXPONENTIAL_DELAY: {
        "initial_backoff_ms": options.EXPONENTIAL_INITIAL,
        "max_backoff_ms": options.EXPONENTIAL_MAX,
        "backoff_multiplier": options.EXPONENTIAL_MULTIPLIER,
        "reset_backoff_ms": options.EXPONENTIAL_RESET,
        "jitter": options.EXPONENTIAL_JITTER,
    },
}


def settings_of(get: Callable[[Option], Any]) -> RestartSettings | None:
    """What options say of restarts; None when they say nothing.

    Args:
        get: option -> its value.
    """
    name = get(options.RESTART_STRATEGY)
    if name is None:
        return None
    kind = RestartKind(name)
    return RestartSettings(kind, **{field: get(option) for field, option in _OPTIONS[kind].items()})


def _values(settings: RestartSettings) -> list[tuple[Option, Any]]:
    """What the options of a kind of restarts are."""
    return [(option, vars(settings)[field]) for field, option in _OPTIONS[settings.kind].items()]


def _iso(milliseconds: int) -> str:
    """A span of time as Java's Duration writes it: PT1H0.5S."""
    seconds, rest = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = "PT" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if rest:
        return text + f"{seconds}.{rest:03}".rstrip("0") + "S"
    return text + f"{seconds}S" if seconds or not milliseconds else text


def _span_ms(span: Any, what: str, least: int) -> int:
    """A span of time in ms, of a number of them or a timedelta, whose fractions of a ms are cut off."""
    return whole_number(
        span // timedelta(milliseconds=1) if isinstance(span, timedelta) else span, what, least
    )


class RestartStrategyConfiguration:
    """Base of the restart strategies; made by `RestartStrategies`."""

    def get_description(self) -> str:
        """One line for people."""
        return self._description

    _description = ""
    _settings: RestartSettings | None = None

    def _options(self) -> dict[str, str]:
        """Its options by Flink's keys."""
        if self._settings is None:
            return {}
        found = {options.RESTART_STRATEGY.key: self._settings.kind.value}
        for option, value in _values(self._settings):
            found[option.key] = f"{value} ms" if option.kind == "duration" else str(value)
        return found

    def __eq__(self, other: object) -> bool:
        """Whether the other one is the same strategy."""
        return type(self) is type(other) and self._options() == other._options()

    def __hash__(self) -> int:
        """Hash of the options."""
        return hash((type(self), frozenset(self._options().items())))

    def __repr__(self) -> str:
        """The description."""
        return f"{type(self).__name__}({self._description})"


class _NoRestart(RestartStrategyConfiguration):
    _description = "Restart deactivated."
    _settings = RestartSettings(RestartKind.NONE)


class _FixedDelayRestart(RestartStrategyConfiguration):
    _settings: RestartSettings

    def __init__(self, restart_attempts: int, delay_between_attempts_interval: int | timedelta) -> None:
        what = "RestartStrategies.fixed_delay_restart"
        self._settings = found = RestartSettings(
            RestartKind.FIXED_DELAY,
            attempts=whole_number(restart_attempts, f"{what}: restart_attempts", 0, _FOREVER),
            delay_ms=_span_ms(delay_between_attempts_interval, f"{what}: delay_between_attempts", 0),
        )
        self._description = (
            f"Restart with fixed delay ({_iso(found.delay_ms)}). #{found.attempts} restart attempts."
        )

    def get_restart_attempts(self) -> int:
        """Restarts before giving up."""
        return self._settings.attempts

    def get_delay_between_attempts_interval(self) -> timedelta:
        """Pause before a restart."""
        return timedelta(milliseconds=self._settings.delay_ms)


class _FailureRateRestart(RestartStrategyConfiguration):
    _settings: RestartSettings

    def __init__(
        self,
        max_failure_rate: int,
        failure_interval: int | timedelta,
        delay_between_attempts_interval: int | timedelta,
    ) -> None:
        what = "RestartStrategies.failure_rate_restart"
        self._settings = found = RestartSettings(
            RestartKind.FAILURE_RATE,
            failures=whole_number(max_failure_rate, f"{what}: failure_rate", 1, _FOREVER),
            interval_ms=_span_ms(failure_interval, f"{what}: failure_interval", 1),
            delay_ms=_span_ms(delay_between_attempts_interval, f"{what}: delay_interval", 0),
        )
        self._description = (
            f"Failure rate restart with maximum of {found.failures} failures within interval "
            f"{_iso(found.interval_ms)} and fixed delay {_iso(found.delay_ms)}."
        )

    def get_max_failure_rate(self) -> int:
        """Failures allowed within the interval."""
        return self._settings.failures

    def get_failure_interval(self) -> timedelta:
        """The interval that failures are counted in."""
        return timedelta(milliseconds=self._settings.interval_ms)

    def get_delay_between_attempts_interval(self) -> timedelta:
        """Pause before a restart."""
        return timedelta(milliseconds=self._settings.delay_ms)


class _ExponentialDelayRestart(RestartStrategyConfiguration):
    def __init__(
        self,
        initial_backoff: int,
        max_backoff: int,
        backoff_multiplier: Any,
        reset_backoff_threshold: int,
        jitter_factor: Any,
    ) -> None:
        what = "RestartStrategies.exponential_delay_restart"
        initial_ms = whole_number(initial_backoff, f"{what}: initial_backoff", 1)
        max_ms = whole_number(max_backoff, f"{what}: max_backoff", initial_ms)
        reset_ms = whole_number(reset_backoff_threshold, f"{what}: reset_backoff_threshold", 1)
        if not is_number(backoff_multiplier) or not 1 <= backoff_multiplier < float("inf"):
            raise ArgumentTypeError(
                f"{what}: backoff_multiplier must be a number from 1, got {backoff_multiplier!r}"
            )
        if not is_number(jitter_factor) or not 0 <= jitter_factor < 1:
            raise ArgumentTypeError(
                f"{what}: jitter_factor must be a number from 0 to 1, got {jitter_factor!r}"
            )
        multiplier = float(backoff_multiplier)
        self._settings = RestartSettings(
            RestartKind.EXPONENTIAL_DELAY,
            initial_backoff_ms=initial_ms,
            max_backoff_ms=max_ms,
            backoff_multiplier=multiplier,
            reset_backoff_ms=reset_ms,
            jitter=float(jitter_factor),
        )
        self._description = (
            f"Restart with exponential delay: starting at {_iso(initial_ms)}, increasing by "
            f"{multiplier:g}, with maximum {_iso(max_ms)}. Delay resets after {_iso(reset_ms)}."
        )


class _FallbackRestart(RestartStrategyConfiguration):
    _description = "Cluster level default restart strategy"


class RestartStrategies:
    """Makes restart strategies.

    A job without one: with checkpointing on it restarts for ever, after pauses that grow as those of
    ``exponential_delay_restart()`` do; without checkpointing it fails at once.
    """

    NoRestartStrategyConfiguration = _NoRestart
    FixedDelayRestartStrategyConfiguration = _FixedDelayRestart
    FailureRateRestartStrategyConfiguration = _FailureRateRestart
    ExponentialDelayRestartStrategyConfiguration = _ExponentialDelayRestart
    FallbackRestartStrategyConfiguration = _FallbackRestart

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """Fail at the first failure."""
        return _NoRestart()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Let the configuration decide (command line, file), then the default."""
        return _FallbackRestart()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> RestartStrategyConfiguration:
        """Restart a number of times, with the same pause each time.

        Args:
            restart_attempts: restarts before giving up; 0 to 2147483647.
            delay_between_attempts: pause, in ms or as a timedelta.
        """
        return _FixedDelayRestart(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> RestartStrategyConfiguration:
        """Restart as long as failures are rare enough.

        Args:
            failure_rate: failures allowed within the interval.
            failure_interval: the interval, in ms or as a timedelta.
            delay_interval: pause before a restart, in ms or as a timedelta.
        """
        return _FailureRateRestart(failure_rate, failure_interval, delay_interval)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int = 1000,
        max_backoff: int = 60_000,
        backoff_multiplier: float = 1.5,
        reset_backoff_threshold: int = 3_600_000,
        jitter_factor: float = 0.1,
    ) -> RestartStrategyConfiguration:
        """Restart for ever, with pauses that grow.

        Args:
            initial_backoff: first pause in ms.
            max_backoff: longest pause in ms.
            backoff_multiplier: growth from pause to pause.
            reset_backoff_threshold: time in ms without a failure after which the pause is the first one
                again.
            jitter_factor: how far a pause is from its length at random, as a fraction of it.
        """
        return _ExponentialDelayRestart(
            initial_backoff, max_backoff, backoff_multiplier, reset_backoff_threshold, jitter_factor
        )


for _name, _class in vars(RestartStrategies).items():
    if isinstance(_class, type):  # users see its public name
        _class.__name__, _class.__qualname__ = _name, f"RestartStrategies.{_name}"

_STRATEGIES: dict[RestartKind, type[RestartStrategyConfiguration]] = {
    RestartKind.NONE: _NoRestart,
    RestartKind.FIXED_DELAY: _FixedDelayRestart,
    RestartKind.FAILURE_RATE: _FailureRateRestart,
    RestartKind.EXPONENTIAL_DELAY: _ExponentialDelayRestart,
}


def strategy_of(settings: RestartSettings | None) -> RestartStrategyConfiguration:
    """The strategy with these settings; None for the fall-back one."""
    if settings is None:
        return _FallbackRestart()
    return _STRATEGIES[settings.kind](*(value for _, value in _values(settings)))
