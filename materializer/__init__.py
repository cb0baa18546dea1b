"""What becomes of the log: folding it into the state it describes."""

from materializer.entries import StateEntries
from materializer.fold import FoldedState, state_at

__all__ = ["FoldedState", "StateEntries", "state_at"]
