"""The fixture ``replay`` for pytest. In a conftest.py: ``pytest_plugins = ["changelog_engine.testing.pytest_plugin"]``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from changelog_engine.replay.job import ReplayReport

    Replay = Callable[..., ReplayReport]


@pytest.fixture
def replay() -> Replay:
    """A function that replays a recorded piece of a job and fails the test unless all is equal.

    ``replay(program, start, end=None, job=None, arguments=(), leave_out=())``: ``program`` is a callable that builds and
    executes the job, or the path of a script, run with ``arguments`` as ``changelog-engine run`` would; the others are those
    of `changelog_engine.testing.replay_job`. Gives the report.

    Example:
        >>> def test_the_job_still_does_what_it_did(replay):  # doctest: +SKIP
        ...     replay("jobs/visits.py", start=3, end=7)
    """

    def check(
        program: Callable[[], Any] | str | os.PathLike[str],
        start: int | None,
        end: int | None = None,
        job: str | None = None,
        arguments: Sequence[str] = (),
        leave_out: Sequence[str] = (),
    ) -> ReplayReport:
        from changelog_engine.launcher import run_program
        from changelog_engine.launcher.program import process_as_before
        from changelog_engine.replay.job import replay_job

        if callable(program):
            report = replay_job(program, start, end, job, leave_out)
        else:
            with process_as_before():
                report = replay_job(
                    lambda: run_program(os.fspath(program), arguments), start, end, job, leave_out
                )
        if not report.equal:
            pytest.fail(report.text(), pytrace=False)
        return report

    return check
