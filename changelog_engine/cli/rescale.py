"""``changelog-engine rescale``: ask the driver of a running job for another parallelism."""

from __future__ import annotations

import math
import shlex
import time

import click

from changelog_engine.cli.options import PATH
from changelog_engine.clock import Deadline
from changelog_engine.display import printable
from changelog_engine.errors import JobExecutionError
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.job_path import open_job
from changelog_engine.ledger.ownership import SILENT_S, Driver, driver_of
from changelog_engine.ledger.requests import DriverAnswer, answer_to, make_request, withdraw_request

_LOOK_S, _LOOK_FAR_S = 0.2, 1.0  # on a local disk, and on an object store


def _by_uid(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for each in given:
        uid, equals, number = each.rpartition("=")
        if not equals or not uid or not number.isascii() or not number.isdigit():
            raise click.BadParameter(f"{printable(each)!r} is not UID=N, such as count=4")
        found[uid] = int(number)
    return found


def _a_time(context: click.Context, parameter: click.Parameter, given: float) -> float:
    if math.isnan(given):  # which no range of click's leaves out
        raise click.BadParameter("nan is not a number of seconds")
    return given


@click.command()
@click.argument("path", type=PATH)
@click.argument("parallelism", type=click.IntRange(min=1), required=False)
@click.option(
    "--operator",
    "operators",
    multiple=True,
    metavar="UID=N",
    callback=_by_uid,
    help="The parallelism of one operator, and of those chained to it. May be repeated.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    callback=_a_time,
    show_default=True,
    help="How many seconds to wait for the answer. A request that the driver has taken may still be carried out afterwards.",
)
def rescale(path: str, parallelism: int | None, operators: dict[str, int], timeout_s: float) -> None:
    """Have a running job go on with another parallelism, without a restart.

    PATH is the job's folder, <base>/<job>; PARALLELISM is that of all operators to which the program gives none of its own.
    The job takes a checkpoint and goes on from it in the same driver. A run that begins later has the program's
    parallelism again.
    """
    if (parallelism is None) == (not operators):
        raise click.UsageError("give the PARALLELISM of the job, or that of operators by --operator UID=N")
    job = open_job(path)
    driver = _running(job)
    wanted = operators if parallelism is None else parallelism
    identity = make_request(job, wanted, driver.identity, timeout_s)
    try:
        answer = _answer(job, identity, driver, timeout_s)
    except KeyboardInterrupt:
        withdraw_request(job, identity)
        raise
    if not answer.done:
        raise JobExecutionError(answer.text)
    click.echo(printable(answer.text))


def _answer(job: JobFolder, identity: str, driver: Driver, timeout_s: float) -> DriverAnswer:
    deadline, silence, signed_ms = Deadline(timeout_s), Deadline(SILENT_S), driver.signed_ms
    while True:
        now = driver_of(job)  # looked at first: a driver answers before it ends
        answer = answer_to(job, identity)
        if answer is not None:
            return answer
        if now.running is False or (driver.pid is not None and now.identity != driver.identity):
            withdraw_request(job, identity)
            raise JobExecutionError(
                f"the driver that ran the job in {job.storage.root} ended without an answer; changelog-engine timeline "
                "shows whether the job was rescaled before"
            )
        if now.stopped:
            withdraw_request(job, identity)
            raise JobExecutionError(_stopped(job, now))
        if now.signed_ms != signed_ms:
            silence, signed_ms = Deadline(SILENT_S), now.signed_ms
        if silence.passed:
            raise JobExecutionError(_silent(job, withdraw_request(job, identity), now))
        if deadline.passed:
            raise JobExecutionError(_unanswered(job, withdraw_request(job, identity), timeout_s))
        time.sleep(_LOOK_FAR_S if job.storage.local is None else _LOOK_S)


def _running(job: JobFolder) -> Driver:
    driver = driver_of(job)
    if driver.running is False:
        raise JobExecutionError(
            f"no driver runs the job in {job.storage.root}, so there is nothing to rescale: run it with the parallelism "
            "that it is to have"
        )
    if driver.stopped:
        raise JobExecutionError(_stopped(job, driver))
    return driver


def _stopped(job: JobFolder, driver: Driver) -> str:
    return (
        f"the process that runs the job in {job.storage.root} is stopped, and answers nothing: let it go on "
        f"(kill -CONT {driver.pid}), and ask again"
    )


def _silent(job: JobFolder, untaken: bool, driver: Driver) -> str:
    """Nobody gave a sign of life while the requester waited, whatever the clocks of the two say."""
    waited = f"of life in {SILENT_S:g} s"
    if driver.pid is None:
        who = f"no driver gave a sign {waited}"
    else:
        who = (
            f"its driver (process {driver.pid} on {driver.host}) gave no sign {waited}: it was killed, is stopped, or does "
            "not reach the folder"
        )
    timeline = f"changelog-engine timeline {shlex.quote(job.storage.root)}"
    taken = f"it had taken the request: {timeline} shows whether the job was rescaled"
    return f"nobody answers for the job in {job.storage.root}: {who}; {'the request is withdrawn' if untaken else taken}"


def _unanswered(job: JobFolder, untaken: bool, timeout_s: float) -> str:
    if untaken:
        return (
            f"no driver took the request in {timeout_s:g} s, and it is withdrawn: see by changelog-engine status "
            f"{shlex.quote(job.storage.root)} whether the job runs"
        )
    return (
        f"the driver has taken the request and did not answer in {timeout_s:g} s: changelog-engine timeline "
        f"{shlex.quote(job.storage.root)} shows whether the job was rescaled"
    )
