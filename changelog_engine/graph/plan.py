"""User graph to stages: what runs together in one task, and what moves between tasks.

Invariants:
    * A stage is a chain (a tree, really) of operators between two exchanges; all of it has one parallelism.
    * A stage's inputs come from stages with smaller ids.
    * Operators keep the order of their input: an operator that does not ask for a parallelism runs where its input runs,
      so elements of one source stay in order until a key_by. (Flink would rebalance them.)
    * Every operator has a stable id: the user's uid, else a hash of its place in the graph.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.key_groups import default_max_parallelism
from changelog_engine.graph.nodes import JobGraph, Node, NodeKind
from changelog_engine.types import TypeInformation


class Partitioner(enum.Enum):
    """How an exchange chooses the receiving subtask."""

    HASH = "hash"  # by key group
    FORWARD = "forward"  # subtask i to subtask i
    REBALANCE = "rebalance"  # evenly, in turn


@dataclass(frozen=True)
class Edge:
    """An exchange from one operator to the operators of a later stage."""

    id: int
    from_stage: int
    from_node: int
    to_stage: int
    to_nodes: tuple[int, ...]
    partitioner: Partitioner
    key_by: Node | None = None  # the KEY_BY node of a HASH edge, without its function


@dataclass(frozen=True)
class Stage:
    """Operators that run in one task, and their exchanges.

    ``links`` holds the chained receivers of each node; ``keyed`` says whether its heads read keyed elements.
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
        nodes = tuple(replace(node, function=None) for node in self.graph.nodes)
        return replace(self, graph=replace(self.graph, nodes=nodes))

    @property
    def parallelism_of(self) -> dict[int, int]:
        """Stage id to parallelism."""
        return {stage.id: stage.parallelism for stage in self.stages}

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
    """Cut the graph into stages.

    Args:
        graph: nodes in topological order, each reachable from a source.

    Returns:
        The plan; stage ids follow the flow of data.

    Raises:
        InvalidJobError: nothing to execute, duplicate uid, or a parallelism above its max parallelism.
    """
    if not any(node.kind is NodeKind.SINK for node in graph.nodes):
        raise InvalidJobError(
            f"job {graph.name!r} has no sink, so there is nothing to execute: end a stream with print(), add_sink(), "
            "sink_to() or execute_and_collect()"
        )
    return _Planner(graph).plan()


class _Planner:
    """Assigns every operator to a stage, then draws the edges."""

    def __init__(self, graph: JobGraph) -> None:
        self.graph = graph
        self.nodes = {node.id: node for node in graph.nodes}
        self.drafts: list[_Draft] = []
        self.stage_of: dict[int, int] = {}
        self.chained: dict[int, list[int]] = {}

    def plan(self) -> JobPlan:
        uids = assign_uids(self.graph)
        for node in self.graph.nodes:
            if node.kind not in (NodeKind.KEY_BY, NodeKind.UNION):
                self._place(node)
        edges = self._edges()
        stages = tuple(self._stage(index, draft, edges, uids) for index, draft in enumerate(self.drafts))
        return JobPlan(self.graph, stages, uids)

    def _place(self, node: Node) -> None:
        if node.kind is NodeKind.SOURCE:
            parallel = getattr(node.function, "parallel", True)
            wanted = node.parallelism or self.graph.parallelism
            self._start(node, ("source", node.id), wanted if parallel else 1)
            return
        key_by = self._key_by(node)
        if key_by is not None:
            parallelism = node.parallelism or self.graph.parallelism
            key = ("keyed", key_by.id, parallelism, node.max_parallelism)
            draft = self._start(node, key, parallelism)
            draft.keyed, draft.key_type = True, key_by.key_type
            return
        inputs = self._flatten(node)
        stages = {self.stage_of[i] for i in inputs}
        if len(stages) == 1:
            (stage,) = stages
            if node.parallelism in (None, self.drafts[stage].parallelism):
                self.stage_of[node.id] = stage
                self.drafts[stage].nodes.append(node.id)
                for i in dict.fromkeys(inputs):
                    self.chained.setdefault(i, []).extend([node.id] * inputs.count(i))
                return
        parallelism = node.parallelism or max(self.drafts[stage].parallelism for stage in stages)
        self._start(node, ("moved", tuple(inputs), parallelism), parallelism)

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
        first = self.nodes[node.inputs[0]]
        return first if first.kind is NodeKind.KEY_BY else None

    def _flatten(self, node: Node) -> list[int]:
        """Ids of the operators whose elements reach the node, through unions and key_bys."""
        found: list[int] = []
        for i in node.inputs:
            source = self.nodes[i]
            if source.kind in (NodeKind.UNION, NodeKind.KEY_BY):
                found.extend(self._flatten(source))
            else:
                found.append(i)
        return found

    def _edges(self) -> list[Edge]:
        edges: list[Edge] = []
        for index, draft in enumerate(self.drafts):
            heads = [i for i in draft.nodes if self._is_head(i, index)]
            routes: dict[tuple[int, int], list[int]] = {}
            for head in heads:
                occurrence: dict[int, int] = {}
                for source in self._flatten(self.nodes[head]):
                    turn = occurrence[source] = occurrence.get(source, 0) + 1
                    routes.setdefault((source, turn), []).append(head)
            for (source, _), receivers in routes.items():
                from_stage = self.stage_of[source]
                key_by = self._key_by(self.nodes[receivers[0]])
                if key_by is not None:
                    partitioner = Partitioner.HASH
                elif self.drafts[from_stage].parallelism == draft.parallelism:
                    partitioner = Partitioner.FORWARD
                else:
                    partitioner = Partitioner.REBALANCE
                edges.append(
                    Edge(len(edges), from_stage, source, index, tuple(receivers), partitioner, _bare(key_by))
                )
        return edges

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
        return Stage(
            id=index,
            uid=uids[draft.nodes[0]],
            parallelism=draft.parallelism,
            max_parallelism=asked or default_max_parallelism(draft.parallelism),
            nodes=tuple(draft.nodes),
            links={i: tuple(self.chained.get(i, ())) for i in draft.nodes},
            inputs=tuple(edge for edge in edges if edge.to_stage == index),
            outputs=tuple(edge for edge in edges if edge.from_stage == index),
            keyed=draft.keyed,
            key_type=draft.key_type,
        )


def _bare(node: Node | None) -> Node | None:
    return None if node is None else replace(node, function=None)


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
