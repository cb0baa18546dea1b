"""TimeDomain: which clock a timer follows."""

from changelog_engine.state.timers import TimeDomain

__all__ = ["TimeDomain"]
