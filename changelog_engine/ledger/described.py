"""What a checkpoint says of an operator and its states, by name."""

from __future__ import annotations

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.errors import RestoreError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState, keyed_operators, states_of
from changelog_engine.nearest import did_you_mean, named
from changelog_engine.state.backend import TIMER_STATES


def parallelism_of(checkpoint: Checkpoint) -> dict[str, int]:
    """Uid -> parallelism, of the operators of a checkpoint."""
    return {operator.uid: operator.parallelism for operator in checkpoint.operators}


def described_operator(checkpoint: Checkpoint, operator: str) -> DescribedOperator:
    """The description of an operator with keys.

    Raises:
        RestoreError: the checkpoint has no such operator; lists those it has, and the nearest.
    """
    check_names(checkpoint, operator, None)
    return next(found for found in checkpoint.operators if found.uid == operator)


def described_state(
    checkpoint: Checkpoint, operator: str, state: str
) -> tuple[DescribedOperator, DescribedState]:
    """The descriptions of an operator and of one of its states.

    Raises:
        RestoreError: the checkpoint has no such state; lists those it has, and the nearest.
    """
    check_names(checkpoint, operator, state)
    return states_of(checkpoint.operators)[operator, state]


def check_names(
    checkpoint: Checkpoint, operator: str | None, state: str | None, timers: bool = False
) -> None:
    """Raise when a checkpoint has no operator with state, or no state, of a name.

    Args:
        timers: whether the name may be that of timers, such as ``(event time timers)``.

    Raises:
        RestoreError: says which there are, and of many the nearest.
    """
    keyed = keyed_operators(checkpoint.operators)
    if operator is not None and operator not in {found.uid for found in keyed}:
        uids = [found.uid for found in keyed]
        raise RestoreError(
            f"checkpoint {checkpoint.id}: {named('operator with state', operator, uids)}{did_you_mean(operator, uids)}"
        )
    names = [name for uid, name in states_of(keyed) if operator in (None, uid)]
    if timers:
        names += TIMER_STATES.values()
    if state is not None and state not in names:
        of = "" if operator is None else f", operator {operator!r}"
        raise RestoreError(
            f"checkpoint {checkpoint.id}{of}: {named('state', state, names)}{did_you_mean(state, names)}"
        )
