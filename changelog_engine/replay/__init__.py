"""A recorded piece of a job's history, run again by the code as it is now and compared. Re-exports only."""

from changelog_engine.replay.compare import Difference
from changelog_engine.replay.job import ReplayReport, replay_graph, replay_job

__all__ = ["Difference", "ReplayReport", "replay_graph", "replay_job"]
