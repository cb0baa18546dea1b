"""State history in Spark SQL. Re-exports only."""

from changelog_engine.history.history import History, open
from changelog_engine.history.registering import register
from changelog_engine.history.views import StateViews, TimerViews

__all__ = ["History", "StateViews", "TimerViews", "open", "register"]
