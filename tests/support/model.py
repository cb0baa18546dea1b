"""What a job of ``Operations`` must do, in plain dicts: no log, no checkpoints, no subtasks."""

from __future__ import annotations

import copy
from typing import Any

from changelog_engine.event_time import MAX_WATERMARK, MIN_WATERMARK
from support.operations import CANCEL, CHAIN, CHAIN_STEP, Element
from support.profiles import PROFILES, Profile
from support.same import exact

UID = "process"


class KeyModel:
    """All states of one key."""

    def __init__(self, key: Any, profile: Profile) -> None:
        self.key = key
        self.profile = profile
        self.cells: dict[str, Any] = {}
        self.list: list[Any] = []
        self.map: dict[Any, tuple[Any, Any]] = {}
        self.timers: set[int] = set()
        self.output: list[Any] = []

    def process(self, element: Element, watermark: int) -> None:
        """One element."""
        _, timestamp, operations = element
        for what, *arguments in operations:
            result = self.perform(what, copy.deepcopy(arguments), timestamp, watermark)
            self.output.append((self.key, timestamp, what, copy.deepcopy(result)))

    def fire(self, until: int) -> None:
        """The watermark passes a time."""
        while self.timers and min(self.timers) <= until:
            timestamp = min(self.timers)
            self.timers.remove(timestamp)
            self.list.append(self.profile.mark(timestamp))
            if timestamp % CHAIN == 0:
                self.timers.add(timestamp + CHAIN_STEP)
            if timestamp % CANCEL == 0:
                self.timers.discard(timestamp + 1)
            self.output.append((self.key, timestamp, "fired", (timestamp, "EVENT_TIME")))

    def perform(self, what: str, arguments: list[Any], timestamp: int, watermark: int) -> Any:
        """One operation."""
        if what == "register":
            self.timers.add(timestamp + arguments[0])
            return None
        if what == "delete":
            self.timers.discard(timestamp + arguments[0])
            return None
        if what == "watermark":
            return watermark
        state, _, call = what.partition(".")
        if state == "list":
            return self._on_list(call, arguments)
        if state == "map":
            return self._on_map(call, arguments)
        return self._on_cell(state, call, arguments)

    def _on_cell(self, state: str, call: str, arguments: list[Any]) -> Any:
        cells, functions = self.cells, self.profile
        if call == "clear" or (call == "update" and arguments[0] is None):
            cells.pop(state, None)
        elif call == "update":
            cells[state] = arguments[0]
        elif call == "value" or (call == "get" and state == "reducing"):
            return cells.get(state)
        elif call == "get":
            return functions.aggregate.get_result(cells[state]) if state in cells else None
        elif state == "reducing":
            cells[state] = (
                functions.reduce.reduce(cells[state], arguments[0]) if state in cells else arguments[0]
            )
        else:
            before = cells[state] if state in cells else functions.aggregate.create_accumulator()
            cells[state] = functions.aggregate.add(arguments[0], before)
        return None

    def _on_list(self, call: str, arguments: list[Any]) -> Any:
        if call == "get":
            return list(self.list)
        if call == "add":
            self.list.append(arguments[0])
        elif call == "add_all":
            self.list.extend(arguments[0])
        else:
            self.list = arguments[0] if call == "update" else []
        return None

    def _on_map(self, call: str, arguments: list[Any]) -> Any:
        entries = self.map
        if call in ("put", "put_all"):
            for key, value in arguments[0] if call == "put_all" else [arguments]:
                entries[exact(key)] = key, value
        elif call == "remove":
            entries.pop(exact(arguments[0]), None)
        elif call == "clear":
            entries.clear()
        elif call == "contains":
            return exact(arguments[0]) in entries
        elif call == "get":
            return entries.get(exact(arguments[0]), (None, None))[1]
        elif call == "is_empty":
            return not entries
        else:
            pairs = list(entries.values())
            return {"items": pairs, "keys": [k for k, _ in pairs], "values": [v for _, v in pairs]}[call]
        return None


class Model:
    """The whole job.

    Args:
        profile: name in PROFILES.
        lag_ms: of the watermark behind the largest timestamp; None for no watermark before the end.
    """

    def __init__(self, profile: str, lag_ms: int | None) -> None:
        self.profile = PROFILES[profile]
        self.lag_ms = lag_ms
        self.keys: dict[Any, KeyModel] = {}
        self.watermark = MIN_WATERMARK
        self.largest = MIN_WATERMARK

    def run(self, elements: list[Element], epochs: list[int]) -> list[dict[tuple[str, str], Any]]:
        """Process the elements in epochs of these sizes; returns the state after each epoch."""
        states, position = [], 0
        for size in epochs:
            self.epoch(elements[position : position + size], position + size >= len(elements))
            position += size
            states.append(self.state())
        assert position == len(elements), "the job did not read its whole input"
        return states

    def epoch(self, elements: list[Element], last: bool) -> None:
        """One epoch; the watermark advances at its end."""
        for element in elements:
            key = exact(element[0])
            if key not in self.keys:
                self.keys[key] = KeyModel(element[0], self.profile)
            self.keys[key].process(element, self.watermark)
            self.largest = max(self.largest, element[1])
        reached = self.watermark
        if last:
            reached = MAX_WATERMARK
        elif self.lag_ms is not None and self.largest != MIN_WATERMARK:
            reached = max(reached, self.largest - self.lag_ms - 1)
        if reached > self.watermark:
            self.watermark = reached
            for model in self.keys.values():
                model.fire(reached)

    def output(self) -> dict[Any, list[Any]]:
        """What the job gives, by key."""
        return {key: [exact(out) for out in model.output] for key, model in self.keys.items()}

    def state(self) -> dict[tuple[str, str], Any]:
        """In the form of support.live."""
        state: dict[tuple[str, str], Any] = {}
        for key, model in self.keys.items():
            for name, value in model.cells.items():
                state.setdefault((UID, name), {})[key] = copy.deepcopy(value)
            if model.list:
                state.setdefault((UID, "list"), {})[key] = copy.deepcopy(model.list)
            if model.map:
                state.setdefault((UID, "map"), {})[key] = copy.deepcopy(list(model.map.values()))
            timers = [(timestamp, key) for timestamp in model.timers]
            state.setdefault((UID, "__event_time_timers"), []).extend(timers)
        return {
            name: entries if isinstance(entries, dict) else sorted(entries)
            for name, entries in state.items()
            if entries
        }


def by_key(output: list[Any]) -> dict[Any, list[Any]]:
    """Collected output by key, in order."""
    found: dict[Any, list[Any]] = {}
    for element in output:
        found.setdefault(exact(element[0]), []).append(exact(element))
    return found


def pictured(state: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """A state in which classes and order count when it is compared; keys have no order."""
    return {
        name: {key: exact(value) for key, value in entries.items()} if isinstance(entries, dict) else entries
        for name, entries in state.items()
    }
