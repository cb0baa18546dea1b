"""Random scripts."""

from __future__ import annotations

import functools

from hypothesis import strategies as st

from support.script import Failure, Fault, Script

# After these the outside world has seen all output exactly once. A driver that dies between commit and hand-out takes
# collected output with it, because whoever collects it dies too.
EXACT = tuple(fault for fault in Fault if fault is not Fault.COMMITTED)
# A driver that tolerates a commit that lied doesn't know yet which output is final, and may die before it finds out.
TOLERATED = tuple(fault for fault in EXACT if fault is not Fault.COMMIT_LIES)


@st.composite
def scripts(
    draw: st.DrawFn, faults: tuple[Fault, ...] = EXACT, parallelism: int = 1, most: int = 4
) -> Script:
    """Epochs of 1 to 8 records, some with a barrier, and a few failures."""
    sizes = draw(_SIZES)
    barriers = draw(_BARRIERS)
    drawn = draw(_failures(faults, parallelism, most))
    return Script(tuple(sizes), tuple(barriers), tuple(drawn))


_SIZES = st.lists(st.integers(1, 8), min_size=1, max_size=4)
_BARRIERS = st.lists(st.booleans(), min_size=1, max_size=4)


@functools.cache  # a strategy is validated and labelled when it is first drawn from
def _failures(faults: tuple[Fault, ...], parallelism: int, most: int) -> st.SearchStrategy[list[Failure]]:
    if not faults:
        return st.just([])
    stage, subtask = st.integers(0, 1), st.integers(0, parallelism - 1)
    return st.lists(
        st.builds(Failure, st.integers(1, 10), st.sampled_from(faults), stage, subtask), max_size=most
    )
