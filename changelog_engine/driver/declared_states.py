"""The states that subtasks have declared, as the rows of checkpoints describe them.

Subtasks declare them on their own, each for its key groups: where the type of a state has changed, the key groups of those
that have not declared it yet hold values of the earlier type.
"""

from __future__ import annotations

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.graph.descriptions import (
    DescribedOperator,
    DescribedState,
    EarlierType,
    keyed_operators,
)
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.graph.plan import JobPlan, Stage
from changelog_engine.operators.messages import EpochReport


class DeclaredStates:
    """The states of a job that an attempt knows.

    Args:
        start: the checkpoint that the attempt goes on from; None for empty state.
    """

    def __init__(self, plan: JobPlan, start: Checkpoint | None) -> None:
        self._plan = plan
        self._states: dict[str, dict[str, DescribedState]] = {  # uid -> state's name -> its description
            operator.uid: {state.name: state for state in operator.states}
            for operator in ([] if start is None else keyed_operators(start.operators))
        }

    def take(self, report: EpochReport, checkpoint: int, first: bool) -> None:
        """Take note of the states that a subtask declares.

        A state stays known once it was declared: subtasks may declare theirs late, or not again after a restore. The log may
        have rows of a state that is new: of a dropped one with its name, of any type.

        Args:
            checkpoint: the next one, to which the converted values will belong.
            first: the job has no checkpoint yet.
        """
        stage = self._plan.stages[report.stage]
        for uid, declared in report.states.items():
            known = self._states.setdefault(uid, {})
            for state in declared:
                before = known.get(state.name)
                if before is not None:
                    state = _succeeding(before, state, stage, report.subtask, checkpoint)
                elif not first:
                    state = state._replace(since=checkpoint)
                known[state.name] = state

    def operators(self) -> list[DescribedOperator]:
        """The job's operators as a checkpoint's row keeps them."""
        described: dict[str, DescribedOperator] = {}
        for stage in self._plan.stages:
            for node in self._plan.nodes_of(stage):
                uid = self._plan.uids[node.id]
                entry = DescribedOperator(
                    uid, node.name, node.kind.value, stage.parallelism, stage.max_parallelism
                )
                if uid in self._states:
                    states = tuple([state for state in self._states[uid].values() if not state.removed])
                    key_type = None if stage.key_type is None else stage.key_type.spec()
                    entry = entry._replace(keyed=True, key_type=key_type, states=states)
                described.setdefault(uid, entry)  # a sink may be in several stages
        return list(described.values())


def _succeeding(
    before: DescribedState, state: DescribedState, stage: Stage, subtask: int, checkpoint: int
) -> DescribedState:
    value_type, earlier, since = state.value_type, before.earlier, before.since
    if before.removed:  # who doesn't declare it has dropped it, so nothing is left in another type
        return state._replace(since=checkpoint)
    if before.value_type != value_type:
        all_groups, since = [[0, stage.max_parallelism - 1]], checkpoint
        for version in earlier:
            all_groups = _without(all_groups, version.key_groups)
        earlier = (*earlier, EarlierType(before.value_type, all_groups))
    mine = key_group_range(subtask, stage.max_parallelism, stage.parallelism)
    left: list[EarlierType] = []
    for version in earlier:
        groups = _without(version.key_groups, [[mine.start, mine.stop - 1]])
        since = since if groups == version.key_groups else checkpoint
        if groups and version.value_type != value_type:
            left.append(version._replace(key_groups=groups))
    return state._replace(earlier=tuple(left), since=since)


def _without(ranges: list[list[int]], taken: list[list[int]]) -> list[list[int]]:
    """Ranges of key groups, each by its first and last, without those of others."""
    for low, high in taken:
        cut = []
        for first, last in ranges:
            if high < first or last < low:
                cut.append([first, last])
                continue
            if first < low:
                cut.append([first, low - 1])
            if high < last:
                cut.append([high + 1, last])
        ranges = cut
    return ranges
