"""Random pipelines of golden/generated as jobs whose results do not depend on when their epochs end.

Their elements and watermarks come from a script, so that a watermark has its place in the input. What a program allows to be
changed without another result is in its ``Traits``.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from api.common import Configuration, Types, WatermarkStrategy
from api.common.serialization import Encoder
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.file_system import BucketAssigner, OutputFileConfig, RollingPolicy
from api.datastream.connectors.file_system import StreamingFileSink as Files
from changelog_engine.connectors.sinks import CollectSink
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.launcher import alias_installed, install_alias, remove_alias
from changelog_engine.testing import At, ScriptedSource, Watermark

sys.path.insert(0, str(Path(__file__).parents[1] / "golden" / "generated"))
_had_alias = alias_installed()
install_alias()
try:
    import generate
    import pipelines
finally:
    if not _had_alias:
        remove_alias()

Described = dict[str, Any]
KEYS = ["a", "b", "c", "é", "", "a'b", "long key", "x1", "x2", "x3"]
KEYED = {
    "keyed", "state_map", "state_flat_map", "state_filter", "reduce", "rolling", "window", "count_window",
}  # fmt: skip
TWO = {"union", "connect", "broadcast"}
_FILTERS = {"map", "flat_map", "filter", "mutate", "project", "process", "assign", "state_filter"}


class ElementFailedError(Exception):
    """What a trap raises."""


class Trap:
    """Raises, or does something else, when user code takes an element for the n-th time.

    Attributes:
        left: how often it may still be taken; None sets no trap.
        springs: what happens before it raises.
        after: gives the next ``left``.
    """

    def __init__(self) -> None:
        self.left: int | None = None
        self.springs: Any = None
        self.after: Any = None

    def step(self) -> None:
        """An element is taken."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None if self.after is None else self.after()
                if self.springs is not None:
                    self.springs()
                raise ElementFailedError("the trap")


TRAP = Trap()
_taken = pipelines.taken


def taken(value: Any) -> Any:
    """As ``pipelines.taken``, which a trap may watch."""
    TRAP.step()
    return _taken(value)


def _is_element(value: Any) -> bool:
    try:
        _taken(value)
    except Exception:
        return False
    return True


pipelines.taken = taken  # type: ignore[attr-defined]
pipelines._is_element = _is_element  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Traits:
    """What changes nothing of a program's results.

    Args:
        any_epochs: how many elements an epoch has, at parallelism 1.
        any_parallelism: the parallelism, but for the order of results.
        any_last: that of the last stage with keyed state, but for the order of results.
        timed: whether its state holds the time of day.
        keyed: how many of its steps keep keyed state.
    """

    any_epochs: bool
    any_parallelism: bool
    any_last: bool
    timed: bool
    keyed: int


def traits(described: Described) -> Traits:
    """What changes nothing of a program's results."""
    steps = described["steps"]
    keyed = [number for number, step in enumerate(steps) if step["op"] in KEYED or step.get("keyed")]
    ops = [step["op"] for step in steps]
    spreads = any(step["op"] == "partition" and step["how"] != "forward" for step in steps)
    tells = any(
        step["op"] in TWO - {"union"} and (not step.get("keyed") or step.get("tells", False))
        for step in steps
    )
    any_last = bool(keyed) and "window_all" not in ops[keyed[-1] :] and not spreads and not tells
    return Traits(
        any_epochs=not TWO & {*ops} and "assign" not in ops,
        any_parallelism=any_last and len(keyed) == 1 and "window_all" not in ops,
        any_last=any_last,
        timed='"ttl"' in json.dumps(described),
        keyed=len(keyed),
    )


def random_program(seed: int, batch: bool = False) -> Described:
    """A program with keyed state; the same for the same seed."""
    for attempt in range(1000):
        chance = random.Random(f"{seed} {attempt}")
        mode = "batch" if batch else chance.choice(["paced", "whole"])
        ordered = chance.random() < 0.5
        count = chance.choice([2, 3, 5, 8, 12])
        times = [chance.randrange(0, 2000) // 10 * 10 for _ in range(count)]
        if ordered:
            times.sort()
        names = chance.sample(KEYS, chance.choice([1, 3, 6]))
        elements = [[chance.choice(names), chance.randrange(-3, 30), at] for at in times]
        timed = chance.random() < 0.9
        shared = {"elements": elements, "time": ["monotonous"] if timed else None, "ordered": ordered}
        made = generate.Maker(seed * 1000 + attempt, mode, shared).make()
        made["marks"] = chance.choice(["each", "each", "some", "none"]) if timed else "none"
        made["lag"] = chance.choice([0, 1, 100, 400])
        made.pop("end", None)
        found = traits(made)
        if found.keyed:
            return made
    raise AssertionError("no program")


def script(described: Described) -> list[Any]:
    """The elements, with their watermarks; of a program with ``cut`` only the first so many items."""
    chance = random.Random(repr(described["id"]))
    items: list[Any] = []
    largest = mark = -1
    timed = described["time"] is not None
    for element in described["elements"]:
        value = pipelines.made(described["kind"], *element)
        items.append(At(value, element[2]) if timed else value)
        largest = max(largest, element[2])
        due = described["marks"] == "each" or (described["marks"] == "some" and chance.random() < 0.3)
        if timed and due and largest - described["lag"] - 1 > mark:
            mark = largest - described["lag"] - 1
            items.append(Watermark(mark))
    return items[: described.get("cut", len(items))]


class _Builder(pipelines.Builder):
    def source(self, described: Described) -> Any:
        kind = described["kind"]
        typed = pipelines.TYPES[kind]() if described["typed"] and kind in pipelines.TYPES else None
        source = ScriptedSource(script(described), typed)
        return self.env.from_source(source, WatermarkStrategy.no_watermarks(), "source", typed)


def _files(folder: str, at_checkpoints: bool) -> Any:
    """A sink of files whose names say in which order they were written."""
    rolls = RollingPolicy.default_rolling_policy(part_size=300)
    if at_checkpoints:
        rolls = RollingPolicy.on_checkpoint_rolling_policy()
    with warnings.catch_warnings(category=DeprecationWarning, action="ignore"):
        return (
            Files.for_row_format(folder, Encoder.simple_string_encoder())
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .with_rolling_policy(rolls)
            .with_output_file_config(OutputFileConfig("p", ".txt"))
            .build()
        )


def build(
    described: Described, parallelism: int = 1, most: int | None = None, files: str | None = None
) -> Any:
    """An environment with the program; what it gives is printed, and written to files."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(parallelism)
    if most is not None:
        env.set_max_parallelism(most)
    builder = _Builder(env)
    stream = builder.source(described)
    for step in described["steps"]:
        stream = pipelines._step(stream, step)
    told = stream.process(pipelines._Tell(""), Types.STRING())
    told.print()
    if files is not None:
        told.add_sink(_files(files, described["id"] % 2 == 1))
    return env


def graph_of(
    described: Described,
    parallelism: int = 1,
    most: int | None = None,
    files: str | None = None,
    last: int | None = None,
) -> JobGraph:
    """The program as a job that collects what it gives; its last stage with keyed state may have its own parallelism."""
    graph: JobGraph = build(described, parallelism, most, files)._take_job("job")[0]
    nodes = list(graph.nodes)
    if last is not None:
        number = last_keyed(graph)
        nodes[number] = replace(nodes[number], parallelism=last)
    place = next(n for n, node in enumerate(nodes) if node.kind is NodeKind.SINK)
    nodes[place] = replace(nodes[place], function=CollectSink())
    return replace(graph, nodes=tuple(nodes))


def last_keyed(graph: JobGraph) -> int:
    """The id of the operator with which the last stage with keyed state begins."""
    keys = {node.id for node in graph.nodes if node.kind is NodeKind.KEY_BY}
    return max(node.id for node in graph.nodes if keys & {*node.inputs})
