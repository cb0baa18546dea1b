"""What is set alike for sources and sinks of Pulsar: topics, options, the login."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from changelog_engine.connectors import pulsar as engine
from changelog_engine.errors import ArgumentTypeError, ConfigurationError

from ... import _arguments
from ..._arguments import checked
from ...common.config_options import ConfigOption

LONGEST_MS = 2**63 - 1


@checked
class _PulsarBuilder:
    """What the builders of sources and sinks share."""

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        self._authentication: engine.Authentication | None = None

    def set_service_url(self, service_url: str) -> Self:
        """Where the brokers are.

        Args:
            service_url: such as ``pulsar://localhost:6650``, or ``pulsar+ssl://...`` with TLS.
        """
        return self._set("pulsar.client.serviceUrl", service_url)

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | Mapping[str, str]
    ) -> Self:
        """Set how to log in.

        Args:
            auth_plugin_class_name: Java's AuthenticationToken, AuthenticationTls, AuthenticationBasic, AuthenticationOAuth2
                or AuthenticationAthenz, with or without its package.
            auth_params_string: as Java's class takes them, ``key:value,...`` or JSON; or a dict.
        """
        params: Any = auth_params_string
        if isinstance(params, Mapping):
            params = {str(key): str(value) for key, value in params.items()}
        elif not isinstance(params, str):
            raise ArgumentTypeError(
                f"{type(self).__name__}.set_authentication: auth_params_string must be a str or a dict, got a "
                f"{type(params).__name__}"
            )
        self._authentication = engine.Authentication(auth_plugin_class_name, params)
        return self

    def set_config(self, key: str | ConfigOption[Any], value: Any) -> Self:
        """An option of the source or sink, or of Pulsar's client, by Flink's names.

        Args:
            key: such as ``pulsar.source.partitionDiscoveryIntervalMs`` or ``pulsar.producer.compressionType``.
            value: a str, a number or a bool.
        """
        put_option(self._options, key, value, f"{type(self).__name__}.set_config")
        return self

    def set_properties(self, config: Mapping[str, Any]) -> Self:
        """Several options.

        Args:
            config: see `set_config`.
        """
        for key, value in config.items():
            put_option(self._options, key, value, f"{type(self).__name__}.set_properties")
        return self

    def _set(self, name: str, value: Any) -> Self:
        self._options[name] = value
        return self


def put_option(options: dict[str, Any], key: Any, value: Any, what: str) -> None:
    """Note an option; each once, or with the same value, as in Flink."""
    name = key.key if isinstance(key, ConfigOption) else _arguments.text(key, f"{what}: key")
    if options.setdefault(name, value) != value:
        raise ConfigurationError(f"{what}: option {name!r} was set before, to another value; set it once")
