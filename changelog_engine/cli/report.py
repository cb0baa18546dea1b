"""``changelog-engine report``: a job's page as one file."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click

from changelog_engine.cli.options import PATH, at_option, most_option
from changelog_engine.connectors.packages import Package
from changelog_engine.display import printable
from changelog_engine.errors import ConfigurationError
from changelog_engine.readable import size_text

_PACKAGE = Package("the report needs", "jinja2", "ui", "jinja2")


@click.command()
@click.argument("path", type=PATH)
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@at_option
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="Also show what differs between two points; B may be a point of another job, OTHER@POINT.",
)
@most_option(
    "Show at most this many entries of each state. 0 leaves out entries and the messages of errors: for readers who may not "
    "see data.",
    10,
    "--entries",
    least=0,
    most=1_000,
)
@most_option(
    "How many of the newest checkpoints are listed; the timeline has all of them.",
    100,
    "--checkpoints",
    most=10_000,
)
@click.option("--force", is_flag=True, help="Write over OUT if it is there.")
def report(
    path: str,
    out: Path,
    at: str | None,
    compare: tuple[str, str] | None,
    entries: int,
    checkpoints: int,
    force: bool,
) -> None:
    """Write a job's page into one file: timeline, checkpoints, states, differences, attempts, commands.

    PATH is the folder of a job or savepoint, <base>/<job>, or the changelog folder in it; OUT an HTML file. It needs no
    server, no network and nothing beside it, so it can be kept and sent. It only reads the job.
    """
    _PACKAGE.load()
    from changelog_engine.ui.report import make_report

    _reserve(out, force)
    try:
        made = make_report(path, at=at, compare=compare, entries=entries, checkpoints=checkpoints)
        # Half a surrogate pair in a name of the job's has no bytes of its own.
        data = made.html.encode("utf-8", "backslashreplace")
        _write(out, data)
    except BaseException:
        if not force:
            _remove(out)
        raise
    click.echo(printable(f"{out}: {size_text(len(data))}, job {made.job!r} at checkpoint {made.checkpoint}"))
    if made.faults:
        for fault in made.faults:
            click.echo(printable(fault), err=True)
        click.get_current_context().exit(1)


def _reserve(out: Path, force: bool) -> None:
    """Before the work, and so that of two reports at once only one takes a name."""
    if force:
        return
    try:
        out.touch(exist_ok=False)
    except FileExistsError:
        raise ConfigurationError(
            f"{out} is there already: give another name, or --force to write over it"
        ) from None
    except OSError as error:
        raise _unwritable(out, error) from error


def _write(out: Path, data: bytes) -> None:
    """All of it or nothing: what is there stays until the new file is whole."""
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(out)
    except OSError as error:
        raise _unwritable(out, error) from error
    finally:
        _remove(beside)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # what failed before says more
        path.unlink()


def _unwritable(out: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{out} cannot be written: {error.strerror or error}. Give a file in a folder that is there and yours"
    )
