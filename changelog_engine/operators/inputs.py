"""The receiving side of a stage's exchanges: blocks in a fixed order, and the watermark over all channels.

Invariant: the stage's watermark is the smallest of its channels that are not idle, and never goes back.

A channel's block costs the same however many channels there are: all of them are looked at where the stage's watermark
advances, which is when none that is not idle is left behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from changelog_engine.changelog.small_state import KeptInputs
from changelog_engine.event_time import MIN_WATERMARK
from changelog_engine.operators.blocks import Block


class Inputs:
    """Watermarks of the channels of one subtask, by (edge id, upstream subtask)."""

    def __init__(self, channels: list[tuple[int, int]]) -> None:
        self.watermarks = dict.fromkeys(channels, MIN_WATERMARK)
        self.idle: set[tuple[int, int]] = set()
        self.current = MIN_WATERMARK
        self.moved = False  # since somebody last set it to False
        # Of those that are not idle, how many are not ahead of the stage's watermark.
        self._behind = len(channels)

    def advance(self, block: Block) -> int | None:
        """Take a block's watermark; returns the stage's new watermark where it advanced, else None."""
        channel = (block.edge, block.channel)
        before, was_idle, idle = self.watermarks[channel], channel in self.idle, block.idle
        watermark = max(before, block.watermark)
        if watermark == before and idle == was_idle:
            return None
        self.moved = True
        self.watermarks[channel] = watermark
        (self.idle.add if idle else self.idle.discard)(channel)
        self._behind += (not idle and watermark <= self.current) - (not was_idle and before <= self.current)
        if self._behind or self.all_idle:
            return None
        self.current = min(self._active())
        self._behind = self._count_behind()
        return self.current

    def _active(self) -> list[int]:
        return [watermark for name, watermark in self.watermarks.items() if name not in self.idle]

    def _count_behind(self) -> int:
        return sum(watermark <= self.current for watermark in self._active())

    @property
    def all_idle(self) -> bool:
        """Whether there are channels and none of them holds the watermark back."""
        return bool(self.watermarks) and len(self.idle) == len(self.watermarks)

    def snapshot(self) -> KeptInputs:
        """The watermarks as JSON."""
        channels = {f"{edge}/{channel}": watermark for (edge, channel), watermark in self.watermarks.items()}
        return {
            "current": self.current,
            "channels": channels,
            "idle": sorted(f"{edge}/{channel}" for edge, channel in self.idle),
        }

    def restore(self, state: KeptInputs | None) -> None:
        """Take back what snapshot() gave.

        With other channels of the same edges, time goes on from where it was; with other edges, it starts anew.
        """
        names = {f"{edge}/{channel}": (edge, channel) for edge, channel in self.watermarks}
        if state and set(state["channels"]) == set(names):
            for name, watermark in state["channels"].items():
                self.watermarks[names[name]] = watermark
            self.idle = {names[name] for name in state["idle"]}
            self.current = state["current"]
        elif state and {name.partition("/")[0] for name in state["channels"]} == {
            str(edge) for edge, _ in self.watermarks
        }:
            self.current = state["current"]
        self._behind = self._count_behind()


def merged_inputs(states: Sequence[KeptInputs]) -> KeptInputs:
    """What snapshot() gave in several subtasks, as one: the least of each.

    Args:
        states: of all subtasks of a stage, at one checkpoint; at least one.
    """
    names = dict.fromkeys(name for state in states for name in state["channels"])
    return {
        "current": min(state["current"] for state in states),
        "channels": {
            name: min(state["channels"].get(name, MIN_WATERMARK) for state in states) for name in names
        },
        "idle": sorted(set.intersection(*(set(state["idle"]) for state in states))),
    }
