"""TableConfig: the setting of it that programs of streams name."""

from __future__ import annotations

from changelog_engine.config.names import names_of

from .._arguments import checked
from .._unsupported import NamesOfPyFlink


@checked
class TableConfig(NamesOfPyFlink):
    """Settings of a table program. There is no Table API here, so they reach no job.

    Example:
        >>> config = TableConfig()
        >>> config.set_python_executable("/usr/local/bin/python3")
        >>> config.get_python_executable()
        '/usr/local/bin/python3'
    """

    _not_here = names_of(
        "add_configuration get get_configuration get_default get_idle_state_retention get_local_timezone "
        "get_max_generated_code_length get_max_idle_state_retention_time get_min_idle_state_retention_time "
        "get_null_check get_sql_dialect set set_idle_state_retention set_idle_state_retention_time "
        "set_local_timezone set_max_generated_code_length set_null_check set_sql_dialect"
    )

    def __init__(self) -> None:
        self._python_executable: str | None = None

    def set_python_executable(self, python_exec: str) -> None:
        """Keep the interpreter of a table program's workers.

        Jobs of streams take theirs from ``StreamExecutionEnvironment.set_python_executable``.

        Args:
            python_exec: path of the interpreter.
        """
        self._python_executable = python_exec

    def get_python_executable(self) -> str | None:
        """The interpreter that was set; None by default."""
        return self._python_executable
