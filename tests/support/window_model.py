"""What windows of event time must do, in plain lists, and the job that is to do it.

Elements are (key, timestamp, text). The combination of elements is their texts one after the other, so that an element
that was lost, repeated or reordered shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from api.common import Types
from api.datastream import AggregateFunction, OutputTag, ReduceFunction
from api.datastream.window import EventTimeSessionWindows, EventTimeTrigger, SlidingEventTimeWindows
from api.datastream.window_functions import ProcessWindowFunction, WindowFunction
from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK
from changelog_engine.graph.nodes import JobGraph, NodeKind, StateKind
from changelog_engine.types import TypeInformation
from changelog_engine.windowing.assigner import WindowAssigner
from changelog_engine.windowing.spec import Firing, WindowSpec, contents_spec
from support.graphs import GraphBuilder

Element = tuple[str, int, str]
Span = tuple[int, int]
UID = "window"
LATE = OutputTag("late")
ELEMENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])


class JoinElements(ReduceFunction):
    def reduce(self, value1: Element, value2: Element) -> Element:
        return value1[0], max(value1[1], value2[1]), value1[2] + value2[2]


class JoinTexts(AggregateFunction):
    def create_accumulator(self) -> str:
        return ""

    def add(self, value: Element, accumulator: str) -> str:
        return accumulator + value[2]

    def get_result(self, accumulator: str) -> str:
        return f"<{accumulator}>"

    def merge(self, acc_a: str, acc_b: str) -> str:
        return acc_a + acc_b


class Show(WindowFunction):
    def apply(self, key: str, window: Any, inputs: list[Any]) -> Iterator[Any]:
        yield key, (window.start, window.end), list(inputs)


class ShowWithContext(ProcessWindowFunction):
    def process(self, key: str, content: Any, elements: list[Any]) -> Iterator[Any]:
        yield key, (content.window().start, content.window().end), list(elements)


class AnyTrigger(EventTimeTrigger):
    """The same trigger as far as results go; the operator does not know that."""


@dataclass(frozen=True)
class Case:
    """Windows and what is done with their elements."""

    kind: StateKind
    firing: Firing
    size: int
    slide: int = 0  # 0: sessions with a gap of ``size``
    offset: int = 0
    lateness: int = 0

    def assigner(self) -> WindowAssigner:
        if not self.slide:
            return EventTimeSessionWindows(self.size)
        return SlidingEventTimeWindows(self.size, self.slide, self.offset)

    def spec(self, assigner: WindowAssigner | None = None, trigger: Any = None) -> WindowSpec:
        types: dict[StateKind, tuple[TypeInformation, Any]] = {
            StateKind.LIST: (ELEMENT, None),
            StateKind.REDUCING: (ELEMENT, JoinElements()),
            StateKind.AGGREGATING: (Types.STRING(), JoinTexts()),
        }
        functions = {Firing.EMIT: None, Firing.APPLY: Show(), Firing.PROCESS: ShowWithContext()}
        return WindowSpec(
            assigner or self.assigner(),
            trigger or EventTimeTrigger(),
            contents_spec(self.kind, *types[self.kind]),
            self.firing,
            functions[self.firing],
            self.lateness,
            LATE.tag_id,
        )

    def kept(self, elements: list[Element]) -> Any:
        """What state holds of a window's elements."""
        if self.kind is StateKind.LIST:
            return list(elements)
        texts = "".join(element[2] for element in elements)
        if self.kind is StateKind.AGGREGATING:
            return texts
        return elements[0][0], max(element[1] for element in elements), texts

    def result(self, key: str, span: Span, elements: list[Element]) -> Any:
        """What the window gives."""
        kept = self.kept(elements)
        if self.kind is StateKind.AGGREGATING:
            kept = f"<{kept}>"
        if self.firing is Firing.EMIT:
            return kept
        return key, span, kept if self.kind is StateKind.LIST else [kept]


@dataclass
class LiveWindow:
    """A window with elements, and the window under which state keeps them."""

    span: Span
    home: Span
    elements: list[Element] = field(default_factory=list)


class WindowModel:
    """The whole job, in epochs."""

    def __init__(self, case: Case, lag_ms: int | None) -> None:
        self.case = case
        self.lag_ms = lag_ms
        self.keys: dict[str, list[LiveWindow]] = {}
        self.output: dict[str, list[Any]] = {}
        self.late: list[Element] = []
        self.watermark = MIN_WATERMARK
        self.largest = MIN_WATERMARK

    def run(self, elements: list[Element], epochs: list[int]) -> list[dict[str, Any]]:
        """Process the elements in epochs of these sizes; returns the state after each epoch."""
        states, position = [], 0
        for size in epochs:
            for element in elements[position : position + size]:
                self.process(element)
            position += size
            self.advance(position >= len(elements))
            states.append(self.state())
        assert position == len(elements), "the job did not read its whole input"
        return states

    def process(self, element: Element) -> None:
        """One element."""
        self.largest = max(self.largest, element[1])
        windows = self.sessions(element) if not self.case.slide else self.aligned(element)
        for window in windows:
            window.elements.append(element)
            if window.span[1] - 1 <= self.watermark:
                self.fire(element[0], window)
        if not windows and element[1] + self.case.lateness <= self.watermark:
            self.late.append(element)

    def aligned(self, element: Element) -> list[LiveWindow]:
        """The windows of fixed times that take an element, the latest first."""
        case, live = self.case, self.keys.setdefault(element[0], [])
        taken = []
        for start in range(element[1], element[1] - case.size, -1):
            span = (start, start + case.size)
            if (start - case.offset) % case.slide == 0 and not self.gone(span):
                window = next((window for window in live if window.span == span), None)
                if window is None:
                    window = LiveWindow(span, span)
                    live.append(window)
                taken.append(window)
        return taken

    def sessions(self, element: Element) -> list[LiveWindow]:
        """The session that takes an element, merged with those it touches."""
        live = self.keys.setdefault(element[0], [])
        start, end = element[1], element[1] + self.case.size
        touched = sorted(
            (w for w in live if w.span[0] <= end and w.span[1] >= start), key=lambda window: window.span
        )
        if not touched:
            if self.gone((start, end)):
                return []
            session = LiveWindow((start, end), (start, end))
        else:
            span = min(start, touched[0].span[0]), max(end, touched[-1].span[1])
            session = LiveWindow(span, touched[0].home, [e for w in touched for e in w.elements])
        live[:] = [window for window in live if window not in touched]
        live.append(session)
        return [session]

    def gone(self, span: Span) -> bool:
        """Whether a window takes no elements any more."""
        return span[1] - 1 + self.case.lateness <= self.watermark

    def fire(self, key: str, window: LiveWindow) -> None:
        """A window gives its result."""
        self.output.setdefault(key, []).append(self.case.result(key, window.span, window.elements))

    def advance(self, last: bool) -> None:
        """The watermark at the end of an epoch."""
        reached = self.watermark
        if last:
            reached = MAX_WATERMARK
        elif self.lag_ms is not None and self.largest != MIN_WATERMARK:
            reached = max(reached, self.largest - self.lag_ms - 1)
        before, self.watermark = self.watermark, reached
        for key, live in self.keys.items():
            for window in sorted(live, key=lambda window: window.span[1]):
                if before < window.span[1] - 1 <= reached:
                    self.fire(key, window)
            live[:] = [window for window in live if not self.gone(window.span)]

    def state(self) -> dict[str, Any]:
        """Contents by (key, namespace), timers, and for sessions where elements are kept."""
        contents, timers, homes = {}, set(), {}
        for key, live in self.keys.items():
            for window in live:
                contents[key, text(window.home)] = self.case.kept(window.elements)
                homes.setdefault(key, {})[text(window.span)] = text(window.home)
                for time in {window.span[1] - 1, window.span[1] - 1 + self.case.lateness}:
                    if time > self.watermark:
                        timers.add((time, (key, text(window.span))))
        return {
            "contents": contents,
            "timers": sorted(timers),
            "homes": {} if self.case.slide else homes,
        }


def text(span: Span) -> str:
    """A window in the log."""
    return f"[{span[0]},{span[1]}]"


def window_job(
    elements: list[Element], spec: WindowSpec, lag_ms: int | None, parallelism: int = 1
) -> JobGraph:
    """source -> timestamps -> key_by -> windows -> collect; late elements to a sink of their own, the last node."""
    build = GraphBuilder(parallelism=parallelism)
    stream = build.timestamps(build.source(elements, uid="source"), at, lag_ms)
    keyed = build.key_by(stream, key_of, Types.STRING())
    windows = build.add(NodeKind.WINDOW, "window", keyed, function=spec, uid=UID)
    build.collect(windows)
    build.collect(build.add(NodeKind.SIDE_OUTPUT, "late", windows, function=LATE.tag_id))
    return build.graph()


def at(element: Element) -> int:
    """The timestamp."""
    return element[1]


def key_of(element: Element) -> str:
    """The key."""
    return element[0]
