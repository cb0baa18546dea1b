"""Tests of users' jobs without Spark: a harness for one operator, a source that follows a script, jobs in this process."""

from changelog_engine.testing.capture import without_spark
from changelog_engine.testing.harness import HarnessSnapshot, OperatorHarness
from changelog_engine.testing.keyed_harness import KeyedCoHarness, KeyedHarness
from changelog_engine.testing.log_rows import Mutation
from changelog_engine.testing.replay import ReplayReport, replay_job
from changelog_engine.testing.replay_compare import Difference
from changelog_engine.testing.scripted_source import (
    At,
    Checkpoint,
    Crash,
    Pause,
    ScriptedCrashError,
    ScriptedSource,
    Watermark,
)

__all__ = [
    "At",
    "Checkpoint",
    "Crash",
    "Difference",
    "HarnessSnapshot",
    "KeyedCoHarness",
    "KeyedHarness",
    "Mutation",
    "OperatorHarness",
    "Pause",
    "ReplayReport",
    "ScriptedCrashError",
    "ScriptedSource",
    "Watermark",
    "replay_job",
    "without_spark",
]
