"""Configuration: options by Flink's keys."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Self, TypeVar, cast

from changelog_engine.config import find, parse_bool, parse_float, parse_int
from changelog_engine.config.names import writable
from changelog_engine.config.numbers import is_number
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.types.java_text import double_text, grown_order, hash_map_order

from .._unsupported import NamesOfPyFlink
from ._java_objects import JavaConfiguration, python_configuration

_V = TypeVar("_V")
_HIDDEN = "******"
_YAML = {"NaN": ".nan", "Infinity": ".inf", "-Infinity": "-.inf"}
_LONG = range(-(2**63), 2**63)
_SECRET = (  # words in the keys of options whose values nobody is to read in a log
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
)


class Configuration(NamesOfPyFlink):
    """Options by Flink's keys. Keys are checked when an environment takes the configuration, not before.

    Args:
        other: entries to begin with; a Configuration or, beyond PyFlink, a mapping.
        j_configuration: what ``get_j_env_configuration()`` gave: a view on the options of an environment. Takes the place of
            ``other``.

    Example:
        >>> conf = Configuration()
        >>> conf.set_string("execution.checkpointing.interval", "1 s").get_string("parallelism.default", "2")
        '2'
    """

    _not_here: Mapping[str, str] = {
        "parse_jars_value": "asks Flink's Java process how it reads its configuration: use parse_list_value()"
    }

    def __init__(
        self,
        other: Configuration | Mapping[str, Any] | None = None,
        j_configuration: JavaConfiguration | None = None,
    ) -> None:
        self._entries: MutableMapping[str, Any] = {}
        if j_configuration is not None:
            self._entries = python_configuration(j_configuration, "Configuration: j_configuration")._entries
        elif isinstance(other, Configuration):
            self._entries.update(other._entries)
        elif isinstance(other, Mapping):
            for key, value in other.items():
                self._set(key, value, (str, bool, int, float, bytes))
        elif other is not None:
            raise ArgumentTypeError(f"Configuration takes another Configuration or a dict, got {other!r}")

    @property
    def _j_configuration(self) -> JavaConfiguration:
        """What stands for the Java object behind it."""
        return JavaConfiguration(self)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        """A configuration with the entries of a dict.

        Raises:
            ArgumentTypeError: it is not a dict, or has a key that is not a str.
        """
        given: object = map
        if not isinstance(given, Mapping):
            raise ArgumentTypeError(f"Configuration.from_dict needs a dict, got {given!r}")
        return cls(map)

    @staticmethod
    def parse_list_value(value: str) -> list[Any]:
        """The items of an option's value: a list in YAML's form, ``[a, b]``, or items between semicolons."""
        if not value:
            return []
        import yaml  # seldom needed, and slow to load

        try:
            items = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigurationError(
                f"Configuration.parse_list_value: {value!r} is not YAML: {error}"
            ) from None
        return items if isinstance(items, list) else value.split(";")

    def get_string(self, key: str, default_value: str) -> str:
        """The value as text.

        Args:
            key: the option.
            default_value: returned when the key is not set.

        Raises:
            ArgumentTypeError: the default is neither a str nor None.
        """
        given: object = default_value
        if given is not None and not isinstance(given, str):
            raise ArgumentTypeError(f"the default of option {key!r} must be a str or None, got {given!r}")
        value = self._get(key)
        return default_value if value is None else _text(value)

    def set_string(self, key: str, value: str) -> Self:
        """Set a str.

        Args:
            key: the option.
        """
        return self._set(key, value, (str,))

    def get_integer(self, key: str, default_value: int) -> int:
        """The value as a whole number.

        Raises:
            ConfigurationError: it is set and no whole number.
        """
        return self._parsed(key, default_value, parse_int)

    def set_integer(self, key: str, value: int) -> Self:
        """Set a whole number."""
        return self._set(key, value, (int,))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """The value as true or false.

        Raises:
            ConfigurationError: it is set and neither.
        """
        return self._parsed(key, default_value, parse_bool)

    def set_boolean(self, key: str, value: bool) -> Self:
        """Set true or false."""
        return self._set(key, value, (bool,))

    def get_float(self, key: str, default_value: float) -> float:
        """The value as a number.

        Raises:
            ConfigurationError: it is set and no number.
            ArgumentTypeError: the default is no number.
        """
        return self._parsed(key, _number(default_value, f"the default of option {key!r}"), parse_float)

    def set_float(self, key: str, value: float) -> Self:
        """Set a number; a whole one becomes a float, whose text is ``1.0``."""
        return self._set(key, _number(value, f"option {key!r}"), (float,))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """The value as bytes.

        Raises:
            ConfigurationError: it is set and not bytes.
        """
        value = self._get(key)
        if value is None:
            return default_value
        if not isinstance(value, bytes):
            raise ArgumentTypeError(f"option {key!r} holds no bytes but {value!r}")
        return bytearray(value)

    def set_bytearray(self, key: str, value: bytearray) -> Self:
        """Set bytes."""
        given: object = value
        return self._set(key, bytes(given) if isinstance(given, bytearray) else given, (bytes,))

    def key_set(self) -> set[str]:
        """The keys that are set."""
        return set(self._entries)

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Add all entries to a dict.

        Args:
            target_dict: changed in place; entries of the same keys are replaced.
        """
        target_dict.update(self._entries)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Self:
        """Take over all entries of another configuration.

        Args:
            other: where they come from.
            prefix: put before each of its keys.
        """
        for key, value in list(other._entries.items()):  # the other one may be this one
            self._entries[(prefix or "") + key] = value
        return self

    def contains_key(self, key: str) -> bool:
        """Whether the key, or an older or newer name of the same option, is set."""
        return self._get(key) is not None

    def to_dict(self) -> dict[str, str]:
        """All entries as texts, in Flink's order; a copy."""
        return {key: _text(value) for key, value in in_order_of_java(self._entries).items()}

    def remove_config(self, key: str) -> bool:
        """Take a key out.

        Returns:
            Whether it was there.
        """
        return self._entries.pop(key, None) is not None

    def _get(self, key: str) -> Any:
        if key in self._entries:
            return self._entries[key]
        option = find(key)
        names = (option.key, *option.older) if option else ()
        return next((self._entries[name] for name in names if name in self._entries), None)

    def _set(self, key: Any, value: Any, classes: tuple[type, ...]) -> Self:
        if not isinstance(key, str) or not key.strip():
            raise ArgumentTypeError(f"the key of an option must be a non-empty str, got {key!r}")
        writable(key, "the key of an option")
        if isinstance(value, str):
            writable(value, f"option {key!r}")
        if not isinstance(value, classes) or (isinstance(value, bool) and bool not in classes):
            wanted = " or ".join(cls.__name__ for cls in classes)
            raise ArgumentTypeError(f"option {key!r} must be set to {wanted} here, got {value!r}")
        if isinstance(value, int) and value not in _LONG:
            raise ArgumentTypeError(f"option {key!r} must be set to an int of 64 bits, got {value!r}")
        self._entries[key] = value
        return self

    def _parsed(self, key: str, default: _V, parse: Callable[[str], _V]) -> _V:
        value = self._get(key)
        if value is None:
            return default
        if isinstance(value, float) and isinstance(default, float):
            return cast(_V, value)
        try:
            return parse(_text(value))
        except ValueError as error:
            raise ConfigurationError(f"option {key!r}: {error}, got {value!r}") from None

    def __deepcopy__(self, memodict: dict[int, Any] | None = None) -> Configuration:
        """A copy of its own."""
        return Configuration(self)

    def __copy__(self) -> Configuration:
        """A copy of its own."""
        return copy.deepcopy(self)

    def __hash__(self) -> int:
        """Hash of the entries."""
        return hash(frozenset(self.to_dict().items()))

    def __eq__(self, other: object) -> bool:
        """Whether the other one has the same entries: 5 and "5" are two."""
        return isinstance(other, Configuration) and self._typed() == other._typed()

    def _typed(self) -> dict[str, tuple[type, str]]:
        return {key: (type(value), _text(value)) for key, value in self._entries.items()}

    def __str__(self) -> str:
        """The entries as Flink shows them, ``{parallelism.default=2, s3.secret-key=******}``; secrets are hidden."""
        shown = (
            f"{key}={_HIDDEN if any(word in key.lower() for word in _SECRET) else _text(self._entries[key])}"
            for key in grown_order(self._entries, "STRING")
        )
        return f"{{{', '.join(shown)}}}"

    __repr__ = __str__


def in_order_of_java(entries: Mapping[str, _V]) -> dict[str, _V]:
    """A copy in the order in which Flink gives the entries of a configuration: that of the copy of a HashMap."""
    return {key: entries[key] for key in hash_map_order(grown_order(entries, "STRING"), "STRING")}


def _number(value: Any, what: str) -> float:
    if is_number(value):
        with contextlib.suppress(OverflowError):
            return float(value)
    raise ArgumentTypeError(f"{what} must be a float or an int that fits one, got {value!r}")


def _text(value: Any) -> str:
    """The value as Flink writes it into YAML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _YAML.get(text := double_text(value), text)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
