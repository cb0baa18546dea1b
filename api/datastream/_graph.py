"""The graph of a program while it is built: its operators, what may be set on them, and the frozen graph made of them.

Invariants:
    * It knows no stream and no environment: those are thin handles on what is here.
    * An operator is noted when it is made, and runs with the next execution, once.
    * What is set on an operator is checked when it is set; what operators must agree on, when the graph is frozen.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from changelog_engine.codec import by_value
from changelog_engine.codec.unpicklable import holder
from changelog_engine.config.names import writable
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    InvalidJobError,
    NotSerializableError,
)
from changelog_engine.graph.nodes import Given, JobGraph, Node, NodeKind, Partitioner
from changelog_engine.graph.unexecuted import watched
from changelog_engine.types import TypeInformation
from changelog_engine.whose_code import calling_line

from .. import _arguments
from ._fields import KeyAndElement
from .slot_sharing_group import SlotSharingGroup

# What only says where elements come from or go: nothing can be set on it, and people do not see it.
WAYS = frozenset({NodeKind.KEY_BY, NodeKind.PARTITION, NodeKind.SIDE_OUTPUT, NodeKind.UNION})
# What has an effect of its own and runs, whether anything follows it or not, as in Flink.
_RUN_ALONE = frozenset(NodeKind) - WAYS - {NodeKind.SOURCE}
_WITH_FUNCTIONS = _RUN_ALONE | {NodeKind.KEY_BY, NodeKind.PARTITION}  # of the program's own
_WITH_SIDE_OUTPUTS = frozenset(
    {NodeKind.PROCESS, NodeKind.CO_PROCESS, NodeKind.BROADCAST_PROCESS, NodeKind.WINDOW}
)
_UID_HASH = re.compile("[0-9A-Fa-f]{32}")
_METHODS = {NodeKind.KEY_BY: "key_by", NodeKind.UNION: "union"}
_PARTITION_METHODS = {Partitioner.GLOBAL: "global_", Partitioner.CUSTOM: "partition_custom"}


class Chaining(enum.Enum):
    """How an operator asks to be put together with others; kept as it was asked for."""

    ALWAYS = "always"
    HEAD = "head"  # start_new_chain()
    NEVER = "never"  # disable_chaining()


def _stays_here(self: object, protocol: Any) -> Any:
    """Pickle no part of the program: what a worker adds to its copy would run nowhere.

    Every stream, sink and environment holds something that is pickled by this.
    """
    raise NotSerializableError(
        "is or holds a stream or an environment: functions run in the workers, and the program does not. Give the function "
        "the values it needs; streams come together by connect(), union() and broadcast()"
    )


@dataclass(eq=False)
class Transformation:
    """One operator: the fields of a `Node`, still open to change. Errors of setters begin with ``what``, the method called.

    ``uid_hash`` stands for the uid where none is set. ``parallel`` is False after ``force_non_parallel()``.
    ``side_outputs`` has the types under which side outputs were asked for. ``description``,
    ``buffer_timeout_ms`` and ``slot_sharing_group`` are kept and have no effect. ``given`` is the function as it was
    when this was made, ``made_at`` the line of the program that made it.
    """

    kind: NodeKind
    name: str
    order: int
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
    slot_sharing_group: str | SlotSharingGroup | None = None
    given: Given | None = field(init=False, default=None)
    named: bool = field(init=False, default=False)
    made_at: str | None = field(init=False, default=None)

    __reduce_ex__ = _stays_here

    @property
    def stable_id(self) -> str | None:
        """The id that the user gave: the uid, else the uid hash."""
        return self.uid or self.uid_hash

    @property
    def keyed(self) -> bool:
        """Whether it partitions its elements by key."""
        return self.kind is NodeKind.KEY_BY

    @property
    def begins_chain(self) -> bool:
        """Whether start_new_chain() or disable_chaining() parts it from what it reads."""
        return self.chaining is not Chaining.ALWAYS or any(
            origin.chaining is Chaining.NEVER for origin in self.inputs
        )

    def check_operator(self, owner: str, method: str) -> None:
        """Refuse what only says where elements go: nothing can be set on it.

        Args:
            owner: the class of the stream.
            method: the one called.

        Raises:
            InvalidJobError: the stream is keyed, partitioned or a union.
        """
        made_by = _METHODS.get(self.kind)
        if self.kind is NodeKind.PARTITION:
            partitioner: Partitioner = self.function.partitioner
            made_by = _PARTITION_METHODS.get(partitioner, partitioner.value)
        if made_by is not None:
            raise InvalidJobError(
                f"{owner}.{method} is not possible after {made_by}(): such a stream is not an operator of its own; "
                f"call {method} on the stream before {made_by}(), or on the result of the operator after it"
            )

    def set_name(self, name: Any, what: str) -> None:
        """Set the name, which people see."""
        self.name = _arguments.text(name, f"{what}: the name")
        self.named = True

    def set_uid(self, uid: Any, what: str) -> None:
        """Set the stable id."""
        self.uid = _arguments.text(uid, f"{what}: the uid")

    def set_uid_hash(self, uid_hash: Any, what: str) -> None:
        """Set the stable id of an operator that has no uid."""
        if not isinstance(uid_hash, str) or not _UID_HASH.fullmatch(uid_hash):
            raise ArgumentTypeError(f"{what}: uid_hash must be 32 hexadecimal digits, got {uid_hash!r}")
        self.uid_hash = uid_hash

    def set_parallelism(self, parallelism: Any, what: str) -> None:
        """Set the parallelism.

        Raises:
            ConfigurationError: out of range, or not 1 where only 1 is possible.
        """
        what = f"{what} of {self.name!r}"
        default = parallelism == _arguments.PARALLELISM_DEFAULT
        value = parallelism if default else _arguments.parallelism(parallelism, what)
        if value != 1 and self.kind is NodeKind.SOURCE and not self.function.parallel:
            raise ConfigurationError(
                f"{what}: the parallelism of a source that is not parallel must be 1, got {value}"
            )
        self._check_forced(value, what)
        self.parallelism = None if default else value

    def set_max_parallelism(self, max_parallelism: Any, what: str) -> None:
        """Set the max parallelism.

        Raises:
            ConfigurationError: out of range, or not 1 where only 1 is possible.
        """
        what = f"{what} of {self.name!r}"
        value = _arguments.max_parallelism(max_parallelism, what)
        self._check_forced(value, what)
        self.max_parallelism = value

    def _check_forced(self, value: int, what: str) -> None:
        if value != 1 and not self.parallel:
            raise ConfigurationError(f"{what}: it must be 1 after force_non_parallel(), got {value}")

    def force_non_parallel(self) -> None:
        """Set parallelism and max parallelism to 1, for good."""
        self.parallelism = self.max_parallelism = 1
        self.parallel = False

    def set_description(self, description: Any, what: str) -> None:
        """Set the description."""
        what = f"{what}: the description"
        self.description = writable(_arguments.any_text(description, what), what)

    def set_buffer_timeout(self, timeout_millis: Any, what: str) -> None:
        """Set the buffer timeout."""
        self.buffer_timeout_ms = _arguments.whole_number(timeout_millis, f"{what}: timeout_millis", -1)

    def set_slot_sharing_group(self, group: Any, what: str) -> None:
        """Set the slot sharing group, by its name or itself."""
        if not isinstance(group, SlotSharingGroup) and (not isinstance(group, str) or not group.strip()):
            raise ArgumentTypeError(
                f"{what}: slot_sharing_group must be a name or a SlotSharingGroup, got {group!r}"
            )
        if isinstance(group, str):
            writable(group, f"{what}: slot_sharing_group")
        self.slot_sharing_group = group

    def has_side_output(self, tag_id: str) -> bool:
        """Whether the operator may emit with a tag: a source does so with records that it cannot read."""
        if self.kind is NodeKind.SOURCE:
            return bool(self.function.bad_tag == tag_id)
        return self.kind in _WITH_SIDE_OUTPUTS

    def add_side_output(self, tag_id: str, type_info: TypeInformation) -> None:
        """Note that somebody reads a side output.

        Raises:
            InvalidJobError: the operator has none.
            ConfigurationError: it was asked for with another type.
        """
        if not self.has_side_output(tag_id):
            raise InvalidJobError(
                f"get_side_output: {self.name!r} has no side outputs; call get_side_output on the result "
                "of process() or of a window"
            )
        known = self.side_outputs.setdefault(tag_id, type_info)
        if known.spec() != type_info.spec():
            raise ConfigurationError(
                f"get_side_output: the side output {tag_id!r} of {self.name!r} was asked for "
                f"with type {known.name} before, and now with type {type_info.name}; give both the same OutputTag"
            )


class GraphBuilder:
    """The operators of one environment's program."""

    __reduce_ex__ = _stays_here

    def __init__(self) -> None:
        self._made = 0
        self._waiting: list[Transformation] = watched(self, [])  # what no execution has taken, in its order

    def add(
        self,
        kind: NodeKind,
        name: str,
        inputs: tuple[Transformation, ...] = (),
        function: Any = None,
        output_type: TypeInformation | None = None,
        *,
        key_type: TypeInformation | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
    ) -> Transformation:
        """Add an operator to the program. Fields as those of `Transformation`."""
        made = self.prepare(kind, name, inputs, function, output_type)
        made.key_type, made.parallelism, made.max_parallelism = key_type, parallelism, max_parallelism
        if kind in _RUN_ALONE:
            self._waiting.append(made)
        return made

    def prepare(
        self,
        kind: NodeKind,
        name: str,
        inputs: tuple[Transformation, ...] = (),
        function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> Transformation:
        """Make an operator for one execution, which is given it; others do not run it.

        Raises:
            NotSerializableError: its function holds a stream or an environment.
        """
        made = Transformation(kind, name, self._made + 1, inputs, function, output_type)
        made.made_at = calling_line()
        if kind in _WITH_FUNCTIONS:
            made.given = _as_given(made)
        self._made += 1
        return made

    def to_run(self, *more: Transformation) -> list[Transformation]:
        """What the next execution runs: what was added since the last one, and more.

        Raises:
            InvalidJobError: nothing.
        """
        operators = [*self._waiting, *more]
        if not operators:
            raise InvalidJobError(
                "no operators to execute: a source alone does nothing. Add an operator or a sink, such as map(), print(), "
                "add_sink() or sink_to(), or use execute_and_collect(); what an earlier execution ran is not run again"
            )
        return operators

    def taken(self) -> None:
        """An execution has taken what there was."""
        self._waiting.clear()


def _as_given(made: Transformation) -> Given | None:
    """An operator's function as it is now; what else can't be pickled is said when the job starts: then it has its name."""
    try:
        return Given(made.function, by_value.dumps(made.function))
    except NotSerializableError as error:
        held = holder(made.function) or "a value"
        raise NotSerializableError(f"the function of {made.name!r} uses {held}, which {error}") from None
    except Exception:
        return None


def freeze(
    operators: Iterable[Transformation],
    name: str,
    parallelism: int,
    max_parallelism: int | None,
    with_uids: bool = False,
) -> tuple[JobGraph, dict[Transformation, int]]:
    """Freeze operators and all that leads to them.

    Args:
        operators: what is to run.
        name: the job's name.
        parallelism: of operators that set none.
        max_parallelism: of operators that set none.
        with_uids: whether every operator needs a uid.

    Returns:
        The graph, its nodes in the order in which they were created; and the id of each operator.

    Raises:
        InvalidJobError: two operators have the same uid, one lacks the uid that it needs, or a parallelism is above its max
            parallelism.
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
    if with_uids:
        _check_all_have_uids(ordered)
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
            named=each.named,
            made_at=each.made_at,
            begins_chain=each.begins_chain,
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


def _check_all_have_uids(transformations: list[Transformation]) -> None:
    for each in transformations:
        engines_own = each.kind in WAYS or isinstance(each.function, KeyAndElement)
        if each.stable_id is None and not engines_own:
            raise InvalidJobError(
                f"operator {each.name!r} has no uid, and generated ones are switched off: give it one with uid(), or "
                "call env.get_config().enable_auto_generated_uids()"
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
