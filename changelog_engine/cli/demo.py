"""``changelog-engine demo``: what this is, in half a minute, without Spark and without a file of one's own."""

from __future__ import annotations

import contextlib
import shlex
import sys
import threading
from pathlib import Path

import click

from changelog_engine.cli import program
from changelog_engine.cli.console import console
from changelog_engine.cli.ui import page_beside, page_needs
from changelog_engine.config.paths import absolute_path
from changelog_engine.demo.folder import JOBS, demo_folder
from changelog_engine.demo.steps import SMALL, WHOLE, Demo, shown_from_here
from changelog_engine.display import printable
from changelog_engine.errors import ConfigurationError, JobInterruptedError
from changelog_engine.java import check_java
from changelog_engine.launcher.standard_streams import tell


@click.command()
@click.option("--small", is_flag=True, help="Run a sixth of it, which takes some 15 s.")
@click.option("--spark", is_flag=True, help="Run the job by Spark, which needs Java.")
@click.option("--ui", "shows", is_flag=True, help="At the end, show the job in the browser.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("changelog-demo"),
    show_default=True,
    help="Where its files lie; what an earlier demo left there is removed.",
)
def demo(small: bool, spark: bool, shows: bool, folder: Path) -> None:
    """Run a job, kill it with kill -9, let it go on, and compare its state with what a plain loop counts.

    The job counts the payments of some thousand accounts, in a process of its own. What it leaves stays: the other commands
    and the page show it. The exit status is 0 when no payment was lost and none counted twice, else 1.
    """
    missing = page_needs()
    if shows and missing is not None:
        raise ConfigurationError(missing)
    if spark:
        check_java()
    folder = Path(absolute_path(str(folder))).resolve()
    base = folder / JOBS
    try:
        with demo_folder(folder), contextlib.ExitStack() as stack:
            if shows:
                address = stack.enter_context(page_beside(str(base)))
                click.echo(f"{address} shows the job while it runs")
            verdict = Demo(folder, SMALL if small else WHOLE, spark, console(), _ask).run()
            page = f"changelog-engine ui {shlex.quote(shown_from_here(base))} --open"
            if shows:
                click.echo(f"\n{address} shows what is left until Ctrl-C; later: {page}")
                with contextlib.suppress(KeyboardInterrupt):
                    threading.Event().wait()
            click.echo(f"\nIn the browser: {page}" + ("" if missing is None else f"\n({missing})"))
    except KeyboardInterrupt:
        tell(f"stopped; what the job left is in {printable(str(folder))}")
        sys.exit(JobInterruptedError.code)
    sys.exit(0 if verdict.exact else 1)


def _ask(arguments: list[str]) -> None:
    """Run a command of this console, in this process."""
    try:
        program.main.main(arguments, prog_name="changelog-engine", standalone_mode=False)
    except SystemExit as ended:
        if ended.code:
            raise
