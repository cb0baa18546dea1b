"""Final state of the job, folded from its log, against the plain Python computation, key by key."""

from pathlib import Path
from typing import Any

from changelog_engine.api.common import Row
from materializer.fold import state_at
from reference import State, expected_state


def final_state(table: Path) -> State:
    """State at the newest checkpoint: the fold of the changelog, as plain Python values."""
    return {
        name: {key: _plain(value) for key, value in entries.items()}
        for name, entries in state_at(str(table)).states.items()
        if entries
    }


def differences(table: Path, flights: Path) -> tuple[int, list[str]]:
    """Compare every value of every state.

    Args:
        table: the changelog table of a finished job.
        flights: the file that the job read.

    Returns:
        How many (operator, state, key) were compared, and a line for each that differs.
    """
    return unequal(expected_state(flights), final_state(table))


def unequal(expected: State, found: State) -> tuple[int, list[str]]:
    """How many (operator, state, key) were compared, and a line for each that differs."""
    compared, lines = 0, []
    for name in sorted(set(expected) | set(found)):
        wanted, got = expected.get(name, {}), found.get(name, {})
        for key in sorted(set(wanted) | set(got)):
            compared += 1
            if wanted.get(key) != got.get(key):
                operator, state = name
                lines.append(f"{operator}.{state} of {key}: {got.get(key)!r} instead of {wanted.get(key)!r}")
    return compared, lines


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return tuple(value)
    return value
