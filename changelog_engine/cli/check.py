"""``changelog-engine run --check``: what of a script will work here, by its lines; nothing of it is run."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable

import click
from rich.text import Text

from changelog_engine.cli.console import console
from changelog_engine.display import printable
from changelog_engine.readable import counted
from changelog_engine.static_check import Finding, Level, NotReadableError, Report, check_program

ERRORS = 1
_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan"}
_MOST_LINES = 10  # that the summary names


class _Unreadable(click.ClickException):
    exit_code = 2


def check(script: str, as_json: bool) -> int:
    """Print what a check finds; the exit status: 1 when something will fail.

    Raises:
        click.ClickException: the script or a module beside it cannot be read; exit status 2.
    """
    try:
        report = check_program(script)
    except NotReadableError as error:
        raise _Unreadable(printable(str(error))) from None
    if as_json:
        click.echo(json.dumps(_as_json(report), indent=2))
    else:
        _print(report)
    return ERRORS if report.count(Level.ERROR) else 0


def _print(report: Report) -> None:
    screen = console()
    for finding in report.in_order():
        place = f"{finding.file}:{finding.line}: "
        text = f"{place}{finding.level.value}: {finding.message}"
        shown = Text("\n".join(_wrapped(text, screen.width)))
        shown.stylize(_STYLES[finding.level], len(place), len(place) + len(finding.level.value))
        screen.print(shown, soft_wrap=True)
    for line in _summary(report):
        screen.print(Text("\n".join(_wrapped(line, screen.width))), soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a text; one line where nobody looks, so that it can be searched."""
    text = printable(text)
    if not sys.stdout.isatty():
        return [text]
    return textwrap.wrap(
        text, max(40, width), subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _summary(report: Report) -> Iterable[str]:
    modules = len(report.files) - 1
    beside = "" if not modules else f" and {counted(modules, 'module')} beside it"
    yield (
        f"looked at {report.files[0]}{beside}: {counted(len(report.imports), 'import')} and "
        f"{counted(len(report.uses), 'use')} of the API; {counted(report.count(Level.ERROR), 'error')}, "
        f"{counted(report.count(Level.WARNING), 'warning')}, {counted(report.count(Level.NOTE), 'note')}"
    )
    if report.unknown:
        calls = len(report.unknown)
        values = "a value whose type isn't" if calls == 1 else "values whose types aren't"
        places = list(dict.fromkeys(f"{file}:{line}" for file, line, _ in sorted(report.unknown)))
        more = f" and {len(places) - _MOST_LINES} more" if len(places) > _MOST_LINES else ""
        yield f"not checked: {counted(calls, 'call')} on {values} known here ({', '.join(places[:_MOST_LINES])}{more})"


def _as_json(report: Report) -> dict[str, object]:
    return {
        "files": report.files,
        "findings": [_finding(each) for each in report.in_order()],
        **{f"{level.value}s": report.count(level) for level in Level},
        "imports": len(report.imports),
        "uses": len(report.uses),
        "not_checked": [{"file": file, "line": line} for file, line, _ in sorted(report.unknown)],
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "level": finding.level.value,
        "file": finding.file,
        "line": finding.line,
        "message": finding.message,
    }
