"""Random histories of operations, checkpoints, materializations and failures: what a restore gives is what was held.

Invariants under test: a snapshot changes nothing that a reader sees; pieces that are kept, cut finer or made from a full
snapshot hold the same rows; parallelism, backend and changelog may change in between.
"""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import LiveStates, logged_state
from support.model import pictured
from support.operations import Operations, inputs
from support.profiles import PROFILES
from support.script import Fault, Script
from support.scripts import scripts

from changelog_engine.checkpoint.job_folder import find_job_folder
from materializer.materialize import materialize


class Materialized(TestJob):
    """Materializes after some commits, and compares what can be restored with what was held."""

    def __init__(
        self, base: str, script: Script, live: LiveStates, when: list[bool], piece_bytes: int, **settings: Any
    ) -> None:
        super().__init__(base, script, **settings)
        self.live = live
        self.when = when
        self.piece_bytes = piece_bytes
        self.made = 0

    def on_commit(self, checkpoint) -> None:
        held = pictured(self.live.of(checkpoint.attempt, checkpoint.id))
        base = self.settings.base_path
        if self.when[checkpoint.id % len(self.when)]:
            done = materialize(find_job_folder(base, "job"), piece_bytes=self.piece_bytes)
            self.made += done is not None
            assert done is None or done.checkpoint == checkpoint.id
        assert pictured(logged_state(base, checkpoint=checkpoint.id)) == held


@pytest.mark.parametrize("profile", sorted(PROFILES))
@given(data=st.data())
def test_snapshots_of_the_log_change_no_state(profile: str, data: st.DataObject) -> None:
    modes = data.draw(st.lists(st.booleans(), min_size=1, max_size=3), "changelog of each driver")
    parallelisms = data.draw(
        st.lists(st.integers(1, 3), min_size=1, max_size=3), "parallelism of each driver"
    )
    when = data.draw(st.lists(st.booleans(), min_size=1, max_size=4), "materialize after a commit")
    piece_bytes = data.draw(st.sampled_from([64, 1 << 20]), "piece_bytes")
    elements = data.draw(inputs(profile, max_elements=20), "elements")
    faults = (Fault.WORKER, Fault.GONE, Fault.DRIVER, Fault.COMMITTED, Fault.COMMIT_LIES)
    script = data.draw(scripts(faults, parallelism=3), "script")

    def graph(driver: int):
        return keyed_job(
            elements,
            Operations(profile),
            key_type=PROFILES[profile].key_type,
            parallelism=parallelisms[driver % len(parallelisms)],
            timestamp=lambda element: element[1],
            lag_ms=10,
        )

    live = LiveStates()
    with tempfile.TemporaryDirectory() as base, live.watched():
        job = Materialized(base, script, live, when, piece_bytes)
        job.run(graph, changelog=lambda driver: modes[driver % len(modes)])
        assert job.commits
