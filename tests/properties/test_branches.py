"""Random lives of jobs against a model that keeps every state of every branch.

A life is a series of runs, each from the newest checkpoint or from any older one (a new branch), with another parallelism
and with failures, and between them materializations, truncations, savepoints and forks, which may be killed before any of
their changes of the disk, and OPTIMIZE by somebody else. After each step every checkpoint that any of the jobs still has
must give exactly what was held at it, on whatever branch it lies, and all files must be whole. Reliability cases 31 and
36, with 16, 17, 18, 21 and 23.
"""

from __future__ import annotations

import tempfile

from hypothesis import given
from hypothesis import strategies as st
from support.branches import World
from support.chance import fewer
from support.operations import inputs
from support.profiles import PROFILES

STEPS = ("run", "run", "rewind", "rewind", "materialize", "truncate", "optimize", "fork", "savepoint")


@fewer(2)
@given(data=st.data())
def test_every_state_of_every_branch(data: st.DataObject) -> None:
    profile = data.draw(st.sampled_from(sorted(PROFILES)), "profile")
    elements = data.draw(inputs(profile, max_elements=24), "elements")
    with tempfile.TemporaryDirectory() as base:
        world = World(f"{base}/jobs", profile, elements, data.draw)
        for what in ["run", *data.draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=7), "steps")]:
            world.step(what)
