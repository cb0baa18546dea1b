"""Reliability case 31: a job that was rewound has a branch that it left, and one that it is on."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.functions import Count, by_key
from support.graphs import keyed_job
from support.jobs import TestJob
from support.materialized import AT_ONCE, ELEMENTS, states, stopped
from support.script import DriverKilled, Failure, Fault

from api.common.typeinfo import Types
from changelog_engine.changelog.log_files import parse_part
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.storage.local_disk import LocalDisk
from changelog_engine.storage.protocol import Storage
from changelog_engine.verification.verify import verify
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate


class CountsTens(Count):
    """Another version of the program: its counts tell the branches apart."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 10)
        yield value[0], self.count.value()


def rewound(tmp_path: Path) -> tuple[TestJob, JobFolder, dict[int, Any]]:
    """Checkpoints 1 to 4 by attempt 1; from 2 another program went on as attempt 2, whose driver died after 5 and 6.

    Returns:
        The job, its folder, and what was held at 1 to 4 before it was rewound.
    """
    job, _, folder = stopped(tmp_path)
    before = {number: states(tmp_path, number) for number in range(1, 5)}
    assert job.progress is not None
    job.progress.waiting.append(Failure(job.progress.epoch + 2, Fault.HANDED_OUT))
    with pytest.raises(DriverKilled):
        job.run_driver(program(CountsTens()), restore="2")
    assert [(row.id, row.attempt, row.parent) for row in job.commits[4:]] == [(5, 2, 2), (6, 2, 5)]
    return job, folder, before


def program(function: Any) -> Any:
    return keyed_job(ELEMENTS, function, key_type=Types.LONG(), parallelism=2)


def counts(job: TestJob, checkpoint: int) -> set[int]:
    """The count of every key, which is the same."""
    return set(state_at(job.table(), checkpoint).states["process", "count"].values())


def test_case_31_both_branches_are_there_and_neither_is_in_the_other(tmp_path: Path) -> None:
    """By id, by the fold, after a snapshot of either branch and a truncation that keeps the history."""
    job, folder, before = rewound(tmp_path)

    def check() -> None:
        assert {number: states(tmp_path, number) for number in range(1, 5)} == before
        assert [counts(job, number) for number in range(1, 7)] == [{1}, {2}, {3}, {4}, {12}, {22}]
        found = verify(folder)
        assert found.faults == []
        assert set(found.restorable) == set(range(1, 7))

    check()
    for checkpoint in (3, 6):
        assert materialize(folder, checkpoint) is not None
        check()
    truncate(folder, Retention(grace_ms=0))
    check()
    # No history: what the newest checkpoint does not need goes, the other branch with it
    truncate(folder, AT_ONCE)
    assert sorted(Lineage(folder.open_changelog()).checkpoints) == [6]
    assert counts(job, 6) == {22}


def test_case_31_a_restore_reads_no_file_of_the_other_branch(tmp_path: Path) -> None:
    """The checkpoints of both have ids in between: files are chosen by attempt and id, never by id alone."""
    job, _, _ = rewound(tmp_path)
    read: set[tuple[int, int]] = set()
    inner = LocalDisk.read

    def noted(storage: Storage, path: str, *more: Any) -> Any:
        name = parse_part(path)
        if name is not None:
            read.add((name.attempt, name.checkpoint))
        return inner(storage, path, *more)

    with mock.patch.object(LocalDisk, "read", noted):
        job.outputs.clear()
        job.run_driver(program(CountsTens()))
    assert read == {(1, 1), (1, 2), (2, 5), (2, 6)}
    assert by_key(job.output) == {key: [32, 42, 52, 62] for key in range(5)}


def test_case_31_the_abandoned_branch_is_gone_on_with(tmp_path: Path) -> None:
    """Back to where attempt 1 was: a third branch, that knows nothing of the second."""
    job, folder, before = rewound(tmp_path)
    job.outputs.clear()
    job.run_driver(program(Count()), restore="4")
    assert by_key(job.output) == {key: [5, 6, 7, 8] for key in range(5)}
    newest = Lineage(folder.open_changelog()).newest_checkpoint()
    assert newest is not None
    assert newest.lineage == ((1, 1, 4), (3, 7, newest.id))
    assert counts(job, newest.id) == {8}
    assert counts(job, 6) == {22}
    assert {number: states(tmp_path, number) for number in range(1, 5)} == before


def test_case_31_the_next_run_stays_on_its_branch(tmp_path: Path) -> None:
    """``auto`` and ``latest`` go on where the newest attempt was."""
    job, _, _ = rewound(tmp_path)
    job.outputs.clear()
    job.run_driver(program(CountsTens()), restore="latest")
    assert by_key(job.output) == {key: [32, 42, 52, 62] for key in range(5)}
