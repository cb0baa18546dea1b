"""What the subcommands print tables with."""

from __future__ import annotations

import sys

from rich import box
from rich.console import Console
from rich.table import Table

_PIPE_WIDTH = 200  # columns when nobody looks: values are not cut for a terminal that isn't there


def table_of(*names: str, right: int = 0) -> Table:
    """An empty table whose first ``right`` columns are set right."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for index, name in enumerate(names):
        table.add_column(name, justify="right" if index < right else "left", overflow="fold")
    return table


def console() -> Console:
    """Standard output as wide as its terminal."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)
