"""User graph to stages: what runs together in one task, and what moves between tasks.

Invariants:
    * A stage is a chain (a tree, really) of operators between two exchanges; all of it has one parallelism.
    * A stage's inputs come from stages with smaller ids.
    * Operators keep the order of their input: an operator that does not ask for a parallelism runs where its input runs,
      so elements of one source stay in order until a key_by. (Flink would rebalance them.) After rebalance() and its
      like it has the job's parallelism.
    * An operator with two inputs begins a stage: what it reads comes through exchanges, one edge or more for each input.
    * An operator is in one stage, but for a sink that goes along with its inputs (``AnySink.goes_along``): behind a union it
      is in the stage of each stream, where these have one parallelism and none is a source's.
    * Every operator has a stable id: the user's uid, else a hash of its place in the graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.key_groups import default_max_parallelism
from changelog_engine.graph.nodes import TWO_INPUTS, JobGraph, Node, NodeKind, Partitioner
from changelog_engine.types import TypeInformation
from changelog_engine.types.typeinfo import declared_name


@dataclass(frozen=True)
class Edge:
    """An exchange from one operator to the operators of a later stage.

    ``route`` is the KEY_BY or PARTITION node that asked for it, without its function; ``input`` tells which input of the
    receivers it feeds.
    """

    id: int
    from_stage: int
    from_node: int
    to_stage: int
    to_nodes: tuple[int, ...]
    partitioner: Partitioner
    route: Node | None = None
    input: int = 0

    @property
    def key_by(self) -> Node | None:
        """The KEY_BY node of a HASH edge."""
        return self.route if self.partitioner is Partitioner.HASH else None


class _Path(NamedTuple):
    """How elements reach a node: from which operator, by which KEY_BY or PARTITION node, as which input."""

    origin: int
    route: int | None
    input: int


@dataclass(frozen=True)
class Stage:
    """Operators that run in one task, and their exchanges.

    ``links`` holds the chained receivers of each node; ``keyed`` says whether its heads read keyed elements, ``timed``
    whether what they read may have timestamps. Nodes that are ``apart`` are chained, and read elements of their type.
    """

    id: int
    uid: str
    parallelism: int
    max_parallelism: int
    nodes: tuple[int, ...]
    links: dict[int, tuple[int, ...]]
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    keyed: bool
    key_type: TypeInformation | None
    timed: bool
    apart: frozenset[int]

    def partitions(self, parallelism_of: dict[int, int]) -> list[int]:
        """First partition of each output edge, in one partition space for all of them (and its size, last)."""
        offsets = [0]
        for edge in self.outputs:
            offsets.append(offsets[-1] + parallelism_of[edge.to_stage])
        return offsets


@dataclass(frozen=True)
class JobPlan:
    """Everything a worker needs to know of the job's shape."""

    graph: JobGraph
    stages: tuple[Stage, ...]
    uids: dict[int, str]

    def without_functions(self) -> JobPlan:
        """The plan as it is shipped; functions travel apart, each pickled by itself."""
        nodes = tuple(replace(node, function=None, given=None) for node in self.graph.nodes)
        return replace(self, graph=replace(self.graph, nodes=nodes))

    @property
    def parallelism_of(self) -> dict[int, int]:
        """Stage id to parallelism."""
        return {stage.id: stage.parallelism for stage in self.stages}

    def nodes_of(self, stage: Stage) -> list[Node]:
        """A stage's operators, in its order."""
        nodes = self.graph.by_id()
        return [nodes[each] for each in stage.nodes]

    def upstream(self, stage: int) -> frozenset[int]:
        """The stages that lead to a stage."""
        found = {stage}
        for each in reversed(self.stages[: stage + 1]):
            if each.id in found:
                found.update(edge.from_stage for edge in each.inputs)
        return frozenset(found - {stage})

    def channels(self, stage: Stage) -> int:
        """How many upstream subtasks feed each subtask of the stage."""
        parallelism = self.parallelism_of
        return sum(parallelism[edge.from_stage] for edge in stage.inputs)


@dataclass
class _Draft:
    """A stage while it is being put together."""

    key: object
    parallelism: int
    max_parallelism: int | None
    nodes: list[int]
    keyed: bool = False
    key_type: TypeInformation | None = None


def plan_job(graph: JobGraph) -> JobPlan:
    """Cut the graph into stages, whose ids follow the flow of data.

    Args:
        graph: nodes in topological order, each reachable from a source.

    Raises:
        InvalidJobError: nothing to execute, duplicate uid, or a parallelism above its max parallelism.
    """
    if all(node.kind is NodeKind.SOURCE for node in graph.nodes):
        raise InvalidJobError(
            f"job {graph.name!r} has no operators, so there is nothing to execute: add one, such as map(), or a sink, such "
            "as print() or sink_to()"
        )
    return _Planner(graph).plan()


class _Planner:
    """Assigns every operator to a stage, then draws the edges."""

    def __init__(self, graph: JobGraph) -> None:
        self.graph = graph
        self.nodes = graph.by_id()
        self.drafts: list[_Draft] = []
        self.stage_of: dict[int, int] = {}
        self.chained: dict[int, list[int]] = {}

    def plan(self) -> JobPlan:
        uids = assign_uids(self.graph)
        for node in self.graph.nodes:
            if node.kind not in _VIRTUAL:
                self._place(node)
        edges = self._edges()
        self.apart = self._apart()
        stages = tuple(self._stage(index, draft, edges, uids) for index, draft in enumerate(self.drafts))
        return JobPlan(self.graph, stages, uids)

    def _place(self, node: Node) -> None:
        if node.kind is NodeKind.SOURCE:
            wanted = node.parallelism or self.graph.parallelism
            self._start(node, ("source", node.id), wanted if node.function.parallel else 1)
            return
        paths = self._paths(node)
        if node.kind is NodeKind.SIDE_OUTPUT:  # a part of its producer
            self._chain(node, self.stage_of[paths[0].origin], paths)
            return
        key_by = self._key_by(node)
        if key_by is not None:
            parallelism = node.parallelism or self.graph.parallelism
            only = node.id if node.kind in TWO_INPUTS else None
            draft = self._start(
                node, ("keyed", key_by.id, parallelism, node.max_parallelism, only), parallelism
            )
            draft.keyed, draft.key_type = True, key_by.key_type
            return
        stages = {self.stage_of[path.origin] for path in paths}
        moved = node.kind in TWO_INPUTS or any(path.route is not None for path in paths)
        if len(stages) == 1 and not moved:
            (stage,) = stages
            if node.parallelism in (None, self.drafts[stage].parallelism):
                self._chain(node, stage, paths)
                return
        if not moved and self._goes_along(node, stages):
            for stage in sorted(stages):
                self._chain(node, stage, [path for path in paths if self.stage_of[path.origin] == stage])
            return
        parallelism = node.parallelism or self._moved_parallelism(paths, stages)
        self._check_forward(node, paths, parallelism)
        only = node.id if node.kind in TWO_INPUTS else None
        self._start(node, ("moved", tuple(paths), parallelism, only), parallelism)

    def _chain(self, node: Node, stage: int, paths: list[_Path]) -> None:
        self.stage_of[node.id] = stage
        self.drafts[stage].nodes.append(node.id)
        for path in paths:  # a stream in union with itself comes twice
            self.chained.setdefault(path.origin, []).append(node.id)

    def _goes_along(self, node: Node, stages: set[int]) -> bool:
        """Whether a node behind a union needs no stage of its own."""
        if node.kind is not NodeKind.SINK or not node.function.goes_along:
            return False
        before = [self.drafts[stage] for stage in stages]
        parallelism = {draft.parallelism for draft in before}
        return (
            len(parallelism) == 1
            and node.parallelism in (None, *parallelism)
            and all(self.nodes[draft.nodes[0]].kind is not NodeKind.SOURCE for draft in before)
        )

    def _moved_parallelism(self, paths: list[_Path], stages: set[int]) -> int:
        spread = [path for path in paths if path.route is not None and path.input == 0]
        if spread and all(self._partitioner_of(path.route) is not Partitioner.FORWARD for path in spread):
            return self.graph.parallelism
        return max(self.drafts[stage].parallelism for stage in stages)

    def _check_forward(self, node: Node, paths: list[_Path], parallelism: int) -> None:
        for path in paths:
            if path.route is None or self._partitioner_of(path.route) is not Partitioner.FORWARD:
                continue
            before = self.drafts[self.stage_of[path.origin]].parallelism
            if before != parallelism:
                raise InvalidJobError(
                    f"forward() from {self.nodes[path.origin].label!r} (parallelism {before}) to {node.label!r} "
                    f"(parallelism {parallelism}): both must have the same parallelism; use rebalance() or rescale()"
                )

    def _start(self, node: Node, key: object, parallelism: int) -> _Draft:
        """Put the node at the head of the stage with this key."""
        known = [index for index, draft in enumerate(self.drafts) if draft.key == key]
        index = known[0] if known else len(self.drafts)
        if not known:
            self.drafts.append(_Draft(key, parallelism, None, []))
        draft = self.drafts[index]
        draft.nodes.append(node.id)
        draft.max_parallelism = draft.max_parallelism or node.max_parallelism
        self.stage_of[node.id] = index
        return draft

    def _key_by(self, node: Node) -> Node | None:
        """The KEY_BY node of a keyed operator.

        Raises:
            InvalidJobError: one of two inputs is keyed and the other isn't, or their keys have different types.
        """
        if node.kind is NodeKind.SIDE_OUTPUT:
            return None
        first = self.nodes[node.inputs[0]]
        keyed = first if first.kind is NodeKind.KEY_BY else None
        if node.kind in TWO_INPUTS and node.kind is not NodeKind.BROADCAST_PROCESS:
            second = self.nodes[node.inputs[1]]
            if (keyed is None) != (second.kind is not NodeKind.KEY_BY):
                raise InvalidJobError(
                    f"operator {node.label!r} connects a keyed stream with one that is not: key both or neither"
                )
            if keyed is not None and _type_spec(keyed.key_type) != _type_spec(second.key_type):
                raise InvalidJobError(
                    f"operator {node.label!r} connects streams with keys of different types, "
                    f"{declared_name(keyed.key_type)} and {declared_name(second.key_type)}: give both key_by() the same "
                    "key_type"
                )
        return keyed

    def _paths(self, node: Node) -> list[_Path]:
        """The operators whose elements reach the node, through unions, key_bys and partitionings."""
        found: list[_Path] = []
        two = node.kind in TWO_INPUTS
        for position, i in enumerate(node.inputs):
            found.extend(self._paths_from(self.nodes[i], None, position if two else 0))
        return found

    def _paths_from(self, node: Node, route: int | None, position: int) -> list[_Path]:
        if node.kind not in _VIRTUAL:
            return [_Path(node.id, route, position)]
        if route is None and node.kind is not NodeKind.UNION:
            route = node.id  # of several, the last one before the operator holds
        return [path for i in node.inputs for path in self._paths_from(self.nodes[i], route, position)]

    def _edges(self) -> list[Edge]:
        edges: list[Edge] = []
        for index, draft in enumerate(self.drafts):
            heads = [i for i in draft.nodes if self._is_head(i, index)]
            routes: dict[tuple[_Path, int], list[int]] = {}
            for head in heads:
                occurrence: dict[_Path, int] = {}
                paths = self._paths(self.nodes[head])
                if self.nodes[head].kind is NodeKind.BROADCAST_PROCESS:
                    paths.sort(key=lambda path: -path.input)  # of an epoch, what is broadcast comes first
                for path in paths:
                    turn = occurrence[path] = occurrence.get(path, 0) + 1
                    routes.setdefault((path, turn), []).append(head)
            for (path, _), receivers in routes.items():
                from_stage = self.stage_of[path.origin]
                partitioner = self._partitioner_of(path.route)
                if partitioner is None:
                    partitioner = unasked_partitioner(self.drafts[from_stage].parallelism, draft.parallelism)
                edges.append(
                    Edge(
                        len(edges),
                        from_stage,
                        path.origin,
                        index,
                        tuple(receivers),
                        partitioner,
                        self._bare(path.route),
                        path.input,
                    )
                )
        return edges

    def _partitioner_of(self, route: int | None) -> Partitioner | None:
        if route is None:
            return None
        node = self.nodes[route]
        partitioner: Partitioner = (
            Partitioner.HASH if node.kind is NodeKind.KEY_BY else node.function.partitioner
        )
        return partitioner

    def _bare(self, route: int | None) -> Node | None:
        return None if route is None else replace(self.nodes[route], function=None, given=None)

    def _is_head(self, node: int, stage: int) -> bool:
        if self.nodes[node].kind is NodeKind.SOURCE:
            return False
        if self._key_by(self.nodes[node]) is not None:
            return True
        return not any(node in chained for chained in self.chained.values())

    def _stage(self, index: int, draft: _Draft, edges: list[Edge], uids: dict[int, str]) -> Stage:
        asked = draft.max_parallelism or self.graph.max_parallelism
        if asked is not None and draft.parallelism > asked:
            names = ", ".join(repr(self.nodes[i].name) for i in draft.nodes)
            raise InvalidJobError(
                f"parallelism {draft.parallelism} of {names} is above its max parallelism {asked}: lower the one "
                "with set_parallelism() or raise the other with set_max_parallelism()"
            )
        inputs = tuple(edge for edge in edges if edge.to_stage == index)
        return Stage(
            id=index,
            uid=uids[draft.nodes[0]],
            parallelism=draft.parallelism,
            max_parallelism=asked or default_max_parallelism(draft.parallelism),
            nodes=tuple(draft.nodes),
            links={i: tuple(self.chained.get(i, ())) for i in draft.nodes},
            inputs=inputs,
            outputs=tuple(edge for edge in edges if edge.from_stage == index),
            keyed=draft.keyed,
            key_type=draft.key_type,
            timed=any(self._is_timed(edge.from_node) for edge in inputs),
            apart=self.apart.intersection(draft.nodes),
        )

    def _apart(self) -> frozenset[int]:
        """What PyFlink does not chain: functions before a union or an exchange that is collected, up to a chain's end."""
        last: list[int] = []
        for node in self.graph.nodes:
            if node.kind is NodeKind.SINK and node.function.collects:
                last += {path.origin for path in self._paths(node)}.difference(node.inputs)
        found: set[int] = set()
        while last:
            node = self.nodes[last.pop()]
            if node.kind in _CHAINED and node.id not in found:
                found.add(node.id)
                last += node.inputs
        return frozenset(found)

    def _is_timed(self, node_id: int) -> bool:
        """Whether what a node gives may have timestamps: they come from a source, or are assigned."""
        waiting, seen = [node_id], set[int]()
        while waiting:
            node = self.nodes[waiting.pop()]
            if node.kind is NodeKind.TIMESTAMPS or (node.kind is NodeKind.SOURCE and node.function.timed):
                return True
            if node.id not in seen:
                seen.add(node.id)
                waiting.extend(node.inputs)
        return False


def unasked_partitioner(before: int, after: int) -> Partitioner:
    """How elements go from a stage to the next where the program says nothing of it."""
    return Partitioner.FORWARD if before == after else Partitioner.REBALANCE


_VIRTUAL = (NodeKind.KEY_BY, NodeKind.PARTITION, NodeKind.UNION)
_CHAINED = (NodeKind.MAP, NodeKind.FLAT_MAP, NodeKind.FILTER, NodeKind.PROCESS)


def _type_spec(declared: TypeInformation | None) -> object:
    return None if declared is None else declared.spec()


def assign_uids(graph: JobGraph) -> dict[int, str]:
    """Give every operator its stable id.

    Raises:
        InvalidJobError: two operators have the same uid.
    """
    uids: dict[int, str] = {}
    owners: dict[str, str] = {}
    for node in graph.nodes:
        uid = node.uid or _place_hash(node, (uids[i] for i in node.inputs), owners)
        if uid in owners:
            raise InvalidJobError(
                f"operators {owners[uid]!r} and {node.name!r} have the same uid {uid!r}: a uid must be unique in a job, "
                "because it names the operator's state"
            )
        owners[uid] = node.name
        uids[node.id] = uid
    return uids


def _place_hash(node: Node, inputs: Iterable[str], taken: dict[str, str]) -> str:
    place = f"{node.kind.value}({','.join(inputs)})"
    turn = 0
    while True:
        digest = hashlib.sha256(f"{place}#{turn}".encode()).hexdigest()[:8]
        uid = f"{node.kind.value}-{digest}"
        if uid not in taken:
            return uid
        turn += 1
