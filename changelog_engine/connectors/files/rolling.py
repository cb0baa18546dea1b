"""When a part file ends and the next one begins."""

from __future__ import annotations

from dataclasses import dataclass

from changelog_engine.clock import MonotonicMs

PART_BYTES = 128 * 1024 * 1024
INTERVAL_MS = 60_000


@dataclass(frozen=True)
class Rolling:
    """A rolling policy.

    Args:
        part_bytes: a file that has more is not written any further; None for any size.
        rollover_ms: how long a file stays open at most; None for any time.
        inactivity_ms: how long a file stays open that nothing is written to; None for any time.
        on_checkpoint: every checkpoint ends the files.
    """

    part_bytes: int | None = PART_BYTES
    rollover_ms: int | None = INTERVAL_MS
    inactivity_ms: int | None = INTERVAL_MS
    on_checkpoint: bool = False

    def is_full(self, size: int) -> bool:
        """Whether a file of this size is full."""
        return self.part_bytes is not None and size > self.part_bytes

    def is_due(self, created_ms: MonotonicMs, updated_ms: MonotonicMs, now_ms: MonotonicMs) -> bool:
        """Whether the time of a file is over."""
        return (self.rollover_ms is not None and now_ms - created_ms >= self.rollover_ms) or (
            self.inactivity_ms is not None and now_ms - updated_ms >= self.inactivity_ms
        )


ON_CHECKPOINT = Rolling(None, None, None, True)
