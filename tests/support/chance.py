"""How often tests choose at random, and the seed of those without hypothesis.

The seed is the same in every run, so that a change is judged by its own faults. ``TEST_SEED=random`` searches with another
one each time (``make search`` does), ``TEST_SEED=N`` repeats a run; the seed is printed with a failing test.
"""

from __future__ import annotations

import os
import random

from hypothesis import settings

_SAME = 158


def chosen_seed() -> int:
    """The seed of this run's random choices; printed, so that a failing test shows it."""
    said = os.environ.get("TEST_SEED", str(_SAME))
    chosen = random.SystemRandom().randrange(100_000) if said == "random" else int(said)
    print(f"TEST_SEED={chosen} makes the same choices")
    return chosen


def fewer(times: int) -> settings:
    """Of a test whose example is a whole job or more: so many times fewer examples than others have, in every profile.

    Of the calls that 30 random jobs with failures make in the engine, told apart by the line they come from, 15 make 94 to
    100 %, most often 99. `make search` has 150 and more.
    """
    return settings(max_examples=max(5, settings.default.max_examples // times))  # type: ignore[union-attr]
