"""Keyed state: what a state backend is, the backends, and the handles that user functions hold."""

from changelog_engine.state import entry_bytes, identity_bytes
from changelog_engine.state.backend import StateBackend, StateKind, StateTable, TimerTable
from changelog_engine.state.timer_table import Timer

__all__ = [
    "StateBackend",
    "StateKind",
    "StateTable",
    "Timer",
    "TimerTable",
    "entry_bytes",
    "identity_bytes",
]
