"""The one function of PyFlink's ``util.java_utils`` that programs use to set options."""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import ArgumentTypeError

from ..common._java_objects import JavaConfiguration
from ..datastream._java_environment import JavaEnvironment

__all__ = ["get_j_env_configuration"]


def get_j_env_configuration(j_env: JavaEnvironment) -> JavaConfiguration:
    """The options of an environment, for ``Configuration(j_configuration=...)``: what is set there holds for it.

    Args:
        j_env: ``env._j_stream_execution_environment``.

    Raises:
        ArgumentTypeError: anything else was given.
    """
    given: Any = j_env
    if not isinstance(given, JavaEnvironment):
        raise ArgumentTypeError(
            f"get_j_env_configuration needs env._j_stream_execution_environment, got {given!r}"
        )
    return j_env.getConfiguration()
