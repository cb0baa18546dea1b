"""A job that counts and sets timers of both kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api.common import Types
from api.datastream import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script

FAR_MS = 10**14  # in the year 5138


class Remind(KeyedProcessFunction):
    """Counts elements (key, milliseconds); each sets a timer that sets a far one, and one of processing time."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 1)
        ctx.timer_service().register_processing_time_timer(10 * FAR_MS)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        if timestamp < FAR_MS:
            ctx.timer_service().register_event_time_timer(FAR_MS + timestamp)


def reminded(base: Path) -> TestJob:
    """A job of the keys ann and bob with four checkpoints; at its end the watermark fires all timers of event time."""
    job = TestJob(base, Script((2,)))
    elements = [(key, time * 1000) for time in range(1, 5) for key in ("ann", "bob")]
    timestamp = lambda each: each[1]  # noqa: E731
    job.run(keyed_job(elements, Remind(), key_type=Types.STRING(), uid="remind", timestamp=timestamp))
    return job
