"""The seed of tests that choose at random.

It is the same in every run, so that a change is judged by its own faults. ``TEST_SEED=random`` searches with another one
each time (``make search`` does), ``TEST_SEED=N`` repeats a run; the seed is printed with a failing test.
"""

from __future__ import annotations

import os
import random

_SAME = 158


def chosen_seed() -> int:
    """The seed of this run's random choices; printed, so that a failing test shows it."""
    said = os.environ.get("TEST_SEED", str(_SAME))
    chosen = random.SystemRandom().randrange(100_000) if said == "random" else int(said)
    print(f"TEST_SEED={chosen} makes the same choices")
    return chosen
