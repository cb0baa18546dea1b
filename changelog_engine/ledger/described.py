"""What a checkpoint says of an operator and its states, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import RestoreError


def described_operator(checkpoint: Checkpoint, operator: str) -> dict[str, Any]:
    """The description of an operator with keys.

    Raises:
        RestoreError: the checkpoint has no such operator; lists those it has, and the nearest.
    """
    keyed = {found["uid"]: found for found in checkpoint.operators if "states" in found}
    if operator not in keyed:
        there = ", ".join([repr(each) for each in keyed]) or "none"
        raise RestoreError(
            f"checkpoint {checkpoint.id} has no operator {operator!r} with keys; it has {there}"
            f"{_near(operator, keyed)}"
        )
    return keyed[operator]


def described_state(
    checkpoint: Checkpoint, operator: str, state: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The descriptions of an operator and of one of its states.

    Raises:
        RestoreError: the checkpoint has no such state; lists those it has, and the nearest.
    """
    there = {}
    for found in checkpoint.operators:
        for described in found.get("states", ()):
            if (found["uid"], described["name"]) == (operator, state):
                return found, described
            there[f"{found['uid']!r}.{described['name']!r}"] = f"{found['uid']}.{described['name']}"
    near = _near(f"{operator}.{state}", there.values())
    raise RestoreError(
        f"checkpoint {checkpoint.id} has no state {state!r} of operator {operator!r}; it has {', '.join(there) or 'none'}"
        f"{near}"
    )


def check_state(checkpoint: Checkpoint, state: str) -> None:
    """Raise when no operator has a state of a name.

    Raises:
        RestoreError: lists those there are, and the nearest.
    """
    names = [described["name"] for found in checkpoint.operators for described in found.get("states", ())]
    if state not in names:
        there = ", ".join([repr(each) for each in dict.fromkeys(names)]) or "none"
        raise RestoreError(
            f"checkpoint {checkpoint.id} has no state {state!r}; it has {there}{_near(state, names)}"
        )


def _near(wanted: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(wanted, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
