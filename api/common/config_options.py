"""Options that a program describes: key, kind of value and default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from changelog_engine.errors import ArgumentTypeError

from .._arguments import text

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A described option; made by `ConfigOptions`.

    Args:
        key: what it is called in a configuration.
        default: its value where nothing is set; None for none.
    """

    key: str
    default: T | None = None


class ConfigOptions:
    """Describes options.

    Example:
        >>> ConfigOptions.key("application.retries").int_type().default_value(3)
        ConfigOption(key='application.retries', default=3)
        >>> ConfigOptions.key("user.name").string_type().no_default_value().default is None
        True
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Begin with the key.

        Raises:
            ArgumentTypeError: it is not a str, or is empty.
        """
        return ConfigOptions.OptionBuilder(text(key, "ConfigOptions.key"))

    class OptionBuilder:
        """Asks for the kind of value."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """True or false."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """A whole number of 32 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int, 32)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """A whole number of 64 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int, 64)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """A number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """A number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """A str."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str)

    class TypedConfigOptionBuilder(Generic[T]):
        """Asks for the default."""

        def __init__(self, key: str, kind: type[Any], bits: int | None = None) -> None:
            self._key = key
            self._kind = kind
            self._bits = bits

        def default_value(self, value: T) -> ConfigOption[T]:
            """An option with a default.

            Raises:
                ArgumentTypeError: the default is of another kind, or does not fit.
            """
            given: Any = value
            if self._kind is float and type(given) is int:
                given = float(given)
            fits = type(given) is self._kind
            if fits and self._bits is not None:
                fits = -(2 ** (self._bits - 1)) <= given < 2 ** (self._bits - 1)
            if not fits:
                wanted = self._kind.__name__ + (f" of {self._bits} bits" if self._bits else "")
                raise ArgumentTypeError(
                    f"the default of option {self._key!r} must be {wanted}, got {value!r}"
                )
            return ConfigOption(self._key, given)

        def no_default_value(self) -> ConfigOption[T]:
            """An option without a default."""
            return ConfigOption(self._key)
