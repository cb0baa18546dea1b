"""What sources and sinks of Pulsar are told in the same way: topics, options, who asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changelog_engine.connectors import pulsar as engine
from changelog_engine.errors import ArgumentTypeError, ConfigurationError

from ... import _arguments
from ...common.config_options import ConfigOption

LONGEST_MS = 2**63 - 1


SERVICE_URL, ADMIN_URL = "pulsar.client.serviceUrl", "pulsar.admin.adminUrl"


def authentication_of(plugin: str, params: Any, what: str) -> engine.Authentication:
    """Who asks, out of what ``set_authentication`` is given."""
    name = _arguments.text(plugin, f"{what}: auth_plugin_class_name")
    if isinstance(params, Mapping):
        return engine.Authentication(name, {str(key): str(value) for key, value in params.items()})
    if not isinstance(params, str):
        raise ArgumentTypeError(
            f"{what}: auth_params_string must be a str or a dict, got a {type(params).__name__}"
        )
    return engine.Authentication(name, params)


def topics_of(topics: str | list[str], what: str) -> tuple[str, ...]:
    """Topics by name, each once."""
    names = [topics] if isinstance(topics, str) else topics
    if not isinstance(names, (list, tuple)) or not names:
        raise ArgumentTypeError(f"{what}: topics must be a topic or several, got {topics!r}")
    return tuple(dict.fromkeys(_arguments.text(name, f"{what}: topics") for name in names))


def put_option(options: dict[str, Any], key: Any, value: Any, what: str) -> None:
    """Note an option; each once, or with the same value, as in Flink."""
    name = key.key if isinstance(key, ConfigOption) else _arguments.text(key, f"{what}: key")
    if options.setdefault(name, value) != value:
        raise ConfigurationError(f"{what}: option {name!r} was set before, to another value; set it once")
