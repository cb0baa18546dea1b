"""How every command that answers a question shows its answer: as tables, JSON or CSV.

Invariant: no text of a job, its operators, states, keys or values reaches the terminal with control characters.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import re
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import click
from rich.table import Table
from rich.text import Text

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.cli.console import console, records, table_of, width_of
from changelog_engine.display import Grid, Literal, Measure, cell_text, printable
from changelog_engine.inspection.states import EntriesAt
from changelog_engine.inspection.values import as_json
from changelog_engine.types.typeinfo import shown

_FEW_COLUMNS = 2  # of a table that is as good as records


class Answer(NamedTuple):
    """What a command found.

    Args:
        document: all of it, for JSON: dataclasses, dicts, lists.
        grids: for people; CSV has the first.
        faults: what could not be read, which stands below the notes; the exit status tells it, too.
    """

    document: Any
    grids: Sequence[Grid]
    head: Sequence[str] = ()
    notes: Sequence[str] = ()
    status: int = 0
    faults: Sequence[str] = ()


class TakesPoints(click.Command):
    """A command with points as arguments: -2 is one of them, and no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give click the options first, and behind ``--`` all else."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        valued = {name for each in options if not each.is_flag for name in each.opts}
        first: list[str] = []
        places: list[str] = []
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                places += rest
            elif len(arg) > 1 and arg.startswith("-") and not re.fullmatch(r"-\d+", arg):
                value = [*islice(rest, 1)] if arg in valued else []
                if value or arg not in valued:
                    first += [arg, *value]
                elif not ctx.resilient_parsing:  # else the shell completes what is to follow
                    raise click.BadOptionUsage(arg, f"Option {arg!r} requires an argument.", ctx)
            else:
                places.append(arg)
        return super().parse_args(ctx, [*first, "--", *places] if places else first)


def shows(command: Callable[..., Answer]) -> Callable[..., None]:
    """Give a command the options --json and --csv, and show what it returns."""

    @click.option("--json", "as_json_", is_flag=True, help="Print the answer as JSON.")
    @click.option("--csv", "as_csv", is_flag=True, help="Print the first table as CSV.")
    @functools.wraps(command)
    def shown(as_json_: bool, as_csv: bool, **arguments: Any) -> None:
        if as_json_ and as_csv:
            raise click.UsageError("--json and --csv are two forms: give one of them")
        sys.set_int_max_str_digits(0)  # a state may have longer ones
        answer = command(**arguments)
        if as_json_:
            click.echo(json.dumps(as_json(answer.document), indent=2))
        elif as_csv:
            click.echo(_csv(answer.grids[0]), nl=False)
        else:
            _print(answer)
        sys.exit(answer.status or bool(answer.faults))

    return shown


def identified(checkpoint: Checkpoint) -> dict[str, object]:
    """What documents say of a checkpoint beside its contents."""
    return {"checkpoint": checkpoint.id, "attempt": checkpoint.attempt, "time_ms": checkpoint.time_ms}


def _print(answer: Answer) -> None:
    screen = console()
    for line in answer.head:
        click.echo(printable(line))
    spared: list[str] = []
    for grid in answer.grids:
        if grid.rows:
            table, without = _table(grid, screen.width)
            spared += without
            if screen.is_terminal:
                screen.print(table)
                continue
            with screen.capture() as captured:
                screen.print(table)
            click.echo("\n".join([line.rstrip() for line in captured.get().splitlines()]))
    if spared:
        click.echo(f"too narrow for {', '.join(spared)}: a wider terminal, --csv and --json show them")
    for line in (*answer.notes, *answer.faults):
        click.echo(printable(line))


def _table(grid: Grid, width: int) -> tuple[Table, list[str]]:
    """A grid as a table in which no word is torn, and the columns it goes without; as records where no table has room."""
    every = [
        [name, *cells]
        for name, *cells in zip(
            grid.columns, *([printable(cell_text(cell)) for cell in row] for row in grid.rows), strict=True
        )
    ]
    columns = list(every)
    right, spare, spared = grid.right, iter(grid.spare), []
    while True:
        widths = [width_of(name, cells) for name, *cells in columns]
        if sum(widths) + 3 * len(widths) <= width:  # with what stands between columns
            break
        if (name := next(spare, None)) is None:
            widths = []
            break
        place = [each[0] for each in columns].index(name)
        right -= place < right
        del columns[place]
        spared.append(name)
    as_records = not widths and len(columns) > _FEW_COLUMNS
    if as_records:  # which have room for each field
        columns, spared = every, []
    names = [each[0] for each in columns]
    rows = [*zip(*(each[1:] for each in columns), strict=True)]
    if not as_records:
        table = table_of(*names, right=right, widths=widths)
    else:
        table, rows = records(), [pair for row in rows for pair in [*zip(names, row, strict=True), ("", "")]]
    for row in rows:
        table.add_row(*[Text(text) for text in row])
    return table, spared


def _csv(grid: Grid) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.replace(" (UTC)", "") for column in grid.columns])
    for row in grid.rows:
        writer.writerow([printable(_plain(cell)) for cell in row])
    return text.getvalue()


def _plain(cell: Any) -> str:
    if isinstance(cell, Literal):
        return json.dumps(as_json(cell.value))
    if isinstance(cell, Measure):
        return cell.plain()
    return "" if cell is None else str(cell)


def missed_lines(found: EntriesAt, key: str) -> list[str]:
    """What to say instead of a key that is not there: of each operator, the type of its keys and those that are nearest."""
    lines, none = [f"no entry has the key {key}"], "none is shown" if found.withheld else "there is none"
    for miss in found.missed:
        nearest = ", ".join([shown(each) for each in miss.nearest])
        near = f"the nearest of {miss.keys:,}: {nearest}" if miss.keys else none
        lines.append(f"the keys of {miss.operator!r} are {miss.key_type}; {near}")
    return lines


def withheld_lines(found: EntriesAt) -> list[str]:
    """What to say of each state that is left out."""
    return [withheld_line(uid, state, why) for (uid, state), why in found.withheld.items()]


def withheld_line(uid: str, state: str, why: str) -> str:
    """What to say of a state that is left out."""
    return f"{state!r} of {uid!r} {why}: --allow-pickle shows it, for jobs of your own"
