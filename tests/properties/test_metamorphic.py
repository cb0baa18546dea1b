"""Random programs, each run in ways that must change neither what it gives nor what it holds.

`support.metamorphic` has the ways. `tests/soak/metamorphic.py` looks for others, for as long as one likes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.metamorphic import Model, failure_of_run, random_way
from support.random_jobs import random_program

PROGRAMS = {34: 2, 35: 2}
"""Seeds of programs, and how many ways each is run in."""


@pytest.mark.parametrize("seed", PROGRAMS)
def test_no_way_of_running_a_program_changes_its_results_or_its_state(seed: int, tmp_path: Path) -> None:
    described = random_program(seed)
    model = Model(described, str(tmp_path / "model"))
    for number in range(PROGRAMS[seed]):
        way = random_way(seed * 100 + number, model.traits, model.items)
        said = failure_of_run(model, way, str(tmp_path / str(number)))
        assert said is None, f'{said}\npython tests/soak/metamorphic.py --again "{described!r}" "{way!r}"'
