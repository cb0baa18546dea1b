"""``changelog-engine run``: a PyFlink script as it is, run by this engine.

Invariants:
    * What is wrong with the command line or the configuration is found before the script begins: one line, exit status 2.
    * The script's own exit status is the command's. A failed job is its message and 1; Ctrl-C is a clean stop and 130.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import click

from changelog_engine.api_names import explained
from changelog_engine.cli.check import check
from changelog_engine.cli.command_line import RefusedError, options_by_key, use
from changelog_engine.cli.completion import complete_job
from changelog_engine.cli.options import arguments_argument, entries_option, name_option, script_argument
from changelog_engine.cli.ui import page_beside
from changelog_engine.config import outer_layers
from changelog_engine.config.observing_options import PROGRESS
from changelog_engine.display import printable
from changelog_engine.errors import (
    ChangelogEngineError,
    JobCancelledError,
    JobExecutionError,
    JobInterruptedError,
)
from changelog_engine.graph.unexecuted import note_of, watching
from changelog_engine.in_process.capture import without_spark
from changelog_engine.launcher import run_program
from changelog_engine.launcher.program import no_script, script_frames
from changelog_engine.launcher.project_root import import_at, project_root, without_dots
from changelog_engine.launcher.standard_streams import tell
from changelog_engine.ledger.points import FORMS


class _OneLine(click.Command):
    """A command whose usage errors are one line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            raise RefusedError(f"{error.format_message()} Try '{ctx.command_path} --help'") from None
        except click.UsageError as error:
            raise RefusedError(error.format_message()) from None


@click.command(
    cls=_OneLine,
    context_settings={"allow_interspersed_args": False, "max_content_width": 100},
    options_metavar="[OPTIONS]",
)
@click.option(
    "--restore",
    metavar="POINT",
    help="Where the run begins: auto (the default: from the newest checkpoint of an attempt that did not finish), none "
    f"(empty), or a point of the job: {FORMS}.",
)
@click.option(
    "-p",
    "--parallelism",
    metavar="N",
    type=click.IntRange(1, 32_768),
    help="Parallelism of jobs that set none.",
)
@click.option("--master", metavar="URL", help="Spark master, such as local[4] or spark://host:7077.")
@click.option(
    "--job",
    metavar="NAME",
    shell_complete=complete_job,
    help="Name of the script's one job, in place of the one that its execute() gives: to run a fork.",
)
@name_option
@entries_option("An option by its key, such as state.changelog.enabled=true. May be repeated.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress on standard error.")
@click.option(
    "--check",
    "checks",
    is_flag=True,
    help="Run nothing, and say which lines of the script will work here and which will not. The exit status is 1 when "
    "something will fail.",
)
@click.option(
    "--without-spark",
    "in_process",
    is_flag=True,
    help="Run the script's jobs in this process, one subtask after the other, without Spark and Java: to try a script out.",
)
@click.option(
    "--ui",
    "shows",
    is_flag=True,
    help="Show the jobs of the base path in the browser while the script runs; the address is printed.",
)
@click.option("--json", "as_json", is_flag=True, help="With --check: print what it finds as JSON.")
@script_argument
@arguments_argument
def run(
    script: str,
    arguments: tuple[str, ...],
    entries: tuple[str, ...],
    checks: bool,
    as_json: bool,
    quiet: bool,
    in_process: bool,
    shows: bool,
    **given: Any,
) -> None:
    """Run a PyFlink DataStream script as it is.

    In the script and in the workers `pyflink` means this engine's API; PyFlink need not be installed, and one that is
    installed is left alone. Options stand before SCRIPT, and `--` may end them; what follows SCRIPT is the script's own.

    What the script says in code wins over these options, and they win over the file that CHANGELOG_ENGINE_CONF names.
    """
    _note_misplaced(script, arguments)
    problem = no_script(script)
    if problem is not None:
        raise RefusedError(problem)
    if as_json and not checks:
        raise RefusedError("--json goes with --check")
    if in_process and given["master"] is not None:
        raise RefusedError("--master is Spark's and --without-spark runs none: leave one of them out")
    configuration = options_by_key(given, entries)
    if quiet:
        if PROGRESS.key in configuration:
            raise RefusedError(f"--quiet and -D {PROGRESS.key} say the same: leave one of them out")
        configuration[PROGRESS.key] = "never"
    use(configuration)
    if checks:
        for other in arguments:
            if other.endswith(".py") and Path(other).is_file():
                tell(f"note: {other} is taken for an argument of {script}: check one script at a time")
        sys.exit(check(script, as_json))
    with contextlib.ExitStack() as stack:
        if shows:
            _show_page(stack, script, arguments, configuration)
        if in_process:
            stack.enter_context(without_spark())
        _run(script, arguments)


def _note_misplaced(script: str, arguments: tuple[str, ...]) -> None:
    """Say which arguments of the script's own look like options of ``run``, where the script does not know them."""
    ours = {name for option in run.params for name in option.opts if name.startswith("--")}
    given = [name for each in arguments if (name := each.partition("=")[0]) in ours]
    with contextlib.suppress(OSError):
        text = Path(script).read_bytes() if given else b""
        for name in given:
            if name.encode() not in text:
                told = f"note: {name} stands behind SCRIPT, so it is the script's own argument"
                tell(f"{told}; as an option of `run` it stands before it")


# What a replay has no use for.
_RUNS_ONLY = ("changelog.restore", "spark.master", PROGRESS.key)


def _show_page(
    stack: contextlib.ExitStack, script: str, arguments: tuple[str, ...], configuration: dict[str, str]
) -> None:
    base = outer_layers().base_path()
    try:
        entries = [f"{key}={text}" for key, text in configuration.items() if key not in _RUNS_ONLY]
        address = stack.enter_context(page_beside(base, script, arguments, entries))
    except ChangelogEngineError as error:
        raise RefusedError(printable(str(error))) from None
    tell(f"{address} shows the jobs of {printable(base)}")


def _run(script: str, arguments: tuple[str, ...]) -> None:
    try:
        with watching() as waiting:
            run_program(script, arguments)
        if unexecuted := [operator.name for each in waiting for operator in each]:
            tell(note_of(unexecuted))
        _tell_failed()
    except KeyboardInterrupt:
        _stop_jobs()
        sys.exit(JobInterruptedError.code)
    except JobInterruptedError as error:
        sys.exit(error.code)
    except JobCancelledError as error:
        tell(f"{printable(str(error))}")
        sys.exit(JobInterruptedError.code)
    except Exception as error:
        _fail(error, script)


def _tell_failed() -> None:
    """End with what failed in the background, of which the script did not ask."""
    launch = sys.modules.get("changelog_engine.launch")
    failures = [] if launch is None else launch.untold_failures()
    for failure in failures:
        tell(f"Error: {printable(failure)}")
    if failures:
        sys.exit(1)


def _stop_jobs() -> None:
    """After Ctrl-C outside of execute(): let the jobs in the background make their last checkpoint."""
    launch = sys.modules.get("changelog_engine.launch")
    jobs = list(launch.RUNNING) if launch is not None else []
    if not jobs:
        return
    with contextlib.suppress(KeyboardInterrupt):
        for job in jobs:
            job.stop()
        tell("stopping after the next checkpoint; press Ctrl-C again to stop at once")
        for job in jobs:
            try:
                last = job.wait().last_checkpoint
            except ChangelogEngineError as error:
                tell(f"Error: {printable(str(error))}")
            else:
                after = "" if last is None else f" after checkpoint {last}"
                tell(f"job {job.name!r} stopped{after}; run it again to go on from there")


def _fail(error: Exception, script: str) -> NoReturn:
    """Say what went wrong and end: the engine's errors as messages, others as Python would show them."""
    frames = script_frames(error, script)
    if isinstance(error, ImportError):
        error = explained(error)
    if isinstance(error, ChangelogEngineError):
        message = f"Error: {printable(str(error))}"
        if frames is not None and not isinstance(error, JobExecutionError):
            last = [frame for frame in traceback.extract_tb(frames) if frame.filename == script][-1]
            message += f"\n  in {script}, line {last.lineno}: {last.line}"
        tell(message)
    else:
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        if isinstance(error, ModuleNotFoundError) and error.name:
            root = project_root(script, error.name)
            if root is not None:
                tell(f"{error.name} is in {root}: set PYTHONPATH={root}, and run it again")
        elif isinstance(error, ImportError) and frames is not None and frames.tb_next is None:
            asked = import_at(script, frames.tb_lineno)
            if asked is not None and asked.level:
                tell(f"{script}, line {asked.lineno}: {without_dots(script, asked)}")
    sys.exit(1)
