"""What the subcommands print tables with."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table

_PIPE_WIDTH = 200  # columns when nobody looks: values are not cut for a terminal that isn't there

_WORD = 14  # characters; longer words, such as paths, are torn where the terminal is narrow


def table_of(*names: str, right: int = 0, widths: Sequence[int] = ()) -> Table:
    """An empty table.

    Args:
        right: how many of the first columns are aligned right.
        widths: how many characters each column has at least; all together fit the terminal. None when left out.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for index, name in enumerate(names):
        justify: JustifyMethod = "right" if index < right else "left"
        least = widths[index] if widths else None
        table.add_column(name, justify=justify, overflow="fold", min_width=least)
    return table


def records() -> Table:
    """An empty table of records, one field a line: its name, and what it is."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 1), pad_edge=True)
    for _ in range(2):
        table.add_column(overflow="fold")
    return table


def width_of(name: str, cells: Iterable[str]) -> int:
    """How wide a column must be so that no word of it is torn, up to a limit.

    Example:
        >>> width_of("time (UTC)", ["2026-11-23 17:16:11.596"])
        12
    """
    words = (len(word) for text in (name, *cells) for word in text.split())
    return min(max(words, default=1), _WORD)


def console() -> Console:
    """Standard output as wide as its terminal: rich takes it that one which moves no cursor has 80 columns."""
    if not sys.stdout.isatty():
        return Console(width=_PIPE_WIDTH, highlight=False)
    width, height = shutil.get_terminal_size()
    return Console(width=width, height=height, highlight=False)
