"""Whatever happens to jobs, in whatever order: each element sees what the model has, and each checkpoint keeps it.

``support.lives`` has all that may happen. Reliability cases 16 to 23, 27, 31, 36, 41 and 50 in one model.
"""

from __future__ import annotations

import tempfile

from hypothesis import given
from hypothesis import strategies as st
from support.chance import fewer
from support.lives import Life

STEPS = (
    "run", "run", "run", "run", "clock", "materialize", "truncate", "fork", "correct", "savepoint", "bootstrap",
)  # fmt: skip


@fewer(4)
@given(data=st.data())
def test_every_state_of_every_job(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as base:
        life = Life(f"{base}/jobs", data.draw)
        for what in ["run", *data.draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=9), "steps")]:
            life.step(what)
        life.check()
