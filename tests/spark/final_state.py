"""What a finished counting job must have left in its log."""

from __future__ import annotations

from pathlib import Path

from materializer.fold import state_at


def assert_counted_once(table: Path, numbers: int, keys: int) -> None:
    """Every number was counted exactly once, by key and then by the parity of that count."""
    folded = state_at(str(table))
    assert folded.checkpoint.finished
    by_key = folded.states["by key", "count"]
    expected = {key: len(range(key, numbers, keys)) for key in range(keys)}
    assert by_key == expected
    odd = sum((count + 1) // 2 for count in expected.values())
    assert folded.states["by parity", "count"] == {1: odd, 0: numbers - odd}
