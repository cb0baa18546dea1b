"""Savepoints, imports and forks of any checkpoint of any run hold what the log has there, and all of it is whole."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.model import pictured
from support.operations import Operations, inputs
from support.profiles import PROFILES
from support.script import Fault
from support.scripts import EXACT, scripts

from changelog_engine.ledger.job_folder import JobFolder, find_job_folder, open_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.restore import import_savepoint
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.verification.verify import verify
from materializer.materialize import materialize


def check(folder: JobFolder, base: str, name: str, checkpoint: int, state: object) -> None:
    assert pictured(logged_state(base, name, checkpoint)) == state
    found = verify(folder)
    assert found.faults == []
    assert checkpoint in found.restorable


@pytest.mark.parametrize("profile", sorted(PROFILES))
@settings(max_examples=8)
@given(data=st.data())
def test_copies_equal_the_log(profile: str, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, 3), "parallelism")
    elements = data.draw(inputs(profile, max_elements=20), "elements")
    script = data.draw(scripts((*EXACT, Fault.DRIVER, Fault.HANDED_OUT), parallelism=parallelism), "script")
    graph = keyed_job(
        elements,
        Operations(profile),
        key_type=PROFILES[profile].key_type,
        parallelism=parallelism,
        timestamp=lambda element: element[1],
    )
    with tempfile.TemporaryDirectory() as base:
        job = TestJob(base, script)
        job.run(graph)
        folder = find_job_folder(base, "job")
        at = data.draw(st.sampled_from([commit.id for commit in job.commits]), "checkpoint")
        between = data.draw(st.sampled_from([None, at, max(1, at - 1)]), "snapshot")
        state = pictured(logged_state(base, "job", at))
        if between is not None:
            materialize(folder, between)
        row = Lineage(folder.open_changelog()).checkpoint(at)
        check(folder, base, "job", at, state)

        savepoint = create_savepoint(folder, row, f"{base}/savepoints")
        os.rename(savepoint.path, f"{base}/savepoints/moved")
        moved = replace(
            savepoint.folder, slug="moved", storage=find_job_folder(f"{base}/savepoints", "moved").storage
        )
        check(moved, f"{base}/savepoints", "moved", at, state)

        new = open_job_folder(f"{base}/new", "job")
        made = import_savepoint(new, new.open_changelog(), replace(savepoint, folder=moved), row)
        check(new, f"{base}/new", "job", made.checkpoint.id, state)

        fork = fork_job(folder, row, f"{base}/fork")
        check(fork.folder, base, "fork", at, state)
