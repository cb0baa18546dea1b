"""Random programs, each run in ways that must change neither what it gives nor what it holds.

`support.metamorphic` has the ways. `tests/soak/metamorphic.py` looks for others, for as long as one likes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.metamorphic import Model, failure_of_run, random_way
from support.random_jobs import random_program

# Seeds of programs and ways: process functions with timers, sessions, sliding and count windows, connected and broadcast
# streams; failures, forks, savepoints, other parallelisms, upkeep, other backends, a drain. Behind them: commits that seem
# to fail, a parallelism that changes while the job runs; drivers with C and without in turns, two streams with keyed state
# that become one, rows with kinds and nested types in keys and state, two sources, two tags, continuous triggers.
CHOSEN = [
    (388, 38801), (178, 17802), (126, 12603), (308, 30801), (186, 18601), (5, 30), (6, 36),
    (1000182, 10001825), (1000726, 10007265), (1000223, 10002231), (1000393, 10003936),
]  # fmt: skip


@pytest.mark.parametrize(("program", "way"), CHOSEN)
def test_no_way_of_running_a_program_changes_its_results_or_its_state(
    program: int, way: int, tmp_path: Path
) -> None:
    described = random_program(program)
    model = Model(described, str(tmp_path / "model"))
    chosen = random_way(way, model.traits, model.items)
    said = failure_of_run(model, chosen, str(tmp_path / "run"))
    assert said is None, f'{said}\npython tests/soak/metamorphic.py --again "{described!r}" "{chosen!r}"'
