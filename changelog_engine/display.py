"""Answers as people see them, and how Python shows them by itself: tables in a notebook, text on a terminal.

The console's commands fit the same tables to its width (``cli/shown.py``).

Invariants:
    * All that comes out of a job is escaped, in HTML for the browser, in text for the terminal.
    * What is shown is bounded, in rows and in characters of a value. What is left out is counted.
    * Colours are the notebook's own, light or dark: nothing here sets one.
"""

from __future__ import annotations

import html
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from changelog_engine.config.numbers import is_number
from changelog_engine.readable import iso, per_second, size_text
from changelog_engine.types.typeinfo import cut, shown

MOST_ROWS = 20
_MOST_LINES = 200
_CELL = 300  # characters
_FEW = 20  # elements
_COLUMN = 40  # characters of a column of a table in text
_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace"
_EDGE = "border-bottom:1px solid rgba(128,128,128,.35)"


class Literal(NamedTuple):
    """A key or value of a job: shown as Python writes it."""

    value: Any

    def text(self) -> str:
        """The beginning of a long one. Of a long list not all is made."""
        value = self.value
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes, tuple)) and len(value) > _CELL:
            return f"[{', '.join([shown(each) for each in value[:_FEW]])}, ... {len(value):,} elements]"
        text = shown(value, sys.maxsize)
        return text if len(text) <= _CELL else f"{text[:_CELL]}... ({len(text):,} characters)"


@dataclass(frozen=True)
class Measure(ABC):
    """A number that people read in another form than programs do; None where it is not known."""

    number: float | None

    def text(self) -> str:
        """As people read it."""
        return "-" if self.number is None else self._people(self.number)

    def plain(self) -> str:
        """As programs read it."""
        return "" if self.number is None else self._programs(self.number)

    @abstractmethod
    def _people(self, number: float) -> str: ...

    def _programs(self, number: float) -> str:
        return str(number)


class When(Measure):
    """A time, epoch milliseconds."""

    def _people(self, number: float) -> str:
        return iso(number)

    _programs = _people


class Size(Measure):
    """A number of bytes."""

    def _people(self, number: float) -> str:
        return size_text(number)


class Rate(Measure):
    """A number in a second."""

    def _people(self, number: float) -> str:
        return per_second(number)

    def _programs(self, number: float) -> str:
        return f"{number:.3f}"


def cell_text(cell: Any) -> str:
    """A cell as people read it."""
    if isinstance(cell, (Literal, Measure)):
        return cell.text()
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


class Grid(NamedTuple):
    """A table.

    Args:
        rows: cells: texts, numbers, None, ``Literal`` or ``Measure``. Python shows at most ``MOST_ROWS``, the console all.
        total: how many rows there are in all; None for as many as are given.
        newest: whether the last rows are shown where they are too many, and not the first.
        right: how many of the first columns the console aligns right.
        spare: columns that a console too narrow for all goes without, the first of them first.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    total: int | None = None
    newest: bool = False
    name: str = ""
    right: int = 0
    spare: Sequence[str] = ()

    def only(self, *names: str) -> Grid:
        """Some of the columns, in this order, aligned left."""
        at = [list(self.columns).index(name) for name in names]
        return self._replace(columns=names, rows=[[row[n] for n in at] for row in self.rows], right=0)

    def kept(self) -> Sequence[Sequence[Any]]:
        """The rows that are shown."""
        return self.rows[-MOST_ROWS:] if self.newest else self.rows[:MOST_ROWS]

    def note(self) -> str:
        """What is said of rows that are left out; empty for none."""
        total, kept = len(self.rows) if self.total is None else self.total, len(self.kept())
        return "" if kept >= total else f"the {'newest' if self.newest else 'first'} {kept} of {total:,}"


class Document(NamedTuple):
    """An answer.

    Args:
        grids: tables; those without rows are left out.
        text: lines that are shown as they are, behind the tables.
    """

    title: str
    facts: Sequence[str] = ()
    grids: Sequence[Grid] = ()
    text: str = ""


class Displayed(ABC):
    """What Python shows by itself: ``repr`` on a terminal, ``_repr_html_`` in a notebook."""

    @abstractmethod
    def display(self) -> Document:
        """What is shown."""

    def __repr__(self) -> str:
        return text_of(self.display())

    def _repr_html_(self) -> str:
        return html_of(self.display())


def printable(text: str) -> str:
    r"""Text without control characters.

    Example:
        >>> printable("a" + chr(27) + "[2J")
        'a\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def html_of(document: Document) -> str:
    """A document as a piece of HTML."""
    lines = [f"<div><b>{_escaped(document.title)}</b>"]
    lines += [f"<br><small>{_escaped(fact)}</small>" for fact in document.facts]
    for grid in document.grids:
        if grid.rows:
            lines += _html_table(grid)
    if document.text:
        text = "\n".join(_bounded(document.text))
        lines.append(f'<pre style="{_MONO};max-height:30em;overflow:auto">{_escaped(text)}</pre>')
    return "\n".join([*lines, "</div>"])


def _html_table(grid: Grid) -> Iterator[str]:
    if grid.name:
        yield f"<p><b>{_escaped(grid.name)}</b></p>"
    yield '<div style="max-height:30em;overflow:auto"><table style="border-collapse:collapse">'
    heads = "".join(
        f'<th style="text-align:left;padding:2px 10px;{_EDGE}">{_escaped(name)}</th>' for name in grid.columns
    )
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for row in grid.kept():
        cells = "".join(
            f'<td style="text-align:{"right" if is_number(cell) else "left"};padding:2px 10px;vertical-align:top;{_EDGE}'
            f'{";" + _MONO if isinstance(cell, Literal) else ""}">{_escaped(_cell(cell))}</td>'
            for cell in row
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div>"
    if grid.note():
        yield f"<small>{_escaped(grid.note())}</small>"


def text_of(document: Document) -> str:
    """A document as lines of text."""
    lines = [document.title, *document.facts]
    for grid in document.grids:
        if grid.rows:
            lines += _text_table(grid)
    if document.text:
        lines += _bounded(document.text)
    return printable("\n".join(lines))


def _text_table(grid: Grid) -> Iterator[str]:
    yield ""
    if grid.name:
        yield grid.name
    rows = [list(grid.columns), *([_cell(cell).replace("\n", " ") for cell in row] for row in grid.kept())]
    last = len(grid.columns) - 1
    cells = [
        [printable(cut(cell, _CELL if n == last else _COLUMN)) for n, cell in enumerate(row)] for row in rows
    ]
    widths = [max(len(row[n]) for row in cells) for n in range(last + 1)]
    right = [all(is_number(row[n]) for row in grid.kept()) for n in range(last + 1)]
    for row in cells:
        padded = [
            cell.rjust(width) if aligned else cell.ljust(width)
            for cell, width, aligned in zip(row, widths, right, strict=True)
        ]
        yield "  ".join(padded).rstrip()
    if grid.note():
        yield grid.note()


def _bounded(text: str) -> list[str]:
    lines = text.splitlines()
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"... and {more:,} more lines"]


def _cell(cell: Any) -> str:
    return cell_text(cell) if isinstance(cell, Literal) else cut(cell_text(cell), _CELL)


def _escaped(text: str) -> str:
    return html.escape(printable(text))
