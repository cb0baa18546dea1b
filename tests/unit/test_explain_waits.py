"""A long ``explain`` tells somebody at a terminal what is waited for, and nobody else."""

from __future__ import annotations

import io
import sys
import time

import pytest

import changelog_engine.cli.explain  # noqa: F401


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "told"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_long_one_is_told_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, told: bool
) -> None:
    module = sys.modules["changelog_engine.cli.explain"]
    monkeypatch.setattr(module, "_SLOW_S", 0.01)
    with module._told_if_slow(stream):
        time.sleep(0.2)
    assert ("--from and --at" in stream.getvalue()) is told


def test_a_short_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["changelog_engine.cli.explain"]
    monkeypatch.setattr(module, "_SLOW_S", 0.05)
    stream = Terminal()
    with module._told_if_slow(stream):
        pass
    time.sleep(0.1)
    assert stream.getvalue() == ""
