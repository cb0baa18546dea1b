"""The YAML file of configuration, named by the environment variable CHANGELOG_ENGINE_CONF."""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import ConfigurationError

CONF_VARIABLE = "CHANGELOG_ENGINE_CONF"


def read_file(path: str) -> dict[str, str]:
    """Read a YAML file of options: flat keys (``state.backend.type: hashmap``), nested ones, or both.

    Returns:
        Flat keys with their values as texts.

    Raises:
        ConfigurationError: the file is missing, is not a YAML mapping, or gives a key twice.
    """
    import yaml

    try:
        with open(path, encoding="utf-8") as stream:
            document = yaml.load(stream, _once(yaml.SafeLoader, path))
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the file {path} named by {CONF_VARIABLE}: {error.strerror}"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the file {path} named by {CONF_VARIABLE} is not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"the file {path} named by {CONF_VARIABLE} must hold 'key: value' lines")
    flat: dict[str, str] = {}
    _flatten(document, "", flat, path)
    return flat


def _once(loader: Any, path: str) -> Any:
    """A loader of YAML that refuses a key which a mapping has twice: PyYAML takes the last one."""

    class Once(loader):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value]
            for key in keys:
                if isinstance(key, str) and keys.count(key) > 1:
                    raise ConfigurationError(f"the file {path} gives {key!r} twice")
            return super().construct_mapping(node, deep)

    return Once


def _flatten(node: dict[Any, Any], prefix: str, flat: dict[str, str], path: str) -> None:
    for name, value in node.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            _flatten(value, key + ".", flat, path)
        elif value is not None:
            if key in flat:
                raise ConfigurationError(f"the file {path} gives the option {key!r} twice")
            flat[key] = _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ";".join(_text(item) for item in value)
    return str(value)
