"""What the console says of states, changes and differences, against a model that keeps every state of every branch.

The lives of ``support.branches``: rewinds, forks, savepoints, merged and truncated logs.
"""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.branches import World
from support.operations import inputs
from support.profiles import PROFILES
from support.same import exact

from changelog_engine.inspection.differences import ADDED, CHANGED, REMOVED, Differences, differences
from changelog_engine.inspection.key_history import KeyChange, key_history
from changelog_engine.inspection.moments import KeysAt, StateOverTime
from changelog_engine.inspection.points import open_ledger
from changelog_engine.inspection.states import entries_at
from changelog_engine.inspection.timeline import Timeline
from changelog_engine.ledger.points import checkpoint_at
from changelog_engine.state.backend import EVENT_TIMERS, PROCESSING_TIMERS
from changelog_engine.ui.opened_job import OpenedJob, States

STEPS = ("run", "rewind", "rewind", "materialize", "truncate", "fork", "savepoint")
TIMERS = (EVENT_TIMERS, PROCESSING_TIMERS)

Held = dict[tuple[str, str], dict[Any, Any]]


def states_of(held: Any) -> Held:
    """What a model holds, without timers."""
    return {name: entries for name, entries in held.items() if name[1] not in TIMERS}


def pictured(state: str, value: Any) -> Any:
    """A value as the model has it: of a map state, which alone is a mapping of entries, pairs."""
    return exact(list(value.items()) if state == "map" else value)


def shown_at(path: str, at: int) -> Held:
    found: Held = {}
    for entry in entries_at(path, at, allow_pickle=True).entries:
        value = pictured(entry.state, entry.value)
        found.setdefault((entry.operator, entry.state), {})[exact(entry.key)] = value
    return found


def replayed(changes: tuple[KeyChange, ...], key: Any) -> dict[tuple[str, str], Any]:
    """What the changes of a key leave; each must begin with what the one before left."""
    left: dict[tuple[str, str], Any] = {}
    maps: dict[tuple[str, str], dict[Any, tuple[Any, Any]]] = {}
    for change in changes:
        name = (change.operator, change.state)
        if change.kind == "timer" or exact(change.key) != exact(key):
            continue
        if change.kind == "map":
            entries = maps.setdefault(name, {})
            if change.operation == "clear":
                entries.clear()
            else:
                place = exact(change.map_key)
                before = (
                    entries.pop(place, None)
                    if change.after is None and change.operation == "remove"
                    else entries.get(place)
                )
                assert exact(change.before) == exact(None if before is None else before[1])
                if change.operation != "remove":
                    entries[place] = (change.map_key, change.after)
            left[name] = exact(list(entries.values())) if entries else None
        else:
            plain = [
                list(each) if change.kind == "list" and each is not None else each
                for each in (change.before, change.after)
            ]
            assert exact(plain[0]) == left.get(name, exact(None)) or (
                left.get(name) is None and plain[0] is None
            )
            gone = change.operation == "clear"
            left[name] = None if gone else exact(plain[1])
    return {name: value for name, value in left.items() if value is not None}


def check_difference(found: Differences, before: Held, after: Held, pickles: bool) -> None:
    for state in found.states:
        assert state.uncompared is None
        if state.kind == "timer":  # what is held has none; unit/test_console.py compares them
            continue
        name = (state.operator, state.state)
        old, new = before.get(name, {}), after.get(name, {})
        if state.kind == "map":
            keys = {exact(entry.key) for entry in state.entries}
            differing = {
                key for key in {*old, *new} if old.get(key) != new.get(key) and _unordered(old, new, key)
            }
            assert differing <= keys
            assert pickles or all(old.get(key) != new.get(key) for key in keys)
            continue
        told = {exact(entry.key): entry for entry in state.entries}
        assert {key for key, entry in told.items() if entry.change == ADDED} == set(new) - set(old)
        assert {key for key, entry in told.items() if entry.change == REMOVED} == set(old) - set(new)
        changed = {key for key, entry in told.items() if entry.change == CHANGED}
        differing = {key for key in set(old) & set(new) if old[key] != new[key]}
        assert differing <= changed
        assert pickles or differing == changed
        for key, entry in told.items():
            assert entry.change == ADDED or exact(entry.before) == old[key]
            assert entry.change == REMOVED or exact(entry.after) == new[key]


def _unordered(old: Any, new: Any, key: Any) -> bool:
    """Whether a map differs in more than the order of its entries."""
    return sorted(map(repr, _items(old.get(key)))) != sorted(map(repr, _items(new.get(key))))


def _items(pictured_map: Any) -> list[Any]:
    return [] if pictured_map is None else list(pictured_map[1])


@settings(max_examples=8)
@given(data=st.data())
def test_states_changes_and_differences_are_those_of_a_model(data: st.DataObject) -> None:
    profile = data.draw(st.sampled_from(sorted(PROFILES)), "profile")
    elements = data.draw(inputs(profile, max_elements=16), "elements")
    keys = list({repr(exact(element[0])): element[0] for element in elements}.values())
    with tempfile.TemporaryDirectory() as base:
        world = World(f"{base}/jobs", profile, elements, data.draw, checks=False)
        for what in ["run", *data.draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=5), "steps")]:
            world.step(what)
        for name, held in world.held.items():
            path = f"{world.base}/{name}"
            rows = world.checkpoints(name) if held else []
            for row in rows:
                wanted = states_of(held[row.attempt, row.id])
                assert shown_at(path, row.id) == wanted, f"{name}, checkpoint {row.id}"
            if not rows:
                continue
            check_moments(path, rows, held, world.pick(rows))
            one, two = world.pick(rows), world.pick(rows)
            old, new = (states_of(held[row.attempt, row.id]) for row in (one, two))
            found = differences(path, str(one.id), str(two.id), limit=1_000_000, allow_pickle=True)
            check_difference(found, old, new, pickles=profile == "undeclared")
            for key in keys[:3]:
                history = key_history(
                    path, key if isinstance(key, str) else repr(key), at=two.id, allow_pickle=True
                )
                wanted = {
                    state: entries[exact(key)] for state, entries in new.items() if exact(key) in entries
                }
                assert replayed(history.changes, key) == wanted, f"{name}, {key!r} at checkpoint {two.id}"
                late = key_history(
                    path,
                    key if isinstance(key, str) else repr(key),
                    at=two.id,
                    start=one.id,
                    allow_pickle=True,
                )
                told = [each for each in history.changes if each.checkpoint >= one.id]
                assert exact(late.changes) == exact(tuple(told)), f"{name}, {key!r}, {one.id} to {two.id}"
            check_timeline(path, rows)


def check_moments(path: str, rows: Any, held: Any, tip: Any) -> None:
    """The page's slider: what one reading of a branch says of every moment on it."""
    ledger = open_ledger(path)
    names = [(each.uid, state.name) for each in tip.operators for state in each.states]
    for operator, state in names:
        whole = StateOverTime(ledger, tip, operator, state)
        newest = StateOverTime(ledger, tip, operator, state, since=tip)
        remembered, job = States(), OpenedJob(path)
        moments = [row for row in rows if whole.covers(row)]
        assert tip in moments
        for row in reversed(moments):
            # What the page has read by now, which is less than all until an old moment is asked for.
            asked = remembered.get(job, row, operator, state)
            assert asked.covers(row)
            page = whole.page(row, limit=1_000)
            for less in [asked, newest] if newest.covers(row) else [asked]:
                shown = less.page(row, limit=1_000)
                # Another branch may have a pickle later, and then values are withheld at each of its moments.
                if page.withheld is None and shown.withheld is None:
                    assert entries_of(shown) == entries_of(page)
            there = {exact(key.key): key for key in page.keys if key.entries}
            wanted = states_of(held[row.attempt, row.id]).get((operator, state), {})
            assert len(page.keys) == page.total == page.ever >= len(there)
            if page.withheld is None:
                found = {key: pictured(state, each.entries[0][1]) for key, each in there.items()}
                assert found == wanted, f"{operator} {state}, checkpoint {row.id} on the way to {tip.id}"


def entries_of(page: KeysAt) -> Any:
    """What is there at a moment. Keys that were gone before the oldest moment that is read are not listed."""
    assert page.withheld is None
    return [(exact(key.key), exact(key.entries)) for key in page.keys if key.entries]


def check_timeline(path: str, rows: Any) -> None:
    timeline = Timeline(path)
    lineage = open_ledger(path).lineage
    assert timeline.ids == [row.id for row in rows]
    newest = lineage.newest_checkpoint()
    assert newest is not None
    for row, shown in zip(rows, timeline.checkpoints(details=True), strict=True):
        assert (shown.id, shown.attempt, shown.parent) == (row.id, row.attempt, row.parent)
        assert (shown.time_ms, shown.bytes, shown.rows) == (row.time_ms, row.bytes, row.rows)
        assert shown.on_line == any(
            s.attempt == row.attempt and s.first <= row.id <= s.last for s in newest.lineage
        )
    line = [shown.id for shown in timeline.checkpoints() if shown.on_line]
    for back, number in enumerate(reversed(line), 1):
        assert checkpoint_at(lineage, f"-{back}").id == number
