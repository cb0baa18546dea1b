"""The demo's steps: run the job, kill it with SIGKILL half-way, run it again, compare, look back in time."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from changelog_engine.clock import monotonic_s
from changelog_engine.config.paths import working_directory
from changelog_engine.demo.child import console_command, environment_of, process_of
from changelog_engine.demo.folder import DATA, JOB, JOBS, OUTPUT, SCRIPT, empty_job
from changelog_engine.demo.payments import AccountCount, count_payments, write_payments
from changelog_engine.demo.verdict import Verdict, accounts_of, compare
from changelog_engine.demo.watching import JobSeen, counters, look
from changelog_engine.display import printable
from changelog_engine.errors import JobExecutionError
from changelog_engine.readable import size_text

_WATCHED = 4
_POLL_S = 0.2
_UNCOMMITTED_S = 0.2  # from a checkpoint to the kill: work that is done again
_LONGEST_STANDSTILL_S = 240  # without a checkpoint
_TRIES = 3  # the job may end before it is killed, where this process waits for a processor
_LOG_LINES = 20


class Extent(NamedTuple):
    """How much the demo does."""

    payments: int
    accounts: int
    per_second: int  # how many the job reads in a second


SMALL = Extent(24_000, 2_000, 6_000)
WHOLE = Extent(160_000, 10_000, 8_000)


class Demo:
    """The demo in its folder.

    Args:
        spark: whether Spark runs the job; else it runs in one process.
        ask: runs a command of the console, such as ``["state", "jobs/payments"]``, and shows its answer.
    """

    def __init__(
        self, folder: Path, extent: Extent, spark: bool, screen: Console, ask: Callable[[list[str]], None]
    ) -> None:
        self.folder = folder
        self.extent = extent
        self.spark = spark
        self.screen = screen
        self.ask = ask
        self.job = folder / JOBS / JOB
        self._expected: dict[str, AccountCount] = {}

    def run(self) -> Verdict:
        """All steps.

        Raises:
            JobExecutionError: the job failed, or stands still; with the end of what it printed.
            StorageError: a file cannot be written or read.
        """
        began = monotonic_s()
        payments, accounts, _ = self.extent
        write_payments(self.folder / DATA, payments, accounts)
        self._expected = count_payments(self.folder / DATA)
        self._say(
            f"[bold]1[/] {payments:,} payments of {accounts:,} accounts, made up by a seed. The job: "
            f"{escape(printable(shown_from_here(self.folder / SCRIPT)))}"
        )
        killed = self._killed_run()
        self._say(
            f"[bold]2[/] Half-way the job's process got [bold red]kill -9[/]. Its last checkpoint, {killed.checkpoint}, "
            f"covers {killed.payments:,} payments; what it did after that is gone."
        )
        self._watch("goes on", None, self.extent.per_second)
        finished = look(str(self.job))
        self._say(
            f"[bold]3[/] Started again, it went on from checkpoint {killed.checkpoint} to the end: attempt "
            f"{finished.attempt}, checkpoint {finished.checkpoint}."
        )
        verdict = compare(self._expected, accounts_of(str(self.job)))
        self._say("[bold]4[/] Its state against what a plain loop counts:")
        self.screen.print(self._summary(finished, verdict, monotonic_s() - began))
        if verdict.exact:
            self._look_back(killed)
        return verdict

    def _killed_run(self) -> JobSeen:
        per_second = self.extent.per_second
        for tried in range(_TRIES):
            if tried:
                self._say(
                    "    The job came to its end before the signal: once more from the start, at half the pace."
                )
            if self._watch("runs", lambda seen: seen.payments >= self.extent.payments / 2, per_second):
                killed = look(str(self.job))  # it may have committed once more before the signal came
                if not killed.finished:
                    return killed
            per_second //= 2
            empty_job(self.folder)
        raise JobExecutionError(
            f"the job came to its end {_TRIES} times before it was to be killed: this machine is too busy for the demo"
        )

    def _watch(self, doing: str, stop: Callable[[JobSeen], bool] | None, per_second: int) -> bool:
        """Run the job's process, and show how far it is; returns whether it was killed."""
        where = () if self.spark else ("--without-spark",)
        command = console_command("run", *where, "--quiet", SCRIPT, str(per_second))
        seen, since = look(str(self.job)), monotonic_s()
        busiest = sorted(self._expected, key=lambda name: (-self._expected[name].payments, name))
        watched = tuple(busiest[:_WATCHED])
        with (
            process_of(command, self.folder / OUTPUT, self.folder, environment_of()) as process,
            self._picture() as show,
        ):
            show(self._frame(doing, seen, {}))
            while True:
                status = process.poll()  # before the look, which so sees all that it has done
                now = look(str(self.job))
                if now != seen:
                    seen, since = now, monotonic_s()
                    show(self._frame(doing, seen, counters(str(self.job), seen.checkpoint, watched)))
                if status is not None:
                    if status != 0:
                        raise JobExecutionError(self._failure(f"the job ended with status {status}"))
                    return False
                if stop is not None and stop(seen) and not seen.finished:
                    time.sleep(_UNCOMMITTED_S)
                    return process.poll() is None
                if monotonic_s() - since > _LONGEST_STANDSTILL_S:
                    raise JobExecutionError(
                        self._failure(f"the job has made no checkpoint for {_LONGEST_STANDSTILL_S} s")
                    )
                time.sleep(_POLL_S)

    @contextmanager
    def _picture(self) -> Iterator[Callable[[Frame], None]]:
        """A live picture on a terminal, else a line for each checkpoint."""
        if not self.screen.is_terminal:
            yield lambda frame: self.screen.print(frame.line, soft_wrap=True)
            return
        with Live(console=self.screen, transient=True, refresh_per_second=8) as live:
            yield lambda frame: live.update(frame.picture)

    def _frame(self, doing: str, seen: JobSeen, accounts: dict[str, dict[str, int]]) -> Frame:
        if not seen.checkpoint:
            line = f"    {doing}: no checkpoint yet{' (Spark takes a while to start)' if self.spark else ''}"
            return Frame(Text(line), Text(line))
        known = {name: found for name, found in accounts.items() if found}
        facts = (
            f"    {doing}: {seen.payments:>7,} of {self.extent.payments:,} payments, {seen.mutations:,} mutations of state, "
            f"checkpoint {seen.checkpoint}"
        )
        counts = ", ".join(
            [f"{name} {found['payments']} = {found['total'] / 100:,.2f}" for name, found in known.items()]
        )
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0))
        for name in ("account", "payments", "total", "blocked by"):
            table.add_column(name, justify="left" if name == "account" else "right")
        for name, found in known.items():
            table.add_row(
                name,
                f"{found['payments']:,}",
                f"{found['total'] / 100:,.2f}",
                str(found.get("blocked by", "-")),
            )
        bar = ProgressBar(total=self.extent.payments, completed=seen.payments, width=60)
        return Frame(Text(f"{facts}; {counts}" if counts else facts), Group(Text(facts), bar, table))

    def _summary(self, finished: JobSeen, verdict: Verdict, seconds: float) -> Panel:
        sound = "bold green" if verdict.exact else "bold red"
        lines = [
            f"[{sound}]{verdict.lost:,} lost, {verdict.doubled:,} doubled[/] of {self.extent.payments:,} payments",
            f"accounts   {verdict.accounts:,} compared, {len(verdict.wrong):,} differ",
            f"changelog  {finished.mutations:,} mutations, {size_text(finished.bytes)}, {finished.checkpoint} checkpoints",
            f"time       {seconds:.0f} s",
            *verdict.wrong[:5],
        ]
        return Panel("\n".join(lines), expand=False)

    def _look_back(self, killed: JobSeen) -> None:
        account = self._blocked_about(killed.payments)
        job = shown_from_here(self.job)
        self._say(
            f"[bold]5[/] The log has every moment. Account {account} passed the limit just after the kill. Its state at "
            f"checkpoint {killed.checkpoint}, and all changes of its total, in cents:"
        )
        self._ask("state", job, "--key", account, "--at", str(killed.checkpoint))
        self._ask("history", job, "--key", account, "--state", "total")
        self._say("[bold]6[/] Which record blocked it, and in which line of the code, says")
        self._offer(
            "explain", shown_from_here(self.folder / SCRIPT), job, "--key", account, "--state", "blocked by"
        )

    def _blocked_about(self, number: int) -> str:
        """The account whose total passed the limit next after a payment."""
        blocked = {
            each.blocked_by: name for name, each in self._expected.items() if each.blocked_by is not None
        }
        return blocked[min(blocked, key=lambda each: (each < number, abs(each - number)))]

    def _ask(self, *arguments: str) -> None:
        self._offer(*arguments)
        self.ask(list(arguments))

    def _offer(self, *arguments: str) -> None:
        self.screen.print(Text(f"$ changelog-engine {shlex.join(arguments)}"), soft_wrap=True)

    def _say(self, line: str) -> None:
        self.screen.print(line, soft_wrap=not self.screen.is_terminal)

    def _failure(self, what: str) -> str:
        output = self.folder / OUTPUT
        tail: Sequence[str] = output.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join([f"{what}. The end of {output}:", *tail])


class Frame(NamedTuple):
    """What is shown at a moment: as a line, and as a picture."""

    line: Text
    picture: Text | Group


def shown_from_here(path: Path) -> str:
    """A path as short as it can be given from the working directory."""
    here = working_directory()
    return str(path.relative_to(here)) if here is not None and path.is_relative_to(here) else str(path)
