"""Random scripts."""

from __future__ import annotations

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
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    barriers = draw(st.lists(st.booleans(), min_size=1, max_size=4))
    stage = st.integers(0, 1)
    subtask = st.integers(0, parallelism - 1)
    failures: st.SearchStrategy[Failure] = st.just(Failure(0, Fault.WORKER))
    if faults:
        failures = st.builds(Failure, st.integers(1, 10), st.sampled_from(faults), stage, subtask)
    drawn = draw(st.lists(failures, max_size=most if faults else 0))
    return Script(tuple(sizes), tuple(barriers), tuple(drawn))
