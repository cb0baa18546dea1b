"""A job is asked to stop by signal handlers, which run in the middle of whatever the driver's thread does."""

from __future__ import annotations

import itertools
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from changelog_engine.driver.control import JobControl


@pytest.mark.parametrize("waits", ["wait", "rest"])
def test_a_stop_at_any_instruction_of_a_wait_lets_it_end(waits: str) -> None:
    plan: Any = None
    for instruction in itertools.count():
        control = JobControl(None, plan, lambda _: None)
        thread = threading.Thread(target=wait_and_stop, args=(control, waits, instruction), daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive(), f"a stop at instruction {instruction} waits forever"
        if not control.stopping:  # the wait has no more instructions
            break
    assert instruction > 10


def wait_and_stop(control: JobControl, waits: str, instruction: int) -> None:
    """Wait, and ask for a stop in the middle of it, as a signal handler does."""
    left = instruction

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        if event == "opcode":
            if left == 0:
                sys.settrace(None)
                control.stop()
            left -= 1
        return traced

    sys.settrace(traced)
    try:
        getattr(control, waits)(5)
    finally:
        sys.settrace(None)
