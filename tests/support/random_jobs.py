"""Random pipelines of golden/generated as jobs whose results do not depend on when their epochs end.

Their elements and watermarks come from a script, so that a watermark has its place in the input. What a program allows to be
changed without another result is in its ``Traits``.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import random
import sys
import warnings
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from api.common import Configuration, Instant, Row, Time, Types, WatermarkStrategy
from api.common.serialization import Encoder
from api.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
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
TWO = {"union", "connect", "broadcast", "branches", "meet"}
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


# Values that are lost where a codec or a comparison is careless. PyFlink refuses or changes some: generate.py has none.
_TEXTS = ["", "\ud800", "\0", "é" * 300, "a\n\"'\\", "\u2028", "NaN", "null"]
_DOUBLES = [float("nan"), -0.0, 0.0, float("-inf"), 5e-324, 1e308, 0.1]
_INTS = [10**30, -(2**63), 2**63, 0, -1, 2**53 + 1]
_UTC = datetime.timezone(datetime.timedelta(hours=2), "here")
_OBJECTS = [
    {1, "a"}, frozenset(), b"", 2**70, "\ud800", (), [[]], {}, {(1, None): {2: 3}}, 1.0, 1, True, float("nan"),
    -0.0, Decimal("1.50"), datetime.datetime(2024, 1, 1, tzinfo=_UTC), datetime.time(1, 2, 3, 4), Decimal("NaN"),
    complex(0, -0.0), [None], Row(a=None),
]  # fmt: skip
_KEYS = [
    1,
    1.0,
    True,
    "1",
    None,
    (),
    (1,),
    ("a", None),
    -0.0,
    0.0,
    b"1",
    2**70,
    "\ud800",
    frozenset({1}),
    Decimal("1.0"),
]
_DAY = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)


def _one(values: list[Any]) -> Any:
    return lambda k, n, t: values[n % len(values)]


WILD = {
    "wild text": (Types.STRING, _one(_TEXTS)),
    "wild double": (Types.DOUBLE, _one(_DOUBLES)),
    "wild integer": (Types.BIG_INT, _one(_INTS)),
    "wild time": (Types.SQL_TIME, lambda k, n, t: datetime.time(n % 24, 0, 59, n % 2 * 999_999)),
    "wild stamp": (Types.SQL_TIMESTAMP, lambda k, n, t: _DAY + datetime.timedelta(days=400 * n)),
    "wild instant": (Types.INSTANT, lambda k, n, t: Instant(n * 1_000_003, n % 2 * 999_999_999)),
}
_VALUES = {
    "wild object": (Types.PICKLED_BYTE_ARRAY, _one(_OBJECTS)),
    "wild list": (lambda: Types.LIST(Types.DOUBLE()), lambda k, n, t: [_DOUBLES[n % 7], 1.0][: n % 3]),
    "wild map": (
        lambda: Types.MAP(Types.DOUBLE(), Types.STRING()),
        lambda k, n, t: {_DOUBLES[n % 7]: _TEXTS[n % 8]},
    ),
    "wild tuple": (
        lambda: Types.TUPLE([Types.STRING(), Types.BIG_INT()]),
        lambda k, n, t: (_TEXTS[n % 8], _INTS[n % 6]),
    ),
}
_UNDECLARED = {"wild key": (_one(_KEYS), None), "wild object": (_one(_KEYS), Types.PICKLED_BYTE_ARRAY)}
pipelines.VALUES.update(WILD | _VALUES | {"wild key": (Types.PICKLED_BYTE_ARRAY, _one(_KEYS))})
pipelines.KEYS.update({name: (made, of) for name, (of, made) in WILD.items()} | _UNDECLARED)


class _Wild(generate.Maker):
    """A third of its states, map keys and keys are wild, and sessions may bridge two others, where PyFlink is left out."""

    def states(self) -> dict[str, Any]:
        states: dict[str, Any] = super().states()
        for state in states.values():
            if state["kind"] in ("value", "list", "map") and self.chance(0.35):
                state["of"] = self.one([*WILD, *_VALUES])
            if state["kind"] == "map" and self.chance(0.35):
                state["key"] = self.one([*WILD, "wild key"])
        return states

    def key(self) -> dict[str, Any]:
        key: dict[str, Any] = super().key()
        return key | {"key": self.one([*WILD, *_UNDECLARED])} if self.chance(0.25) else key

    def assigner(self) -> list[Any]:
        found: list[Any] = super().assigner()
        apart = random.Random(f"{self.seed} {found}")  # what follows in the program stays what it was
        if self.timed and not (self.ordered and self.single) and apart.random() < 0.4:
            found = apart.choice([["session", 50], ["session", 101], ["session", 300], ["dynamic"]])
        return found


class _MoreWild(_Wild, generate.MoreMaker):
    """Of what MoreMaker makes, too."""


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
    split = {"branches", "meet"}
    keyed = [number for number, step in enumerate(steps) if step["op"] in KEYED | split or step.get("keyed")]
    ops = [step["op"] for step in steps]
    spreads = any(step["op"] == "partition" and step["how"] != "forward" for step in steps)
    tells = any(
        step["op"] in TWO - {"union"} - split and (not step.get("keyed") or step.get("tells", False))
        for step in steps
    )
    # What a function gives to its stream and aside comes in the order of each, batch by batch.
    merges = any(step.get("takes") == "both" or step.get("late") or step.get("aside") for step in steps)
    any_last = bool(keyed) and "window_all" not in ops[keyed[-1] :] and not spreads and not tells
    return Traits(
        any_epochs="second" not in described and not TWO & {*ops} and "assign" not in ops and not merges,
        any_parallelism=any_last and len(keyed) == 1 and not {"window_all", *split} & {*ops},
        any_last=any_last,
        timed='"ttl"' in json.dumps(described),
        keyed=len(keyed),
    )


MORE_FROM = 1_000_000


def random_program(seed: int, batch: bool = False) -> Described:
    """A program with keyed state; the same for the same seed. From MORE_FROM on they have the newer steps, too."""
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
        maker = _Wild if seed < MORE_FROM else _MoreWild
        made = maker(seed * 1000 + attempt, mode, shared).make()
        if seed >= MORE_FROM and not batch and chance.random() < 0.3:
            made["second"] = chance.choice([0, 1, 2, 4])
        if seed >= MORE_FROM and not batch and chance.random() < 0.2:
            made["asked"] = chance.randrange(len(made["steps"]))
        made["marks"] = chance.choice(["each", "each", "some", "none"]) if timed else "none"
        made["lag"] = chance.choice([0, 1, 100, 400])
        made.pop("end", None)
        found = traits(made)
        if found.keyed:
            return made
    raise AssertionError("no program")


def script(described: Described, second: bool = False) -> list[Any]:
    """The elements, with their watermarks; of a program with ``cut`` only the first so many items.

    Args:
        described: the program.
        second: those of its second source, which ends before the first: of its first elements every other, so many.
    """
    chance = random.Random(repr(described["id"]))
    items: list[Any] = []
    largest = mark = -1
    timed = described["time"] is not None
    others = described.get("second", 0)
    elements = described["elements"]
    for element in (
        elements[1 : 2 * others : 2] if second else [*elements[: 2 * others : 2], *elements[2 * others :]]
    ):
        value = pipelines.made(described["kind"], *element)
        items.append(At(value, element[2]) if timed else value)
        largest = max(largest, element[2])
        due = described["marks"] == "each" or (described["marks"] == "some" and chance.random() < 0.3)
        if timed and due and largest - described["lag"] - 1 > mark:
            mark = largest - described["lag"] - 1
            items.append(Watermark(mark))
    return items[: described.get("cut", len(items))]


class _Asked(AsyncFunction):
    """Gives each element after a while that depends on it, so that answers overtake each other."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(sum(map(ord, pipelines.shown(value))) % 3 / 1000)
        return [value]


class _Builder(pipelines.Builder):
    def source(self, described: Described) -> Any:
        kind = described["kind"]
        typed = pipelines.TYPES[kind]() if described["typed"] and kind in pipelines.TYPES else None
        streams = [
            self.env.from_source(
                ScriptedSource(script(described, second), typed),
                WatermarkStrategy.no_watermarks(),
                "source",
                typed,
            )
            for second in ([False, True] if "second" in described else [False])
        ]
        return streams[0].union(*streams[1:]) if streams[1:] else streams[0]


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
    for number, step in enumerate(described["steps"]):
        stream = pipelines._step(stream, step)
        if described.get("asked") == number:
            stream = AsyncDataStream.ordered_wait(stream, _Asked(), Time.seconds(60), 3, stream.get_type())
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
