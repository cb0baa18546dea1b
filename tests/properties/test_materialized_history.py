"""Random histories of operations, checkpoints, materializations, truncations and failures against what was held.

Invariants under test: a snapshot changes nothing that a reader sees; whatever is still there after a truncation can be
restored, and is what it was; a materializer that dies at any step leaves nothing that a reader would see. Parallelism and
changelog may change in between.
"""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chance import fewer
from support.graphs import keyed_job
from support.live import LiveStates
from support.materialized import MaintainedJob, Upkeep
from support.operations import Operations, inputs
from support.profiles import PROFILES
from support.script import Fault
from support.scripts import scripts

from materializer.retention import Retention

RETENTIONS = st.builds(
    Retention,
    history_ms=st.sampled_from([0, 1, 10_000]),
    retained=st.integers(1, 3),
    grace_ms=st.sampled_from([0, 60_000]),
)
UPKEEP = st.builds(
    Upkeep,
    materializes=st.booleans(),
    truncates=st.booleans(),
    killed=st.none() | st.integers(0, 12),
    retention=RETENTIONS,
    later_ms=st.sampled_from([0, 0, 100_000]),
)


@pytest.mark.parametrize("profile", sorted(PROFILES))
@fewer(2)
@given(data=st.data())
def test_what_is_there_is_what_was_held(profile: str, data: st.DataObject) -> None:
    modes = data.draw(st.sampled_from([[True], [True, False], [False, True]]), "changelog of each driver")
    parallelisms = data.draw(
        st.lists(st.integers(1, 3), min_size=1, max_size=2), "parallelism of each driver"
    )
    upkeep = data.draw(st.lists(UPKEEP, min_size=1, max_size=4), "upkeep after each commit")
    piece_bytes = data.draw(st.sampled_from([64, 1 << 20]), "piece_bytes")
    elements = data.draw(inputs(profile, max_elements=16), "elements")
    faults = (Fault.WORKER, Fault.GONE, Fault.DRIVER, Fault.PARTS, Fault.COMMITTED, Fault.COMMIT_LIES)
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
        job = MaintainedJob(base, script, live, upkeep, piece_bytes, all(modes))
        job.run(graph, changelog=lambda driver: modes[driver % len(modes)])
        assert job.commits
