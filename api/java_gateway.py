"""The gateway to Flink's Java process, which is not here: it knows two classes that programs use to make an environment.

``get_gateway().jvm.org.apache.flink...`` leads to Java's StreamExecutionEnvironment and Configuration; every other class is
an error that names what to use.
"""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import ArgumentTypeError

from ._unsupported import homes
from .common._java_objects import JavaConfiguration, no_java, no_java_method, python_configuration
from .common.configuration import Configuration
from .datastream._java_environment import JavaEnvironment
from .datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["get_gateway"]

_INSTEAD = "StreamExecutionEnvironment.get_execution_environment(configuration)"


class JavaEnvironmentClass:
    """The static methods of Java's StreamExecutionEnvironment that make one of this process's own."""

    def getExecutionEnvironment(self, configuration: JavaConfiguration | None = None) -> JavaEnvironment:
        """A new environment.

        Args:
            configuration: ``configuration._j_configuration``.
        """
        return self._made("getExecutionEnvironment", configuration, None)

    def createLocalEnvironment(self, *arguments: Any) -> JavaEnvironment:
        """A new environment.

        Args:
            arguments: a parallelism, a configuration, both or neither.
        """
        rest = list(arguments)
        parallelism = rest.pop(0) if rest and isinstance(rest[0], int) else None
        if len(rest) > 1:
            raise ArgumentTypeError(
                f"createLocalEnvironment takes a parallelism and a configuration, got {arguments!r}"
            )
        return self._made("createLocalEnvironment", rest[0] if rest else None, parallelism)

    def _made(self, method: str, configuration: Any, parallelism: int | None) -> JavaEnvironment:
        what = f"StreamExecutionEnvironment.{method}"
        options = None if configuration is None else python_configuration(configuration, what)
        environment = StreamExecutionEnvironment.get_execution_environment(options)
        if parallelism is not None:
            environment.set_parallelism(parallelism)
        return JavaEnvironment(environment)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise no_java_method("StreamExecutionEnvironment", name, _INSTEAD)


def _new_configuration(other: JavaConfiguration | None = None) -> JavaConfiguration:
    copied = None if other is None else python_configuration(other, "Configuration")
    return JavaConfiguration(Configuration(copied))


_CLASSES = {
    "org.apache.flink.streaming.api.environment.StreamExecutionEnvironment": JavaEnvironmentClass(),
    "org.apache.flink.configuration.Configuration": _new_configuration,
}


class JavaPackage:
    """A package of Java's, whose attributes are packages and classes.

    Args:
        name: its full name; "" for the one above all.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        full = f"{self._name}.{name}".lstrip(".")
        if full in _CLASSES:
            return _CLASSES[full]
        if name[:1].isupper():
            there = homes().get(name)
            instead = f"from {there} import {name}" if there else "the classes of common and datastream"
            raise no_java(full, "a Java class", instead)
        return JavaPackage(full)


class JavaGateway:
    """What `get_gateway` gives."""

    jvm = JavaPackage()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise no_java_method("JavaGateway", name, "Python's own objects")


_GATEWAY = JavaGateway()


def get_gateway() -> JavaGateway:
    """What stands for the gateway to Flink's Java process."""
    return _GATEWAY
