"""The order in which elements of async functions leave, for any order in which they are done."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from changelog_engine.operators.async_queue import OrderedQueue, QueueEntry, Signal, UnorderedQueue

PLANS = st.lists(st.sampled_from(["element", "signal", "done"]), max_size=60)


def played(queue: Any, plan: list[str], turns: st.DataObject) -> tuple[list[Any], list[Any]]:
    """Everything in the order in which it went in, and in which it left."""
    given: list[Any] = []
    waiting: list[QueueEntry] = []

    def finish() -> None:
        entry = waiting.pop(turns.draw(st.integers(0, len(waiting) - 1)))
        entry.done = True
        queue.completed(entry)

    for step in plan:
        if step == "element":
            entry = QueueEntry(len(given), None)
            given.append(entry)
            queue.add(entry)
            waiting.append(entry)
        elif step == "signal":
            signal = Signal(lambda: None)
            given.append(signal)
            queue.signal(signal)
        elif waiting:
            finish()
        left = [item for item in queue.ready if isinstance(item, QueueEntry)]
        assert queue.size == sum(isinstance(item, QueueEntry) for item in given) - len(left)
        assert all(entry.done for entry in left)
    while waiting:
        finish()
    return given, queue.ready


def segments(items: list[Any]) -> list[set[Any]]:
    """The elements between the signals."""
    found: list[set[Any]] = [set()]
    for item in items:
        if isinstance(item, Signal):
            found.append(set())
        else:
            found[-1].add(item)
    return found


@given(PLANS, st.data())
def test_ordered_leaves_as_it_came(plan: list[str], turns: st.DataObject) -> None:
    given, left = played(OrderedQueue(), plan, turns)
    assert left == given


@given(PLANS, st.data())
def test_unordered_never_passes_a_signal(plan: list[str], turns: st.DataObject) -> None:
    given, left = played(UnorderedQueue(), plan, turns)
    assert segments(left) == segments(given)
    assert [item for item in left if isinstance(item, Signal)] == [i for i in given if isinstance(i, Signal)]
    assert len(left) == len(given)


def test_unordered_leaves_as_it_is_done() -> None:
    queue = UnorderedQueue()
    entries = [QueueEntry(number, None) for number in range(3)]
    for entry in entries:
        queue.add(entry)
    for entry in reversed(entries):
        entry.done = True
        queue.completed(entry)
    assert queue.ready == entries[::-1]
