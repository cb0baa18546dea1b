"""Jobs of one window operator over elements (key, timestamp, text)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api.common import Types
from api.datastream.window import WindowAssigner
from api.datastream.window_functions import WindowFunction
from changelog_engine.graph.nodes import JobGraph, NodeKind, StateKind
from changelog_engine.types import TypeInformation
from changelog_engine.windowing.spec import Firing, WindowSpec, contents_spec
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Script

UID = "window"
ANY = Types.PICKLED_BYTE_ARRAY()


class Texts(WindowFunction):
    """(key, start or id of the window, texts of its elements)."""

    def apply(self, key: Any, window: Any, inputs: list[Any]) -> Iterator[Any]:
        name = getattr(window, "start", getattr(window, "id", None))
        yield key, name, "".join(value[2] for value in inputs)


def spec(assigner: WindowAssigner, trigger: Any = None, function: Any = None, **more: Any) -> WindowSpec:
    """Windows that keep lists."""
    function = function or Texts()
    firing = more.pop("firing", Firing.PROCESS if hasattr(function, "process") else Firing.APPLY)
    trigger = trigger or assigner.get_default_trigger(None)
    return WindowSpec(assigner, trigger, contents_spec(StateKind.LIST, ANY), firing, function, **more)


def graph(
    elements: list[Any],
    windows: WindowSpec,
    *,
    timed: bool = True,
    key_type: TypeInformation | None = None,
    output_type: TypeInformation | None = None,
    aside: str | None = None,
) -> JobGraph:
    """Elements are (key, timestamp, text)."""
    build = GraphBuilder()
    stream = build.source(elements, uid="source")
    if timed:
        stream = build.timestamps(stream, lambda element: element[1])
    keyed = build.key_by(stream, lambda element: element[0], key_type)
    node = build.add(NodeKind.WINDOW, "windows", keyed, function=windows, uid=UID, output_type=output_type)
    build.collect(node)
    if aside is not None:
        build.collect(build.add(NodeKind.SIDE_OUTPUT, "aside", node, function=aside))
    return build.graph()


def outputs(base: Path, job_graph: JobGraph, sizes: tuple[int, ...] = (100,), **more: Any) -> list[list[Any]]:
    """What each sink got; ``sizes`` are those of epochs, after each of which the watermark advances."""
    job = TestJob(base, Script(sizes, failures=more.pop("failures", ())), **more)
    job.run(job_graph)
    return [job.outputs.get(node.id, []) for node in job_graph.nodes if node.kind is NodeKind.SINK]


def a(*elements: Any) -> list[Any]:
    """Elements of key a out of (time, text)."""
    return [("a", time, text) for time, text in elements]
