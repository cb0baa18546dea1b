"""``changelog-engine ui``: the page over the jobs below a base path, in a browser."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import click

from changelog_engine.cli.options import PATH, entries_option
from changelog_engine.connectors.packages import Package
from changelog_engine.errors import ConfigurationError, StorageError
from changelog_engine.ledger.job_path import nearest_hint, refuse_file
from changelog_engine.storage.opening import open_storage

_PACKAGES = tuple(Package("the page needs", name, "ui", name) for name in ("starlette", "uvicorn", "jinja2"))

_END_S = 3.0


@click.command()
@click.argument("path", metavar="BASE_OR_PATH", type=PATH)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8765,
    show_default=True,
    help="Port to listen on; 0 for any that is free.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="A host name of this machine that browsers use, when --host is not the loopback. May be repeated.",
)
@click.option(
    "--script",
    metavar="SCRIPT",
    type=click.Path(exists=True, dir_okay=False, path_type=str),
    help="The jobs' program. With it the page also shows which record made a change; to find that out, the script is run in "
    "a process of its own, up to its execute().",
)
@entries_option("With --script: an option by its key. May be repeated.")
@click.option("--until-eof", is_flag=True, hidden=True, help="End when standard input ends.")
@click.option("--open", "opens", is_flag=True, help="Open the page in this machine's browser.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]...")
def ui(
    path: str,
    host: str,
    port: int,
    names: tuple[str, ...],
    opens: bool,
    script: str | None,
    entries: tuple[str, ...],
    until_eof: bool,
    arguments: tuple[str, ...],
) -> None:
    """Look at jobs in the browser: their checkpoints, state at any moment, differences, the life of a key.

    BASE_OR_PATH is a base path with jobs below it, or a job's folder. The page only reads, and may be open while jobs run.
    On another address than the loopback it asks for a token, which is in the address that is printed. ARGUMENTS are those of
    the --script.
    """
    if script is None and (entries or arguments):
        raise click.UsageError("-D and ARGUMENTS go with --script")
    base = open_storage(path)
    refuse_file(base)
    if script is None and not base.exists():  # that of a script may be made yet
        raise StorageError(f"{base.root}: no such folder{nearest_hint(base)}")
    server = page_server(path, host, port, names, script, arguments, entries)
    click.echo(f"{server.address.url}  (Ctrl-C ends it)")
    if opens:
        click.launch(server.address.url)
    if until_eof:
        threading.Thread(target=_stop_at_eof, args=(server,), daemon=True).start()
    server.run()


def _stop_at_eof(server: Any) -> None:
    sys.stdin.read()
    server.stop()


@contextlib.contextmanager
def page_beside(
    base: str, script: str | None = None, arguments: Sequence[str] = (), entries: Sequence[str] = ()
) -> Iterator[str]:
    """A page in a process of its own, which ends with the block and with this process, whichever is first.

    Args:
        script: the jobs' program; None: the page runs nothing.

    Yields:
        Its address.

    Raises:
        ConfigurationError: the packages that it needs are not installed, or it ended before it listened.
    """
    missing = page_needs()
    if missing is not None:
        raise ConfigurationError(missing)
    command = [sys.executable, "-m", "changelog_engine", "ui", "--port", "0", "--until-eof"]
    if script is not None:
        command += ["--script", script, *(word for entry in entries for word in ("-D", entry))]
    command += ["--", base, *arguments]
    # A session of its own: Ctrl-C stops the job, and the page shows how it stops.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split(" ")[0].strip()
            if not address:
                raise ConfigurationError("the page did not start; its message stands above")
            yield address
        finally:
            process.stdin.close()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:  # a forked child holds the pipe open, or it reads a large state
                process.kill()


def page_needs() -> str | None:
    """Which package the page lacks, and how to install it; None: it has all of them."""
    return next((each.advice for each in _PACKAGES if not each.is_here()), None)


def page_server(
    path: str,
    host: str = "127.0.0.1",
    port: int = 0,
    names: tuple[str, ...] = (),
    script: str | None = None,
    arguments: tuple[str, ...] = (),
    entries: tuple[str, ...] = (),
) -> Any:
    """A ``ui.serving.PageServer``; script, arguments and entries as ``page_beside``.

    Raises:
        ConfigurationError: the packages that it needs are not installed.
    """
    for each in _PACKAGES:
        each.load()
    from changelog_engine.ui.explaining import Program
    from changelog_engine.ui.serving import PageServer

    program = None if script is None else Program(script, arguments, entries)
    return PageServer(path, host, port, names, program)
