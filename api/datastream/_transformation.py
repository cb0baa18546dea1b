"""The operators of a program while it is built, and the frozen graph that is made of them."""

from __future__ import annotations

import contextlib
import enum
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.nodes import Given, JobGraph, Node, NodeKind
from changelog_engine.types import TypeInformation

# What has an effect of its own and runs, whether anything follows it or not, as in Flink.
OPERATORS = frozenset(NodeKind) - {
    NodeKind.SOURCE,
    NodeKind.KEY_BY,
    NodeKind.PARTITION,
    NodeKind.SIDE_OUTPUT,
    NodeKind.UNION,
}

# What holds functions of the program's own.
_WITH_FUNCTIONS = OPERATORS | {NodeKind.KEY_BY, NodeKind.PARTITION}

_created = itertools.count()


class Chaining(enum.Enum):
    """How an operator asks to be put together with others; kept as it was asked for."""

    ALWAYS = "always"
    HEAD = "head"  # start_new_chain()
    NEVER = "never"  # disable_chaining()


@dataclass(eq=False)
class Transformation:
    """One operator; the same fields as a `Node`, still open to change by ``name()``, ``uid()`` and so on.

    ``uid_hash`` stands for the uid where none is set. ``parallel`` is False after ``force_non_parallel()``.
    ``side_outputs`` has the types under which side outputs were asked for. ``description``, ``chaining``,
    ``buffer_timeout_ms`` and ``slot_sharing_group`` are kept and have no effect. ``given`` is the function as it was
    when this was made.
    """

    kind: NodeKind
    name: str
    inputs: tuple[Transformation, ...] = ()
    function: Any = None
    output_type: TypeInformation | None = None
    key_type: TypeInformation | None = None
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    uid_hash: str | None = None
    parallel: bool = True
    side_outputs: dict[str, TypeInformation] = field(default_factory=dict)
    description: str | None = None
    chaining: Chaining = Chaining.ALWAYS
    buffer_timeout_ms: int | None = None
    slot_sharing_group: Any = None
    order: int = field(default_factory=lambda: next(_created))
    given: Given | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.kind in _WITH_FUNCTIONS:
            # What can't be pickled is said when the job starts: then the operator has its name.
            with contextlib.suppress(Exception):
                self.given = Given(self.function, cloudpickle.dumps(self.function))

    @property
    def stable_id(self) -> str | None:
        """The id that the user gave: the uid, else the uid hash."""
        return self.uid or self.uid_hash


def newest() -> int:
    """An ``order`` that is after all transformations that were made so far."""
    return next(_created)


def build_graph(
    operators: Iterable[Transformation], name: str, parallelism: int, max_parallelism: int | None
) -> tuple[JobGraph, dict[Transformation, int]]:
    """Freeze operators and all that leads to them.

    Args:
        operators: what is to run.
        name: the job's name.
        parallelism: of operators that set none.
        max_parallelism: of operators that set none.

    Returns:
        The graph, its nodes in the order in which they were created; and the id of each operator.

    Raises:
        InvalidJobError: two operators have the same uid, or a parallelism is above its max parallelism.
    """
    reached: set[Transformation] = set()
    waiting = list(operators)
    while waiting:
        transformation = waiting.pop()
        if transformation not in reached:
            reached.add(transformation)
            waiting += transformation.inputs
    ordered = sorted(reached, key=lambda transformation: transformation.order)
    _check_uids(ordered)
    _check_parallelism(ordered, parallelism, max_parallelism)
    ids = {transformation: index for index, transformation in enumerate(ordered)}
    nodes = tuple(
        Node(
            id=ids[each],
            kind=each.kind,
            name=each.name,
            inputs=tuple(ids[origin] for origin in each.inputs),
            function=each.function,
            output_type=each.output_type,
            uid=each.stable_id,
            parallelism=each.parallelism,
            max_parallelism=each.max_parallelism,
            key_type=each.key_type,
            given=each.given,
        )
        for each in ordered
    )
    return JobGraph(name, nodes, parallelism, max_parallelism), ids


def _check_uids(transformations: list[Transformation]) -> None:
    seen: dict[str, Transformation] = {}
    for each in transformations:
        uid = each.stable_id
        if uid is None:
            continue
        other = seen.setdefault(uid, each)
        if other is not each:
            raise InvalidJobError(
                f"the uid {uid!r} is given to two operators, {other.name!r} and {each.name!r}; a "
                "uid names one operator of the job: change one of them"
            )


def _check_parallelism(
    transformations: list[Transformation], parallelism: int, max_parallelism: int | None
) -> None:
    for each in transformations:
        most = each.max_parallelism or max_parallelism
        wanted = each.parallelism or parallelism
        explicit = each.parallelism is not None or each.max_parallelism is None
        if most is not None and explicit and wanted > most:
            raise InvalidJobError(
                f"operator {each.name!r} has parallelism {wanted} and max parallelism {most}: lower the "
                "parallelism, or raise the max parallelism before the job's first run (it cannot change "
                "later)"
            )
