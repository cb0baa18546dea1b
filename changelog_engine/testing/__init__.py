"""Tests of users' jobs without Spark: a harness for one operator, a source that follows a script, jobs in this process."""

from changelog_engine.connectors.scripted import (
    At,
    Checkpoint,
    Crash,
    Pause,
    ScriptedCrashError,
    ScriptedSource,
    Watermark,
)
from changelog_engine.in_process.capture import without_spark
from changelog_engine.replay.compare import Difference
from changelog_engine.replay.job import ReplayReport, replay_job
from changelog_engine.replay.log_rows import Mutation
from changelog_engine.testing.harness import HarnessSnapshot, OperatorHarness
from changelog_engine.testing.keyed_harness import KeyedCoHarness, KeyedHarness

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
