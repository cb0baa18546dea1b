"""``make demo``: run the flights job, kill it half-way with SIGKILL, start it again, and look at what it left.

Everything happens in the folder ``.demo`` (``DEMO_WORK`` names another): the prepared data, the changelog, the job's output.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from patience import Patience, Session, session
from prepare import FLIGHTS, prepare
from watch import Progress as JobProgress
from watch import progress

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FLIGHTS_PER_SECOND = int(os.environ.get("DEMO_FLIGHTS_PER_SECOND", "14000"))
LONGEST_STANDSTILL_S = 300  # without a checkpoint, a line of output or much processor time
POLL_S = 0.5
STOPPED = 130  # what shells say of a program that Ctrl-C ended
COLUMNS = ("run", "checkpoint", "event time", "state", "new value")
AIRCRAFT = "N725MQ"  # left New York more often than any other

# The job and the query run in a folder of their own; this copy of the engine is found there too.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
}

console = Console(highlight=False)


class Demo:
    """The demo's steps.

    Args:
        work: its folder; what an earlier demo left there is removed.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self.flights = work / "flights.csv"
        self.base = work / "changelog"
        self.table = self.base / "flights" / "changelog"
        self.output = work / "job.log"
        shutil.rmtree(self.base, ignore_errors=True)
        work.mkdir(parents=True, exist_ok=True)
        self.output.unlink(missing_ok=True)

    def run(self) -> int:
        """All steps, and the summary; 0 when the state is exact."""
        began = time.monotonic()
        with console.status("Preparing the year's flights ..."):
            prepare(self.flights)
        console.print(f"[bold]1[/] {FLIGHTS:,} flights from New York in 2013, in the order of departure.")
        killed = self.run_until(lambda at: self.share(at) >= 0.5)
        if killed.finished:
            raise SystemExit(
                "The job came to its end before it was killed: this machine is too busy for the demo."
            )
        console.print(
            f"[bold]2[/] Half-way, the driver got [bold red]kill -9[/]. Its last checkpoint, {killed.checkpoint}, "
            f"keeps {self.flights_of(killed):,}."
        )
        finished = self.run_until(None)
        console.print(
            f"[bold]3[/] Started again, it went on from {killed.checkpoint} to the end: "
            f"attempt {finished.attempt}, checkpoint {finished.checkpoint}."
        )
        with console.status(
            "Spark SQL reads the history of one aircraft (the first time it fetches Delta's jar) ..."
        ):
            rows = self.history()
        console.print(f"[bold]4[/] The state of aircraft {AIRCRAFT}, around the kill, with Spark SQL:")
        console.print(_history_table(rows, killed.checkpoint))
        with console.status("Comparing with a computation in plain Python ..."):
            from compare import differences  # the engine's readers, which the steps before do without

            compared, wrong = differences(self.table, self.flights)
        console.print(self.summary(finished, len(rows), compared, wrong, time.monotonic() - began))
        return 1 if wrong else 0

    def run_until(self, stop: Callable[[JobProgress], bool] | None) -> JobProgress:
        """Start the job and watch it; kill it when ``stop`` says so, else wait for its end."""
        before, patience = progress(self.table), Patience(LONGEST_STANDSTILL_S)
        description = "killed half-way" if stop else "to the end"
        with self.job() as process, _bar(description, self.flights_of(before)) as (bar, task):
            while True:
                looked = time.monotonic()
                at, processes = progress(self.table), session(process.pid)
                doing = _doing(at, before, processes)
                bar.update(task, completed=self.flights_of(at), doing=doing)
                status = process.poll()
                if status is not None and (status != 0 or stop is not None):
                    raise SystemExit(self.failure(f"The job ended by itself with status {status}"))
                if status == 0:
                    return progress(self.table)
                if stop is not None and stop(at):
                    break
                if patience.has_run_out(at, self.output.stat().st_size, processes.effort):
                    what = f"The job has made no progress for {LONGEST_STANDSTILL_S} s ({doing})"
                    raise SystemExit(self.failure(what))
                # On a busy machine a look takes seconds; most of the time is the job's.
                time.sleep(max(POLL_S, 2 * (time.monotonic() - looked)))
        return progress(self.table)  # it may have committed once more before the signal came

    @contextmanager
    def job(self) -> Iterator[subprocess.Popen[bytes]]:
        """The job's driver in a process group of its own; SIGKILL for the driver and its JVM at the end."""
        command = [sys.executable, str(HERE / "flights_job.py"), str(self.flights), str(self.base)]
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                [*command, str(FLIGHTS_PER_SECOND)],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.work,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # all of it may have ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def history(self) -> list[dict[str, object]]:
        """What history.py prints."""
        command = [sys.executable, str(HERE / "history.py"), str(self.table), AIRCRAFT]
        with (self.work / "history.log").open("wb") as log:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, check=False, cwd=self.work, env=ENVIRONMENT
            )
        if done.returncode != 0:
            raise SystemExit(f"Spark SQL could not read the changelog; see {log.name}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]

    def summary(
        self, end: JobProgress, history: int, compared: int, wrong: list[str], seconds: float
    ) -> Panel:
        """What happened, for a newcomer."""
        verdict = (
            f"[bold green]exact[/]: all {compared:,} values equal a plain Python computation"
            if not wrong
            else f"[bold red]{len(wrong):,} of {compared:,} values differ[/], such as {wrong[0]}"
        )
        size = f"{end.bytes / 2**20:.1f} MiB"
        lines = [
            f"flights    {FLIGHTS:,}, each counted exactly once in spite of kill -9",
            f"state      {verdict}",
            f"changelog  {end.mutations:,} mutations, {size}, {end.checkpoints} checkpoints, one commit each",
            f"history    {history:,} changes of one aircraft's state, read by plain SQL",
            f"time       {seconds:.0f} s",
            "",
            "The job      docs/examples/flights/flights_job.py",
            f"Its output   {_shown(self.output)}",
            f"Its log      {_shown(self.table)}, a Delta table",
            "The query    docs/examples/flights/history.py",
        ]
        return Panel("\n".join(lines), title="What happened", expand=False)

    def share(self, at: JobProgress) -> float:
        """How much of the input is safe, 0 to 1."""
        return at.position / self.flights.stat().st_size

    def flights_of(self, at: JobProgress) -> int:
        """About as many flights as that (lines are nearly of one length)."""
        return FLIGHTS if at.finished else int(FLIGHTS * self.share(at))

    def failure(self, what: str) -> str:
        """The message with the end of the job's output."""
        tail = self.output.read_text(errors="replace").splitlines()[-20:]
        return "\n".join([f"{what}. The end of {self.output}:", *tail])


@contextmanager
def _bar(description: str, flights: int) -> Iterator[tuple[Progress, int]]:
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        TextColumn("{task.completed:>7,} flights, {task.fields[doing]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar, bar.add_task(description, total=FLIGHTS, completed=flights, doing="the program starts")


def _doing(at: JobProgress, before: JobProgress, processes: Session) -> str:
    """What the job does now, as far as it can be seen from outside."""
    if at.checkpoint > before.checkpoint:
        return f"checkpoint {at.checkpoint}"
    if processes.workers:
        what = f"restore checkpoint {before.checkpoint}" if before.checkpoint else "start"
        return f"workers {what}: {processes.workers} so far"
    return "Spark starts" if processes.java else "the program starts"


def _history_table(rows: list[dict[str, object]], killed_at: int) -> Table:
    """The last changes before the kill and the first after it."""
    before = [row for row in rows if int(str(row["checkpoint"])) <= killed_at][-4:]
    after = [row for row in rows if int(str(row["checkpoint"])) > killed_at][:4]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, no_wrap=True)
    for part in (before, after):
        for row in part:
            cells = (row["attempt"], row["checkpoint"], row["event_time"], row["state"])
            table.add_row(*map(str, cells), _change(row))
        table.add_section()
    return table


def _change(row: dict[str, object]) -> str:
    """A mutation in few words: what was put, or which operation it was."""
    what = str(row["value"] if row["operation"] == "put" else row["operation"])
    return what if row["map_key"] is None else f"{row['map_key']}: {what}"


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def main() -> int:
    """The demo in its folder; Ctrl-C ends it, and the job with it."""
    demo = Demo(Path(os.environ.get("DEMO_WORK", ROOT / ".demo")).resolve())
    try:
        return demo.run()
    except KeyboardInterrupt:
        console.print(f"Stopped. What the job left is in {_shown(demo.work)}; make demo begins anew.")
        return STOPPED


if __name__ == "__main__":
    sys.exit(main())
