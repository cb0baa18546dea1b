"""A job that counts visits, whose names SQL does not like, for tests of state history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from changelog_engine.history import History
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script


class Visits(KeyedProcessFunction):
    """Counts, keeps pages, and marks pages with a set; state names that SQL does not like."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("the count", Types.LONG()))
        self.pages = runtime_context.get_list_state(ListStateDescriptor("pages", Types.STRING()))
        page = Types.ROW_NAMED(["page", "at"], [Types.STRING(), Types.LONG()])
        self.last = runtime_context.get_state(ValueStateDescriptor("last`;--", page))
        undeclared = MapStateDescriptor("'${x}' \U0001f600/..", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        self.seen = runtime_context.get_map_state(undeclared)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.pages.add(value[1])
        self.last.update(
            Types.ROW_NAMED(["page", "at"], [Types.STRING(), Types.LONG()]).check((value[1], count))
        )
        self.seen.put(value[1], {count})
        if value[1] == "bye":
            self.count.clear()
            self.pages.clear()
            self.last.clear()
            self.seen.clear()
        yield value


VISITS = [("ann", "home"), ("bob", "news"), ("ann", "blog"), ("bob", "bye"), ("ann", "home"), ("bob", "home")]
UID = 'visits "of" \\ all'


def visited(
    base: Path, name: str = "visits", elements: Any = VISITS, function: Any = None, **more: Any
) -> TestJob:
    """A job with a checkpoint every two elements; by default of Visits."""
    job = TestJob(base, Script((2,)))
    graph = keyed_job(elements, function or Visits(), key_type=Types.STRING(), uid=UID, name=name, **more)
    job.run(graph)
    return job


def view_of(opened: History, state: str, changes: bool = False) -> str:
    views = next(views for views in opened.states if views.state == state)
    return f"{opened.database}.{views.history_view if changes else views.view}"
