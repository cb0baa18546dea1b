"""State history in Spark SQL. Re-exports only."""

from changelog_engine.history.history import History, StateViews, open

__all__ = ["History", "StateViews", "open"]
