"""What becomes of the log: folding it into the state it describes."""

from materializer.fold import FoldedState, state_at

__all__ = ["FoldedState", "state_at"]
